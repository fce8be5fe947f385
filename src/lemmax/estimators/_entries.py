"""Lists of entries (row, column, value) in all accepted forms."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from .._checks import first_few, warn_user
from .._columns import entry_columns, is_missing
from ._base import checked_weights, refuse_complex
from ._factor import refuse_large
from ._frames import (
    are_ids,
    checked_frame,
    columns_of,
    library_of,
    row_names,
    unreadable_cells,
)

# Number of unknown names that a message lists.
_LISTED = 5
CURE = (
    "For a list of entries, name the columns with rows, columns and values, as in "
    "MatrixCompletion(columns=('user', 'item', 'rating')), or fit a tuple (rows, columns, values)."
)


class Entries(NamedTuple):
    """Entries of a matrix: positions, values and weights."""

    rows: np.ndarray
    columns: np.ndarray
    values: np.ndarray
    weights: np.ndarray | None
    row_ids: np.ndarray
    """Names of the rows."""
    column_ids: np.ndarray
    listed: bool
    """Whether they were given as a list, such as ratings, and not as a table."""

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the matrix."""
        return len(self.row_ids), len(self.column_ids)

    def once(self) -> "Entries":
        """Replace repeated entries by their mean, which counts as one entry.

        Copies would predict each other, and the errors at held-out entries would be too small.
        """
        places = np.asarray(self.rows, np.int64) * self.shape[1] + self.columns
        ordered = np.sort(places)
        if not np.any(ordered[1:] == ordered[:-1]):
            return self
        _, first, group, counts = np.unique(
            places, return_index=True, return_inverse=True, return_counts=True
        )
        example = first[np.argmax(counts > 1)]
        row, column = self.row_ids[self.rows[example]], self.column_ids[self.columns[example]]
        warn_user(
            f"{int(np.sum(counts > 1))} places occur several times in the list, such as row "
            f"{str(row)!r}, column {str(column)!r}: their means are used."
        )
        weights = np.ones(len(places)) if self.weights is None else self.weights
        total = np.bincount(group, weights)
        values = np.bincount(group, weights * self.values) / total
        return self._replace(
            rows=self.rows[first],
            columns=self.columns[first],
            values=values,
            weights=None if self.weights is None else total / counts,
        )

    def known(self) -> "Entries":
        """The entries that are not missing and have a positive weight."""
        there = ~np.isnan(self.values)
        if self.weights is not None:
            there &= self.weights > 0
        if not np.any(there):
            raise ValueError("All entries are missing: no value is observed.")
        weights = None if self.weights is None else self.weights[there]
        return self._replace(
            rows=self.rows[there],
            columns=self.columns[there],
            values=self.values[there],
            weights=weights,
        )


def entries_of(estimator: Any, X: Any, y: Any, weights: Any) -> Entries:
    """Entries of a table with NaN, a sparse matrix, or a list (see `MatrixCompletion.fit`)."""
    X = X if library_of(X) is None else checked_frame(X)
    parts, named = parts_of_list(X, y, estimator.columns)
    if parts is not None:
        found = _listed(parts, weights, estimator.shape)
    else:
        table, names = _table(estimator, X)
        found = _stored(table, weights) if sparse.issparse(table) else _seen(table, weights)
        if names is not None:
            found = found._replace(row_ids=names[0], column_ids=names[1])
    estimator.n_features_in_ = found.shape[1]
    estimator.entry_columns_ = named
    return found.known().once() if found.listed else found.known()


def parts_of_list(X: Any, y: Any, columns: Any) -> tuple[tuple | None, tuple | None]:
    """Rows, columns and values of a list of entries, and what its columns are called, if they are.

    None instead of the parts for a table.
    """
    if isinstance(X, tuple):
        return X, None
    if y is not None and _are_pairs(X, y):
        return (*_columns_of(X), y), None
    named = _entry_columns(X, columns)
    return None if named is None else _entry_parts(X, named), named


