"""The names in a model: columns of a file, or parameters with a start."""

import datetime
import re
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from .._columns import MISSING, Spelling
from ._cells import place_in_file
from ._expressions import Expression, normal, parse, similar, suggestion
from ._files import Refusal
from ._outcome import listed
from ._reading import TableFile, split_names

_SECONDS = 86400.0


class FitRequest(NamedTuple):
    """A fit as specified by the options of the command."""

    expression: Expression
    y_name: str
    start: dict[str, float]
    low: dict[str, float | None]
    high: dict[str, float | None]
    fixed: dict[str, bool]
    columns: dict[str, np.ndarray]
    """Columns of the model by name, all rows."""
    y: np.ndarray
    sigma: np.ndarray | None
    spelling: Spelling
    """How the numbers of y are written."""
    units: dict[str, str]
    """Notes on the units of columns, for plots."""
    notes: tuple[str, ...]

    @property
    def complete(self) -> np.ndarray:
        """Rows in which no column of the model is missing."""
        holes = [np.isnan(column) for column in self.columns.values()]
        return ~np.any(holes, axis=0) if holes else np.ones(len(self.y), bool)

    def model(self, x: dict[str, Any], columns: dict[str, Any]) -> Any:
        """The formula as a function for `lemmax.fit`; broadcast if it has no columns."""
        shape = next((np.shape(column) for column in columns.values()), self.y.shape)
        return jnp.broadcast_to(self.expression({**columns, **x}), shape)


def ask(
    table: TableFile,
    model: str,
    y: str | None,
    start: str | None,
    sigma: str | None,
    bounds: str | None,
    fixed: str | None,
) -> FitRequest:
    """Sort names into columns and parameters, and read the options."""
    expression = parse(model)
    columns = _Columns(table)
    begin = {name: _number(text, f"--start {name}") for name, text in _pairs(start, "--start")}
    target = _target(expression, y, columns)
    used = _used(expression, begin, columns, target)
    if target is None:
        target = columns.last_numeric(used)
    if target in used:
        raise Refusal(
            f"The column {target!r} is fitted, so it cannot appear in the formula: name "
            "the fitted column on the left, as in 'y = a*t', or by --y."
        )
    low, high = _bounds(bounds, begin)
    held = [normal(name) for name in split_names(fixed)]
    _known(held, begin, "--fixed")
    values = {name: columns.numbers(name) for name in used}
    observed = columns.numbers(target)
    return FitRequest(
        expression,
        target,
        begin,
        low,
        high,
        {name: name in held for name in begin},
        values,
        observed,
        None if sigma is None else _sigma(columns, normal(sigma), observed),
        columns.spelling(target),
        columns.units,
        tuple(columns.notes),
    )


class _Columns:
    """Columns of a table by the names that models use."""

    def __init__(self, table: TableFile):
        assert table.whole is not None
        self.table, self.whole = table, table.whole
        width = len(self.whole.cells)
        names = self.whole.names or [f"c{k + 1}" for k in range(width)]
        self.names = [normal(name) for name in names]
        self.notes: list[str] = []
        self.units: dict[str, str] = {}
        if self.whole.names is None:
            told = "c1" if width == 1 else f"c1 to c{width}"
            self.notes.append(f"The columns have no names; they are called {told}.")

    def require(self, name: str, option: str) -> None:
        if name not in self.names:
            raise Refusal(
                f"{self.table.path} has no column {name!r} ({option})."
                f"{similar(name, self.names)} It has: {', '.join(self.names)}."
            )

    def _place(self, name: str) -> int:
        if self.names.count(name) > 1:
            raise Refusal(f"{self.table.path} has several columns called {name!r}; rename them.")
        return self.names.index(name)

    def numbers(self, name: str) -> np.ndarray:
        """The numbers of a column; for dates, the days since the first."""
        place = self._place(name)
        if place in self.whole.fitted:
            return self.table.values[:, self.whole.fitted.index(place)]
        cells = self.whole.cells[place]
        dates = _dates(cells)
        if dates is None:
            raise Refusal(self._not_numbers(name, cells))
        first = min(date for date in dates if date is not None)
        self.units[name] = f"days since {_date_text(first)}"
        self.notes.append(f"{name} contains dates; it is read as {self.units[name]}.")
        days = [np.nan if date is None else _days(date - first) for date in dates]
        return np.array(days)

    def _not_numbers(self, name: str, cells: np.ndarray) -> str:
        texts = [k for k, cell in enumerate(cells) if str(cell).strip().lower() not in MISSING]
        if not texts:
            return f"The column {name!r} of {self.table.path} contains no values."
        where = place_in_file(self.table.lines, texts[0])
        return (
            f"The column {name!r} of {self.table.path} contains text where numbers are needed: "
            f"{str(cells[texts[0]]).strip()[:40]!r}, {where}. (Dates are read if they are written "
            "as in 2024-12-31.)"
        )

    def spelling(self, name: str) -> Spelling:
        place = self._place(name)
        fitted = self.whole.fitted
        return self.whole.spellings[fitted.index(place)] if place in fitted else Spelling()

    def last_numeric(self, used: list[str]) -> str:
        """The default of the fitted column."""
        left = [self.names[k] for k in self.whole.fitted if self.names[k] not in used]
        if not left:
            raise Refusal(
                f"{self.table.path} has no column of numbers besides those of the model: name the "
                "fitted column on the left, as in 'y = a*t'."
            )
        self.notes.append(
            f"The model is fitted to {left[-1]}, the last column that it does not contain (else "
            f"write it on the left: {left[-1]} = ...)."
        )
        return left[-1]


