"""The search for the least value of a loss that the user chose: all data count."""

import functools

import numpy as np

from . import _constants as constants
from ._chosen_loss import Chosen
from ._refine import Candidates, Setting, absolute
from ._search import Search
from ._starts import linear_parameters
from ._stationary import Minimiser, Stationary
from ._steps import Ended


class ChosenSearch(Search):
    """Minima from more and more starts; `found` has the best first, and so has `ends`."""

    def __init__(
        self, setting: Setting, start: np.ndarray, others: np.ndarray, tries: int, loss: Chosen
    ):
        super().__init__(setting, start, others, tries)
        self.loss = loss
        self.minimiser = Minimiser(
            setting.evaluate, loss, setting.box, setting.rounding, setting.watch
        )
        self.ends: list[Stationary] = [
            self.minimiser.judged(self.minimiser.at(x), np.zeros(len(setting.counts), bool), 0)
            for x in self.given[:1]
            if not self.hopeless
        ]

    def _begin(self) -> None:
        self._finish(self._proposed(np.concatenate([self.given, self._least_squares().x])))

    def _vary(self, count: int) -> None:
        proposed = self._proposed(self._promising(count, self._values))
        self._finish(proposed[: constants.FEW])

    def _compare(self) -> None:
        """All ends are minima already."""

    @functools.cached_property
    def linear(self) -> np.ndarray:
        """Which parameters are eliminated from further starts."""
        return linear_parameters(self.setting, self.start)

    @property
    def _residual(self) -> np.ndarray:
        return self.ends[0].slopes

    @property
    def _fragile(self) -> bool:
        return np.sum(self.found.length <= self.found.length[0] + constants.AGREE) < 2

    @property
    def _right_so_far(self) -> bool:
        return self.ends[0].settled

    def _values(self, residual: np.ndarray) -> np.ndarray:
        value = self.loss.value(residual, np.ones_like(residual))
        return np.where(np.isfinite(value), value, np.inf)

    def _proposed(self, x: np.ndarray) -> np.ndarray:
        """Rough minima, the best first: by absolute values, then by the loss if that has weights.

        Absolute values are robust, as the loss may be, and have no threshold in units of the data.
        """
        ended = absolute(self.setting.wide, x)
        if self.loss.kink is None:
            known = ended.residual, ended.jacobian
            ended = self.setting.wide.descend(
                ended.x, self.setting.counts, self.loss, known=known, **constants.NEAR_MINIMUM
            )
        order = np.argsort(self._values(ended.residual), kind="stable")
        return ended.x[order]

    def _finish(self, proposed: np.ndarray) -> None:
        """Follow rough minima to the end."""
        setting, p = self.setting, proposed.shape[1]
        for x in proposed:
            residual = self.minimiser.at(x).residual[None]
            if np.all(np.isfinite(residual)):
                scale = float(setting.scale(residual, setting.counts, p)[0])
                self.ends.append(self.minimiser.run(x, scale))
        # A minimum rather than none, unless that is far better; of equal ones the earliest.
        lengths = np.array([self.length(end.point.value) for end in self.ends])
        lengths += np.where([end.settled for end in self.ends], 0.0, constants.AGREE)
        least = np.min(lengths)
        order = np.argsort(np.where(lengths <= least + 1e-6, -np.inf, lengths), kind="stable")
        self.ends = [self.ends[k] for k in order]
        self.found = self._as_candidates()

    def length(self, value: float) -> float:
        """Description length: proportional to the logarithm of the loss."""
        n, p = len(self.setting.counts), len(self.start)
        power = 2 if self.loss.kink is None else 1
        floor = n * (constants.EXACT * self.setting.rounding) ** power
        return max(n - p, 1) / power * float(np.log(max(value, floor) / n))

    def _as_candidates(self) -> Candidates:
        ends = self.ends
        ended = Ended(
            np.stack([end.point.x for end in ends]),
            np.stack([end.point.residual for end in ends]),
            np.stack([end.point.jacobian for end in ends]),
            np.array([end.point.value for end in ends]),
            np.array([end.offset for end in ends]),
            np.array([end.settled for end in ends]),
            np.array([end.steps for end in ends]),
        )
        lengths = np.array([self.length(end.point.value) for end in ends])
        keep = np.ones(ended.residual.shape, bool)
        return Candidates(ended, keep, lengths, np.ones(len(ends), bool))
