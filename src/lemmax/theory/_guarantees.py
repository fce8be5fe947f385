"""The parameters and bounds of the convergence theorems of Section 4, as formulas."""

import math
from collections.abc import Callable
from typing import Any

from ..maps import Projections
from ..methods.steps import damped_norm, projected_norm, range_norm
from .alignment import Alignment
from .constants import OuterConstants


def polyak(
    constants: OuterConstants,
    alignment: Alignment,
    denominator: Callable[[Projections], Any],
) -> dict[str, Any]:
    """Part (1) of Theorems 4.1, 4.4, 4.5 and 4.6; Theorems 4.7 and B.12 to B.14 if local."""
    rho = constants.tolerance
    radius = alignment.delta(rho)
    # Weak: C_ub <= rho s(rho). Strong: e_0 <= s rho / C_ub instead, here set equal to delta.
    upper = rho * alignment.s(rho)
    if alignment.strong:
        upper /= radius
    ratio = constants.lower / constants.upper
    lower = upper * (math.sqrt(ratio) if constants.quadratic else ratio)
    share, stretch = _denominator_costs(constants, denominator)
    scale = min(1.0, share * lower / alignment.lipschitz)
    contraction_of_square = constants.contraction(scale)
    epsilon = alignment.epsilon
    if alignment.local:
        # The steps in x add up to less than epsilon / 2, by Lemma B.10.
        gathered = -math.expm1(math.log1p(contraction_of_square - 1) / 4)
        radius = min(radius, (gathered * epsilon / (scale * stretch)) ** 2 * lower / 2)
    factor = math.sqrt(constants.upper) if constants.quadratic else constants.upper
    return {
        "scale": scale,
        "radius": radius,
        "contraction": math.sqrt(contraction_of_square),
        "parameter_radius": epsilon / 2,
        "damping_range": (lower, upper),
        "damping_factor": upper / factor,
    }


def _denominator_costs(
    constants: OuterConstants, denominator: Callable[[Projections], Any]
) -> tuple[float, float]:
    """The factor that a denominator costs in gamma, and by how much it lengthens steps in x.

    The smaller denominators are at least a multiple of the largest: ``<P v, z - z*>`` is at
    least three quarters of the gap, so ``|P v| >= 3/4 mu`` while ``|Pi v| <= L``; for quadratic
    functions ``|P v| >= 3/8 alpha e`` while ``|Pi v| <= beta e``.
    """
    if denominator is range_norm:
        return 1.0, 1.0
    if denominator is damped_norm:
        return 0.25, 2.0
    if denominator is projected_norm:
        kept = 0.75 * constants.lower / constants.upper / (2 if constants.quadratic else 1)
        return kept**2, 1 / kept
    raise ValueError(
        "The theorems cover the denominators range_norm, damped_norm and projected_norm of "
        "lemmax.steps."
    )


def geometric(constants: OuterConstants, alignment: Alignment) -> dict[str, Any]:
    """Part (2) of Theorems 4.1 and 4.4: steps and damping shrink by the same factor."""
    rho, low, high = constants.tolerance, constants.lower, constants.upper
    radius, jacobian = alignment.delta(rho), alignment.lipschitz
    s = alignment.s(rho)
    damping = s * low / (32 * high) if alignment.strong else radius * s * low / (128 * high)
    scale = (
        min(
            radius * low / (64 * high),
            math.sqrt(2 * damping * radius / jacobian),
            damping * low / (2 * jacobian * high),
        )
        / high
    )
    return {
        "scale": scale,
        "radius": radius,
        "contraction": max(1 - scale * low / (4 * radius), math.sqrt(0.5)),
        "initial_damping": damping,
    }


def constant(constants: OuterConstants, alignment: Alignment) -> dict[str, Any]:
    """Part (2) of Theorems 4.5 and 4.6: constant steps, shrinking damping.

    The printed proofs drop a term: with ``gamma <= 1 / (8 beta)`` their last inequality fails by a
    thousandth. They hold with ``1 / (16 beta)``, as used here; docs/theory.md has the missing line
    for the larger step.
    """
    rho, low, high = constants.tolerance, constants.lower, constants.upper
    radius, jacobian = alignment.delta(rho), alignment.lipschitz
    s = alignment.s(rho)
    damping = s * low / (16 * high) if alignment.strong else radius * s * low / (64 * high)
    scale = (
        min(
            1 / 16,
            math.sqrt(32 * damping / (jacobian * radius)),
            damping / (2 * jacobian * radius),
        )
        / high
    )
    return {
        "scale": scale,
        "radius": radius,
        "contraction": max(math.sqrt(1 - scale * low / 2), math.sqrt(0.5)),
        "initial_damping": damping,
    }
