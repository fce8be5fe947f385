"""Tables and columns of files. Unreadable contents are refused with a message, or noted."""

import csv
import dataclasses
import io
import pathlib
import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from .._columns import UNCLEAR_DOTS, Spelling, as_numbers, entry_columns, listed_cells
from .._memory import require_memory
from ._arrays import read_array, read_stored_entries, refuse_member
from ._cells import Cells, UnclearHeader, place_in_file, read_cells
from ._files import Refusal
from ._formats import NAMED, kind_of

_NUMBERS_ALONE = "save only the numbers, as npy or as a text without a header"
_WHOLE = re.compile(r"[+-]?\d+")
LIST_HINT = (
    " If the file is a list of entries, name its row, column and value: "
    "lemmax complete {} --columns {}."
)


class Whole(NamedTuple):
    """All columns of a file, some of which are fitted; the others are carried through."""

    names: list[str] | None
    cells: list[np.ndarray]
    """The contents as in the file: text, or numbers of an array."""
    fitted: list[int]
    spellings: list[Spelling]
    """Positions of the fitted columns."""
    separator: str = ","


@dataclasses.dataclass(frozen=True)
class TableFile:
    """The numbers of a file, with column names and row labels if there are any."""

    path: pathlib.Path
    values: Any
    """NaN for missing values; sparse if the file stores entries."""
    columns: list[str] | None = None
    labels: list[str] | None = None
    lines: np.ndarray | None = None
    """Line numbers of the rows in a text or sheet."""
    whole: Whole | None = None
    notes: tuple[str, ...] = ()
    """Notes about how the file was read."""

    def row_name(self, row: int) -> str:
        """The position of a row in the file, for messages."""
        place = place_in_file(self.lines, row)
        return place if self.labels is None else f"{place} ({self.labels[row].strip()})"

    def column_name(self, column: int) -> str:
        """A column by its name, or by its number."""
        return f"column {column + 1 if self.columns is None else repr(self.columns[column])}"

    def row_labels(self) -> list[str]:
        """Labels of all rows, or their numbers."""
        return self.labels or [str(row + 1) for row in range(self.values.shape[0])]

    def column_labels(self) -> list[str]:
        """Names of all fitted columns, or their numbers."""
        return self.columns or [f"column {k + 1}" for k in range(self.values.shape[1])]

    def was(self, row: int, column: int) -> str:
        """The contents of a fitted cell in the file."""
        assert self.whole is not None
        cell = self.whole.cells[self.whole.fitted[column]][row]
        return cell.strip() if isinstance(cell, str) else Spelling().write(cell)


def read_table(
    path: pathlib.Path,
    labels: str | None = None,
    array: str | None = None,
    header: bool | None = None,
    has_options: bool = True,
    vector: bool = False,
    only: str | None = None,
    drop: str | None = None,
) -> TableFile:
    """Read a table of numbers and other columns.

    Parameters
    ----------
    path : Path
    labels : str, optional
        Name of the column that labels the rows.
    array : str, optional
        Array of an npz file, or sheet of an Excel file.
    header : bool, optional
        Whether the first line of a text is a header. Default: detected.
    has_options : bool
        Whether the command has the options above, and carries columns of text through. Otherwise
        such columns are refused.
    vector : bool
        Whether a one-dimensional array is a table with one column.
    only, drop : str, optional
        Names of columns to fit, and of columns not to fit, separated by commas.
    """
    kind = kind_of(path)
    refuse_member(path, kind, array)
    if kind in NAMED:
        try:
            cells = read_cells(path, kind, header, array)
        except UnclearHeader as unclear:
            cure = "add --header or --no-header" if has_options else _NUMBERS_ALONE
            raise Refusal(f"{unclear}: {cure}.") from unclear
        if has_options and labels is None and cells.names and not cells.names[0]:
            # pandas and R write row labels like this.
            labels = ""
            note = "The first column, which has no name, labels the rows."
            cells = cells._replace(note=f"{cells.note} {note}".strip())
        chosen = _Choice(path, cells.names, len(cells.columns), labels, only, drop)
        return _chosen(path, cells, chosen, carries=has_options)
    if labels is not None:
        raise Refusal(f"--labels needs a table with column names; {path} has none.")
    if kind == ".mtx":
        if only is not None or drop is not None:
            raise Refusal(
                f"--only and --drop select columns of a table; {path} is a list of entries."
            )
        return TableFile(path, read_stored_entries(path))
    values = read_array(path, array, has_options)
    if values.ndim == 1 and vector:
        values = values[:, None]
    if values.ndim != 2:
        raise Refusal(
            f"{path} contains an array of shape {values.shape}; a table has two dimensions"
            + (": use lemmax cp for a tensor." if values.ndim > 2 and has_options else ".")
        )
    if not has_options:
        return TableFile(path, values)
    chosen = _Choice(path, None, values.shape[1], None, only, drop)
    return _array_table(path, values, chosen)


