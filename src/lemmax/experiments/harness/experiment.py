"""The parts of a reproducible experiment."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .table import Table

Settings = Mapping[str, Any]
"""JSON-able: names to numbers, strings, and lists of them."""
Facts = Mapping[str, Mapping[str, Any]]
"""By job: JSON-able numbers that may differ from run to run, such as seconds per step."""
Watch = Callable[[float, float], None]
"""``watch(done, total)`` reports progress; it raises KeyboardInterrupt after Ctrl-C."""

SIZES = ("full", "quick")


@dataclass(frozen=True)
class Outcome:
    """The results of a job.

    Parameters
    ----------
    table : Table
        Reproducible: the same seed gives the same bytes. No wall-clock times.
    facts : dict
        Results that are not reproducible, such as times.
    """

    table: Table
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Job:
    """A piece of work that is run and stored separately.

    Parameters
    ----------
    key : str
        Its name within the experiment; letters, digits, ``-``, ``_``, ``.`` and ``=``.
    run : callable
        ``run(watch) -> Outcome``.
    """

    key: str
    run: Callable[[Watch], Outcome]

    def __post_init__(self):
        if not re.fullmatch(r"[\w.=-]+", self.key):
            raise ValueError(f"The key of a job is a file name; {self.key!r} cannot be one.")


@dataclass(frozen=True)
class Claim:
    """A statement of the paper, and whether the data support it.

    Parameters
    ----------
    statement : str
        The paper's statement, in our words.
    holds : bool
        Whether the data support it.
    numbers : str
        The measured numbers that decide.
    correction : str, optional
        A corrected statement.
    correction_holds : bool, optional
        Whether the data support the correction.
    """

    statement: str
    holds: bool
    numbers: str
    correction: str | None = None
    correction_holds: bool | None = None

    decided: bool = True
    """Whether the data can refute the claim; small sizes often cannot."""

    @property
    def outcome(self) -> str:
        """One of ``supported``, ``corrected``, ``not supported`` and ``undecided``.

        ``corrected`` means that only the correction holds.
        """
        if self.holds:
            return "supported"
        if self.correction and self.correction_holds:
            return "corrected"
        return "not supported" if self.decided else "undecided"


@dataclass(frozen=True)
class Summary:
    """A small text table for the console and the report.

    Parameters
    ----------
    title : str
        Title above the table.
    header : sequence of str
        Names of the columns.
    rows : sequence of sequences of str
        The cells, as many per row as the header has.
    remark : str
        Text below the table.
    """

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    remark: str = ""


def _no_summaries(table: Table) -> Sequence[Summary]:
    return ()


@dataclass(frozen=True)
class Experiment:
    """A figure or table of the paper.

    Parameters
    ----------
    name : str
        Name on the command line: ``fig1``.
    title : str
        Title in one line.
    minutes : float
        Expected time at full size on two cores.
    settings : dict
        ``{"full": {...}, "quick": {...}}``; everything that determines the data except the seed.
    jobs : callable
        ``jobs(settings, seed) -> sequence of Job``, for the settings of one size.
    claims : callable
        ``claims(table, facts) -> sequence of Claim``, from all jobs' rows and facts.
    draw : callable
        ``draw(table) -> matplotlib Figure``.
    summaries : callable, optional
        ``summaries(table) -> sequence of Summary``.
    """

    name: str
    title: str
    minutes: float
    settings: Mapping[str, Settings]
    jobs: Callable[[Settings, int], Sequence[Job]]
    claims: Callable[[Table, Facts], Sequence[Claim]]
    draw: Callable[[Table], Any]
    summaries: Callable[[Table], Sequence[Summary]] = _no_summaries

    def __post_init__(self):
        if set(self.settings) != set(SIZES):
            raise ValueError(
                f"{self.name} needs settings for {SIZES}; it has {set(self.settings)}."
            )
