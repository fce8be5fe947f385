"""Data files: tables, lists of entries, arrays. What cannot be read is refused in one sentence."""

import csv
import pathlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import io, sparse

from ._files import Refusal

_TEXT = (".csv", ".tsv", ".txt")
_FORMATS = (*_TEXT, ".npy", ".npz", ".mtx", ".parquet")
_MISSING = frozenset(("", "na", "nan", "n/a", "null", "none", "missing", "?"))


class TableFile(NamedTuple):
    """A table with the names of its columns and the labels of its rows, where it has any."""

    values: Any
    """NaN where something is missing; sparse if it came from a file of stored entries."""
    columns: list[str] | None = None
    labels: list[str] | None = None
    label_name: str = ""


def read_table(path: pathlib.Path, labels: str | None, array: str | None) -> TableFile:
    """A table of numbers; ``labels`` names the column that labels the rows."""
    kind = _kind(path)
    if kind in _TEXT or kind == ".parquet":
        header, columns = _columns(path, kind)
        return _numeric_table(path, header, columns, labels)
    values = _stored_entries(path) if kind == ".mtx" else read_array(path, array)
    if values.ndim != 2:
        raise Refusal(f"{path} holds an array of {values.ndim} dimensions; a table has two.")
    return TableFile(values)


def read_array(path: pathlib.Path, array: str | None = None) -> np.ndarray:
    """An array of numbers from an npy or npz file, or a table."""
    kind = _kind(path)
    if kind == ".mtx":
        return _stored_entries(path).toarray()
    if kind not in (".npy", ".npz"):
        return np.asarray(read_table(path, None, None).values)
    try:
        with open(path, "rb") as file:
            loaded = np.load(file, allow_pickle=False)
            values = _member(path, loaded, array) if kind == ".npz" else loaded
    except OSError as error:
        raise _unreadable(path, error) from error
    except (ValueError, EOFError) as error:
        raise Refusal(f"{path} is not a file of numbers in NumPy's format.") from error
    if values.dtype.kind not in "fiub":
        raise Refusal(f"{path} holds entries of type {values.dtype}; numbers are needed.")
    if values.size == 0:
        raise Refusal(f"{path} holds no entries.")
    return values.astype(np.float64)


def read_columns(path: pathlib.Path, names: Sequence[str]) -> list[list[str]]:
    """Columns of a text or parquet file, by name, as text."""
    kind = _kind(path)
    if kind not in (*_TEXT, ".parquet"):
        raise Refusal(f"--columns names columns of a table; {path} is none with names.")
    header, columns = _columns(path, kind)
    if header is None:
        raise Refusal(f"{path} has no line with the names of its columns.")
    absent = [name for name in names if name not in header]
    if absent:
        raise Refusal(f"{path} has no column {absent[0]!r}; it has: {', '.join(header)}.")
    return [columns[header.index(name)] for name in names]


def as_numbers(path: pathlib.Path, name: str, texts: Sequence[str], first_line: int) -> np.ndarray:
    """A column as numbers, NaN where something is missing."""
    numbers = np.empty(len(texts))
    for line, text in enumerate(texts):
        number = _number(text)
        if number is None:
            raise Refusal(
                f"Column {name!r} of {path} holds text, {text.strip()[:40]!r} in line "
                f"{line + first_line}, where a number should be."
            )
        numbers[line] = number
    return numbers


def _kind(path: pathlib.Path) -> str:
    kind = path.suffix.lower()
    if kind not in _FORMATS:
        raise Refusal(
            f"{path} is of an unknown format; files end in {', '.join(_FORMATS[:-1])} or .parquet."
        )
    if not path.is_file():
        raise Refusal(f"There is no file {path}.")
    return kind


def _columns(path: pathlib.Path, kind: str) -> tuple[list[str] | None, list[list[str]]]:
    """Names, if there are any, and columns as text."""
    return _parquet(path) if kind == ".parquet" else _text(path)