def as_dense(table: TableFile) -> TableFile:
    """The dense table, with NaN for entries that are not stored."""
    if table.whole is not None:
        return table
    values: np.ndarray = table.values
    if sparse.issparse(table.values):
        entries = table.values.tocoo()
        cure = "Use lemmax complete for a list of entries."
        require_memory(entries.shape, 8, f"The table in {table.path}", cure)
        values = np.full(entries.shape, np.nan)
        values[entries.coords] = entries.data
    chosen = _Choice(table.path, None, values.shape[1], None, None, None)
    return _array_table(table.path, values, chosen)


def read_columns(
    path: pathlib.Path,
    names: Sequence[str],
    sheet: str | None = None,
    header: bool | None = None,
) -> Cells:
    """Columns of a file as text, without surrounding blanks.

    Columns are given by name, or by number (from 1) if there is no header. Unless ``header`` says
    so, they are numbers if not all of them occur in the first line.
    """
    kind = kind_of(path)
    refuse_member(path, kind, sheet)
    if kind not in NAMED:
        raise Refusal(
            f"{path} has no columns with names; a list of entries is a csv, tsv, txt, xlsx or "
            "parquet file."
        )
    cells = read_cells(path, kind, header is not False, sheet)
    numbers = _numbered(cells)
    if header is None and not set(names) <= set(cells.names or ()) and set(names) <= set(numbers):
        cells = read_cells(path, kind, False, sheet)
    there = cells.names or numbers
    absent = [name for name in names if name not in there]
    if absent:
        raise Refusal(f"{path} has no {_columns(absent)}; it has: {', '.join(there)}.")
    found = [cells.columns[there.index(name)] for name in names]
    stripped = [np.array([text.strip() for text in column], object) for column in found]
    return cells._replace(names=list(names), columns=stripped)


def _numbered(cells: Cells) -> list[str]:
    """Names of columns without a header."""
    return [str(k + 1) for k in range(len(cells.columns))]


def columns_of_list(
    path: pathlib.Path, sheet: str | None = None, header: bool | None = None
) -> str | None:
    """Names, or numbers, of row, column and value if a file is a list of entries.

    Without a header, integers do not count as ids.
    """
    kind = kind_of(path)
    if kind not in NAMED:
        return None
    try:
        cells = read_cells(path, kind, header, sheet)
    except UnclearHeader:
        return None
    names = cells.names or _numbered(cells)
    if len(set(names)) < len(names):
        return None
    found = as_numbers(cells.columns, cells.separator == ";")

    def are_ids(k: int) -> bool:
        if found[k].is_numeric:
            return cells.names is not None and all(
                _WHOLE.fullmatch(text.strip()) for text in cells.columns[k]
            )
        return len(found[k].unreadable) > 0

    places = entry_columns(names, are_ids)
    if places is None or not found[places[2]].is_numeric:
        return None
    return _joined(names[k] for k in places)


class _Choice:
    """The columns that may be fitted, by the options of a command."""

    def __init__(
        self,
        path: pathlib.Path,
        header: list[str] | None,
        width: int,
        labels: str | None,
        only: str | None,
        drop: str | None,
    ):
        self.names = header or [str(k + 1) for k in range(width)]
        asked = {"--labels": [] if labels is None else [labels]}
        asked |= {"--only": split_names(only), "--drop": split_names(drop)}
        absent = [name for some in asked.values() for name in some if name not in self.names]
        if absent:
            raise Refusal(f"{path} has no {_columns(absent)}; it has: {', '.join(self.names)}.")
        self.only = asked["--only"]
        left_out = {*asked["--drop"], *asked["--labels"]}
        self.columns = [
            k
            for k, name in enumerate(self.names)
            if name not in left_out and (only is None or name in self.only)
        ]
        self.labels = None if labels is None else self.names.index(labels)
        if not self.columns:
            raise Refusal(f"No column of {path} is left to fit.")


def split_names(text: str | None) -> list[str]:
    """Names separated by commas; names with a comma are quoted."""
    return [] if text is None else [name.strip() for name in next(csv.reader([text]), [])]


def _joined(names: Iterable[str]) -> str:
    """The inverse of `split_names`."""
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(names)
    return text.getvalue()


def _columns(names: Iterable[str]) -> str:
    names = [repr(name) for name in names]
    return f"{'column' if len(names) == 1 else 'columns'} {', '.join(names)}"


