"""Lists of entries whose rows and columns have names, such as ratings."""

import copy
import pathlib
from typing import Any, NamedTuple

import numpy as np

from .. import plots
from .._columns import as_numbers, listed_cells
from ._answers import INTERVAL, LEVEL, WRONG
from ._files import Refusal
from ._outcome import Outcome, shortest
from ._reading import read_columns, split_names
from ._requirements import counted

_UNKNOWN = -1
_BASIS = {
    (True, True): "row and column",
    (True, False): "row alone",
    (False, True): "column alone",
    (False, False): "neither",
}
# Number of entries plotted.
_DRAWN = 300


class Asked(NamedTuple):
    """Entries to predict: names and positions."""

    path: pathlib.Path
    names: tuple[list[str], list[str]]
    places: tuple[np.ndarray, np.ndarray]

    def tell(self, outcome: Outcome, effects: bool) -> None:
        """Note rows and columns without known entries, and how they are predicted."""
        from ..estimators._entries import unseen_sentences

        rows, columns = (np.array(names, object) for names in self.names)
        unseen = self.places[0] == _UNKNOWN, self.places[1] == _UNKNOWN
        for told in unseen_sentences(rows, columns, unseen, effects):
            outcome.note(f"{self.path.name}: {told}.")


class NamedEntries:
    """A list of entries: names of rows and columns, and values."""

    def __init__(
        self,
        path: pathlib.Path,
        columns: str,
        sheet: str | None = None,
        header: bool | None = None,
    ):
        import pandas as pd

        self.path, self.header = path, header
        self.names = split_names(columns)
        if len(set(self.names)) != 3 or len(self.names) != 3:
            raise Refusal(
                "--columns takes three names: those of row, column and value, as in u,i,r (or "
                "their numbers, as in 1,2,3, if the file has no header)."
            )
        cells = read_columns(path, self.names, sheet, header)
        *sides, texts = cells.columns
        (found,) = as_numbers([texts], cells.separator == ";")
        self._unread = listed_cells(self.names[2:], [texts], [found], cells.row_name)
        if not found.is_numeric:
            told = f": {self._unread}" if self._unread else ""
            raise Refusal(f"Column {self.names[2]!r} of {path} contains no values{told}.")
        known = ~np.isnan(found.numbers)
        (rows, row_names), (places, column_names) = (
            pd.factorize(side[known], sort=True) for side in sides
        )
        self.rows, self.columns = list(row_names), list(column_names)
        self.values = (rows, places, found.numbers[known])

    def tell(self, outcome: Outcome) -> None:
        """Note the contents of the list and its peculiarities."""
        row, column, value = self.names
        outcome.note(
            f"{self.path.name}: {counted(len(self.values[2]), 'value')} of {value!r} for "
            f"{len(self.rows)} of {row!r} and {len(self.columns)} of {column!r}."
        )
        if self._unread:
            outcome.note(f"Left out, since they are not numbers: {self._unread}.")
        places = self.values[0].astype(np.int64) * len(self.columns) + self.values[1]
        repeated = len(places) - len(np.unique(places))
        if repeated:
            outcome.note(
                f"{counted(repeated, 'value')} repeated for the same {row!r} and {column!r}: "
                "the mean is used."
            )

    def asked(self, path: pathlib.Path) -> Asked:
        """The entries that a file asks for."""
        texts = read_columns(path, self.names[:2], header=self.header).columns
        places = []
        for labels, wanted in zip((self.rows, self.columns), texts, strict=True):
            numbers = {label: k for k, label in enumerate(labels)}
            places.append(np.array([numbers.get(text, _UNKNOWN) for text in wanted], int))
        if np.all(np.stack(places) == _UNKNOWN):
            raise Refusal(f"{path} contains no known {self.names[0]} or {self.names[1]}.")
        return Asked(path, (texts[0].tolist(), texts[1].tolist()), (places[0], places[1]))

    def write(self, outcome: Outcome, model: Any, asked: Asked | None) -> None:
        """Write the verdict, the outliers, and the predictions."""
        outcome.report(
            model.report_,
            lambda k: f"{self.names[0]} {self.rows[k]!r}",
            lambda k: f"{self.names[1]} {self.columns[k]!r}",
            interval_level=LEVEL,
        )
        wrong = model.outliers_.tocoo()
        values, errors = model.predict(tuple(wrong.coords), return_std=True)
        # Errors are measured from predictions that are not clipped.
        was = wrong.data + copy.copy(model).set_params(clip=False).predict(tuple(wrong.coords))
        numbers = zip(*wrong.coords, was.tolist(), values.tolist(), errors.tolist(), strict=True)
        outcome.listing(
            "outliers.csv",
            [*self.names[:2], *WRONG],
            ([self.rows[i], self.columns[j], *map(shortest, each)] for i, j, *each in numbers),
        )
        if asked is None:
            outcome.say(
                f"For predictions, list the entries in a file with the columns {self.names[0]} "
                f"and {self.names[1]}, and add --predict FILE."
            )
        else:
            self._predictions(outcome, model, asked)
        self._show(outcome, model)

    def _predictions(self, outcome: Outcome, model: Any, asked: Asked) -> None:
        values, errors = model.predict(asked.places, return_std=True)
        numbers = np.stack([values, errors, *model.predict_interval(asked.places, LEVEL)], axis=1)
        known = zip(*(place != _UNKNOWN for place in asked.places), strict=True)
        rows = (
            [row, column, *map(shortest, each), _BASIS[bool(a), bool(b)]]
            for row, column, each, (a, b) in zip(*asked.names, numbers.tolist(), known, strict=True)
        )
        outcome.listing("predictions.csv", [*self.names, *INTERVAL, "from"], rows)

    def _show(self, outcome: Outcome, model: Any) -> None:
        """Plot some entries against their fitted values."""
        chosen = np.random.default_rng(0).permutation(len(self.values[2]))[:_DRAWN]
        places = tuple(each[chosen] for each in self.values[:2])
        values, errors = model.predict(places, return_std=True)
        figure = plots.predicted_against_observed(
            self.values[2][chosen], values, errors, title="fitted and observed entries"
        )
        words = (
            f"{len(chosen)} entries, outliers among them, against their fitted values. They "
            "were part of the fit; the verdict is based on entries that were not."
        )
        outcome.picture(figure, "Entries", words)
