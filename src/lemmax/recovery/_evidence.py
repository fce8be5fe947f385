"""What a fit is judged by: its residuals, and how well the observations see it."""

import functools
import math
from collections.abc import Callable

import jax
import numpy as np
from jaxtyping import Array

from .._programs import compiled
from .._typing import Parameters
from ..maps import AbstractMap
from ..methods._measured import measured_jacobian
from ..problem import Composite
from ._certificate import Certificate, Fit, certify_exact, certify_noise, nothing_found
from ._facts import Facts
from ._kept_aside import Predictions
from ._left_over import left_over, left_over_of_measurements
from ._rivals import lines_of
from ._select import Fitted
from ._tangent import Tangent, tangent_of_entries, tangent_of_matrix, tangent_unseen


def certify(facts: Facts, fitted: Fitted, predict: Callable[[], Predictions]) -> Certificate:
    """What a fit proves; ``predict`` fits what is left if some data are kept aside."""
    fit = _seen(facts, fitted)
    if fit.norm == 0:
        return nothing_found(fit, fitted.freedom)
    if facts.vanishes(fitted.residual):
        return certify_exact(fit, facts.zero)
    return certify_noise(fit, fitted.used, fitted.scale, predict)


def _seen(facts: Facts, fitted: Fitted) -> Fit:
    """Through its residuals, and what they say of its tangents."""
    problem, map, x = facts.problem, fitted.map, fitted.x
    lines = left = None
    if map.ranked is not None:
        if facts.entrywise:
            left = functools.partial(left_over, problem, fitted.residual, facts.known)
        else:
            left = functools.partial(left_over_of_measurements, problem, fitted.residual)
    # Of a map with fixed factors the terms are those of all factors: more cannot go wrong.
    terms = map.terms(x) if facts.entrywise else None
    if terms is not None and facts.robust:
        lines = lines_of(problem, facts.known, *terms)
    norm = _norm(map, x)

    def tangent(used: np.ndarray) -> Tangent:
        if terms is not None:
            return tangent_of_entries(problem, *terms, used, fitted.freedom)
        if facts.has_small_jacobian(x):
            known = None if map.ranked is None else fitted.freedom
            matrix = _derivative(problem, facts.on_device(x))
            return tangent_of_matrix(map, x, matrix, used, known)
        measured = (fitted.residual + facts.data)[used]
        return tangent_unseen(float(np.linalg.norm(measured)) / norm, fitted.freedom)

    return Fit(fitted.residual, facts.data, facts.known, facts.labels, norm, tangent, lines, left)


def _norm(map: AbstractMap, x: Parameters) -> float:
    if map.ranked is None:
        return float(map(jax.tree.map(jax.numpy.asarray, x)).norm())
    factors = [np.asarray(factor, np.float64) for factor in map.ranked(x).factors]
    return math.sqrt(max(float(np.sum(math.prod(f.T @ f for f in factors))), 0.0))


@compiled
def _derivative(problem: Composite, x: Parameters) -> Array:
    return measured_jacobian(problem, x)
