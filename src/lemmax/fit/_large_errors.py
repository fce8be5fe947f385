"""Standard errors of many parameters, without the dense Jacobian."""

import abc
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._programs import compiled
from ..maps._core import conjugate_gradients
from ..methods.jacobians import Sparse
from ..methods.jacobians.sparse import Normal, entries
from . import _constants as constants
from ._large_problem import LargeProblem


class Information(abc.ABC):
    """J'J of the inliers at the solution, in scaled parameters.

    Parameters
    ----------
    problem : LargeProblem
    x : array of shape (p,)
    keep : array of bool, of shape (data,)
    held : array of bool, of shape (p,)
        Parameters at bounds.
    """

    def __init__(self, problem: LargeProblem, x: np.ndarray, keep: np.ndarray, held: np.ndarray):
        self.problem, self.x, self.keep, self.held = problem, x, keep, held
        self.norms = self._norms()
        self.blind = ~held & (self.norms == 0)
        """Parameters that no inlier depends on."""
        used = (self.norms > 0) & ~held
        self.inverse = np.where(used, 1 / np.where(used, self.norms, 1), 0)
        self.unseen = self.blind.copy()
        self.checked = True
        """Whether it is known which parameters the data do not determine."""

    @abc.abstractmethod
    def _norms(self) -> np.ndarray:
        """Of columns."""

    @abc.abstractmethod
    def slope(self, residual: np.ndarray) -> np.ndarray:
        """``J'r`` on the inliers, in scaled parameters."""

    @abc.abstractmethod
    def solve(self, right: np.ndarray) -> np.ndarray:
        """``(J'J)^+ right`` in scaled parameters; NaN if that failed."""

    @abc.abstractmethod
    def covariance(self) -> np.ndarray | None:
        """``(J'J)^+`` of the parameters, and which of them are unseen; None if there are too many.

        Infinite variances where the data do not determine a parameter.
        """

    def offset(self, residual: np.ndarray) -> float:
        """Cosine between the residual and what the parameters can change of it."""
        slope, size = self.slope(residual), float(np.linalg.norm(residual[self.keep]))
        return float(np.sqrt(max(slope @ self.solve(slope), 0.0)) / size) if size > 0 else 0.0

    def variance(self, direction: np.ndarray) -> float:
        """Of a combination of the parameters, in units of the noise."""
        if np.any((self.unseen | self.held) & (direction != 0)):
            return float("inf") if np.any(self.unseen & (direction != 0)) else float("nan")
        scaled = direction * self.inverse
        return float(scaled @ self.solve(scaled))

    def _marked(self, covariance: np.ndarray) -> np.ndarray:
        covariance[self.unseen] = covariance[:, self.unseen] = 0
        covariance[self.unseen, self.unseen] = np.inf
        return covariance


