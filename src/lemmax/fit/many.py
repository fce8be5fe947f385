"""`fit_many`: the same model fitted to thousands of curves, in one program."""

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from .._checks import check_kind
from .._dtype import x64_context
from ..losses import AbstractLoss, SquaredL2
from ._batch import Batch, prepare_many
from ._lanes import Curves, Model, State, descend
from ._losses import ABSOLUTE, REDESCENDING, SQUARES, robust_scale
from ._message import shortest
from ._verdict import gain_needed
from .result import as_outputs
from .status import FitStatus

# Memory for the Jacobians of the lanes that are fitted together, in numbers.
_TOGETHER = 1 << 25
# As for a single fit: residuals at the level of rounding errors, offsets that are 0, directions
# that nothing sees (of squares), and ordinary residuals in scales.
_EXACT, _FINAL, _ROUGH, _UNSEEN, _ORDINARY = 16.0, 1e-6, 1e-2, 1e-12, 3.5
_BENDS = (6.0, 3.0)
_FEW_WRONG, _DEGENERATE = 0.15, 1e-7
_STEPS, _ROUGH_STEPS = 200, 24
# Candidates for the limit between right and wrong data.
_GAPS = 8


@dataclasses.dataclass(frozen=True, eq=False)
class ManyFits:
    """The outcome of `lemmax.fit_many`; every array has an axis of curves first.

    Nothing about a curve is to be believed unless its `succeeded` is True.
    """

    x: PyTree
    """The parameters, like the start with an axis of curves before."""
    standard_errors: PyTree
    covariance: np.ndarray
    """Of shape (curves, p, p), in the order of `names`."""
    names: tuple[str, ...]
    codes: np.ndarray
    """The `FitStatus` of each curve, as a number."""
    wrong: PyTree
    """Masks like y: which data are wrong."""
    noise: np.ndarray
    freedom: np.ndarray
    """Right data less parameters."""
    seconds: float

    @property
    def succeeded(self) -> np.ndarray:
        """For which curves the data support the parameters."""
        return np.isin(self.codes, [s for s in FitStatus if s.succeeded])

    def status(self, curve: int) -> FitStatus:
        """The verdict on one curve."""
        return FitStatus(int(self.codes[curve]))

    def summary(self) -> str:
        """How many curves ended how, in a few lines."""
        lines = [f"{len(self.codes)} curves, {self.seconds:.2f} s"]
        for status in FitStatus:
            count = int(np.sum(self.codes == status))
            if count:
                lines.append(f"{count:>8} {status.name}: {status.message}")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.summary()

    def __repr__(self) -> str:
        return f"<ManyFits of {len(self.codes)} curves, {int(np.sum(self.succeeded))} succeeded>"


