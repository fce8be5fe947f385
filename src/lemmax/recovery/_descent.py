"""Go downhill by linearised steps, and drop the terms that turn out to be superfluous."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array

from .._programs import compiled
from .._typing import Parameters, RealLike
from ..losses import AbstractLoss
from ..methods.steps import BulkPolyak
from ..status import Stopped
from ._linearised import Linearised, Workbench, typical_size

# At a solution of exact rank the error squares with every step. With superfluous terms those
# shrink to a quarter a step (Newton's method at a double root), while the others stand still.
_SHRINKS, _STANDS = 0.5, 0.7
# Residuals of most observations below this, relative to the data: as good as zero.
_ROUNDING = 256
# In three steps together the value has to fall by this fraction of what there is to gain.
_LEAST_DECREASE = 1e-3
_BULK = BulkPolyak()
MAX_STEPS = 40
_TRIAL_STEPS = 6
_SHORTER_STEPS = 4


class Descended(NamedTuple):
    """Where a descent ended."""

    at: Linearised
    sizes: np.ndarray | None
    """Sizes of the terms; those that were cut off as they were then."""
    steps: int
    exact: bool = False
    """Whether most residuals vanish."""


Step = Callable[[Linearised], Parameters]
Watch = Callable[[str, int, float], bool]
"""Told what is going on, the step and the value; answers whether to stop."""


class Descent:
    """Steps of one kind, from one start."""

    def __init__(self, bench: Workbench, robust: bool, watch: Watch, rng: np.random.Generator):
        self.bench, self.robust, self.watch, self.rng = bench, robust, watch, rng
        self.known = bench.weights() > 0
        self._all_known = bool(np.all(self.known))
        self.scale = typical_size(bench.problem.data, self.known)
        self.rounding = _ROUNDING * float(np.finfo(bench.problem.data.dtype).eps) * self.scale
        # The largest residual that still is a rounding error, if the typical one is.
        self.zero = 32 * self.rounding
        self.latest: Descended | None = None  # what there is if the search is stopped

    def run(self, x: Parameters, rank: int | None, max_steps: int = MAX_STEPS) -> Descended:
        """Until most residuals vanish, or the value falls no more.

        ``rank`` is the number of terms of x, if it consists of terms.
        """
        at = best = self.bench.linearise(x, rank)
        step, values, typical = self._steps(at), [at.value], self._typical(at.residual)
        sizes = self.bench.map.term_sizes(x)
        refused: set[int] = set()
        while True:
            self.latest = Descended(best, sizes, len(values) - 1)
            if self.vanishes(at.residual):
                return Descended(at, sizes, len(values) - 1, exact=True)
            if len(values) > max_steps:
                break
            if self.watch("linearised steps", len(values) - 1, at.value):
                raise Stopped
            at = self._moved(at, step(at))
            if not np.isfinite(at.value):
                break
            best = at if at.value <= best.value else best
            values.append(at.value)
            before, sizes = sizes, self.bench.map.term_sizes(at.x)
            fewer = standing_terms(before, sizes)
            if rank is not None and fewer is not None and fewer < rank and fewer not in refused:
                shorter = self.with_fewer_terms(at, fewer)
                if shorter.exact:
                    return _continued(shorter, sizes, len(values) - 1)
                refused.add(fewer)
            stands = len(values) > 3 and (
                values[-4] - min(values[-3:]) <= _LEAST_DECREASE * self._gap(at)
            )
            # Beside many outliers the last digits hardly show in the value.
            last, typical = typical, self._typical(at.residual)
            if stands and typical > _SHRINKS * last:
                break
        return Descended(best, sizes, len(values) - 1)

    def _moved(self, at: Linearised, x: Parameters) -> Linearised:
        """Where a step leads; less far, as long as a minimiser of the model leads up.

        The model is convex, so its minimiser is in a direction of descent, if not at the right
        distance. Steps of other kinds have other safeguards.
        """
        after = self.bench.linearise(x, at.rank)
        if not self.robust or at.matrix is None:
            return after
        for _ in range(_SHORTER_STEPS):
            if after.value <= at.value or self.vanishes(after.residual):
                break
            x = jax.tree.map(lambda here, there: here + (there - here) / 4, at.x, after.x)
            after = self.bench.linearise(x, at.rank)
        return after

    def vanishes(self, residual: Any) -> bool:
        """Whether most residuals (all, of losses that are not robust) are rounding errors."""
        return self._typical(residual) <= self.rounding

    def _gap(self, at: Linearised) -> float:
        """What there is to gain: the loss of all but the outliers."""
        if not self.robust:
            return at.value
        # NumPy does not sort to find a quantile, as JAX does: of a million, ten times as fast.
        level = np.quantile(np.abs(np.asarray(at.residual)), _BULK.quantile)
        level = np.asarray(level, at.residual.dtype)  # a number would be compiled in
        return float(_bulk_loss(self.bench.problem.loss, at.residual, level))

    def _typical(self, residual: Any) -> float:
        known = np.asarray(residual, np.float64)
        known = known if self._all_known else known[self.known]
        return float(np.median(np.abs(known)) if self.robust else np.sqrt(np.mean(known**2)))

    def cut(self, x: Parameters, rank: int) -> Parameters:
        """The leading terms of x."""
        assert self.bench.ranked is not None
        return self.bench.ranked.truncate(x, rank, self.rng)

    def with_fewer_terms(self, at: Linearised, rank: int) -> Descended:
        """Go on from the leading terms alone: if those are all, a few steps get to the bottom.

        A weak term of the truth shrinks, too, until it has its size. Then the descent from the
        others stops short, and we are back where we were.
        """
        shorter = self.run(self.cut(at.x, rank), rank, _TRIAL_STEPS)
        return shorter._replace(exact=shorter.exact and shorter.at.value <= at.value)

    def _steps(self, at: Linearised) -> Step:
        if not self.robust:
            return _gauss_newton_steps(self.bench)
        return self.bench.lmm if at.matrix is None else _prox_linear_steps(self.bench)


@compiled
def _bulk_loss(loss: AbstractLoss, residual: Array, level: RealLike) -> Array:
    return _BULK.gap_below(residual, level, loss).size


def _continued(end: Descended, sizes: np.ndarray | None, steps: int) -> Descended:
    """A descent with fewer terms, and what went before; the sizes of what was cut off, as then."""
    if sizes is not None and end.sizes is not None:
        sizes = np.concatenate([end.sizes[: end.at.rank], sizes[end.at.rank :]])
    return end._replace(sizes=sizes, steps=steps + end.steps)


def _prox_linear_steps(bench: Workbench) -> Step:
    promise = None

    def step(at: Linearised) -> Parameters:
        nonlocal promise
        x, promise = bench.prox_linear(at, promise)
        return x

    return step


def _gauss_newton_steps(bench: Workbench) -> Step:
    """Levenberg's damping: tenfold if the last step led up, which then is taken back."""
    damping, last = 1e-3, None
    weights = bench.weights()

    def step(at: Linearised) -> Parameters:
        nonlocal damping, last
        if last is not None and at.value > last.value:
            damping = min(10 * damping, 1e6)
            at = last
        else:
            damping = max(damping / 10, 1e-12)
        last = at
        return bench.least_squares(at, weights, damping)

    return step


def standing_terms(before: np.ndarray | None, after: np.ndarray | None) -> int | None:
    """How many terms stand still while all the others shrink fast; None if it is not like that.

    Not the largest gap between the sizes: a well-conditioned part of the truth would be cut off
    from a weak one.
    """
    if before is None or after is None or len(before) != len(after):
        return None
    ratios = after / np.maximum(before, np.finfo(float).tiny)
    stands = (ratios > _STANDS) & (ratios < 1 / _STANDS)
    shrinks = ratios < _SHRINKS
    rank = int(np.sum(stands))
    if 0 < rank < len(after) and np.all(stands[:rank]) and np.all(shrinks[rank:]):
        return rank
    return None
