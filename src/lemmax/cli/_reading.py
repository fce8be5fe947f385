"""Tables and lists of entries. What cannot be read is refused in one sentence."""

import csv
import pathlib
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ._arrays import read_array, read_stored_entries, refuse_member
from ._files import Refusal
from ._formats import TEXTS, kind_of, unreadable

_MISSING = ("NA", "NaN", "N/A", "null", "none", "missing", "?")
_MISSING_LOWER = frozenset(("", *(marker.lower() for marker in _MISSING)))
# Numbers as people write them, and how they are to be written.
_MISSPELT = (
    (re.compile(r"[+-]?\d[\d.,]*\s*%"), "without the per cent sign"),
    (
        re.compile(r"[+-]?\d{1,3}([,.' \xa0\u202f])\d{3}(\1\d{3})*([.,]\d+)?"),
        "without the thousands separator",
    ),
    (re.compile(r"[+-]?\d+,\d+"), "with a decimal point"),
)
_NUMBERS_ALONE = "save the numbers alone, as npy or as a text without names"


class _Unclear(Exception):
    """A first line that may hold names or numbers."""


class _OnlyText(Refusal):
    """A column without a number."""


class TableFile(NamedTuple):
    """A table with the names of its columns and the labels of its rows, where it has any."""

    path: pathlib.Path
    values: Any
    """NaN where something is missing; sparse if it came from a file of stored entries."""
    columns: list[str] | None = None
    labels: list[str] | None = None
    label_name: str = ""
    first_line: int | None = None
    """Where a text has its first row."""

    def row_name(self, row: int) -> str:
        """A row as who looks into the file finds it."""
        place = f"row {row + 1}" if self.first_line is None else f"line {row + self.first_line}"
        return place if self.labels is None else f"{place} ({self.labels[row].strip()})"

    def column_name(self, column: int) -> str:
        """A column by its name, or by its number."""
        return f"column {column + 1 if self.columns is None else repr(self.columns[column])}"


