"""Fits of thousands of curves: least squares; where wrong data are suspected, robust ones."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ._lanes import Curves, Model, State, descend, residuals
from ._losses import ABSOLUTE, REDESCENDING, SQUARES, robust_scale
from ._message import shortest, student_lengths

# As for a single fit: residuals at the level of rounding errors, offsets that are 0, and ordinary
# residuals in scales.
EXACT = 16.0
"""Residuals of so many rounding errors are none."""
_FINAL, _ROUGH, _ORDINARY = 1e-6, 1e-2, 3.5
_BENDS = (6.0, 3.0)
_STEPS, _ROUGH_STEPS = 200, 24
# Least squares that may meet wrong data take so many steps at first: among these they wander.
_TRIAL_STEPS = 16
# Estimates of the scale on the way; one that falls by less than this is found.
_ROUNDS, _STABLE = 3, 0.8
# Candidates for the limit between right and wrong data.
_GAPS = 8
# So many lanes are judged by one call of a compiled program.
_JUDGED = 256


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
        return np.maximum(scale, EXACT * self.curves.rounding)


class Fitted(NamedTuple):
    """A fit in each lane."""

    state: State
    residual: np.ndarray
    keep: np.ndarray
    """Which data it takes for right."""
    length: np.ndarray
    """Of the message that tells the data; less is better."""

    def put(self, lanes: np.ndarray, other: "Fitted", chosen: np.ndarray) -> None:
        """Replace those of some lanes by the chosen ones of others."""
        jax.tree.map(lambda mine, its: _put(mine, lanes[chosen], its[chosen]), self, other)


def _put(whole: np.ndarray, places: np.ndarray, part: np.ndarray) -> None:
    whole[places] = part


def fit_pool(pool: Pool, start: np.ndarray, robust: bool) -> Fitted:
    """Fit every lane."""
    counts, lanes = pool.counts, np.arange(len(start))
    steps = _TRIAL_STEPS if robust else _STEPS
    found = _least_squares(pool, start, counts, steps)
    if not robust:
        return found
    again = np.flatnonzero(_suspicious(pool, found))
    # Wrong data may have led least squares astray: the start itself is a second one.
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
    state = descend(pool.model, pool.curves, x, keep, SQUARES, one, tol=_FINAL, max_steps=max_steps)
    residual = pool.residuals(state.x)
    length = _gaussian_length(pool, residual, keep, x.shape[1])
    return Fitted(state, residual, keep.copy(), length)


def _suspicious(pool: Pool, plain: Fitted) -> np.ndarray:
    """Lanes whose least squares may have been led astray by wrong data.

    Where their own residuals do not show it, those of least absolute deviations may.
    """
    p = plain.state.x.shape[1]
    spread = np.sqrt(plain.state.value / np.maximum(np.sum(pool.counts, axis=1) - p, 1))

    def far(some: Pool, residual: np.ndarray, spread: np.ndarray) -> np.ndarray:
        scale = some.scale(residual, p)
        return ~((np.max(np.abs(residual), axis=1) <= _ORDINARY * scale) & (spread <= 2 * scale))

    suspicious = ~plain.state.settled | far(pool, plain.residual, spread)
    calm = np.flatnonzero(~suspicious)
    if calm.size:
        some, x = pool.of(calm), plain.state.x[calm]
        scale = some.scale(plain.residual[calm], p)
        after = descend(
            pool.model, some.curves, x, some.counts, ABSOLUTE, scale, tol=_ROUGH, max_steps=8
        )
        suspicious[calm] = far(some, some.residuals(after.x), spread[calm])
    return suspicious


def _robust(pool: Pool, x: np.ndarray) -> Fitted:
    """Graduated losses, then least squares on what is right, until that no longer changes."""
    p, x = x.shape[1], x.copy()
    options = {"tol": _ROUGH, "max_steps": _ROUGH_STEPS}
    residual = pool.residuals(x)
    scale = pool.scale(residual, p)
    falling = np.arange(len(x))
    for _ in range(_ROUNDS):
        some = pool.of(falling)
        state = descend(
            some.model, some.curves, x[falling], some.counts, ABSOLUTE, scale[falling], **options
        )
        x[falling] = state.x
        residual[falling] = some.residuals(state.x)
        new = np.minimum(scale[falling], some.scale(residual[falling], p))
        falls = new < _STABLE * scale[falling]
        scale[falling] = new
        falling = falling[falls]
        if not falling.size:
            break
    for bend in _BENDS:
        scale = pool.scale(residual, p)
        x = descend(
            pool.model, pool.curves, x, pool.counts, REDESCENDING, bend * scale, **options
        ).x
        residual = pool.residuals(x)
    keep, _ = _judged(pool, residual, p)
    return _settled(pool, x, keep)


def _settled(pool: Pool, x: np.ndarray, keep: np.ndarray, rounds: int = 4) -> Fitted:
    """Least squares on the data that are right, until these no longer change."""
    found = _least_squares(pool, x, keep, _STEPS)
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
        new = _least_squares(some, found.state.x[changing], keep[changed], _STEPS)
        found.put(changing, new, np.ones(len(changing), bool))
    return found


def _judged(pool: Pool, residual: np.ndarray, fitted: int) -> tuple[np.ndarray, np.ndarray]:
    """Which data are right, and the lengths of messages, lane by lane."""
    scale = pool.scale(residual, fitted)
    sizes = np.maximum(np.abs(residual), EXACT * pool.curves.rounding[:, None])
    student = _student if len(residual) > 1 else None
    return shortest(sizes, pool.counts, fitted, scale, pool.width, gaps=_GAPS, student=student)


_compiled_student = jax.jit(functools.partial(student_lengths, xp=jnp))


def _student(squares, kept, freedom, variance) -> np.ndarray:
    """`student_lengths` by a compiled program; few shapes of arrays, so that few are compiled."""
    parts = [slice(k, k + _JUDGED) for k in range(0, len(kept), _JUDGED)]
    missing = -len(kept) % _JUDGED
    arrays = [
        np.concatenate([array, np.repeat(array[:1], missing, axis=0)]) if missing else array
        for array in (squares, kept, freedom, variance)
    ]
    ends = [_compiled_student(*(array[part] for array in arrays)) for part in parts]
    return np.concatenate([np.asarray(end) for end in ends])[: len(kept)]


def _gaussian_length(pool: Pool, residual: np.ndarray, keep: np.ndarray, fitted: int):
    """Lengths of messages without wrong data, all lanes at once."""
    freedom = np.sum(keep, axis=1) - fitted
    least = (EXACT * pool.curves.rounding[:, None]) ** 2
    total = np.sum(np.where(keep, np.maximum(residual**2, least), 0), axis=1)
    variance = total / np.maximum(freedom, 1) / pool.width**2
    length = freedom * (np.log(2 * np.pi * variance) + 1) / 2
    return np.where((freedom > 0) & np.isfinite(length), length, np.inf)
