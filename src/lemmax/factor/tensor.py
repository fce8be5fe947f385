"""The robust factor model of a tensor: terms, their number, errors of entries, a verdict."""

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import special

from .._draws import uniform_by_rank
from .._terms import balanced, decompose, mode_order, nearest_tucker, unfolded
from ..status import Stopped
from . import _constants as constants
from ._calibration import LEVELS, Calibration, calibrated
from ._fit import Options
from ._held_out import Aside, HeldOut, summarised
from ._judge import Judgement, Prediction, judged
from ._series import Sweeps
from ._sweeps import Setting, smallest_variances
from ._tensor_sweeps import TensorCells, TensorModel, first_model, sweep


class _Rank(NamedTuple):
    model: TensorModel
    errors: np.ndarray
    """Squared errors at the held-out entries."""
    bound_is_low: bool = False


class TensorFit:
    """A tensor as a sum of outer products, with errors of all entries; made by `fit_tensor`."""

    def __init__(
        self,
        cells: TensorCells,
        model: TensorModel,
        unit: float,
        setting: Setting,
        aside: Aside,
        run: "_Run",
        bound_is_low: bool,
        seconds: float,
    ):
        self._cells, self._model, self._unit = cells, model, unit
        self.rank, self.sweeps, self.seconds = model.rank, run.sweeps, seconds
        self.converged, self.interrupted = run.converged, run.interrupted
        self.bound_is_low = bound_is_low
        """Whether one more term than allowed predicts held-out entries better."""
        values = model.values()
        predicted = _predictions(cells, model, values)
        flat = cells.flat
        verdict = Judgement(np.zeros(flat.known.shape, bool), 1.0 * flat.known)
        if setting.robust:
            verdict = judged(flat, predicted)
        self.wrong: np.ndarray = verdict.wrong.reshape(values.shape)
        """Which entries are wrong."""
        scores, unseen = predicted.scores(), aside.scores()
        self._calibration: Calibration = calibrated(flat, scores, unseen, verdict.counts, own=True)
        self.held_out: HeldOut = summarised(flat, aside, unseen, verdict, own=True)
        self._variance, self._values = predicted.variance.reshape(values.shape), values

    @property
    def factors(self) -> tuple[np.ndarray, ...]:
        """One for each mode, in units of the tensor; all modes share the sizes of the terms."""
        first, *rest = self._model.factors
        return balanced((first * self._unit, *rest))

    @property
    def noise(self) -> float:
        """Standard deviation of the noise."""
        return float(np.sqrt(self._model.variance)) * self._unit

    @property
    def nearly_exact(self) -> bool:
        """Whether there may be no noise at all, which least squares would show."""
        return bool(self._model.variance <= constants.NEARLY_EXACT_TENSOR**2)

    @property
    def exact(self) -> bool:
        """Never claimed: this fit ends where noise is small."""
        return False

    def values(self) -> np.ndarray:
        """The tensor as the model has it."""
        return self._values * self._unit

    def standard_errors(self) -> np.ndarray:
        """Of every entry, as predicted by the others."""
        scale = float(self._calibration.width(constants.LEVEL)[0]) / constants.QUANTILE
        return np.sqrt(self._variance) * self._unit * scale

    @property
    def interval_widths(self) -> np.ndarray:
        """Half widths of intervals in standard errors, for the levels of `interval_width`."""
        return (
            self._calibration.widths * constants.QUANTILE / self._calibration.width(constants.LEVEL)
        )

    def doubtful(self) -> tuple[np.ndarray, ...]:
        """Slices of each mode of which nothing is known, or most of what is known is wrong."""
        known, found = self._cells.known, []
        for mode in range(known.ndim):
            seen = unfolded(known, mode).sum(axis=1)
            wrong = unfolded(self.wrong, mode).sum(axis=1)
            found.append(np.flatnonzero((seen == 0) | (wrong > constants.HALF * seen)))
        return tuple(found)


