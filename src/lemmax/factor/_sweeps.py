"""The robust factor model, and the sweeps that fit it.

A cell of a standardised table is ``c_j + a_i + u_i . v_j + noise`` if it is right, and anything if
it is wrong. Scores ``u_i`` are standard normal, loadings ``v_j`` normal, the noise of each column
normal with its own variance; ``a_i`` are row effects, for ratings. The fit is variational: the
scores of a row and the loadings of a column have normal posteriors, which a sweep computes in turn,
each by one weighted least-squares problem. The weight of a cell is its probability of being right.
"""

from typing import NamedTuple

import numpy as np

from . import _constants as constants
from ._cells import ALL, AbstractCells
from ._inverses import inverses
from ._packed import moments, unpacked


class Posterior(NamedTuple):
    """Means and covariances of the rows or the columns, one each."""

    mean: np.ndarray
    covariance: np.ndarray


class Model(NamedTuple):
    """What a sweep changes. Everything is in standardised units."""

    columns: Posterior
    """Loadings, and the location as the last number of each."""
    rows: Posterior
    """Scores, and the row effect as the last number of each if there are effects."""
    variance: np.ndarray
    """Of the noise of each column."""
    loading_precision: np.ndarray
    """Of the prior, for each component."""
    effect_variances: tuple[float, float]
    """Of row effects and of column locations, a priori."""
    wrong_share: float
    wrong_width: float
    right: np.ndarray
    """At the cells: the probability of being right; 0 at holes."""
    effects: bool

    @property
    def rank(self) -> int:
        """The number of components."""
        return self.columns.mean.shape[1] - 1

    @property
    def loadings(self) -> np.ndarray:
        """One row for each column of the table."""
        return self.columns.mean[:, : self.rank]

    @property
    def location(self) -> np.ndarray:
        """Of each column."""
        return self.columns.mean[:, self.rank]

    @property
    def left(self) -> np.ndarray:
        """Rows so that ``left @ right.T`` is the table."""
        rank = self.rank
        effect = self.rows.mean[:, rank:] if self.effects else None
        parts = [self.rows.mean[:, :rank], np.ones((len(self.rows.mean), 1))]
        return np.hstack(parts if effect is None else [*parts, effect])

    @property
    def right_factor(self) -> np.ndarray:
        """Columns so that ``left @ right.T`` is the table."""
        mean = self.columns.mean
        return np.hstack([mean, np.ones((len(mean), 1))]) if self.effects else mean


class Setting(NamedTuple):
    """What a sweep leaves alone."""

    robust: bool
    """Whether cells may be wrong."""
    own_noise: bool
    """Whether every column has a noise of its own."""
    smallest: np.ndarray
    """Lower bounds on the variances of the noise: rounding to the resolution of the column."""
    widest: float
    """Upper bound on the spread of wrong cells: half the range of cells with one unit."""
    centred: bool
    """Whether there is a location."""


def start(cells: AbstractCells, rank: int, effects: bool, setting: Setting, seed: int) -> Model:
    """Loadings from singular vectors of the clipped table; weights from the cells alone."""
    count, width = cells.shape
    clipped = np.clip(cells.values, -constants.START_CLIPPED, constants.START_CLIPPED)
    loadings = np.zeros((width, rank))
    if rank:
        found = cells.leading_columns(clipped, rank, seed) / np.sqrt(count)
        loadings[:, : found.shape[1]] = found
    columns = Posterior(
        np.hstack([loadings, np.zeros((width, 1))]), np.zeros((width, rank + 1, rank + 1))
    )
    return _first(cells, columns, (1.0, 1.0), effects, setting)


def again(cells: AbstractCells, model: Model, setting: Setting) -> Model:
    """The columns of a model; weights from the cells alone.

    A fit that begins with the weights where another ended keeps them. (Lists with 10 and 20 % of
    wrong entries: errors of .36 and .20 with the weights, .25 and .10 without, .30 and .10 if the
    columns begin anew, too.)
    """
    return _first(cells, model.columns, model.effect_variances, model.effects, setting)