def fit_many(
    model: Callable[..., PyTree],
    y: Any,
    start: PyTree,
    *,
    args: Any = None,
    each: Any = None,
    loss: AbstractLoss | None = None,
    sigma: Any = None,
    bounds: Any = None,
    fixed: Any = None,
) -> ManyFits:
    """Fit the same model to thousands of curves, in one program.

    Like `fit` for each of them, but from the given start alone: where a curve has several minima
    and the start is far, `fit` finds more. Verdicts look neither at leverage nor at correlated
    residuals, as those of `fit` do. Curves that are fitted leave the program.

    Parameters
    ----------
    model : callable
        ``model(x)``, or ``model(x, *args, *each)``, for one curve.
    y : array, or pytree of arrays
        The data of all curves, along the first axis; NaN is missing.
    start : pytree of numbers or arrays
        Where to start: for one curve, and all start there; or with an axis of curves first.
    args : tuple, optional
        Further arguments of the model that all curves share.
    each : tuple, optional
        Further arguments with an axis of curves first, of which each curve has its own.
    loss : SquaredL2, optional
        Least squares on all data. If not given, wrong data are found and left out.
    sigma : number, or like y, optional
        Standard deviation of each datum, up to a factor for each curve.
    bounds, fixed
        As for `fit`, the same for all curves.

    Returns
    -------
    ManyFits
        Parameters, standard errors, noise, wrong data and a verdict for each curve.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import numpy as np
    >>> import lemmax as lm
    >>> def decay(x, t):
    ...     return x["height"] * jnp.exp(-x["rate"] * t)
    >>> t, rates = np.linspace(0.0, 3.0, 50), np.linspace(0.5, 2.0, 100)
    >>> noise = 0.01 * np.random.default_rng(0).standard_normal((100, 50))
    >>> y = np.exp(-rates[:, None] * t) + noise
    >>> y[:, 7] = 5.0  # wrong
    >>> fits = lm.fit_many(decay, y, {"height": 1.0, "rate": 1.0}, args=(t,))
    >>> bool(np.all(fits.succeeded)), bool(np.all(np.abs(fits.x["rate"] - rates) < 0.1))
    (True, True)
    >>> np.flatnonzero(fits.wrong.any(axis=0))
    array([7])
    """
    began = time.perf_counter()
    if loss is not None:
        check_kind("loss", loss, SquaredL2, "SquaredL2() or None, which is robust")
        if loss.weights is not None:
            raise ValueError("Weights are given by sigma, the standard deviation of each datum.")
    with x64_context(), np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        batch = prepare_many(model, y, start, args, each, sigma, bounds, fixed)
        count, n = batch.y.shape
        size = max(_TOGETHER // (n * (len(batch.task.layout.free) + 2)), 1)
        parts = [
            _fit(batch, np.arange(first, min(first + size, count)), loss is None)
            for first in range(0, count, size)
        ]
    whole = [np.concatenate(part) for part in zip(*parts, strict=True)]
    return _as_fits(batch, *whole, seconds=time.perf_counter() - began)


def _fit(batch: Batch, lanes: np.ndarray, robust: bool) -> tuple[np.ndarray, ...]:
    """Parameters, covariances, codes, right data and noise of some curves."""
    task = batch.task
    model = Model(task.model, task.layout, task.base, task.args, task.box.low, task.box.high)
    curves = Curves(
        np.where(batch.observed[lanes], batch.y[lanes], 0),
        np.where(batch.observed[lanes], batch.inverse[lanes], 0),
        jax.tree.map(lambda leaf: leaf[lanes], batch.each),
        batch.rounding[lanes],
    )
    start, counts = batch.start[lanes], batch.observed[lanes]
    p = start.shape[1]
    one = np.ones(len(lanes))
    plain = descend(
        model, curves, start, counts.astype(float), SQUARES, one, tol=_FINAL, max_steps=_STEPS
    )
    keep = counts.copy()
    length = _gaussian_length(plain.residual, keep, p, curves, batch.width[lanes])
    if robust:
        again = np.flatnonzero(_suspicious(model, curves, plain, counts))
        for begun in (plain.x, start):
            if not again.size:
                break
            width = batch.width[lanes[again]]
            some = _robust(model, curves.of(again), begun[again], counts[again], width)
            better = some[2] < length[again]
            wholes = (*plain, keep, length)
            for whole, part in zip(wholes, (*some[0], *some[1:]), strict=True):
                whole[again[better]] = part[better]
            # From the start itself only where least squares have led astray.
            share = np.sum(keep[again], axis=1) / np.sum(counts[again], axis=1)
            astray = ~plain.settled[again] | _degenerate(plain.gram[again])
            again = again[astray | (share < 1 - _FEW_WRONG)]
    return _judged(batch, lanes, plain, keep, length)


def _suspicious(model, curves, plain: State, counts) -> np.ndarray:
    """Lanes whose least squares may have been led astray by wrong data."""
    p = plain.x.shape[1]
    scale = _scale(plain.residual, counts, p, curves.rounding)
    after = descend(
        model, curves, plain.x, counts.astype(float), ABSOLUTE, scale, tol=_ROUGH, max_steps=8
    )
    smaller = _scale(after.residual, counts, p, curves.rounding)
    spread = np.sqrt(plain.value / np.maximum(np.sum(counts, axis=1) - p, 1))
    far = np.max(np.abs(after.residual), axis=1) > _ORDINARY * smaller
    return ~plain.settled | far | (spread > 2 * smaller) | ~np.isfinite(after.value)


def _robust(model, curves, x, counts, width):
    """Graduated losses, then least squares on what is right, until that no longer changes."""
    p = x.shape[1]
    weight = counts.astype(float)
    state = descend(model, curves, x, weight, SQUARES, np.ones(len(x)), tol=np.inf, max_steps=1)
    scale = _scale(state.residual, counts, p, curves.rounding)
    for _ in range(3):
        state = descend(
            model, curves, state.x, weight, ABSOLUTE, scale, tol=_ROUGH, max_steps=_ROUGH_STEPS
        )
        scale = np.minimum(scale, _scale(state.residual, counts, p, curves.rounding))
    for bend in _BENDS:
        scale = _scale(state.residual, counts, p, curves.rounding)
        state = descend(
            model,
            curves,
            state.x,
            weight,
            REDESCENDING,
            bend * scale,
            tol=_ROUGH,
            max_steps=_ROUGH_STEPS,
        )
    keep, length = _messages(state.residual, counts, p, curves.rounding, width)
    for _ in range(4):
        state = descend(
            model, curves, state.x, keep.astype(float), SQUARES, scale, tol=_FINAL, max_steps=_STEPS
        )
        new, length = _messages(state.residual, counts, p, curves.rounding, width)
        if np.array_equal(new, keep):
            break
        keep = new
    return state, keep, length


def _degenerate(gram: np.ndarray) -> np.ndarray:
    """Lanes whose parameters have run to where the data hardly determine them."""
    size = np.sqrt(np.maximum(np.diagonal(gram, axis1=1, axis2=2), np.finfo(float).tiny))
    scaled = gram / (size[:, :, None] * size[:, None, :])
    fine = np.all(np.isfinite(scaled), axis=(1, 2))
    values = np.linalg.eigvalsh(np.where(fine[:, None, None], scaled, 0))
    return values[:, 0] <= _DEGENERATE * values[:, -1]


def _scale(residual, counts, fitted: int, rounding) -> np.ndarray:
    return np.maximum(robust_scale(residual, counts, fitted), _EXACT * rounding)


def _messages(residual, counts, fitted: int, rounding, width):
    """Which data are right, and the lengths of messages, lane by lane."""
    scale = _scale(residual, counts, fitted, rounding)
    sizes = np.maximum(np.abs(residual), _EXACT * rounding[:, None])
    return shortest(sizes, counts, fitted, scale, width, gaps=_GAPS)


def _gaussian_length(residual, keep, fitted: int, curves: Curves, width) -> np.ndarray:
    """Lengths of messages without wrong data, all lanes at once."""
    freedom = np.sum(keep, axis=1) - fitted
    total = np.sum(
        np.where(keep, np.maximum(residual**2, (_EXACT * curves.rounding[:, None]) ** 2), 0), axis=1
    )
    variance = total / np.maximum(freedom, 1) / width**2
    length = freedom * (np.log(2 * np.pi * variance) + 1) / 2
    return np.where((freedom > 0) & np.isfinite(length), length, np.inf)


def _judged(batch: Batch, lanes, state: State, keep, length):
    """Covariances and verdicts."""
    p = state.x.shape[1]
    kept = np.sum(keep, axis=1)
    freedom = kept - p
    total = np.sum(np.where(keep, state.residual, 0) ** 2, axis=1)
    noise = np.sqrt(np.where(freedom > 0, total / np.maximum(freedom, 1), np.nan))
    rounding = batch.rounding[lanes]
    exact = noise <= 2 * _EXACT * rounding
    norms = np.sqrt(np.diagonal(state.gram, axis1=1, axis2=2))
    held = (state.x <= batch.task.box.low) | (state.x >= batch.task.box.high)
    size = np.where((norms > 0) & ~held, norms, 1)
    gram = state.gram / (size[:, :, None] * size[:, None, :])
    free = ~held[:, :, None] & ~held[:, None, :]
    gram = np.where(free, gram, 0) + np.where(held, 1.0, 0.0)[:, :, None] * np.eye(p)
    gram = np.where(np.all(np.isfinite(gram), axis=(1, 2), keepdims=True), gram, np.eye(p))
    values, vectors = np.linalg.eigh(gram)
    clear = values > _UNSEEN * values[:, -1:]
    inverse = np.where(clear, 1 / np.where(clear, values, 1), 0)
    scaled = np.einsum("bik,bk,bjk->bij", vectors, inverse, vectors)
    hidden = np.einsum("bik,bk->bi", vectors**2, ~clear)
    unseen = ~held & ((hidden > 1e-6) | (norms == 0))
    factor = np.maximum(noise, rounding)[:, None, None] ** 2
    covariance = factor * scaled / (size[:, :, None] * size[:, None, :])
    lost = unseen[:, :, None] | unseen[:, None, :]
    covariance = np.where(lost, 0, covariance) + np.where(
        unseen[:, :, None] & np.eye(p, dtype=bool), np.inf, 0
    )
    covariance = np.where(held[:, :, None] | held[:, None, :], np.nan, covariance)
    codes = np.where(exact, FitStatus.EXACT, FitStatus.FITTED)
    gain = batch.null[lanes] - length
    codes = np.where(~exact & (gain < gain_needed(kept, p)), FitStatus.DOUBTFUL, codes)
    codes = np.where(np.any(unseen, axis=1), FitStatus.NOT_IDENTIFIED, codes)
    codes = np.where(freedom <= 0, FitStatus.DOUBTFUL, codes)
    codes = np.where(~state.settled & ~exact, FitStatus.NOT_CONVERGED, codes)
    codes = np.where(np.isfinite(length), codes, FitStatus.NOT_CONVERGED)
    return state.x, covariance, codes, keep, noise


def _as_fits(batch: Batch, x, covariance, codes, keep, noise, *, seconds: float) -> ManyFits:
    task = batch.task
    structure, kinds = task.outputs
    count = len(x)
    full = np.repeat(task.base[None], count, axis=0)
    free = list(task.layout.free)
    full[:, free] = x
    errors = np.zeros_like(full)
    errors[:, free] = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
    wrong = batch.observed & ~keep
    masks = as_outputs(wrong.astype(float), kinds, structure, lanes=count)
    return ManyFits(
        x=task.layout.tree(full, lanes=count),
        standard_errors=task.layout.tree(errors, lanes=count),
        covariance=covariance,
        names=task.free_names,
        codes=codes,
        wrong=jax.tree.map(lambda part: part != 0, masks),
        noise=noise,
        freedom=np.sum(keep, axis=1) - x.shape[1],
        seconds=seconds,
    )
