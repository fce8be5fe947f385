"""The robust factor model in the units of the user: predictions with errors, a verdict."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .._threads import one_thread_of_lapack
from ..status import Stopped
from . import _constants as constants
from ._calibration import Calibration
from ._cells import AbstractCells, DenseCells, ListedCells
from ._columns import Columns
from ._exact import determined
from ._fit import Fitted, Options, fit, settled_rows
from ._held_out import HeldOut
from ._judge import Prediction, WrongLaw, predictions, uncertainty_factors
from ._relative import RelativeNoise
from ._sweeps import Model, Posterior, Setting


class Rows(NamedTuple):
    """Rows of a table as the model has them."""

    scores: np.ndarray
    values: np.ndarray
    """Of all cells."""
    standard_errors: np.ndarray
    """Of values as predictions of the cells by the other cells of their row."""
    wrong: np.ndarray


class FactorModel:
    """Columns, rows and noise of a table, in its own units; also from a file, without the table.

    Parameters
    ----------
    columns : Columns
    model : Model
    setting : Setting
    calibration : Calibration
    usual : array of shape (columns,)
        Variances of predictions at which that was measured.
    relative : RelativeNoise
    law : WrongLaw, optional
        By which cells are judged; None if the table has no noise, or the loss is not robust.
    told : pair of arrays of bool, optional
        Of a table whose right cells are explained up to rounding errors, which is proved: which
        rows and which columns have enough right cells. None if there is noise.
    """

    def __init__(
        self,
        columns: Columns,
        model: Model,
        setting: Setting,
        calibration: Calibration,
        usual: np.ndarray,
        relative: RelativeNoise,
        law: WrongLaw | None,
        told: tuple[np.ndarray, np.ndarray] | None,
    ):
        self.columns, self.model, self.setting = columns, model, setting
        self.calibration, self.usual, self.relative = calibration, usual, relative
        self.law, self.told = law, told

    @property
    def exact(self) -> bool:
        """Whether the right cells are explained up to rounding errors."""
        return self.told is not None

    @property
    def rank(self) -> int:
        """The number of components."""
        return self.model.rank

    @property
    def location(self) -> np.ndarray:
        """Of each column."""
        return self.columns.centre + self.scale * self.model.location

    @property
    def scale(self) -> np.ndarray:
        """The unit of each column, robustly."""
        return self.columns.scale

    @property
    def loadings(self) -> np.ndarray:
        """One row for each column of the table; scores have mean 0 and covariance 1."""
        return self.model.loadings * self.scale[:, None]

    @property
    def scores(self) -> np.ndarray:
        """One row for each row of the table."""
        return self.model.rows.mean[:, : self.rank]

    @property
    def row_effects(self) -> np.ndarray:
        """Of each row; zeros if the model has none."""
        if not self.model.effects:
            return np.zeros(len(self.model.rows.mean))
        return self.model.rows.mean[:, self.rank] * self.scale[0]

    @property
    def noise_variance(self) -> np.ndarray:
        """Of each column."""
        if self.exact:
            return np.zeros(len(self.scale))
        return self.model.variance * self.relative.columns * self.scale**2

    def values(self) -> np.ndarray:
        """The table as the model has it."""
        return self.columns.centre + self.scale * (self.model.left @ self.model.right_factor.T)

    def width(self, level: float) -> np.ndarray:
        """Half widths of intervals of a level, in standard errors, for each column."""
        return (
            self.calibration.width(level)
            * constants.QUANTILE
            / self.calibration.width(constants.LEVEL)
        )

    @property
    def rounding(self) -> np.ndarray:
        """What intervals allow for rounding errors where standard errors are 0, for each column."""
        return self.scale * (constants.ROUNDING if self.exact else 0.0)

    def _errors(self, variance: np.ndarray, columns: np.ndarray | slice) -> np.ndarray:
        """Standard errors in units of the table, from variances of the model."""
        errors = np.sqrt(variance) * self.scale[columns]
        if self.exact:
            return np.where(variance > constants.SMALLEST_NOISE**2, errors, 0.0)
        factor = self.calibration.width(constants.LEVEL)[columns] / constants.QUANTILE
        # If errors are smaller than the model has them, that is so of usual cells: it says nothing
        # about what else is uncertain where, say, both copies of a column are missing.
        usual = self.usual[columns]
        more = np.sqrt(factor**2 * np.minimum(variance, usual) + np.maximum(variance - usual, 0))
        return np.where(factor < 1, more * self.scale[columns], errors * factor)

    def predict(self, rows: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Values and standard errors at places; -1 is a row or column that was not seen."""
        model = self.model
        shape = (len(model.rows.mean), len(model.columns.mean))
        new_row, new_column = rows < 0, columns < 0
        cells = ListedCells(np.maximum(rows, 0), np.maximum(columns, 0), np.zeros(len(rows)), shape)
        left, right = model.left[cells.rows], model.right_factor[cells.columns]
        left[new_row, : self.rank] = 0.0
        left[new_row, self.rank + 1 :] = 0.0
        right[new_column, : self.rank + 1] = 0.0
        variance = np.zeros(len(rows))
        for factors in uncertainty_factors(model):
            variance += cells.products(*factors)
        # Of what was not seen, the spread among those that were seen is all that is known.
        spread = np.sum(model.loadings**2, axis=1)
        of_row, of_column = model.effect_variances if model.effects else (0.0, 1.0)
        variance = np.where(new_row, variance + spread[cells.columns] + of_row, variance)
        unseen = float(np.mean(spread)) + of_column + of_row * new_row
        noise = np.where(new_row, 1.0, self.relative.rows[cells.rows])
        noise *= np.where(new_column, 1.0, self.relative.columns[cells.columns])
        variance = np.where(new_column, unseen, variance) + noise * model.variance[cells.columns]
        value = np.einsum("ij,ij->i", left, right) * self.scale[cells.columns]
        errors = self._errors(variance, cells.columns)
        if self.told is not None:
            known = (new_row | self.told[0][cells.rows]) & (
                new_column | self.told[1][cells.columns]
            )
            errors = np.where(known, errors, np.inf)
        return self.columns.centre[cells.columns] + value, errors

    def new_rows(self, table: np.ndarray) -> Rows:
        """Rows that need not have been part of the fit; NaN marks holes."""
        cells = DenseCells((table - self.columns.centre) / self.scale)
        model = settled_rows(cells, self.model, self.setting)
        standard = model.left @ model.right_factor.T
        predicted = predictions(cells, model, cells.values - standard)
        wrong = np.zeros(table.shape, bool)
        if self.setting.robust:
            limit = self.calibration.width(constants.LEVEL) * np.sqrt(predicted.variance)
            wrong = cells.known & (np.abs(predicted.residual) > limit)
            wrong &= model.right < 0.5 if self.law is None else self.law.calls_wrong(predicted)
        return Rows(
            model.rows.mean[:, : self.rank],
            self.columns.centre + self.scale * standard,
            self._errors(_variances(cells, model, predicted), slice(None)),
            wrong,
        )

    def state(self) -> dict[str, Any]:
        """Arrays and numbers from which the model can be made again."""
        model = self.model
        return {
            "columns": [np.asarray(each) for each in self.columns],
            "column_posterior": [np.asarray(each) for each in model.columns],
            "row_posterior": [np.asarray(each) for each in model.rows],
            "variance": model.variance,
            "loading_precision": model.loading_precision,
            "effect_variances": [float(each) for each in model.effect_variances],
            "wrong": [float(model.wrong_share), float(model.wrong_width)],
            "effects": bool(model.effects),
            "robust": bool(self.setting.robust),
            "own_noise": bool(self.setting.own_noise),
            "smallest": self.setting.smallest,
            "widest": float(self.setting.widest),
            "centred": bool(self.setting.centred),
            "widths": self.calibration.widths,
            "usual_variance": self.usual,
            "relative_noise": list(self.relative),
            "law": None if self.law is None else list(self.law),
            "told": None if self.told is None else list(self.told),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> "FactorModel":
        """The model that `state` was taken from, but for the weights of its cells."""
        first, second = state["effect_variances"]
        share, width = state["wrong"]
        model = Model(
            columns=Posterior(*state["column_posterior"]),
            rows=Posterior(*state["row_posterior"]),
            variance=state["variance"],
            loading_precision=state["loading_precision"],
            effect_variances=(first, second),
            wrong_share=share,
            wrong_width=width,
            right=np.zeros(0),
            effects=state["effects"],
        )
        setting = Setting(
            state["robust"],
            state["own_noise"],
            state["smallest"],
            state["widest"],
            state["centred"],
        )
        calibration = Calibration(state["widths"])
        told = None if state["told"] is None else tuple(state["told"])
        relative = RelativeNoise(*state["relative_noise"])
        law = None if state["law"] is None else WrongLaw(*state["law"])
        columns, usual = Columns(*state["columns"]), state["usual_variance"]
        return cls(columns, model, setting, calibration, usual, relative, law, told)


def _variances(cells: AbstractCells, model: Model, predicted: Prediction) -> np.ndarray:
    """Of predictions of all cells of a dense table by the other cells of their row."""
    variance = model.variance + sum(left @ right.T for left, right in uncertainty_factors(model))
    return np.where(cells.known, predicted.variance, variance)


class FactorFit(FactorModel):
    """A model with the table it was fitted to.

    Made by `fit_table` and `fit_entries`.
    """

    def __init__(self, fitted: Fitted, seconds: float):
        super().__init__(
            fitted.columns,
            fitted.model,
            fitted.setting,
            fitted.calibration,
            fitted.usual,
            fitted.relative,
            fitted.law,
            None
            if fitted.exact is None
            else determined(fitted.cells, fitted.exact, fitted.model, fitted.setting),
        )
        self._fitted, self.seconds = fitted, seconds
        self.held_out: HeldOut = fitted.held_out
        self.interrupted, self.sweeps = fitted.interrupted, fitted.sweeps
        self.converged = self.exact or fitted.converged
        self.bound_is_low = fitted.bound_is_low
        self.wrong: np.ndarray = fitted.wrong
        """Which cells are wrong: of the shape of the table, or one for each entry of a list."""

    def standard_errors(self) -> np.ndarray:
        """Of every cell of a dense table, as predicted by the others."""
        cells = self._fitted.cells
        variance = _variances(cells, self.model, self._fitted.predicted)
        errors = self._errors(variance, slice(None))
        if self.told is None:
            return errors
        # Exact, but where a row or a column has too few right cells to tell.
        rows, columns = self.told
        return np.where(rows[:, None] & columns, errors, np.inf)

    def doubtful(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows and columns of which nothing is known, or most of what is known is wrong."""
        cells = self._fitted.cells
        known, wrong = cells.known.astype(np.float64), self.wrong.astype(np.float64)
        doubtful = []
        for sums, other in ((cells.row_sums, 1), (cells.column_sums, 0)):
            ones = np.ones((cells.shape[other], 1))
            seen, bad = sums(known, ones)[:, 0], sums(wrong, ones)[:, 0]
            doubtful.append((seen == 0) | (bad > constants.HALF * seen))
        if self.told is not None:
            doubtful = [each | ~one for each, one in zip(doubtful, self.told, strict=True)]
        return np.flatnonzero(doubtful[0]), np.flatnonzero(doubtful[1])


def fit_table(
    table: np.ndarray,
    weights: np.ndarray | None = None,
    options: Options | None = None,
    *,
    max_seconds: float | None = None,
    callback: Callable[[str, int, float], object] | None = None,
) -> FactorFit:
    """Fit a factor model to a dense table in which NaN marks holes.

    Parameters
    ----------
    table : array of shape (rows, columns)
    weights : array of that shape, optional
        How much each cell counts: the inverse of its relative noise variance.
    options : Options, optional
    max_seconds : float, optional
        After so many seconds the fit ends with what it has.
    callback : callable, optional
        Called with what is going on, the sweep and the noise; the fit stops if it returns True.
    """
    return _fit(DenseCells(table, weights), options or Options(), max_seconds, callback)


def fit_entries(
    rows: np.ndarray,
    columns: np.ndarray,
    values: np.ndarray,
    shape: tuple[int, int],
    weights: np.ndarray | None = None,
    options: Options | None = None,
    *,
    max_seconds: float | None = None,
    callback: Callable[[str, int, float], object] | None = None,
) -> tuple[FactorFit, np.ndarray]:
    """Fit a factor model to a list of entries; also which of them are wrong, in their order.

    If enough of the table is known and no place occurs twice, it is fitted as a table.

    Parameters
    ----------
    rows, columns : arrays of int
    values : array
    shape : pair of int
    weights : array, optional
    options : Options, optional
    max_seconds, callback
        As for `fit_table`.
    """
    options = options or Options(effects=True, common=True)
    places = np.asarray(rows, np.int64) * shape[1] + columns
    if len(places) >= constants.DENSE * shape[0] * shape[1] and len(np.unique(places)) == len(
        places
    ):
        table = np.full(shape, np.nan)
        table[rows, columns] = values
        precisions = None
        if weights is not None:
            precisions = np.zeros(shape)
            precisions[rows, columns] = weights
        found = _fit(DenseCells(table, precisions), options, max_seconds, callback)
        return found, found.wrong[rows, columns]
    cells, order = ListedCells.sorted(rows, columns, values, shape, weights)
    found = _fit(cells, options, max_seconds, callback)
    wrong = np.zeros(len(values), bool)
    wrong[order] = found.wrong
    return found, wrong


def _fit(
    cells: AbstractCells,
    options: Options,
    max_seconds: float | None,
    callback: Callable[[str, int, float], object] | None,
) -> FactorFit:
    began = time.perf_counter()

    def watch(stage: str, sweep: int, noise: float) -> None:
        late = max_seconds is not None and time.perf_counter() - began > max_seconds
        # The first sweep is always made: there must be something to hand over.
        if sweep and (late or (callback is not None and callback(stage, sweep, noise) is True)):
            raise Stopped

    # The sums of large tables are computed in threads of their own.
    with one_thread_of_lapack():
        return FactorFit(fit(cells, options, watch), time.perf_counter() - began)
