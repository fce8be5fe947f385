"""The number of components, from held-out cells."""

import numpy as np

from .._draws import uniform_by_rank
from . import _constants as constants
from ._cells import AbstractCells
from ._sweeps import Model, Posterior, row_equations


def hold_out_sets(cells: AbstractCells, rng: np.random.Generator) -> list[np.ndarray]:
    """Hold-out sets: one, or several in turn if there are few cells."""
    count = max(1, cells.count)
    share = min(constants.ASIDE, constants.ENOUGH_ASIDE / count)
    draws = uniform_by_rank(cells.values, cells.known, rng)
    parts = int(np.clip(np.ceil(constants.LEAST_ASIDE / (share * count)), 1, constants.MOST_FOLDS))
    return [(k * share <= draws) & (draws < (k + 1) * share) for k in range(parts)]


def without(cells: AbstractCells, chosen: np.ndarray) -> AbstractCells:
    """The cells without the held-out ones."""
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
    """Sizes of the errors at the held-out cells, with the first components alone: 0, 1, ...

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
    if len(errors[0]) < constants.FEW_ASIDE:
        return len(errors) - 1
    # Not the fewest that are about as good: 1e-4 of the squares cost 2 % of the league's errors.
    return int(np.argmin(np.mean(np.minimum(errors, constants.CLIPPED) ** 2, axis=1)))


def fewest_components(errors: list[np.ndarray]) -> int:
    """The smallest rank that is as good as the best at the held-out cells.

    Surplus components shrink at first, and which of the ranks is the best is left to chance; but in
    the fit to all entries of a list they grow on the noise.
    """
    best = best_rank(errors)
    limit = constants.CLIPPED * constants.NORMAL * float(np.median(errors[best]))
    squares = np.mean(np.minimum(errors, limit) ** 2, axis=1)
    return int(np.argmax(squares <= (1 + constants.AS_WELL) * squares[best]))


def last_helps(errors: list[np.ndarray]) -> bool:
    """Whether the last component lowers the errors at the held-out cells significantly."""
    if len(errors) < 2 or len(errors[0]) < constants.FEW_ASIDE:
        return False
    before, after = (np.minimum(each, constants.CLIPPED) ** 2 for each in errors[-2:])
    gains = before - after
    return bool(np.sum(gains) > constants.SURELY * np.std(gains) * np.sqrt(len(gains)))


def exact_rank(errors: list[np.ndarray], as_good: float) -> int:
    """The smallest that leaves no more than rounding would, if the table is exact."""
    medians = np.array([np.median(each) for each in errors])
    return int(np.argmax(medians <= as_good * medians.min()))
