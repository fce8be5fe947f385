"""Nonnegative factors: bounded least squares on what an unconstrained fit calls right."""

import dataclasses
import functools
import time
import warnings
from typing import Any, NamedTuple

import numpy as np
from scipy import optimize, sparse
from sklearn.decomposition import NMF
from sklearn.exceptions import ConvergenceWarning

from ..factor import Options
from ..maps import CP, Composed, LowRank, Squares
from ..points import KruskalPoint
from ..recovery import Recovery
from ..regression import regress
from ..status import RecoveryStatus
from ._base import RecoveringEstimator
from ._factor import FactorEstimator
from ._recovering import Observed, factors_of, loss_called

# Smallest entry of a start relative to the mean: the derivative of a square vanishes at 0.
_LEAST = 1e-2
# Negative numbers of this relative size are rounding errors.
_ROUNDING = 1e-8
# Points within this many expected errors count as the same.
_NEAR = 3.0
# An entry is negative beyond this multiple of the noise; the share of them to be reported.
_BEYOND_NOISE, _FEW = 3.0, 0.01
# Steps of the factorisation for the start, and of the fit.
_STEPS, _MOST = 200, 5_000
# The fit ends when so many steps have changed its value by less than this part: noise stays, and
# the value of an exact fit falls until rounding errors are left.
_SINCE, _LITTLE = 20, 1e-4

_ELSEWHERE = (
    "the nonnegative terms differ from the unconstrained ones by more than the errors of "
    "these: there may be no such terms, or better ones"
)

Factors = tuple[np.ndarray, ...]


class NonnegativeParts(NamedTuple):
    """A nonnegative factorisation of a table."""

    scores: np.ndarray
    components: np.ndarray
    wrong: np.ndarray


def nonnegative_parts(
    estimator: FactorEstimator, table: np.ndarray, weights: np.ndarray | None, options: Options
) -> NonnegativeParts:
    """Factorise a table with missing entries and outliers; sets the estimator's verdict."""
    observed = Observed(table, weights)
    bound = min(options.components or options.most, *table.shape)
    found = estimator._recover(
        observed.data,
        LowRank(table.shape, bound),
        observed.operator,
        observed.weights,
        max_seconds=estimator.max_seconds,
    )
    start = factors_of(found), observed.outliers(found)
    (left, right), places = fit_nonnegative(
        estimator, observed, *start, bound, estimator.max_seconds
    )
    sizes = np.linalg.norm(right, axis=0)
    strength = sizes * np.linalg.norm(left, axis=0)
    kept = np.argsort(-strength)[: int(np.sum(strength > _ROUNDING * strength.max()))]
    wrong = np.zeros(table.shape, bool)
    wrong[places] = True
    return NonnegativeParts(left[:, kept] * sizes[kept], (right[:, kept] / sizes[kept]).T, wrong)


def nonnegative_scores(rows: np.ndarray, components: np.ndarray, loss: str) -> np.ndarray:
    """Nonnegative coordinates of rows in given components; NaN is ignored."""
    return np.asarray(regress(components.T, rows, loss_called(loss), nonnegative=True).coefficients)


def fit_nonnegative(
    estimator: RecoveringEstimator,
    observed: Observed,
    factors: Factors,
    places: Any,
    rank: int,
    max_seconds: float | None,
) -> tuple[Factors, Any]:
    """Nonnegative factors near those of an unconstrained fit, and the outliers.

    The estimator's verdict is that of the nonnegative factors. If the unconstrained fit was
    stopped, or has taken all the time there is, they are near those that it had.
    """
    free = estimator.recovery_
    stopped = free.status is RecoveryStatus.INTERRUPTED
    limit = np.inf if max_seconds is None else max_seconds
    left = 0.0 if stopped else max(limit - free.seconds, 0.0)
    if len(factors) > 2 and free.status is RecoveryStatus.EXACT:
        # Terms of a tensor are unique, so these are the nonnegative ones if there are any.
        own = _as_they_are(factors)
        if own is not None:
            return own, places
    rank = min(rank, *(factor.shape[1] for factor in factors))
    if len(factors) == 2:
        start = _factorised(factors, rank, estimator._seed())
    else:
        start = tuple(np.maximum(factor * _signs(factor), 0) for factor in factors)
        if not (free.status.succeeded or stopped):
            return _of_squares(estimator, observed, start, rank, left)
    ends = time.perf_counter() + left
    found, steps, stopped = _bounded_least_squares(observed, free, start, estimator.loss, ends)
    verdict = dataclasses.replace(free, steps=free.steps + steps)
    if stopped:
        verdict = dataclasses.replace(verdict, status=RecoveryStatus.INTERRUPTED)
    elif free.status.succeeded and not _same(free, factors, found):
        objections = (_ELSEWHERE, *_negative(observed, free))
        verdict = dataclasses.replace(
            verdict, status=RecoveryStatus.NOT_CONVERGED, objections=objections
        )
    estimator._take_verdict(verdict)
    return found, places


