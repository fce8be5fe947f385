"""Alignment of maps: the proved constants, as functions of the truth."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .._checks import check_real
from .._typing import Parameters
from ..maps import CP, PSD, AbstractMap, LowRank, Square, SymmetricCP
from ._parameters import as_parameters
from ._truths import (
    ZERO_TRUTH,
    as_array,
    have_same_right_vectors,
    nonzero_singular_values,
    singular_value_at,
)
from .constants import jacobian_lipschitz, size_of
from .measure import require_concrete


@dataclasses.dataclass(frozen=True)
class Alignment:
    """Alignment constants of a map at a truth z*.

    For every rho, at every point ``z = F(x)`` with ``|z - z*| <= delta(rho)`` and
    ``|x - x*| <= epsilon``, some index j has ``|(I - Pi_j)(z - z*)| <= rho |z - z*|`` and
    ``sigma_j^2 >= s(rho) |z - z*|`` (weak) or ``sigma_j^2 >= s(rho)`` (strong, s constant).
    """

    theorem: str
    strong: bool
    s: Callable[[float], float]
    radius: Callable[[float], float] | None
    """The function delta, or None if only its existence is proved."""
    lipschitz: float
    """Lipschitz constant of the Jacobian, within ``epsilon`` of x*."""
    epsilon: float = math.inf
    """Radius about x* in which the statement holds; infinite if it holds everywhere."""
    unknown: str = ""
    """What cannot be computed; empty if everything can."""

    def delta(self, rho: float) -> float:
        """The radius about z*; raises an error if only its existence is proved."""
        if self.radius is None:
            raise ValueError(self.unknown)
        return self.radius(rho)

    @property
    def local(self) -> bool:
        """Whether it only holds near one x*."""
        return math.isfinite(self.epsilon)


def weak_alignment(map: AbstractMap, truth: Parameters) -> Alignment:
    """Weak alignment of `Square` (Theorem 5.1), `PSD` (5.5) and `LowRank` (5.6).

    Parameters
    ----------
    map : AbstractMap
        `Square`, `PSD` or `LowRank`.
    truth : array, tuple of arrays or KruskalPoint
        Parameters x* of the truth z*. For `LowRank` the factors must have the same right
        singular vectors, as balanced factors do; the statement is then local to them.

    Returns
    -------
    Alignment

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import lemmax as lm
    >>> found = lm.theory.weak_alignment(lm.maps.Square(3), jnp.array([2.0, 1.0, 0.0]))
    >>> found.theorem, found.s(0.125), found.delta(0.125)
    ('Theorem 5.1', 0.125, 0.5)
    """
    truth = _concrete(map, truth)
    if isinstance(map, Square):
        return _square(map, truth)
    if isinstance(map, PSD):
        return _psd(map, truth)
    if isinstance(map, LowRank):
        return _low_rank(map, truth)
    raise ValueError(
        f"Weak alignment is proved for Square, PSD and LowRank, not for {type(map).__name__}; "
        "measure_alignment measures it at a given point."
    )


def strong_alignment(
    map: AbstractMap,
    truth: Parameters,
    *,
    curvature: float | None = None,
    radius: float | None = None,
) -> Alignment:
    """Strong alignment, for exactly parameterised truths.

    Parameters
    ----------
    map : AbstractMap
        `SymmetricCP` (Theorem 5.16) or `CP` (5.17) of order 3, or `Square`.
    truth : array or tuple of arrays
        Parameters x* of the truth, without redundant columns or zeros.
    curvature, radius : float, optional
        The constants C and R of Theorems 5.16 and 5.17: within R of x*, the part of the error
        outside of the range of the Jacobian is at most ``C e^2``. Only their existence is
        proved; without them ``delta`` is unknown.

    Returns
    -------
    Alignment

    Notes
    -----
    The paper prints ``s = sigma / 2`` with the smallest nonzero singular value sigma of the
    Jacobian at x*. Its proof shows that nearby singular values are at least ``sigma / 2``, and the
    definition concerns their squares: ``s = sigma^2 / 4``, as used here.

    For `Square` without zeros the Jacobian ``2 diag(x)`` is invertible, so there is no tail, and
    ``sigma_j^2 = 4 min z_i >= 2 min z*_i`` if ``e <= min z*_i / 2``.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import lemmax as lm
    >>> found = lm.theory.strong_alignment(lm.maps.SymmetricCP(2, rank=1), jnp.ones((2, 1)))
    >>> print(found.unknown)
    Theorem 5.16 proves that its constants R and C exist but does not give them, so delta(rho) = \
