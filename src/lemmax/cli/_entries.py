"""Lists of entries whose rows and columns have names: ratings, say."""

import pathlib
from typing import Any

import numpy as np

from ._files import Refusal
from ._readiness import counted
from ._reading import as_numbers, read_columns

Listing = tuple[list[str], list[list[Any]]]
"""The header and the rows of a csv file."""


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

    def asked(self, path: pathlib.Path) -> tuple[np.ndarray, np.ndarray]:
        """Positions of the entries that a file names."""
        texts = read_columns(path, self.names[:2])
        places = []
        for labels, wanted, name in zip((self.rows, self.columns), texts, self.names, strict=False):
            numbers = {label: k for k, label in enumerate(labels)}
            unknown = next((text for text in wanted if text not in numbers), None)
            if unknown is not None:
                raise Refusal(f"{path} asks for {name} {unknown!r}, of which no entry is known.")
            places.append(np.array([numbers[text] for text in wanted], int))
        return places[0], places[1]

    def predictions(self, model: Any, asked: tuple[np.ndarray, np.ndarray]) -> Listing:
        """What was asked for, with the values that the model predicts."""
        return self.names, self._listed(asked, model.predict(asked))

    def outliers(self, model: Any) -> Listing:
        """Entries that are wrong, and by how much."""
        errors = model.outliers_.tocoo()
        return [*self.names[:2], "wrong by"], self._listed(errors.coords, errors.data)

    def _listed(self, places: Any, values: np.ndarray) -> list[list[Any]]:
        return [
            [self.rows[i], self.columns[j], float(value)]
            for i, j, value in zip(*places, values, strict=True)
        ]