def _first(
    cells: AbstractCells,
    columns: Posterior,
    effect_variances: tuple[float, float],
    effects: bool,
    setting: Setting,
) -> Model:
    """A model of the columns alone, of noise as large as the values."""
    count, width = cells.shape
    rank = columns.mean.shape[1] - 1
    size = rank + effects
    variance, wide = np.ones(width), constants.WIDTH * constants.AT_FIRST
    return Model(
        columns=columns,
        rows=Posterior(np.zeros((count, size)), np.broadcast_to(np.eye(size), (count, size, size))),
        variance=variance,
        loading_precision=np.ones(rank),
        effect_variances=effect_variances,
        wrong_share=constants.WRONG if setting.robust else constants.FEWEST,
        wrong_width=wide,
        right=probability_right(cells, cells.values, variance, constants.WRONG, wide, setting),
        effects=effects,
    )


def smallest_variances(resolution: np.ndarray) -> np.ndarray:
    """What rounding to a resolution leaves at the least."""
    return np.maximum(resolution**2 / 12, constants.SMALLEST_NOISE**2)


def sweep(cells: AbstractCells, model: Model, setting: Setting) -> tuple[Model, np.ndarray]:
    """Rows, columns, noise and weights, each given the others; and the residuals at the cells."""
    model = turned(update_rows(cells, model), setting)
    model, squares = _update_columns(cells, model, setting)
    weighed = weigh(cells, model, setting)
    model = model._replace(
        variance=_noise(cells, model.right, squares, setting),
        effect_variances=_effect_variances(model),
        right=weighed.right,
    )
    if not setting.robust:
        return model, weighed.residual
    # The prior counts a quarter of a cell, wrong by the size of the start.
    spread = np.sqrt((weighed.squares + 0.25 * constants.AT_FIRST**2) / (weighed.wrong + 0.25))
    most = (
        constants.MOST_WITHIN
        if setting.widest <= constants.WIDTH * constants.NARROWEST
        else constants.HALF
    )
    model = model._replace(
        wrong_share=float(np.clip(weighed.wrong / max(1, cells.count), constants.FEWEST, most)),
        wrong_width=constants.WIDTH * max(float(spread), constants.NARROWEST),
    )
    return model, weighed.residual


class Weighed(NamedTuple):
    """The cells as a model has them."""

    residual: np.ndarray
    right: np.ndarray
    """At the cells: the probability of being right; 0 at holes."""
    wrong: float
    """How many cells are wrong, in the mean."""
    squares: float
    """The sum of their squared residuals, in the mean."""


def weigh(cells: AbstractCells, model: Model, setting: Setting) -> Weighed:
    """Residuals and probabilities at all cells, in one pass."""
    left, factor = model.left, model.right_factor
    residual, right = np.empty(cells.values.shape), np.empty(cells.values.shape)

    def work(piece: slice) -> tuple[float, float]:
        away = cells.values[piece] - cells.products(left, factor, piece)
        likely = probability_right(
            cells, away, model.variance, model.wrong_share, model.wrong_width, setting, piece
        )
        wrong = (cells.weights[piece] > 0) * (1 - likely)
        residual[piece], right[piece] = away, likely
        return float(np.sum(wrong)), float(np.sum(wrong * away**2))

    wrong, squares = np.sum(cells.in_pieces(work), axis=0)
    return Weighed(residual, right, float(wrong), float(squares))


def update_rows(cells: AbstractCells, model: Model) -> Model:
    """The posterior of every row, given the columns and the weights."""
    precision, shift = row_equations(cells, model)
    covariance = inverses(precision)
    mean = np.einsum("nij,nj->ni", covariance, shift)
    return model._replace(rows=Posterior(mean, covariance))


def row_equations(cells: AbstractCells, model: Model) -> tuple[np.ndarray, np.ndarray]:
    """Precision matrices and right-hand sides of the rows."""
    rank, size = model.rank, model.rows.mean.shape[1]
    mean, covariance = model.columns
    design = mean[:, :rank]
    second = moments(design, covariance)
    if model.effects:
        design = np.hstack([design, np.ones((len(mean), 1))])
        second = np.hstack([second, design])
    # Location and noise are part of the features, so that nothing new is computed at the cells.
    moved = design * model.location[:, None]
    moved[:, :rank] += covariance[:, :rank, rank]
    noise = model.variance[:, None]
    weights = cells.weights * model.right
    sums = cells.row_sums(weights, np.hstack([second, moved]) / noise)
    precision = unpacked(sums[:, :-size], size)
    precision[:, np.arange(size), np.arange(size)] += 1.0
    if model.effects:
        precision[:, rank, rank] += 1 / model.effect_variances[0] - 1.0
    shift = cells.row_sums(weights * cells.values, design / noise) - sums[:, -size:]
    return precision, shift


