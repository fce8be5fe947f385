"""Recovery of matrices and signals from linear, quadratic and bilinear measurements."""

import math
import warnings
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from .._checks import check_positive
from ..maps import PSD, LowRank
from ..operators import Dense, RankOne
from ._base import RecoveringEstimator, checked_rank, refuse_complex, unchanged_if_refused
from ._recovering import factors_of


class _Measured(RegressorMixin, RecoveringEstimator):
    """Common base: measurement vectors in rows, and the measured values."""

    outliers_: np.ndarray

    def __sklearn_tags__(self):
        """They cannot fit arbitrary data, and rows must be complete."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = False
        tags.regressor_tags.poor_score = True
        return tags

    def _checked(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        refuse_complex(X, y)
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True, ensure_min_samples=2)
        if not np.any(y):
            raise ValueError("All measurements are zero, and so is the measured matrix.")
        return X, np.asarray(y, np.float64)

    def _rows(self, X: Any) -> Any:
        check_is_fitted(self)
        return validate_data(self, X, dtype=np.float64, reset=False)

    def _take_outliers(self) -> None:
        self.outliers_ = np.asarray(self.recovery_.outliers)


class MatrixSensing(_Measured):
    """Recover a low-rank matrix from inner products with known matrices, some of them outliers.

    Parameters
    ----------
    rank : int
        An upper bound on the rank.
    shape : pair of int, optional
        Shape of the matrix, which the rows of X contain row by row. Default: that of the measuring
        matrices, or a square; if that does not fit, a column, with a warning.
    psd : bool
        Whether the matrix is symmetric and positive semidefinite.
    loss : {'robust', 'squared'}
        ``'robust'`` tolerates outliers, ``'squared'`` assumes noise without outliers.
    random_state : int, RandomState instance or None
    verbose : bool
        Whether to show a progress bar.

    Attributes
    ----------
    matrix_ : array
    rank_ : int
    outliers_ : array of int
        Indices of the measurements that are outliers.
    noise_ : float
    status_ : str
    n_iter_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from lemmax.estimators import MatrixSensing
    >>> rng = np.random.default_rng(0)
    >>> truth = np.outer(rng.standard_normal(6), rng.standard_normal(5))
    >>> X = rng.standard_normal((120, 30))
    >>> y = X @ truth.ravel()
    >>> y[:12] = 10.0
    >>> model = MatrixSensing(rank=3, shape=(6, 5)).fit(X, y)
    >>> model.rank_, bool(np.allclose(model.matrix_, truth)), len(model.outliers_)
    (1, True, 12)
    """

    matrix_: np.ndarray
    rank_: int

    def __init__(
        self,
        rank: Any = 2,
        *,
        shape: Any = None,
        psd: Any = False,
        loss: Any = "robust",
        random_state: Any = 0,
        verbose: Any = False,
    ):
        self.rank = rank
        self.shape = shape
        self.psd = psd
        self.loss = loss
        self.random_state = random_state
        self.verbose = verbose

    @unchanged_if_refused
    def fit(self, X: Any, y: Any) -> "MatrixSensing":
        """Fit the matrix.

        Parameters
        ----------
        X : array-like of shape (n_samples, rows * columns) or (n_samples, rows, columns)
            One measuring matrix per sample.
        y : array-like of shape (n_samples,)

        Returns
        -------
        self
        """
        X, given = _in_rows(X)
        if self.shape is not None and given not in (None, tuple(self.shape)):
            raise ValueError(f"Matrices of shape {given} cannot measure one of shape {self.shape}.")
        X, y = self._checked(X, y)
        rows, columns = self._shape(X.shape[1], given or self.shape)
        rank = checked_rank(self.rank, min(rows, columns), 2)
        map = PSD(rows, rank) if self.psd else LowRank((rows, columns), rank)
        found = self._recover(y, map, Dense(X.reshape(len(X), rows, columns)))
        self.matrix_ = np.asarray(found.point.dense(), np.float64)
        self.rank_ = int(found.rank or 0)
        self._take_outliers()
        self._warn()
        return self

    def _shape(self, size: int, shape: tuple[int, int] | None) -> tuple[int, int]:
        side = math.isqrt(size)
        if shape is None and side * side != size and not self.psd:
            warnings.warn(
                f"Rows of {size} entries are not square matrices: they are read as measurements of "
                f"a column of {size}. Pass the shape of the matrix as shape=(rows, columns).",
                stacklevel=3,
            )
            return size, 1
        rows, columns = (side, side) if shape is None else shape
        if rows * columns != size or (self.psd and rows != columns):
            kind = "square matrices" if shape is None else f"matrices of shape {tuple(shape)}"
            psd = ", which must be square" if self.psd and shape is not None else ""
            raise ValueError(f"Rows of {size} entries are not {kind}{psd}.")
        return rows, columns

    def predict(self, X: Any) -> np.ndarray:
        """Inner products with the fitted matrix.

        Parameters
        ----------
        X : array-like of shape (n_samples, rows * columns) or (n_samples, rows, columns)

        Returns
        -------
        array of shape (n_samples,)
        """
        return self._rows(_in_rows(X)[0]) @ self.matrix_.ravel()


def _in_rows(X: Any) -> tuple[Any, tuple[int, int] | None]:
    """Matrices as rows, and their shape if they were given as matrices."""
    if isinstance(X, list | tuple):
        X = np.asarray(X)
    if getattr(X, "ndim", None) != 3:
        return X, None
    return np.reshape(X, (len(X), -1)), X.shape[1:]


class PhaseRetrieval(_Measured):
    """Recover a real signal from squared linear measurements, some of them outliers.

    Parameters
    ----------
    loss : {'robust', 'squared'}
    random_state : int, RandomState instance or None
    verbose : bool
        Whether to show a progress bar.

    Attributes
    ----------
    coef_ : array of shape (n_features,)
        The signal. Its sign is not determined; the largest entry is positive.
    outliers_ : array of int
        Indices of the measurements that are outliers.
    noise_ : float
    status_ : str
    n_iter_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from lemmax.estimators import PhaseRetrieval
    >>> rng = np.random.default_rng(0)
    >>> signal, X = np.array([1.0, 5.0, -2.0]), rng.standard_normal((60, 3))
    >>> PhaseRetrieval().fit(X, (X @ signal) ** 2).coef_.round(6)
    array([ 1.,  5., -2.])
    """

    coef_: np.ndarray

    def __init__(self, *, loss: Any = "robust", random_state: Any = 0, verbose: Any = False):
        self.loss = loss
        self.random_state = random_state
        self.verbose = verbose

    @unchanged_if_refused
    def fit(self, X: Any, y: Any) -> "PhaseRetrieval":
        """Fit the signal.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            One measurement vector per row.
        y : array-like of shape (n_samples,)
            Squared inner products.

        Returns
        -------
        self
        """
        X, y = self._checked(X, y)
        found = self._recover(y, PSD(X.shape[1], rank=1), RankOne(X))
        self.coef_ = _with_sign(np.asarray(found.x, np.float64)[:, 0])
        self._take_outliers()
        self._warn()
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Squared inner products with the fitted signal.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        array of shape (n_samples,)
        """
        return (self._rows(X) @ self.coef_) ** 2


