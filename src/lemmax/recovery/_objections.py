"""Reasons why an answer is not certified: sentences that may name rows and columns."""

from collections.abc import Callable, Sequence
from typing import Any

# The number of rows that are named.
_LISTED = 5

Lines = tuple[list[int], ...]
"""Rows and columns of a table, or slices of a tensor: one list for each mode."""
Naming = Callable[[int], str]
"""The name of a row (or column), by its number."""


class Objection(str):
    """A sentence in which ``{}`` stands for rows and columns."""

    sentence: str
    lines: Lines
    unseen: bool
    """Whether the data do not determine the answer, however long the search."""

    def __new__(cls, sentence: str, lines: Lines = (), unseen: bool = False) -> "Objection":
        """With rows and columns by their numbers."""
        made = super().__new__(cls, sentence.format(_numbered(lines)))
        made.sentence, made.lines, made.unseen = sentence, lines, unseen
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.sentence, self.lines, self.unseen)

    def named(self, names: Sequence[Naming]) -> str:
        """With names of rows and columns."""
        lines = zip(names, self.lines, strict=False)
        listed = [_listed([name(k) for k in some]) for name, some in lines]
        return self.sentence.format(" and ".join(part for part in listed if part))


def _numbered(lines: Lines) -> str:
    """Some rows and columns, or slices of a tensor, in words."""
    kinds = ("row{} {}", "column{} {}")
    if len(lines) != 2:
        kinds = [f"slice{{}} {{}} of mode {mode}" for mode in range(len(lines))]
    parts = [
        kind.format("s" if len(some) > 1 else "", _listed([str(k) for k in some]))
        for kind, some in zip(kinds, lines, strict=True)
        if some
    ]
    return " and ".join(parts)


def _listed(names: list[str]) -> str:
    return ", ".join(names[:_LISTED]) + ("..." if len(names) > _LISTED else "")
