"""Canonical polyadic decomposition of a tensor with holes and wrong entries."""

from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from .._checks import check_positive, warn_user
from .._journal import journal
from ..factor import Options, TensorFit, fit_tensor, interval_width, normal_widths
from ..losses import SquaredL2
from ..maps import CP, AbstractMap, Composed, LowRank, Squares, SymmetricCP, WithFixed
from ..metrics import factor_match_score
from ..points import KruskalPoint
from ..recovery import Recovery
from ..solve.progress import no_progress_bar, progress_bar
from ..status import RecoveryStatus
from ._base import (
    RecoveringEstimator,
    check_loss,
    checked_rank,
    checked_weights,
    refuse_complex,
    require_room,
    shape_of,
    sparse_at,
    unchanged_if_refused,
)
from ._factor import check_level, refuse_large
from ._nonnegative import fit_nonnegative
from ._recovering import Observed, factors_of
from ._report import report_of
from ._tensors import (
    Exchange,
    Fit,
    check_options,
    flip,
    interrupted,
    is_clean,
    is_hopeless,
    known_factors,
    shared_out,
    without_wrong,
)

_DEFAULT_RANK = 5
# What a warm start adds to the terms there were, relative to them.
_LITTLE = 0.01
# The progress bar's length (the number of sweeps is not known); memory of a fit, in tensors.
_BAR, _MULTIPLE = 160, 25
# With fewer entries, a hold-out set is too small to choose the number of terms.
_TINY = 125
# Intervals are never narrower than rounding errors, relative to the largest entry.
_ROUNDING = 1e-9


