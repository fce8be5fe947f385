"""Tables of the experiments: selection, and the way over the disk."""

import numpy as np
import pytest

from lemmax.experiments.harness import Table


def test_a_table_survives_the_disk_to_the_last_bit(tmp_path):
    table = Table(
        {
            "method": ["LMM", 'a, "b"', "λ\n"],
            "rank": [1, -2, 2**60],
            "error": [0.1 + 0.2, 5e-324, float("inf")],
            "whole": [1.0, 1e300, -0.0],
            "ticked": [True, False, True],
            "missing": [float("nan")] * 3,
        }
    )
    table.write(tmp_path / "t.csv")
    back = Table.read(tmp_path / "t.csv")
    assert back.names == table.names
    for name in table.names:
        assert back.column(name).dtype.kind == table.column(name).dtype.kind
        np.testing.assert_array_equal(back.column(name), table.column(name))
    assert np.signbit(back.column("whole")[2])
    back.write(tmp_path / "again.csv")
    assert (tmp_path / "again.csv").read_bytes() == (tmp_path / "t.csv").read_bytes()


def test_tables_are_selected_grouped_and_joined():
    table = Table.from_rows(
        {"method": m, "rank": r, "error": e}
        for m, r, e in [("SM", 2, 0.5), ("LMM", 2, 0.1), ("SM", 5, 0.7), ("SM", 2, 0.4)]
    )
    assert len(table) == 4
    assert table.unique("method") == ["SM", "LMM"]
    np.testing.assert_array_equal(table.where(method="SM", rank=2).column("error"), [0.5, 0.4])
    sizes = {key: len(rows) for key, rows in table.groups("method", "rank")}
    assert sizes == {("SM", 2): 2, ("LMM", 2): 1, ("SM", 5): 1}
    assert len(Table.concatenate([table, table.where(rank=9), table])) == 8
    assert table.rows()[1] == {"method": "LMM", "rank": 2, "error": 0.1}


def test_bad_tables_are_refused():
    with pytest.raises(ValueError, match="equal lengths"):
        Table({"a": [1], "b": [1, 2]})
    with pytest.raises(ValueError, match="one dimension"):
        Table({"a": np.zeros((2, 2))})
    with pytest.raises(ValueError, match="texts of numbers"):
        Table({"a": ["1", "2.5"]})
    with pytest.raises(TypeError, match="object"):
        Table({"a": [None, 1]})
    with pytest.raises(ValueError, match="same columns"):
        Table.from_rows([{"a": 1}, {"b": 1}])
    with pytest.raises(ValueError, match="Cannot join"):
        Table.concatenate([Table({"a": [1]}), Table({"b": [1]})])
    with pytest.raises(KeyError, match="there are"):
        Table({"a": [1]}).column("b")
