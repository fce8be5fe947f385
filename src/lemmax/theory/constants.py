"""Constants of the map and of the outer function in the theorems."""

import dataclasses
import math
from typing import Any

import jax
import numpy as np

from .._dtype import precision_context
from .._typing import Parameters
from ..losses import L1, L2, SquaredL2
from ..maps import CP, PSD, AbstractMap, LowRank, Square, SymmetricCP
from ..operators import Dense, Identity, SymmetricDense
from ..operators.symmetric import distinct_entries
from ..problem import Composite
from .isometry import estimate_isometry
from .measure import flatten, require_concrete


def jacobian_lipschitz(map: AbstractMap, truth: Parameters | None = None) -> float:
    """Lipschitz constant of the Jacobian of a map.

    Parameters
    ----------
    map : AbstractMap
        `Square`, `PSD`, `LowRank`, or `SymmetricCP` or `CP` of order 3.
    truth : array or tuple of arrays, optional
        Parameters of the truth, needed for tensor maps: their constant holds on the ball about
        the truth whose radius is the norm of the truth.

    Returns
    -------
    float

    Notes
    -----
    ``LowRank`` has constant 1; the paper's square root of 2 is valid but not tight. The same holds
    for `CP`: the second derivative is at most ``2 / sqrt(3)`` times the norm of the parameters,
    which on that ball gives ``4 / sqrt(3)`` times the norm of the truth, a third of the paper's
    ``4 sqrt(3)``.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import lemmax as lm
    >>> lm.theory.jacobian_lipschitz(lm.maps.PSD(4, rank=2))
    2.0
    >>> lm.theory.jacobian_lipschitz(lm.maps.SymmetricCP(4, rank=1), jnp.ones((4, 1)))
    24.0
    """
    if isinstance(map, (Square, PSD)):
        return 2.0
    if isinstance(map, LowRank):
        return 1.0
    if isinstance(map, (SymmetricCP, CP)) and len(map.shape) == 3:
        if truth is None:
            raise ValueError(
                f"The Jacobian of {type(map).__name__} is Lipschitz only near a solution: pass "
                "the parameters of the truth."
            )
        return (12.0 if isinstance(map, SymmetricCP) else 4 / math.sqrt(3)) * size_of(truth)
    raise ValueError(
        f"No Lipschitz constant is known for the Jacobian of this {type(map).__name__} map; where "
        "a function has the argument lipschitz, pass your own."
    )


def size_of(parameters: Parameters) -> float:
    """Euclidean norm of a pytree of parameters, as a float."""
    require_concrete(parameters, "The theory of a problem")
    leaves = [np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(parameters)]
    return math.sqrt(sum(float(np.sum(leaf**2)) for leaf in leaves))


@dataclasses.dataclass(frozen=True)
class OuterConstants:
    """Growth of the outer function ``h(z) = loss(operator(z) - data)`` along the image of the map.

    Sharp: ``lower * e <= h - h* <= upper * e`` (mu and L of the paper). Quadratic:
    ``lower / 2 * e^2 <= h - h* <= upper / 2 * e^2`` (alpha and beta). Here ``e = |z - z*|``.
    """

    quadratic: bool
    lower: float
    upper: float
    estimated: bool = False
    """Whether they come from `estimate_isometry`, and thus may be too favourable."""

    def __post_init__(self):
        if not 0 < self.lower <= self.upper < math.inf:
            raise ValueError(
                "Growth constants must be positive and finite, with lower <= upper; "
                f"got lower={self.lower} and upper={self.upper}."
            )

    @property
    def tolerance(self) -> float:
        """The rho at which the theorems use alignment: ``mu/(8L)`` or ``alpha/(16 beta)``."""
        return self.lower / ((16 if self.quadratic else 8) * self.upper)

    def contraction(self, scale: float) -> float:
        """Factor of ``e^2`` per Polyak step: ``1 - g mu^2/(8L^2)`` or ``1 - g alpha/(32 beta)``."""
        ratio = self.lower / self.upper
        return 1 - scale * (ratio / 32 if self.quadratic else ratio**2 / 8)


