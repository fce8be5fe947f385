"""From the data to an answer: propose, refine, select, certify, until an answer is certified."""

import math
from collections.abc import Iterator
from typing import NamedTuple

import equinox as eqx
import jax
import numpy as np

from .._dtype import cast_floats
from .._typing import Parameters
from ..problem import Composite
from ..status import Stopped
from ._certificate import Certificate
from ._evidence import certify
from ._facts import Facts, Watch, convincing_observations, typical_size
from ._propose import Candidate, propose
from ._refine import approach, refit
from ._select import Fitted, judged, nested_ranks


class Answer(NamedTuple):
    """A point and its verdict."""

    fitted: Fitted
    certificate: Certificate
    interrupted: bool = False

    def times(self, data: float, parameters: float) -> "Answer":
        """In another unit of the data, and of the parameters."""
        fitted = self.fitted._replace(
            x=jax.tree.map(lambda leaf: leaf * parameters, self.fitted.x),
            residual=self.fitted.residual * data,
            sizes=None if self.fitted.sizes is None else self.fitted.sizes * data,
        )
        certificate = self.certificate._replace(noise=self.certificate.noise * data)
        return Answer(fitted, certificate, self.interrupted)


def units(problem: Composite) -> tuple[float, float]:
    """Powers of 2 for data and parameters: exact, and in these no square over- or underflows.

    Near the median size of the data; 1 unless map and loss are homogeneous.
    """
    degree = problem.map.degree
    if degree is None or problem.loss.degree is None:
        return 1.0, 1.0
    exponent = math.log2(typical_size(problem.data, problem.weights > 0))
    root = int(exponent / degree)  # towards 0: the unit itself must not overflow
    return 2.0 ** (root * degree), 2.0**root


class Search:
    """The search for the point behind the data of one problem."""

    def __init__(
        self, problem: Composite, x0: Parameters | None, seed: int, restarts: int, watch: Watch
    ):
        data, parameters = self._units = units(problem)
        problem = eqx.tree_at(lambda p: p.data, problem, problem.data / data)
        self.facts, self.seed, self.restarts = Facts(problem, watch), seed, restarts
        self.x0 = jax.tree.map(lambda leaf: leaf / parameters, x0)
        self._fits: dict[int | None, Fitted] = {}

    def run(self) -> Answer:
        """The first certified answer; without one, the best fit and the objections to it."""
        try:
            return self._run().times(*self._units)
        except (Stopped, KeyboardInterrupt):
            if self.facts.latest is None:
                raise
            fitted = judged(self.facts, *self.facts.latest)
            verdict = Certificate.of_nothing(fitted, "the search was stopped")
            return Answer(fitted, verdict, interrupted=True).times(*self._units)

    def _run(self) -> Answer:
        best: Fitted | None = None
        answer: Answer | None = None  # the verdict on the best fit, if it was asked for
        for candidate in propose(self.facts, self.x0, self.seed, self.restarts):
            for fitted in self._refined(candidate):
                of_rank = self._fits.setdefault(fitted.rank, fitted)
                if fitted.criterion < of_rank.criterion:
                    self._fits[fitted.rank] = fitted
                if best is None or fitted.criterion < best.criterion:
                    best, answer = fitted, None
                    # What there is if the search is stopped while this is judged.
                    self.facts.latest = best.x, best.rank, best.residual
            assert best is not None
            if candidate.conclusive or self.facts.vanishes(best.residual):
                answer = answer or self._certified(best)
                if answer.certificate.holds:
                    return answer
        assert best is not None
        return answer or self._certified(best)

    def _refined(self, candidate: Candidate) -> Iterator[Fitted]:
        """Fits with the candidate's terms and with fewer; ends with the first exact one."""
        if candidate.fitted is not None:
            yield candidate.fitted
            return
        facts, rank, method = self.facts, candidate.rank, candidate.method
        x = approach(facts, method, candidate.x, rank)
        if facts.ranked is None or rank is None:
            yield refit(facts, method, x, rank)
            return
        sizes = facts.ranked.term_sizes(x)[:rank]
        for fewer in nested_ranks(sizes, superfluous=method is not None):
            too_many = convincing_observations(facts.freedom(x, fewer)) > facts.count
            if too_many and fewer > 1:
                continue
            here = x if fewer == rank else facts.cut(x, fewer)
            fitted = refit(facts, method, here, fewer)
            own = fitted.sizes
            assert own is not None
            # Sizes of the terms of the fit, then those of the terms that were cut off.
            yield fitted._replace(sizes=np.concatenate([own, sizes[len(own) :]]))
            if facts.vanishes(fitted.residual):
                # Terms of an exact fit that are rounding errors are not needed.
                eps = float(np.finfo(facts.problem.data.dtype).eps)
                needed = int(np.sum(own > np.sqrt(eps) * own[0]))
                if 0 < needed < fewer:
                    shorter = refit(facts, None, facts.cut(fitted.x, needed), needed)
                    yield shorter._replace(sizes=np.concatenate([own[:needed], sizes[needed:]]))
                return

    def _certified(self, best: Fitted) -> Answer:
        verdict = certify(self.facts, best, list(self._fits.values()))
        x = cast_floats(best.x, self.facts.problem.data.dtype)
        return Answer(best._replace(x=x), verdict)