def _target(expression: Expression, y: str | None, columns: _Columns) -> str | None:
    name = None if y is None else normal(y)
    if name is not None and expression.target not in (None, name):
        raise Refusal(
            f"The model is for {expression.target}, but --y is {name}: leave one of them out."
        )
    found = name or expression.target
    if found is not None:
        columns.require(found, "--y" if expression.target is None else "the left of the model")
    return found


def _used(
    expression: Expression, start: dict[str, float], columns: _Columns, target: str | None
) -> list[str]:
    """Columns of the model; all other names must be parameters."""
    both = [name for name in start if name in columns.names]
    if both:
        raise Refusal(
            f"{both[0]} is a column of {columns.table.path} and also has a start as a parameter: "
            "rename the parameter."
        )
    neither = [n for n in expression.names if n not in start and n not in columns.names]
    if neither:
        there = [*columns.names, *start]
        hint = suggestion(neither[0], there)
        raise Refusal(
            f"{', '.join(neither)} in the model: neither a column of {columns.table.path} nor a "
            f"parameter with a start.{hint} Columns are {', '.join(columns.names)}; parameters "
            f"get a start by --start {_example([*start, *neither])}."
        )
    unused = [name for name in start if name not in expression.names]
    if unused:
        hint = similar(unused[0], [n for n in expression.names if n not in start])
        raise Refusal(f"Not in the model, but in --start: {', '.join(unused)}.{hint}")
    if not start:
        raise Refusal(
            f"The model {expression.text!r} has no parameters: names that are not columns, with a "
            "start as in --start a=1,b=1."
        )
    return [name for name in expression.names if name in columns.names]


def _example(names: list[str]) -> str:
    return ",".join(f"{name}=1" for name in names)


def _pairs(text: str | None, option: str) -> list[tuple[str, str]]:
    """Names with the text after ``=``, separated by commas."""
    if text is None:
        return []
    usage = {
        "--start": "--start is written as in --start a=1,b=0.5",
        "--bounds": '--bounds is written as in --bounds "a=0:10,b=0:"',
    }[option]
    pairs = []
    for part in re.split(r"[,;]", text):
        name, equals, value = part.partition("=")
        name = normal(name.strip().strip("'\""))
        if not (equals and name and value.strip()):
            raise Refusal(
                f"{usage}, with a name, = and a value between commas (decimals have a point); "
                f"{part.strip()!r} does not have this form."
            )
        if name in dict(pairs):
            raise Refusal(f"{option} names {name} twice.")
        pairs.append((name, value.strip()))
    return pairs


def _number(text: str, what: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = np.nan
    if not np.isfinite(number) or "_" in text:
        raise Refusal(f"{what} must be a number; got {text!r}.")
    return number


def _known(names: list[str], start: dict[str, float], option: str) -> None:
    unknown = [name for name in names if name not in start]
    if unknown:
        hint = similar(unknown[0], start)
        raise Refusal(
            f"{option} names {', '.join(unknown)}, which is not a parameter.{hint} Parameters are "
            f"{', '.join(start)}."
        )


def _bounds(
    text: str | None, start: dict[str, float]
) -> tuple[dict[str, float | None], dict[str, float | None]]:
    sides: tuple[dict[str, float | None], ...] = (dict.fromkeys(start), dict.fromkeys(start))
    pairs = _pairs(text, "--bounds")
    _known([name for name, _ in pairs], start, "--bounds")
    for name, span in pairs:
        parts = span.split(":")
        if len(parts) != 2:
            raise Refusal(
                f"The bounds of {name} are written low:high, and either may be omitted, as in "
                f"{name}=0: ; got {span!r}."
            )
        for side, part in zip(sides, parts, strict=True):
            if part.strip():
                side[name] = _number(part.strip(), f"A bound of {name}")
        low, high = sides[0][name], sides[1][name]
        if low is not None and high is not None and low > high:
            raise Refusal(f"The lower bound of {name} is above the upper one: {span}.")
        beyond = (low is not None and start[name] < low) or (
            high is not None and start[name] > high
        )
        if beyond:
            raise Refusal(f"{name} starts at {start[name]:g}, outside of its bounds {span}.")
    return sides[0], sides[1]


def _sigma(columns: _Columns, name: str, y: np.ndarray) -> np.ndarray:
    columns.require(name, "--sigma")
    sigma = columns.numbers(name)
    bad = np.flatnonzero(~np.isnan(y) & (sigma <= 0))
    if len(bad):
        raise Refusal(
            f"--sigma {name} must be positive, since it is the standard deviation of each datum; "
            f"it is not in {listed(bad, columns.table.row_name)}."
        )
    if np.all(np.isnan(sigma)):
        raise Refusal(f"--sigma {name} contains no values.")
    return sigma


def _dates(cells: np.ndarray) -> list[datetime.datetime | None] | None:
    """Cells as dates; None if any cell is something else."""
    found: list[datetime.datetime | None] = []
    for cell in cells:
        text = str(cell).strip()
        if text.lower() in MISSING:
            found.append(None)
            continue
        try:
            # Times with and without an offset from UTC are not mixed.
            found.append(datetime.datetime.fromisoformat(text))
        except ValueError:
            return None
    zones = {date.tzinfo is None for date in found if date is not None}
    return found if len(zones) == 1 else None


def _days(span: datetime.timedelta) -> float:
    return span.total_seconds() / _SECONDS


def _date_text(date: datetime.datetime) -> str:
    return str(date).removesuffix(" 00:00:00")
