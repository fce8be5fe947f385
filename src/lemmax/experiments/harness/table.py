"""Tables of measurements that are stored without loss."""

import csv
import io
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..._files import save_text

Cell = str | bool | int | float


class Table:
    """Named columns of equal length: strings, booleans, integers or floats.

    Parameters
    ----------
    columns : dict
        Names with sequences of numbers or strings.

    Examples
    --------
    >>> from lemmax.experiments.harness import Table
    >>> table = Table({"method": ["LMM", "LMM", "SM"], "error": [1.0, 0.25, 1.0]})
    >>> table.where(method="LMM").column("error")
    array([1.  , 0.25])
    >>> table.unique("method")
    ['LMM', 'SM']
    """

    def __init__(self, columns: Mapping[str, Any]):
        self._columns = {name: _as_column(name, entries) for name, entries in columns.items()}
        lengths = {name: len(column) for name, column in self._columns.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"The columns of a table must have equal lengths; got {lengths}.")

    @classmethod
    def from_rows(cls, rows: Iterable[Mapping[str, Cell]]) -> "Table":
        """From one dict per row, all with the same keys."""
        rows = list(rows)
        names = list(rows[0]) if rows else []
        for row in rows:
            if set(row) != set(names):
                raise ValueError(
                    f"All rows must have the same columns; got {sorted(row)} and {names}."
                )
        return cls({name: [row[name] for row in rows] for name in names})

    @classmethod
    def concatenate(cls, tables: Sequence["Table"]) -> "Table":
        """Stack tables with the same columns."""
        # An empty table from a file has no column types.
        filled = [table for table in tables if len(table)] or list(tables[:1])
        names = filled[0].names if filled else []
        for table in filled:
            if set(table.names) != set(names):
                raise ValueError(f"Cannot join tables with columns {names} and {table.names}.")
        return cls({n: np.concatenate([table.column(n) for table in filled]) for n in names})

    @property
    def names(self) -> list[str]:
        """Names of the columns, in order."""
        return list(self._columns)

    def __len__(self) -> int:
        return len(next(iter(self._columns.values()), ()))

    def column(self, name: str) -> np.ndarray:
        """The entries of one column."""
        if name not in self._columns:
            raise KeyError(f"There is no column {name!r}; there are {self.names}.")
        return self._columns[name]

    def where(self, **wanted: Cell) -> "Table":
        """The rows with the given entries, for instance ``where(method="LMM", rank=5)``."""
        chosen = np.ones(len(self), bool)
        for name, entry in wanted.items():
            chosen &= self.column(name) == entry
        return self._take(chosen)

    def unique(self, name: str) -> list[Any]:
        """The distinct entries of a column, in order of appearance, as Python objects."""
        return list(dict.fromkeys(self.column(name).tolist()))

    def groups(self, *names: str) -> Iterable[tuple[tuple[Any, ...], "Table"]]:
        """Combinations of entries of some columns with their rows, in order of appearance.

        Examples
        --------
        >>> from lemmax.experiments.harness import Table
        >>> table = Table({"method": ["LMM", "SM", "LMM"], "error": [1.0, 2.0, 3.0]})
        >>> [(key, len(rows)) for key, rows in table.groups("method")]
        [(('LMM',), 2), (('SM',), 1)]
        """
        members: dict[tuple[Any, ...], list[int]] = {}
        keys = zip(*(self.column(name).tolist() for name in names), strict=True)
        for row, key in enumerate(keys):
            members.setdefault(key, []).append(row)
        for key, rows in members.items():
            yield key, self._take(np.asarray(rows))

    def rows(self) -> list[dict[str, Any]]:
        """One dict per row."""
        entries = zip(*(column.tolist() for column in self._columns.values()), strict=True)
        return [dict(zip(self._columns, row, strict=True)) for row in entries]

    def write(self, path: pathlib.Path) -> None:
        """Write as CSV, atomically; equal tables give equal bytes."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self._columns)
        # Python's repr is the shortest text that reads back as the same number.
        columns = [
            [entry if isinstance(entry, str) else repr(entry) for entry in column.tolist()]
            for column in self._columns.values()
        ]
        writer.writerows(zip(*columns, strict=True))
        save_text(path, text.getvalue())

    @classmethod
    def read(cls, path: pathlib.Path) -> "Table":
        """Read a file that `write` wrote: the same names, types and numbers, bitwise."""
        with path.open(newline="", encoding="utf-8") as file:
            header, *rows = list(csv.reader(file)) or [[]]
        columns = zip(*rows, strict=True) if rows else [()] * len(header)
        return cls({name: _parse(texts) for name, texts in zip(header, columns, strict=True)})

    def _take(self, rows: np.ndarray) -> "Table":
        return Table({name: column[rows] for name, column in self._columns.items()})


def _as_column(name: str, entries: Any) -> np.ndarray:
    column = np.asarray(entries)
    if column.ndim != 1:
        raise ValueError(f"Column {name!r} has shape {column.shape}; columns have one dimension.")
    if column.dtype.kind == "f":
        return column.astype(np.float64)
    if column.dtype.kind in "iu":
        return column.astype(np.int64)
    if column.dtype.kind == "U" and column.size and _parse(column.tolist()).dtype.kind != "U":
        raise ValueError(f"Column {name!r} contains texts of numbers only; pass the numbers.")
    if column.dtype.kind not in "bU":
        raise TypeError(f"Column {name!r} has type {column.dtype}; use strings or real numbers.")
    return column


def _parse(texts: Sequence[str]) -> np.ndarray:
    """Integers if possible, then booleans, floats, strings."""
    if all(text in ("True", "False") for text in texts) and texts:
        return np.asarray([text == "True" for text in texts])
    for kind in (int, float):
        try:
            return np.asarray([kind(text) for text in texts])
        except ValueError:
            continue
    return np.asarray(texts, np.str_)
