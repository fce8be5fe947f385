"""Lists of entries, however they are given: who, what, how much."""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from ._base import checked_weights, refuse_complex
from ._frames import library_of


class Entries(NamedTuple):
    """Entries of a matrix: where they are, what they are, how much they count."""

    rows: np.ndarray
    columns: np.ndarray
    values: np.ndarray
    weights: np.ndarray | None
    row_ids: np.ndarray
    """What the rows are called."""
    column_ids: np.ndarray
    listed: bool
    """Whether they were given as a list, as ratings are, and not as a table."""

    @property
    def shape(self) -> tuple[int, int]:
        """Of the matrix."""
        return len(self.row_ids), len(self.column_ids)

    def known(self) -> "Entries":
        """Those that are there and count."""
        there = ~np.isnan(self.values)
        if self.weights is not None:
            there &= self.weights > 0
        if not np.any(there):
            raise ValueError("There is nothing but missing entries: no value is observed.")
        weights = None if self.weights is None else self.weights[there]
        return self._replace(
            rows=self.rows[there],
            columns=self.columns[there],
            values=self.values[there],
            weights=weights,
        )


def entries_of(
    estimator: BaseEstimator, X: Any, y: Any, weights: Any, shape: tuple[int, int] | None
) -> Entries:
    """From a table with NaN, a sparse matrix, or a list.

    A list is a tuple (rows, columns, values), a data frame with these three columns, or pairs (row,
    column) if values are given as y. Rows and columns of a list may have any names.
    """
    if isinstance(X, tuple):
        found = _listed(X, weights, shape)
    elif y is not None and _are_pairs(X, y):
        found = _listed((*_columns_of(X), y), weights, shape)
    elif library_of(X) is not None and _is_list(X):
        found = _listed(_columns_of(X), weights, shape)
    else:
        names = _names_of(X)
        X = validated(estimator, X, reset=True)
        found = _stored(X, weights) if sparse.issparse(X) else _seen(X, weights)
        if names is not None:
            found = found._replace(row_ids=names[0], column_ids=names[1])
    estimator.n_features_in_ = found.shape[1]  # pyright: ignore[reportAttributeAccessIssue]
    return found.known()


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


def dense_with_gaps(X: Any) -> np.ndarray:
    """NaN where nothing is stored."""
    if not sparse.issparse(X):
        return X
    X = X.tocoo()
    dense = np.full(X.shape, np.nan)
    dense[X.row, X.col] = X.data
    return dense


def places_of(X: Any) -> tuple[np.ndarray, np.ndarray]:
    """Names of rows and columns of positions: a pair of arrays, an array of pairs, or a frame."""
    if isinstance(X, tuple) and len(X) == 2:
        rows, columns = (np.atleast_1d(np.asarray(each)) for each in X)
        if rows.ndim != 1 or rows.shape != columns.shape:
            raise ValueError(
                "A pair of index arrays needs as many rows as columns; got shapes "
                f"{rows.shape} and {columns.shape}."
            )
        return rows, columns
    if library_of(X) is not None:
        parts = _columns_of(X)
        if len(parts) < 2:
            raise ValueError("predict takes places: a data frame with a column of rows and one "
                             "of columns.")  # fmt: skip
        return parts[0], parts[1]
    # Names of several kinds stay what they are.
    positions = np.array(X, dtype=object) if isinstance(X, list) else np.asarray(X)
    if positions.ndim != 2 or positions.shape[1] != 2:
        raise ValueError(
            "predict takes positions, a row and a column each: an array of shape (k, 2); got an "
            f"array of shape {positions.shape}."
        )
    return positions[:, 0], positions[:, 1]


