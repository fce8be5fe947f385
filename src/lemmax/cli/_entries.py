"""Lists of entries whose rows and columns have names: ratings, say."""

import pathlib
from typing import Any, NamedTuple

import numpy as np

from ._files import Refusal
from ._readiness import counted
from ._reading import as_numbers, read_columns

Listing = tuple[list[str], list[list[Any]]]
"""The header and the rows of a csv file."""
_UNKNOWN = -1
WRONG = ("was", "should be")
"""What is told of wrong entries."""


class Asked(NamedTuple):
    """Entries to predict: their names, and where they are."""

    path: pathlib.Path
    names: tuple[list[str], list[str]]
    places: tuple[np.ndarray, np.ndarray]
    known: np.ndarray
    """Whether there is such a row and such a column."""

    def unknown(self) -> str:
        """Which are not known, in one sentence; nothing if all are."""
        missing = np.flatnonzero(~self.known)
        if len(missing) == 0:
            return ""
        first = int(missing[0])
        side = 0 if self.places[0][first] == _UNKNOWN else 1
        return (
            f"{self.path.name}: for {len(missing)} of {len(self.known)} there is no prediction; no "
            f"entry of {self.names[side][first]!r} is known, to begin with."
        )


class NamedEntries:
    """A list of entries: names of rows and columns, and values."""

    def __init__(self, path: pathlib.Path, columns: str):
        self.path = path
        self.names = [name.strip() for name in columns.split(",")]
        if len(self.names) != 3:
            raise Refusal(
                "--columns takes three names: those of row, column and value, as in u,i,r."
            )
        *sides, texts = read_columns(path, self.names)
        numbers = as_numbers(path, self.names[2], texts, first_line=2)
        known = ~np.isnan(numbers)
        if not np.any(known):
            raise Refusal(f"Column {self.names[2]!r} of {path} holds no values.")
        found = [np.unique(np.asarray(side)[known], return_inverse=True) for side in sides]
        self.rows, self.columns = (names.tolist() for names, _ in found)
        self.values = (found[0][1], found[1][1], numbers[known])

    def contents(self) -> str:
        """What the list has, in one sentence."""
        row, column, value = self.names
        return (
            f"{self.path.name}: {counted(len(self.values[2]), 'value')} of {value!r} for "
            f"{len(self.rows)} of {row!r} and {len(self.columns)} of {column!r}."
        )

    def repeated(self) -> int:
        """How many entries name a row and a column that an earlier one has named."""
        places = self.values[0] * len(self.columns) + self.values[1]
        return len(places) - len(np.unique(places))

    def asked(self, path: pathlib.Path) -> "Asked":
        """The entries that a file names."""
        texts = read_columns(path, self.names[:2])
        places = []
        for labels, wanted in zip((self.rows, self.columns), texts, strict=True):
            numbers = {label: k for k, label in enumerate(labels)}
            places.append(np.array([numbers.get(text, _UNKNOWN) for text in wanted], int))
        known = (places[0] != _UNKNOWN) & (places[1] != _UNKNOWN)
        if not np.any(known):
            raise Refusal(f"{path} asks for no {self.names[0]} and {self.names[1]} that are known.")
        return Asked(path, (list(texts[0]), list(texts[1])), (places[0], places[1]), known)

    def predictions(self, model: Any, asked: "Asked") -> Listing:
        """What was asked for, with the values that the model predicts; nothing if it cannot."""
        values = np.full(len(asked.known), np.nan)
        values[asked.known] = model.predict(tuple(place[asked.known] for place in asked.places))
        rows = [
            [row, column, "" if np.isnan(value) else float(value)]
            for row, column, value in zip(*asked.names, values, strict=True)
        ]
        return self.names, rows

    def outliers(self, model: Any) -> Listing:
        """Entries that are wrong, and what they should be."""
        errors = model.outliers_.tocoo()
        wanted = model.predict(tuple(errors.coords))
        return [*self.names[:2], *WRONG], [
            [self.rows[i], self.columns[j], float(right + error), float(right)]
            for i, j, error, right in zip(*errors.coords, errors.data, wanted, strict=True)
        ]
