"""Measurements of symmetric points; each distinct entry is stored once."""

import itertools
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._checks import as_whole, check_positive
from .._dtype import aligned_empty, keeps_float64, precision_context, require_finite, to_device
from .._memory import require_memory
from ..covectors import AbstractCovector, DenseCovector
from ..points import AbstractPoint
from ._base import AbstractOperator
from ._rows import Fill, assembled, filled_rows, measured

# Rows are symmetrised in blocks, so that packing needs little extra memory.
_PACK_BYTES = 2**26


class SymmetricDense(AbstractOperator):
    """Inner products of symmetric matrices or tensors with m given arrays.

    Only the symmetric part of each array acts on a symmetric point, and only its distinct entries
    are stored: half of the memory for matrices, a sixth for order 3. Since an iteration takes as
    long as reading the array twice, it is faster than `Dense` by the same factor.

    Parameters
    ----------
    array : array of shape (m, d, d) or (m, d, d, d), ...
        The measurement arrays; they need not be symmetric.

    See Also
    --------
    SymmetricDense.from_packed : for arrays that are packed already.
    SymmetricDense.generate : for arrays that are too large to be copied.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import lemmax as lm
    >>> operator = lm.operators.SymmetricDense(jnp.ones((7, 10, 10)))
    >>> operator.packed.shape
    (7, 55)
    >>> x = jnp.ones((10, 1))
    >>> print(operator.measure(lm.points.KruskalPoint((x, x)))[0])
    100.0
    """

    packed: Float[Array, "m distinct"]
    dim: int = eqx.field(static=True)
    order: int = eqx.field(static=True)

    def __init__(self, array: Any):
        if not hasattr(array, "shape"):
            array = np.asarray(array)
        if len(array.shape) < 3 or len(set(array.shape[1:])) != 1 or 0 in array.shape:
            raise ValueError(
                "SymmetricDense needs an array of shape (m, d, d) or (m, d, d, d); got shape "
                f"{array.shape}. Use Dense for measurements that are not square."
            )
        self.dim, self.order = array.shape[1], len(array.shape) - 1
        self.packed = _pack(array, self.dim, self.order)
        require_finite(self.packed, "The measurement arrays")

    @classmethod
    def from_packed(cls, packed: Any, dim: int, order: int = 2) -> "SymmetricDense":
        """Build from the distinct entries of symmetric arrays.

        Parameters
        ----------
        packed : array of shape (m, n)
            Entries with non-decreasing indices, in lexicographic order (for matrices: the upper
            triangle row by row), ``n = binomial(dim + order - 1, order)``.
        dim : int
            Number of rows of the symmetric points.
        order : int
            2 for matrices, 3 for tensors of order 3, ...

        Returns
        -------
        SymmetricDense
        """
        packed = to_device(packed)
        distinct = math.comb(dim + order - 1, order)
        if packed.ndim != 2 or packed.shape[0] == 0 or packed.shape[1] != distinct:
            raise ValueError(
                f"A symmetric array of order {order} and dimension {dim} has {distinct} distinct "
                f"entries, so packed must have shape (m, {distinct}); got {packed.shape}."
            )
        require_finite(packed, "The measurement arrays")
        return assembled(cls, packed=packed, dim=dim, order=order)

    @classmethod
    def generate(
        cls, measurements: int, dim: int, fill: Fill, order: int = 2, dtype: Any = np.float64
    ) -> "SymmetricDense":
        """Generate the distinct entries in place; see `Dense.generate`.

        Parameters
        ----------
        measurements : int
            Number of symmetric arrays.
        dim, order : int
            As for `from_packed`.
        fill : callable
            Called with consecutive blocks, NumPy arrays of shape ``(k, n)`` with columns as for
            `from_packed`, and writes every entry. It must not keep a reference.
        dtype : float64 or float32
            Precision of the arrays.

        Returns
        -------
        SymmetricDense

        Raises
        ------
        MemoryError
            If the arrays do not fit in memory; raised before anything is allocated.

        Examples
        --------
        >>> import numpy as np
        >>> import lemmax as lm
        >>> rng = np.random.default_rng(0)
        >>> operator = lm.operators.SymmetricDense.generate(
        ...     100, 4, lambda rows: rng.standard_normal(out=rows), order=3)
        >>> operator.packed.shape
        (100, 20)
        """
        check_positive(dim=dim, order=order)
        distinct = math.comb(dim + order - 1, order)
        packed = filled_rows(measurements, (distinct,), fill, dtype)
        return cls.from_packed(packed, as_whole(dim), as_whole(order))

    @property
    def point_shape(self) -> tuple[int, ...]:
        """``(dim,) * order``."""
        return (self.dim,) * self.order

    @property
    def observation_shape(self) -> tuple[int, ...]:
        """The number of measurements, as a shape."""
        return (self.packed.shape[0],)

    @property
    def needs_symmetry(self) -> bool:
        """Always true: only one triangle is stored."""
        return True

    @keeps_float64
    def measure(self, point: AbstractPoint) -> Array:
        """Inner product of every measurement array with a symmetric point."""
        dense = jnp.ravel(point.dense())
        distinct, multiplicity = distinct_entries(self.dim, self.order)
        weighted = dense[distinct] * jnp.asarray(multiplicity, dense.dtype)
        return measured(self.packed, weighted)

    @keeps_float64
    def adjoint(self, observations: Array) -> AbstractCovector:
        """Sum of the symmetric parts of the measurement arrays, weighted by the observations."""
        entries = (observations @ self.packed)[_positions(self.dim, self.order)]
        return DenseCovector(entries.reshape(self.point_shape), symmetric=True)


