"""Nonnegative factors: a fit of squares, started from an unconstrained fit."""

import dataclasses
import warnings
from typing import Any, NamedTuple

import numpy as np
from sklearn.decomposition import NMF
from sklearn.exceptions import ConvergenceWarning

from ..factor import Options
from ..losses import SquaredL2
from ..maps import CP, Composed, LowRank, Squares
from ..points import KruskalPoint
from ..recovery import Recovery
from ..regression import regress
from ..status import RecoveryStatus
from ._base import RecoveringEstimator
from ._recovering import Observed, factors_of, loss_called

# Smallest entry of a start relative to the mean: the derivative of a square vanishes at 0.
_LEAST = 1e-2
# Negative numbers of this relative size are rounding errors.
_ROUNDING = 1e-8
# Points within this many expected errors count as the same.
_NEAR = 3.0
# An entry is negative beyond this multiple of the noise; the share of them to be reported.
_BEYOND_NOISE, _FEW = 3.0, 0.01
# Steps of the factorisation for the start.
_STEPS = 2000

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
    estimator: RecoveringEstimator, table: np.ndarray, weights: np.ndarray | None, options: Options
) -> NonnegativeParts:
    """Factorise a table with missing entries and outliers; sets the estimator's verdict."""
    observed = Observed(table, weights)
    bound = min(options.components or options.most, *table.shape)
    found = estimator._recover(
        observed.data, LowRank(table.shape, bound), observed.operator, observed.weights
    )
    start = factors_of(found), observed.outliers(found)
    (left, right), places = fit_nonnegative(estimator, observed, *start, bound)
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
    estimator: RecoveringEstimator, observed: Observed, factors: Factors, places: Any, rank: int
) -> tuple[Factors, Any]:
    """Nonnegative factors near those of an unconstrained fit, and the outliers.

    The estimator's verdict is that of the nonnegative factors.
    """
    if estimator.status_ == "INTERRUPTED":
        raise KeyboardInterrupt
    free = estimator.recovery_
    if len(factors) > 2 and free.status is RecoveryStatus.EXACT:
        # Terms of a tensor are unique, so these are the nonnegative ones if there are any.
        own = _as_they_are(factors)
        if own is not None:
            return own, places
    shape = tuple(len(factor) for factor in factors)
    rank = min(rank, *(factor.shape[1] for factor in factors))
    outer = LowRank(shape, rank) if len(shape) == 2 else CP(shape, rank)
    if len(shape) == 2:
        start = _factorised(factors, rank, estimator._seed())
    else:
        start = tuple(np.maximum(factor * _signs(factor), 0) for factor in factors)
    found = estimator._recover(
        observed.data,
        Composed(outer, Squares()),
        observed.operator,
        observed.weights,
        # The outliers are known, so least squares on the other data is safe.
        SquaredL2(weights=_right(observed, free)) if free.status.succeeded else None,
        x0=tuple(np.sqrt(_away_from_zero(factor)) for factor in start),
        restarts=0,
    )
    squares = tuple(np.asarray(leaf, np.float64) ** 2 for leaf in found.x)
    if not free.status.succeeded:
        return squares, observed.outliers(found)
    if found.status is not RecoveryStatus.INTERRUPTED:
        effort = {"steps": free.steps + found.steps, "passes": free.passes + found.passes}
        verdict = dataclasses.replace(free, **effort)
        if not _same(free, factors, squares):
            objections = (_ELSEWHERE, *_negative(observed, free))
            verdict = dataclasses.replace(
                verdict, status=RecoveryStatus.NOT_CONVERGED, objections=objections
            )
        estimator._take_verdict(verdict)
    return squares, places


def _negative(observed: Observed, free: Recovery) -> list[str]:
    """An objection if many entries are too negative for nonnegative terms."""
    right = _right(observed, free) > 0
    share = np.mean(observed.data[right] < -_BEYOND_NOISE * free.noise)
    return [f"{share:.0%} of the entries are negative beyond the noise"] if share > _FEW else []


def _right(observed: Observed, free: Recovery) -> np.ndarray:
    """Weights of the data; 0 for outliers."""
    weights = np.ones(observed.data.shape) if observed.weights is None else observed.weights.copy()
    weights[free.outliers] = 0
    return weights


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
