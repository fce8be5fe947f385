"""Candidates: the given start, the factor model's, spectral and random ones."""

from collections.abc import Iterator
from typing import NamedTuple

from .._typing import Parameters
from ..init import spectral
from ..init._random import random_starts_like
from ..methods import AbstractMethod
from ..status import Stopped
from ._entries import factor_starts
from ._facts import Facts, convincing_observations
from ._refine import LMM, PROX_LINEAR
from ._select import Fitted, judged, lower_ranks


class Candidate(NamedTuple):
    """A start, and the method to go on from it."""

    x: Parameters
    rank: int | None
    """The number of terms of x."""
    method: AbstractMethod | None = None
    """None if least squares on the bulk follow at once."""
    conclusive: bool = False
    """Whether a noisy fit from here is certified before other candidates are tried."""
    fitted: Fitted | None = None
    """The fit, if there is one already."""


def propose(facts: Facts, x0: Parameters | None, seed: int, restarts: int) -> Iterator[Candidate]:
    """Candidates, the most promising first."""
    if x0 is not None:
        yield from _given(facts, x0, seed, restarts)
        return
    nothing = True
    if facts.entrywise and facts.ranked is not None:
        for candidate in _from_entries(facts, seed):
            nothing = False
            yield candidate
    if nothing:
        yield from _from_measurements(facts, seed, restarts)


def _given(facts: Facts, x0: Parameters, seed: int, restarts: int) -> Iterator[Candidate]:
    """The given start, then a spectral start for tensors, then random ones."""
    rank = None if facts.ranked is None else facts.ranked.largest_rank

    def starts() -> Iterator[Parameters]:
        yield x0
        if is_tensor(facts):
            yield _spectral(facts, seed)
        yield from random_starts_like(facts.map, x0, restarts, seed)

    for x in starts():
        for method in methods_for(facts, x):
            yield Candidate(facts.cut(x, rank), rank, method)


def _from_entries(facts: Facts, seed: int) -> Iterator[Candidate]:
    """The factor model's points: fits, or near enough for least squares."""
    for start in factor_starts(facts, seed):
        x, rank, residual = start.x, start.rank, start.residual
        facts.steps += start.sweeps
        facts.passes += 2 * start.sweeps
        if start.interrupted:
            facts.latest = x, rank, facts.residual(x) if residual is None else residual
            raise Stopped
        fitted = None if residual is None else judged(facts, x, rank, residual)
        yield Candidate(x, rank, conclusive=True, fitted=fitted)


def _from_measurements(facts: Facts, seed: int, restarts: int) -> Iterator[Candidate]:
    """A spectral start with as many terms as the bound allows, then with fewer."""
    x, map, bound = _spectral(facts, seed), facts.ranked, None
    ranks: list[int | None] = [None]
    if map is not None:
        bound = map.largest_rank
        ranks = [
            rank
            for rank in (bound, *lower_ranks(bound))
            if convincing_observations(map.with_rank(rank).degrees_of_freedom) <= facts.count
        ] or [1]
    methods = methods_for(facts, x)
    for method in methods:
        for rank in ranks:
            # A noisy fit with all terms, and what is left of it with fewer, is worth a verdict.
            conclusive = rank == bound and method is methods[-1]
            yield Candidate(facts.cut(x, rank), rank, method, conclusive)
    if is_tensor(facts):  # tensors have local minima
        for k in range(1, restarts + 1):
            yield Candidate(_spectral(facts, seed + k), bound, methods[0])


def methods_for(facts: Facts, x: Parameters) -> list[AbstractMethod | None]:
    """LMM; then prox-linear steps, which are expensive but find more, where B is small."""
    if not facts.robust:
        return [None]
    return [LMM, PROX_LINEAR] if facts.has_small_jacobian(x) else [LMM]


def is_tensor(facts: Facts) -> bool:
    """Whether the points are sums of terms with more than two modes."""
    return facts.ranked is not None and len(facts.map.shape or ()) > 2


def _spectral(facts: Facts, seed: int) -> Parameters:
    start = spectral(facts.problem, seed=seed)
    facts.passes += start.passes
    return start.x0
