"""A plane through the rows of a table, by `recover`, and its location."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ..maps import LowRank
from ..recovery import Recovery, RecoveryStatus
from ._base import Observed, RecoveringEstimator, factors_of
from ._location import Located, located
from ._rows import geometric_median

# Up to so many entries a second fit costs little.
_SMALL = 100_000
# The relative error up to which `recover` calls an answer right; here of what differs between rows.
_LARGEST_ERROR = 0.1
# Singular values that are this small, relative to the largest, are rounding errors.
_ROUNDING = 1e-9
# Singular values of noise reach this bound, and a little more if entries are missing.
_BEYOND_NOISE = 1.3
# So many numbers of components are compared, once a location is known.
_FEWER = 3
# Up to this share of the rows may be left out; of such a row so much is wrong.
_FEW_ROWS, _MOSTLY = 0.1, 0.5
# Without some rows, others may turn out to be of that kind.
_ROUNDS = 3
# Noise up to so many times that of another fit is not more.
_NO_MORE = 1.3
# A column of which such a share is one number may be that number, and the rest of it wrong.
_STEADY = 0.8


class WeightedTable(NamedTuple):
    """What is known, in some units, and how much it counts."""

    values: np.ndarray
    """NaN where nothing is known."""
    weights: np.ndarray | None

    def part(self, rows: np.ndarray) -> "WeightedTable":
        """Some rows of it."""
        return WeightedTable(
            self.values[rows], None if self.weights is None else self.weights[rows]
        )

    def columns(self, which: np.ndarray) -> "WeightedTable":
        """Some columns of it."""
        return WeightedTable(
            self.values[:, which], None if self.weights is None else self.weights[:, which]
        )

    def in_units(self, units: np.ndarray) -> "WeightedTable":
        """With columns in given units."""
        return self._replace(values=self.values / units)


class Plane(NamedTuple):
    """A fit to some rows of a table: where these are wrong, and what they should be."""

    rows: np.ndarray
    places: Any
    """In the table of these rows, as all that follows."""
    factors: tuple[np.ndarray, ...]
    """Of the table around the shift."""
    shift: np.ndarray
    location: np.ndarray
    recovery: Recovery

    @property
    def interrupted(self) -> bool:
        """Whether there was no time for more."""
        return self.recovery.status is RecoveryStatus.INTERRUPTED

    @property
    def failed(self) -> bool:
        """Whether it is the best there is, and not to be relied on."""
        return not (self.recovery.status.succeeded or self.interrupted)

    def residual(self, table: WeightedTable) -> np.ndarray:
        """NaN where nothing is known."""
        return table.values[self.rows] - self.shift - self.factors[0] @ self.factors[1].T

    def centred(self, units: np.ndarray | float = 1.0) -> tuple[np.ndarray, ...]:
        """Singular value decomposition of the cleaned table around its location, in some units."""
        basis, triangle = np.linalg.qr((self.factors[1].T * units).T)
        middle = (self.location - self.shift) * units
        left, values, rotation = np.linalg.svd(
            self.factors[0] @ triangle.T - middle @ basis, full_matrices=False
        )
        return left, values, rotation @ basis.T

    def rank(self, centre: bool) -> int:
        """How many singular values are more than errors: one may have been the location alone."""
        middle, noise = self.location - self.shift, self.recovery.noise
        values = self.centred()[1]
        sides = sum(np.sqrt(np.sum(np.any(factor, axis=1))) for factor in self.factors)
        noise = noise if centre and np.isfinite(noise) else 0.0
        # What differs between rows may itself be a rounding error of what they have in common.
        common = np.finfo(float).eps * np.linalg.norm(middle) * len(self.factors[0])
        return int(
            np.sum(values > max(_ROUNDING * values[0], _BEYOND_NOISE * noise * sides, common))
        )

    def within(self, table: WeightedTable, rows: np.ndarray, columns: np.ndarray) -> "Plane":
        """As one of a table of which it has seen some rows, and some columns.

        Of the other columns the location says it all: their medians, and the rest is wrong.
        """
        location = np.nanmedian(table.values, axis=0)
        shift, whole = location.copy(), np.zeros((len(location), self.factors[1].shape[1]))
        location[columns], shift[columns] = self.location, self.shift
        whole[columns] = self.factors[1]
        rows = rows[self.rows]
        differs = table.values[rows] != location
        differs &= ~np.isnan(table.values[rows])
        differs[:, columns] = False
        more = np.nonzero(differs)
        places = (
            np.concatenate([self.places[0], more[0]]),
            np.concatenate([columns[self.places[1]], more[1]]),
        )
        return self._replace(
            rows=rows,
            places=places,
            factors=(self.factors[0], whole),
            shift=shift,
            location=location,
            recovery=self.recovery.of_whole(rows, columns),
        )

    def own_rows(self, table: WeightedTable) -> np.ndarray:
        """All but the few of which so much is wrong that too little is known about them."""
        wrong = np.bincount(self.places[0], minlength=len(self.rows))
        known = np.sum(~np.isnan(table.values[self.rows]), axis=1)
        foreign = np.flatnonzero(wrong > _MOSTLY * known)
        if self.recovery.doubtful:
            foreign = np.union1d(foreign, self.recovery.doubtful[0])
        few = len(foreign) + len(table.values) - len(self.rows) <= _FEW_ROWS * len(table.values)
        return np.delete(self.rows, foreign.astype(int)) if few else self.rows


class PlaneFit:
    """Fits of planes to tables, for an estimator that says how, and with how many dimensions."""

    def __init__(self, estimator: RecoveringEstimator, centre: bool, bound: int):
        self.estimator, self.centre, self.bound = estimator, centre, bound
        self.passes = self.steps = 0

    def first_location(self, values: np.ndarray) -> np.ndarray:
        """Medians: a point near the plane."""
        return np.nanmedian(values, axis=0) if self.centre else np.zeros(values.shape[1])

    def through(self, table: WeightedTable) -> Plane:
        """The best plane of several fits, each made only if there is need."""
        # A column that is one number would be evidence for whatever explains it beside others.
        steady = self._steady(table.values, 1.0)
        plane = self._through(table, ~steady)
        steadier = self._steady(table.values, _STEADY)
        if plane.failed and self.estimator.loss == "robust" and np.any(steadier & ~steady):
            other = self._through(table, ~steadier)
            plane = plane if other.failed else other
        return plane

    def _steady(self, values: np.ndarray, share: float) -> np.ndarray:
        """Columns of which such a share is one number, if there are others."""
        alike = np.sum(values == np.nanmedian(values, axis=0), axis=0)
        steady = alike >= share * np.sum(~np.isnan(values), axis=0)
        return steady if self.centre and not np.all(steady) else np.zeros_like(steady)

    def _through(self, whole: WeightedTable, which: np.ndarray) -> Plane:
        """Through some columns, and the rows that have entries there."""
        columns = np.flatnonzero(which)
        present = np.flatnonzero(~np.all(np.isnan(whole.values[:, columns]), axis=1))
        table = whole.part(present).columns(columns)
        # Of a centred table of some rank, the table itself has one more.
        most, rows = self.bound + self.centre, np.arange(len(present))
        plane = self._around(self.first_location(table.values), table, rows, most)
        plane = self._without_medians(plane, table, most)
        plane = self._settled(plane, table)
        own = self._without_foreign_rows(plane, table, most)
        plane = plane if own is plane else self._settled(own, table)
        if not plane.interrupted and plane.rank(self.centre) > self.bound:
            # More directions than allowed: the fit around the location that is now known.
            fewer = self._around(plane.location, table, plane.rows, self.bound)
            plane = fewer._replace(location=plane.location)
        return plane.within(whole, present, columns)

    def _around(
        self, shift: np.ndarray, table: WeightedTable, rows: np.ndarray, rank: int
    ) -> Plane:
        values, weights = table.part(rows)
        observed = Observed(values - shift, weights)
        map = LowRank(values.shape, min(rank, *values.shape))
        found = self.estimator._recover(observed.operator, observed.data, map, observed.weights)
        self.passes, self.steps = self.passes + found.passes, self.steps + found.steps
        factors = factors_of(found)
        location = self._location(factors, shift)
        return Plane(rows, observed.outliers(found), factors, shift, location, found)

    def _location(self, factors: tuple[np.ndarray, ...], shift: np.ndarray) -> np.ndarray:
        """In the plane of the cleaned rows, so that it takes away one dimension if it can."""
        if not self.centre:
            return shift
        basis, triangle = np.linalg.qr(factors[1])
        return shift + basis @ geometric_median(factors[0] @ triangle.T)

    def _without_medians(self, plane: Plane, table: WeightedTable, most: int) -> Plane:
        """Medians may hide what sets a column's location apart from its components."""
        hopeful = np.any(plane.shift) and table.values.size <= _SMALL
        if not hopeful or not plane.failed:
            return plane
        other = self._around(np.zeros_like(plane.shift), table, plane.rows, most)
        tells = other.recovery.status.succeeded and _tells_rows_apart(other)
        return other if tells or other.interrupted else plane

    def _without_foreign_rows(self, plane: Plane, table: WeightedTable, rank: int) -> Plane:
        """A row that is wrong as a whole cannot be recovered; the others may be."""
        other = plane
        for _ in range(_ROUNDS):
            if not other.failed or self.estimator.loss != "robust":
                break
            rows = other.own_rows(table)
            if len(rows) == len(other.rows) or np.any(np.all(np.isnan(table.values[rows]), axis=0)):
                break
            other = self._around(other.shift, table, rows, rank)
        return plane if other.failed else other

    def _settled(self, plane: Plane, table: WeightedTable) -> Plane:
        """Around the location that the right entries have, where that may make a difference.

        A plane that misses it passes for noise what it would explain there, or has one more
        dimension to get there, of which a short row says less.
        """
        doubtful = plane.failed or plane.recovery.noise > 0
        if plane.interrupted or not (self.centre and doubtful) or table.values.size > _SMALL:
            return plane
        fits = list(self._located(plane, table))
        if not fits:
            return plane
        best = min(fits, key=lambda fit: fit.criterion)
        rank = best.components.shape[1]
        other = self._around(best.centre, table, plane.rows, rank)
        if not plane.failed:
            other = self._without_foreign_rows(other, table, rank)
        if other.interrupted:
            return other if plane.failed else plane
        as_good = other.recovery.noise <= _NO_MORE * plane.recovery.noise
        return other if as_good and (plane.failed or not other.failed) else plane

    def _located(self, plane: Plane, table: WeightedTable) -> Iterator[Located]:
        """Fits with a location, of as many components as a plane has, and of fewer."""
        values = table.values[plane.rows]
        right = ~np.isnan(values)
        right[plane.places] = False
        left, sizes, components = plane.centred()
        most = min(self.bound, plane.rank(self.centre))
        for rank in range(most, max(0, most - _FEWER), -1):
            start = plane.location, left[:, :rank] * sizes[:rank], components[:rank].T
            yield located(values, right, *start)


def _tells_rows_apart(plane: Plane) -> bool:
    """Whether the error is small beside what differs between rows, not only beside them."""
    cleaned = plane.factors[0] @ plane.factors[1].T
    around = cleaned + plane.shift - plane.location
    whole = np.linalg.norm(cleaned)
    allowed = max(_LARGEST_ERROR * np.linalg.norm(around), _ROUNDING * whole)
    return bool(plane.recovery.expected_error * whole <= allowed)
