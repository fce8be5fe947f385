"""Fits of thousands of curves: least squares; where outliers are suspected, robust losses."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from . import _constants as constants
from ._glance import Glance, glance_at
from ._lanes import Curves, Model, State, descend, residuals
from ._losses import ABSOLUTE, REDESCENDING, SQUARES, robust_scale
from ._message import shortest, student_lengths


class Pool(NamedTuple):
    """Curves of one model; arrays have an axis of lanes first."""

    model: Model
    curves: Curves
    counts: np.ndarray
    """Which data are observed."""
    width: np.ndarray
    """The range of the data."""

    def of(self, lanes: np.ndarray | slice) -> "Pool":
        """Some of the lanes."""
        return Pool(self.model, self.curves.of(lanes), self.counts[lanes], self.width[lanes])

    def glance(self, x: np.ndarray, keep: np.ndarray) -> Glance:
        """What the residuals of these data show."""

        def then(residual: np.ndarray, lanes: slice) -> Glance:
            rounding = self.curves.rounding[lanes]
            # Lanes that have failed have any residuals.
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                return glance_at(residual, keep[lanes], x.shape[1], self.width[lanes], rounding)

        return residuals(self.model, self.curves, x, then)

    def sizes(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Sizes of the residuals, or rounding errors, 0 where data are missing; their scales."""

        def then(residual: np.ndarray, lanes: slice) -> tuple[np.ndarray, np.ndarray]:
            counts, rounding = self.counts[lanes], constants.EXACT * self.curves.rounding[lanes]
            scale = np.maximum(robust_scale(residual, counts, x.shape[1]), rounding)
            sizes = np.maximum(np.abs(residual), rounding[:, None])
            return sizes if np.all(counts) else np.where(counts, sizes, 0), scale

        return residuals(self.model, self.curves, x, then)


class Fitted(NamedTuple):
    """A fit in each lane."""

    state: State
    keep: np.ndarray
    """The inliers."""
    length: np.ndarray
    """Description lengths; less is better."""

    def of(self, lanes: np.ndarray) -> "Fitted":
        """Those of some lanes."""
        return jax.tree.map(lambda leaf: leaf[lanes], self)

    def put(self, lanes: np.ndarray, other: "Fitted", chosen: np.ndarray) -> None:
        """Replace those of some lanes by the chosen ones of others."""
        jax.tree.map(lambda mine, its: _put(mine, lanes[chosen], its[chosen]), self, other)


def _put(whole: np.ndarray, places: np.ndarray, part: np.ndarray) -> None:
    whole[places] = part


def fit_pool(pool: Pool, start: np.ndarray, robust: bool) -> tuple[Fitted, Glance]:
    """Fit every lane, and look at the residuals of the inliers."""
    steps = constants.ROUGH_STEPS if robust else constants.STEPS
    found = _least_squares(pool, start, pool.counts, steps)
    glance = pool.glance(found.state.x, found.keep)
    if not robust:
        return found, glance
    again = np.flatnonzero(~(found.state.settled & glance.plain))
    if again.size:
        # Outliers may have misled least squares: the start itself is a second start.
        begun = np.concatenate([found.state.x[again], start[again]])
        both = _robust(pool.of(np.tile(again, 2)), begun)
        for first in (0, len(again)):
            some = both.of(np.arange(first, first + len(again)))
            found.put(again, some, some.length < found.length[again])
    slow = np.flatnonzero(~found.state.settled & np.isfinite(found.length))
    if slow.size:
        some = _settled(pool.of(slow), found.state.x[slow], found.keep[slow], rounds=1)
        found.put(slow, some, np.isfinite(some.length))
    new = np.union1d(again, slow)
    if new.size:
        after = pool.of(new).glance(found.state.x[new], found.keep[new])
        jax.tree.map(lambda whole, part: _put(whole, new, part), glance, after)
    return found, glance


