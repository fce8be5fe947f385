"""Data frames of pandas and polars: conversion to arrays and back.

Neither library is required: a frame is recognised by the module of its class.
"""

import decimal
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .._checks import warn_user
from .._columns import UNCLEAR_DOTS, Column, Spelling, as_numbers, listed_cells, text_of, texts_of

# Types of numbers in a column of objects.
_NUMBERS = (int, float, np.number, np.bool_, decimal.Decimal)


def library_of(X: Any) -> str | None:
    """'pandas' or 'polars' if X is a data frame; otherwise None."""
    name = type(X).__module__.split(".")[0]
    is_frame = type(X).__name__ in ("DataFrame", "LazyFrame")
    return name if name in ("pandas", "polars") and is_frame else None


class FrameParts(NamedTuple):
    """A data frame and its numeric columns."""

    frame: Any
    library: str
    numeric: list[Any]
    """Names of the fitted columns."""
    array: np.ndarray
    """Their numbers; NaN if missing."""
    others: list[Any]
    """Names of the columns that are carried through."""

    def like(self, values: np.ndarray, changed: np.ndarray | None = None) -> Any:
        """A frame of values with the names and the index of the numeric columns.

        With `changed`, the whole frame: only changed cells are replaced, and columns without
        changes, or without numbers, are as before.
        """
        if changed is None:
            return new_frame(self.frame, values, self.numeric)
        if self.library == "pandas":
            frame = self.frame.copy()
            for k, name in enumerate(self.numeric):
                if changed[:, k].any():
                    frame[name] = values[:, k]
            return frame
        import polars as pl

        replaced = [
            pl.Series(name, values[:, k])
            for k, name in enumerate(self.numeric)
            if changed[:, k].any()
        ]
        return self.frame.with_columns(replaced)

    def tidy(self, places: tuple[np.ndarray, ...], numbers: dict[str, np.ndarray]) -> Any:
        """A frame with one line per selected cell."""
        columns = {"column": [self.numeric[k] for k in places[1]], **numbers}
        if self.library == "pandas":
            import pandas as pd

            return pd.DataFrame({"row": self.frame.index[places[0]], **columns})
        import polars as pl

        return pl.DataFrame({"row": places[0], **columns}, schema_overrides={"column": pl.String})


def new_frame(frame: Any, values: np.ndarray, names: Sequence[Any]) -> Any:
    """A frame of values with given column names and the rows of another frame."""
    if library_of(frame) == "pandas":
        return type(frame)(values, index=frame.index, columns=names)
    return type(frame)({name: values[:, k] for k, name in enumerate(names)})


def parts_of(X: Any, only: Sequence[Any] | None = None) -> FrameParts | None:
    """The parts of a data frame; None for anything else.

    A column of text is numeric if most of its cells can be read as numbers; the others are missing.
    One warning names these cells, columns of text that were read, and excluded columns.

    Parameters
    ----------
    X : object
    only : sequence of names, optional
        Names of the numeric columns, if known from an earlier fit.
    """
    library = library_of(X)
    if library is None:
        return None
    frame = checked_frame(X)
    if not len(frame):
        raise ValueError("The data frame has no rows.")
    if only is not None:
        missing = [name for name in only if name not in set(frame.columns)]
        if missing:
            raise ValueError(
                f"The feature names should match those that were passed during fit: the column(s) "
                f"{', '.join(map(repr, missing))} are missing."
            )
    names = list(frame.columns) if only is None else list(only)
    found = columns_of(frame, names, library)
    if only is not None:
        strange = [name for name, column in found.items() if column is None]
        if strange:
            kind = frame[strange[0]].dtype
            raise ValueError(f"Column {strange[0]!r} was numeric in the fit; now it is {kind}.")
    read = {name: column for name, column in found.items() if column is not None}
    numeric = {
        name: column for name, column in read.items() if only is not None or column.is_numeric
    }
    others = [name for name in frame.columns if name not in numeric]
    empty = [name for name in others if name in read and not len(read[name].unreadable)]
    aside = [] if only is not None else [name for name in others if name not in empty]
    _tell(frame, library, numeric, {"are not numeric": aside, "have no values": empty})
    if not numeric:
        raise ValueError("The data frame has no numeric column with values.")
    array = np.column_stack([column.numbers for column in numeric.values()])
    return FrameParts(frame, library, list(numeric), array, others)


