"""What data must have to be worth a fit, said in terms of their file."""

import math
from collections.abc import Callable

import numpy as np
from scipy import sparse

from ._files import Refusal
from ._outcome import Outcome
from ._reading import TableFile

_ROWS, _COLUMNS = 0, 1


def contents(table: TableFile) -> str:
    """What a table has, in one sentence."""
    height, width = table.values.shape
    holes = missing(height * width - int(np.sum(_known(table, _ROWS))), height * width)
    return f"{table.path.name}: {counted(height, 'row')}, {counted(width, 'column')}, {holes}."


def missing(holes: int, size: int) -> str:
    """How many entries are missing, in words."""
    return f"{holes} of {size} entries missing" if holes else "no entry missing"


def counted(count: int, noun: str) -> str:
    """A number with its noun."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def require_rows(table: TableFile, least: int) -> None:
    """Refuse a table with too few rows."""
    height = table.values.shape[0]
    if height < least:
        raise Refusal(
            f"{table.path} has {counted(height, 'row')} of numbers; at least {least} are needed."
        )


def require_values(table: TableFile) -> None:
    """Refuse a table of nothing but holes."""
    if not np.any(_known(table, _ROWS)):
        raise Refusal(f"{table.path} holds no values: every entry is missing.")


def require_all_values(table: TableFile) -> None:
    """Refuse a table with holes."""
    if not sparse.issparse(table.values):
        holes = np.argwhere(np.isnan(table.values))
        if len(holes):
            row, column = map(int, holes[0])
            raise Refusal(
                f"{table.path} has no value in {table.column_name(column)}, "
                f"{table.row_name(row)}; holes are not allowed here."
            )


def refuse_empty_columns(table: TableFile) -> None:
    """Refuse a table with columns that say nothing: nothing is to be said about them."""
    empty = np.flatnonzero(_known(table, _COLUMNS) == 0)
    if len(empty):
        raise Refusal(
            f"There are no values in {_listed(empty, table.column_name)} of {table.path}: leave "
            f"{'it' if len(empty) == 1 else 'them'} out."
        )


def note_empty_rows(outcome: Outcome, table: TableFile, then: str = "") -> None:
    """Say which rows hold nothing, and what follows (if not said, that there is no verdict)."""
    _note_empty(outcome, table, _known(table, _ROWS), table.row_name, then)


def note_left_out(outcome: Outcome, table: TableFile, rows: np.ndarray) -> None:
    """Say which rows, though they hold values, are not part of the answer."""
    foreign = rows[_known(table, _ROWS)[rows] > 0]
    if len(foreign):
        outcome.remark(
            f"Too little of what is in {_listed(foreign, table.row_name)} of {table.path.name} is "
            "right to be sure of it: the verdict speaks of the other rows."
        )


def note_empty_columns(outcome: Outcome, table: TableFile) -> None:
    """Say which columns hold nothing."""
    _note_empty(outcome, table, _known(table, _COLUMNS), table.column_name)


def note_likely_list(outcome: Outcome, table: TableFile) -> None:
    """Say how to read a list of entries, if a table of three columns without holes may be one."""
    if table.columns is not None and len(table.columns) == 3:
        height, width = table.values.shape
        if np.sum(_known(table, _ROWS)) == height * width:
            outcome.note(
                f"{table.path.name} is read as a table of three columns; if it is a list of "
                f"entries, say --columns {','.join(table.columns)}."
            )


def possible_rank(outcome: Outcome, rank: int, shape: tuple[int, ...]) -> int:
    """The bound on the rank, or, with a note, what no array of the shape exceeds."""
    largest = math.prod(shape) // max(shape)
    if rank <= largest:
        return rank
    outcome.note(
        f"Nothing of shape {' × '.join(map(str, shape))} has a rank above {largest}: --rank {rank} "
        f"is taken for {largest}."
    )
    return largest


def _note_empty(
    outcome: Outcome,
    table: TableFile,
    known: np.ndarray,
    name_of: Callable[[int], str],
    then: str = "",
) -> None:
    empty = np.flatnonzero(known == 0)
    if len(empty):
        them = "it" if len(empty) == 1 else "them"
        outcome.note(
            f"There are no values in {_listed(empty, name_of)} of {table.path.name}: nothing can "
            f"be known about {them}; {then or f'leave {them} out for a verdict on the others'}."
        )


def _known(table: TableFile, side: int) -> np.ndarray:
    """How many values every row (or column) holds."""
    values = table.values
    if not sparse.issparse(values):
        return np.sum(~np.isnan(values), axis=1 - side)
    there = ~np.isnan(values.data)
    return np.bincount(values.coords[side][there], minlength=values.shape[side])


def _listed(places: np.ndarray, name_of: Callable[[int], str]) -> str:
    """The first few by name, the others by their number."""
    names = [name_of(int(place)) for place in places[:3]]
    more = len(places) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")