class BlindDeconvolution(_Measured):
    """Recover two signals from products of their linear measurements, some of them outliers.

    A convolution is such a product in the basis that diagonalises it.

    Parameters
    ----------
    n_left : int, optional
        Number of columns of X that measure the first signal; the others measure the second.
        Default: half of them.
    loss : {'robust', 'squared'}
    random_state : int, RandomState instance or None
    verbose : bool
        Whether to show a progress bar.

    Attributes
    ----------
    left_, right_ : arrays
        The signals, with equal norms. Relative scale and sign are not determined; the largest
        entry of the first is positive.
    outliers_ : array of int
    noise_ : float
    status_ : str
    n_iter_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from lemmax.estimators import BlindDeconvolution
    >>> rng = np.random.default_rng(0)
    >>> left, right = np.array([2.0, 1.0]), np.array([1.0, 0.0, -2.0])
    >>> X = rng.standard_normal((80, 5))
    >>> y = (X[:, :2] @ left) * (X[:, 2:] @ right)
    >>> model = BlindDeconvolution(n_left=2).fit(X, y)
    >>> bool(np.allclose(np.outer(model.left_, model.right_), np.outer(left, right)))
    True
    """

    left_: np.ndarray
    right_: np.ndarray

    def __init__(
        self,
        n_left: Any = None,
        *,
        loss: Any = "robust",
        random_state: Any = 0,
        verbose: Any = False,
    ):
        self.n_left = n_left
        self.loss = loss
        self.random_state = random_state
        self.verbose = verbose

    @unchanged_if_refused
    def fit(self, X: Any, y: Any) -> "BlindDeconvolution":
        """Fit both signals.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            In each row a vector that measures the first signal, then one for the second.
        y : array-like of shape (n_samples,)
            Products of the two inner products.

        Returns
        -------
        self
        """
        X, y = self._checked(X, y)
        if X.shape[1] < 2:
            raise ValueError(
                "Two signals need at least one column each; X has 1 feature(s), a minimum of 2 is "
                "required."
            )
        split = X.shape[1] // 2 if self.n_left is None else self.n_left
        check_positive(n_left=split)
        if split >= X.shape[1]:
            raise ValueError(
                f"n_left must leave columns for both signals: between 1 and {X.shape[1] - 1}; got "
                f"{self.n_left!r}."
            )
        left, right = X[:, :split], X[:, split:]
        map = LowRank((left.shape[1], right.shape[1]), rank=1)
        found = self._recover(y, map, RankOne(left, right))
        first, second = (factor[:, 0] for factor in factors_of(found))
        sizes = np.linalg.norm(first), np.linalg.norm(second)
        balance = np.sqrt(sizes[1] / sizes[0]) if min(sizes) > 0 else 1.0
        sign = np.sign(first[np.argmax(np.abs(first))]) or 1.0
        self.left_, self.right_ = sign * balance * first, sign * second / balance
        self._take_outliers()
        self._warn()
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Products of the inner products with both fitted signals.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        array of shape (n_samples,)
        """
        X, split = self._rows(X), len(self.left_)
        return (X[:, :split] @ self.left_) * (X[:, split:] @ self.right_)


def _with_sign(signal: np.ndarray) -> np.ndarray:
    return signal * (np.sign(signal[np.argmax(np.abs(signal))]) or 1.0)