def _table(estimator: Any, X: Any) -> tuple[Any, tuple[np.ndarray, np.ndarray] | None]:
    """A table of numbers, dense or sparse, with row and column names of a data frame."""
    table, frame = estimator._validated(X, reset=True, accept_sparse="coo")
    if frame is None:
        return table, None
    if len(frame.others) >= len(frame.numeric):
        others = ", ".join(map(repr, frame.others))
        raise ValueError(
            f"The data frame is read as a table of numbers, but {others} contain none. {CURE}"
        )
    columns = np.empty(len(frame.numeric), object)
    columns[:] = frame.numeric
    return table, (np.asarray(row_names(frame.frame, frame.library)), columns)


def _entry_columns(X: Any, columns: Any) -> tuple[Any, ...] | None:
    """Names (for an array: positions) of row, column and value of a list; None for a table."""
    library = library_of(X)
    if columns is None:
        if library is None:
            return None
        names = list(X.columns)
        places = entry_columns(names, lambda k: are_ids(X[names[k]], library))
        return None if places is None else tuple(names[k] for k in places)
    if isinstance(columns, str) or len(set(columns)) != 3 or len(columns) != 3:
        raise ValueError(
            "columns must name three columns of a list of entries: rows, columns and values, "
            f"as in ('user', 'item', 'rating'); got {columns!r}."
        )
    there = list(X.columns) if library is not None else list(range(_width(X)))
    absent = [name for name in columns if name not in there]
    if absent:
        what = "data frame" if library is not None else "array"
        raise ValueError(
            f"The {what} has no column {', '.join(map(repr, absent))}; it has: "
            f"{', '.join(map(repr, there))}."
        )
    return tuple(columns)


def _width(X: Any) -> int:
    shape = np.shape(X)
    return shape[1] if len(shape) == 2 and not sparse.issparse(X) else 0


def _entry_parts(X: Any, named: tuple[Any, ...]) -> tuple[Any, ...]:
    """Rows, columns and values of a list."""
    library = library_of(X)
    if library is None:
        array = np.array(X, dtype=object) if isinstance(X, list) else np.asarray(X)
        return tuple(array[:, place] for place in named)
    rows, columns = (np.asarray(X[name]) for name in named[:2])
    values = columns_of(X, named[2:], library)[named[2]]
    if values is not None and np.all(np.isnan(values.numbers)) and not len(values.unreadable):
        raise ValueError(f"The list of entries contains no values: {named[2]!r} is empty.")
    if values is None or not values.is_numeric:
        raise ValueError(f"The values of a list of entries must be numbers: {named[2]!r} are not.")
    unread = unreadable_cells(X, library, {named[2]: values})
    if unread:
        warn_user(f"Left out, since they are not numbers: {unread}.")
    return rows, columns, values.numbers


def dense_with_gaps(X: Any) -> np.ndarray:
    """A dense array with NaN where nothing is stored."""
    if not sparse.issparse(X):
        return X
    X = X.tocoo()
    dense = np.full(X.shape, np.nan)
    dense[X.row, X.col] = X.data
    return dense


