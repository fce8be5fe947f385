"""The robust factor model of a tensor: a sum of outer products, and the sweeps that fit it.

An entry of the tensor in its unit is the sum over terms of a product of one factor for each mode,
plus normal noise, if it is right, and anything if it is wrong. Rows of factors are normal a priori:
of variance 1, but in the last mode, where every term has a precision of its own. The fit is
variational, as that of a table: the rows of each mode have normal posteriors, which a sweep
computes in turn, each by weighted least squares; the weight of an entry is its probability of
being right.
"""

import functools
from typing import NamedTuple

import numpy as np

from . import _constants as constants
from ._cells import DenseCells, in_parallel
from ._packed import doubled, moments, unpacked
from ._sweeps import Posterior, Setting, probability_right


class TensorCells:
    """Entries of a tensor.

    Parameters
    ----------
    values : array
        0 at holes.
    weights : array of that shape
        How much each entry counts; 0 at holes.
    """

    def __init__(self, values: np.ndarray, weights: np.ndarray):
        self.values, self.weights = values, weights
        self.known = weights > 0
        # The same as one column, for what does not know of modes.
        self.flat = DenseCells(values.reshape(-1, 1), weights.reshape(-1, 1))

    def without(self, chosen: np.ndarray) -> "TensorCells":
        """The same with more holes."""
        return TensorCells(np.where(chosen, 0.0, self.values), np.where(chosen, 0.0, self.weights))

    def transposed(self, order: tuple[int, ...]) -> "TensorCells":
        """With the modes in another order."""
        values, weights = (np.transpose(each, order) for each in (self.values, self.weights))
        return TensorCells(np.ascontiguousarray(values), np.ascontiguousarray(weights))

    def pieces(self) -> list[slice]:
        """Of slices along the first mode: what is computed at a piece stays near the processor."""
        step = max(1, constants.PIECE * len(self.values) // self.values.size)
        return [slice(begin, begin + step) for begin in range(0, len(self.values), step)]


def row_products(features: list[np.ndarray]) -> np.ndarray:
    """The products of rows of several arrays, for all combinations of rows."""
    return functools.reduce(
        lambda a, b: (a[:, None, :] * b[None, :, :]).reshape(-1, a.shape[1]), features
    )


def at_entries(features: list[np.ndarray]) -> np.ndarray:
    """The sums over features of their products, at every entry of a tensor."""
    first, *rest = features
    shape = tuple(len(each) for each in features)
    return (first @ row_products(rest).T).reshape(shape)


def mode_sums(weights: np.ndarray, features: list[np.ndarray], mode: int) -> np.ndarray:
    """Sums over the entries of each slice of a mode: weights times features of the other modes.

    The tensor is read where it lies; it is never transposed.
    """
    shape = weights.shape
    before, after = int(np.prod(shape[:mode])), int(np.prod(shape[mode + 1 :]))
    if after == 1:
        return weights.reshape(before, shape[mode]).T @ row_products(features[:mode])
    late = row_products(features[mode + 1 :])
    if before == 1:
        return weights.reshape(shape[mode], after) @ late
    early = row_products(features[:mode])
    blocks = weights.reshape(before, shape[mode], after)
    step = max(1, constants.PIECE // late.size)
    total = np.zeros((shape[mode], late.shape[1]))
    for begin in range(0, before, step):
        some = slice(begin, begin + step)
        total += np.sum(blocks[some] @ (early[some, None, :] * late), axis=0)
    return total


class TensorModel(NamedTuple):
    """What a sweep changes."""

    modes: tuple[Posterior, ...]
    precision: np.ndarray
    """Of the terms in the last mode, a priori."""
    variance: float
    wrong_share: float
    wrong_width: float
    right: np.ndarray

    @property
    def rank(self) -> int:
        """The number of terms."""
        return len(self.precision)

    @property
    def factors(self) -> tuple[np.ndarray, ...]:
        """One for each mode."""
        return tuple(mode.mean for mode in self.modes)

    def without_dead_terms(self) -> "TensorModel":
        """Without terms that are smaller in all than the noise of one entry."""
        sizes = np.prod([np.sum(factor**2, axis=0) for factor in self.factors], axis=0)
        kept = sizes > self.variance
        if not kept.any():
            kept[np.argmax(sizes)] = True
        modes = tuple(
            Posterior(mode.mean[:, kept], mode.covariance[:, kept][:, :, kept])
            for mode in self.modes
        )
        return self._replace(modes=modes, precision=self.precision[kept])

    def transposed(self, order: tuple[int, ...]) -> "TensorModel":
        """With the modes in another order."""
        modes = tuple(self.modes[mode] for mode in order)
        return self._replace(modes=modes, right=np.transpose(self.right, order))

    def values(self) -> np.ndarray:
        """At every entry."""
        return at_entries(list(self.factors))

    def uncertainty(self, values: np.ndarray) -> np.ndarray:
        """Variances of the values, at every entry."""
        seconds = [second_moments(mode) for mode in self.modes]
        seconds[-1] = seconds[-1] * doubled(self.rank)
        return np.maximum(at_entries(seconds) - values**2, 0.0)


def second_moments(mode: Posterior) -> np.ndarray:
    """Packed, of every row."""
    return moments(mode.mean, mode.covariance)


def first_model(
    cells: TensorCells, factors: tuple[np.ndarray, ...], setting: Setting
) -> TensorModel:
    """Factors without uncertainty, of noise as large as the values."""
    rank = factors[0].shape[1]
    modes = tuple(Posterior(each, np.zeros((len(each), rank, rank))) for each in factors)
    model = TensorModel(
        modes,
        np.ones(rank),
        1.0,
        constants.WRONG if setting.robust else constants.FEWEST,
        constants.WIDTH * constants.AT_FIRST,
        cells.weights,
    )
    return balanced(model._replace(right=_weighed(cells, model, setting, blank=True).right))


class _Weighed(NamedTuple):
    residual: np.ndarray
    right: np.ndarray
    total: float
    """How many entries are right, in the mean."""
    squares: float
    """The sum of their squares and uncertainties."""
    wrong_squares: float


def _weighed(
    cells: TensorCells, model: TensorModel, setting: Setting, blank: bool = False
) -> _Weighed:
    """Residuals and probabilities of all entries; of the values themselves if there is no model."""
    residual, right = np.empty(cells.values.shape), np.empty(cells.values.shape)
    seconds = [second_moments(mode) for mode in model.modes]
    seconds[-1] = seconds[-1] * doubled(model.rank)
    variance = np.array([model.variance])

    def work(piece: slice) -> tuple[float, float, float]:
        size = (cells.values[piece].size, 1)
        away, spread = cells.values[piece], np.zeros(())
        if not blank:
            values = at_entries([model.factors[0][piece], *model.factors[1:]])
            away = away - values
            spread = at_entries([seconds[0][piece], *seconds[1:]]) - values**2
        part = DenseCells(away.reshape(size), cells.weights[piece].reshape(size))
        likely = probability_right(
            part, away.reshape(size), variance, model.wrong_share, model.wrong_width, setting
        ).reshape(away.shape)
        residual[piece], right[piece] = away, likely
        weights = cells.weights[piece] * model.right[piece]
        squares = np.sum(weights * (away**2 + np.maximum(spread, 0.0)))
        wrong = np.sum(cells.known[piece] * (1 - likely) * away**2)
        return float(np.sum(model.right[piece])), float(squares), float(wrong)

    sums = np.sum(in_parallel(work, cells.pieces()), axis=0)
    return _Weighed(residual, right, *(float(each) for each in sums))


def sweep(
    cells: TensorCells, model: TensorModel, setting: Setting
) -> tuple[TensorModel, np.ndarray]:
    """All modes, noise and weights, each given the others; and the residuals."""
    weights = cells.weights * model.right
    weighted = weights * cells.values
    for mode in range(len(model.modes)):
        model = _update_mode(weights, weighted, model, mode)
    model = balanced(model)
    weighed = _weighed(cells, model, setting)
    variance = max(weighed.squares / max(weighed.total, 1.0), float(setting.smallest[0]))
    model = model._replace(variance=variance, right=weighed.right)
    if not setting.robust:
        return model, weighed.residual
    count = float(np.count_nonzero(cells.known))
    wrong = count - float(np.sum(weighed.right))
    spread = np.sqrt((weighed.wrong_squares + 0.25 * constants.AT_FIRST**2) / (wrong + 0.25))
    model = model._replace(
        wrong_share=float(np.clip(wrong / max(1.0, count), constants.FEWEST, constants.HALF)),
        wrong_width=constants.WIDTH * max(float(spread), constants.NARROWEST),
    )
    return model, weighed.residual


def _update_mode(
    weights: np.ndarray, weighted: np.ndarray, model: TensorModel, mode: int
) -> TensorModel:
    rank, last = model.rank, len(model.modes) - 1
    seconds = [second_moments(each) for each in model.modes]
    gram = unpacked(mode_sums(weights, seconds, mode), rank) / model.variance
    shift = mode_sums(weighted, list(model.factors), mode) / model.variance
    prior = model.precision if mode == last else np.ones(rank)
    covariance = np.linalg.inv(gram + np.diag(prior))
    mean = np.einsum("nij,nj->ni", covariance, shift)
    modes = list(model.modes)
    modes[mode] = Posterior(mean, covariance)
    return model._replace(modes=tuple(modes))


def balanced(model: TensorModel) -> TensorModel:
    """The same terms, of mean square 1 in all modes but the last; precisions of the last."""
    scale = np.ones(model.rank)
    modes = []
    for mode in model.modes[:-1]:
        diagonal = np.einsum("nii->ni", mode.covariance)
        size = np.sqrt(np.mean(mode.mean**2 + diagonal, axis=0))
        size = np.where(size > 0, size, 1.0)
        scale = scale * size
        modes.append(Posterior(mode.mean / size, mode.covariance / np.multiply.outer(size, size)))
    last = model.modes[-1]
    last = Posterior(last.mean * scale, last.covariance * np.multiply.outer(scale, scale))
    squares = np.sum(last.mean**2 + np.einsum("nii->ni", last.covariance), axis=0)
    # The prior is one more row, of precision 1.
    precision = (len(last.mean) + 1) / (squares + 1)
    return model._replace(modes=(*modes, last), precision=precision)
