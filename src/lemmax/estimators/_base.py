"""What all estimators share: from arrays to `recover`, and from its verdict to a warning."""

import math
from typing import Any

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


class RecoveringEstimator(Saved, BaseEstimator):
    """An estimator whose fit is a call of `lemmax.recover`."""

    loss: str
    random_state: Any
    verbose: bool
    n_features_in_: int
    feature_names_in_: np.ndarray
    status_: str
    n_iter_: int
    noise_: float
    # A `lemmax.Recovery`, which comes with JAX.
    recovery_: Any

    def __sklearn_tags__(self):
        """NaN is welcome: it marks what is missing."""
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
        """Call `recover`, and take over what it says about its answer."""
        # With the first of them JAX is imported, which tables do without.
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
        """What was found, and whether to rely on it, in a few lines."""
        check_is_fitted(self)
        found = getattr(self, "recovery_", None)
        if found is not None:
            return found.summary()
        # Nothing had to be searched for, or the model was loaded.
        return f"{self.status_}: {RecoveryStatus[self.status_].message}"

    def _forget(self) -> None:
        """What an earlier fit has found, and this one may not."""
        for name in ("recovery_", "report_"):
            vars(self).pop(name, None)

    def _warn(self) -> None:
        """Warn if the answer is not to be relied on; called at the end of a fit."""
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
    """Refuse a loss that is not known."""
    if name not in ("robust", "squared"):
        raise ValueError(f"loss must be 'robust' or 'squared'; got {name!r}.")


def require_room(
    kind: str, shape: tuple[int, ...], multiple: int, numbers: int | None = None
) -> None:
    """Raise a sentence if a fit does not fit into memory.

    Parameters
    ----------
    kind : str
        The estimator.
    shape : tuple of int
        Of the data.
    multiple : int
        Of their bytes, in float64: what a fit takes at least, measured (peak of the process's
        memory for 40 to 80 MB of data: tables 24, lists 10, tensors 32, regression 5.4).
    numbers : int, optional
        How many the data are, if not one for each place.
    """
    needed = 8 * multiple * (math.prod(shape) if numbers is None else numbers)
    what = f"{kind}: a fit of data of shape {shape}"
    require_bytes(needed, what, "Fit a part of the data.")


def refuse_complex(*arrays: Any) -> None:
    """Raise a sentence, and not the array."""
    listed = (np.asarray(each) if isinstance(each, (list, tuple)) else each for each in arrays)
    if any(getattr(getattr(each, "dtype", None), "kind", "") == "c" for each in listed):
        raise ValueError(
            "Complex data not supported: everything here is real. Real and imaginary parts may be "
            "columns, or measurements, of their own."
        )


def shape_of(array: Any) -> tuple[int, ...]:
    """Of an array or of lists of lists; of other things, which are converted later, nothing."""
    return np.shape(array) if isinstance(array, list) else tuple(getattr(array, "shape", ()))


def checked_weights(weights: Any, shape: tuple[int, ...]) -> np.ndarray | None:
    """Weights of the shape of the data, or None."""
    if weights is None:
        return None
    weights = np.asarray(weights, np.float64)
    if weights.shape != shape:
        raise ValueError(f"Weights of shape {weights.shape} do not fit data of shape {shape}.")
    if not np.all(np.isfinite(weights)) or np.any(weights < 0):
        raise ValueError("Weights must be finite and not negative.")
    return weights


def checked_rank(rank: Any, largest: int, default: int) -> int:
    """A bound on the rank: as given, or the default; never more than there is room for."""
    if rank is None:
        return max(1, min(default, largest))
    check_positive(rank=rank)
    return min(int(rank), largest)


def sparse_at(places: tuple[np.ndarray, ...], values: np.ndarray, shape: tuple[int, ...]) -> Any:
    """A sparse array with values at given places and nothing elsewhere."""
    array = sparse.coo_array((values, places), shape=shape)
    # Where a place was observed twice, both values are kept; by rows they would be added.
    once = len(np.unique(np.ravel_multi_index(places, shape))) == len(values)
    return array.tocsr() if len(shape) == 2 and once else array
