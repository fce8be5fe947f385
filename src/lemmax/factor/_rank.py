"""The number of components, from cells that were kept aside."""

import numpy as np

from ._cells import AbstractCells
from ._sweeps import Model, Posterior, row_equations

# The share of cells that are kept aside to choose the rank and to measure errors, and how many are
# enough.
_ASIDE, _ENOUGH_ASIDE = 0.15, 20_000
# Of small tables several parts are kept aside one after the other, until there are so many cells,
# but no more parts than that. (Against one part: errors of the league 2 % smaller, of 90 instances
# of other tables 1 % smaller, of 230 more .4 % larger, of 255 more .5 % smaller; F1 of spikes of 4
# standard deviations .79, .73, .75, .74 instead of .76, .68, .76, .72.)
_LEAST_ASIDE, _MOST_FOLDS = 300, 6
# Fewer cells kept aside than this do not tell the rank; weak components are shrunk anyway. (League
# and 112 other tables: the 99th percentile of the error over IterativeImputer's is 1.47; 1.63 with
# 0.)
_FEW_ASIDE = 60
# Errors at cells kept aside count at most so many units each.
_CLIPPED, _NORMAL = 4.0, 1.4826
# Of a list, ranks whose mean squared errors are within this part are as good. (Two million entries,
# rank 5: errors of ranks 5 to 8 at the cells kept aside differ by a millionth, but with rank 8 the
# predictions are 11 % worse. With ten times as much, components of MovieLens 100k are lost.)
_AS_WELL = 1e-4
# A component helps surely if errors fall by so many standard errors of that.
_SURELY = 2.0


def kept_aside(cells: AbstractCells, rng: np.random.Generator) -> list[np.ndarray]:
    """Parts of the cells that are kept aside, one after the other: one, or of few cells several."""
    count = max(1, cells.count)
    share = min(_ASIDE, _ENOUGH_ASIDE / count)
    draws = rng.random(cells.values.shape)
    parts = int(np.clip(np.ceil(_LEAST_ASIDE / (share * count)), 1, _MOST_FOLDS))
    return [cells.known & (k * share <= draws) & (draws < (k + 1) * share) for k in range(parts)]


def without(cells: AbstractCells, chosen: np.ndarray) -> AbstractCells:
    """The cells but for those kept aside."""
    return cells.with_weights(np.where(chosen, 0.0, cells.weights))


def with_components(model: Model, rank: int) -> Model:
    """The strongest components alone."""
    own = np.r_[0:rank, model.rank]
    rows = np.r_[0:rank, model.rank : model.rows.mean.shape[1]]
    mean, covariance = model.columns
    scores, spread = model.rows
    return model._replace(
        columns=Posterior(mean[:, own], covariance[:, own][:, :, own]),
        rows=Posterior(scores[:, rows], spread[:, rows][:, :, rows]),
        loading_precision=model.loading_precision[:rank],
    )


def errors_by_rank(
    cells: AbstractCells, part: AbstractCells, model: Model, chosen: np.ndarray
) -> list[np.ndarray]:
    """Sizes of the errors at the cells kept aside, with the first components alone: 0, 1, ...

    Each in units of its own noise, as weights tell it.
    """
    units = np.sqrt(cells.weights[chosen])
    precision, shift = row_equations(part, model)
    errors = []
    for rank in range(model.rank + 1):
        own = np.r_[0:rank, model.rank : precision.shape[1]]
        scores = np.linalg.solve(precision[:, own][:, :, own], shift[:, own][..., None])[..., 0]
        shorter = with_components(model, rank)
        shorter = shorter._replace(rows=shorter.rows._replace(mean=scores))
        predicted = cells.products_at(shorter.left, shorter.right_factor, chosen)
        errors.append(units * np.abs(cells.values[chosen] - predicted))
    return errors


def best_rank(errors: list[np.ndarray]) -> int:
    """The number of components with the smallest errors; of few cells, all that there are."""
    if len(errors[0]) < _FEW_ASIDE:
        return len(errors) - 1
    # Not the fewest that are about as good: 1e-4 of the squares cost 2 % of the league's errors.
    return int(np.argmin(np.mean(np.minimum(errors, _CLIPPED) ** 2, axis=1)))


def fewest_components(errors: list[np.ndarray]) -> int:
    """The smallest rank that is as good as the best at the cells kept aside.

    Surplus components shrink at first, and which of the ranks is the best is left to chance; but in
    the fit to all entries of a list they grow on the noise.
    """
    best = best_rank(errors)
    limit = _CLIPPED * _NORMAL * float(np.median(errors[best]))
    squares = np.mean(np.minimum(errors, limit) ** 2, axis=1)
    return int(np.argmax(squares <= (1 + _AS_WELL) * squares[best]))


def last_helps(errors: list[np.ndarray]) -> bool:
    """Whether the last component lowers the errors at the cells kept aside, surely."""
    if len(errors) < 2 or len(errors[0]) < _FEW_ASIDE:
        return False
    before, after = (np.minimum(each, _CLIPPED) ** 2 for each in errors[-2:])
    gains = before - after
    return bool(np.sum(gains) > _SURELY * np.std(gains) * np.sqrt(len(gains)))


def exact_rank(errors: list[np.ndarray], as_good: float) -> int:
    """The smallest that leaves no more than rounding would, if the table is exact."""
    medians = np.array([np.median(each) for each in errors])
    return int(np.argmax(medians <= as_good * medians.min()))
