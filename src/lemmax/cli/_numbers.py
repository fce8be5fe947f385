"""Numbers as people write them: decimal commas, thousands separators, per cent signs, no value."""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

_WORDS = (
    "na nan n/a n.a. null none nil missing ? - -- – — . #n/a #na #div/0! #value! #ref! #num! #null!"
)
MISSING = frozenset(("", *_WORDS.split()))
"""What stands for a value that is missing, in small letters."""
# Blanks (also those that cannot break) and apostrophes separate thousands in either style.
_GROUPS = r"[+-]?(?:\d+|[1-9]\d{{0,2}}(?:[{0} \xa0\u2009\u202f'’]\d{{3}})+)"
_EXPONENT = r"(?:[eE][+-]?\d+)?"
_POINT = re.compile(_GROUPS.format(",") + r"(?:\.\d*)?" + _EXPONENT)
_COMMA = re.compile(_GROUPS.format(".") + r"(?:,\d*)?" + _EXPONENT)
_BETWEEN = re.compile(r"[ \xa0\u2009\u202f'’]")
_PER_CENT = re.compile(r"\s*%$")


class Spelling(NamedTuple):
    """How the numbers of a column are written."""

    comma: bool = False
    """Whether a comma comes before the decimals."""
    per_cent: bool = False
    grouped: bool = False
    """Whether thousands are set apart."""

    def write(self, value: float) -> str:
        """A number with as few digits as give it again; nothing for NaN."""
        if np.isnan(value):
            return ""
        text = repr(float(value)).removesuffix(".0")
        return (text.replace(".", ",") if self.comma else text) + ("%" if self.per_cent else "")


class Column(NamedTuple):
    """A column of text as numbers."""

    numbers: np.ndarray
    """NaN where a value is missing, or cannot be read."""
    unreadable: np.ndarray
    """Positions of cells that hold something, but no number."""
    spelling: Spelling

    @property
    def is_numeric(self) -> bool:
        """Whether most of what it holds are numbers."""
        return int(np.sum(~np.isnan(self.numbers))) > len(self.unreadable)


class _Texts:
    """The different texts of a column, without per cent signs, and where they stand."""

    def __init__(self, cells: np.ndarray):
        import pandas as pd

        self.places, different = pd.factorize(cells)
        self.plain = list(map(str, different))
        self.numbers = _plain_numbers(self.plain)
        self.missing, self.per_cent = np.zeros(len(self.plain), bool), False
        # Most are numbers already, and there may be many.
        rest = np.flatnonzero(np.isnan(self.numbers))
        for k in rest:
            text = self.plain[k].strip().replace("\N{MINUS SIGN}", "-")
            self.missing[k] = text.lower() in MISSING
            self.plain[k] = _PER_CENT.sub("", text)
            self.per_cent |= self.plain[k] != text
        self.numbers[rest] = _plain_numbers([self.plain[k] for k in rest])

    def has_separators(self) -> bool:
        """Whether there are numbers with more than a decimal point."""
        rest = (self.plain[k] for k in np.flatnonzero(np.isnan(self.numbers) & ~self.missing))
        return any(_POINT.fullmatch(text) or _COMMA.fullmatch(text) for text in rest)

    def proofs(self) -> tuple[int, int]:
        """How many texts can only have a decimal point, and how many only a decimal comma."""
        self.plain = [text.strip() for text in self.plain]
        pairs = [
            (_POINT.fullmatch(text) is not None, _COMMA.fullmatch(text) is not None)
            for text in self.plain
        ]
        return pairs.count((True, False)), pairs.count((False, True))

    def read(self, comma: bool) -> None:
        """Take all numbers to be written in one style."""
        style, between, mark = (_COMMA, ".", ",") if comma else (_POINT, ",", ".")
        texts = [
            _BETWEEN.sub("", text).replace(between, "").replace(mark, ".")
            if style.fullmatch(text)
            else ""
            for text in self.plain
        ]
        numbers = _plain_numbers(texts)
        # Spellings that the style does not know, such as .5, are as they were.
        self.numbers = np.where(np.isnan(numbers), self.numbers, numbers)
        if comma:  # but not a decimal point among decimal commas
            pointed = np.array(["." in t and not style.fullmatch(t) for t in self.plain], bool)
            self.numbers = np.where(pointed, np.nan, self.numbers)

    def column(self, spelling: Spelling) -> Column:
        """All cells in their order."""
        numbers = np.where(self.missing | ~np.isfinite(self.numbers), np.nan, self.numbers)
        unreadable = np.isnan(numbers) & ~self.missing
        return Column(
            numbers[self.places],
            np.flatnonzero(unreadable[self.places]),
            spelling._replace(per_cent=self.per_cent),
        )


def as_numbers(columns: Sequence[np.ndarray], semicolons: bool = False) -> list[Column]:
    """Columns of text as numbers, as far as they are any.

    ``1,234`` may be a thousand or little more than one: the other numbers of the column tell, then
    those of the other columns, and then whether ``semicolons`` separate the columns.
    """
    texts = [_Texts(column) for column in columns]
    if not any(each.has_separators() for each in texts):
        return [each.column(Spelling()) for each in texts]
    proofs = [each.proofs() for each in texts]
    votes = [np.sign(commas - points) for points, commas in proofs]
    usual = semicolons if sum(votes) == 0 else sum(votes) > 0
    found = []
    for each, vote in zip(texts, votes, strict=True):
        comma, before = bool(vote > 0 or (vote == 0 and usual)), each.numbers
        each.read(comma)
        marked = any("," in text for text in each.plain)
        grouped = not comma and bool(np.any(np.isnan(before) & ~np.isnan(each.numbers)))
        found.append(each.column(Spelling(comma and marked, False, grouped)))
    return found


def _plain_numbers(texts: list[str]) -> np.ndarray:
    import pandas as pd

    series: Any = pd.Series(texts, dtype=object)
    return np.array(pd.to_numeric(series, errors="coerce"), np.float64)