def _update_columns(
    cells: AbstractCells, model: Model, setting: Setting
) -> tuple[Model, np.ndarray]:
    """The posterior of every column; and sums of expected squared residuals by column."""
    rank, count = model.rank, cells.shape[0]
    scores, spread = model.rows
    design = np.hstack([scores[:, :rank], np.ones((count, 1))])
    second = np.hstack([moments(scores[:, :rank], spread), design])
    weights = cells.weights * model.right
    weighted = weights * cells.values
    squares = cells.total_by_column(weighted * cells.values)
    if model.effects:
        # A row effect is part of the features, so that nothing new is computed at the cells.
        effect = scores[:, rank:]
        moved = design * effect
        moved[:, :rank] += spread[:, :rank, rank]
        square = effect**2 + spread[:, rank, rank, None]
        sums = cells.column_sums(weights, np.hstack([second, moved, square]))
        shift = cells.column_sums(weighted, np.hstack([design, effect]))
        squares = squares - 2 * shift[:, -1] + sums[:, -1]
        gram = unpacked(sums[:, : -rank - 2], rank + 1)
        shift = shift[:, :-1] - sums[:, -rank - 2 : -1]
    else:
        gram = unpacked(cells.column_sums(weights, second), rank + 1)
        shift = cells.column_sums(weighted, design)
    precision = (len(gram) + constants.PRIOR_COLUMNS) / (
        _loading_squares(model) + constants.PRIOR_COLUMNS / constants.PRIOR_PRECISION
    )
    fixed = np.inf
    if setting.centred:
        fixed = 1 / model.effect_variances[1] if model.effects else constants.SMALLEST_NOISE
    prior = np.append(precision, fixed)
    inverse = np.zeros_like(gram)
    free = np.isfinite(prior)
    some = np.ix_(np.arange(len(gram)), free, free)
    inverse[some] = inverses(gram[some] / model.variance[:, None, None] + np.diag(prior[free]))
    mean = np.einsum("dij,dj->di", inverse, shift / model.variance[:, None])
    expected = mean[:, :, None] * mean[:, None, :] + inverse
    squares = squares - 2 * np.sum(mean * shift, axis=1) + np.sum(expected * gram, axis=(1, 2))
    updated = model._replace(columns=Posterior(mean, inverse), loading_precision=precision)
    return updated, np.maximum(squares, 0.0)


def _loading_squares(model: Model) -> np.ndarray:
    rank = model.rank
    diagonal = np.arange(rank)
    return np.sum(model.loadings**2 + model.columns.covariance[:, diagonal, diagonal], axis=0)


def _noise(
    cells: AbstractCells, right: np.ndarray, squares: np.ndarray, setting: Setting
) -> np.ndarray:
    counts = cells.total_by_column(right)
    if not setting.own_noise:
        squares, counts = np.full_like(squares, squares.sum()), np.full_like(counts, counts.sum())
    variance = (squares + constants.PRIOR_CELLS * constants.PRIOR_VARIANCE) / (
        counts + constants.PRIOR_CELLS
    )
    return np.maximum(variance, setting.smallest)


def _effect_variances(model: Model) -> tuple[float, float]:
    if not model.effects:
        return model.effect_variances
    rank = model.rank
    of_rows, of_columns = model.effect_variances
    return (
        _likelier(of_rows, model.rows.mean[:, rank], model.rows.covariance[:, rank, rank]),
        _likelier(of_columns, model.location, model.columns.covariance[:, rank, rank]),
    )


def _likelier(variance: float, means: np.ndarray, variances: np.ndarray) -> float:
    """A more likely variance of effects, from their posteriors under an assumed one.

    MacKay's fixed point: an effect counts as much as the data tell it. Expectation maximisation has
    the same one, but where there are no effects it takes hundreds of sweeps.
    """
    told = float(np.sum(np.maximum(1 - variances / variance, constants.SMALLEST_NOISE)))
    return max(float(np.sum(means**2)) / told, constants.SMALLEST_NOISE**2)