def outer_constants(
    problem: Composite,
    *,
    corrupted: Any = None,
    rigorous: bool = False,
    samples: int = 2000,
    seed: int = 0,
) -> OuterConstants:
    """Growth constants of the outer function of a problem, sharp or quadratic.

    With `Identity` they are those of the loss. With `Dense` on `Square` (nonnegative least
    squares), they are those times the extreme singular values of the array. For sensing they are
    estimated from the restricted isometry of the operator, and marked as estimates.

    Parameters
    ----------
    problem : Composite
        The problem.
    corrupted : array of ints, optional
        Positions of corrupted measurements, for the loss `L1` and matrix and CP maps.
    rigorous : bool
        For `Dense` or `SymmetricDense` sensing with more measurements than entries: use the
        singular values of the whole array instead of estimates. They are valid for directions of
        every rank; for symmetric maps, for all symmetric directions.
    samples, seed : int
        Arguments of `estimate_isometry`.

    Returns
    -------
    OuterConstants

    Notes
    -----
    For sensing with `SquaredL2`, alpha and beta are the smallest and the largest ``|A Z|^2``: at
    least ``1 - delta`` and at most ``1 + delta``, which is sharper than the paper's ``1 - delta``
    and ``(1 + delta)^2 / (1 - delta)``. `L2` has the roots of those, and `L1` has
    ``mu = omega0`` and ``L = omega2``.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import lemmax as lm
    >>> problem = lm.Composite(lm.losses.L2(), lm.maps.Square(2), jnp.array([4.0, 2.0]),
    ...                        lm.operators.Dense(jnp.diag(jnp.array([4.0, 2.0]))))
    >>> found = lm.theory.outer_constants(problem)
    >>> round(found.lower, 6), round(found.upper, 6), found.estimated
    (2.0, 4.0, False)
    """
    loss, operator, map = problem.loss, problem.operator, problem.map
    check_corrupted(problem, corrupted)
    if corrupted is None and isinstance(operator, Identity):
        return _of_loss(problem, _observations(problem), 1.0, 1.0)
    whole = isinstance(map, Square) or rigorous
    if corrupted is None and whole and isinstance(operator, (Dense, SymmetricDense)):
        matrix = _on_an_orthonormal_basis(operator, symmetric=bool(map.symmetric))
        measurements, entries = matrix.shape
        values = np.linalg.svd(matrix, compute_uv=False)
        lowest = float(values[-1]) if len(values) == entries else 0.0
        return _of_loss(problem, measurements, lowest, float(values[0]))
    if rigorous:
        raise ValueError(
            "Rigorous constants need the operator Dense or SymmetricDense and no corrupted data."
        )
    if corrupted is not None and map.ranked is None:
        raise ValueError(
            "The effect of corrupted measurements on the constants is estimated for maps of low "
            f"rank, and not known for {type(map).__name__}; predict takes your own as constants=..."
        )
    if loss.weights is not None:
        raise ValueError("Sensing constants are known for losses without weights.")
    if not isinstance(loss, (L1, L2, SquaredL2)):
        raise ValueError(_UNKNOWN.format(type(loss).__name__))
    found = estimate_isometry(operator, map, corrupted=corrupted, samples=samples, seed=seed)
    if isinstance(loss, SquaredL2):
        return _positive(True, found.lower, found.upper, estimated=True)
    if isinstance(loss, L2):
        roots = math.sqrt(found.lower), math.sqrt(found.upper)
        return _positive(False, *roots, estimated=True)
    return _positive(False, found.omega0, found.omega2, estimated=True)


def check_corrupted(problem: Composite, corrupted: Any) -> None:
    """Raise an error if the loss does not tolerate corrupted measurements."""
    if corrupted is not None and not isinstance(problem.loss, L1):
        name = type(problem.loss).__name__
        raise ValueError(f"Corrupted measurements need the loss L1; this loss is {name}.")


def _on_an_orthonormal_basis(operator: Dense | SymmetricDense, *, symmetric: bool) -> np.ndarray:
    """The operator as a matrix, on all arrays or on the symmetric ones.

    A distinct entry with multiplicity n belongs to a basis array of norm sqrt(n).
    """
    if isinstance(operator, Dense):
        matrix = np.asarray(operator.matrix)
        if not symmetric:
            return matrix
        operator = SymmetricDense(matrix.reshape(len(matrix), *operator.shape))
    _, recurs = distinct_entries(operator.dim, operator.order)
    return np.asarray(operator.packed) * np.sqrt(recurs)


_UNKNOWN = (
    "The loss {} has neither linear nor quadratic growth everywhere, so no theorem "
    "applies: the theory covers L1, L2, SquaredL2 and Quantile."
)


def _observations(problem: Composite) -> int:
    with precision_context(problem.data):
        data = problem.data
        return flatten(data.dense() if hasattr(data, "dense") else data).size


def _of_loss(problem: Composite, size: int, lowest: float, highest: float) -> OuterConstants:
    """The constants of the loss times the singular values of the operator."""
    own = problem.loss.constants(size)
    if own.growth is not None and own.smoothness is not None:
        return _positive(True, float(own.growth) * lowest**2, float(own.smoothness) * highest**2)
    if own.sharpness is not None and own.lipschitz is not None:
        return _positive(False, float(own.sharpness) * lowest, float(own.lipschitz) * highest)
    raise ValueError(_UNKNOWN.format(type(problem.loss).__name__))


def _positive(
    quadratic: bool, lower: float, upper: float, *, estimated: bool = False
) -> OuterConstants:
    if not lower > 0:
        raise ValueError(
            "The outer function does not grow in all directions of the map "
            f"(lower constant {lower:.3g}): there are too few measurements, too many are "
            "corrupted, or weights are zero. No theorem applies."
        )
    return OuterConstants(quadratic, lower, upper, estimated)
