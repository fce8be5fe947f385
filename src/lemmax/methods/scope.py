"""What a method is for; a problem outside of that is refused with a sentence."""

from typing import Literal, NamedTuple

from ..maps import PSD, AbstractMap, LowRank
from ..problem import Composite


class Scope(NamedTuple):
    """The maps and losses a method's theory covers.

    A problem outside is refused, because such a run says nothing about the method. Whether the
    rank is over-estimated cannot be checked: nobody knows the rank of the truth.
    """

    name: str = "This method"
    maps: tuple[type[AbstractMap], ...] = ()
    """The maps it is for; empty for any."""
    losses: Literal["any", "smooth", "sharp", "reweightable"] = "any"
    """Smooth ones grow like a square, as `SquaredL2` and `Huber` do; sharp ones do not. Smooth ones
    and `L2` are reweightable: they have `weight`."""

    def refusal(self, problem: Composite) -> str | None:
        """Why the problem is outside; None if it is not."""
        if self.maps and not isinstance(problem.map, self.maps):
            allowed = " or ".join(kind.__name__ for kind in self.maps)
            return (
                f"{self.name} is for maps of type {allowed}, but this problem's map is "
                f"{type(problem.map).__name__}."
            )
        actual = {"any", "smooth" if problem.loss.quadratic else "sharp"}
        if problem.loss.reweightable:
            actual.add("reweightable")
        if self.losses not in actual:
            example = "L1" if self.losses == "sharp" else "SquaredL2"
            return (
                f"{self.name} is for {self.losses} losses such as {example}, but this problem's "
                f"loss is {type(problem.loss).__name__}."
            )
        return None

    def check(self, problem: Composite) -> None:
        """Raise a sentence if the problem is outside, which names methods that accept it."""
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
"""Of every method, by the name of the function that makes it."""


def _accepting(problem: Composite) -> list[str]:
    """Methods made for such a problem, and LMM, which accepts any."""
    return [
        name
        for name, scope in SCOPES.items()
        if (scope.maps or name == "lmm") and scope.refusal(problem) is None
    ]