def probability_right(
    cells: AbstractCells,
    residual: np.ndarray,
    variance: np.ndarray,
    wrong_share: float,
    wrong_width: float,
    setting: Setting,
    piece: slice = ALL,
) -> np.ndarray:
    """Of each cell, or of a piece of them: noise against anything."""
    weights = cells.weights[piece]
    known = weights > 0
    if not setting.robust:
        return known.astype(np.float64)
    width = min(wrong_width, setting.widest)
    # Everything but the square is a number for each column, and the logarithm of the weight.
    anything = np.log(wrong_share / (1 - wrong_share)) - np.log(2 * width)
    level = anything + 0.5 * np.log(2 * np.pi * variance)
    odds = residual**2
    odds *= weights
    odds *= cells.of_columns(0.5 / variance, piece)
    odds += cells.of_columns(level, piece)
    odds -= cells.half_log_weights[piece]
    # What is surely wrong has no weight at all: it would be multiplied by squares of the values.
    known &= odds < constants.SURE
    return known / (1 + np.exp(np.clip(odds, -constants.SURE, constants.SURE)))


def turned(model: Model, setting: Setting) -> Model:
    """The same table with scores of mean 0 and covariance 1, and orthogonal loadings.

    Without it, rows and columns exchange the size of a component for hundreds of sweeps.
    """
    rank = model.rank
    if not rank:
        return model
    scores, spread = (np.array(each) for each in model.rows)
    mean, covariance = (np.array(each) for each in model.columns)
    if setting.centred:
        shift = _common_part(model) if model.effects else scores.mean(axis=0)
        scores -= shift
        mean[:, rank] += mean[:, :rank] @ shift[:rank] + (shift[rank] if model.effects else 0.0)
        move = np.eye(rank + 1)
        move[rank, :rank] = shift[:rank]
        covariance = _transformed(covariance, move.T)
    middle = scores[:, :rank].T @ scores[:, :rank] / len(scores)
    middle += spread[:, :rank, :rank].mean(axis=0)
    root = np.linalg.cholesky(middle)
    loadings = mean[:, :rank]
    total = loadings.T @ loadings + covariance[:, :rank, :rank].sum(axis=0)
    rotation = np.linalg.eigh(root.T @ total @ root)[1][:, ::-1]
    for_loadings = root @ rotation
    for_scores = np.linalg.inv(root).T @ rotation
    scores[:, :rank] = scores[:, :rank] @ for_scores
    mean[:, :rank] = loadings @ for_loadings
    by_row, by_column = np.eye(spread.shape[1]), np.eye(rank + 1)
    by_row[:rank, :rank], by_column[:rank, :rank] = for_scores, for_loadings
    return model._replace(
        rows=Posterior(scores, _transformed(spread, by_row)),
        columns=Posterior(mean, _transformed(covariance, by_column)),
    )


def _common_part(model: Model) -> np.ndarray:
    """What all rows have in common, if locations of columns that have a prior are to have that."""
    rank, count = model.rank, len(model.rows.mean)
    of_rows, of_columns = model.effect_variances
    mean, covariance = model.columns
    second = (mean.T @ mean + covariance.sum(axis=0)) / of_columns
    loading = mean[:, :rank].sum(axis=0) / of_columns
    location = float(np.sum(model.location)) / of_columns
    prior = count * np.append(np.ones(rank), 1 / of_rows)
    gram = np.diag(prior)
    gram[:rank, :rank] += second[:rank, :rank]
    gram[rank, :rank] += loading
    gram[:rank, rank] += loading
    gram[rank, rank] += len(mean) / of_columns
    shift = prior * model.rows.mean.mean(axis=0) - np.append(second[:rank, rank], location)
    return np.linalg.solve(gram, shift)


def _transformed(covariances: np.ndarray, by: np.ndarray) -> np.ndarray:
    """``by.T @ each @ by`` of symmetric matrices, in two products for all of them."""
    half = (covariances.reshape(-1, len(by)) @ by).reshape(covariances.shape)
    return (half.transpose(0, 2, 1).reshape(-1, len(by)) @ by).reshape(covariances.shape)
