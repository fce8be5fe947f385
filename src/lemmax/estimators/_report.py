"""What a fit to a table has found, and how reliable it is, in the user's terms."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..factor import FactorFit, TensorFit
from ..status import RecoveryStatus

# So many rows or columns are named.
_LISTED = 5


@dataclasses.dataclass(frozen=True)
class TableReport:
    """How well a table was fitted."""

    status: RecoveryStatus
    components: int
    known: int
    wrong: int
    holes: int
    held_out: int
    """Number of held-out cells that are right."""
    explained: float
    """Share of their variance around the column medians (or means, if those are better) that was
    predicted."""
    error: float
    """Their typical error, in the unit below."""
    median_error: float
    """The same if medians of the columns are the predictions."""
    coverage: float
    """Share of them in their 90 % intervals."""
    doubtful: tuple[tuple[int, ...], ...]
    """Rows and columns (of a tensor: slices of each mode) of which nothing is known, or most of
    what is known is wrong."""
    sweeps: int
    seconds: float
    bound_is_low: bool = False
    """Whether more components than allowed would predict the cells better; of a table, whether the
    last that was allowed still does."""
    unit: str = "column scales"
    """Of the errors: robust standard deviations of the columns or of the tensor; or, of ratings,
    the values' own."""

    @property
    def doubtful_rows(self) -> tuple[int, ...]:
        """Rows of which nothing is known, or most of what is known is wrong."""
        return self.doubtful[0]

    @property
    def doubtful_columns(self) -> tuple[int, ...]:
        """The same of columns."""
        return self.doubtful[1]

    @property
    def sides(self) -> tuple[str, ...]:
        """What `doubtful` is about."""
        order = len(self.doubtful)
        if order == 2:
            return "rows", "columns"
        return tuple(f"mode {mode} slices" for mode in range(order))

    @property
    def succeeded(self) -> bool:
        """Whether cells are predicted better than by the medians of their columns."""
        return self.status.succeeded

    def sentence(self) -> str:
        """The verdict."""
        if self.status is RecoveryStatus.EXACT:
            return (
                "EXACT: all cells except the wrong ones are explained up to rounding errors, "
                f"including those of {self.held_out} held-out cells."
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
            return f"NOT_IDENTIFIABLE: predictions are not surely better than {numbers}. {told}"
        if self.bound_is_low:
            told += (
                f" The last of the {self.components} components allowed still lowers the error: "
                "with a larger max_components it may be smaller."
                if len(self.doubtful) == 2
                else " With one more term they are predicted better: the bound on the rank is too "
                "low."
            )
        return f"NOISE_LEVEL: {told}"

    def _explained_by(self) -> str:
        """Why the share of the variance says one thing and the typical error another."""
        if self.explained > 0 and self.error > self.median_error:
            return " (medians are right for most cells, and far off for the others)"
        if self.explained <= 0 and self.error < self.median_error:
            return " (but some cells are predicted far worse)"
        return ""

    def summary(self, *names: Callable[[int], str]) -> str:
        """The verdict and what was found, in a few lines.

        Parameters
        ----------
        *names : callables
            What rows and columns, given by their numbers, are called.
        """
        lines = [
            self.sentence(),
            f"components      {self.components}",
            f"wrong cells     {self.wrong} of {self.known} ({self.wrong / max(1, self.known):.1%})",
            f"holes           {self.holes}",
        ]
        if self.held_out and self.status is not RecoveryStatus.EXACT:
            lines.append(
                f"intervals       90 % intervals cover {self.coverage:.0%} of the held-out cells"
            )
        for side, some, name in zip(self.sides, self.doubtful, names or self._numbers, strict=True):
            if some:
                told = _listed(some, name)
                lines.append(f"doubtful {side:7s} {told} (nothing known, or most cells wrong)")
        lines.append(f"effort          {self.sweeps} sweeps, {self.seconds:.2f} s")
        return "\n".join(lines)

    @property
    def _numbers(self) -> tuple[Callable[[int], str], ...]:
        return (str,) * len(self.doubtful)

    def as_dict(self) -> dict[str, Any]:
        """Numbers and names, to be written as JSON; what is unknown is None."""
        facts = dataclasses.asdict(self) | {"status": self.status.name}
        return {
            name: None if isinstance(value, float) and not np.isfinite(value) else value
            for name, value in facts.items()
        }

    @classmethod
    def from_dict(cls, facts: dict[str, Any]) -> "TableReport":
        """The report that `as_dict` was taken from."""
        values: dict[str, Any] = {
            field.name: np.nan if facts[field.name] is None else facts[field.name]
            for field in dataclasses.fields(cls)
        }
        values["status"] = RecoveryStatus[facts["status"]]
        values["doubtful"] = tuple(tuple(side) for side in facts["doubtful"])
        return cls(**values)


def report_of(found: FactorFit | TensorFit, known: int, wrong: int, holes: int) -> TableReport:
    """The report of a fit."""
    held_out, unit, scale = found.held_out, "column scales", 1.0
    if isinstance(found, TensorFit):
        unit = "tensor scales"
    elif found.model.effects:
        # All columns have one unit, and who reads it knows the scale of the ratings.
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


def _listed(places: Sequence[int], name: Callable[[int], str]) -> str:
    shown = ", ".join(name(place) for place in places[:_LISTED])
    return shown + (f" and {len(places) - _LISTED} more" if len(places) > _LISTED else "")