def read_table(
    path: pathlib.Path,
    labels: str | None = None,
    array: str | None = None,
    header: bool | None = None,
    has_options: bool = True,
    vector: bool = False,
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
    has_options : bool
        Whether the command has the options above, so that a refusal may point to them.
    vector : bool
        Whether an array of one dimension is a table of one column.
    """
    kind = kind_of(path)
    refuse_member(path, kind, array)
    if kind in TEXTS or kind == ".parquet":
        try:
            names, columns, first_line = _columns(path, kind, header)
        except _Unclear as unclear:
            cure = "say --header or --no-header" if has_options else _NUMBERS_ALONE
            raise Refusal(f"{unclear}: {cure}.") from unclear
        try:
            return _numeric_table(path, names, columns, labels, first_line, has_options)
        except _OnlyText as refusal:
            hint = _hint_about_text(path, names, columns) if has_options and not labels else ""
            raise Refusal(f"{refusal}{hint}") from refusal
    if labels is not None:
        raise Refusal(f"--labels names a column of a table with names; {path} has none.")
    if kind == ".mtx":
        return TableFile(path, read_stored_entries(path))
    values = read_array(path, array, has_options)
    if values.ndim == 1 and vector:
        values = values[:, None]
    if values.ndim != 2:
        raise Refusal(
            f"{path} holds an array of shape {values.shape}; a table has two dimensions"
            + (": a tensor is for lemmax cp." if values.ndim > 2 and has_options else ".")
        )
    return TableFile(path, values)


def read_columns(path: pathlib.Path, names: Sequence[str]) -> list[list[str]]:
    """Columns of a text or parquet file, by name, as text."""
    kind = kind_of(path)
    if kind not in (*TEXTS, ".parquet"):
        raise Refusal(
            f"{path} has no columns with names; a list of entries is a csv, tsv, txt or parquet "
            "file."
        )
    header, columns, _ = _columns(path, kind, True)
    if header is None:
        raise Refusal(f"{path} has no line with the names of its columns.")
    absent = [name for name in names if name not in header]
    if absent:
        raise Refusal(f"{path} has no column {absent[0]!r}; it has: {', '.join(header)}.")
    return [columns[header.index(name)] for name in names]


def as_numbers(
    path: pathlib.Path, name: str, texts: Sequence[str], first_line: int, may_miss: bool = True
) -> np.ndarray:
    """A column as numbers, NaN where something is missing."""
    numbers = np.empty(len(texts))
    for line, text in enumerate(texts):
        number = _number(text)
        if number is None:
            raise _not_a_number(f"Column {name!r} of {path}", texts, line, first_line, may_miss)
        if np.isinf(number):
            raise Refusal(
                f"Column {name!r} of {path} holds an infinite value, {text.strip()!r} in line "
                f"{line + first_line}; values must be finite, or blank where they are missing."
            )
        numbers[line] = number
    return numbers


def _not_a_number(
    column: str, texts: Sequence[str], line: int, first_line: int, may_miss: bool
) -> Refusal:
    """What is wrong with the first entry of a column that is not a number."""
    text, place = texts[line].strip()[:40], f"in line {line + first_line}"
    cure = _right_spelling(text)
    if cure:
        return Refusal(f"{column} holds {text!r} {place}: write that number {cure}.")
    sentence = f"{column} holds text, {text!r} {place}, where a number should be."
    if _is_text(texts):
        return _OnlyText(sentence)
    markers = f" What is missing is left blank, or is one of {', '.join(_MISSING)}."
    return Refusal(sentence + (markers if may_miss else ""))


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
        raise unreadable(path, error) from error
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
        raise _Unclear(f"It is not clear whether the first line of {path} holds names or numbers")
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
    may_miss: bool,
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
    numbers = [
        as_numbers(path, name, column, first_line, may_miss)
        for name, column in zip(names, columns, strict=True)
    ]
    if not numbers:
        raise Refusal(f"{path} holds labels, but no numbers.")
    return TableFile(
        path,
        np.stack(numbers, axis=1),
        None if header is None else names,
        found,
        labels or "",
        first_line,
    )


def _hint_about_text(path: pathlib.Path, header: list[str] | None, columns: list[list[str]]) -> str:
    """What columns of nothing but text are likely to be: labels of rows, or a list of entries."""
    names = header or [str(k + 1) for k in range(len(columns))]
    texts = [k for k, column in enumerate(columns) if _is_text(column)]
    if not texts:
        return ""
    example = ",".join(names) if len(columns) == 3 else "user,item,rating"
    entries = (
        " If the file is a list of entries, name its row, column and value: "
        f"lemmax complete {path.name} --columns {example}."
    )
    if len(texts) > 1:
        if header is not None and (len(columns) == 3 or len(texts) == 2):
            return entries
        found = ", ".join(names[k] for k in texts)
        return f" Columns of text: {found}; only one can label the rows (--labels)."
    labelled = f" If that column labels the rows, say --labels {names[texts[0]]}."
    repeated = len(set(columns[texts[0]])) < len(columns[texts[0]])
    # A list has several entries of a row; labels are mostly different.
    return labelled + (entries if header is not None and len(columns) == 3 and repeated else "")


def _is_text(column: Sequence[str]) -> bool:
    """Whether a column holds words, and nothing that is a number or meant to be one."""
    entries = [entry.strip() for entry in column if entry.strip()]
    has_words = any(map(str.isalnum, "".join(entries)))
    return has_words and all(
        _number(entry) is None and not _right_spelling(entry) for entry in entries
    )


def _right_spelling(text: str) -> str:
    """How a number is to be written; nothing if it is none in any spelling."""
    return next((cure for spelling, cure in _MISSPELT if spelling.fullmatch(text)), "")


def _number(text: str) -> float | None:
    """A number, perhaps infinite, NaN for what is missing, None for what is neither."""
    text = text.strip()
    if text.lower() in _MISSING_LOWER:
        return float("nan")
    if "_" in text:  # Python takes these for numbers
        return None
    try:
        return float(text)
    except ValueError:
        return None


def _with_point(text: str) -> str:
    """A number with a decimal comma, as files with semicolons have it, with a point."""
    pointed = text.replace(",", ".")
    return text if _number(pointed) is None else pointed
