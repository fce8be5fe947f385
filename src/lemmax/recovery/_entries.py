"""Observed entries of a matrix: the graduated fit, and what it proves."""

import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from .._dtype import cast_floats
from ..init._matrices import project_psd
from ..maps import PSD, LowRank
from ..operators import Identity
from ..problem import Composite
from ._certificate import Certificate, Fit, certify_exact, certify_noise, nothing_found
from ._components_of_entries import of_rank
from ._descent import Descent, Watch
from ._entrywise import FROM_NOTHING, LEAST_SQUARES, SHARP, EntrywiseFit, Start, fit_entries
from ._kept_aside import predictions
from ._left_over import left_over
from ._linearised import Workbench
from ._noise import bulk_of, schwarz
from ._rivals import lines_of
from ._search import Answer
from ._structure import degrees_of_freedom, largest_rank, term_sizes
from ._tables import fit_factor_model
from ._tangent import spread_of_entries, tangent_of_entries

# Prices of errors that a convex start is made with; up to how many entries, times the smaller
# dimension, it comes first, and up to how many at all: some seconds' worth.
_PRICES = (1.0, 1.5)
_QUICK, _AFFORDABLE = 1e6, 1.2e7
_NEARLY_ALL = 0.75


Proposal = Callable[[Composite], EntrywiseFit]


def search_entries(problem: Composite, seed: int, watch: Watch) -> tuple[Answer, int, int]:
    """The answer, the passes and the steps it took."""
    search = _EntriesSearch(problem, seed, watch)
    return search.run(), search.passes, search.steps


class _EntriesSearch:
    """Fits from several starts, and what they took."""

    def __init__(self, problem: Composite, seed: int, watch: Watch):
        self.problem, self.seed, self.watch = problem, seed, watch
        self.robust = problem.loss.robust
        self.descent = Descent(Workbench(problem), self.robust, watch, np.random.default_rng(seed))
        self.passes = self.steps = 0

    def run(self) -> Answer:
        """The first fit that is certainly exact, or else the best of all."""
        judged: list[tuple[float, EntrywiseFit, Proposal]] = []
        found, interrupted = _nothing_wrong(self.problem, self.descent), False
        for propose in self._proposals():
            found = found or self._fit(self.problem, propose)
            fit = self._seen(found)
            if self.descent.vanishes(fit.residual):
                answer = self._answer(found, certify_exact(fit, self.descent.zero))
                certain = answer.certificate.holds and not found.interrupted
                if certain and all(answer.criterion <= other for other, _, _ in judged):
                    return answer
                judged.append((self._exact_criterion(answer), found, propose))
            else:
                judged.append((self._noisy_criterion(found, fit), found, propose))
            interrupted, found = found.interrupted, None
            if interrupted:
                break
        _, best, propose = min(judged, key=lambda each: each[0])
        if interrupted:
            certificate = certify_exact(self._seen(best), self.descent.zero)
            return self._answer(best, certificate)._replace(interrupted=True)
        return self._best(best, propose)

    def _proposals(self) -> list[Proposal]:
        if isinstance(self.problem.map, LowRank):
            return [lambda problem: fit_factor_model(problem, self.seed, self.watch)]
        return [functools.partial(self._from, start) for start in _starts(self.problem)]

    def _from(self, start: Start, problem: Composite) -> EntrywiseFit:
        return fit_entries(problem, seed=self.seed, watch=self._told, start=start)

    def _fit(self, problem: Composite, propose: Proposal) -> EntrywiseFit:
        found = propose(problem)
        self.passes += found.passes
        self.steps += found.steps
        return found

    def _told(self, step: int, rank: int, scale: float) -> bool:
        return self.watch(f"rank {rank}", step, scale)

    def _seen(self, found: EntrywiseFit) -> Fit:
        freedom = _freedom(found)
        return Fit(
            np.asarray(found.residual, np.float64),
            np.asarray(self.problem.data, np.float64),
            self.descent.known,
            self.descent.bench.labels,
            float(found.map(jax.tree.map(jnp.asarray, found.x)).norm()),
            lambda used: tangent_of_entries(self.problem, found.map, found.x, used, freedom),
            lines_of(self.problem, self.descent.known, found.map, found.x) if self.robust else None,
            lambda level: left_over(self.problem, found.residual, self.descent.known, level),
            np.asarray(self.problem.data) == 0,
        )

    def _exact_criterion(self, answer: Answer) -> float:
        """Of a fit that proves nothing, vanishing residuals speak only if nearly all vanish.

        Of a narrow table so many degrees of freedom go through more than half of anything.
        """
        share = np.sum(answer.certificate.explained) / np.sum(self.descent.known)
        proves = answer.certificate.holds or share >= _NEARLY_ALL
        return answer.criterion if proves else float("inf")

    def _noisy_criterion(self, found: EntrywiseFit, fit: Fit) -> float:
        freedom = _freedom(found)
        used, scale = bulk_of(fit.residual, fit.known, freedom, self.robust)
        return schwarz(self.problem, fit.residual, used, scale, freedom)

    def _best(self, found: EntrywiseFit, propose: Proposal) -> Answer:
        """What the best of the fits proves, as far as it is not exact."""
        fit, freedom = self._seen(found), _freedom(found)
        if fit.norm == 0:
            return self._answer(found, nothing_found(fit, freedom))
        if self.descent.vanishes(fit.residual):
            return self._answer(found, certify_exact(fit, self.descent.zero))
        used, scale = bulk_of(fit.residual, fit.known, freedom, self.robust)

        def again(part: Composite) -> np.ndarray:
            less = self._fit(part, propose)
            if less.interrupted:
                raise KeyboardInterrupt
            return np.asarray(less.residual, np.float64)

        def spread(hidden: np.ndarray) -> np.ndarray:
            shown = used & ~hidden
            return spread_of_entries(self.problem, found.map, found.x, shown, hidden)

        try:
            certificate = certify_noise(
                fit, used, scale, lambda: predictions(self.problem, self.seed, again, spread)
            )
        except KeyboardInterrupt:
            certificate = certify_exact(fit, self.descent.zero)
            return self._answer(found, certificate)._replace(interrupted=True)
        return self._answer(found, certificate)

    def _answer(self, found: EntrywiseFit, certificate: Certificate) -> Answer:
        residual = np.asarray(found.residual, np.float64)
        criterion = schwarz(
            self.problem,
            residual,
            certificate.explained,
            certificate.noise,
            _freedom(found),
        )
        sizes = term_sizes(found.map, found.x)
        return Answer(found.map, found.x, residual, sizes, certificate, criterion)