def places_of(X: Any, named: Sequence[Any] | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Names of rows and columns of positions: a pair of arrays, an array of pairs, or a frame.

    A frame has the columns of the fitted list (``named``), or exactly two.
    """
    if isinstance(X, tuple) and len(X) == 2:
        rows, columns = (np.atleast_1d(np.asarray(each)) for each in X)
        if rows.ndim != 1 or rows.shape != columns.shape:
            raise ValueError(
                "A pair of index arrays needs equally many rows and columns; got shapes "
                f"{rows.shape} and {columns.shape}."
            )
        return rows, columns
    if library_of(X) is not None:
        frame = checked_frame(X)
        names = list(frame.columns) if named is None else list(named[:2])
        if not set(names) <= set(frame.columns):
            names = list(frame.columns)
        if len(names) != 2:
            asked = "" if named is None else f", {named[0]!r} and {named[1]!r}"
            raise ValueError(
                "predict takes positions: a data frame with a column of rows and one of columns"
                f"{asked}; got {', '.join(map(repr, names))}."
            )
        return np.asarray(frame[names[0]]), np.asarray(frame[names[1]])
    # Keep names of different types as they are.
    positions = np.array(X, dtype=object) if isinstance(X, list) else np.asarray(X)
    if positions.ndim != 2 or positions.shape[1] != 2:
        raise ValueError(
            "predict takes positions, a row and a column each: an array of shape (k, 2); got an "
            f"array of shape {positions.shape}."
        )
    return positions[:, 0], positions[:, 1]


def unseen_sentences(
    rows: np.ndarray, columns: np.ndarray, unseen: tuple[np.ndarray, np.ndarray], effects: bool
) -> list[str]:
    """How entries are predicted whose row or column was not part of the fit.

    Parameters
    ----------
    rows, columns : arrays
        Names of the rows and columns.
    unseen : pair of arrays of bool
        Which of them were not part of the fit.
    effects : bool
        Whether the model has row effects.
    """
    no_row, no_column = unseen
    neither = no_row & no_column
    nothing = "without effects there is no prediction"
    then = ["the column mean is predicted", nothing, nothing]
    if effects:
        then = [
            "the column effect is predicted, with a larger error",
            "the row effect is predicted, with a larger error",
            "the overall level is predicted",
        ]
    unknown = [
        ("of", rows[no_row & ~neither].tolist()),
        ("of", columns[no_column & ~neither].tolist()),
        (
            "of row or column of",
            list(zip(rows[neither].tolist(), columns[neither].tolist(), strict=True)),
        ),
    ]
    return [
        f"no entry {of} {first_few(map(repr, dict.fromkeys(names)), _LISTED)} is known; {words}"
        for (of, names), words in zip(unknown, then, strict=True)
        if names
    ]


def numbers_of(names: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Positions of names among ids; -1 for unknown names."""
    names = np.asarray(names)
    ordered = ids.dtype != object and bool(np.all(ids[1:] >= ids[:-1]))
    if not ordered or names.dtype.kind != ids.dtype.kind:
        known = {name: place for place, name in enumerate(ids.tolist())}
        return np.array([known.get(name, -1) for name in names.tolist()], np.int64)
    place = np.minimum(np.searchsorted(ids, names), max(0, len(ids) - 1))
    return np.where(ids[place] == names, place, -1) if len(ids) else np.full(len(names), -1)


def _columns_of(X: Any) -> tuple[np.ndarray, ...]:
    if library_of(X) is None:
        return tuple(np.asarray(X).T)
    return tuple(np.asarray(X[name]) for name in X.columns)


def _are_pairs(X: Any, y: Any) -> bool:
    """Whether these are positions and values of entries, not a matrix and its targets."""
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
            "A list of entries is (rows, columns, values), three arrays of equal "
            f"length; got shapes {[part.shape for part in parts]}."
        )
    refuse_complex(parts[2])
    try:
        values = np.asarray(parts[2], np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError("The values of a list of entries must be numbers.") from error
    refuse_large(values)
    rows, row_ids = _numbered(parts[0], None if shape is None else shape[0], "row")
    columns, column_ids = _numbered(parts[1], None if shape is None else shape[1], "column")
    weights = checked_weights(weights, values.shape)
    return Entries(rows, columns, values, weights, row_ids, column_ids, listed=True)


def _numbered(names: np.ndarray, length: int | None, side: str) -> tuple[np.ndarray, np.ndarray]:
    """Names as numbers from 0, and the names of these numbers."""
    if length is not None:
        if names.dtype.kind not in "iu":
            raise ValueError(f"With a shape, {side}s must be integers; got {names.dtype}.")
        if names.size and (names.min() < 0 or names.max() >= length):
            raise ValueError(
                f"There are {length} {side}s, numbered from 0; got numbers from {names.min()} to "
                f"{names.max()}."
            )
        return names, np.arange(length)
    nameless = np.flatnonzero([is_missing(name) for name in names.tolist()])
    if len(nameless):
        raise ValueError(
            f"Some {side}s of the list have no name (NaN), the first in entry {nameless[0]}, "
            "counted from 0."
        )
    try:
        ids, numbers = np.unique(names, return_inverse=True)
    except TypeError:  # names of different types cannot be sorted
        order = {name: place for place, name in enumerate(dict.fromkeys(names.tolist()))}
        ids = np.empty(len(order), object)
        ids[:] = list(order)
        numbers = np.array([order[name] for name in names.tolist()])
    return numbers, ids
