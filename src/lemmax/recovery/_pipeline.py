"""From the data to an answer: propose, refine, select, certify, until an answer holds."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from .._dtype import cast_floats
from .._typing import Parameters
from ..maps import AbstractMap
from ..methods import AbstractMethod
from ..problem import Composite
from ..status import Stopped
from . import _constants as constants
from ._certificate import Certificate
from ._evidence import certify
from ._facts import Facts, Watch, convincing_observations
from ._kept_aside import Predictions, predictions, spread
from ._propose import Candidate, methods_for, propose
from ._refine import LMM, descend, refit
from ._select import Fitted, nested_ranks


class Answer(NamedTuple):
    """A point, and what is known about it."""

    map: AbstractMap
    x: Parameters
    residual: np.ndarray
    sizes: np.ndarray | None
    certificate: Certificate
    interrupted: bool = False


class Search:
    """The candidates for one problem, and the best of them."""

    def __init__(
        self, problem: Composite, x0: Parameters | None, seed: int, restarts: int, watch: Watch
    ):
        self.facts = Facts(problem, watch)
        self.x0, self.seed, self.restarts = x0, seed, restarts
        self._predicted: dict[int | None, Predictions] = {}

    def run(self) -> Answer:
        """The first answer that holds; or else the best fit, and what speaks against it."""
        try:
            return self._run()
        except (Stopped, KeyboardInterrupt):
            if self.facts.latest is None:
                raise
            x, rank, residual = self.facts.latest
            freedom = self.facts.freedom(x, rank)
            nothing = Certificate.interrupted(self.facts.known, freedom)
            sizes = self.facts.map.term_sizes(x)
            return Answer(*self.facts.own(x, rank), residual, sizes, nothing, interrupted=True)

    def _run(self) -> Answer:
        best: Fitted | None = None
        answer: Answer | None = None  # what the best fit proves, once that is known
        for candidate in propose(self.facts, self.x0, self.seed, self.restarts):
            for fitted in self._refined(candidate):
                if best is None or fitted.criterion < best.criterion:
                    best, answer = fitted, None
            assert best is not None
            if candidate.conclusive or self.facts.vanishes(best.residual):
                answer = answer or self._certified(best)
                if answer.certificate.holds:
                    return answer
        assert best is not None
        return answer or self._certified(best)

    def _refined(self, candidate: Candidate) -> Iterator[Fitted]:
        """Fits of the terms that a candidate leads to, and of fewer; an exact one ends it."""
        if candidate.fitted is not None:
            yield candidate.fitted
            return
        facts, rank = self.facts, candidate.rank
        x = self._descended(facts, candidate.method, candidate.x, rank)
        sizes = facts.map.term_sizes(x)
        if facts.ranked is None or rank is None or sizes is None:
            yield self._refitted(facts, candidate.method, x, rank)._replace(sizes=sizes)
            return
        sizes = sizes[:rank]
        for fewer in nested_ranks(sizes, superfluous=candidate.method is not None):
            too_many = convincing_observations(facts.freedom(x, fewer)) > facts.count
            if too_many and fewer > 1:
                continue
            here = x if fewer == rank else facts.cut(x, fewer)
            fitted = self._refitted(facts, candidate.method, here, fewer)
            yield fitted._replace(sizes=_joined(fitted, sizes))
            if facts.vanishes(fitted.residual):
                yield from self._without_rounding_errors(fitted, sizes)
                return

    def _descended(
        self, facts: Facts, method: AbstractMethod | None, x: Parameters, rank: int | None
    ) -> Parameters:
        """Near a solution."""
        if method is None:
            return x
        near = constants.NEAR if facts.has_small_jacobian(x) else constants.NEAR_WITHOUT_B
        # Prox-linear steps converge quadratically themselves.
        return descend(facts, method, x, rank, near if method is LMM else 0.0)

    def _refitted(
        self, facts: Facts, method: AbstractMethod | None, x: Parameters, rank: int | None
    ) -> Fitted:
        """At a solution; without B a method gets there in fewer passes than least squares."""
        if method is not None and not facts.has_small_jacobian(x):
            x = descend(facts, method, x, rank, 0.0)
        return refit(facts, x, rank)

    def _without_rounding_errors(self, fitted: Fitted, sizes: np.ndarray) -> Iterator[Fitted]:
        """An exact fit without the terms that it does not need."""
        own = fitted.map.term_sizes(fitted.x)
        assert own is not None
        assert fitted.rank is not None
        rank = int(np.sum(own > np.sqrt(np.finfo(self.facts.problem.data.dtype).eps) * own[0]))
        if 0 < rank < fitted.rank:
            shorter = refit(self.facts, self.facts.cut(fitted.x, rank), rank)
            yield shorter._replace(sizes=_joined(shorter, sizes))

    def _certified(self, best: Fitted) -> Answer:
        verdict = certify(self.facts, best, lambda: self._predictions(best))
        x = cast_floats(best.x, self.facts.problem.data.dtype)
        return Answer(best.map, x, best.residual, best.sizes, verdict)

    def _predictions(self, best: Fitted) -> Predictions:
        """Of fits from scratch, of the same rank."""
        if best.rank not in self._predicted:
            self._predicted[best.rank] = predictions(
                self.facts.problem,
                self.seed,
                lambda part: self._again(part, best),
                lambda hidden: spread(self.facts, best, hidden),
            )
        return self._predicted[best.rank]

    def _again(self, problem: Composite, best: Fitted) -> np.ndarray:
        """Residuals of a fit from scratch to a problem with less data."""
        part, rank = Facts(problem, self.facts.watch), best.rank
        start = next(propose(part, self.x0, self.seed, 0))
        if start.fitted is None:
            x = start.x if rank is None else part.cut(start.x, rank)
            method = methods_for(part, x)[-1] if start.method is not None else None
            x = self._descended(part, method, x, rank)
            start = start._replace(fitted=self._refitted(part, method, x, rank))
        assert start.fitted is not None
        self.facts.passes += part.passes
        self.facts.steps += part.steps
        return start.fitted.residual


def _joined(fitted: Fitted, sizes: np.ndarray) -> np.ndarray | None:
    """Sizes of the terms of a fit, and of those that were left out, as they were then."""
    own = fitted.map.term_sizes(fitted.x)
    return own if own is None else np.concatenate([own, sizes[len(own) :]])
