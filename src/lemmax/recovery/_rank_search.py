"""The rank of a matrix from its entries, of which a part is grossly wrong.

Entrywise, a loss alone does not tell the rank: a redundant component fits a row with all its
outliers, and lowers the l1 value. So the rank grows as far as the data show components, and no
further. At every rank, Levenberg-Morrison-Marquardt steps minimise a Huber loss that forgets
residuals far above its level, and the level falls with the bulk of the residuals. When the bulk
stops shrinking, a component is missing, which stands out of what is left; or it is at the noise.
"""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np

from .._typing import Parameters
from ..maps import PSD, LowRank
from ..problem import Composite
from ._components_of_entries import (
    FEW_ROWS,
    MEDIAN,
    Components,
    Observed,
    components_of,
    factors_of,
    leading_components,
    of_rank,
)
from ._convex import convex_components
from ._entrywise_steps import (
    BETTER,
    LEVEL,
    NEARLY,
    PATIENCE,
    ROUNDING,
    State,
    Terms,
    sample_sizes,
    settle,
)
from ._lost_rows import refit_lost_rows
from ._polish import polished

# Levels of the Huber loss that are tried when nothing else helps, and what is called help: the
# scale falls to this part.
_SHARP_LEVELS, _HELPED = (1.5, 1.0), 0.9
# With one more component the scale may rise by this factor, at most: the next may make up for it.
_WORSE = 1.05
# A fit to noise is finished when a step moves the entries by less than this part of it.
_STILL = 1e-3
# Factors have so many columns at first, then twice as many: few shapes, few compilations.
_COLUMNS = 8
# What a component fits of mere noise, in units of a random matrix's squared norm per degree of
# freedom: a half of the variance, and as much again, since it is the best of many.
_MERE_NOISE = 1.0
# Inliers that are less than this share are not worth a component.
_FEW = 0.01
# Rounds of adding components, dropping them, and refitting rows that were lost.
_ROUNDS = 4
# Steps between two calls of the watch.
_CHUNK = 40

Watch = Callable[[int, int, float], bool | None]


