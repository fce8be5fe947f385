"""Preconditioners, applied to the subgradient."""

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
    """Computes a direction from an evaluation."""

    @abc.abstractmethod
    def apply(
        self, problem: Composite, evaluation: Evaluation, damping: RealScalar
    ) -> Preconditioned:
        """The direction, with the norms that step rules use."""


class Damped(AbstractPreconditioner):
    """``(J'J + damping)^-1``: Levenberg-Morrison-Marquardt, or Gauss-Newton at damping 0."""

    def apply(
        self, problem: Composite, evaluation: Evaluation, damping: RealScalar
    ) -> Preconditioned:
        """Use the map's closed form."""
        return problem.map.precondition(evaluation.x, damping, evaluation.covector)


class TruncatedCG(AbstractPreconditioner):
    """``(J'J + damping)^-1`` by a fixed number of conjugate-gradient iterations from zero.

    This is the solver of the appendix of Díaz, Jiang and Labassi, on the map's `gram`. The
    direction minimises ``<d, (J'J + damping) d> / 2 - <g, d>`` over the Krylov space of the
    subgradient g. One iteration gives a multiple of g: with Polyak steps, LMM then is the
    subgradient method. `Damped`, the default of `lemmax.methods.lmm`, is exact, and takes about as
    long as ten iterations if the map has a closed form.

    Parameters
    ----------
    iterations : int
        Maximum number of iterations per step. It stops earlier if the residual is at rounding
        level.

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
        """Iterate. ``projections.range`` is the map's own and costs nothing if unused."""
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
        # A large residual is expected here, and no failure.
        failed = ~tree_all_finite(direction)
        return Preconditioned(direction, projections, answer.iterations, failed)


class DampedBlocks(AbstractPreconditioner):
    """``(B + damping)^-1`` with the block diagonal B of J'J: the scaled gradient methods.

    It is slightly cheaper than `Damped`, and neglects the interaction of the factors.
    """

    def apply(
        self, problem: Composite, evaluation: Evaluation, damping: RealScalar
    ) -> Preconditioned:
        """Use the map's closed form."""
        return problem.map.precondition_blocks(evaluation.x, damping, evaluation.covector)


class Unpreconditioned(AbstractPreconditioner):
    """The identity: the subgradient method."""

    def apply(
        self, problem: Composite, evaluation: Evaluation, damping: RealScalar
    ) -> Preconditioned:
        """The subgradient; all projection norms are its squared norm."""
        square = tree_dot(evaluation.gradient, evaluation.gradient)
        return closed_form(evaluation.gradient, Projections(square, square, square))