class ByProducts(Information):
    """By products with the Jacobian: conjugate gradients, or J'J block by block."""

    def _norms(self) -> np.ndarray:
        problem = self.problem
        self.model, self.u = problem.map.function, jnp.asarray(self.x)
        self.root = jnp.asarray(self.keep.astype(float))
        squares = _random_squares(self.model, self.u, self.root)
        return np.sqrt(np.asarray(squares))

    def slope(self, residual: np.ndarray) -> np.ndarray:
        """By one product."""
        kept = self.root * jnp.asarray(np.where(self.keep, residual, 0))
        return np.asarray(_backward(self.model, self.u, kept)) * self.inverse

    def solve(self, right: np.ndarray) -> np.ndarray:
        """By conjugate gradients."""
        solution, failed = _solve(
            self.model, self.u, self.root, jnp.asarray(self.inverse), jnp.asarray(right)
        )
        return np.full(right.shape, np.nan) if failed else np.asarray(solution)

    def offset(self, residual: np.ndarray) -> float:
        """As for any, but iterations that end early give a bound from below that is good enough."""
        slope, size = self.slope(residual), float(np.linalg.norm(residual[self.keep]))
        solution, _ = _solve(
            self.model, self.u, self.root, jnp.asarray(self.inverse), jnp.asarray(slope)
        )
        part = float(np.sqrt(max(slope @ np.asarray(solution), 0.0)))
        return part / size if size > 0 else 0.0

    def covariance(self) -> np.ndarray | None:
        """From the eigenvalues of J'J."""
        p = len(self.x)
        if p > constants.MOST:
            self.checked = False
            return None
        each = int(max(1, min(64, constants.TOGETHER // len(self.keep))))
        gram, scale = np.empty((p, p)), jnp.asarray(self.inverse)
        for first in range(0, p, each):
            unit = np.zeros((each, p))
            rows = np.arange(first, min(first + each, p))
            unit[np.arange(len(rows)), rows] = 1
            block = _gram(self.model, self.u, self.root, scale, jnp.asarray(unit))
            gram[rows] = np.asarray(block)[: len(rows)]
        # The norms were estimates: with the true ones the diagonal is 1.
        size = np.sqrt(np.maximum(np.diag(gram), 0))
        self.inverse = np.where(size > 0, self.inverse / np.where(size > 0, size, 1), 0)
        used = self.inverse > 0
        size = np.where(used, size, 1)
        values, vectors = np.linalg.eigh((gram + gram.T) / 2 / np.outer(size, size))
        clear = values > constants.UNSEEN_SQUARED * np.max(values, initial=0.0) * p
        hidden = np.sum(vectors[:, ~clear] ** 2, axis=1)
        self.unseen = self.blind | (used & (hidden > constants.NEGLIGIBLE**2))
        half = vectors[:, clear] / np.sqrt(values[clear])
        return self._marked((half @ half.T) * np.outer(self.inverse, self.inverse))


class BySparse(Information):
    """By a factor of the sparse J'J."""

    def _norms(self) -> np.ndarray:
        problem = self.problem
        assert isinstance(problem.jacobian, Sparse)
        colouring = problem.jacobian.colouring
        assert colouring is not None
        every = problem.problem(np.ones(len(self.keep)), 2.0, 1.0)
        values = entries(every, jnp.asarray(self.x), colouring)
        self.matrix = colouring.matrix(np.where(self.keep[colouring.rows], values, 0))
        return np.sqrt(np.asarray(self.matrix.power(2).sum(axis=0)).ravel())

    @property
    def normal(self) -> Normal:
        """Factored at first use."""
        if not hasattr(self, "_normal"):
            self._normal = Normal((self.matrix * self.inverse[None, :]).tocsr())
        return self._normal

    def slope(self, residual: np.ndarray) -> np.ndarray:
        """By one product."""
        return (self.matrix.T @ np.where(self.keep, residual, 0)) * self.inverse

    def solve(self, right: np.ndarray) -> np.ndarray:
        """By the factor."""
        return self.normal.solve(right, 0.0)

    def covariance(self) -> np.ndarray | None:
        """Column by column; directions that the data do not see show in the pivots."""
        used = self.inverse > 0
        self.unseen = self.blind | (used & self.normal.undetermined(constants.NEGLIGIBLE))
        p = len(self.x)
        if p > constants.MOST:
            return None
        inverse = np.zeros((p, p))
        some = np.flatnonzero(used & ~self.unseen)
        for first in range(0, len(some), 256):
            columns = some[first : first + 256]
            unit = np.zeros((p, len(columns)))
            unit[columns, np.arange(len(columns))] = self.inverse[columns]
            inverse[:, columns] = self.normal.solve(unit, 0.0) * self.inverse[:, None]
        return self._marked((inverse + inverse.T) / 2)


@compiled
def _backward(model: Any, u: Array, w: Array) -> Array:
    return jax.vjp(model, u)[1](w)[0]


@compiled
def _random_squares(model: Any, u: Array, root: Array, probes: int = 8) -> Array:
    """Mean squares of the transpose times random signs: those of columns, on average."""
    pull = jax.vjp(model, u)[1]

    def squares(key: Array) -> Array:
        return pull(root * jax.random.rademacher(key, root.shape, root.dtype))[0] ** 2

    return jnp.mean(jax.lax.map(squares, jax.random.split(jax.random.key(1), probes)), axis=0)


def _gram_action(model: Any, u: Array, root: Array, scale: Array) -> Any:
    _, push = jax.linearize(model, u)
    pull = jax.linear_transpose(push, u)
    return lambda z: scale * pull(root**2 * push(scale * z))[0]


@compiled
def _gram(model: Any, u: Array, root: Array, scale: Array, unit: Array) -> Array:
    return jax.vmap(_gram_action(model, u, root, scale))(unit)


@compiled
def _solve(model: Any, u: Array, root: Array, scale: Array, right: Array) -> tuple[Array, Array]:
    ended = conjugate_gradients(
        _gram_action(model, u, root, scale), 0.0, right, None, constants.CG_TOL, constants.CG_STEPS
    )
    return ended.solution, ended.failed
