"""Predictions of the theorems for a given problem: parameters, radius and rate."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .._typing import Parameters
from ..losses import L1, L2, SquaredL2
from ..maps import CP, PSD, LowRank, Projections, Square, SymmetricCP
from ..methods import PreconditionedSubgradient, lmm
from ..methods import damping as damping_rules
from ..methods import steps as step_rules
from ..operators import Identity
from ..problem import Composite
from ._guarantees import constant, geometric, polyak
from ._parameters import as_parameters, corrupted_positions
from ._truths import at_truth
from .alignment import Alignment, strong_alignment, weak_alignment
from .constants import OuterConstants, check_corrupted, outer_constants
from .measure import require_concrete
from .oracle import ProportionalToError

_CONFIGURATIONS = ("polyak", "geometric", "constant")


@dataclasses.dataclass(frozen=True)
class Prediction:
    """The guarantee of a theorem, with the parameters it needs, all at their limits.

    With ``e = |F(x) - z*|``: if ``e_0 <= radius`` (and ``|x_0 - x*| <= parameter_radius``, for
    local theorems), then ``e_k <= bound(k, e_0)`` for all k.
    """

    theorem: str
    configuration: str
    constants: OuterConstants
    alignment: Alignment
    scale: float
    """Gamma of the Polyak step; otherwise the first or the constant length."""
    radius: float
    contraction: float
    """The q of the bound: ``e_k <= e_0 q^k`` for Polyak steps, ``radius * q^k`` for others."""
    parameter_radius: float = math.inf
    damping_range: tuple[float, float] | None = None
    """C_lb and C_ub (Polyak only): the damping must stay between these multiples of e."""
    initial_damping: float | None = None
    """Lambda; the damping of step k is ``lambda q^k``."""
    damping_factor: float | None = None
    """The factor of `ProportionalToError` that satisfies ``damping_range``."""
    target: float = 0.0
    """The objective at the truth."""
    denominator: Callable[[Projections], Any] = step_rules.range_norm

    @property
    def estimated(self) -> bool:
        """Whether constants come from `estimate_isometry`; it then is no certificate."""
        return self.constants.estimated

    def bound(self, k: Any, start_error: float) -> np.ndarray:
        """The bound on e after k steps."""
        first = start_error if self.configuration == "polyak" else self.radius
        return first * np.exp(np.asarray(k) * math.log(self.contraction))

    def method(self) -> PreconditionedSubgradient:
        """LMM with exactly these parameters."""
        if self.damping_factor is not None:
            step = step_rules.Polyak(self.target, self.scale, self.denominator)
            return lmm(step, ProportionalToError(self.damping_factor))
        assert self.initial_damping is not None
        rule = damping_rules.Geometric(self.initial_damping, self.contraction)
        if self.configuration == "constant":
            return lmm(step_rules.Constant(self.scale), rule)
        return lmm(step_rules.Geometric(self.scale, self.contraction), rule)

    def __str__(self) -> str:
        about = " with estimated constants" if self.estimated else ""
        near = ""
        if math.isfinite(self.parameter_radius):
            near = f" and |x0 - x*| <= {self.parameter_radius:.3g}"
        return (
            f"{self.theorem}{about}: from an error of at most {self.radius:.3g}{near}, "
            f"{self._promise()}"
        )

    def _promise(self) -> str:
        if self.contraction == 1:
            low, high = self.constants.lower, self.constants.upper
            return (
                "there is no useful rate: the factor per step rounds to 1, because the constants "
                f"of the outer function, {low:.3g} and {high:.3g}, are so far apart."
            )
        factor = f"{self.contraction:.9g}"
        if factor == "1":
            factor = f"1 - {1 - self.contraction:.3g}"
        if self.configuration == "polyak":
            return f"the error falls at least by the factor {factor} per step."
        if "-" in factor:
            factor = f"({factor})"
        return f"the error after k steps is at most {self.radius:.3g} * {factor}^k."


def predict(
    problem: Composite,
    truth: Parameters,
    *,
    configuration: str = "polyak",
    denominator: Callable[[Projections], Any] = step_rules.range_norm,
    alignment: Alignment | None = None,
    constants: OuterConstants | None = None,
    corrupted: Any = None,
    seed: int = 0,
) -> Prediction:
    """Find the theorem that applies to a problem, and its guarantee.

    Parameters
    ----------
    problem : Composite
        The problem.
    truth : array, pytree of arrays or KruskalPoint
        Parameters of the truth, which must fit the data; for matrix and CP maps also a factored
        point, such as the ``truth`` of an instance.
    configuration : {'polyak', 'geometric', 'constant'}
        Step rule: Configurations 1, 2 (sharp losses) and 3 (quadratic losses) of the paper.
    denominator : callable
        Denominator of the Polyak step: `range_norm` (the paper's), `damped_norm` or
        `projected_norm`. `lemmax.steps.Polyak` and `one_step` use `damped_norm` by default, with
        a quarter of the cap on gamma.
    alignment : Alignment, optional
        Alignment of the map. Default: weak alignment if it is proved, otherwise strong.
    constants : OuterConstants, optional
        Constants of the outer function. Default: computed or estimated.
    corrupted : array of ints, optional
        Positions of corrupted measurements, for the loss `L1` and matrix and CP maps. For other
        maps their effect on the constants is not known, and ``constants`` must be given.
    seed : int
        Random seed for estimated constants.

    Returns
    -------
    Prediction

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import lemmax as lm
    >>> x_true = jnp.array([2.0, 1.0, 0.0])
    >>> problem = lm.Composite(lm.losses.L2(), lm.maps.Square(3), x_true**2)
    >>> print(lm.theory.predict(problem, x_true))
    Theorem 4.1(1): from an error of at most 0.5, the error falls at least by the factor \
0.999511599 per step.
    """
    require_concrete((problem, truth), "predict")
    if configuration not in _CONFIGURATIONS:
        raise ValueError(
            f"configuration must be 'polyak', 'geometric' or 'constant'; got {configuration!r}."
        )
    check_corrupted(problem, corrupted)
    truth = as_parameters(problem.map, truth, "the truth")
    target = _value_at_truth(problem, truth, corrupted)
    if alignment is None:
        tensor = isinstance(problem.map, (SymmetricCP, CP))
        alignment = (strong_alignment if tensor else weak_alignment)(problem.map, truth)
    if alignment.radius is None:
        raise ValueError(alignment.unknown)
    if constants is None:
        constants = outer_constants(problem, corrupted=corrupted, seed=seed)
    elif constants.quadratic != problem.loss.quadratic:
        kinds = {True: "quadratic", False: "sharp"}
        raise ValueError(
            f"The constants are {kinds[constants.quadratic]}, but the loss "
            f"{type(problem.loss).__name__} is {kinds[problem.loss.quadratic]}."
        )
    parameters: dict[str, Any] = {"target": target}
    if configuration == "polyak":
        parameters |= polyak(constants, alignment, denominator)
        parameters["denominator"] = denominator
    elif alignment.local:
        raise ValueError(
            f"{alignment.theorem} is local, and local convergence is only proved for Polyak steps."
        )
    elif configuration == "geometric":
        if constants.quadratic:
            raise ValueError("Geometric steps need a sharp loss; use 'constant' or 'polyak'.")
        parameters |= geometric(constants, alignment)
    else:
        if not constants.quadratic:
            raise ValueError("Constant steps need a quadratic loss; use 'geometric'.")
        parameters |= constant(constants, alignment)
    theorem = _theorem(configuration, constants.quadratic, alignment)
    corollary = _corollary(problem) if configuration == "polyak" else None
    return Prediction(
        theorem=theorem if corollary is None else f"{theorem}, {corollary}",
        configuration=configuration,
        constants=constants,
        alignment=alignment,
        **parameters,
    )


def _value_at_truth(problem: Composite, truth: Parameters, corrupted: Any) -> float:
    found = at_truth(problem, truth)
    sound = np.ones(found.residual.size, bool)
    if corrupted is not None:
        sound[corrupted_positions(corrupted, sound.size)] = False
    if np.max(np.abs(found.residual)[sound], initial=0.0) > found.tolerance:
        raise ValueError(
            "The truth does not fit the data. The theory needs exact data, or the loss L1 with "
            "corrupted measurements: pass their positions as corrupted=..."
        )
    return found.value


def _theorem(configuration: str, quadratic: bool, alignment: Alignment) -> str:
    if alignment.local:
        names = {
            (False, False): "Theorem 4.7",
            (False, True): "Theorem B.12",
            (True, False): "Theorem B.13",
            (True, True): "Theorem B.14",
        }
        return names[quadratic, alignment.strong]
    number = (6 if alignment.strong else 5) if quadratic else (4 if alignment.strong else 1)
    return f"Theorem 4.{number}({1 if configuration == 'polyak' else 2})"


def _corollary(problem: Composite) -> str | None:
    """The corollary of Section 5 for this problem, if there is one."""
    map, loss = problem.map, problem.loss
    if isinstance(problem.operator, Identity):
        if not isinstance(loss, L2):
            return None
        tensors = {SymmetricCP: "Corollary 5.18", CP: "Corollary 5.19"}
        return tensors.get(type(map))
    names = {
        (Square, SquaredL2): "Corollary 5.3",
        (Square, L2): "Corollary 5.4",
        (PSD, SquaredL2): "Corollary 5.9",
        (LowRank, SquaredL2): "Corollary 5.10",
        (PSD, L1): "Corollary 5.14",
        (LowRank, L1): "Corollary 5.15",
    }
    return names.get((type(map), type(loss)))