class RankSearch:
    """A fit whose rank changes, and what it took."""

    def __init__(
        self,
        problem: Composite,
        rng: np.random.Generator,
        max_steps: int,
        watch: Watch | None,
        height: float,
    ):
        assert isinstance(problem.map, (LowRank, PSD))
        self.observed = Observed.of(problem, rng)
        self.rng, self.max_steps, self.watch = rng, max_steps, watch
        self.robust = problem.loss.robust
        self.dtype = self.observed.data.dtype
        self.bound = min(problem.map.rank, *self.observed.shape)
        self.map = of_rank(problem.map, min(self.bound, _COLUMNS))
        self.found = Components.none(self.observed.shape)
        self.scale = self.observed.typical() / MEDIAN
        self.rounding = ROUNDING * float(jnp.finfo(self.dtype).eps) * self.scale
        # Lower than later: of outliers of one sign, little is to be taken for a component.
        self.level = height * MEDIAN * self.scale
        self.height = self.beyond = height
        self.needed = 0  # the rank below which the bulk is known to grow
        self.steps = self.passes = 0
        self.lost = 0  # rows and columns of which nothing fits
        self.stopped = False  # by the watch, or by the limit of steps
        self.interrupted = False  # by the watch

    @property
    def rank(self) -> int:
        return len(self.found.values)

    @property
    def x(self) -> Parameters:
        return factors_of(self.map, self.found, self.dtype)

    @property
    def collapsed(self) -> bool:
        """Whether the bulk of the residuals are rounding errors."""
        return self.scale <= self.rounding

    def settle(
        self,
        start: Components,
        *,
        patience: int = PATIENCE,
        still: float | None = None,
        height: float | None = None,
    ) -> State:
        """The state after steps from the sum of these components; the fit itself is kept.

        Steps go on until they move the entries by no more than `still`; if that is not given,
        until the bulk of the residuals collapses or stagnates.
        """
        rank, endless = len(start.values), self._real(np.inf)
        fresh = {"scale": endless, "best": endless, "since": _whole(0), "moved": endless}
        x = factors_of(self.map, start, self.dtype)
        state = State(x=x, level=self._real(self.level), steps=_whole(self.steps), **fresh)
        while True:
            last = min(self.max_steps, self.steps + _CHUNK)
            terms = Terms(
                height=self._real(height or self.height),
                # At the end outliers are told apart, and a clipped one is worse than none.
                beyond=self._real(self.beyond if still is None else 1),
                scale=self._real(self.rounding if still is None else 0),
                still=self._real(still or 0),
                patience=_whole(patience),
                steps=_whole(last),
                robust=np.asarray(self.robust),
            )
            state = settle(self.map, self.observed, state, terms)
            self.passes += 3 * (int(state.steps) - self.steps)
            self.steps = int(state.steps)
            self.stopped |= self.steps >= self.max_steps
            if self.watch is not None:
                scale = float(state.scale * self.observed.unit)
                self.interrupted |= bool(self.watch(self.steps, rank, scale))
            self.stopped |= self.interrupted
            if self.stopped or self.steps < last:
                return state
            now = components_of(self.map, state.x, rank)
            shared = self._shared(now)
            if len(shared.values) < rank:  # a redundant component has found a row to fit
                now, rank = shared, len(shared.values)
                state = state._replace(x=factors_of(self.map, now, self.dtype), **fresh)

    def keep(self, state: State, rank: int) -> None:
        """Take over what the steps arrived at."""
        self.found = self._shared(components_of(self.map, state.x, rank))
        self.scale, self.level = float(state.scale), float(state.level)

    def _shared(self, found: Components) -> Components:
        """Without what a few rows have for themselves: if there are outliers, it fits these."""
        return found.shared(self.map.symmetric) if self.robust else found

    def _real(self, number: float) -> np.ndarray:
        return np.asarray(number, self.dtype)

    def grow(self) -> None:
        """Add components until the bulk collapses or no more of them stand out."""
        while not (self.collapsed or self.stopped):
            if not (self.add() or self.sharpen()):
                return

    def add(self) -> bool:
        """Add the components that stand out of what is left; whether there were any."""
        new = self._standing_out(self.level)
        if len(new.values) == 0:
            return False
        before, scale_before = self.rank, self.scale
        state = self.settle(self.found.and_also(new))
        if before and not float(state.scale) <= _WORSE * self.scale:
            return False
        self.keep(state, before + len(new.values))
        return self.rank > before or self.scale < BETTER * scale_before

    def extend(self) -> bool:
        """Add components of rows so few that the bulk is fitted without; whether there were any."""
        if not self.collapsed or self.lost < FEW_ROWS:
            return False
        sizes, limit = self._sizes(), self._nearly
        large = sizes > limit
        if not np.any(large):
            return False
        level = LEVEL * float(np.median(sizes[large]))
        new = self._standing_out(level)
        if len(new.values) == 0:
            return False
        before = self.found, self.scale, self.level
        self.found, self.level = self.found.and_also(new), level
        self.finish()
        helped = self.collapsed and np.mean(self._sizes() > limit) < np.mean(large) - _FEW
        if helped:
            self.needed = self.rank  # although the bulk does not show it
        else:
            self.found, self.scale, self.level = before
        return bool(helped)

    def _standing_out(self, level: float) -> Components:
        """Components of what is left, as many as there is room for."""
        room = self.bound - self.rank
        if room == 0:
            return Components.none(self.observed.shape)
        columns = min(self.map.rank + 2, *self.observed.shape)
        probe = self.rng.standard_normal((self.observed.shape[1], columns))
        new = leading_components(
            self.map, self.observed, self.x, level, probe, robust=self.robust
        ).only(slice(room))
        self.passes += 2
        if self.rank + len(new.values) > self.map.rank:
            self.map = of_rank(self.map, min(self.bound, 2 * self.map.rank))
        return new.only(slice(self.map.rank - self.rank))

    def _sizes(self) -> np.ndarray:
        """Of a sample of the residuals."""
        self.passes += 1
        return np.asarray(sample_sizes(self.map, self.observed, self.x))

    @property
    def _nearly(self) -> float:
        return max(self.level, NEARLY * self.rounding)

    def sharpen(self) -> bool:
        """Steps with low levels; whether they helped.

        If many outliers are of one sign and size, there is a fit half way to them, with a bulk
        so large that they are not above the level.
        """
        if not self.rank or not self.robust:
            return False
        for height in _SHARP_LEVELS:
            state = self.settle(self.found, height=height)
            if float(state.scale) < _HELPED * self.scale:
                self.keep(state, self.rank)
                self.height = height
                return True
            if self.stopped:
                break
        return False

    def prune(self) -> bool:
        """Drop components, the weakest first, without which the bulk is no larger."""
        pruned = False
        while max(1, self.needed) < self.rank and not self.stopped:
            rank = self.rank - 1
            tolerated = 1 + _MERE_NOISE * self.observed.roots**2 / self._freedom()
            state = self.settle(self.found.only(slice(rank)), patience=PATIENCE // 2)
            if not float(state.scale) <= max(self.rounding, tolerated * self.scale):
                self.needed = self.rank
                break
            self.keep(state, rank)
            pruned = True
        return pruned

    def revive(self) -> bool:
        """Refit rows and columns of which hardly anything counts; whether that helped."""
        if not self.robust:
            return False
        refitted, self.lost = refit_lost_rows(self.map, self.observed, self.x, self._nearly)
        self.passes += 1
        if refitted is None:
            return False
        before = self.found, self.scale, self.level
        self.found = components_of(self.map, refitted, self.rank)
        self.finish()
        helped = self.rank == len(before[0].values) and (
            self.collapsed or self.scale <= _WORSE * before[1]
        )
        if not helped:
            self.found, self.scale, self.level = before
        return helped

    def finish(self) -> None:
        """Steps until they are far below the noise, or rounding errors."""
        still = max(self.rounding, _STILL * self.scale)
        state = self.settle(self.found, patience=10 * PATIENCE, still=still, height=LEVEL)
        self.keep(state, self.rank)
        if self.collapsed and self.rank:
            self.found = polished(self.map, self.observed, self.found, self._nearly)

    def start_convex(self, price: float) -> None:
        """Begin with the components that principal component pursuit finds."""
        data = np.asarray(self.observed.data, np.float64)
        weights = 1.0 if self.observed.known is None else np.asarray(self.observed.known)
        weights = np.broadcast_to(weights, data.shape)
        known = weights > 0
        data = np.divide(data, weights, out=np.zeros_like(data), where=known)
        start = convex_components(data, known, self.bound, isinstance(self.map, PSD), price)
        if len(start.values) == 0:
            return
        self.map = of_rank(self.map, min(self.bound, max(self.map.rank, len(start.values))))
        self.level = 0.0
        self.keep(self.settle(start), len(start.values))

    def run(self) -> None:
        """Add components, drop them, and refit rows that were lost, until nothing changes."""
        for _ in range(_ROUNDS):
            self.grow()
            if not self.rank or self.stopped:
                break
            pruned = self.prune()  # what is dropped makes room
            self.finish()
            changed = self.revive() or self.extend() or (pruned and not self.collapsed)
            if self.stopped or not changed:
                break

    def _freedom(self) -> float:
        """Observations less parameters."""
        parameters = self.rank * sum(self.observed.shape)
        return max(float(self.observed.count) - parameters, 1.0)


def _whole(number: int) -> np.ndarray:
    return np.asarray(number, np.int32)
