"""The known cells of a table: a dense array with holes, or a list of entries.

The sweeps of the model are written against the few operations here, so that one source serves both.
An array "at the cells" has the shape of the table if that is dense (and is ignored at holes), or
one number for each entry of a list.
"""

import abc
import copy
import functools
import itertools
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
from scipy import sparse

from . import _constants as constants

# NumPy and SciPy release the lock of the interpreter, so that two threads take half the time; to
# start them pays from about so many products of two numbers. (200,000 entries took .8 s; 1.4 s with
# threads for all sums, on a machine with other work.)
_THREADS = min(constants.BLOCKS, os.cpu_count() or 1)

_Result = TypeVar("_Result")
_Item = TypeVar("_Item")

ALL = slice(None)


class AbstractCells(abc.ABC):
    """Values and weights of the known cells of a table with a given shape."""

    values: np.ndarray
    """At the cells; 0 at holes."""
    weights: np.ndarray
    """At the cells: how much each counts; 0 at holes."""
    shape: tuple[int, int]

    @property
    def count(self) -> int:
        """How many cells are known."""
        return int(np.count_nonzero(self.weights))

    @property
    def known(self) -> np.ndarray:
        """At the cells: whether the cell is known."""
        return self.weights > 0

    @functools.cached_property
    def half_log_weights(self) -> np.ndarray:
        """At the cells: half the logarithm of the weight; 0 at holes."""
        return 0.5 * np.log(np.where(self.weights > 0, self.weights, 1.0))

    @abc.abstractmethod
    def row_sums(self, weights: np.ndarray, features: np.ndarray) -> np.ndarray:
        """Sums over each row of weights times a row of features for each column."""

    @abc.abstractmethod
    def column_sums(self, weights: np.ndarray, features: np.ndarray) -> np.ndarray:
        """Sums over each column of weights times a row of features for each row."""

    @abc.abstractmethod
    def in_pieces(self, work: Callable[[slice], _Result]) -> list[_Result]:
        """What `work` returns for pieces of arrays at the cells, which together are all of them.

        It is called in several threads, and may write to its piece of arrays at the cells.
        """

    @abc.abstractmethod
    def products(
        self, left: np.ndarray, right: np.ndarray, piece: slice | None = None
    ) -> np.ndarray:
        """At the cells, or a piece of them: ``left[row] . right[column]``."""

    @abc.abstractmethod
    def products_at(self, left: np.ndarray, right: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        """Products at some of the cells alone, in a row."""

    @abc.abstractmethod
    def of_columns(self, numbers: np.ndarray, piece: slice = ALL) -> np.ndarray:
        """A number for each column, at the cells (or such that it broadcasts to them)."""

    @abc.abstractmethod
    def of_rows(self, numbers: np.ndarray) -> np.ndarray:
        """A number for each row, at the cells (or such that it broadcasts to them)."""

    @abc.abstractmethod
    def with_weights(self, weights: np.ndarray) -> "AbstractCells":
        """The same cells with other weights."""

    @abc.abstractmethod
    def with_values(self, values: np.ndarray) -> "AbstractCells":
        """The same cells with other values."""

    @abc.abstractmethod
    def column(self, index: int) -> np.ndarray:
        """The known values of one column."""

    @abc.abstractmethod
    def leading_columns(self, table: np.ndarray, rank: int, seed: int) -> np.ndarray:
        """Right singular vectors times singular values, about, of a table known at the cells."""

    def total_by_column(self, numbers: np.ndarray) -> np.ndarray:
        """Sums over each column of numbers at the cells."""
        return self.column_sums(numbers, np.ones((self.shape[0], 1)))[:, 0]


class DenseCells(AbstractCells):
    """A dense table.

    Parameters
    ----------
    table : array of shape (rows, columns)
        NaN marks holes.
    weights : array of that shape, optional
    """

    def __init__(self, table: np.ndarray, weights: np.ndarray | None = None):
        known = ~np.isnan(table)
        self.weights = known * (1.0 if weights is None else weights)
        self.values = np.where(self.weights > 0, table, 0.0)
        self.shape = table.shape

    def row_sums(self, weights: np.ndarray, features: np.ndarray) -> np.ndarray:
        blocks = self._blocks(features.shape[1])
        return np.concatenate(in_parallel(lambda rows: weights[rows] @ features, blocks))

    def column_sums(self, weights: np.ndarray, features: np.ndarray) -> np.ndarray:
        blocks = self._blocks(features.shape[1])
        sums = in_parallel(lambda rows: weights[rows].T @ features[rows], blocks)
        return np.add.reduce(sums)

    def _blocks(self, width: int) -> list[slice]:
        """Rows whose sums of so many features are computed in one product."""
        count, columns = self.shape
        return _slices(
            count, constants.BLOCKS if count * columns * width > constants.WORTHWHILE else 1
        )

    def in_pieces(self, work: Callable[[slice], _Result]) -> list[_Result]:
        count, columns = self.shape
        return in_parallel(work, _slices(count, -(-count * columns // constants.PIECE)))

    def products(
        self, left: np.ndarray, right: np.ndarray, piece: slice | None = None
    ) -> np.ndarray:
        return left[piece or ALL] @ right.T

    def products_at(self, left: np.ndarray, right: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        return self.products(left, right)[chosen]

    def of_columns(self, numbers: np.ndarray, piece: slice = ALL) -> np.ndarray:
        return numbers[None, :]

    def of_rows(self, numbers: np.ndarray) -> np.ndarray:
        return numbers[:, None]

    def with_weights(self, weights: np.ndarray) -> "DenseCells":
        return DenseCells(self.values, weights)

    def with_values(self, values: np.ndarray) -> "DenseCells":
        return DenseCells(values, self.weights)

    def column(self, index: int) -> np.ndarray:
        return self.values[self.weights[:, index] > 0, index]

    def part(self, rows: Any = ALL, columns: Any = ALL) -> "DenseCells":
        """Some of the rows, and of the columns."""
        values, weights = (each[rows][:, columns] for each in (self.values, self.weights))
        return DenseCells(values, weights)

    def leading_columns(self, table: np.ndarray, rank: int, seed: int) -> np.ndarray:
        table = np.where(self.known, table, 0.0)
        small = table.T @ table if self.shape[1] <= self.shape[0] else table @ table.T
        squares, vectors = np.linalg.eigh(small)
        sizes, vectors = np.sqrt(np.maximum(squares[::-1][:rank], 0)), vectors[:, ::-1][:, :rank]
        if self.shape[1] <= self.shape[0]:
            return vectors * sizes
        return table.T @ vectors  # left vectors: what they make of the columns


class ListedCells(AbstractCells):
    """A list of entries, sorted by rows.

    Parameters
    ----------
    rows, columns : arrays of int
    values : array
    shape : pair of int
    weights : array, optional
        One for each entry.
    """

    def __init__(
        self,
        rows: np.ndarray,
        columns: np.ndarray,
        values: np.ndarray,
        shape: tuple[int, int],
        weights: np.ndarray | None = None,
    ):
        self.rows = np.asarray(rows, np.int32)
        self.columns = np.asarray(columns, np.int32)
        self.values, self.shape = np.asarray(values, np.float64), shape
        self.weights = np.ones(len(values)) if weights is None else weights
        starts = np.zeros(shape[0] + 1, np.int64)
        np.cumsum(np.bincount(self.rows, minlength=shape[0]), out=starts[1:])
        self._starts = starts
        # Rows where blocks of about as many entries begin.
        blocks = constants.BLOCKS if len(values) > constants.PIECE else 1
        bounds = np.searchsorted(starts, np.arange(1, blocks) * (len(values) // blocks))
        self._bounds = np.concatenate([[0], bounds, [shape[0]]]).tolist()

    @classmethod
    def sorted(
        cls,
        rows: np.ndarray,
        columns: np.ndarray,
        values: np.ndarray,
        shape: tuple[int, int],
        weights: np.ndarray | None = None,
    ) -> tuple["ListedCells", np.ndarray]:
        """From entries in any order; also how they were ordered."""
        # One key is twice as fast as two.
        order = np.argsort(np.asarray(rows, np.int64) * shape[1] + columns, kind="stable")
        chosen = None if weights is None else weights[order]
        return cls(rows[order], columns[order], values[order], shape, chosen), order

    def _blocks(self, weights: np.ndarray, transposed: bool) -> list[tuple[slice, Any]]:
        """The rows of each block, and its entries as a sparse matrix of weights."""
        blocks = []
        for begin, end in zip(self._bounds, self._bounds[1:], strict=False):
            starts = self._starts[begin : end + 1]
            own = slice(starts[0], starts[-1])
            count, width = end - begin, self.shape[1]
            if transposed:
                matrix: Any = sparse.csc_array((width, count))
            else:
                matrix = sparse.csr_array((count, width))
            # Assigned, because the constructor would copy them: they are slices.
            matrix.data, matrix.indices = weights[own], self.columns[own]
            matrix.indptr = (starts - starts[0]).astype(np.int32)
            blocks.append((slice(begin, end), matrix))
        return blocks

    def in_pieces(self, work: Callable[[slice], _Result]) -> list[_Result]:
        pieces = range(0, max(1, len(self.values)), constants.PIECE)
        return in_parallel(work, [slice(begin, begin + constants.PIECE) for begin in pieces])

    def row_sums(self, weights: np.ndarray, features: np.ndarray) -> np.ndarray:
        worthwhile = len(weights) * features.shape[1] > constants.WORTHWHILE
        blocks = self._blocks(weights, transposed=False)
        return np.concatenate(in_parallel(lambda block: block[1] @ features, blocks, worthwhile))

    def column_sums(self, weights: np.ndarray, features: np.ndarray) -> np.ndarray:
        worthwhile = len(weights) * features.shape[1] > constants.WORTHWHILE
        blocks = self._blocks(weights, transposed=True)
        sums = in_parallel(lambda block: block[1] @ features[block[0]], blocks, worthwhile)
        return np.add.reduce(sums)

    def products(
        self, left: np.ndarray, right: np.ndarray, piece: slice | None = None
    ) -> np.ndarray:
        if piece is None:
            return np.concatenate(self.in_pieces(lambda each: self.products(left, right, each)))
        return _products(left, right, self.rows[piece], self.columns[piece])

    def products_at(self, left: np.ndarray, right: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        return _products(left, right, self.rows[chosen], self.columns[chosen])

    def of_columns(self, numbers: np.ndarray, piece: slice = ALL) -> np.ndarray:
        return np.take(numbers, self.columns[piece], mode="clip")

    def of_rows(self, numbers: np.ndarray) -> np.ndarray:
        return np.take(numbers, self.rows, mode="clip")

    def with_weights(self, weights: np.ndarray) -> "ListedCells":
        other = copy.copy(self)
        other.weights = weights
        vars(other).pop("half_log_weights", None)
        return other

    def with_values(self, values: np.ndarray) -> "ListedCells":
        other = copy.copy(self)
        other.values = values
        return other

    def column(self, index: int) -> np.ndarray:
        order, starts = self._by_columns
        own = order[starts[index] : starts[index + 1]]
        return self.values[own[self.weights[own] > 0]]

    @functools.cached_property
    def _by_columns(self) -> tuple[np.ndarray, np.ndarray]:
        """The entries of each column, and where they begin."""
        order = np.argsort(self.columns, kind="stable")
        return order, np.searchsorted(self.columns[order], np.arange(self.shape[1] + 1))

    def leading_columns(self, table: np.ndarray, rank: int, seed: int) -> np.ndarray:
        # A few rounds of subspace iteration are enough for a start.
        rng = np.random.default_rng(seed)
        weights = table * self.known
        basis = rng.standard_normal((self.shape[1], rank))
        for _ in range(constants.SUBSPACE_ROUNDS):
            basis = self.column_sums(weights, np.linalg.qr(self.row_sums(weights, basis))[0])
        _, _, turned = np.linalg.svd(basis, full_matrices=False)
        # Zeros at the unknown places make the table smaller by the share of the known ones. (With
        # loadings of that size a list of 20 entries in each row came to rest at loadings of 0.) If
        # some rows and columns have most of the entries, that is too much; a standardised table has
        # a mean square of about 1.
        places = self.shape[0] * self.shape[1]
        squares = max(float(np.sum(basis**2)), np.finfo(float).tiny)
        return basis @ turned.T * min(places / max(1, self.count), np.sqrt(places / squares))


def in_parallel(
    work: Callable[[_Item], _Result], items: Sequence[_Item], worthwhile: bool = True
) -> list[_Result]:
    """What `work` makes of each item, in several threads if that is worthwhile."""
    if not worthwhile or len(items) < 2 or _THREADS == 1:
        return [work(item) for item in items]
    with ThreadPoolExecutor(_THREADS) as threads:
        return list(threads.map(work, items))


def _slices(count: int, parts: int) -> list[slice]:
    """About equal parts of so many rows; one at the least."""
    if parts <= 1:
        return [slice(0, count)]
    bounds = np.linspace(0, count, parts + 1).astype(int).tolist()
    return [slice(*pair) for pair in itertools.pairwise(bounds)]


def _products(
    left: np.ndarray, right: np.ndarray, rows: np.ndarray, columns: np.ndarray
) -> np.ndarray:
    out = np.empty(len(rows))
    step = max(1, min(len(rows), constants.PIECE // max(1, left.shape[1])))
    mine, other = (np.empty((step, left.shape[1])) for _ in range(2))
    for begin in range(0, len(rows), step):
        end = min(begin + step, len(rows))
        own = slice(0, end - begin)
        # Indices are valid, and clipping is faster than checking.
        np.take(left, rows[begin:end], 0, out=mine[own], mode="clip")
        np.take(right, columns[begin:end], 0, out=other[own], mode="clip")
        np.einsum("ij,ij->i", mine[own], other[own], out=out[begin:end])
    return out