def _of_squares(
    estimator: RecoveringEstimator, observed: Observed, start: Factors, rank: int, seconds: float
) -> tuple[Factors, Any]:
    """Terms of a tensor whose unconstrained fit failed: those may exist only if nonnegative."""
    found = estimator._recover(
        observed.data,
        Composed(CP(tuple(len(factor) for factor in start), rank), Squares()),
        observed.operator,
        observed.weights,
        x0=tuple(np.sqrt(_away_from_zero(factor)) for factor in start),
        restarts=0,
        max_seconds=seconds if np.isfinite(seconds) else None,
    )
    squares = tuple(np.asarray(leaf, np.float64) ** 2 for leaf in found.x)
    return squares, observed.outliers(found)


def _bounded_least_squares(
    observed: Observed, free: Recovery, start: Factors, loss: str, ends: float
) -> tuple[Factors, int, bool]:
    """Nonnegative factors, the number of steps, and whether the time was over.

    Outliers of a fit that succeeded are known, and least squares on the other data are safe. Else
    residuals beyond the noise count by their size.
    """
    succeeded, places = free.status.succeeded, observed.places
    weights = _right(observed, free) if succeeded else _weights(observed)
    knee = free.noise if loss == "robust" and not succeeded and free.noise > 0 else np.inf
    total = max(float(np.sum(weights * observed.data**2)), np.finfo(float).tiny)
    start = _balanced(start)
    bounds = np.cumsum([0, *(factor.size for factor in start)])

    def factors(x: np.ndarray) -> Factors:
        parts = np.split(x, bounds[1:-1])
        return tuple(part.reshape(each.shape) for part, each in zip(parts, start, strict=True))

    def value(x: np.ndarray) -> tuple[float, np.ndarray]:
        own = factors(x)
        away = _products(own, places) - observed.data
        # Of a pseudo-Huber loss, which is a square within the knee.
        stretch = np.sqrt(1 + (away / knee) ** 2)
        pull = weights * away / (stretch * total)
        slopes = [_sums(pull, own, mode, places).ravel() for mode in range(len(own))]
        return float(np.sum(weights * away**2 / (1 + stretch))) / total, np.concatenate(slopes)

    stopped, values = False, []

    def watch(intermediate_result: Any) -> None:
        nonlocal stopped
        stopped = time.perf_counter() >= ends
        values.append(intermediate_result.fun)
        before = values[-_SINCE] if len(values) >= _SINCE else np.inf
        if stopped or before - values[-1] <= _LITTLE * values[-1]:
            raise StopIteration

    found = optimize.minimize(
        value,
        np.concatenate([factor.ravel() for factor in start]),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0, None)] * bounds[-1],
        callback=watch,
        options={"maxiter": _MOST, "maxfun": 2 * _MOST, "ftol": 0, "gtol": 0},
    )
    return factors(found.x), int(found.nit), stopped


def _balanced(factors: Factors) -> Factors:
    """The same terms with columns of one size in all modes, so that all slopes are alike."""
    sizes = np.array([np.linalg.norm(factor, axis=0) for factor in factors])
    middle = np.prod(sizes, axis=0) ** (1 / len(factors))
    return tuple(
        factor * (middle / np.where(size > 0, size, 1.0))
        for factor, size in zip(factors, sizes, strict=True)
    )


