"""From a table to a fitted model: held-out cells, rank, all cells, what is wrong, intervals."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..status import Stopped
from . import _constants as constants
from ._calibration import Calibration, calibrated
from ._cells import AbstractCells, DenseCells, ListedCells
from ._columns import Columns, common_unit, own_units
from ._exact import Exact, exact, exact_model, extended
from ._held_out import Aside, HeldOut, measured, summarised
from ._judge import Judgement, Prediction, WrongLaw, judged, predictions
from ._rank import (
    best_rank,
    errors_by_rank,
    exact_rank,
    fewest_components,
    hold_out_sets,
    last_helps,
    with_components,
    without,
)
from ._relative import RelativeNoise, relative_noise
from ._series import Sweeps
from ._sweeps import (
    Model,
    Posterior,
    Setting,
    again,
    smallest_variances,
    start,
    sweep,
    update_rows,
    weigh,
)


class Options(NamedTuple):
    """How a table is fitted."""

    components: int | None = None
    """How many; found if None."""
    most: int = 12
    """The largest number of components."""
    robust: bool = True
    effects: bool = False
    """Whether rows have levels of their own, as users have in ratings."""
    common: bool = False
    """Whether all columns have one unit and one noise."""
    centred: bool = True
    seed: int = 0


class Fitted(NamedTuple):
    """A model of a table, in standardised units, and what is known about its cells."""

    cells: AbstractCells
    """Standardised."""
    columns: Columns
    model: Model
    setting: Setting
    wrong: np.ndarray
    """At the cells."""
    predicted: Prediction
    calibration: Calibration
    usual: np.ndarray
    """Median variance of a prediction in each column, at which widths were calibrated."""
    law: WrongLaw | None
    held_out: HeldOut
    exact: Exact | None
    sweeps: int
    converged: bool
    interrupted: bool
    relative: RelativeNoise
    bound_is_low: bool
    """Whether the last component that was allowed still lowers errors at held-out cells."""


Watch = Callable[[str, int, float], None]


def fit(cells: AbstractCells, options: Options, watch: Watch) -> Fitted:
    """Fit the model; `watch` is called before every sweep and may raise `Stopped`."""
    # Weights are relative: only their ratios count.
    cells = cells.with_weights(cells.weights / np.mean(cells.weights, where=cells.known))
    columns = common_unit(cells) if options.common else own_units(cells)
    if not options.centred:
        columns = columns._replace(centre=np.zeros_like(columns.centre))
    standard = cells.with_values(
        (cells.values - cells.of_columns(columns.centre)) / cells.of_columns(columns.scale)
    )
    setting = Setting(
        robust=options.robust,
        own_noise=not options.common,
        smallest=smallest_variances(columns.resolution),
        widest=_half_range(standard, columns) if options.effects else np.inf,
        centred=options.centred,
    )
    rng = np.random.default_rng(options.seed)
    sample = _sampled(standard, rng)
    folds = hold_out_sets(sample, rng)
    run, found, model = _Run(watch), None, None
    noise = RelativeNoise.none(cells.shape)
    aside = Aside.none(sample)
    listed = isinstance(sample, ListedCells)
    many = listed and sample.count > constants.MANY
    models, errors = [], []
    try:
        rank = _largest_rank(cells.shape, options) if np.any(sample.values) else 0
        for chosen in folds:
            part = without(sample, chosen)
            first = start(part, rank, options.effects, setting, options.seed)
            models.append(run.over(part, first, setting, constants.NEARLY_STILL))
            aside = aside.joined(measured(sample, models[-1], chosen))
            errors.append(errors_by_rank(sample, part, models[-1], chosen))
            if len(models) == 1:
                model, found = _near_exact(sample, models[0], errors[0], aside, setting, many)
                if found is not None:
                    break
        if found is None and options.components is None and aside.chosen.any():
            together = [np.concatenate(each) for each in zip(*errors, strict=True)]
            fewest = listed or options.common
            rank = fewest_components(together) if fewest else best_rank(together)
            run.bound_is_low = rank == options.most and last_helps(together)
        if found is None and rank < models[0].rank:
            # Intervals are those of the rank that was chosen. (With scores of the larger one 90 %
            # intervals covered less than 80 % of 48 instances of 111 tables, else of 29.) What the
            # user is told about errors stays: it does not depend on the choice.
            for k, chosen in enumerate(folds):
                part = without(sample, chosen)
                models[k] = run.over(
                    part, with_components(models[k], rank), setting, constants.NEARLY_STILL
                )
                aside = aside.with_errors(measured(sample, models[k], chosen))
        if found is None and options.effects and sample is standard:
            noise = relative_noise(without(sample, folds[0]), models[0], setting)
            standard = sample = sample.with_weights(sample.weights / noise.at(sample))
            for k, chosen in enumerate(folds):
                models[k] = run.over(
                    without(sample, chosen), models[k], setting, constants.NEARLY_STILL
                )
                aside = aside.with_errors(measured(sample, models[k], chosen))
        if found is None:
            if listed:
                model = again(sample, with_components(models[0], rank), setting)
            else:
                # From scratch: a fit that begins where another ended keeps the weights of that.
                model = start(sample, rank, options.effects, setting, options.seed)
            model = run.over(sample, model, setting, constants.STILL)
            retried = _with_lost_rows(sample, model, setting)
            if retried is not None:
                model = run.over(sample, retried, setting, constants.STILL)
            if options.components is None:
                model = with_components(model, _living(model))
    except (Stopped, KeyboardInterrupt):
        run.interrupted = True
        if run.last is None:
            raise
        model = run.last
        if options.components is None and not models:
            # Surplus components cost more in the rows outside the sample than the rest of the fit.
            part = without(sample, folds[0])
            rank = best_rank(errors_by_rank(sample, part, model, folds[0]))
            model = with_components(model, rank)
        model = on_cells(sample, model, setting)
    assert model is not None
    return _judged(standard, sample, columns, model, setting, aside, found, run, noise)


class _Run(Sweeps):
    """Series of sweeps over cells."""

    def __init__(self, watch: Watch):
        super().__init__(lambda sweeps, noise: watch("sweep", sweeps, noise))
        self.bound_is_low = False

    def over(self, cells: AbstractCells, model: Model, setting: Setting, still: float) -> Model:
        """Until a sweep changes the table by no more than a part of its noise."""
        return self.fit(
            model,
            lambda model: sweep(cells, model, setting),
            lambda now, before: _distance(now, before, cells),
            lambda noise: still * noise,
        )


def _distance(now: np.ndarray, before: np.ndarray, cells: AbstractCells) -> float:
    """Root mean square at the known cells."""

    def work(piece: slice) -> float:
        away = now[piece] - before[piece]
        away *= cells.weights[piece] > 0  # faster than a sum of some
        return float(np.vdot(away, away))

    return float(np.sqrt(sum(cells.in_pieces(work)) / max(1, cells.count)))


def _half_range(cells: AbstractCells, columns: Columns) -> float:
    """Of cells with one unit, rounded as they are; without values or with one, anything."""
    known = cells.values[cells.known]
    reach = float(np.ptp(known)) if len(known) else 0.0
    return (reach + float(columns.resolution[0])) / 2 if reach > 0 else np.inf


def _largest_rank(shape: tuple[int, int], options: Options) -> int:
    if options.components is not None:
        return min(options.components, *shape)
    side = min(shape[0] // 2, shape[1] - options.centred)
    return max(1, min(side, options.most))


def _sampled(cells: AbstractCells, rng: np.random.Generator) -> AbstractCells:
    """Some rows, if there are more than it takes to learn the columns."""
    count, width = cells.shape
    rows = min(constants.ROWS, max(constants.FEWEST_ROWS, constants.CELLS // max(1, width)))
    if not isinstance(cells, DenseCells) or count <= 2 * rows:
        return cells
    return cells.part(np.sort(rng.choice(count, rows, replace=False)))


def _near_exact(
    cells: AbstractCells,
    model: Model,
    errors: list[np.ndarray],
    aside: Aside,
    setting: Setting,
    many: bool,
) -> tuple[Model, Exact | None]:
    """An exact table near a model, and the model with its rank; or the model as it is.

    A component must explain more cells than it has degrees of freedom: one that lives on a row
    goes through whatever is in that row.
    """
    if not np.any(cells.values):  # every column is one number
        return model, exact(cells, model, aside.chosen, aside.residual, setting)
    if not aside.chosen.any() or (
        many and np.min(np.median(errors, axis=1)) > constants.NEARLY_EXACT_LIST
    ):
        return model, None

    def attempt(rank: int) -> Exact | None:
        return exact(cells, with_components(model, rank), aside.chosen, aside.residual, setting)

    for rank in sorted({exact_rank(errors, factor) for factor in constants.AS_GOOD}):
        found = attempt(rank)
        if found is None:
            continue
        for fewer in range(1, rank):
            smaller = attempt(fewer) if np.median(errors[fewer]) <= constants.NEARLY_EXACT else None
            spare = (rank - fewer) * sum(cells.shape)
            if smaller and np.sum(found.explained) <= np.sum(smaller.explained) + spare:
                return with_components(model, fewer), smaller
        return with_components(model, rank), found
    return model, None


def on_cells(cells: AbstractCells, model: Model, setting: Setting) -> Model:
    """A model that has seen a part of the cells, with weights for all of them."""
    return model._replace(right=weigh(cells, model, setting).right)


def settled_rows(cells: AbstractCells, model: Model, setting: Setting) -> Model:
    """Scores and weights of rows that the model may not have seen; its columns stay."""
    count, size = cells.shape[0], model.rows.mean.shape[1]
    nothing = Posterior(np.zeros((count, size)), np.zeros((count, size, size)))
    model = model._replace(rows=nothing, right=cells.known.astype(np.float64))
    spread = np.sum(model.loadings**2, axis=1)
    # At first a cell is judged by its column alone, and then more and more by its row.
    for share in np.append(np.geomspace(1.0, constants.LAST_SHARE, constants.ROW_ROUNDS - 1), 0.0):
        loose = model._replace(variance=model.variance + share * spread)
        model = update_rows(cells, model._replace(right=on_cells(cells, loose, setting).right))
    return model


def _living(model: Model) -> int:
    """How many components are larger in all than the noise of one cell; the others were shrunk."""
    squares = np.sum(model.loadings**2 / model.variance[:, None], axis=0) * len(model.rows.mean)
    return int(np.max(np.flatnonzero(squares > 1), initial=-1)) + 1


def _with_lost_rows(cells: AbstractCells, model: Model, setting: Setting) -> Model | None:
    """Rows settled anew, if there are lost ones of which that explains more.

    A row whose cells are all taken for wrong has scores of 0, and they stay wrong.
    """
    ones = np.ones((cells.shape[1], 1))
    known, right = (cells.row_sums(1.0 * each, ones) for each in (cells.known, model.right))
    if not np.any(right < constants.HALF * known):
        return None
    settled = settled_rows(cells, model, setting)
    # Worth it if about a row is gained: single cells come and go.
    gained = float(np.sum(settled.right) - np.sum(model.right))
    return settled if gained > constants.HALF * float(np.mean(known)) else None


def _judged(
    cells: AbstractCells,
    sample: AbstractCells,
    columns: Columns,
    model: Model,
    setting: Setting,
    aside: Aside,
    found: Exact | None,
    run: _Run,
    noise: RelativeNoise,
) -> Fitted:
    if found is not None:
        model = exact_model(model, found, setting)
    predicted, verdict = _predicted(sample, model, setting, found)
    unseen = aside.scores()
    if found is not None:  # errors of a fit that was not refined say nothing about this one
        unseen = np.full(unseen.shape, np.nan)
    calibration = calibrated(
        sample, predicted.scores(), unseen, verdict.counts, own=setting.own_noise
    )
    held_out = summarised(sample, aside, unseen, verdict, own=setting.own_noise)
    if sample is not cells:
        if found is not None:
            found = extended(cells, model, found, setting)
            model = exact_model(model, found, setting)
        else:
            model = settled_rows(cells, model, setting)
            if sample.shape[0] < constants.ROWS and not run.interrupted:
                model = _finished(cells, model, setting, run)
        predicted, verdict = _predicted(cells, model, setting, found)
    wrong = verdict.wrong
    if found is None:
        # What is within its own interval is explained, whatever the law of wrong cells says.
        limit = cells.of_columns(calibration.width(constants.LEVEL)) * np.sqrt(predicted.variance)
        wrong = wrong & (np.abs(predicted.residual) > limit)
    return Fitted(
        cells=cells,
        columns=columns,
        model=model,
        setting=setting,
        wrong=wrong,
        predicted=predicted,
        calibration=calibration,
        usual=_usual_variance(cells, predicted),
        law=verdict.law,
        held_out=held_out,
        exact=found,
        sweeps=run.sweeps + (found.sweeps if found else 0),
        converged=run.converged,
        interrupted=run.interrupted,
        relative=noise,
        bound_is_low=run.bound_is_low,
    )


def _usual_variance(cells: AbstractCells, predicted: Prediction) -> np.ndarray:
    """Of predictions of known cells of each column; of a list, of all."""
    variance = np.where(cells.known, predicted.variance, np.nan)
    middle = float(np.nanmedian(variance)) if cells.known.any() else 1.0
    if variance.ndim < 2:
        return np.full(cells.shape[1], middle)
    columns = [
        np.median(each[some]) if some.any() else middle
        for each, some in zip(variance.T, cells.known.T, strict=True)
    ]
    return np.array(columns)


def _finished(cells: AbstractCells, model: Model, setting: Setting, run: _Run) -> Model:
    """Sweeps over all cells from a model of some; what there was if they are stopped."""
    try:
        return run.over(cells, model, setting, constants.STILL)
    except (Stopped, KeyboardInterrupt):
        run.interrupted = True
        return model


def _predicted(
    cells: AbstractCells, model: Model, setting: Setting, found: Exact | None
) -> tuple[Prediction, Judgement]:
    """Every cell as the others have it, and which are wrong."""
    residual = cells.values - cells.products(model.left, model.right_factor)
    predicted = predictions(cells, model, residual)
    if found is not None:
        right = found.explained
    elif setting.robust:
        return predicted, judged(cells, predicted)
    else:
        right = cells.known
    return predicted, Judgement(cells.known & ~right, 1.0 * right)
