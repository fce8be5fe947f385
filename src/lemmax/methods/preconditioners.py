"""Preconditioners: what the subgradient is multiplied by."""

import abc

import equinox as eqx
from jaxtyping import Array, Int

from .._checks import check_positive
from .._tree import is_traced, tree_all_finite, tree_dot
from .._typing import RealScalar
from ..maps import Preconditioned, Projections, closed_form
from ..maps._core import conjugate_gradients
from ..problem import Composite, Evaluation


class AbstractPreconditioner(eqx.Module):
    """Turns an evaluation into a direction."""

    @abc.abstractmethod
    def apply(
        self, problem: Composite, evaluation: Evaluation, damping: RealScalar
    ) -> Preconditioned:
        """The direction, with the norms a step rule may want."""


class Damped(AbstractPreconditioner):
    """``(J'J + damping)^-1``: Levenberg-Morrison-Marquardt, or Gauss-Newton at damping 0."""

    def apply(
        self, problem: Composite, evaluation: Evaluation, damping: RealScalar
    ) -> Preconditioned:
        """Ask the map, which knows the closed form."""
        return problem.map.precondition(evaluation.x, damping, evaluation.covector)


class TruncatedCG(AbstractPreconditioner):
    """``(J'J + damping)^-1`` by a number of conjugate-gradient iterations from zero.

    This is the solver of the appendix of Díaz, Jiang and Labassi, on the map's `gram`. The
    direction minimises ``<d, (J'J + damping) d> / 2 - <g, d>`` over the Krylov space of the
    subgradient g. One iteration is a multiple of g: with Polyak steps, LMM is then the subgradient
    method. `Damped`, the default of `lemmax.methods.lmm`, is exact, and takes about as long as ten
    iterations where the map has a closed form.

    Parameters
    ----------
    iterations : int
        Most iterations in a step. Fewer are taken once the residual is at rounding errors.

    Examples
    --------
    >>> import lemmax as lm
    >>> inexact = lm.methods.preconditioners.TruncatedCG(iterations=10)
    >>> method = lm.methods.lmm(preconditioner=inexact)
    """

    iterations: int | Int[Array, ""] = 10

    def __check_init__(self):
        if not is_traced(self.iterations):
            check_positive(iterations=self.iterations)

    def apply(
        self, problem: Composite, evaluation: Evaluation, damping: RealScalar
    ) -> Preconditioned:
        """Iterate; ``projections.range`` is the map's own, and costs nothing if not used."""
        x, gradient = evaluation.x, evaluation.gradient

        def gram(change):
            return problem.map.gram(x, change)

        answer = conjugate_gradients(gram, damping, gradient, None, 0.0, self.iterations)
        direction = answer.solution
        exact = problem.map.precondition(x, damping, evaluation.covector)
        projections = Projections(
            range=exact.projections.range,
            damped=tree_dot(gradient, direction),
            projected=tree_dot(direction, gram(direction)),
        )
        # A large residual is what was asked for, not a failure.
        failed = ~tree_all_finite(direction)
        return Preconditioned(direction, projections, answer.iterations, failed)


class DampedBlocks(AbstractPreconditioner):
    """``(B + damping)^-1``, B the block diagonal of J'J: the scaled gradient methods.

    It is cheaper than `Damped` by a little, and treats the factors as if they did not interact.
    """

    def apply(
        self, problem: Composite, evaluation: Evaluation, damping: RealScalar
    ) -> Preconditioned:
        """Ask the map."""
        return problem.map.precondition_blocks(evaluation.x, damping, evaluation.covector)


class Unpreconditioned(AbstractPreconditioner):
    """The identity: the plain subgradient method."""

    def apply(
        self, problem: Composite, evaluation: Evaluation, damping: RealScalar
    ) -> Preconditioned:
        """The subgradient itself; all denominators are its squared norm."""
        square = tree_dot(evaluation.gradient, evaluation.gradient)
        return closed_form(evaluation.gradient, Projections(square, square, square))