rho/C and the radius about x* cannot be computed; pass curvature=C and radius=R if you know them.
    """
    truth = _concrete(map, truth)
    for name, number in (("curvature", curvature), ("radius", radius)):
        if number is not None:
            check_real(0, open_low=True, **{name: number})
    if isinstance(map, Square):
        smallest = float(np.min(as_array(truth) ** 2))
        if not smallest > 0:
            raise ValueError("Square is strongly aligned only at a truth without zeros.")
        return Alignment(
            "strong alignment of an invertible Jacobian",
            True,
            lambda rho: 2 * smallest,
            lambda rho: smallest / 2,
            jacobian_lipschitz(map),
        )
    if not isinstance(map, (SymmetricCP, CP)) or len(map.shape) != 3:
        raise ValueError(
            "Strong alignment is known for SymmetricCP and CP of order 3 and for Square, not for "
            f"this {type(map).__name__} map."
        )
    symmetric = isinstance(map, SymmetricCP)
    theorem = "Theorem 5.16" if symmetric else "Theorem 5.17"
    # CP has two scale gauges per column.
    index = map.dim * map.rank if symmetric else (sum(map.dims) - 2) * map.rank
    sigma = singular_value_at(map, truth, index)
    size = size_of(truth)
    known = curvature is not None and radius is not None
    # sigma / (2 L_F): within this radius no singular value falls below sigma / 2. The paper's
    # 8 sqrt(3) corresponds to its larger Lipschitz constant.
    lipschitz = jacobian_lipschitz(map, truth)
    epsilon = min(math.inf if radius is None else radius, sigma / (2 * lipschitz), size)
    unknown = (
        f"{theorem} proves that its constants R and C exist but does not give them, so delta(rho) "
        "= rho/C and the radius about x* cannot be computed; pass curvature=C and radius=R if "
        "you know them."
    )
    return Alignment(
        theorem,
        True,
        lambda rho: sigma**2 / 4,
        (lambda rho: rho / curvature) if curvature is not None and known else None,
        lipschitz,
        epsilon,
        "" if known else unknown,
    )


def _concrete(map: AbstractMap, truth: Parameters) -> Any:
    require_concrete(truth, "The theory of a problem")
    return as_parameters(map, truth, "the truth")


def _square(map: Square, truth: Any) -> Alignment:
    z = as_array(truth) ** 2
    positive = z[z > 0]
    if positive.size == 0:
        raise ValueError(ZERO_TRUTH)
    redundant = max(math.sqrt(map.dim - positive.size), 1.0)
    different = np.abs(z[:, None] - z[None, :])
    different = different[different > 0]
    gap = float(np.min(different)) / 2 if different.size else math.inf
    smallest = float(np.min(positive))

    def s(rho: float) -> float:
        return rho / redundant

    def delta(rho: float) -> float:
        return min(gap, smallest / (1 + s(rho)), smallest / 2)

    return Alignment("Theorem 5.1", False, s, delta, jacobian_lipschitz(map))


def _psd(map: PSD, truth: Any) -> Alignment:
    values = nonzero_singular_values(as_array(truth))
    redundant = map.rank - len(values) + 1
    smallest = float(values[-1]) ** 2

    def s(rho: float) -> float:
        return 4 * rho / math.sqrt(2 * redundant)

    def delta(rho: float) -> float:
        return min(rho / math.sqrt(2), 1 / (1 + s(rho)), 1 / 3) * smallest

    return Alignment("Theorem 5.5", False, s, delta, jacobian_lipschitz(map))


def _low_rank(map: LowRank, truth: Any) -> Alignment:
    left, right = (as_array(factor) for factor in truth)
    a, b = nonzero_singular_values(left), nonzero_singular_values(right)
    if len(a) != len(b) or not have_same_right_vectors(left, right):
        raise ValueError(
            "Theorem 5.6 needs factors with the same right singular vectors and rank. Balance "
            "them first: with X Y' = U diag(s) V', use U diag(sqrt(s)) and V diag(sqrt(s))."
        )
    low = min(float(a[-1]), float(b[-1])) ** 2
    share = low / (float(a[-1]) ** 2 + float(b[-1]) ** 2)
    redundant = map.rank - len(a) + 1

    def s(rho: float) -> float:
        return rho * share / (10 * math.sqrt(2) * redundant**2)

    def delta(rho: float) -> float:
        return min(rho / 4, 1 / (4 * s(rho))) * low

    epsilon = low / (16 * math.sqrt(2) * max(float(a[0]), float(b[0])))
    return Alignment("Theorem 5.6", False, s, delta, jacobian_lipschitz(map), epsilon)
