"""Fits of tensors: options, comparison of fits, scaling, conversion to other libraries."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._terms import unfolded
from ..factor import TensorFit
from ..losses import SquaredL2
from ..maps import CP
from ..recovery import Recovery
from ..status import RecoveryStatus
from ._recovering import Observed
from ._report import TableReport

# Below this explained share of the variance of held-out entries, the search for exact terms is
# tried, too, if the tensor has at most this many entries.
_EXPLAINED, _SMALL = 0.5, 20_000
# Squared singular values of this relative size are rounding errors.
_ROUNDING = 1e-14


class Fit(NamedTuple):
    """Terms of a tensor and its outliers."""

    factors: tuple[np.ndarray, ...]
    outliers: tuple[np.ndarray, ...]
    answer: Recovery | TensorFit

    @property
    def quality(self) -> tuple[bool, float]:
        """Sort key; the smaller is better: first supported by the data, then close."""
        noise = self.answer.noise if np.isfinite(self.answer.noise) else np.inf
        if isinstance(self.answer, Recovery):
            return not self.answer.status.succeeded, noise
        return not (self.answer.converged and self.answer.held_out.helps), noise


def check_options(model: Any, shape: tuple[int, ...]) -> None:
    """Raise an error for incompatible options."""
    if model.symmetric and (len(shape) < 3 or len(set(shape)) != 1):
        raise ValueError(
            "A symmetric decomposition needs three or more modes of equal length; got shape "
            f"{shape}."
        )
    if model.symmetric and (model.nonnegative or model.fixed):
        raise ValueError("symmetric cannot be combined with nonnegative or fixed factors.")
    if model.warm_start and (model.fixed or model.n_init > 1):
        raise ValueError("warm_start cannot be combined with fixed factors or several starts.")


def known_factors(fixed: Any, shape: tuple[int, ...]) -> dict[int, Any]:
    """Known factors by mode, checked."""
    known = {mode: np.asarray(factor, np.float64) for mode, factor in fixed.items()}
    ranks = {factor.shape[-1] for factor in known.values() if factor.ndim == 2}
    fits = all(
        0 <= mode < len(shape) and factor.ndim == 2 and len(factor) == shape[mode]
        for mode, factor in known.items()
    )
    if not fits or len(ranks) != 1 or len(known) == len(shape):
        raise ValueError(
            "Fixed factors must be arrays of shape (length of the mode, rank), all of one rank, "
            f"for some but not all of the {len(shape)} modes of a tensor of shape {shape}."
        )
    return known


def interrupted(answer: Recovery | TensorFit) -> bool:
    """Whether a fit was stopped early."""
    if isinstance(answer, Recovery):
        return answer.status is RecoveryStatus.INTERRUPTED
    return answer.interrupted


def is_hopeless(found: TensorFit) -> bool:
    """Whether so little is explained that a longer search is worthwhile."""
    return found.wrong.size <= _SMALL and not found.held_out.explained >= _EXPLAINED


def is_clean(X: np.ndarray, bound: int) -> bool:
    """Whether a complete tensor has an unfolding of lower rank, up to rounding errors."""
    mode = int(np.argmax(X.shape))
    if X.shape[mode] <= bound or np.any(np.isnan(X)):
        return False
    matrix = unfolded(X, mode)
    squares = np.linalg.eigvalsh(matrix @ matrix.T)[::-1]
    return bool(np.sum(np.abs(squares[bound:])) <= _ROUNDING * np.sum(squares[:bound]))


def without_wrong(
    observed: Observed, found: TensorFit, recover: Callable[..., Recovery], **options: Any
) -> Recovery:
    """The exact terms of a tensor, by least squares on all entries but the outliers.

    A robust loss would accept a single term that explains half of the entries, which is possible if
    the others have zeros.
    """
    wrong = found.wrong if observed.places is None else found.wrong[observed.places]
    weights = np.where(wrong, 0.0, 1.0 if observed.weights is None else observed.weights)
    answer = recover(
        observed.data,
        CP(found.wrong.shape, found.rank),
        observed.operator,
        loss=SquaredL2(weights=weights),
        x0=found.factors,
        **(options | {"restarts": 0}),
    )
    known = answer.observations + int(wrong.sum())
    outliers = np.flatnonzero(wrong) if wrong.ndim == 1 else np.nonzero(wrong)
    return dataclasses.replace(answer, outliers=outliers, observations=known)


def shared_out(weights: np.ndarray, factors: list[np.ndarray]) -> tuple[np.ndarray, ...]:
    """Factors of equal norms: the weights are distributed over them."""
    root = np.abs(weights) ** (1 / len(factors))
    return tuple(factor * root for factor in factors)


def flip(factors: list[np.ndarray]) -> None:
    """Make the largest entry of every column positive, in all factors but the last."""
    for k, factor in enumerate(factors[:-1]):
        columns = np.arange(factor.shape[1])
        signs = np.sign(factor[np.argmax(np.abs(factor), axis=0), columns])
        factors[k] = factor * signs
        factors[-1] = factors[-1] * signs


class Exchange:
    """Conversion to and from other libraries."""

    weights_: np.ndarray
    factors_: list[np.ndarray]
    rank_: int
    outliers_: Any
    cleaned_: np.ndarray
    standard_error_: np.ndarray
    interval_widths_: np.ndarray
    stability_: np.ndarray
    report_: TableReport

    def to_tensorly(self) -> Any:
        """Convert to a ``CPTensor`` of tensorly."""
        from tensorly.cp_tensor import CPTensor  # pyright: ignore[reportMissingImports]

        check_is_fitted(self)
        return CPTensor((self.weights_.copy(), [factor.copy() for factor in self.factors_]))

    def to_pyttb(self) -> Any:
        """Convert to a ``ktensor`` of pyttb."""
        from pyttb import ktensor  # pyright: ignore[reportMissingImports]

        check_is_fitted(self)
        return ktensor([factor.copy() for factor in self.factors_], self.weights_.copy())

    @classmethod
    def from_cp(cls, tensor: Any, **params: Any) -> Any:
        """A fitted model from given factors, to be continued with ``warm_start=True``.

        Parameters
        ----------
        tensor : CPTensor of tensorly, ktensor of pyttb, or pair (weights, factors)
        **params
            Parameters of the estimator.
        """
        weights, factors = (
            (tensor.weights, tensor.factor_matrices)
            if hasattr(tensor, "factor_matrices")
            else tuple(tensor)
        )
        factors = [np.array(factor, np.float64) for factor in factors]
        if weights is not None:
            factors[0] = factors[0] * np.asarray(weights, np.float64)
        model = cls(**{"rank": factors[0].shape[1], **params})
        sizes = [np.linalg.norm(factor, axis=0) for factor in factors]
        safe = [np.where(size > 0, size, 1.0) for size in sizes]
        model.factors_ = [f / size for f, size in zip(factors, safe, strict=True)]
        model.weights_, model.rank_ = np.prod(sizes, axis=0), factors[0].shape[1]
        return model
