"""Columns of files and data frames: find numeric columns and lists of entries.

Numbers are read as people write them: decimal commas, thousands separators, per cent signs, words
for missing values; true is 1, false is 0.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

_WORDS = (
    "na nan n/a n.a. null none nil missing ? - -- – — . #n/a #na #div/0! #value! #ref! #num! #null!"
)
MISSING = frozenset(("", *_WORDS.split()))
"""Texts that mean a missing value, in lower case."""
_TRUTHS = {"true": "1", "false": "0"}
LARGEST = 1e150
"""Larger values count as unreadable: sums of their squares may overflow."""
# Blanks (also non-breaking ones) and apostrophes separate thousands in either style.
_GROUPS = r"[+-]?(?:\d+|[1-9]\d{{0,2}}(?:[{0} \xa0\u2009\u202f'’]\d{{3}})+)"
_EXPONENT = r"(?:[eE][+-]?\d+)?"
_POINT = re.compile(_GROUPS.format(",") + r"(?:\.\d*)?" + _EXPONENT)
_COMMA = re.compile(_GROUPS.format(".") + r"(?:,\d*)?" + _EXPONENT)
# With all dots before three digits and beside whole hundreds, dots may be either.
_THREE = re.compile(r"[+-]?[1-9]\d{0,2}\.\d{3}")
_WHOLE, _HUNDREDS = re.compile(r"[+-]?\d+"), re.compile(r"[+-]?[1-9]\d{2}")
_BETWEEN = re.compile(r"[ \xa0\u2009\u202f'’]")
_PER_CENT = re.compile(r"\s*%$")
# Number of unreadable cells that a message lists, and characters shown of each.
_LISTED, _LETTERS = 8, 40
# Common names of the columns of a list of entries (row, column, value), singular, without "id".
_ROLES = (
    {"user", "row", "customer"},
    {"item", "movie", "film", "product", "book", "column"},
    {"rating", "value", "score", "star"},
)


class Spelling(NamedTuple):
    """How the numbers of a column are written."""

    comma: bool = False
    """Whether the decimal separator is a comma."""
    per_cent: bool = False
    grouped: bool = False
    """Whether thousands are separated."""
    unclear: bool = False
    """Whether dots that are read as decimal points may separate thousands."""

    def write(self, value: float) -> str:
        """A number with the fewest digits that reproduce it; empty for NaN."""
        if np.isnan(value):
            return ""
        text = repr(float(value)).removesuffix(".0")
        return (text.replace(".", ",") if self.comma else text) + ("%" if self.per_cent else "")


class Column(NamedTuple):
    """A column of text, converted to numbers."""

    numbers: np.ndarray
    """NaN where a value is missing or unreadable."""
    unreadable: np.ndarray
    """Positions of cells that are neither empty nor numbers."""
    spelling: Spelling

    @property
    def is_numeric(self) -> bool:
        """Whether most of its cells are numbers."""
        return int(np.sum(~np.isnan(self.numbers))) > len(self.unreadable)


class _Texts:
    """The distinct texts of a column, without per cent signs, and their positions."""

    def __init__(self, cells: np.ndarray):
        numbered: dict[str, int] = {}
        places = (numbered.setdefault(text, len(numbered)) for text in cells.tolist())
        self.places = np.fromiter(places, np.int64, len(cells))
        self.plain = list(numbered)
        self.numbers = _plain_numbers(self.plain)
        self.missing, self.per_cent = np.zeros(len(self.plain), bool), False
        # Most are plain numbers, and there may be many.
        rest = np.flatnonzero(np.isnan(self.numbers))
        for k in rest:
            text = self.plain[k].strip().replace("\N{MINUS SIGN}", "-")
            text = _TRUTHS.get(text.lower(), text)
            self.missing[k] = text.lower() in MISSING
            self.plain[k] = _PER_CENT.sub("", text)
            self.per_cent |= self.plain[k] != text
        self.numbers[rest] = _plain_numbers([self.plain[k] for k in rest])

    def has_separators(self) -> bool:
        """Whether there are numbers with more separators than a decimal point."""
        rest = (self.plain[k] for k in np.flatnonzero(np.isnan(self.numbers) & ~self.missing))
        return any(_POINT.fullmatch(text) or _COMMA.fullmatch(text) for text in rest)

    def proofs(self) -> tuple[int, int]:
        """How many texts must have a decimal point, and how many a decimal comma."""
        self.plain = [text.strip() for text in self.plain]
        pairs = [
            (_POINT.fullmatch(text) is not None, _COMMA.fullmatch(text) is not None)
            for text in self.plain
        ]
        return pairs.count((True, False)), pairs.count((False, True))

    def dots_are_unclear(self) -> bool:
        """Whether dots may separate thousands: 1.088 beside 908, and nothing else tells."""
        texts = (t.strip() for t, gone in zip(self.plain, self.missing, strict=True) if not gone)
        kinds = set()
        for text in texts:
            if _THREE.fullmatch(text):
                kinds.add("three")
            elif _HUNDREDS.fullmatch(text):
                kinds.add("hundreds")
            elif not _WHOLE.fullmatch(text) or len(text.lstrip("+-")) > 3:
                return False
        return len(kinds) == 2

    def read(self, comma: bool) -> None:
        """Read all numbers in one style."""
        style, between, mark = (_COMMA, ".", ",") if comma else (_POINT, ",", ".")
        texts = [
            _BETWEEN.sub("", text).replace(between, "").replace(mark, ".")
            if style.fullmatch(text)
            else ""
            for text in self.plain
        ]
        numbers = _plain_numbers(texts)
        # Keep plain numbers that the style does not cover, such as .5.
        self.numbers = np.where(np.isnan(numbers), self.numbers, numbers)
        if comma:  # but not decimal points in a column with decimal commas
            pointed = np.array(["." in t and not style.fullmatch(t) for t in self.plain], bool)
            self.numbers = np.where(pointed, np.nan, self.numbers)

    def column(self, spelling: Spelling) -> Column:
        """All cells in their order."""
        large = ~(np.abs(self.numbers) <= LARGEST)
        numbers = np.where(self.missing | large, np.nan, self.numbers)
        unreadable = np.isnan(numbers) & ~self.missing
        return Column(
            numbers[self.places],
            np.flatnonzero(unreadable[self.places]),
            spelling._replace(per_cent=self.per_cent),
        )


def as_numbers(columns: Sequence[np.ndarray], semicolons: bool = False) -> list[Column]:
    """Convert columns of text to numbers, where possible.

    ``1,234`` may be a thousand or a little more than one. The other numbers of the column decide,
    then those of other columns, then whether ``semicolons`` separate the columns.
    """
    texts = [_Texts(column) for column in columns]
    if not any(each.has_separators() for each in texts):
        return [each.column(Spelling(unclear=each.dots_are_unclear())) for each in texts]
    proofs = [each.proofs() for each in texts]
    votes = [np.sign(commas - points) for points, commas in proofs]
    usual = semicolons if sum(votes) == 0 else sum(votes) > 0
    found = []
    for each, vote in zip(texts, votes, strict=True):
        comma, before = bool(vote > 0 or (vote == 0 and usual)), each.numbers
        unclear = not comma and each.dots_are_unclear()
        each.read(comma)
        # In either style, numbers with groups had another value before: none, or a smaller one.
        changed = ~np.isnan(each.numbers) & (each.numbers != before)
        marked = np.array(["." in text or not comma for text in each.plain], bool)
        grouped = bool(np.any(changed & marked))
        found.append(each.column(Spelling(comma, False, grouped, unclear)))
    return found


def _plain_numbers(texts: list[str]) -> np.ndarray:
    return np.array([_plain_number(text) for text in texts], np.float64)


def _plain_number(text: str) -> float:
    """Parse like Python, but without underscores; NaN on failure."""
    try:
        return float("nan" if "_" in text else text)
    except ValueError:
        return np.nan


def is_missing(cell: Any) -> bool:
    """Whether a cell is None, NaN, or pandas' equivalent."""
    if isinstance(cell, (float, np.floating)):
        return bool(np.isnan(cell))
    return cell is None or type(cell).__name__ in ("NAType", "NaTType")


