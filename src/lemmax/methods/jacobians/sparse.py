"""The Jacobian as a sparse matrix, by coloured derivatives, with SciPy's linear algebra."""

import warnings
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import scipy.sparse
import scipy.sparse.linalg
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool

from ..._programs import compiled
from ..._typing import Parameters, RealScalar
from ...problem import Composite
from ._base import AbstractJacobian, Linearised, Step, usable

# Added to the diagonal of the scaled normal equations (at most 1) so that they can be factored.
# Iterative refinement removes its effect along all directions that the data determine.
_RIDGE = 1e-13
# Pivots below this multiple of the ridge count as 0; number of random vectors for null spaces.
_VANISHED, _PROBES = 100.0, 4
# Refinements, and Newton steps for the damping with their relative accuracy.
_REFINEMENTS, _DAMPING_STEPS, _DAMPING_ERROR = 2, 8, 0.1


class Colouring:
    """Groups of Jacobian columns that share no row, computed by asdex."""

    def __init__(self, pattern: Any):
        self.pattern = pattern
        self.rows = np.asarray(pattern.sparsity.rows)
        self.columns = np.asarray(pattern.sparsity.cols)
        self.shape = tuple(pattern.sparsity.shape)
        self.colours = int(pattern.num_colors)

    @classmethod
    def of(cls, problem: Composite, x0: Parameters) -> "Colouring":
        """Detect the sparsity of the model's Jacobian and colour its columns."""
        try:
            import asdex
        except ImportError as error:
            raise ImportError(
                "Sparse Jacobians need asdex: pip install 'lemmax[sparse]'."
            ) from error
        observe, flat = _observe(problem, x0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", asdex.DenseColoringWarning)
            sparsity = asdex.jacobian_sparsity(observe, flat)
            # Colouring the rows, too, for comparison, takes minutes if parameters are shared.
            return cls(asdex.jacobian_coloring_from_sparsity(sparsity, mode="fwd"))

    def matrix(self, values: Any) -> scipy.sparse.csr_array:
        """The Jacobian with the given entries."""
        return scipy.sparse.csr_array((np.asarray(values), (self.rows, self.columns)), self.shape)


class SparseEntries(eqx.Module):
    """The entries of a Jacobian with their positions."""

    values: Array
    colouring: Colouring = eqx.field(static=True)


class Sparse(AbstractJacobian):
    """Detect which data depend on which parameters, and use a sparse matrix.

    Columns that share no row are differentiated together (colouring), so a Jacobian costs as many
    derivatives as there are colours. Steps are exact: the normal equations are factored, and the
    solution is refined iteratively. For models in which each datum depends on few parameters: many
    curves with some shared parameters, splines, local fields. Needs asdex
    (``pip install 'lemmax[sparse]'``).

    The loop runs in Python, so it does not work inside ``jit``, ``vmap`` or `lemmax.solve_many`.

    Parameters
    ----------
    colouring : Colouring, optional
        The colouring, if known from a previous run.

    Examples
    --------
    >>> import lemmax as lm
    >>> method = lm.methods.trust_region(jacobian=lm.jacobians.Sparse())
    """

    colouring: Colouring | None = eqx.field(static=True, default=None)

    @property
    def on_host(self) -> bool:
        """True: SciPy cannot be compiled."""
        return True

    @property
    def passes(self) -> int:
        """One: all colours together."""
        return 1

    def begin(self, problem: Composite, x0: Parameters, observations: int) -> SparseEntries:
        """Compute the colouring."""
        colouring = Colouring.of(problem, x0) if self.colouring is None else self.colouring
        return SparseEntries(jnp.zeros(len(colouring.rows), ravel_pytree(x0)[0].dtype), colouring)

    def linearise(
        self, at: Linearised, norms: Array, kept: SparseEntries, taken: Bool[Array, ""]
    ) -> tuple[SparseEntries, Array]:
        """Differentiate by colours."""
        if not taken:
            return kept, norms
        values = entries(at.problem, at.unravel(at.x), kept.colouring)
        weighted = np.asarray(at.root)[kept.colouring.rows] * np.asarray(values)
        squares = np.bincount(
            kept.colouring.columns, weighted**2, minlength=kept.colouring.shape[1]
        )
        return SparseEntries(values, kept.colouring), jnp.maximum(norms, jnp.sqrt(squares))

    def step(self, at: Linearised, norms: Array, kept: SparseEntries, radius: RealScalar) -> Step:
        """A damped step on the boundary of the trust region, or the full step if it is inside."""
        matrix = _scaled(at, norms, kept)
        vector = np.asarray(at.vector, np.float64)
        slope = matrix.T @ vector
        system = Normal(matrix)
        full = system.solve(slope, 0.0)
        z, damping = full, 0.0
        length, limit = float(np.linalg.norm(z)), float(radius)
        for _ in range(_DAMPING_STEPS):
            if not length > (1 + _DAMPING_ERROR) * limit:
                break
            # Newton's method on the reciprocal of the length, which is nearly linear (Hebden).
            bent = float(z @ system.solve(z, damping))
            damping += length**2 * (length - limit) / (bent * limit) if bent > 0 else np.inf
            z = system.solve(slope, damping)
            length = float(np.linalg.norm(z))
        image = matrix @ -z
        none, dtype = jnp.zeros((), jnp.int32), at.x.dtype
        return Step(
            change=jnp.asarray(-z, dtype) / usable(norms),
            length=jnp.asarray(length, dtype),
            limited=jnp.asarray(damping > 0),
            decrease=jnp.asarray(-image @ (vector + image / 2), dtype),
            part=jnp.asarray(np.linalg.norm(matrix @ full), dtype),
            damping=jnp.asarray(damping, dtype),
            iterations=none,
            passes=none,
        )

    def decrease(
        self, at: Linearised, norms: Array, kept: SparseEntries, change: Array
    ) -> RealScalar:
        """By one product."""
        image = _scaled(at, norms, kept) @ np.asarray(usable(norms) * change)
        return jnp.asarray(-image @ (np.asarray(at.vector) + image / 2), at.x.dtype)


class Normal:
    """Normal equations of a sparse matrix, factored for each damping."""

    def __init__(self, matrix: Any):
        self.matrix = matrix
        self.gram = (matrix.T @ matrix).tocsc()
        self.known: tuple[float, Any] | None = None

    def solve(self, right: np.ndarray, damping: float) -> np.ndarray:
        """``(A'A + damping)^-1 right``, for one vector or several columns."""
        factor = self._factor(damping)
        solution = factor.solve(right)
        for _ in range(_REFINEMENTS):
            left = right - self.matrix.T @ (self.matrix @ solution) - damping * solution
            solution = solution + factor.solve(left)
        return solution

    def undetermined(self, component: float) -> np.ndarray:
        """Columns with a component above ``component`` in some null vector."""
        factor = self._factor(0.0)
        if np.min(np.abs(factor.U.diagonal())) > _VANISHED * _RIDGE:
            return np.zeros(self.gram.shape[0], bool)
        # Solving amplifies null vectors. A few random right-hand sides reach all of them.
        random = np.random.default_rng(0).standard_normal((self.gram.shape[0], _PROBES))
        large = np.abs(factor.solve(random))
        return np.any(large > component * np.max(large, axis=0), axis=1)

    def _factor(self, damping: float) -> Any:
        if self.known is None or self.known[0] != damping:
            diagonal = self.gram.diagonal()
            ridge = np.where(diagonal > 0, damping + _RIDGE, 1.0)  # empty columns stay empty
            # A symmetric ordering without pivoting: the matrix is positive definite.
            self.known = (
                damping,
                scipy.sparse.linalg.splu(
                    (self.gram + scipy.sparse.diags_array(ridge, format="csc")).tocsc(),
                    permc_spec="MMD_AT_PLUS_A",
                    diag_pivot_thresh=0.0,
                    options={"SymmetricMode": True},
                ),
            )
        return self.known[1]


def _scaled(at: Linearised, norms: Array, kept: SparseEntries) -> scipy.sparse.csr_array:
    """The weighted, scaled Jacobian; parameters at a bound have empty columns."""
    scale = np.asarray(at.free / usable(norms), np.float64)
    where = kept.colouring
    root = np.asarray(at.root, np.float64)
    return where.matrix(root[where.rows] * np.asarray(kept.values) * scale[where.columns])


def _observe(problem: Composite, x: Parameters) -> tuple[Any, Array]:
    flat, unravel = ravel_pytree(x)

    def observe(u: Array) -> Array:
        return jnp.ravel(problem.operator.measure(problem.map(unravel(u))))

    return observe, flat


@compiled
def entries(problem: Composite, x: Parameters, colouring: Colouring) -> Array:
    """The entries of the measured Jacobian, in the order of the colouring."""
    import asdex

    observe, flat = _observe(problem, x)
    return asdex.jacobian_from_coloring(observe, colouring.pattern)(flat).data