def distinct_entries(dim: int, order: int) -> tuple[np.ndarray, np.ndarray]:
    """Flat positions of the entries with non-decreasing indices, and their multiplicities."""
    indices = _sorted_indices(dim, order)
    flat = np.ravel_multi_index(tuple(indices.T), (dim,) * order)
    return np.asarray(flat, np.int32), _multiplicities(indices)


def _sorted_indices(dim: int, order: int) -> np.ndarray:
    grid = np.indices((dim,) * order).reshape(order, -1).T
    return grid[np.all(np.diff(grid, axis=1) >= 0, axis=1)]


def _multiplicities(indices: np.ndarray) -> np.ndarray:
    """Number of distinct permutations of each row: order! / (product of the runs' factorials)."""
    run = np.ones(len(indices), dtype=int)
    repeats = np.ones(len(indices), dtype=int)
    for k in range(1, indices.shape[1]):
        run = np.where(indices[:, k] == indices[:, k - 1], run + 1, 1)
        repeats *= run
    return math.factorial(indices.shape[1]) // repeats


def _positions(dim: int, order: int) -> np.ndarray:
    """For every entry of the full array, its position among the distinct entries."""
    flat, _ = distinct_entries(dim, order)
    rank = np.zeros(dim**order, dtype=np.int32)
    rank[flat] = np.arange(len(flat), dtype=np.int32)
    sorted_grid = np.sort(np.indices((dim,) * order).reshape(order, -1), axis=0)
    return rank[np.ravel_multi_index(tuple(sorted_grid), (dim,) * order)]


def _float_type(array: np.ndarray) -> Any:
    return np.float32 if array.dtype.kind == "f" and array.dtype.itemsize <= 4 else np.float64


def _pack(array: Any, dim: int, order: int) -> Any:
    indices = _sorted_indices(dim, order)
    permuted = [
        np.ravel_multi_index(tuple(indices[:, p].T), (dim,) * order)
        for p in itertools.permutations(range(order))
    ]

    def symmetrise(rows):
        rows = rows.reshape(rows.shape[0], -1)
        return sum(rows[:, columns] for columns in permuted) / len(permuted)

    if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiub":
        return symmetrise(to_device(array))
    rows_at_a_time = max(1, _PACK_BYTES // (dim**order * array.itemsize))
    chunks = range(0, len(array), rows_at_a_time)
    shape, itemsize = (len(array), len(indices)), np.dtype(_float_type(array)).itemsize
    require_memory(shape, itemsize, "The packed array", "{rows} measurements would fit.")
    packed = aligned_empty((len(array), len(indices)), _float_type(array))
    for start in chunks:
        stop = start + rows_at_a_time
        packed[start:stop] = symmetrise(array[start:stop])
    with precision_context(packed):
        return jax.device_put(packed)  # no copy on a CPU
