"""Requirements on data before a fit, with messages in terms of the file."""

import math

import numpy as np

from ._files import Refusal
from ._outcome import Outcome, listed
from ._reading import LIST_HINT, TableFile


def contents(table: TableFile) -> str:
    """A description of a table in one sentence."""
    height, width = table.values.shape
    holes = missing(int(np.sum(np.isnan(table.values))), height * width)
    return f"{table.path.name}: {counted(height, 'row')}, {counted(width, 'column')}, {holes}."


def missing(holes: int, size: int) -> str:
    """The number of missing entries, in words."""
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
    """Refuse a table without values."""
    if np.all(np.isnan(table.values)):
        raise Refusal(f"{table.path} contains no values: every entry is missing.")


def require_all_values(table: TableFile) -> None:
    """Refuse a table with missing values."""
    holes = np.argwhere(np.isnan(table.values)).tolist()
    if holes:
        told = listed(
            range(len(holes)),
            lambda k: f"{table.column_name(holes[k][1])}, {table.row_name(holes[k][0])}",
            "; ",
        )
        raise Refusal(f"{table.path} has no value in {told}; missing values are not allowed here.")


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
    """Note the contents of a table, and how it was read."""
    outcome.note(contents(table))
    for sentence in table.notes:
        outcome.note(sentence)
    empty = np.flatnonzero(np.all(np.isnan(table.values), axis=1))
    if len(empty):
        outcome.note(
            f"There are no values in {listed(empty, table.row_name)} of {table.path.name}; typical "
            "values of the columns are filled in."
        )


def note_likely_list(outcome: Outcome, table: TableFile) -> None:
    """Note how to read a list of entries, if a narrow table of integers may be one."""
    values, whole = table.values, table.whole
    if whole is not None and values.shape[1] in (3, 4) and np.all(values == np.round(values)):
        names = whole.names or [str(k + 1) for k in range(len(whole.cells))]
        outcome.note(
            f"{table.path.name} is read as a table. If it is a list of entries, name the columns "
            f"with rows, columns and values: --columns {','.join(names[:3])}."
        )


def possible_rank(
    outcome: Outcome, rank: int | None, shape: tuple[int, ...], option: str = "--rank"
) -> int | None:
    """The number of terms, if given; with a note, at most the largest rank of this shape."""
    largest = math.prod(shape) // max(shape)
    if rank is None or rank <= largest:
        return rank
    outcome.note(
        f"Arrays of shape {' × '.join(map(str, shape))} have rank at most {largest}: {option} "
        f"{rank} is reduced to {largest}."
    )
    return largest
