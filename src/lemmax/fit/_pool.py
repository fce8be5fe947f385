"""Fits of thousands of curves: least squares; where outliers are suspected, robust losses."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from . import _constants as constants
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

    def of(self, lanes: np.ndarray) -> "Pool":
        """Some of the lanes."""
        return Pool(self.model, self.curves.of(lanes), self.counts[lanes], self.width[lanes])

    def residuals(self, x: np.ndarray) -> np.ndarray:
        """0 where data are missing."""
        residual = residuals(self.model, self.curves, x)
        return residual if np.all(self.counts) else np.where(self.counts, residual, 0)

    def scale(self, residual: np.ndarray, fitted: int) -> np.ndarray:
        """The robust scale in each lane, at least at the level of rounding errors."""
        scale = robust_scale(residual, self.counts, fitted)
        return np.maximum(scale, constants.EXACT * self.curves.rounding)


class Fitted(NamedTuple):
    """A fit in each lane."""

    state: State
    residual: np.ndarray
    keep: np.ndarray
    """The inliers."""
    length: np.ndarray
    """Description lengths; less is better."""

    def put(self, lanes: np.ndarray, other: "Fitted", chosen: np.ndarray) -> None:
        """Replace those of some lanes by the chosen ones of others."""
        jax.tree.map(lambda mine, its: _put(mine, lanes[chosen], its[chosen]), self, other)


def _put(whole: np.ndarray, places: np.ndarray, part: np.ndarray) -> None:
    whole[places] = part


def fit_pool(pool: Pool, start: np.ndarray, robust: bool) -> Fitted:
    """Fit every lane."""
    counts, lanes = pool.counts, np.arange(len(start))
    steps = constants.ROUGH_STEPS if robust else constants.STEPS
    found = _least_squares(pool, start, counts, steps)
    if not robust:
        return found
    again = np.flatnonzero(_suspicious(pool, found))
    # Outliers may have misled least squares: the start itself is a second start.
    for begun in (found.state.x.copy(), start):
        if not again.size:
            break
        some = _robust(pool.of(again), begun[again])
        found.put(again, some, some.length < found.length[again])
    slow = lanes[~found.state.settled & np.isfinite(found.length)]
    if slow.size:
        some = _settled(pool.of(slow), found.state.x[slow], found.keep[slow], rounds=1)
        found.put(slow, some, np.isfinite(some.length))
    return found


def _least_squares(pool: Pool, x: np.ndarray, keep: np.ndarray, max_steps: int) -> Fitted:
    one = np.ones(len(x))
    state = descend(
        pool.model,
        pool.curves,
        x,
        keep,
        SQUARES,
        one,
        tol=constants.TOL_OF_MANY,
        max_steps=max_steps,
    )
    residual = pool.residuals(state.x)
    length = _gaussian_length(pool, state.value, keep, x.shape[1])
    return Fitted(state, residual, keep.copy(), length)


def _suspicious(pool: Pool, plain: Fitted) -> np.ndarray:
    """Lanes whose least squares outliers may have misled.

    Where their own residuals do not show it, those of least absolute deviations may.
    """
    p = plain.state.x.shape[1]
    spread = np.sqrt(plain.state.value / np.maximum(np.sum(pool.counts, axis=1) - p, 1))

    def far(some: Pool, residual: np.ndarray, spread: np.ndarray) -> np.ndarray:
        scale = some.scale(residual, p)
        return ~(
            (np.max(np.abs(residual), axis=1) <= constants.ORDINARY * scale) & (spread <= 2 * scale)
        )

    suspicious = ~plain.state.settled | far(pool, plain.residual, spread)
    calm = np.flatnonzero(~suspicious)
    if calm.size:
        some, x = pool.of(calm), plain.state.x[calm]
        scale = some.scale(plain.residual[calm], p)
        after = descend(
            pool.model,
            some.curves,
            x,
            some.counts,
            ABSOLUTE,
            scale,
            tol=constants.ROUGH,
            max_steps=8,
        )
        suspicious[calm] = far(some, some.residuals(after.x), spread[calm])
    return suspicious


def _robust(pool: Pool, x: np.ndarray) -> Fitted:
    """Graduated losses, then least squares on the inliers, until these no longer change."""
    p, x = x.shape[1], x.copy()
    options = {"tol": constants.ROUGH, "max_steps": constants.ROUGH_STEPS}
    residual = pool.residuals(x)
    scale = pool.scale(residual, p)
    falling = np.arange(len(x))
    for _ in range(constants.ROUNDS):
        some = pool.of(falling)
        state = descend(
            some.model, some.curves, x[falling], some.counts, ABSOLUTE, scale[falling], **options
        )
        x[falling] = state.x
        residual[falling] = some.residuals(state.x)
        new = np.minimum(scale[falling], some.scale(residual[falling], p))
        falls = new < constants.STABLE * scale[falling]
        scale[falling] = new
        falling = falling[falls]
        if not falling.size:
            break
    for bend in constants.BENDS:
        scale = pool.scale(residual, p)
        x = descend(
            pool.model, pool.curves, x, pool.counts, REDESCENDING, bend * scale, **options
        ).x
        residual = pool.residuals(x)
    keep, _ = _judged(pool, residual, p)
    return _settled(pool, x, keep)


def _settled(pool: Pool, x: np.ndarray, keep: np.ndarray, rounds: int = constants.ROUNDS) -> Fitted:
    """Least squares on the inliers, until these no longer change."""
    found = _least_squares(pool, x, keep, constants.STEPS)
    changing = np.arange(len(x))
    for k in range(rounds):
        some = pool.of(changing)
        keep, length = _judged(some, found.residual[changing], x.shape[1])
        changed = np.any(keep != found.keep[changing], axis=1)
        found.length[changing] = length
        changing = changing[changed]
        if not changing.size or k == rounds - 1:
            break
        some = pool.of(changing)
        new = _least_squares(some, found.state.x[changing], keep[changed], constants.STEPS)
        found.put(changing, new, np.ones(len(changing), bool))
    return found


def _judged(pool: Pool, residual: np.ndarray, fitted: int) -> tuple[np.ndarray, np.ndarray]:
    """Inliers and description lengths of each lane."""
    scale = pool.scale(residual, fitted)
    sizes = np.maximum(np.abs(residual), constants.EXACT * pool.curves.rounding[:, None])
    student = _student if len(residual) > 1 else None
    return shortest(sizes, pool.counts, fitted, scale, pool.width, student=student)


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
