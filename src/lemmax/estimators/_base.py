"""Common base of the estimators: calls of `recover`, verdicts and warnings."""

import functools
import math
import os
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from .._checks import check_positive, warn_user
from .._memory import require_bytes
from ..status import RecoveryStatus
from ._saving import Saved

Method = TypeVar("Method", bound=Callable)


def unchanged_if_refused(fit: Method) -> Method:
    """Restore an estimator's attributes if its fit refuses the data."""

    @functools.wraps(fit)
    def call(self: Any, *args: Any, **options: Any) -> Any:
        before = dict(vars(self))
        try:
            return fit(self, *args, **options)
        except (ValueError, TypeError, MemoryError):
            vars(self).clear()
            vars(self).update(before)
            raise

    return call  # pyright: ignore[reportReturnType]


class RecoveringEstimator(Saved, BaseEstimator):
    """An estimator whose fit calls `lemmax.recover`."""

    loss: str
    random_state: Any
    verbose: bool
    n_features_in_: int
    feature_names_in_: np.ndarray
    status_: str
    n_iter_: int
    noise_: float
    # A `lemmax.Recovery`, whose class needs JAX.
    recovery_: Any

    def __sklearn_tags__(self):
        """NaN is allowed: it marks missing values."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))

    def _recover(
        self,
        data: np.ndarray,
        map: Any,
        operator: Any = None,
        weights: np.ndarray | None = None,
        loss: Any = None,
        **options: Any,
    ) -> Any:
        """Call `recover`, and set the attributes of its verdict."""
        # Imported here because it loads JAX, which fits of tables do not need.
        from ..recovery import recover
        from ._recovering import loss_called

        options = {"seed": self._seed(), "progress": bool(self.verbose), **options}
        found = recover(data, map, operator, loss or loss_called(self.loss, weights), **options)
        self._take_verdict(found)
        return found

    def _take_verdict(self, found: Any) -> None:
        self.recovery_ = found
        self.status_ = found.status.name
        self.n_iter_ = max(1, found.steps)
        self.noise_ = found.noise

    def summary(self) -> str:
        """The verdict and the result, in a few lines."""
        check_is_fitted(self)
        found = getattr(self, "recovery_", None)
        if found is not None:
            return found.summary()
        # No search was needed, or the model was loaded.
        return f"{self.status_}: {RecoveryStatus[self.status_].message}"

    def _forget(self) -> None:
        """Delete attributes of an earlier fit that this one may not set."""
        for name in ("recovery_", "report_"):
            vars(self).pop(name, None)

    def _warn(self) -> None:
        """Warn if the answer is unreliable; called at the end of a fit."""
        found = getattr(self, "recovery_", None)
        if found is None or found.status.succeeded:
            return
        reasons = "; ".join(found.objections)
        warn_user(
            f"{type(self).__name__}: {found.status.message}"
            + (f" In particular: {reasons}." if reasons else ""),
            ConvergenceWarning,
        )


def check_loss(name: Any) -> None:
    """Raise an error if the loss is unknown."""
    if name not in ("robust", "squared"):
        raise ValueError(f"loss must be 'robust' or 'squared'; got {name!r}.")


def require_room(
    kind: str, shape: tuple[int, ...], multiple: int, numbers: int | None = None
) -> None:
    """Raise an error if a fit does not fit in memory.

    Parameters
    ----------
    kind : str
        Name of the estimator.
    shape : tuple of int
        Shape of the data.
    multiple : int
        Memory of a fit as a multiple of the data in float64, measured (peak memory of the process
        for 40 to 80 MB of data: tables 24, lists 10, tensors 32, regression 5.4).
    numbers : int, optional
        Number of values, if not one per entry of the shape.
    """
    needed = 8 * multiple * (math.prod(shape) if numbers is None else numbers)
    what = f"{kind}: a fit of data of shape {shape}"
    require_bytes(needed, what, "Fit a part of the data.")


def refuse_complex(*arrays: Any) -> None:
    """Raise an error for complex data."""
    listed = (np.asarray(each) if isinstance(each, (list, tuple)) else each for each in arrays)
    if any(getattr(getattr(each, "dtype", None), "kind", "") == "c" for each in listed):
        raise ValueError(
            "Complex data not supported: use real and imaginary parts as separate columns or "
            "measurements."
        )


def refuse_file_name(X: Any) -> None:
    """Raise an error for the name of a file in place of its data."""
    if isinstance(X, (str, os.PathLike)):
        raise TypeError(
            f"X must be data, not the name of a file: read it first, such as by "
            f"pandas.read_csv({os.fspath(X)!r})."
        )


def shape_of(array: Any) -> tuple[int, ...]:
    """Shape of an array or of nested lists; empty for other objects, which are converted later."""
    return np.shape(array) if isinstance(array, list) else tuple(getattr(array, "shape", ()))


def checked_weights(weights: Any, shape: tuple[int, ...]) -> np.ndarray | None:
    """Weights of the shape of the data, or None."""
    if weights is None:
        return None
    weights = np.asarray(weights, np.float64)
    if weights.shape != shape:
        raise ValueError(f"Weights of shape {weights.shape} do not match data of shape {shape}.")
    if not np.all(np.isfinite(weights)) or np.any(weights < 0):
        raise ValueError("Weights must be finite and nonnegative.")
    return weights


def checked_rank(rank: Any, largest: int, default: int) -> int:
    """A bound on the rank: the given one or the default, at most the largest possible rank."""
    if rank is None:
        return max(1, min(default, largest))
    check_positive(rank=rank)
    return min(int(rank), largest)


def sparse_at(places: tuple[np.ndarray, ...], values: np.ndarray, shape: tuple[int, ...]) -> Any:
    """A sparse array with values at given places."""
    array = sparse.coo_array((values, places), shape=shape)
    if len(shape) != 2:
        return array
    # If a place was observed twice, both values are kept; the CSR format adds them.
    rows = array.tocsr()
    return rows if rows.nnz == len(values) else array
