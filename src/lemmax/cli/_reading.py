"""Data files: tables, lists of entries, arrays. What cannot be read is refused in one sentence."""

import csv
import pathlib
import zipfile
import zlib
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


def read_table(
    path: pathlib.Path,
    labels: str | None = None,
    array: str | None = None,
    header: bool | None = None,
) -> TableFile:
    """A table of numbers.

    Parameters
    ----------
    path : Path
    labels : str, optional
        Name of the column that labels the rows.
    array : str, optional
        Which array of an npz file.
    header : bool, optional
        Whether the first line of a text has the names of the columns; found out if not given.
    """
    kind = _kind(path)
    if array is not None and kind != ".npz":
        raise Refusal(f"--array names an array of an npz file; {path} is none.")
    if kind in _TEXT or kind == ".parquet":
        names, columns, first_line = _columns(path, kind, header)
        return _numeric_table(path, names, columns, labels, first_line)
    if labels is not None:
        raise Refusal(f"--labels names a column of a table with names; {path} has none.")
    values = _stored_entries(path) if kind == ".mtx" else read_array(path, array)
    if values.ndim != 2:
        raise Refusal(f"{path} holds an array of {values.ndim} dimensions; a table has two.")
    return TableFile(values)


def read_array(path: pathlib.Path, array: str | None = None) -> np.ndarray:
    """An array of numbers from an npy or npz file, or a table."""
    kind = _kind(path)
    if kind not in (".npy", ".npz"):
        values = read_table(path).values
        return values.toarray() if sparse.issparse(values) else np.asarray(values)
    try:
        with open(path, "rb") as file:
            loaded = np.load(file, allow_pickle=False)
            if isinstance(loaded, np.ndarray) == (kind == ".npz"):
                raise Refusal(f"{path} is not in the format that its name says.")
            values = _member(path, loaded, array) if kind == ".npz" else loaded
    except OSError as error:
        raise _unreadable(path, error) from error
    except (ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
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
    header, columns, _ = _columns(path, kind, True)
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


def _columns(
    path: pathlib.Path, kind: str, header: bool | None
) -> tuple[list[str] | None, list[list[str]], int]:
    """Names, if there are any, columns as text, and the line in which they begin."""
    return (*_parquet(path), 1) if kind == ".parquet" else _text(path, kind, header)


def _text(
    path: pathlib.Path, kind: str, header: bool | None
) -> tuple[list[str] | None, list[list[str]], int]:
    lines = _lines(path, kind)
    if not lines:
        raise Refusal(f"{path} is empty.")
    width = len(lines[0])
    uneven = next((k for k, line in enumerate(lines) if len(line) != width), None)
    if uneven is not None:
        raise Refusal(
            f"Line {uneven + 1} of {path} has {len(lines[uneven])} entries, the first {width}."
        )
    names = _names(path, lines, header)
    body = lines if names is None else lines[1:]
    if not body:
        raise Refusal(f"{path} has a line of names, but no data.")
    first_line = 1 if names is None else 2
    return names, [list(column) for column in zip(*body, strict=True)], first_line


def _lines(path: pathlib.Path, kind: str) -> list[list[str]]:
    """The entries of every line; blank lines at the end are none."""
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            first = file.readline()
            separator = "\t" if kind == ".tsv" else max(",;\t", key=first.count)
            file.seek(0)
            if separator not in first and " " in first.strip() and '"' not in first:
                lines = [line.split() for line in file]
            else:
                lines = list(csv.reader(file, delimiter=separator))
    except UnicodeDecodeError as error:
        raise Refusal(f"{path} is not a text in UTF-8.") from error
    except csv.Error as error:
        raise Refusal(f"{path} cannot be read as a table: {error}.") from error
    except OSError as error:
        raise _unreadable(path, error) from error
    while lines and not lines[-1]:
        lines.pop()
    if lines and len(lines[0]) == 1:  # of a single column, a blank line is a hole
        lines = [line or [""] for line in lines]
    if separator == ";":
        lines = [[_with_point(entry) for entry in line] for line in lines]
    return lines


def _names(path: pathlib.Path, lines: list[list[str]], header: bool | None) -> list[str] | None:
    """The first line, if it holds names: all of it, and not some text among numbers."""
    first = [entry.strip() for entry in lines[0]]
    if header is not None:
        return first if header else None
    some = [entry for entry in first if entry]
    texts = [_number(entry) is None for entry in some]
    # A table with a blank corner and columns that are numbered is one that pandas has written.
    counting = first[0] == "" and some == [str(k) for k in range(len(first) - 1)]
    if counting or (any(texts) and not all(texts)):
        raise Refusal(
            f"It is not clear whether the first line of {path} holds names or numbers: say "
            "--header or --no-header."
        )
    return first if any(texts) else None


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
    path: pathlib.Path,
    header: list[str] | None,
    columns: list[list[str]],
    labels: str | None,
    first_line: int,
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
    if "_" in text:  # Python takes these for numbers
        return None
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
    """A dense array as it is, or a sparse one, of which what is not stored is missing."""
    try:
        matrix = io.mmread(str(path))
    except (ValueError, OSError, StopIteration, IndexError) as error:
        raise Refusal(f"{path} is not a file in the Matrix Market format.") from error
    if matrix.dtype.kind == "c":
        raise Refusal(f"{path} holds complex numbers; real ones are needed.")
    if sparse.issparse(matrix):
        return sparse.coo_array(matrix).astype(np.float64)
    return np.asarray(matrix, np.float64)


def _member(path: pathlib.Path, archive: Any, name: str | None) -> np.ndarray:
    names = list(archive.keys())
    if name is None and len(names) != 1:
        raise Refusal(f"{path} holds several arrays, {', '.join(names)}; name one (--array).")
    if name is not None and name not in names:
        raise Refusal(f"{path} holds no array {name!r}; it holds {', '.join(names)}.")
    return archive[name or names[0]]


def _unreadable(path: pathlib.Path, error: OSError) -> Refusal:
    return Refusal(f"{path} cannot be read: {error.strerror}.")
