"""What several files of tests need."""

import numpy as np
import pytest

from lemmax.estimators import RobustPCA
from tests.tables import spoiled_table


@pytest.fixture(scope="session")
def cleaned():
    """A table as it should be, as it is, and the model that was fitted to it."""
    truth, table = spoiled_table(np.random.default_rng(0))
    return truth, table, RobustPCA().fit(table)


@pytest.fixture
def table_file(tmp_path):
    rng = np.random.default_rng(0)
    truth = 5 + rng.standard_normal((60, 2)) @ rng.standard_normal((2, 25))
    spoiled = truth.copy()
    spoiled[3, 4], spoiled[10, 2] = 99.0, np.nan
    path = tmp_path / "table.csv"
    lines = ["day," + ",".join(f"c{k}" for k in range(25))]
    lines += [
        f"d{k}," + ",".join("" if np.isnan(v) else repr(float(v)) for v in row)
        for k, row in enumerate(spoiled)
    ]
    path.write_text("\n".join(lines) + "\n")
    return path, truth


@pytest.fixture
def tensor_file(tmp_path):
    rng = np.random.default_rng(2)
    tensor = np.einsum("ir,jr,kr->ijk", *(rng.standard_normal((d, 2)) for d in (7, 6, 5)))
    tensor[1, 2, 3] = 40.0
    np.save(tmp_path / "tensor.npy", tensor)
    return tmp_path / "tensor.npy"