def numbers_of(names: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Positions of names among ids; -1 for those that are not there."""
    names = np.asarray(names)
    ordered = ids.dtype != object and bool(np.all(ids[1:] >= ids[:-1]))
    if not ordered or names.dtype.kind != ids.dtype.kind:
        known = {name: place for place, name in enumerate(ids.tolist())}
        return np.array([known.get(name, -1) for name in names.tolist()], np.int64)
    place = np.minimum(np.searchsorted(ids, names), max(0, len(ids) - 1))
    return np.where(ids[place] == names, place, -1) if len(ids) else np.full(len(names), -1)


def _names_of(X: Any) -> tuple[np.ndarray, np.ndarray] | None:
    """What a data frame calls its rows and columns."""
    library = library_of(X)
    if library is None:
        return None
    columns = np.array(list(X.columns), dtype=object)
    return (np.arange(len(X)) if library == "polars" else np.asarray(X.index)), columns


def _columns_of(X: Any) -> tuple[np.ndarray, ...]:
    if library_of(X) is None:
        return tuple(np.asarray(X).T)
    return tuple(np.asarray(X[name]) for name in X.columns)


def _is_list(X: Any) -> bool:
    """Whether a data frame is a list of entries: three columns, of which two are names."""
    if len(X.columns) != 3:
        return False
    rows, columns, values = _columns_of(X)
    pairs = len(values) > max(len(set(rows.tolist())), len(set(columns.tolist())))
    return pairs and rows.dtype.kind not in "fc" and columns.dtype.kind not in "fc"


def _are_pairs(X: Any, y: Any) -> bool:
    """Whether these are places of a matrix and their values, and no matrix and its targets."""
    if sparse.issparse(X):
        return False
    if library_of(X) is not None:
        return len(X.columns) == 2
    places = np.asarray(X)
    return places.dtype.kind in "iuOSU" and places.shape == (np.size(y), 2)


def _seen(X: np.ndarray, weights: Any) -> Entries:
    weights = checked_weights(weights, X.shape)
    rows, columns = np.nonzero(~np.isnan(X))
    chosen = None if weights is None else weights[rows, columns]
    ids = (np.arange(size) for size in X.shape)
    return Entries(rows, columns, X[rows, columns], chosen, *ids, listed=False)


def _stored(X: Any, weights: Any) -> Entries:
    X = X.tocoo(copy=True)
    if weights is None:
        X.sum_duplicates()
    ids = (np.arange(size) for size in X.shape)
    weights = checked_weights(weights, X.data.shape)
    return Entries(X.row, X.col, X.data, weights, *ids, listed=True)


def _listed(X: tuple[Any, ...], weights: Any, shape: tuple[int, int] | None) -> Entries:
    parts = [np.asarray(part) for part in X]
    if len(parts) != 3 or any(part.ndim != 1 or len(part) != len(parts[0]) for part in parts):
        raise ValueError(
            "A tuple is taken for a list of entries, (rows, columns, values), three arrays of one "
            f"length; got shapes {[part.shape for part in parts]}."
        )
    refuse_complex(parts[2])
    try:
        values = np.asarray(parts[2], np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError("The values of a list of entries must be numbers.") from error
    if np.any(np.isinf(values)):
        raise ValueError("The values of a list of entries must be finite.")
    rows, row_ids = _numbered(parts[0], None if shape is None else shape[0], "row")
    columns, column_ids = _numbered(parts[1], None if shape is None else shape[1], "column")
    weights = checked_weights(weights, values.shape)
    return Entries(rows, columns, values, weights, row_ids, column_ids, listed=True)


def _numbered(names: np.ndarray, length: int | None, side: str) -> tuple[np.ndarray, np.ndarray]:
    """Names as numbers from 0, and what the numbers stand for."""
    if length is not None:
        if names.dtype.kind not in "iu":
            raise ValueError(f"With a shape, {side}s are whole numbers; got {names.dtype}.")
        if names.size and (names.min() < 0 or names.max() >= length):
            raise ValueError(
                f"There are {length} {side}s, numbered from 0; got numbers from {names.min()} to "
                f"{names.max()}."
            )
        return names, np.arange(length)
    if names.dtype.kind == "f" and np.any(np.isnan(names)):
        raise ValueError(f"Some {side}s of the list have no name (NaN).")
    try:
        ids, numbers = np.unique(names, return_inverse=True)
    except TypeError:  # names of several kinds cannot be sorted
        order = {name: place for place, name in enumerate(dict.fromkeys(names.tolist()))}
        ids = np.empty(len(order), object)
        ids[:] = list(order)
        numbers = np.array([order[name] for name in names.tolist()])
    return numbers, ids