def _freedom(found: EntrywiseFit) -> int:
    return degrees_of_freedom(found.map, found.map.rank)


def _starts(problem: Composite) -> list[Start]:
    """Where to begin, in order of promise.

    Of a small table a singular value decomposition is quick, and there is little in it that stands
    out step by step.
    """
    if not problem.loss.robust:
        return [FROM_NOTHING]
    shape = problem.map.shape or problem.data.shape
    work = min(shape) * math.prod(shape)
    convex = [Start(price) for price in _PRICES]
    if work <= _QUICK:
        return [*convex, FROM_NOTHING, SHARP, LEAST_SQUARES]
    return [FROM_NOTHING, *convex[: work <= _AFFORDABLE], SHARP]


def _nothing_wrong(problem: Composite, descent: Descent) -> EntrywiseFit | None:
    """A complete table of low rank, up to rounding errors: its singular vectors are the answer."""
    if not isinstance(problem.operator, Identity) or not np.all(descent.known):
        return None
    if not isinstance(problem.map, PSD):
        return None
    data = np.asarray(problem.data, np.float64)
    bound = largest_rank(problem.map)
    # Of the rank that the singular values show; more than the bound is not of low rank.
    values = np.linalg.svd(data, compute_uv=False)
    shown = int(np.sum(values > np.sqrt(data.size) * descent.zero))
    if not 0 < shown <= bound:
        return None
    spectrum = project_psd(data, shown, noisy=False).parts
    factor = spectrum.left * np.sqrt(spectrum.values)
    residual = factor @ factor.T - data
    if np.sqrt(np.mean(residual**2)) > descent.rounding:
        return None
    x = cast_floats(factor, problem.data.dtype)
    return EntrywiseFit(of_rank(problem.map, shown), x, residual, 0, 1, True, False)
