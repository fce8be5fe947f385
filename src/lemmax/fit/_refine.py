"""From a start to a fit of the inliers: graduated losses, then least squares."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .._journal import begun
from .._plain import Kinds
from . import _constants as constants
from ._losses import ABSOLUTE, REDESCENDING, LaneLoss, Loss, robust_scale, squares
from ._message import length_of, shortest
from ._order import close_to_the_fit
from ._steps import Box, Ended, Evaluate, descend

_KINDS = Kinds(Ended)


class Setting(NamedTuple):
    """What all stages of a fit share, for any number of lanes with the same data."""

    evaluate: Evaluate
    counts: np.ndarray
    """Of shape (data,): 1 where there is a datum, 0 where it is missing."""
    box: Box
    rounding: float
    width: float
    """The range of the data, in the units of residuals."""
    watch: Callable[[], None] = lambda: None
    robust: bool = True
    grain: float = 0.0
    """Standard deviation by which data were rounded: smaller residuals are a coincidence."""
    together: Evaluate | None = None
    """Evaluates many lanes faster, if it has been compiled: worth it in a long search."""
    method: Callable[..., Ended] = descend
    """Takes the steps."""

    @property
    def rough(self) -> dict[str, Any]:
        """Where fits stop on the way: so near that those of one minimum agree in length.

        An offset changes the description length by its square, half as often as there are data.
        """
        n = max(float(np.sum(self.counts > 0)), 1.0)
        tol = min(constants.ROUGH, float(np.sqrt(constants.AGREE / n)) / 2)
        return {"tol": tol, "max_steps": constants.ROUGH_STEPS}

    @property
    def wide(self) -> "Setting":
        """For many lanes."""
        return self if self.together is None else self._replace(evaluate=self.together)

    def descend(self, x: np.ndarray, weight: np.ndarray, loss: LaneLoss, **options) -> Ended:
        """Minimise a loss in every lane."""
        stage = begun("descent", _KINDS)
        if stage.ended:
            return stage.value
        ended = self.method(
            self.evaluate,
            x,
            np.broadcast_to(weight, (len(x), len(self.counts))),
            loss,
            self.box,
            rounding=np.full(len(x), self.rounding),
            watch=self.watch,
            **options,
        )
        stage.end(ended)
        return ended

    def scale(self, residual: np.ndarray, counts: np.ndarray, fitted: int) -> np.ndarray:
        """The robust scale in each lane, at least at the level of rounding errors."""
        counts = np.broadcast_to(counts, residual.shape)
        return np.maximum(robust_scale(residual, counts, fitted), constants.EXACT * self.rounding)


class Candidates(NamedTuple):
    """A fit in each lane, and its description length."""

    ended: Ended
    keep: np.ndarray
    """The inliers."""
    length: np.ndarray
    """Description length, in nats: less is better."""
    heavy: np.ndarray
    """Whether inliers may have heavier tails than Gaussian ones."""

    def of(self, lanes: np.ndarray) -> "Candidates":
        """Those of some lanes."""
        ended = Ended(*(part[lanes] for part in self.ended))
        return Candidates(ended, self.keep[lanes], self.length[lanes], self.heavy[lanes])


def candidates(setting: Setting, ended: Ended) -> Candidates:
    """Fits as they are."""
    heavy = np.ones(len(ended.x), bool)
    return Candidates(ended, *judge(setting, ended.residual, ended.x.shape[1]), heavy)


def joined(*parts: Candidates) -> Candidates:
    """All of them, in order."""
    ended = Ended(*(np.concatenate(them) for them in zip(*(p.ended for p in parts), strict=True)))
    rest = (np.concatenate(them) for them in zip(*(p[1:] for p in parts), strict=True))
    return Candidates(ended, *rest)


def at(setting: Setting, x: np.ndarray) -> Ended:
    """The starts themselves."""
    residual, jacobian = setting.evaluate(np.arange(len(x)), x)
    value = np.sum(residual**2, axis=1)
    value[~np.isfinite(value) | ~np.all(np.isfinite(jacobian), axis=(1, 2))] = np.inf
    lanes = len(x)
    no, steps = np.zeros(lanes, bool), np.zeros(lanes, int)
    return Ended(x, residual, jacobian, value, np.full(lanes, np.inf), no, steps)


def absolute(setting: Setting, x: np.ndarray, *, known=None, reach: float = 1.0) -> Ended:
    """Least absolute deviations, smoothed at a scale that falls with the residuals."""
    p = x.shape[1]
    residual, jacobian = setting.evaluate(np.arange(len(x)), x) if known is None else known
    scale = setting.scale(residual, setting.counts, p)
    ended = None
    for _ in range(constants.ROUNDS):
        ended = setting.descend(
            x,
            setting.counts,
            Loss(ABSOLUTE, constants.SHARP * scale),
            tol=constants.ROUGH,
            max_steps=constants.ROUGH_STEPS,
            known=(residual, jacobian),
            reach=reach,
        )
        x, residual, jacobian = ended.x, ended.residual, ended.jacobian
        new = np.minimum(setting.scale(residual, setting.counts, p), scale)
        if np.all(new >= constants.STABLE * scale):
            break
        scale = new
    assert ended is not None
    return ended


def refine(setting: Setting, ended: Ended, *, deep: bool = False) -> Candidates:
    """A redescending loss at a falling scale, then least squares on the inliers.

    The scale falls to that of the inliers; if ``deep``, until few data are within it, since the
    scale of the noise is unknown while most data are outliers. Of all scales the one with the
    shortest description counts.
    """
    p = ended.x.shape[1]
    counts = np.broadcast_to(setting.counts, ended.residual.shape)
    scale = constants.BENDS[0] * setting.scale(ended.residual, counts, p)
    best, least = ended, np.full(len(scale), np.inf)
    for _ in range(constants.FALLS):
        ended = setting.descend(
            ended.x,
            setting.counts,
            Loss(REDESCENDING, scale),
            tol=constants.ROUGH,
            max_steps=constants.ROUGH_STEPS,
            known=(ended.residual, ended.jacobian),
        )
        keep, length = judge(setting, ended.residual, p)
        better = length < least
        best = Ended(*(_where(better, new, old) for new, old in zip(ended, best, strict=True)))
        least = np.minimum(length, least)
        noise = setting.scale(ended.residual, keep, p)
        if deep:
            sizes = np.sort(np.where(counts > 0, np.abs(ended.residual), np.inf), axis=1)
            few = sizes[:, min(2 * p + 2, sizes.shape[1] - 1)]
            noise = np.minimum(noise, np.maximum(few, constants.EXACT * setting.rounding))
        if np.all(scale <= constants.BENDS[1] * noise / constants.STABLE):
            break
        scale = np.minimum(np.maximum(scale / 2, constants.BENDS[1] * noise), scale)
    return settled(setting, best, **setting.rough)


def among_inliers(setting: Setting, ended: Ended) -> Candidates:
    """The same with a loss that bends close to the noise, for outliers of a few of its deviations.

    So close to the curve, outliers in runs are what the model misses: fits with such do not count.
    """
    scale = constants.SHARP_BEND * setting.scale(ended.residual, setting.counts, ended.x.shape[1])
    found = settled(
        setting,
        setting.descend(
            ended.x,
            setting.counts,
            Loss(REDESCENDING, scale),
            known=(ended.residual, ended.jacobian),
            **setting.rough,
        ),
        **setting.rough,
    )
    there = setting.counts > 0
    for lane, (residual, keep) in enumerate(zip(found.ended.residual, found.keep, strict=True)):
        if close_to_the_fit(residual[there], ~keep[there], setting.width):
            found.length[lane] = np.inf
    return found


def _where(lanes: np.ndarray, new: np.ndarray, old: np.ndarray) -> np.ndarray:
    return np.where(lanes.reshape(-1, *(1,) * (new.ndim - 1)), new, old)


def settled(setting: Setting, ended: Ended, **options) -> Candidates:
    """Least squares on the inliers under Gaussian tails, and under heavier ones if they differ.

    The shorter description decides between outliers and heavy tails.
    """
    lanes = len(ended.x)
    strict = settle(setting, ended, np.zeros(lanes, bool), **options)
    keep, _ = judge(setting, strict.ended.residual, ended.x.shape[1])
    other = np.flatnonzero(np.any(keep != strict.keep, axis=1))
    # Heavier tails include Gaussian ones.
    strict.heavy[:] = True
    strict.heavy[other] = False
    _, length = judge(setting, strict.ended.residual, ended.x.shape[1], strict.heavy)
    strict = strict._replace(length=length)
    if not other.size:
        return strict
    heavy = settle(setting, strict.of(other).ended, np.ones(len(other), bool), **options)
    return joined(strict, heavy)


def settle(setting: Setting, ended: Ended, heavy: np.ndarray, **options) -> Candidates:
    """Least squares on the inliers, until these no longer change."""
    keep, length = judge(setting, ended.residual, ended.x.shape[1], heavy)
    for _ in range(constants.ROUNDS):
        known = ended.residual, ended.jacobian
        ended = setting.descend(
            ended.x, keep.astype(float), squares(len(keep)), known=known, **options
        )
        new, length = judge(setting, ended.residual, ended.x.shape[1], heavy)
        if np.array_equal(new, keep):
            break
        keep = new
    return Candidates(ended, keep, length, heavy.copy())


def neighbours(setting: Setting, one: Candidates, **options) -> Candidates:
    """Least squares with some decisions on data reversed that may have gone the other way.

    These are the outliers closest to the curve, taken for inliers (one, two or three of them), and
    the inlier with the largest influence on the parameters, taken for an outlier.
    """
    p = one.ended.x.shape[1]
    residual, right = one.ended.residual[0], one.keep[0]
    wrong = np.flatnonzero(~right & (setting.counts > 0))
    nearest = wrong[np.argsort(np.abs(residual[wrong]), kind="stable")]
    keep = np.repeat(one.keep, min(len(wrong), constants.FEW) + 1, axis=0)
    for k in range(len(keep) - 1):
        keep[k, nearest[: k + 1]] = True
    left = np.linalg.svd(scaled(one.ended.jacobian[0][right]), full_matrices=False)[0]
    leverage = np.minimum(np.sum(left**2, axis=1), 1 - 1e-9)
    moves = np.sqrt(leverage) * np.abs(residual[right]) / (1 - leverage)
    keep[-1, np.flatnonzero(right)[np.argmax(moves)]] = False
    keep = keep[np.sum(keep, axis=1) > p]
    x = np.repeat(one.ended.x, len(keep), axis=0)
    ended = setting.descend(x, keep.astype(float), squares(len(keep)), **options)
    sizes = np.maximum(
        np.abs(ended.residual), max(constants.EXACT * setting.rounding, setting.grain)
    )
    counts = np.broadcast_to(setting.counts, keep.shape)
    length = length_of(np.nan_to_num(sizes, nan=np.inf), keep, counts, p, setting.width)
    length = np.where(np.isfinite(ended.value), length, np.inf)
    return Candidates(ended, keep, length, np.ones(len(keep), bool))


def scaled(jacobian: np.ndarray) -> np.ndarray:
    """Columns of norm 1; zeros where not finite."""
    norms = np.linalg.norm(jacobian, axis=0)
    return np.nan_to_num(jacobian / np.where(norms > 0, norms, 1))


def judge(
    setting: Setting, residual: np.ndarray, fitted: int, heavy: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Inliers and description length of each lane; infinite if the residuals are not finite."""
    lanes = len(residual)
    floor = max(constants.EXACT * setting.rounding, setting.grain)
    scale = np.maximum(setting.scale(residual, setting.counts, fitted), setting.grain)
    # Rounding errors are all alike: fits that leave no more are equally good.
    sizes = np.maximum(np.abs(residual), floor)
    least = 0.0 if setting.robust else 1.0
    counts = np.broadcast_to(setting.counts, residual.shape)
    width = np.full(lanes, setting.width)
    if np.sum(setting.counts > 0) <= fitted:
        # Nothing is left to distinguish outliers: the smallest residual is the best.
        size = np.sqrt(np.mean(np.where(counts > 0, sizes, 0) ** 2, axis=1))
        return counts > 0, np.where(np.isfinite(size), np.log(size / width), np.inf)
    return shortest(sizes, counts, fitted, scale, width, least, heavy=heavy)