def normal_widths() -> np.ndarray:
    """Half widths of intervals in standard errors, if errors are normal."""
    return special.ndtri((1 + LEVELS) / 2)[:, None]


def interval_width(widths: np.ndarray, level: float) -> float:
    """Half width of intervals of a level, in standard errors, from `TensorFit.interval_widths`."""
    return float(Calibration(widths).width(level)[0])


def fit_tensor(
    tensor: np.ndarray,
    weights: np.ndarray | None = None,
    options: Options | None = None,
    *,
    max_seconds: float | None = None,
    callback: Callable[[str, int, float], object] | None = None,
) -> TensorFit:
    """Fit a sum of outer products to a tensor with noise, holes (NaN) and wrong entries.

    Parameters
    ----------
    tensor : array
    weights : array of that shape, optional
        How much each entry counts: the inverse of its relative noise variance.
    options : Options, optional
        ``components`` or ``most``, ``robust`` and ``seed`` count.
    max_seconds : float, optional
        After so many seconds the fit ends with what it has.
    callback : callable, optional
        Called with what is going on, the sweep and the noise; the fit stops if it returns True.
    """
    options, began = options or Options(), time.perf_counter()
    weights = ~np.isnan(tensor) * (1.0 if weights is None else weights)
    known = weights > 0
    values = np.where(known, tensor, 0.0)
    unit = constants.NORMAL * float(np.median(np.abs(values[known])))
    unit = unit or float(np.sqrt(np.mean(values[known] ** 2))) or 1.0
    given = TensorCells(values / unit, weights / np.mean(weights, where=known))
    # Modes take turns, so the fit depends on their order, and must not on that of the tensor.
    order = mode_order(values.shape, values)
    cells, back = given.transposed(order), tuple(np.argsort(order).tolist())
    setting = Setting(
        robust=options.robust,
        own_noise=False,
        smallest=smallest_variances(np.zeros(1)),
        widest=np.inf,
        centred=False,
    )
    rng = np.random.default_rng(options.seed)
    share = min(constants.ASIDE, constants.ENOUGH_ASIDE / known.sum())
    aside_of_given = uniform_by_rank(values, known, rng) < share
    chosen = np.transpose(aside_of_given, order)

    def watch(step: int, noise: float) -> None:
        late = max_seconds is not None and time.perf_counter() - began > max_seconds
        if step and (late or (callback is not None and callback("sweep", step, noise) is True)):
            raise Stopped

    run, low = _Run(setting, watch), False
    aside = Aside.none(given.flat)
    try:
        best = _best_rank(cells.without(chosen), cells, chosen, options, run, rng)
        model, low = best.model, best.bound_is_low
        aside = _measured(given, model.transposed(back), aside_of_given)
        # Weights anew: a fit that begins with those where another ended keeps them.
        model = run.over(cells, first_model(cells, model.factors, setting)).without_dead_terms()
    except (Stopped, KeyboardInterrupt):
        run.interrupted = True
        if run.last is None:
            raise
        model = run.last
    model = model.transposed(back)
    return TensorFit(given, model, unit, setting, aside, run, low, time.perf_counter() - began)


class _Run(Sweeps):
    """Series of sweeps over entries."""

    def __init__(self, setting: Setting, watch: Callable[[int, float], None]):
        super().__init__(watch)
        self.setting = setting

    def over(self, cells: TensorCells, model: TensorModel) -> TensorModel:
        """Until a sweep changes the entries by no more than a part of the noise."""
        return self.fit(
            model,
            lambda model: sweep(cells, model, self.setting),
            lambda now, before: np.sqrt(np.mean((now - before) ** 2, where=cells.known)),
            lambda noise: (
                noise if noise <= constants.NEARLY_EXACT_TENSOR else constants.STILL * noise
            ),
        )


