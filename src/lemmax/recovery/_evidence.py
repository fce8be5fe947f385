"""From a fit to the case that the tests of the certificate judge."""

import functools
import math
from collections.abc import Callable

import jax
import numpy as np
from jaxtyping import Array

from .._programs import compiled
from .._typing import Parameters
from ..maps import AbstractMap, AbstractRankedMap
from ..methods._measured import measured_jacobian
from ..problem import Composite
from . import _constants as constants
from ._certificate import Case, Certificate, certified
from ._facts import Facts
from ._hold_out import Predictions
from ._left_over import left_over, left_over_of_measurements
from ._rivals import contested
from ._select import Fitted
from ._tangent import Tangent, tangent_of_entries, tangent_of_matrix


def certify(facts: Facts, fitted: Fitted, predict: Callable[[], Predictions]) -> Certificate:
    """The verdict on a fit; ``predict`` fits again without some of the data."""
    norm = _norm(fitted.map, fitted.x)
    if norm == 0:
        said = "nothing in the data stands out, and the point is zero"
        return Certificate.of_nothing(facts.known, fitted.freedom, said)
    exact, residual, used = facts.vanishes(fitted.residual), fitted.residual, fitted.used
    noise = float(np.sqrt(np.mean(residual[used] ** 2))) if exact else fitted.scale
    level = facts.zero if exact else constants.BULK * fitted.scale
    perhaps = constants.BULK * level
    case = Case(
        exact=exact,
        residual=residual,
        data=facts.data,
        known=facts.known,
        labels=facts.labels,
        used=used,
        noise=noise,
        level=level,
        perhaps=perhaps,
        norm=norm,
        tangent=_tangent(facts, fitted, used, norm),
        predict=predict,
    )
    if fitted.map.ranked is not None:
        rest = left_over if facts.entrywise else left_over_of_measurements
        case = case._replace(left_over=functools.partial(rest, facts, residual, perhaps))
    terms = fitted.map.terms(fitted.x) if facts.entrywise and facts.robust else None
    return certified(case if terms is None else _with_lines(case, facts, *terms))


def _with_lines(case: Case, facts: Facts, map: AbstractRankedMap, x: Parameters) -> Case:
    """What is known about rows and columns, or slices, of observed entries."""
    # With fixed factors the terms are those of all factors, which allows for more errors.
    factors = [np.asarray(factor, np.float64) for factor in map(x).factors]
    places = facts.operator.places(case.used)
    counts = [np.bincount(k, minlength=len(f)) for k, f in zip(places, factors, strict=True)]
    # A rival through a few noisy entries has their noise, and may miss one that it explains.
    slack = 0 if case.exact else 1

    def rivals() -> tuple[float, tuple[list[int], ...]]:
        known = facts.known
        seen = facts.operator.places(known), facts.data[known], case.used[known]
        return contested(factors, *seen, case.level, slack)

    return case._replace(
        short=tuple(np.flatnonzero(n < factors[0].shape[1]).tolist() for n in counts),
        rivals=rivals,
    )


def _tangent(facts: Facts, fitted: Fitted, used: np.ndarray, norm: float) -> Tangent:
    map, x = fitted.map, fitted.x
    terms = map.terms(x) if facts.entrywise else None
    if terms is not None:
        return tangent_of_entries(facts.problem, *terms, used, fitted.freedom)
    if facts.has_small_jacobian(x):
        freedom = None if map.ranked is None else fitted.freedom
        matrix = _derivative(facts.problem, facts.on_device(x))
        return tangent_of_matrix(map, x, matrix, used, freedom)
    # Else as if all tangents had the gain of the point itself.
    gain = float(np.linalg.norm((fitted.residual + facts.data)[used])) / norm
    return Tangent(fitted.freedom, np.sqrt(fitted.freedom) / gain if gain > 0 else np.inf)


def _norm(map: AbstractMap, x: Parameters) -> float:
    if map.ranked is None:
        return float(map(jax.tree.map(jax.numpy.asarray, x)).norm())
    factors = [np.asarray(factor, np.float64) for factor in map.ranked(x).factors]
    return math.sqrt(max(float(np.sum(math.prod(f.T @ f for f in factors))), 0.0))


@compiled
def _derivative(problem: Composite, x: Parameters) -> Array:
    return measured_jacobian(problem, x)
