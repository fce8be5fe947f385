"""Common base of the estimators that use the factor model."""

import contextlib
import numbers
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted, validate_data

from .._checks import check_positive, check_real, warn_user
from .._columns import LARGEST
from ..factor import FactorModel, Options
from ._base import RecoveringEstimator, check_loss, refuse_complex, refuse_file_name
from ._frames import FrameParts, parts_of, row_names
from ._report import TableReport

# Length of the progress bar; the number of sweeps is not known in advance.
_BAR = 160
# Number of column groups that are hidden in turn, for the score.
_FOLDS = 5


class FactorEstimator(RecoveringEstimator):
    """An estimator whose fit is a robust factor model."""

    n_components: Any
    max_components: Any
    max_seconds: Any
    n_components_: int
    noise_variance_: np.ndarray
    # A sparse array, or a data frame.
    outliers_: Any
    report_: TableReport
    factor_model_: dict[str, Any]
    # Advice if there is text among the numbers.
    _cure_of_text = "Columns of text are only allowed in data frames."

    def _options(self, **chosen: Any) -> Options:
        """Checked options of the fit."""
        check_loss(self.loss)
        if self.n_components is not None:
            check_positive(n_components=self.n_components)
        check_positive(max_components=self.max_components)
        if self.max_seconds is not None:
            check_real(0, max_seconds=self.max_seconds)
        return Options(
            components=None if self.n_components is None else int(self.n_components),
            most=int(self.max_components),
            robust=self.loss == "robust",
            seed=self._seed(),
            **chosen,
        )

    @contextlib.contextmanager
    def _limits(self) -> Iterator[dict[str, Any]]:
        """Time limit and progress of a fit, as keyword arguments."""
        bar = contextlib.nullcontext(lambda step, value: None)
        if self.verbose:
            # Imported here because it loads JAX, which the fit does not need.
            from ..solve.progress import progress_bar

            bar = progress_bar("factor model", _BAR)
        with bar as report:
            yield {
                "max_seconds": self.max_seconds,
                "callback": lambda stage, sweep, noise: report(min(sweep, _BAR), noise),
            }

    def _take_report(self, report: TableReport) -> None:
        self.report_, self.status_ = report, report.status.name
        self.n_iter_ = max(1, report.sweeps)

    def _warn_of_report(self) -> None:
        """Warn if the model does not predict, or the fit was not finished."""
        if not self.report_.succeeded:
            name = type(self).__name__
            warn_user(f"{name}: {self.report_.sentence()}", ConvergenceWarning)

    def _validated(self, X: Any, reset: bool, **rules: Any) -> tuple[Any, FrameParts | None]:
        """The numbers of a table, NaN if missing, and the parts of a data frame.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame
        reset : bool
            Whether this is a fit; otherwise the columns must be those of the fit.
        **rules
            Arguments of scikit-learn's `check_array`.
        """
        # A fixed memory order, so that a frame and its array give bitwise the same result.
        rules = {"dtype": np.float64, "order": "C", "ensure_all_finite": False, **rules}
        refuse_file_name(X)
        frame = parts_of(X, None if reset else self._columns_of_fit(X))
        if frame is None:
            refuse_complex(X)
            _refuse_text(X, self._cure_of_text)
            # Masked entries are missing.
            X = np.ma.filled(X * 1.0, np.nan) if isinstance(X, np.ma.MaskedArray) else X
            array = validate_data(self, X, reset=reset, **rules)
            refuse_large(array)
            return array, None
        refuse_large(frame.array, frame)
        array = check_array(frame.array, estimator=self, **rules)
        if reset:
            self.n_features_in_ = array.shape[1]
            vars(self).pop("feature_names_in_", None)
            if all(isinstance(name, str) for name in frame.numeric):
                self.feature_names_in_ = np.array(frame.numeric, dtype=object)
        elif array.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {array.shape[1]} columns of numbers, but {type(self).__name__} is "
                f"expecting {self.n_features_in_} features as input."
            )
        return array, frame

    def _columns_of_fit(self, X: Any) -> list[Any] | None:
        """Names of the numeric columns of the fitted data frame, if known."""
        names = getattr(self, "feature_names_in_", None)
        if names is not None:
            return list(names)
        columns = getattr(X, "columns", ())
        return list(columns) if len(columns) == self.n_features_in_ else None

    def _check_loaded(self) -> None:
        if hasattr(self, "factor_model_"):
            model = self._model()
            if np.shape(model.location) != np.shape(self.noise_variance_):
                raise ValueError("The numbers of columns differ.")

    def _model(self) -> FactorModel:
        check_is_fitted(self)
        return FactorModel.from_state(self.factor_model_)


def _refuse_text(X: Any, cure: str) -> None:
    """Raise an error that names a cell with text, except in data frames."""
    if sparse.issparse(X):
        return
    try:
        array = np.asarray(X)
    except ValueError:  # ragged lists; scikit-learn has a message for these
        return
    if array.ndim == 2 and array.dtype.kind in "USO":
        text = next((place for place in np.ndindex(array.shape) if _is_text(array[place])), None)
        if text is not None:
            raise ValueError(
                f"There is text, {str(array[text])!r} at {list(text)}, counted from 0, in a table "
                f"of numbers. {cure}"
            )


def _is_text(cell: Any) -> bool:
    """Whether it cannot be converted to a number."""
    try:
        float(cell)
    except ValueError:
        return True
    except TypeError:  # neither text nor number; scikit-learn has a message for this
        return False
    return False


def refuse_large(values: Any, frame: FrameParts | None = None) -> None:
    """Raise an error that names a value that is infinite, or too large to be squared."""
    stored = getattr(values, "data", values) if sparse.issparse(values) else values
    large = np.argwhere(np.abs(stored) > LARGEST)
    if not len(large):
        return
    value, where = stored[tuple(large[0])], f"at {large[0].tolist()}, counted from 0"
    if frame is not None:
        row, column = large[0]
        name = row_names(frame.frame, frame.library)[row]
        where = f"in column {frame.numeric[column]!r}, row {name!r}"
    what = "infinity" if np.isinf(value) else f"{value:g}"
    raise ValueError(
        f"There is {what} {where}; values must be below {LARGEST:g}. Mark it as missing (NaN), "
        "or change the unit of the column."
    )


def check_level(level: Any) -> None:
    """Raise an error if this is not a probability."""
    if not isinstance(level, numbers.Real) or not 0 < float(level) < 1:
        shown = level if isinstance(level, numbers.Real) else f"a {type(level).__name__}"
        raise ValueError(f"level must be a probability between 0 and 1, such as 0.9; got {shown}.")


def width_of(level: Any, model: FactorModel) -> np.ndarray:
    """Half widths of intervals in standard errors, for a checked level."""
    check_level(level)
    return model.width(level)


def predicted_by_others(
    table: np.ndarray, filled: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """Predict every cell from the others of its row, hiding a fifth of the columns at a time."""
    predicted = np.zeros_like(table)
    fold = np.arange(table.shape[1]) % min(_FOLDS, table.shape[1])
    for each in np.unique(fold):
        hidden = np.where(fold == each, np.nan, table)
        predicted = np.where(fold == each, filled(hidden), predicted)
    return predicted