class CPDecomposition(Exchange, RecoveringEstimator):
    """CP decomposition (PARAFAC) of a tensor with missing entries and outliers.

    The tensor may have any order; for order two it is a matrix, and its factors are not unique. A
    noisy tensor is fitted by a robust factor model, like tables by `RobustPCA`: the share of
    outliers is estimated, terms are shrunk, and their number is the one that predicts held-out
    entries best. A tensor without noise is recovered exactly.

    Parameters
    ----------
    rank : int
        Upper bound on the number of terms, which is estimated.
    loss : {'robust', 'squared'}
        ``'robust'`` tolerates outliers, ``'squared'`` assumes noise without outliers.
    symmetric : bool
        Whether all factors are equal.
    nonnegative : bool
        Whether the factors are constrained to be nonnegative.
    fixed : dict, optional
        Known factors by mode: arrays of shape (length of the mode, rank).
    n_init : int
        Number of starts. With more than one, ``stability_`` shows how well their results agree.
    warm_start : bool
        Whether `fit` starts from the result of the previous call.
    max_seconds : float, optional
        Time limit; the fit then ends with its latest state.
    random_state : int, RandomState instance or None
        Random seed. The default gives the same result every time.
    verbose : bool
        Whether to show a progress bar.

    Attributes
    ----------
    factors_ : list of arrays of shape (length of the mode, number of terms)
        With columns of norm 1; fixed factors are unchanged.
    weights_ : array of shape (number of terms,)
        Sizes of the terms in descending order; all 1 if factors are fixed.
    rank_ : int
    outliers_ : sparse array of the tensor's shape
        Errors of the outliers; nothing is stored for the other entries.
    cleaned_ : array of the tensor's shape
        The tensor with missing entries and outliers replaced.
    standard_error_ : array of the tensor's shape
        Standard error with which the other entries predict each entry.
    report_ : TableReport
        For a noisy tensor: how well held-out entries are predicted.
    noise_ : float
        Standard deviation of the noise.
    stability_ : array of shape (n_init,)
        Factor-match scores between the result and that of every start; 1 for equal factors.
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
        max_seconds: Any = None,
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
        self.max_seconds = max_seconds
        self.random_state = random_state
        self.verbose = verbose

    @unchanged_if_refused
    def fit(
        self, X: Any, y: Any = None, weights: Any = None, checkpoint: Any = None
    ) -> "CPDecomposition":
        """Fit the factors.

        Parameters
        ----------
        X : array-like of two or more modes
            NaN marks missing entries.
        y : ignored
        weights : array-like of the shape of X, optional
            Weights of the entries; entries with weight 0 are missing.
        checkpoint : str or Path, optional
            A folder to which the state is saved about every second. If the process is killed, the
            same call continues from there; see docs/devices.md.
        """
        require_room("CPDecomposition", shape_of(X), _MULTIPLE)
        X = self._validated(X, reset=True)
        check_positive(n_init=self.n_init)
        weights = checked_weights(weights, X.shape)
        observed = Observed(X, weights)
        if not np.any(observed.data[observed.known]):
            raise ValueError("All entries are zero, and so are the factors that fit them.")
        check_options(self, X.shape)
        self._forget()
        seed, fits = self._seed(), []
        warm = getattr(self, "factors_", None) if self.warm_start else None
        chosen = self.rank, self.loss, self.symmetric, self.nonnegative, self.fixed, self.n_init
        with journal(checkpoint, "CPDecomposition", X, weights, chosen, warm, seed):
            for start in range(self.n_init):
                fits.append(self._fit(X, weights, observed, seed + start))
                if interrupted(fits[-1].answer):
                    break
        best = min(fits, key=lambda fit: fit.quality)
        self._take(best.factors)
        self._take_answer(best, X)
        self.stability_ = np.array(
            [factor_match_score(best.factors, other.factors) for other in fits]
        )
        difference = X[best.outliers] - self._at(best.outliers)
        self.outliers_ = sparse_at(best.outliers, difference, X.shape)
        replaced = np.isnan(X)
        replaced[best.outliers] = True
        self.cleaned_ = np.where(replaced, self.reconstruct(), X)
        self._warn_of_answer()
        return self

    def _take_answer(self, best: Fit, X: np.ndarray) -> None:
        """The verdict, and the errors of entries."""
        answer = best.answer
        if isinstance(answer, Recovery):
            self._take_verdict(answer)
            self.standard_error_ = np.full(X.shape, self.noise_)
            self.interval_widths_ = normal_widths()
            return
        vars(self).pop("recovery_", None)
        known = int(np.sum(~np.isnan(X)))
        report = report_of(answer, known, int(answer.wrong.sum()), X.size - known)
        self.report_, self.status_, self.noise_ = report, report.status.name, answer.noise
        self.n_iter_ = max(1, report.sweeps)
        self.standard_error_ = answer.standard_errors()
        self.interval_widths_ = answer.interval_widths

    def _warn_of_answer(self) -> None:
        report = getattr(self, "report_", None)
        if report is None:
            self._warn()
        elif not report.succeeded or report.bound_is_low:
            warn_user(f"CPDecomposition: {report.sentence()}", ConvergenceWarning)

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
        X = validate_data(
            self,
            X,
            dtype=np.float64,
            ensure_all_finite=False,
            allow_nd=True,
            ensure_min_samples=2,
            reset=reset,
        )
        refuse_large(X)
        return X

    def _fit(self, X: np.ndarray, weights: np.ndarray | None, observed: Observed, seed: int) -> Fit:
        shape = X.shape
        map, x0, found, noisy = self._map(shape), None, None, None
        options: dict[str, Any] = {"seed": seed, "max_seconds": self.max_seconds}
        if self.fixed:
            map, x0 = self._with_fixed(shape, seed)
        elif self.warm_start and getattr(self, "rank_", 0) > 0:
            map, x0 = self._warm(shape, seed)
        elif is_clean(X, map.rank):
            # Perhaps nothing is wrong, and zeros in factors make entries look so.
            found = self._recover(
                observed.data, map, observed.operator, observed.weights, **options
            )
            if found.status in (RecoveryStatus.NOT_IDENTIFIABLE, RecoveryStatus.NOT_CONVERGED):
                found, options["loss"] = None, SquaredL2(weights=observed.weights)
        elif len(shape) > 2 and not map.symmetric and not self.nonnegative and X.size > _TINY:
            noisy = self._fit_noisy(X, weights, map.rank, seed)
            if noisy.interrupted or not (noisy.nearly_exact or is_hopeless(noisy)):
                return Fit(noisy.factors, np.nonzero(noisy.wrong), noisy)
            if noisy.nearly_exact:
                exact = without_wrong(observed, noisy, self._recover, **options)
                if exact.status is RecoveryStatus.EXACT:
                    self._take_verdict(exact)
                    return Fit(factors_of(exact), np.nonzero(noisy.wrong), exact)
                map, x0, options["restarts"] = CP(shape, noisy.rank), noisy.factors, 0
        if found is None:
            options["x0"] = x0
            found = self._recover(
                observed.data, map, observed.operator, observed.weights, **options
            )
            failed = not (found.status.succeeded or interrupted(found))
            if failed and noisy is not None and noisy.held_out.helps:  # as much noise as signal
                return Fit(noisy.factors, np.nonzero(noisy.wrong), noisy)
        factors = factors_of(found)
        places = observed.outliers(found)
        if self.nonnegative and not self.fixed:
            rank, limit = factors[0].shape[1], self.max_seconds
            factors, places = fit_nonnegative(self, observed, factors, places, rank, limit)
        return Fit(factors, places, self.recovery_)

    def _fit_noisy(
        self, X: np.ndarray, weights: np.ndarray | None, bound: int, seed: int
    ) -> TensorFit:
        check_loss(self.loss)
        with progress_bar("factor model", _BAR) if self.verbose else no_progress_bar() as report:
            return fit_tensor(
                X if weights is None else np.where(weights > 0, X, np.nan),
                weights,
                Options(most=bound, robust=self.loss == "robust", seed=seed),
                max_seconds=self.max_seconds,
                callback=lambda stage, sweep, noise: report(min(sweep, _BAR), noise),
            )

    def _map(self, shape: tuple[int, ...]) -> Any:
        largest = min(shape) if len(shape) == 2 else int(np.prod(shape)) // max(shape)
        rank = checked_rank(self.rank, largest, _DEFAULT_RANK)
        if self.symmetric:
            return SymmetricCP(shape[0], rank, order=len(shape))
        return LowRank(shape, rank) if len(shape) == 2 else CP(shape, rank)

    def _with_fixed(self, shape: tuple[int, ...], seed: int) -> tuple[AbstractMap, Any]:
        """The map of the factors that are not known, and somewhere to start."""
        known = known_factors(self.fixed, shape)
        rank = next(iter(known.values())).shape[1]
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
        factors = [factor[:, : map.rank] for factor in shared_out(self.weights_, self.factors_)]
        rng = np.random.default_rng(seed)
        if self.symmetric:
            factors = factors[:1]
        padded = []
        for factor in factors:
            new = rng.standard_normal((len(factor), map.rank - factor.shape[1]))
            padded.append(np.hstack([factor, _LITTLE * np.sqrt(np.mean(factor**2)) * new]))
        return map, padded[0] if self.symmetric else tuple(padded)

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
            flip(unit)
        self.factors_, self.weights_, self.rank_ = unit, weights[order], len(order)

    def _at(self, places: tuple[np.ndarray, ...]) -> np.ndarray:
        product = np.broadcast_to(self.weights_, (len(places[0]), self.rank_))
        for factor, index in zip(self.factors_, places, strict=True):
            product = product * factor[index]
        return np.sum(product, axis=1)

    def predict_interval(self, level: Any = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Intervals that contain the true value of each entry with a given probability.

        For a noisy tensor they are calibrated on held-out entries.

        Parameters
        ----------
        level : float
            The probability, between 0 and 1.
        """
        check_is_fitted(self)
        check_level(level)
        half = interval_width(self.interval_widths_, level) * self.standard_error_
        values = self.reconstruct()
        half = np.maximum(half, _ROUNDING * np.max(np.abs(values)))
        return values - half, values + half

    def summary(self) -> str:
        """The verdict and the result, in a few lines."""
        check_is_fitted(self)
        report = getattr(self, "report_", None)
        return super().summary() if report is None else report.summary()

    def reconstruct(self) -> np.ndarray:
        """The tensor of the fitted terms."""
        check_is_fitted(self)
        if self.rank_ == 0:
            return np.zeros(tuple(len(factor) for factor in self.factors_))
        first, *rest = self.factors_
        return np.asarray(KruskalPoint((first * self.weights_, *rest)).dense())

    def score(self, X: Any, y: Any = None) -> float:
        """Negative mean absolute error at the entries of a tensor that are not NaN.

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