def _least_squares(pool: Pool, x: np.ndarray, keep: np.ndarray, max_steps: int) -> Fitted:
    state = descend(
        pool.model,
        pool.curves,
        x,
        keep,
        SQUARES,
        np.ones(len(x)),
        tol=constants.TOL_OF_MANY,
        max_steps=max_steps,
    )
    return Fitted(state, keep.copy(), _gaussian_length(pool, state.value, keep, x.shape[1]))


def _robust(pool: Pool, x: np.ndarray) -> Fitted:
    """Graduated losses, then least squares on the inliers, until these no longer change."""
    x = x.copy()
    options = {"tol": constants.ROUGH, "max_steps": constants.ROUGH_STEPS}
    _, scale = pool.sizes(x)
    falling = np.arange(len(x))
    for _ in range(constants.ROUNDS):
        some = pool.of(falling)
        state = descend(
            some.model,
            some.curves,
            x[falling],
            some.counts,
            ABSOLUTE,
            constants.SHARP * scale[falling],
            **options,
        )
        x[falling] = state.x
        new = np.minimum(scale[falling], some.sizes(state.x)[1])
        falls = new < constants.STABLE * scale[falling]
        scale[falling] = new
        falling = falling[falls]
        if not falling.size:
            break
    scale = constants.SHARP_BEND * pool.sizes(x)[1]
    x = descend(pool.model, pool.curves, x, pool.counts, REDESCENDING, scale, **options).x
    keep, _ = _judged(pool, x)
    return _settled(pool, x, keep)


def _settled(pool: Pool, x: np.ndarray, keep: np.ndarray, rounds: int = constants.ROUNDS) -> Fitted:
    """Least squares on the inliers, until these no longer change."""
    found = _least_squares(pool, x, keep, constants.STEPS)
    changing = np.arange(len(x))
    for k in range(rounds):
        some = pool.of(changing)
        keep, length = _judged(some, found.state.x[changing])
        changed = np.any(keep != found.keep[changing], axis=1)
        found.length[changing] = length
        changing = changing[changed]
        if not changing.size or k == rounds - 1:
            break
        some = pool.of(changing)
        new = _least_squares(some, found.state.x[changing], keep[changed], constants.STEPS)
        found.put(changing, new, np.ones(len(changing), bool))
    return found


def _judged(pool: Pool, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Inliers and description lengths of each lane; of so many at a time as stay in the cache."""
    sizes, scale = pool.sizes(x)
    student = _student if len(x) > 1 else None
    keep, length = np.zeros_like(pool.counts), np.zeros(len(x))
    for first in range(0, len(x), constants.MANY_LANES):
        some = slice(first, first + constants.MANY_LANES)
        data = pool.of(some)
        keep[some], length[some] = shortest(
            sizes[some], data.counts, x.shape[1], scale[some], data.width, student=student
        )
    return keep, length


_compiled_student = jax.jit(functools.partial(student_lengths, xp=jnp))


def _student(squares, kept, freedom, variance) -> np.ndarray:
    """`student_lengths` by a compiled program; few shapes of arrays, so that few are compiled."""
    parts = [slice(k, k + constants.JUDGED) for k in range(0, len(kept), constants.JUDGED)]
    missing = -len(kept) % constants.JUDGED
    arrays = [
        np.concatenate([array, np.repeat(array[:1], missing, axis=0)]) if missing else array
        for array in (squares, kept, freedom, variance)
    ]
    ends = [_compiled_student(*(array[part] for array in arrays)) for part in parts]
    return np.concatenate([np.asarray(end) for end in ends])[: len(kept)]


def _gaussian_length(pool: Pool, value: np.ndarray, keep: np.ndarray, fitted: int) -> np.ndarray:
    """Description lengths of the data that are kept, from their sums of squares."""
    kept = np.sum(keep, axis=1)
    freedom = kept - fitted
    total = np.maximum(value, kept * (constants.EXACT * pool.curves.rounding) ** 2)
    variance = total / np.maximum(freedom, 1) / pool.width**2
    length = freedom * (np.log(2 * np.pi * variance) + 1) / 2
    return np.where((freedom > 0) & np.isfinite(length), length, np.inf)