def _best_rank(
    part: TensorCells,
    cells: TensorCells,
    chosen: np.ndarray,
    options: Options,
    run: _Run,
    rng: np.random.Generator,
) -> _Rank:
    """The number of terms that predicts held-out entries best, and a fit without them.

    From the number of singular values that stand out of the noise, up and down.
    """
    most = options.components or options.most
    known = part.known
    filled = np.clip(part.values, -constants.START_CLIPPED, constants.START_CLIPPED) / np.mean(
        known
    )
    fits: dict[int, _Rank] = {}

    def fitted(rank: int) -> _Rank:
        nonlocal filled
        if rank not in fits:
            start = nearest_tucker(filled, rank, symmetric=False, noisy=True)
            factors = decompose(start, rank, rng, symmetric=False, tries=constants.ROUNDS)
            first = first_model(part, factors, run.setting)
            allowed = run.last
            try:
                model = run.over(part, first).without_dead_terms()
            except (Stopped, KeyboardInterrupt):
                # What is tried to see whether the bound is too low is no answer.
                run.last = allowed if rank > most else run.last
                raise
            values = model.values()
            errors = np.sqrt(cells.weights) * (cells.values - values)
            fits[rank] = _Rank(model, np.minimum(np.abs(errors[chosen]), constants.CLIPPED) ** 2)
            # The next start sees what this fit has made of holes and wrong entries.
            filled = np.where(known & (model.right > constants.HALF), cells.values, values)
        return fits[rank]

    if options.components is not None or not chosen.any():
        return fitted(most)
    best = fitted(_standing(filled, most))
    while best.model.variance > constants.NEARLY_EXACT_TENSOR**2:
        more = fitted(best.model.rank + 1)
        if not _is_better(more, best):
            break
        if best.model.rank == most:
            return best._replace(bound_is_low=_is_better(more, best, constants.SURELY))
        best = more
    while best.model.rank > 1 and not _is_better(best, fewer := fitted(best.model.rank - 1)):
        best = fewer
    return best


def _is_better(one: _Rank, other: _Rank, surely: float = 1.0) -> bool:
    """Whether the errors of a fit are smaller, by more than so many standard errors."""
    gain = other.errors - one.errors
    return bool(np.mean(gain) > surely * np.std(gain) / np.sqrt(len(gain)))


def _standing(tensor: np.ndarray, most: int) -> int:
    """How many singular values of its unfoldings stand out of the noise, at the most."""
    standing = 1
    for mode, side in enumerate(tensor.shape):
        matrix = unfolded(tensor, mode)
        squares = np.linalg.eigvalsh(matrix @ matrix.T)[::-1]
        size = np.sqrt(max(0.0, float(np.sum(squares[most:]))) / tensor.size)
        edge = constants.EDGE * size * (np.sqrt(side) + np.sqrt(tensor.size / side))
        standing = max(standing, int(np.sum(squares[:most] > edge**2)))
    return standing


def _measured(cells: TensorCells, model: TensorModel, chosen: np.ndarray) -> Aside:
    """Errors at the held-out entries."""
    values = model.values()
    variance = model.variance / np.where(chosen, cells.weights, 1.0) + model.uncertainty(values)
    residual, spread, away = (
        np.where(chosen, each, np.nan).reshape(-1, 1)
        for each in (cells.values - values, variance, cells.values)
    )
    return Aside(chosen.reshape(-1, 1), residual, residual, spread, away)


def _predictions(cells: TensorCells, model: TensorModel, values: np.ndarray) -> Prediction:
    """Every entry predicted without itself, as one column."""
    known = cells.known
    fitted = model.uncertainty(values)
    leverage = cells.weights * model.right * fitted / model.variance
    apart = 1 / (1 - np.minimum(leverage, constants.LARGEST_LEVERAGE))
    residual = np.where(known, (cells.values - values) * apart, 0.0)
    noise = model.variance / np.where(known, cells.weights, 1.0)
    return Prediction(residual.reshape(-1, 1), (noise + fitted * apart).reshape(-1, 1))
