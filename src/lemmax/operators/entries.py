"""Observed entries of a matrix or tensor, for completion problems."""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from .._checks import as_whole, check_positive
from .._dtype import keeps_float64
from .._tree import is_traced
from .._typing import AnyArray
from ..covectors import AbstractCovector, DenseCovector, SparseCovector
from ..covectors.sparse import Tiling
from ..points import AbstractPoint, KruskalPoint
from ._base import AbstractOperator

# The share of observed entries above which a dense adjoint is faster. For tensors, all combinations
# of columns are needed, so the threshold is lower.
_CROWDED_MATRIX, _CROWDED_TENSOR = 1 / 5, 1 / 20

# Form the point if the number of gathers (observations times columns) exceeds this multiple of
# the number of entries.
_FORM_THE_POINT = 4

# Number of columns whose gathers are unrolled in one pass; more would compile slowly.
_COLUMNS_IN_A_PASS = 8


class Entries(AbstractOperator):
    """Observe given entries of a matrix or tensor.

    Factored points are not formed. The adjoint is sparse; its entries are sorted by every mode
    once, when the operator is created. If at least a fifth of the entries of a matrix (a
    twentieth for a tensor) are observed, the adjoint is dense instead, which is then faster. The
    point is formed, too, if its rank times the share of observed entries is 4 or more.

    Parameters
    ----------
    indices : tuple or list of integer arrays of shape (m,), or array of shape (m, order)
        Positions of the observed entries: one array per mode (as ``numpy.nonzero`` returns
        them), or one row per entry. In any order; an entry may be observed more than once.
    shape : sequence of int
        Shape of the matrix or tensor.

    See Also
    --------
    Entries.from_mask : for a boolean mask of observed entries.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import lemmax as lm
    >>> operator = lm.operators.Entries(([0, 2, 1], [1, 0, 1]), shape=(3, 2))
    >>> x, y = jnp.array([[1.0], [2.0], [3.0]]), jnp.array([[1.0], [10.0]])
    >>> point = lm.points.KruskalPoint((x, y))
    >>> print(operator.measure(point))
    [10.  3. 20.]
    """

    indices: tuple[Int[Array, " m"], ...]
    tilings: tuple[Tiling, ...] | None
    """The entries sorted by each mode; None if the adjoint is dense."""
    shape: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, indices: Any, shape: Any):
        self.shape = _checked_shape(shape)
        on_host = _checked_indices(indices, self.shape)
        self.indices = tuple(jnp.asarray(index) for index in on_host)
        crowded = _CROWDED_MATRIX if len(self.shape) == 2 else _CROWDED_TENSOR
        if len(on_host[0]) >= crowded * math.prod(self.shape):
            self.tilings = None
        else:
            self.tilings = tuple(Tiling.of(on_host, k, d) for k, d in enumerate(self.shape))

    @classmethod
    def from_mask(cls, mask: Any) -> "Entries":
        """Observe the entries where a mask is True.

        Parameters
        ----------
        mask : array of bool
            A mask with the shape of the matrix or tensor. The observations are in the order of
            ``array[mask]``.

        Returns
        -------
        Entries

        Examples
        --------
        >>> import numpy as np
        >>> import lemmax as lm
        >>> table = np.array([[1.0, np.nan], [3.0, 4.0]])
        >>> mask = ~np.isnan(table)
        >>> operator, data = lm.operators.Entries.from_mask(mask), table[mask]
        >>> operator.observation_shape, data.shape
        ((3,), (3,))
        """
        _refuse_traced(mask)
        mask = np.asarray(mask)
        if mask.dtype != bool:
            raise TypeError(f"A mask must be boolean; got an array of {mask.dtype}.")
        return cls(np.nonzero(mask), mask.shape)

    @property
    def point_shape(self) -> tuple[int, ...]:
        """Shape of the matrix or tensor."""
        return self.shape

    @property
    def observation_shape(self) -> tuple[int, ...]:
        """The number of observed entries, as a shape."""
        return self.indices[0].shape

    @property
    def entrywise(self) -> bool:
        """Always true."""
        return True

    def places(self, chosen: np.ndarray) -> tuple[np.ndarray, ...]:
        """The indices of the selected entries."""
        return tuple(np.asarray(index)[chosen] for index in self.indices)

    @keeps_float64
    def measure(self, point: AbstractPoint) -> Array:
        """The observed entries, in the order of the indices."""
        if isinstance(point, KruskalPoint) and not self._forms(point):
            return _entries_of(tuple(jnp.asarray(f) for f in point.factors), self.indices)
        return jnp.asarray(point.dense()).at[self.indices].get(mode="promise_in_bounds")

    @keeps_float64
    def adjoint(self, observations: Float[AnyArray, " m"]) -> AbstractCovector:
        """The observations at their positions, zero elsewhere."""
        if self.tilings is not None:
            return SparseCovector.of(observations, self.tilings, self.shape)
        nothing = jnp.zeros(self.shape, observations.dtype)
        return DenseCovector(nothing.at[self.indices].add(observations, mode="promise_in_bounds"))

    def _forms(self, point: KruskalPoint) -> bool:
        gathers = self.indices[0].size * point.factors[0].shape[1]
        return self.tilings is None and gathers >= _FORM_THE_POINT * math.prod(self.shape)