def text_of(cell: Any) -> str:
    """A cell as text; empty for a missing value."""
    if isinstance(cell, str):
        return cell
    if is_missing(cell):
        return ""
    if isinstance(cell, (float, np.floating)):
        return repr(float(cell)).removesuffix(".0")
    text = str(cell)
    return text.removesuffix(" 00:00:00") if hasattr(cell, "isoformat") else text


def texts_of(cells: Sequence[Any]) -> np.ndarray:
    """Cells as an array of text."""
    texts = np.empty(len(cells), object)
    texts[:] = [text_of(cell) for cell in cells]
    return texts


UNCLEAR_DOTS = (
    "Dots are read as decimal points in {}, and may separate thousands (1.088 beside 908): if they "
    "do, write 1088, or 1.088,0 in one cell."
)
"""With the names of columns; what a user is told if nothing tells."""


def listed_cells(
    names: Sequence[Any],
    columns: Sequence[np.ndarray],
    found: Sequence[Column],
    row_name: Callable[[int], str],
) -> str:
    """The first few unreadable cells, row by row, and the number of others."""
    bad = sorted((int(row), k) for k, column in enumerate(found) for row in column.unreadable)
    told = [
        f"{columns[k][row].strip()[:_LETTERS]!r} in column {names[k]!r}, {row_name(row)}"
        for row, k in bad[:_LISTED]
    ]
    more = len(bad) - len(told)
    return "; ".join(told) + (f"; and {more} more" if more else "")


def entry_columns(names: Sequence[Any], are_ids: Callable[[int], bool]) -> list[int] | None:
    """Positions of row, column and value, if a table with column names is a list of entries.

    It is one if it has exactly one column each with a name such as user, item and rating, in any
    order, perhaps among others; or if it has three columns, the first two of which hold ids
    (names or integers).

    Parameters
    ----------
    names : sequence
        Names of all columns.
    are_ids : callable
        ``are_ids(position)``: whether a column holds ids.
    """
    plain = [_plain_name(name) for name in names]
    called = [[k for k, name in enumerate(plain) if name in role] for role in _ROLES]
    if all(len(each) == 1 for each in called):
        return [each[0] for each in called]
    return [0, 1, 2] if len(plain) == 3 and are_ids(0) and are_ids(1) else None


def _plain_name(name: Any) -> str:
    letters = re.sub("[^a-z]", "", str(name).lower())
    return letters.removesuffix("id").removesuffix("s")
