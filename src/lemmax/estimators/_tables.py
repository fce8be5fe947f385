"""Observed entries of a matrix, however they are given."""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from ._base import checked_weights, refuse_complex


class Table(NamedTuple):
    """Entries of a matrix: where they are, what they are, how much they count."""

    rows: np.ndarray
    columns: np.ndarray
    values: np.ndarray
    weights: np.ndarray | None
    shape: tuple[int, int]

    def part(self, chosen: np.ndarray) -> "Table":
        """Some of the entries."""
        weights = None if self.weights is None else self.weights[chosen]
        return Table(
            self.rows[chosen], self.columns[chosen], self.values[chosen], weights, self.shape
        )


def validated(estimator: BaseEstimator, X: Any, reset: bool) -> Any:
    """A dense array with NaN, or a sparse one of which what is not stored is missing."""
    refuse_complex(X)
    return validate_data(
        estimator,
        X,
        accept_sparse="coo",
        dtype=np.float64,
        ensure_all_finite="allow-nan",
        reset=reset,
    )


def table_of(
    estimator: BaseEstimator, X: Any, weights: Any, shape: tuple[int, int] | None
) -> Table:
    """From a dense array with NaN, a sparse one, or a tuple (row, column, value)."""
    table = _listed(X, weights, shape) if isinstance(X, tuple) else None
    if table is None:
        X = validated(estimator, X, reset=True)
        table = _stored(X, weights) if sparse.issparse(X) else _seen(X, weights)
    else:
        estimator.n_features_in_ = table.shape[1]  # pyright: ignore
    there = ~np.isnan(table.values)
    if table.weights is not None:
        there &= table.weights > 0
    if not np.any(there):
        raise ValueError("There is nothing but missing entries: no value is observed.")
    return table.part(there)


def dense_with_gaps(X: Any) -> np.ndarray:
    """NaN where nothing is stored."""
    if not sparse.issparse(X):
        return X
    X = X.tocoo()
    dense = np.full(X.shape, np.nan)
    dense[X.row, X.col] = X.data
    return dense


def pairs_of(X: Any) -> tuple[Any, Any]:
    """Rows and columns of positions: of a tuple (rows, columns), or of an array of pairs."""
    if isinstance(X, tuple) and len(X) == 2:
        rows, columns = np.atleast_1d(X[0]), np.atleast_1d(X[1])
        if rows.ndim != 1 or rows.shape != columns.shape:
            raise ValueError(
                "A pair of index arrays needs as many rows as columns; got shapes "
                f"{rows.shape} and {columns.shape}."
            )
        return rows, columns
    positions = np.asarray(X)
    if positions.ndim != 2 or positions.shape[1] != 2:
        raise ValueError(
            "predict takes positions, a row and a column each: integers of shape (k, 2); got an "
            f"array of shape {positions.shape}."
        )
    return positions[:, 0], positions[:, 1]


def checked_indices(index: Any, length: int, side: str) -> np.ndarray:
    """Numbers of rows or columns that exist."""
    index = np.asarray(index)
    if index.dtype.kind not in "iu":
        raise ValueError(f"Positions are whole numbers; those of the {side}s are {index.dtype}.")
    if index.size and (index.min() < 0 or index.max() >= length):
        raise ValueError(
            f"There are {length} {side}s, numbered from 0; got numbers from {index.min()} to "
            f"{index.max()}."
        )
    return index


def _seen(X: np.ndarray, weights: Any) -> Table:
    weights = checked_weights(weights, X.shape)
    rows, columns = np.nonzero(~np.isnan(X))
    chosen = None if weights is None else weights[rows, columns]
    return Table(rows, columns, X[rows, columns], chosen, X.shape)


def _stored(X: Any, weights: Any) -> Table:
    X = X.tocoo(copy=True)
    if weights is None:
        X.sum_duplicates()
    return Table(X.row, X.col, X.data, checked_weights(weights, X.data.shape), X.shape)


def _listed(X: tuple[Any, ...], weights: Any, shape: tuple[int, int] | None) -> Table:
    parts = [np.asarray(part) for part in X]
    if len(parts) != 3 or any(part.ndim != 1 or len(part) != len(parts[0]) for part in parts):
        raise ValueError(
            "A tuple is taken for a list of entries, (rows, columns, values), three arrays of one "
            f"length; got shapes {[part.shape for part in parts]}."
        )
    rows, columns = parts[:2]
    try:
        values = np.asarray(parts[2], np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError("The values of a list of entries must be numbers.") from error
    if np.any(np.isinf(values)):
        raise ValueError("The values of a list of entries must be finite.")
    whole = [part if part.dtype.kind in "iu" and part.size else np.zeros(1, int) for part in parts]
    height, width = (int(whole[k].max()) + 1 if shape is None else shape[k] for k in range(2))
    rows = checked_indices(rows, height, "row")
    columns = checked_indices(columns, width, "column")
    return Table(rows, columns, values, checked_weights(weights, values.shape), (height, width))
