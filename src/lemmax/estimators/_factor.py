"""What the estimators on the factor model share."""

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
from ._base import RecoveringEstimator, check_loss, refuse_complex
from ._frames import FrameParts, parts_of, row_names
from ._report import TableReport

# The length of the progress bar; nobody knows how many sweeps it will take.
_BAR = 160
# Parts of the columns that are hidden in turn, for the score.
_FOLDS = 5


class FactorEstimator(RecoveringEstimator):
    """An estimator whose fit is a robust factor model."""

    n_components: Any
    max_components: Any
    max_seconds: Any
    n_components_: int
    noise_variance_: np.ndarray
    # Sparse, or a data frame.
    outliers_: Any
    report_: TableReport
    factor_model_: dict[str, Any]
    # What who has text among the numbers is told to do.
    _cure_of_text = "Of a data frame, columns of text are set aside."

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
        """Time and progress of a fit, as keyword arguments."""
        bar = contextlib.nullcontext(lambda step, value: None)
        if self.verbose:
            # A fit without it needs no JAX, which is imported with that folder.
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
        """Warn if nothing is predicted, or the fit was not finished."""
        if not self.report_.succeeded:
            name = type(self).__name__
            warn_user(f"{name}: {self.report_.sentence()}", ConvergenceWarning)

    def _validated(self, X: Any, reset: bool, **rules: Any) -> tuple[Any, FrameParts | None]:
        """The numbers of a table, NaN at holes, and the parts of the data frame if it is one.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame
        reset : bool
            Whether this is a fit; otherwise columns are those of the fit, in its order.
        **rules
            Of scikit-learn's `check_array`.
        """
        # In one order, so that a frame and its array have the same answer to the last bit.
        rules = {"dtype": np.float64, "order": "C", "ensure_all_finite": "allow-nan", **rules}
        frame = parts_of(X, None if reset else self._columns_of_fit(X))
        if frame is None:
            refuse_complex(X)
            _refuse_text(X, self._cure_of_text)
            # What is masked is missing.
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
        """Names of the columns of numbers in a data frame like that of the fit, if known."""
        names = getattr(self, "feature_names_in_", None)
        if names is not None:
            return list(names)
        columns = getattr(X, "columns", ())
        return list(columns) if len(columns) == self.n_features_in_ else None

    def _check_loaded(self) -> None:
        if hasattr(self, "factor_model_"):
            model = self._model()
            if np.shape(model.location) != np.shape(self.noise_variance_):
                raise ValueError("The model has another number of columns.")

    def _model(self) -> FactorModel:
        check_is_fitted(self)
        return FactorModel.from_state(self.factor_model_)


def _refuse_text(X: Any, cure: str) -> None:
    """Raise a sentence that names a cell with text, of anything but a data frame."""
    if sparse.issparse(X):
        return
    try:
        array = np.asarray(X)
    except ValueError:  # lists of several lengths, about which scikit-learn says more
        return
    if array.ndim == 2 and array.dtype.kind in "USO":
        text = next((place for place in np.ndindex(array.shape) if _is_text(array[place])), None)
        if text is not None:
            raise ValueError(
                f"There is text, {str(array[text])!r} at {list(text)}, counted from 0, in what is "
                f"taken for a table of numbers. {cure}"
            )


def _is_text(cell: Any) -> bool:
    """Whether it cannot be taken for a number."""
    try:
        float(cell)
    except ValueError:
        return True
    except TypeError:  # scikit-learn says more about what is neither
        return False
    return False


def refuse_large(values: Any, frame: FrameParts | None = None) -> None:
    """Raise a sentence that names a value that is infinite, or too large to be squared."""
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
        f"There is {what} {where}; values must be below {LARGEST:g}. Make it a hole (NaN), or "
        "give the column another unit."
    )


def check_level(level: Any) -> None:
    """Raise a sentence if this is no probability."""
    if not isinstance(level, numbers.Real) or not 0 < float(level) < 1:
        shown = level if isinstance(level, numbers.Real) else f"a {type(level).__name__}"
        raise ValueError(f"level is a probability between 0 and 1, such as 0.9; got {shown}.")


def width_of(level: Any, model: FactorModel) -> np.ndarray:
    """Half widths of intervals in standard errors, of a level that is checked."""
    check_level(level)
    return model.width(level)


def predicted_by_others(
    table: np.ndarray, filled: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """Every cell as the others of its row predict it, a fifth of the columns hidden at a time."""
    predicted = np.zeros_like(table)
    fold = np.arange(table.shape[1]) % min(_FOLDS, table.shape[1])
    for each in np.unique(fold):
        hidden = np.where(fold == each, np.nan, table)
        predicted = np.where(fold == each, filled(hidden), predicted)
    return predicted
