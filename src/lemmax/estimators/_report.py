"""The report of a fit to a table: quality of predictions, outliers, doubtful rows."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from .._checks import first_few, warn_user
from ..factor import FactorFit, TensorFit
from ..status import RecoveryStatus

# Number of rows or columns that a summary names.
_LISTED = 5
# Columns of which less than this share of the variance of held-out cells is predicted stand alone.
_SHARED = 0.1


@dataclasses.dataclass(frozen=True)
class TableReport:
    """How well a table was fitted."""

    status: RecoveryStatus
    components: int
    known: int
    wrong: int
    holes: int
    held_out: int
    """Number of held-out cells that are inliers."""
    explained: float
    """Predicted share of their variance around the column medians (or means, if those predict
    better)."""
    error: float
    """Their typical error, in ``unit``."""
    median_error: float
    """The typical error of column medians as predictions."""
    coverage: float
    """Share of them within their 90 % intervals."""
    doubtful: tuple[tuple[int, ...], ...]
    """Rows and columns (for a tensor: slices of each mode) without known cells, or with mostly
    outliers."""
    sweeps: int
    seconds: float
    bound_is_low: bool = False
    """Whether more components than allowed would predict better; for a table, whether the last
    allowed one still improves the prediction."""
    alone: tuple[int, ...] = ()
    """Columns of a table of which the others predict less than a tenth of the variance: their holes
    are filled with little more than a typical value."""
    unit: str = "column scales"
    """Unit of the errors: robust standard deviations of the columns or of the tensor; for ratings,
    the unit of the values."""

    @property
    def doubtful_rows(self) -> tuple[int, ...]:
        """Rows without known cells, or with mostly outliers."""
        return self.doubtful[0]

    @property
    def doubtful_columns(self) -> tuple[int, ...]:
        """Columns without known cells, or with mostly outliers."""
        return self.doubtful[1]

    @property
    def sides(self) -> tuple[str, ...]:
        """Names of the modes in ``doubtful``."""
        order = len(self.doubtful)
        if order == 2:
            return "rows", "columns"
        return tuple(f"mode {mode} slices" for mode in range(order))

    @property
    def succeeded(self) -> bool:
        """Whether cells are predicted better than by column medians."""
        return self.status.succeeded

    def sentence(self) -> str:
        """The verdict."""
        if self.status is RecoveryStatus.EXACT:
            return (
                "EXACT: all cells except outliers are explained up to rounding errors, including "
                f"{self.held_out} held-out cells."
            )
        if self.status is RecoveryStatus.INTERRUPTED:
            return "INTERRUPTED: the fit was stopped early; this is its latest state."
        if self.status is RecoveryStatus.NOT_CONVERGED:
            return (
                "NOT_CONVERGED: the sweeps did not converge. Columns or terms may be nearly "
                "collinear, or there are too few data."
            )
        if not self.held_out:
            return "NOT_IDENTIFIABLE: there are too few cells for a hold-out set."
        medians, numbers = "column medians", "one number for each column"
        if len(self.doubtful) > 2:
            medians, numbers = "medians", "one number for all"
        told = (
            f"{max(self.explained, 0):.0%} of the variance of {self.held_out} held-out cells is "
            f"predicted; typical error {self.error:.2g} {self.unit}; {medians} have "
            f"{self.median_error:.2g}{self._explained_by()}."
        )
        if self.status is RecoveryStatus.NOT_IDENTIFIABLE:
            return (
                f"NOT_IDENTIFIABLE: predictions are not significantly better than {numbers}. {told}"
            )
        if self.bound_is_low:
            told += (
                f" The last of the {self.components} allowed components still reduces the error: "
                "a larger max_components may reduce it further."
                if len(self.doubtful) == 2
                else " With one more term they are predicted better: the bound on the rank is "
                "too low."
            )
        return f"NOISE_LEVEL: {told}"

    def _explained_by(self) -> str:
        """An explanation if explained variance and typical error seem to disagree."""
        if self.explained > 0 and self.error > self.median_error:
            return " (medians are accurate for most cells, and far off for the others)"
        if self.explained <= 0 and self.error < self.median_error:
            return " (but some cells are predicted far worse)"
        return ""

    def summary(self, *names: Callable[[int], str]) -> str:
        """The verdict and the result, in a few lines.

        Parameters
        ----------
        *names : callables
            Functions from row and column numbers to names.
        """
        lines = [
            self.sentence(),
            f"components      {self.components}",
            f"outliers        {self.wrong} of {self.known} ({self.wrong / max(1, self.known):.1%})",
            f"missing         {self.holes}",
        ]
        if self.held_out and self.status is not RecoveryStatus.EXACT:
            lines.append(
                f"intervals       90 % intervals cover {self.coverage:.0%} of the held-out cells"
            )
        for side, some, name in zip(self.sides, self.doubtful, names or self._numbers, strict=True):
            if some:
                told = first_few(map(name, some), _LISTED)
                lines.append(f"doubtful {side:7s} {told} (no known cells, or mostly outliers)")
        if self.alone and self.succeeded:
            name = (names or self._numbers)[1]
            told = first_few(map(name, self.alone), _LISTED)
            lines.append(f"columns alone   {told} (the others hardly predict them)")
        lines.append(f"effort          {self.sweeps} sweeps, {self.seconds:.2f} s")
        return "\n".join(lines)

    @property
    def _numbers(self) -> tuple[Callable[[int], str], ...]:
        return (str,) * len(self.doubtful)

    def as_dict(self) -> dict[str, Any]:
        """Numbers and names for JSON; None if unknown."""
        facts = dataclasses.asdict(self) | {"status": self.status.name}
        return {
            name: None if isinstance(value, float) and not np.isfinite(value) else value
            for name, value in facts.items()
        }


def warn_of_identifiers(table: np.ndarray, names: list[Any], alone: tuple[int, ...]) -> None:
    """Warn of columns that look like names of the rows.

    Parameters
    ----------
    table : array of shape (rows, columns)
    names : list
        Names of the columns.
    alone : tuple of int
        Columns that the others do not predict.
    """
    found = []
    for k in alone:
        numbers = table[~np.isnan(table[:, k]), k]
        if np.all(numbers == np.round(numbers)) and len(np.unique(numbers)) == len(numbers):
            found.append(repr(names[k]))
    if found:
        warn_user(
            f"{first_few(found, _LISTED)}: distinct whole numbers that no other column predicts, "
            "as identifiers are. They were treated as measurements; make them the index, or leave "
            "them out."
        )


def _alone(found: FactorFit) -> tuple[int, ...]:
    return tuple(map(int, np.flatnonzero(found.held_out.by_column < _SHARED)))


def report_of(found: FactorFit | TensorFit, known: int, wrong: int, holes: int) -> TableReport:
    """The report of a fit."""
    held_out, unit, scale = found.held_out, "column scales", 1.0
    if isinstance(found, TensorFit):
        unit = "tensor scales"
    elif found.model.effects:
        # All columns have the unit of the ratings, which readers know.
        unit, scale = "in the units of the values", float(found.scale[0])
    return TableReport(
        status=_status(found),
        components=found.rank,
        known=known,
        wrong=wrong,
        holes=holes,
        held_out=held_out.count,
        explained=held_out.explained,
        error=scale * held_out.error,
        median_error=scale * held_out.median_error,
        coverage=held_out.coverage,
        doubtful=tuple(tuple(map(int, side)) for side in found.doubtful()),
        sweeps=found.sweeps,
        seconds=found.seconds,
        bound_is_low=found.bound_is_low,
        alone=() if isinstance(found, TensorFit) or found.model.effects else _alone(found),
        unit=unit,
    )


def _status(found: FactorFit | TensorFit) -> RecoveryStatus:
    if found.interrupted:
        return RecoveryStatus.INTERRUPTED
    if found.exact:
        return RecoveryStatus.EXACT
    if not found.converged:
        return RecoveryStatus.NOT_CONVERGED
    if not found.held_out.helps:
        return RecoveryStatus.NOT_IDENTIFIABLE
    return RecoveryStatus.NOISE_LEVEL