def _products(factors: Factors, places: Any) -> np.ndarray:
    """The sum of the terms, everywhere or at places."""
    if places is None:
        first, *others = factors
        rest = functools.reduce(_all_products, others)
        return (first @ rest.T).reshape([len(factor) for factor in factors])
    rows = [factor[index] for factor, index in zip(factors, places, strict=True)]
    return np.sum(np.prod(rows, axis=0), axis=1)


def _sums(numbers: np.ndarray, factors: Factors, mode: int, places: Any) -> np.ndarray:
    """What numbers like these products sum to for each row of a factor, times the others."""
    others = factors[:mode] + factors[mode + 1 :]
    if places is None:
        unfolded = np.moveaxis(numbers, mode, 0).reshape(len(factors[mode]), -1)
        return unfolded @ functools.reduce(_all_products, others)
    elsewhere = places[:mode] + places[mode + 1 :]
    rows = np.prod([factor[index] for factor, index in zip(others, elsewhere, strict=True)], axis=0)
    count = np.arange(len(numbers))
    shape = len(factors[mode]), len(numbers)
    return sparse.csr_array((numbers, (places[mode], count)), shape=shape) @ rows


def _all_products(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """All rows of one factor times all rows of another."""
    return (left[:, None] * right).reshape(-1, left.shape[1])


def _negative(observed: Observed, free: Recovery) -> list[str]:
    """An objection if many entries are too negative for nonnegative terms."""
    right = _right(observed, free) > 0
    share = np.mean(observed.data[right] < -_BEYOND_NOISE * free.noise)
    return [f"{share:.0%} of the entries are negative beyond the noise"] if share > _FEW else []


def _right(observed: Observed, free: Recovery) -> np.ndarray:
    """Weights of the data; 0 for outliers."""
    weights = _weights(observed)
    weights[free.outliers] = 0
    return weights


def _weights(observed: Observed) -> np.ndarray:
    """Weights of the data."""
    return np.ones(observed.data.shape) if observed.weights is None else observed.weights.copy()


def _same(free: Recovery, factors: Factors, others: Factors) -> bool:
    """Whether other factors give the same point, up to its expected error.

    (The factors of a matrix are not unique, but the matrix is.)
    """
    point = np.asarray(KruskalPoint(factors).dense())
    distance = np.linalg.norm(np.asarray(KruskalPoint(others).dense()) - point)
    return bool(distance <= max(_NEAR * free.expected_error, _ROUNDING) * np.linalg.norm(point))


def _away_from_zero(factor: np.ndarray) -> np.ndarray:
    return np.maximum(factor, _LEAST * np.mean(factor))


def _factorised(factors: Factors, rank: int, seed: int) -> Factors:
    """Nonnegative factors of the positive part of a matrix."""
    matrix = np.maximum(factors[0] @ factors[1].T, 0)
    options: dict[str, Any] = {"init": "nndsvda", "max_iter": _STEPS, "tol": _ROUNDING}
    model = NMF(n_components=rank, random_state=seed, **options)  # pyright: ignore
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        left = model.fit_transform(matrix)
    return left, model.components_.T


def _as_they_are(factors: Factors) -> Factors | None:
    """The factors, if changes of sign make them nonnegative."""
    signs = [_signs(factor) for factor in factors]
    turned = [factor * sign for factor, sign in zip(factors, signs, strict=True)]
    negative = any(
        np.any(np.min(factor, axis=0) < -_ROUNDING * np.max(np.abs(factor), axis=0))
        for factor in turned
    )
    if negative or np.any(np.prod(signs, axis=0) < 0):
        return None
    return tuple(np.maximum(factor, 0) for factor in turned)


def _signs(factor: np.ndarray) -> np.ndarray:
    """The dominant sign of every column."""
    up, down = (np.linalg.norm(np.maximum(sign * factor, 0), axis=0) for sign in (1, -1))
    return np.where(up >= down, 1.0, -1.0)
