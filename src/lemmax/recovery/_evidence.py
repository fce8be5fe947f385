"""From a fit to the case that the tests of the certificate judge."""

import math
from collections.abc import Sequence

import jax
import numpy as np

from .._typing import Parameters
from ..maps import AbstractMap, AbstractRankedMap
from . import _constants as constants
from ._certificate import Case, Certificate, certified, log_chance
from ._facts import Facts
from ._left_over import left_over
from ._rivals import contested
from ._select import Fitted
from ._tangent import Tangent, tangent_of_entries, tangent_of_measurements


def certify(facts: Facts, fitted: Fitted, others: Sequence[Fitted] = ()) -> Certificate:
    """The verdict on a fit, beside others, of other ranks."""
    norm = _norm(fitted.map, fitted.x)
    if norm == 0:
        said = "nothing in the data stands out, and the point is zero"
        return Certificate.of_nothing(fitted, said)
    exact, residual, used = facts.vanishes(fitted.residual), fitted.residual, fitted.used
    noise = float(np.sqrt(np.mean(residual[used] ** 2))) if exact else fitted.scale
    level = facts.zero if exact else constants.BULK * fitted.scale
    unsettled = (_unsettled(facts.count, fitted, other) for other in others)
    case = Case(
        exact=exact,
        residual=residual,
        data=facts.data,
        known=facts.known,
        labels=facts.labels,
        used=used,
        noise=noise,
        level=level,
        norm=norm,
        tangent=_tangent(facts, fitted, used, norm),
        unsettled=0.0 if exact else max(unsettled, default=0.0),
    )
    if fitted.map.ranked is not None:
        # If the noise was underestimated, so large residuals may be noise.
        case = case._replace(left_over=lambda: left_over(facts, residual, constants.BULK * level))
    terms = fitted.map.terms(fitted.x) if facts.entrywise and facts.robust else None
    return certified(case if terms is None else _with_lines(case, facts, *terms))


def _with_lines(case: Case, facts: Facts, map: AbstractRankedMap, x: Parameters) -> Case:
    """What is known about rows and columns, or slices, of observed entries."""
    # With fixed factors the terms are those of all factors, which allows for more errors.
    factors = [np.asarray(factor, np.float64) for factor in map(x).factors]
    places = facts.operator.places(case.used)
    counts = [np.bincount(k, minlength=len(f)) for k, f in zip(places, factors, strict=True)]

    def rivals() -> tuple[float, tuple[list[int], ...]]:
        known = case.known
        seen = facts.operator.places(known), case.data[known], case.used[known]
        # A rival through a few noisy entries has their noise, and may miss one that it explains.
        return contested(factors, *seen, case.level, slack=0 if case.exact else 1)

    short = tuple(np.flatnonzero(n < factors[0].shape[1]).tolist() for n in counts)
    return case._replace(short=short, rivals=rivals)


def _tangent(facts: Facts, fitted: Fitted, used: np.ndarray, norm: float) -> Tangent:
    map, x = fitted.map, fitted.x
    terms = map.terms(x) if facts.entrywise else None
    if terms is not None:
        return tangent_of_entries(facts.problem, *terms, used, fitted.freedom)
    if facts.has_small_jacobian(x):
        freedom = None if map.ranked is None else fitted.freedom
        sizes = None if facts.vanishes(fitted.residual) else np.abs(fitted.residual) / fitted.scale
        return tangent_of_measurements(facts.problem, facts.on_device(x), used, freedom, sizes)
    # Else as if all tangents had the gain of the point itself.
    gain = float(np.linalg.norm((fitted.residual + facts.data)[used])) / norm
    return Tangent(fitted.freedom, np.sqrt(fitted.freedom) / gain if gain > 0 else np.inf)


def _unsettled(count: int, fitted: Fitted, other: Fitted) -> float:
    """The distance to a fit of lower rank, if chance may be all that the other terms explain."""
    used, freedom = fitted.used, fitted.freedom - other.freedom
    hits = int(used.sum()) - other.freedom
    if freedom <= 0:
        return 0.0
    if hits > freedom:
        # Outliers of the other fit may be right.
        errors = np.minimum(np.abs(other.residual[used]), constants.BULK * other.scale)
        rest = float(np.sum(fitted.residual[used] ** 2) / np.sum(errors**2))
        chance = log_chance(rest, hits, count - other.freedom, freedom)
        if chance <= math.log(constants.CHANCE):
            return 0.0
    one, two = (fit.map(jax.tree.map(jax.numpy.asarray, fit.x)) for fit in (fitted, other))
    return float(one.distance(two))


def _norm(map: AbstractMap, x: Parameters) -> float:
    if map.ranked is None:
        return float(map(jax.tree.map(jax.numpy.asarray, x)).norm())
    factors = [np.asarray(factor, np.float64) for factor in map.ranked(x).factors]
    return math.sqrt(max(float(np.sum(math.prod(f.T @ f for f in factors))), 0.0))
