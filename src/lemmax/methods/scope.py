"""What a method is for; a problem outside of that is refused with a sentence."""

from typing import NamedTuple

from ..maps import AbstractMap
from ..problem import Composite


class Scope(NamedTuple):
    """The problems a method's theory covers.

    A problem outside is refused, because such a run says nothing about the method.
    """

    name: str = "This method"
    maps: tuple[type[AbstractMap], ...] = ()
    """The maps it is for; empty for any."""
    quadratic_only: bool = False
    """Whether the loss has to grow like a square, as `SquaredL2` and `Huber` do."""
    instead: str = "lmm"
    """What would work."""

    def check(self, problem: Composite) -> None:
        """Raise a sentence if the problem is outside."""
        if self.maps and not isinstance(problem.map, self.maps):
            allowed = " or ".join(kind.__name__ for kind in self.maps)
            raise ValueError(
                f"{self.name} is for maps of type {allowed}, but this problem's map is "
                f"{type(problem.map).__name__}. Use {self.instead}."
            )
        if self.quadratic_only and not problem.loss.quadratic:
            raise ValueError(
                f"{self.name} is for smooth losses such as SquaredL2, but this problem's loss is "
                f"{type(problem.loss).__name__}. Use {self.instead}."
            )