def _entries_of(factors: tuple[Array, ...], indices: tuple[Array, ...]) -> Array:
    """Entries of a factored point, by gathers from one column at a time.

    Gathering whole rows, an (m, r) array for every mode, takes up to 20 times as long on a CPU.
    """

    def add(total: Array, columns: tuple[Array, ...]) -> tuple[Array, None]:
        for each in range(columns[0].shape[0]):
            gathered = [
                column[each].at[index].get(mode="promise_in_bounds")
                for column, index in zip(columns, indices, strict=True)
            ]
            total = total + math.prod(gathered[1:], start=gathered[0])
        return total, None

    rank = factors[0].shape[1]
    # At least two passes: a single pass would not be a loop, and XLA would fuse the gathers with
    # whatever follows. Fused with a sum, such as the value of a loss, they take 8 times as long.
    passes = max(2, -(-rank // _COLUMNS_IN_A_PASS))
    at_a_time = -(-rank // passes)
    padding = ((0, passes * at_a_time - rank), (0, 0))
    columns = tuple(
        jnp.pad(factor.T, padding).reshape(passes, at_a_time, factor.shape[0]) for factor in factors
    )
    nothing = jnp.zeros(indices[0].shape, factors[0].dtype)
    return jax.lax.scan(add, nothing, columns)[0]


def _refuse_traced(array: Any) -> None:
    if is_traced(array):
        raise TypeError(
            "Entries sorts its indices when it is created, so they must be concrete: create it "
            "outside of jit and vmap, and pass it in."
        )


def _checked_shape(shape: Any) -> tuple[int, ...]:
    if not hasattr(shape, "__len__") or len(shape) < 2:
        raise ValueError(
            f"Entries needs the shape of a matrix or tensor, with two or more modes; got {shape!r}."
        )
    check_positive(**{f"dimension {k}": d for k, d in enumerate(shape)})
    return tuple(as_whole(d) for d in shape)


def _checked_indices(indices: Any, shape: tuple[int, ...]) -> tuple[np.ndarray, ...]:
    """One int32 array per mode, on the host."""
    _refuse_traced(indices)
    if not isinstance(indices, (tuple, list)):
        rows = np.asarray(indices)
        if rows.ndim != 2 or rows.shape[1] != len(shape):
            raise ValueError(
                f"Entries of an array with {len(shape)} modes need indices of shape "
                f"(m, {len(shape)}), or a tuple of {len(shape)} arrays; got shape {rows.shape}."
            )
        indices = tuple(rows.T)
    modes = [np.asarray(index) for index in indices]
    if len(modes) != len(shape):
        raise ValueError(
            f"Entries needs one array of indices for each of {len(shape)} modes; got {len(modes)}."
        )
    if any(index.ndim != 1 for index in modes) or len({len(index) for index in modes}) != 1:
        raise ValueError(
            "Entries needs index arrays of equal length, one index per entry; got shapes "
            f"{[index.shape for index in modes]}."
        )
    if len(modes[0]) == 0:
        raise ValueError("Entries needs at least one observed entry; the indices are empty.")
    for k, (index, length) in enumerate(zip(modes, shape, strict=True)):
        if index.dtype.kind not in "iu":
            raise TypeError(f"Indices must be integers; those of mode {k} are {index.dtype}.")
        if index.min() < 0 or index.max() >= length:
            raise ValueError(
                f"Mode {k} has length {length}, so its indices go from 0 to {length - 1}; got "
                f"indices from {index.min()} to {index.max()}."
            )
    return tuple(index.astype(np.int32) for index in modes)
