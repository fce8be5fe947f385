"""The cells of a file as text, read by pandas, and their positions in the file."""

import csv
import gzip
import pathlib
import re
import warnings
import zipfile
import zlib
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from .._columns import MISSING, as_numbers, texts_of
from .._memory import require_memory
from ._files import Refusal
from ._formats import TEXTS, is_compressed, unreadable

_SEPARATORS = "\t;,"
# Number of lines used to detect the separator.
_LOOKED_AT = 20
# Number of lines of a wrong length that a message lists.
_LISTED = 5
_QUOTED = re.compile(r'"[^"]*"')
_BLANKS = r"\s+"
_SPLIT = "Split the file, or leave columns out."
# A Python string takes 50 bytes plus its letters; its place in an array and the number, 8 each.
_BYTES_OF_A_CELL = 66
# Bytes of a compressed text that are unpacked at once, to find its size.
_PIECE = 2**24
_NOT_UTF_8 = "{} is not a UTF-8 text (in Excel, save it as CSV UTF-8)."


class UnclearHeader(Exception):
    """The first line may contain names or numbers."""


class Cells(NamedTuple):
    """Columns of text, perhaps with names."""

    names: list[str] | None
    columns: list[np.ndarray]
    lines: np.ndarray | None
    """Line number of every row in a text or sheet; None if the format has no lines."""
    separator: str = ","
    note: str = ""

    def row_name(self, row: int) -> str:
        """The position of a row in the file, for messages."""
        return place_in_file(self.lines, row)


def place_in_file(lines: np.ndarray | None, row: int) -> str:
    """A row by its line, or by its number."""
    return f"row {row + 1}" if lines is None else f"line {lines[row]}"


def read_cells(
    path: pathlib.Path, kind: str, header: bool | None, sheet: str | None = None
) -> Cells:
    """Read all cells of a text, Excel or parquet file."""
    if kind == ".parquet":
        return _parquet(path)
    note, separator = "", ","
    if kind in TEXTS:
        if is_compressed(path):
            _require_room_for_compressed(path)
        separator = _separator(path, kind)
        lines, kept, width = _checked_lines(path, separator)
        columns = _text(path, separator, width) if kept.any() else []
    else:
        columns, note = _sheet(path, sheet)
        lines = np.arange(1, len(columns[0]) + 1) if columns else np.zeros(0, int)
        kept = _up_to_last(np.any([column != "" for column in columns], axis=0))
    if not kept.any():
        raise Refusal(f"{path} is empty.")
    columns, lines = [column[kept] for column in columns], lines[kept]
    names, said = _names(path, [str(column[0]) for column in columns], header)
    if names is not None:
        columns, lines = [column[1:] for column in columns], lines[1:]
    if not len(lines):
        raise Refusal(f"{path} has a header, but no data.")
    return Cells(names, columns, lines, separator, f"{note} {said}".strip())


def _up_to_last(filled: np.ndarray) -> np.ndarray:
    """Which rows exist: blank rows do, except at the end."""
    return np.cumsum(np.atleast_1d(filled)[::-1])[::-1] > 0


def _separator(path: pathlib.Path, kind: str) -> str:
    """The separator of the cells in every line, or at least in the first."""
    if kind == ".tsv":
        return "\t"
    with _opened(path) as file:
        try:
            lines = [line for _, line in zip(range(_LOOKED_AT), file, strict=False)]
        except UnicodeDecodeError as error:
            raise Refusal(_NOT_UTF_8.format(path)) from error
    # Separators within quotes do not count.
    lines = [_QUOTED.sub("", line) for line in lines if line.strip()]
    first = lines[0] if lines else ""
    for separator in _SEPARATORS:
        if len({line.count(separator) for line in lines}) == 1 and separator in first:
            return separator
    best = max(_SEPARATORS, key=first.count)
    return _BLANKS if best not in first and " " in first.strip() else best if best in first else ","


def _require_room_for_compressed(path: pathlib.Path) -> None:
    """Refuse a text that unpacks to more than fits in memory; it is unpacked piece by piece."""
    unpacked = 0
    try:
        with gzip.open(path) as file:
            while piece := file.read(_PIECE):
                unpacked += len(piece)
                require_memory((unpacked,), 1, f"What {path} holds", _SPLIT)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise Refusal(f"{path} is not a gzip file, or a part of it is lost.") from error
    except OSError as error:
        raise unreadable(path, error) from error


def _opened(path: pathlib.Path) -> Any:
    try:
        if is_compressed(path):
            return gzip.open(path, "rt", newline="", encoding="utf-8-sig")
        return open(path, newline="", encoding="utf-8-sig")
    except OSError as error:
        raise unreadable(path, error) from error


def _checked_lines(path: pathlib.Path, separator: str) -> tuple[np.ndarray, np.ndarray, int]:
    """Numbers of the lines in which rows end, which of them are rows, and the number of entries.

    All lines of a wrong length are refused together.
    """
    with _opened(path) as file:
        try:
            if separator == _BLANKS:
                found = [(number + 1, len(line.split())) for number, line in enumerate(file)]
            else:
                reader = csv.reader(file, delimiter=separator)
                found = [(reader.line_num, len(line)) for line in reader]
        except UnicodeDecodeError as error:
            raise Refusal(_NOT_UTF_8.format(path)) from error
        except csv.Error as error:
            raise Refusal(f"{path} cannot be read as a table: {error}.") from error
    width = next((width for _, width in found if width), 0)
    uneven = [(line, count) for line, count in found if count not in (0, width)]
    if uneven:
        told = _listed(f"line {line} has {count}" for line, count in uneven)
        raise Refusal(
            f"The lines of {path} differ in their number of entries: the first has {width}, {told}."
        )
    lines, widths = (
        (np.array(each, int) for each in zip(*found, strict=True))
        if found
        else (
            np.zeros(0, int),
            np.zeros(0, int),
        )
    )
    # In a single column a blank line is a missing value.
    return lines, _up_to_last(widths > 0) if width == 1 else widths > 0, width