def _text(path: pathlib.Path) -> tuple[list[str] | None, list[list[str]]]:
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            first = file.readline()
            separator = max(",;\t", key=first.count)
            file.seek(0)
            lines = [line for line in csv.reader(file, delimiter=separator) if any(line)]
    except UnicodeDecodeError as error:
        raise Refusal(f"{path} is not a text in UTF-8.") from error
    except csv.Error as error:
        raise Refusal(f"{path} cannot be read as a table: {error}.") from error
    except OSError as error:
        raise _unreadable(path, error) from error
    if not lines:
        raise Refusal(f"{path} is empty.")
    if separator == ";":
        lines = [[_with_point(entry) for entry in line] for line in lines]
    width = len(lines[0])
    uneven = next((k for k, line in enumerate(lines) if len(line) != width), None)
    if uneven is not None:
        raise Refusal(
            f"Line {uneven + 1} of {path} has {len(lines[uneven])} entries, the first {width}."
        )
    named = any(_number(entry) is None for entry in lines[0])
    header = [entry.strip() for entry in lines[0]] if named else None
    body = lines[1:] if named else lines
    if not body:
        raise Refusal(f"{path} has a line of names, but no data.")
    return header, [list(column) for column in zip(*body, strict=True)]


def _parquet(path: pathlib.Path) -> tuple[list[str], list[list[str]]]:
    try:
        from pyarrow import parquet  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise Refusal("Parquet files need the package pyarrow: pip install pyarrow.") from error
    try:
        table = parquet.read_table(path)
    except Exception as error:
        raise Refusal(f"{path} cannot be read as a parquet file.") from error
    if table.num_rows == 0:
        raise Refusal(f"{path} is empty.")
    columns = [
        ["" if entry is None else str(entry) for entry in column.to_pylist()]
        for column in table.columns
    ]
    return list(table.column_names), columns


def _numeric_table(
    path: pathlib.Path, header: list[str] | None, columns: list[list[str]], labels: str | None
) -> TableFile:
    names = header or [str(k + 1) for k in range(len(columns))]
    found = None
    if labels is not None:
        if labels not in names:
            raise Refusal(f"{path} has no column {labels!r}; it has: {', '.join(names)}.")
        place = names.index(labels)
        found = columns[place]
        columns = columns[:place] + columns[place + 1 :]
        names = names[:place] + names[place + 1 :]
    first_line = 1 if header is None else 2
    try:
        numbers = [
            as_numbers(path, name, column, first_line)
            for name, column in zip(names, columns, strict=True)
        ]
    except Refusal as refusal:
        hint = "" if labels else " If that column labels the rows, name it with --labels."
        raise Refusal(f"{refusal}{hint}") from refusal
    if not numbers:
        raise Refusal(f"{path} holds labels, but no numbers.")
    return TableFile(
        np.stack(numbers, axis=1), None if header is None else names, found, labels or ""
    )


def _number(text: str) -> float | None:
    """A number, NaN for what is missing, None for what is neither."""
    text = text.strip()
    if text.lower() in _MISSING:
        return float("nan")
    try:
        number = float(text)
    except ValueError:
        return None
    return number if np.isfinite(number) else None


def _with_point(text: str) -> str:
    """A number with a decimal comma, as files with semicolons have it, with a point."""
    pointed = text.replace(",", ".")
    return text if _number(pointed) is None else pointed


def _stored_entries(path: pathlib.Path) -> Any:
    try:
        matrix = io.mmread(str(path))
    except (ValueError, OSError, StopIteration) as error:
        raise Refusal(f"{path} is not a file in the Matrix Market format.") from error
    return sparse.coo_array(matrix).astype(np.float64)


def _member(path: pathlib.Path, archive: Any, name: str | None) -> np.ndarray:
    names = list(archive.keys())
    if name is None and len(names) != 1:
        raise Refusal(f"{path} holds {', '.join(names)}; say which with --array.")
    if name is not None and name not in names:
        raise Refusal(f"{path} holds no array {name!r}; it holds {', '.join(names)}.")
    return archive[name or names[0]]


def _unreadable(path: pathlib.Path, error: OSError) -> Refusal:
    return Refusal(f"{path} cannot be read: {error.strerror}.")
