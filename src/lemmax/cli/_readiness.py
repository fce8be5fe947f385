"""What data must have to be worth a fit, said in terms of their file."""

import math

import numpy as np

from ._files import Refusal
from ._outcome import Outcome, listed
from ._reading import LIST_HINT, TableFile


def contents(table: TableFile) -> str:
    """What a table has, in one sentence."""
    height, width = table.values.shape
    holes = missing(int(np.sum(np.isnan(table.values))), height * width)
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
    if np.all(np.isnan(table.values)):
        raise Refusal(f"{table.path} holds no values: every entry is missing.")


def require_all_values(table: TableFile) -> None:
    """Refuse a table with holes."""
    holes = np.argwhere(np.isnan(table.values)).tolist()
    if holes:
        told = listed(
            range(len(holes)),
            lambda k: f"{table.column_name(holes[k][1])}, {table.row_name(holes[k][0])}",
            "; ",
        )
        raise Refusal(f"{table.path} has no value in {told}; holes are not allowed here.")


def require_columns(table: TableFile, least: int) -> None:
    """Refuse a table with too few columns of numbers."""
    width = table.values.shape[1]
    if width < least:
        hint = ""
        names = None if table.whole is None else table.whole.names
        if names is not None and len(names) == 3:
            hint = LIST_HINT.format(table.path.name, ",".join(names))
        raise Refusal(
            f"{table.path} has {counted(width, 'column')} of numbers; at least {least} are "
            f"needed.{hint}"
        )


def note_reading(outcome: Outcome, table: TableFile) -> None:
    """Say what a table has, and how it was read."""
    outcome.note(contents(table))
    for sentence in table.notes:
        outcome.note(sentence)
    empty = np.flatnonzero(np.all(np.isnan(table.values), axis=1))
    if len(empty):
        outcome.note(
            f"There are no values in {listed(empty, table.row_name)} of {table.path.name}: what "
            "is typical of the columns stands there."
        )


def note_likely_list(outcome: Outcome, table: TableFile) -> None:
    """Say how to read a list of entries, if a narrow table of whole numbers may be one."""
    values, whole = table.values, table.whole
    if whole is not None and values.shape[1] in (3, 4) and np.all(values == np.round(values)):
        names = whole.names or [str(k + 1) for k in range(len(whole.cells))]
        outcome.note(
            f"{table.path.name} is read as a table. If it is a list of entries, say which columns "
            f"have rows, columns and values: --columns {','.join(names[:3])}."
        )


def possible_rank(
    outcome: Outcome, rank: int | None, shape: tuple[int, ...], option: str = "--rank"
) -> int | None:
    """The number of terms, if it is given, or, with a note, what no array of the shape exceeds."""
    largest = math.prod(shape) // max(shape)
    if rank is None or rank <= largest:
        return rank
    outcome.note(
        f"Nothing of shape {' × '.join(map(str, shape))} has a rank above {largest}: {option} "
        f"{rank} is taken for {largest}."
    )
    return largest
