"""The search for the least value of a loss that the user chose: no datum is called wrong."""

from collections.abc import Callable

import numpy as np

from ._chosen_loss import Chosen
from ._losses import squares
from ._refine import Candidates, Setting, absolute
from ._search import AGREE, Search, correlation
from ._starts import linear_parameters, solve_linear, variations
from ._stationary import Minimiser, Stationary
from ._steps import Ended

# As for other fits: two ends must agree, and neighbouring slopes be correlated by no more than so
# many standard deviations; weakly, by no more than this.
_AGREEING, _CORRELATED, _WEAK = 2, 2.5, 0.5
# Variations of the start in the first round, which part of them is followed, how many at most, and
# how many of these to their minima.
_FIRST_ROUND, _FOLLOWED_PART, _MOST, _FINISHED = 48, 8, 12, 3
# Steps that only have to arrive in the right region, and those that find the minimum.
_ROUGH, _FINAL = {"tol": 1e-3, "max_steps": 100}, {"tol": 1e-9, "max_steps": 400}
# Residuals below so many rounding errors are none.
_EXACT = 16.0


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

    def run(self, report: Callable[[int, float], None]) -> None:
        """Look until the best minimum is convincing, or all is tried."""
        setting, given = self.setting, self.given
        plain = setting.descend(
            given, setting.counts, squares(len(given)), known=self.known, **_FINAL
        )
        self._finish(self._proposed(np.concatenate([given, plain.x])))
        report(self.starts, self.ends[0].point.value)
        linear = linear_parameters(setting, self.start) if self._go_on else np.zeros(0, bool)
        while self.tries > 0 and self._go_on:
            before = self.found.length[0]
            count = min(self.tries, _FIRST_ROUND if self.starts == len(given) else self.tries)
            self.tries -= count
            self.starts += count
            tried = variations(self.start, setting.box, count, self.rng)
            tried, residual = solve_linear(setting.wide, tried, linear)
            value = self._values(residual)
            followed = min(-(-count // _FOLLOWED_PART), _MOST)
            proposed = self._proposed(tried[np.argsort(value, kind="stable")[:followed]])
            self._finish(proposed[:_FINISHED])
            report(self.starts, self.ends[0].point.value)
            best = self.ends[0]
            weak = correlation(best.slopes) <= _WEAK * np.sqrt(len(best.slopes))
            if best.settled and weak and self.found.length[0] > before - AGREE:
                break

    @property
    def _go_on(self) -> bool:
        best, lengths = self.ends[0], self.found.length
        agreeing = np.sum(lengths <= lengths[0] + AGREE)
        alike = correlation(best.slopes) <= _CORRELATED
        return not (best.settled and agreeing >= _AGREEING and alike)

    def _values(self, residual: np.ndarray) -> np.ndarray:
        value = self.loss.value(residual, np.ones_like(residual))
        return np.where(np.isfinite(value), value, np.inf)

    def _proposed(self, x: np.ndarray) -> np.ndarray:
        """Rough minima, the best first: by absolute values, then by the loss if that has weights.

        Absolute values bear wrong data, as other losses do, and do not know their units.
        """
        ended = absolute(self.setting.wide, x)
        if self.loss.kink is None:
            known = ended.residual, ended.jacobian
            ended = self.setting.wide.descend(
                ended.x, self.setting.counts, self.loss, known=known, **_ROUGH
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
        lengths += np.where([end.settled for end in self.ends], 0.0, AGREE)
        least = np.min(lengths)
        order = np.argsort(np.where(lengths <= least + 1e-6, -np.inf, lengths), kind="stable")
        self.ends = [self.ends[k] for k in order]
        self.found = self._as_candidates()

    def length(self, value: float) -> float:
        """Of the message that tells the data: proportional to the logarithm of the loss."""
        n, p = len(self.setting.counts), len(self.start)
        power = 2 if self.loss.kink is None else 1
        floor = n * (_EXACT * self.setting.rounding) ** power
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