def _listed(some: Iterable[str]) -> str:
    told = list(some)
    more = len(told) - _LISTED
    return ", ".join(told[:_LISTED]) + (f" and {more} more lines differ" if more > 0 else "")


def _text(path: pathlib.Path, separator: str, width: int) -> list[np.ndarray]:
    import pandas as pd

    try:
        frame = pd.read_csv(
            path,
            sep=separator,
            header=None,
            names=range(width),  # the first line may be empty
            dtype=str,
            na_filter=False,
            skip_blank_lines=False,
            compression="gzip" if is_compressed(path) else None,
            encoding="utf-8-sig",
        )
    except pd.errors.EmptyDataError:
        return []
    except pd.errors.ParserError as error:
        raise Refusal(f"{path} cannot be read as a table: {str(error).strip()}.") from error
    return _as_texts(frame)


def _sheet(path: pathlib.Path, sheet: str | None) -> tuple[list[np.ndarray], str]:
    """The cells of a sheet (default: the first), and a note about the others."""
    import pandas as pd

    try:
        # A sheet is compressed text; its cells take at least as much memory.
        with zipfile.ZipFile(path) as archive:
            unpacked = sum(part.file_size for part in archive.infolist())
        require_memory((unpacked,), 1, f"What {path} holds", _SPLIT)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about styles, which do not matter here
            with pd.ExcelFile(path, engine="openpyxl") as book:
                names = list(map(str, book.sheet_names))
                if sheet is not None and sheet not in names:
                    raise Refusal(f"{path} has no sheet {sheet!r}; it has {', '.join(names)}.")
                frame = book.parse(
                    sheet or names[0], header=None, dtype=object, keep_default_na=False
                )
    except ImportError as error:
        raise Refusal("Excel files need the package openpyxl: pip install openpyxl.") from error
    except OSError as error:
        raise unreadable(path, error) from error
    except (Refusal, MemoryError):
        raise
    except Exception as error:
        raise Refusal(f"{path} cannot be read as an Excel file.") from error
    others = [name for name in names if name != (sheet or names[0])]
    note = f"{path.name}: sheet {sheet or names[0]!r} is read" if others else ""
    note += f", not {', '.join(others)} (--array selects another)." if others else ""
    return _as_texts(frame), note


def _parquet(path: pathlib.Path) -> Cells:
    import pandas as pd

    try:
        _require_room_for_parquet(path)
        frame = pd.read_parquet(path)
    except ImportError as error:
        raise Refusal("Parquet files need the package pyarrow: pip install pyarrow.") from error
    except OSError as error:
        raise unreadable(path, error) from error
    except MemoryError:
        raise
    except Exception as error:
        raise Refusal(f"{path} cannot be read as a parquet file.") from error
    if not len(frame):
        raise Refusal(f"{path} is empty.")
    if frame.index.name is not None:  # a named index is a column
        frame = frame.reset_index()
    return Cells(list(map(str, frame.columns)), _as_texts(frame), None)


def _require_room_for_parquet(path: pathlib.Path) -> None:
    """Refuse a file whose cells do not fit in memory, according to its metadata."""
    from pyarrow import parquet  # pyright: ignore[reportMissingImports]

    facts = parquet.read_metadata(path)
    shape = facts.num_rows, facts.num_columns
    require_memory(shape, _BYTES_OF_A_CELL, f"The table in {path}", _SPLIT)


def _as_texts(frame: Any) -> list[np.ndarray]:
    """Columns of a data frame as arrays of text; empty for missing values."""
    columns = (frame.iloc[:, place].astype(object) for place in range(frame.shape[1]))
    return [texts_of(column.tolist()) for column in columns]


def _names(
    path: pathlib.Path, first: list[str], header: bool | None
) -> tuple[list[str] | None, str]:
    """The first line if it is a header, and a note about this.

    It is a header if all cells are text, or if those that are not count up, as years do; also if
    it is 0, 1, 2, 3, ..., as pandas names columns without names.
    """
    first = [entry.strip() for entry in first]
    if header is not None:
        return first if header else None, ""
    if _counts_up(first):
        return first, "The first line is read as a header, since it counts up (else --no-header)."
    some = [entry for entry in first if entry.lower() not in MISSING]
    texts = len(as_numbers([np.array(some, object)])[0].unreadable)
    if 0 < texts < len(some):
        raise UnclearHeader(
            f"It is not clear whether the first line of {path} contains names or numbers"
        )
    return first if texts else None, ""


def _counts_up(first: list[str]) -> bool:
    """Whether there are texts, followed by at least three consecutive integers.

    After a blank corner, as pandas writes it, one integer is enough; without texts, four from 0 on.
    (Three may be an entry of a list: row, column, value.)
    """
    if len(first) > 3 and first == [str(k) for k in range(len(first))]:
        return True
    start = next((k for k, entry in enumerate(first) if entry.isdecimal()), 0)
    rest = first[start:]
    if not start or not all(entry.isdecimal() for entry in rest):
        return False
    consecutive = [int(entry) - k for k, entry in enumerate(rest)]
    return len(set(consecutive)) == 1 and (len(rest) >= 3 or first[:start] == [""])