def checked_frame(X: Any) -> Any:
    """A data frame whose column names are unique."""
    frame = X.collect() if type(X).__name__ == "LazyFrame" else X
    if getattr(frame.columns, "nlevels", 1) > 1:
        raise ValueError("The columns of the data frame have several levels; join their names.")
    names = list(frame.columns)
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"Several columns of the data frame are called {twice!r}; rename them.")
    return frame


def columns_of(frame: Any, names: Sequence[Any], library: str) -> dict[Any, Column | None]:
    """Columns of a data frame as numbers; None for dates, categories and the like.

    Columns of text are read together, since one may show how the others are written.
    """
    found: dict[Any, Column | None] = dict.fromkeys(names)
    texts = []
    for name in names:
        if is_numeric(frame[name], library):
            found[name] = Column(_numbers(frame[name], library), np.zeros(0, np.int64), Spelling())
        elif _is_text(frame[name], library):
            texts.append(name)
    read = as_numbers([_texts(frame[name]) for name in texts])
    return found | dict(zip(texts, read, strict=True))


def are_ids(series: Any, library: str) -> bool:
    """Whether a column may name rows: it has no decimals and no missing numbers."""
    if not is_numeric(series, library):
        return True
    whole = series.dtype.is_integer() if library == "polars" else series.dtype.kind in "iu"
    return bool(whole) and not np.any(np.isnan(_numbers(series, library)))


def row_names(frame: Any, library: str) -> Any:
    """The names of the rows of a data frame."""
    return frame.index if library == "pandas" else range(len(frame))


def _tell(
    frame: Any, library: str, numeric: dict[Any, Column], aside: dict[str, list[Any]]
) -> None:
    """One warning about excluded columns, with reasons, and unreadable cells."""
    told = [
        f"Columns left out because they {why}: {', '.join(map(str, some))}."
        for why, some in aside.items()
        if some
    ]
    read = [name for name in numeric if not is_numeric(frame[name], library)]
    if read:
        told.append(f"Columns of text read as numbers: {', '.join(map(str, read))}.")
    unclear = [str(name) for name in read if numeric[name].spelling.unclear]
    if unclear:
        told.append(UNCLEAR_DOTS.format(", ".join(unclear)))
    bad = unreadable_cells(frame, library, {name: numeric[name] for name in read})
    if bad:
        told.append(f"Cells that are not numbers, treated as missing: {bad}.")
    if told:
        warn_user(" ".join(told))


def unreadable_cells(frame: Any, library: str, columns: dict[Any, Column]) -> str:
    """The first few unreadable cells, with the names of their rows."""
    bad = [name for name, column in columns.items() if len(column.unreadable)]
    names = row_names(frame, library)
    return listed_cells(
        bad,
        [_texts(frame[name]) for name in bad],
        [columns[name] for name in bad],
        lambda row: f"row {names[row]!r}",
    )


def is_numeric(series: Any, library: str) -> bool:
    """Whether a column contains numbers only."""
    if library == "polars":
        return bool(series.dtype.is_numeric() or str(series.dtype) == "Boolean")
    from pandas.api import types

    if types.is_bool_dtype(series.dtype) or types.is_numeric_dtype(series.dtype):
        return not types.is_complex_dtype(series.dtype)
    if series.dtype != object:
        return False
    # Numbers and None in a column of objects.
    kinds = {type(value) for value in series if text_of(value)}
    return bool(kinds) and all(issubclass(kind, _NUMBERS) for kind in kinds)


def _is_text(series: Any, library: str) -> bool:
    if library == "polars":
        return str(series.dtype) in ("String", "Object", "Null")
    from pandas.api import types

    return bool(types.is_object_dtype(series.dtype) or types.is_string_dtype(series.dtype))


def _texts(series: Any) -> np.ndarray:
    return texts_of(series.to_list())


def _numbers(series: Any, library: str) -> np.ndarray:
    if library == "polars":
        import polars as pl

        return series.cast(pl.Float64).to_numpy().astype(np.float64)
    return series.to_numpy(dtype=np.float64, na_value=np.nan)
