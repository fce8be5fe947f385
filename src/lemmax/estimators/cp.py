"""Canonical polyadic decomposition of a tensor with holes and wrong entries."""

from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from .._checks import check_positive
from ..maps import CP, AbstractMap, Composed, LowRank, Squares, SymmetricCP, WithFixed
from ..metrics import factor_match_score
from ..points import KruskalPoint
from ..recovery import Recovery
from ._base import (
    Observed,
    RecoveringEstimator,
    checked_rank,
    checked_weights,
    factors_of,
    refuse_complex,
    shape_of,
    sparse_at,
)
from ._nonnegative import fit_nonnegative

_DEFAULT_RANK = 5
# What a warm start adds to the terms there were, relative to them.
_LITTLE = 0.01


class _Fit(NamedTuple):
    factors: tuple[np.ndarray, ...]
    outliers: tuple[np.ndarray, ...]
    recovery: Recovery

    @property
    def quality(self) -> tuple[bool, float]:
        """Of two fits that with the smaller one is better: supported by the data, then close."""
        noise = self.recovery.noise
        return not self.recovery.status.succeeded, noise if np.isfinite(noise) else np.inf


class CPDecomposition(RecoveringEstimator):
    """A tensor as a sum of outer products, from entries part of which are missing or wrong.

    Also called PARAFAC. The tensor may have any order; of order two it is a matrix, and its factors
    are not unique.

    Parameters
    ----------
    rank : int
        An upper bound on the number of terms; how many there are is found.
    loss : {'robust', 'squared'}
        Whether entries may be grossly wrong, or carry noise alone.
    symmetric : bool
        Whether all factors are the same.
    nonnegative : bool
        Whether no factor may be negative.
    fixed : dict, optional
        Factors that are known, by mode: arrays of shape (length of the mode, rank).
    n_init : int
        How many starts to try. With more than one, ``stability_`` tells how much their answers
        agree.
    warm_start : bool
        Whether a second call of `fit` begins where the last one ended.
    random_state : int, RandomState instance or None
        Of what is random. The default gives the same answer every time.
    verbose : bool
        Whether to show a progress bar.

    Attributes
    ----------
    factors_ : list of arrays of shape (length of the mode, number of terms)
        With columns of length 1; if some are fixed, as they are.
    weights_ : array of shape (number of terms,)
        Sizes of the terms, the largest first; if factors are fixed, all 1.
    rank_ : int
    outliers_ : sparse array of the tensor's shape
        By how much entries are wrong.
    noise_ : float
        Standard deviation of the noise on the others.
    stability_ : array of shape (n_init,)
        Factor-match scores between the answer and that of every start: 1 means the same factors.
    status_ : str
    n_iter_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from lemmax.estimators import CPDecomposition
    >>> rng = np.random.default_rng(0)
    >>> a, b, c = (rng.standard_normal((d, 2)) for d in (8, 7, 6))
    >>> tensor = np.einsum("ir,jr,kr->ijk", a, b, c)
    >>> tensor[0, 0, 0], tensor[1, 2, 3] = np.nan, 50.0
    >>> model = CPDecomposition(rank=3).fit(tensor)
    >>> model.rank_, [index.tolist() for index in model.outliers_.coords]
    (2, [[1], [2], [3]])
    """

    def __init__(
        self,
        rank: Any = _DEFAULT_RANK,
        *,
        loss: Any = "robust",
        symmetric: Any = False,
        nonnegative: Any = False,
        fixed: Any = None,
        n_init: Any = 1,
        warm_start: Any = False,
        random_state: Any = 0,
        verbose: Any = False,
    ):
        self.rank = rank
        self.loss = loss
        self.symmetric = symmetric
        self.nonnegative = nonnegative
        self.fixed = fixed
        self.n_init = n_init
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, weights: Any = None) -> "CPDecomposition":
        """Find the factors.

        Parameters
        ----------
        X : array-like of two or more modes
            NaN marks what is missing.
        y : ignored
        weights : array-like of the shape of X, optional
            How much each entry counts; those of weight 0 are missing.
        """
        X = self._validated(X, reset=True)
        check_positive(n_init=self.n_init)
        observed = Observed(X, checked_weights(weights, X.shape))
        if not np.any(observed.data[observed.known]):
            raise ValueError("All entries are zero, and so are the factors that fit them.")
        self._check_options(X.shape)
        seed, fits = self._seed(), []
        for start in range(self.n_init):
            fits.append(self._fit(observed, X.shape, seed + start))
            if self.status_ == "INTERRUPTED":
                break
        best = min(fits, key=lambda fit: fit.quality)
        self._take_verdict(best.recovery)
        self._take(best.factors)
        self.stability_ = np.array(
            [factor_match_score(best.factors, other.factors) for other in fits]
        )
        difference = X[best.outliers] - self._at(best.outliers)
        self.outliers_ = sparse_at(best.outliers, difference, X.shape)
        self._warn()
        return self

    def _validated(self, X: Any, reset: bool) -> Any:
        refuse_complex(X)
        shape = shape_of(X)
        if len(shape) == 1:
            raise ValueError(f"A tensor needs two modes or more; got an array of shape {shape}.")
        if len(shape) > 2 and shape[0] == 1:
            raise ValueError(
                f"There is 1 sample: the first mode of shape {shape} has no more. Leave that mode "
                "out (X[0])."
            )
        return validate_data(
            self,
            X,
            dtype=np.float64,
            ensure_all_finite="allow-nan",
            allow_nd=True,
            ensure_min_samples=2,
            reset=reset,
        )

    def _fit(self, observed: Observed, shape: tuple[int, ...], seed: int) -> _Fit:
        map, x0 = self._map(shape), None
        if self.fixed:
            map, x0 = self._with_fixed(shape, seed)
        elif self.warm_start and getattr(self, "rank_", 0) > 0:
            map, x0 = self._warm(shape, seed)
        found = self._recover(
            observed.operator, observed.data, map, observed.weights, x0=x0, seed=seed
        )
        factors = factors_of(found)
        places = observed.outliers(found)
        if self.nonnegative and not self.fixed:
            rank = factors[0].shape[1]
            factors, places = fit_nonnegative(self, observed, factors, places, rank)
        return _Fit(factors, places, self.recovery_)

    def _map(self, shape: tuple[int, ...]) -> Any:
        largest = min(shape) if len(shape) == 2 else int(np.prod(shape)) // max(shape)
        rank = checked_rank(self.rank, largest, _DEFAULT_RANK)
        if self.symmetric:
            return SymmetricCP(shape[0], rank, order=len(shape))
        return LowRank(shape, rank) if len(shape) == 2 else CP(shape, rank)

    def _with_fixed(self, shape: tuple[int, ...], seed: int) -> tuple[AbstractMap, Any]:
        """The map of the factors that are not known, and somewhere to start."""
        assert self.fixed is not None
        known: dict[int, Any] = {
            mode: np.asarray(factor, np.float64) for mode, factor in self.fixed.items()
        }
        ranks = {factor.shape[-1] for factor in known.values() if factor.ndim == 2}
        fits = all(
            0 <= mode < len(shape) and factor.ndim == 2 and len(factor) == shape[mode]
            for mode, factor in known.items()
        )
        if not fits or len(ranks) != 1 or len(known) == len(shape):
            raise ValueError(
                "Fixed factors are arrays of shape (length of the mode, rank), all of one rank, "
                f"for some but not all of the {len(shape)} modes of a tensor of shape {shape}."
            )
        rank = ranks.pop()
        inner = WithFixed(
            tuple(known.get(mode) for mode in range(len(shape))),
            Squares() if self.nonnegative else None,
        )
        rng = np.random.default_rng(seed)
        free = [d for mode, d in enumerate(shape) if mode not in known]
        outer = LowRank(shape, rank) if len(shape) == 2 else CP(shape, rank)
        start = tuple(rng.standard_normal((d, rank)) for d in free)
        if self.nonnegative:
            start = tuple(np.abs(factor) + 0.1 for factor in start)
        return Composed(outer, inner, tuple((d, rank) for d in free)), start

    def _warm(self, shape: tuple[int, ...], seed: int) -> tuple[AbstractMap, Any]:
        """Where the last fit ended, and a little of something new up to the bound on the rank."""
        if tuple(len(factor) for factor in self.factors_) != shape:
            raise ValueError("A warm start needs a tensor of the same shape as before.")
        map = self._map(shape)
        factors = [factor[:, : map.rank] for factor in _shared_out(self.weights_, self.factors_)]
        rng = np.random.default_rng(seed)
        if self.symmetric:
            factors = factors[:1]
        padded = []
        for factor in factors:
            new = rng.standard_normal((len(factor), map.rank - factor.shape[1]))
            padded.append(np.hstack([factor, _LITTLE * np.sqrt(np.mean(factor**2)) * new]))
        return map, padded[0] if self.symmetric else tuple(padded)

    def _check_options(self, shape: tuple[int, ...]) -> None:
        if self.symmetric and (len(shape) < 3 or len(set(shape)) != 1):
            raise ValueError(
                "A symmetric decomposition needs three or more modes of equal length; got shape "
                f"{shape}."
            )
        if self.symmetric and (self.nonnegative or self.fixed):
            raise ValueError("symmetric goes neither with nonnegative nor with fixed factors.")
        if self.warm_start and (self.fixed or self.n_init > 1):
            raise ValueError("warm_start goes neither with fixed factors nor with several starts.")

    def _take(self, factors: tuple[np.ndarray, ...]) -> None:
        """Columns of length 1 and the sizes apart; factors that are known stay as they are."""
        if self.fixed:
            self.factors_, self.rank_ = list(factors), factors[0].shape[1]
            self.weights_ = np.ones(self.rank_)
            return
        sizes = [np.linalg.norm(factor, axis=0) for factor in factors]
        weights = np.prod(sizes, axis=0)
        order = np.argsort(-weights, kind="stable")
        order = order[weights[order] > 0]
        unit = [factor[:, order] / size[order] for factor, size in zip(factors, sizes, strict=True)]
        if not (self.symmetric or self.nonnegative):
            _flip(unit)
        self.factors_, self.weights_, self.rank_ = unit, weights[order], len(order)

    def _at(self, places: tuple[np.ndarray, ...]) -> np.ndarray:
        product = np.broadcast_to(self.weights_, (len(places[0]), self.rank_))
        for factor, index in zip(self.factors_, places, strict=True):
            product = product * factor[index]
        return np.sum(product, axis=1)

    def reconstruct(self) -> np.ndarray:
        """The tensor without holes and errors."""
        check_is_fitted(self)
        if self.rank_ == 0:
            return np.zeros(tuple(len(factor) for factor in self.factors_))
        first, *rest = self.factors_
        return np.asarray(KruskalPoint((first * self.weights_, *rest)).dense())

    def score(self, X: Any, y: Any = None) -> float:
        """Minus the mean absolute error at the entries of a tensor that are not NaN.

        Parameters
        ----------
        X : array-like of the shape of the tensor
        y : ignored
        """
        check_is_fitted(self)
        X = self._validated(X, reset=False)
        shape = tuple(len(factor) for factor in self.factors_)
        if X.shape != shape:
            raise ValueError(f"The tensor has shape {shape}; got {X.shape}.")
        places = np.nonzero(~np.isnan(X))
        return -float(np.mean(np.abs(X[places] - self._at(places))))

    def to_tensorly(self) -> Any:
        """The same as a ``CPTensor`` of tensorly."""
        from tensorly.cp_tensor import CPTensor  # pyright: ignore[reportMissingImports]

        check_is_fitted(self)
        return CPTensor((self.weights_.copy(), [factor.copy() for factor in self.factors_]))

    def to_pyttb(self) -> Any:
        """The same as a ``ktensor`` of pyttb."""
        from pyttb import ktensor  # pyright: ignore[reportMissingImports]

        check_is_fitted(self)
        return ktensor([factor.copy() for factor in self.factors_], self.weights_.copy())

    @classmethod
    def from_cp(cls, tensor: Any, **params: Any) -> "CPDecomposition":
        """A fitted model of somebody else's factors, to go on from with ``warm_start=True``.

        Parameters
        ----------
        tensor : CPTensor of tensorly, ktensor of pyttb, or pair (weights, factors)
        **params
            Of the estimator.
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


def _shared_out(weights: np.ndarray, factors: list[np.ndarray]) -> tuple[np.ndarray, ...]:
    """Factors that share the sizes of their terms equally."""
    root = np.abs(weights) ** (1 / len(factors))
    return tuple(factor * root for factor in factors)


def _flip(factors: list[np.ndarray]) -> None:
    """Make the largest entry of every column positive, in all factors but the last."""
    for k, factor in enumerate(factors[:-1]):
        columns = np.arange(factor.shape[1])
        signs = np.sign(factor[np.argmax(np.abs(factor), axis=0), columns])
        factors[k] = factor * signs
        factors[-1] = factors[-1] * signs
