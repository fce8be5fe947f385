"""Preconditioners: what the subgradient is multiplied by."""

import abc

import equinox as eqx

from .._tree import tree_dot
from .._typing import RealScalar
from ..maps import Preconditioned, Projections, closed_form
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
