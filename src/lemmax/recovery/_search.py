"""From the data to an answer: starts, ranks and refits, until one of them can be certified."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from .._typing import Parameters
from ..init import spectral
from ..init._random import random_starts_like
from ..maps import AbstractRankedMap
from ..problem import Composite
from ..status import Stopped
from ._answer import Answer
from ._certificate import Certificate, certify_exact, certify_noise
from ._descent import MAX_STEPS, Descended, Descent, Watch
from ._evidence import Evidence, as_array
from ._factor_start import FactorStart, factor_starts
from ._kept_aside import Predictions, predictions
from ._linearised import Linearised, Workbench
from ._noise import Refit, freedom_of, refit
from ._structure import convincing_observations, lower_ranks

# With fewer observations per degree of freedom than this, lower ranks are tried first: at the
# bound there are points that fit better than the truth.
_ENOUGH = 2.5
# By how much the rank of an exact answer may exceed that of a noisy one.
_NEAR = 2
# Up to here every lower rank is refitted to noisy data.
_MANY = 12
_NOTHING = 1e-30


class Attempt(NamedTuple):
    """Where to start."""

    x: Parameters
    rank: int | None
    """How many terms x has."""
    steps: int = MAX_STEPS
    """How many at most lead down from there."""
    noisy: bool = False
    """Whether to look for noise at once, if that is where it leads, before anything else."""


class Search:
    """The attempts at one problem, and what they took."""

    def __init__(
        self, problem: Composite, x0: Parameters | None, seed: int, restarts: int, watch: Watch
    ):
        self.problem, self.x0, self.seed, self.restarts = problem, x0, seed, restarts
        self.robust = problem.loss.robust
        self.entrywise = problem.operator.entrywise
        self.bench = Workbench(problem)
        self.watch = watch
        self.descent = Descent(self.bench, self.robust, watch, np.random.default_rng(seed))
        self._evidence = Evidence(problem, self.bench, self.descent)
        self.steps = 0
        # Of every attempt, and of every rank: asked for again when all attempts have failed.
        self._own_refits: list[Refit] = []
        self._refits: list[list[tuple[Refit, np.ndarray | None]]] = []
        self._hidden: dict[tuple[int | None, int], Predictions] = {}

    @property
    def passes(self) -> int:
        """Passes over the measurements so far."""
        return self.bench.passes

    def run(self) -> Answer:
        """Try starts and ranks in turn; the first certified answer, or else the best of all."""
        try:
            return self._run()
        except (Stopped, KeyboardInterrupt):
            end = self.descent.latest
            if end is None:
                raise
            freedom = freedom_of(self.bench, end.at)
            nothing = Certificate.interrupted(self.descent.known, freedom)
            return self._answer(end.at, end.sizes, nothing)._replace(interrupted=True)

    def _run(self) -> Answer:
        ends: list[Descended] = []
        for x, rank, steps, noisy in self._attempts():
            end = self.descent.run(x, rank, steps)
            ends.append(end)
            self.steps += end.steps
            if end.exact:
                answer = self._exact(self._trimmed(end))
                if answer.certificate.holds:
                    return answer
            elif noisy:
                answer = self._noisy(ends)
                if answer.certificate.holds:
                    return (self._exact_beside(answer, x) if steps else None) or answer
        return self._noisy(ends)

    def _refitted(self, ends: list[Descended], attempt: int) -> Refit:
        """Of the rank of an attempt; of those that it contains, see `_noisy`."""
        while len(self._own_refits) <= attempt:
            at = ends[len(self._own_refits)].at
            self._own_refits.append(refit(self.bench, at.x, at.rank, self.robust))
        return self._own_refits[attempt]

    def _exact_beside(self, noisy: Answer, x: Parameters) -> Answer | None:
        """An exact answer of a rank close to that of a noisy one, from the same start.

        Where many observations are wrong, superfluous terms keep the descent from the truth, and
        weak terms of it pass for noise.
        """
        if self.bench.ranked is None or not self.robust:
            return None
        assert isinstance(noisy.map, AbstractRankedMap)
        found = noisy.map.rank
        for rank in range(found, min(found + _NEAR, self.bench.ranked.rank - 1) + 1):
            end = self.descent.run(self.descent.cut(x, rank), rank)
            self.steps += end.steps
            if not end.exact:
                # Beside many outliers the last digits do not show in the value; in squares they do.
                at = refit(self.bench, end.at.x, rank, self.robust).at
                end = end._replace(at=at, exact=self.descent.vanishes(at.residual))
            if end.exact:
                answer = self._exact(self._trimmed(end))
                if answer.certificate.holds:
                    return answer
        return None

    def _attempts(self) -> Iterator[Attempt]:
        map = self.bench.ranked
        bound = None if map is None else map.largest_rank
        if self.x0 is not None:
            for x in self._starts_beside(self.x0):
                if map is not None and bound is not None and bound < map.rank:
                    x = self.descent.cut(x, bound)
                yield Attempt(x, bound)
            return
        found = False
        for start in self._factor_starts():
            # What is wrong is known, so that least squares find the rest.
            yield Attempt(start.x, start.rank, 0, noisy=True)
            found = True
        if found:
            return
        # If the first start ends in noise, lower ranks bring nothing; from rank 1 upwards they do.
        first = True
        x = self._spectral(self.seed)
        if map is None or bound is None:
            yield Attempt(x, None, noisy=first)
            return
        for rank in self._ranks(bound):
            here = x if rank == map.rank else self.descent.cut(x, rank)
            yield Attempt(here, rank, noisy=first and rank != 1)
            first = False
        if self._is_tensor:  # these have local minima
            for k in range(1, self.restarts + 1):
                yield Attempt(self._spectral(self.seed + k), bound)

    def _ranks(self, bound: int) -> list[int]:
        """In the order in which they are tried: the bound first, if there are data enough.

        Ranks that so few data could not prove are not tried.
        """
        map, count = self.bench.ranked, int(self.descent.known.sum())
        assert map is not None
        if count >= _ENOUGH * map.with_rank(bound).degrees_of_freedom:
            return [bound, *lower_ranks(bound)]
        ranks = [*lower_ranks(bound), bound]
        provable = [
            rank
            for rank in ranks
            if convincing_observations(map.with_rank(rank).degrees_of_freedom) <= count
        ]
        return provable or ranks[:1]

    def _spectral(self, seed: int) -> Parameters:
        start = spectral(self.problem, seed=seed)
        self.bench.passes += start.passes
        return start.x0

    def _factor_starts(self) -> Iterator[FactorStart]:
        if not self.entrywise or self.bench.ranked is None:
            return
        for start in factor_starts(self.problem, self.seed, self.watch):
            self.bench.passes += 2 * start.sweeps
            self.steps += start.sweeps
            if start.interrupted:
                self.descent.run(start.x, start.rank, 0)
                raise Stopped
            yield start

    def _starts_beside(self, given: Parameters) -> Iterator[Parameters]:
        """The given one; and if it leads nowhere, the data's own, where that is known, or any."""
        yield given
        if self._is_tensor and self.bench.ranked is not None:
            yield self._spectral(self.seed)
        yield from random_starts_like(self.problem.map, given, self.restarts, self.seed)

    def _trimmed(self, end: Descended) -> Descended:
        """Without the terms that are rounding errors, if it fits as well without them."""
        if end.at.rank is None or end.sizes is None:
            return end
        floor = np.sqrt(float(np.finfo(end.at.residual.dtype).eps)) * end.sizes[0]
        rank = int(np.sum(end.sizes[: end.at.rank] > floor))
        if not 0 < rank < end.at.rank:
            return end
        shorter = self.descent.with_fewer_terms(end.at, rank)
        return shorter._replace(sizes=end.sizes) if shorter.exact else end

    @property
    def _is_tensor(self) -> bool:
        return len(self.problem.map.shape or ()) > 2

    def _exact(self, end: Descended) -> Answer:
        certificate = certify_exact(self._evidence.fit(end.at), self.descent.zero)
        return self._answer(end.at, end.sizes, certificate)

    def _noisy(self, ends: list[Descended]) -> Answer:
        """The best least-squares fit to the bulk, of any rank that was met or is contained."""
        for attempt in range(len(self._refits), len(ends)):
            end = ends[attempt]
            fewer = (
                refit(self.bench, x, rank, self.robust) for x, rank in self._with_fewer_terms(end)
            )
            self._refits.append(
                [(fit, end.sizes) for fit in (self._refitted(ends, attempt), *fewer)]
            )
        steps = MAX_STEPS if any(end.steps for end in ends) else 0
        fits = [pair for attempt in self._refits for pair in attempt]
        fits = [(fit, sizes) for fit, sizes in fits if np.isfinite(fit.at.value)]
        if not fits:
            return self._exact(ends[0])
        best, sizes = min(fits, key=lambda pair: pair[0].criterion)
        if self.descent.vanishes(best.at.residual):  # no noise after all
            certificate = certify_exact(self._evidence.fit(best.at), self.descent.zero)
            return self._answer(best.at, sizes, certificate)
        self.descent.latest = Descended(best.at, sizes, 0)
        fit = self._evidence.fit(best.at)
        certificate = certify_noise(
            fit, best.used, best.scale, lambda: self._predictions(best, steps)
        )
        return self._answer(best.at, sizes, certificate)

    def _answer(self, at: Linearised, sizes: np.ndarray | None, certificate: Certificate) -> Answer:
        map, x = self.problem.map, at.x
        if self.bench.ranked is not None and at.rank is not None:
            map, x = self.bench.ranked.first_terms(x, at.rank)
            if sizes is not None and not np.any(sizes[at.rank :] > _NOTHING * sizes[0]):
                sizes = sizes[: at.rank]  # a lower rank was tried from the start: nothing was cut
        return Answer(map, x, as_array(at), sizes, certificate)

    def _with_fewer_terms(self, end: Descended) -> Iterator[tuple[Parameters, int]]:
        rank = end.at.rank
        if rank is not None:
            for fewer in lower_ranks(rank) if rank > _MANY else range(1, rank):
                yield self.descent.cut(end.at.x, fewer), fewer

    def _predictions(self, best: Refit, steps: int) -> Predictions:
        """Of fits from scratch, of the same rank and with so many steps."""
        kind = rank, _ = best.at.rank, steps
        if kind not in self._hidden:
            self._hidden[kind] = predictions(
                self.problem,
                self.seed,
                lambda part: self._again(part, rank, steps),
                lambda hidden: self._evidence.spread(best, hidden),
            )
        return self._hidden[kind]

    def _again(self, problem: Composite, rank: int | None, steps: int) -> np.ndarray:
        """Residuals of a fit from scratch to a problem with less data."""
        part = Search(problem, self.x0, self.seed, 0, self.watch)
        x = self.x0
        if x is None:
            start = next(part._factor_starts(), None)
            x = part._spectral(self.seed) if start is None else start.x
        if rank is not None:
            x = part.descent.cut(x, rank)
        end = part.descent.run(x, rank, steps)
        again = refit(part.bench, end.at.x, end.at.rank, self.robust)
        self.bench.passes += part.passes
        return as_array(again.at)
