"""Data frames of pandas and polars: their numbers as an array, and arrays as frames like them.

Neither library is needed: a frame is recognised by the module of its class.
"""

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np


def library_of(X: Any) -> str | None:
    """'pandas' or 'polars' if X is a data frame of it."""
    name = type(X).__module__.split(".")[0]
    is_frame = type(X).__name__ in ("DataFrame", "LazyFrame")
    return name if name in ("pandas", "polars") and is_frame else None


class FrameParts(NamedTuple):
    """A data frame, and which of its columns are numbers."""

    frame: Any
    library: str
    numeric: list[Any]
    """Names of the columns that are fitted."""

    @property
    def others(self) -> list[Any]:
        """Names of the columns that are carried through."""
        return [name for name in self.frame.columns if name not in set(self.numeric)]

    def array(self) -> np.ndarray:
        """The numbers; NaN where there are none."""
        columns = [_numbers(self.frame[name], self.library) for name in self.numeric]
        return np.column_stack(columns) if columns else np.zeros((len(self.frame), 0))

    def like(self, values: np.ndarray, changed: np.ndarray | None = None) -> Any:
        """A frame of values with the names and the index of the numeric columns.

        With `changed`, the whole frame: only cells that were changed are replaced, and columns
        without changes, or without numbers, are as they were.
        """
        if self.library == "pandas":
            import pandas as pd

            if changed is None:
                return pd.DataFrame(values, index=self.frame.index, columns=self.numeric)
            frame = self.frame.copy()
            for k, name in enumerate(self.numeric):
                if changed[:, k].any():
                    frame[name] = values[:, k]
            return frame
        import polars as pl

        if changed is None:
            return pl.DataFrame({name: values[:, k] for k, name in enumerate(self.numeric)})
        replaced = [
            pl.Series(name, values[:, k])
            for k, name in enumerate(self.numeric)
            if changed[:, k].any()
        ]
        return self.frame.with_columns(replaced)

    def tidy(self, columns: dict[str, Any], rows: np.ndarray) -> Any:
        """A frame with a line for each of some cells."""
        if self.library == "pandas":
            import pandas as pd

            return pd.DataFrame({"row": self.frame.index[rows], **columns})
        import polars as pl

        return pl.DataFrame({"row": rows, **columns})


def parts_of(X: Any, only: Sequence[Any] | None = None) -> FrameParts | None:
    """The parts of a data frame; None for anything else. Columns set aside are named in a warning.

    Parameters
    ----------
    X : object
    only : sequence of names, optional
        The numeric columns, if they are known from an earlier fit.
    """
    library = library_of(X)
    if library is None:
        return None
    frame = X.collect() if type(X).__name__ == "LazyFrame" else X
    if getattr(frame.columns, "nlevels", 1) > 1:
        raise ValueError("The columns of the data frame have several levels; join their names.")
    if len(set(frame.columns)) < len(frame.columns):
        raise ValueError("The data frame has several columns of one name; rename them.")
    if only is not None:
        missing = [name for name in only if name not in set(frame.columns)]
        if missing:
            raise ValueError(
                f"The feature names should match those that were passed during fit: the column(s) "
                f"{', '.join(map(repr, missing))} are missing."
            )
        return FrameParts(frame, library, list(only))
    numeric = [name for name in frame.columns if _is_numeric(frame[name], library)]
    parts = FrameParts(frame, library, numeric)
    if parts.others:
        warnings.warn(
            f"Set aside, since they do not hold numbers: {', '.join(map(str, parts.others))}.",
            UserWarning,
            stacklevel=4,
        )
    if not numeric:
        raise ValueError("The data frame has no column of numbers.")
    return parts


def _is_numeric(series: Any, library: str) -> bool:
    if library == "polars":
        return bool(series.dtype.is_numeric() or str(series.dtype) in ("Boolean", "Null"))
    from pandas.api import types

    if types.is_bool_dtype(series.dtype) or types.is_numeric_dtype(series.dtype):
        return not types.is_complex_dtype(series.dtype)
    if series.dtype != object:
        return False
    # Numbers and None in a column of objects.
    kinds = {type(value) for value in series if value is not None and value == value}
    return bool(kinds) and all(issubclass(kind, (int, float, np.number)) for kind in kinds)


def _numbers(series: Any, library: str) -> np.ndarray:
    if library == "polars":
        import polars as pl

        return series.cast(pl.Float64).to_numpy().astype(np.float64)
    return series.to_numpy(dtype=np.float64, na_value=np.nan)
