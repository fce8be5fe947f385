"""The problems that a method accepts; others are refused with an explanation."""

from typing import Literal, NamedTuple

from ..maps import PSD, AbstractMap, LowRank
from ..problem import Composite


class Scope(NamedTuple):
    """The maps and losses that a method's theory covers.

    Other problems are refused, because a run there says nothing about the method. Whether the
    rank is over-estimated cannot be checked, since the rank of the truth is unknown.
    """

    name: str = "This method"
    maps: tuple[type[AbstractMap], ...] = ()
    """The accepted maps; empty for any map."""
    losses: Literal["any", "smooth", "sharp", "reweightable"] = "any"
    """Accepted losses. Smooth: quadratic near 0, as `SquaredL2` and `Huber`. Sharp: the others.
    Reweightable: with a `weight`, which the smooth ones and `L2` have."""

    def refusal(self, problem: Composite) -> str | None:
        """The reason why the problem is not accepted; None if it is."""
        if self.maps and not isinstance(problem.map, self.maps):
            allowed = " or ".join(kind.__name__ for kind in self.maps)
            return (
                f"{self.name} needs a map of type {allowed}, but this problem's map is "
                f"{type(problem.map).__name__}."
            )
        actual = {"any", "smooth" if problem.loss.quadratic else "sharp"}
        if problem.loss.reweightable:
            actual.add("reweightable")
        if self.losses not in actual:
            example = "L1" if self.losses == "sharp" else "SquaredL2"
            return (
                f"{self.name} needs a {self.losses} loss such as {example}, but this problem's "
                f"loss is {type(problem.loss).__name__}."
            )
        return None

    def check(self, problem: Composite) -> None:
        """Raise an error if the problem is not accepted; it names methods that accept it."""
        why = self.refusal(problem)
        if why is not None:
            *others, last = _accepting(problem)
            use = f"{', '.join(others)} or {last}" if others else last
            raise ValueError(f"{why} Use {use}.")


SCOPES = {
    "scaled_gd": Scope("ScaledGD", (PSD, LowRank), "smooth"),
    "scaled_gd_damped": Scope("ScaledGD(λ)", (PSD, LowRank), "smooth"),
    "prec_gd": Scope("PrecGD", (PSD,), "smooth"),
    "prec_gd_asymmetric": Scope("Asymmetric PrecGD", (LowRank,), "smooth"),
    "scaled_subgradient": Scope("ScaledSM", (PSD, LowRank)),
    "opsa": Scope("OPSA", (LowRank,)),
    "approximate_gauss_newton": Scope("Approximated Gauss-Newton", (LowRank,), "smooth"),
    "apgd": Scope("APGD", (LowRank,), "smooth"),
    "super_polyak": Scope("SuperPolyak", losses="sharp"),
    "prox_linear": Scope("Prox-linear"),
    "trust_region": Scope("The trust region", losses="reweightable"),
    "gauss_newton": Scope("Gauss-Newton"),
    "subgradient": Scope("Subgradient method"),
    "lmm": Scope("LMM"),
}
"""The scope of every method, by the name of its function."""


def _accepting(problem: Composite) -> list[str]:
    """Methods that are meant for such a problem, and LMM, which accepts any."""
    return [
        name
        for name, scope in SCOPES.items()
        if (scope.maps or name == "lmm") and scope.refusal(problem) is None
    ]