def _chosen(path: pathlib.Path, cells: Cells, chosen: _Choice, carries: bool) -> TableFile:
    """The columns of numbers among those that may be fitted."""
    names = chosen.names
    found = dict(
        zip(
            chosen.columns,
            as_numbers([cells.columns[k] for k in chosen.columns], cells.separator == ";"),
            strict=True,
        )
    )
    # If nothing is carried through, a column without values has missing values only.
    fitted = [
        k for k, each in found.items() if each.is_numeric or not (carries or len(each.unreadable))
    ]
    texts = [k for k, column in found.items() if not column.is_numeric and len(column.unreadable)]
    empty = [k for k in found if k not in fitted and k not in texts]

    def told(some: Sequence[int]) -> str:
        return listed_cells(
            [names[k] for k in some],
            [cells.columns[k] for k in some],
            [found[k] for k in some],
            cells.row_name,
        )

    if not carries and any(len(column.unreadable) for column in found.values()):
        raise Refusal(f"{path} contains text where numbers are expected: {told(list(found))}.")
    asked_for = [k for k in texts if names[k] in chosen.only]
    if asked_for:
        raise Refusal(f"--only names columns of {path} that contain text: {told(asked_for)}.")
    if not fitted and texts:
        raise Refusal(
            f"{path} has no column of numbers: {told(texts)}." + _hint(path, names, cells.names)
        )
    if not fitted:
        raise Refusal(f"{path} contains no values: every entry is missing.")
    notes = [cells.note, *_notes(names, texts, empty, {k: found[k].spelling for k in fitted})]
    bad = [k for k in fitted if len(found[k].unreadable)]
    if bad:
        notes.append(f"{path.name}: cells that are not numbers, treated as missing: {told(bad)}.")
    return TableFile(
        path,
        np.stack([found[k].numbers for k in fitted], axis=1),
        None if cells.names is None and len(fitted) == len(names) else [names[k] for k in fitted],
        _labels(cells.columns, chosen.labels, texts),
        cells.lines,
        Whole(
            cells.names,
            cells.columns,
            fitted,
            [found[k].spelling for k in fitted],
            ";" if cells.separator == ";" else ",",
        ),
        tuple(filter(None, notes)),
    )


def _labels(columns: list[np.ndarray], asked: int | None, texts: list[int]) -> list[str] | None:
    """Labels of rows: the given column, or the first column of distinct texts."""
    candidates = texts if asked is None else [asked]
    for k in candidates:
        if asked is not None or len(set(columns[k])) == len(columns[k]):
            return columns[k].tolist()
    return None


def _hint(path: pathlib.Path, names: list[str], header: list[str] | None) -> str:
    is_list = header is not None and len(names) == 3
    return LIST_HINT.format(path.name, _joined(names)) if is_list else ""


def _notes(
    names: list[str], texts: list[int], empty: list[int], spellings: dict[int, Spelling]
) -> list[str]:
    """Notes about columns that are carried through, and unusual spellings of numbers."""
    notes = []
    for some, why in ((texts, "contain text"), (empty, "contain no values")):
        if some:
            one = len(some) == 1
            does = (
                f"{why.replace('contain', 'contains') if one else why} and {'is' if one else 'are'}"
            )
            notes.append(f"C{_columns(names[k] for k in some)[1:]} {does} carried through.")
    kinds = (
        ("decimal commas", [k for k, each in spellings.items() if each.comma]),
        ("thousands separators", [k for k, each in spellings.items() if each.grouped]),
        ("per cent signs", [k for k, each in spellings.items() if each.per_cent]),
    )
    read = [f"{kind} in {_columns(names[k] for k in some)}" for kind, some in kinds if some]
    if read:
        notes.append(f"Read as numbers: {'; '.join(read)}.")
    unclear = [names[k] for k, each in spellings.items() if each.unclear]
    if unclear:
        notes.append(UNCLEAR_DOTS.format(_columns(unclear)))
    return notes


def _array_table(path: pathlib.Path, values: np.ndarray, chosen: _Choice) -> TableFile:
    """Columns of an array with values, among those that may be fitted."""
    empty = [k for k in chosen.columns if np.all(np.isnan(values[:, k]))]
    fitted = [k for k in chosen.columns if k not in set(empty)]
    if not fitted:
        raise Refusal(f"{path} contains no values: every entry is missing.")
    return TableFile(
        path,
        values[:, fitted],
        None if len(fitted) == values.shape[1] else [chosen.names[k] for k in fitted],
        whole=Whole(None, list(values.T), fitted, [Spelling()] * len(fitted)),
        notes=tuple(_notes(chosen.names, [], empty, {})),
    )
