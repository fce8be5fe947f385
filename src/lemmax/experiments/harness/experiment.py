"""What a reproducible experiment consists of."""

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
"""``watch(done, total)`` tells how far a job is; it raises KeyboardInterrupt after Ctrl-C."""

SIZES = ("full", "quick")


@dataclass(frozen=True)
class Outcome:
    """What a job found.

    Parameters
    ----------
    table : Table
        Reproducible: the same seed gives the same bytes. No wall-clock times.
    facts : dict
        What is not, such as times.
    """

    table: Table
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Job:
    """A piece of work that is done and kept on its own.

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
            raise ValueError(f"The key of a job names a file; {self.key!r} cannot.")


@dataclass(frozen=True)
class Claim:
    """A statement of the paper, and what the data say about it.

    Parameters
    ----------
    statement : str
        In the paper's sense, in our words.
    holds : bool
        Whether the data support it.
    numbers : str
        The measured numbers it is judged by.
    correction : str, optional
        What ought to be said instead.
    correction_holds : bool, optional
        Whether the data support that.
    """

    statement: str
    holds: bool
    numbers: str
    correction: str | None = None
    correction_holds: bool | None = None

    decided: bool = True
    """Whether the data are enough to refute it; small sizes often are not."""

    @property
    def outcome(self) -> str:
        """One of ``supported``, ``corrected``, ``not supported`` and ``undecided``.

        Corrected means that only our correction holds.
        """
        if self.holds:
            return "supported"
        if self.correction and self.correction_holds:
            return "corrected"
        return "not supported" if self.decided else "undecided"


@dataclass(frozen=True)
class Summary:
    """A small table of text for people, shown on the console and in the report.

    Parameters
    ----------
    title : str
        Above it.
    header : sequence of str
        Of the columns.
    rows : sequence of sequences of str
        As many texts as the header has.
    remark : str
        Below it.
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
        As on the command line: ``fig1``.
    title : str
        One line, for people.
    minutes : float
        Expected time at full size on two cores.
    settings : dict
        ``{"full": {...}, "quick": {...}}``; everything that shapes the data except the seed.
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
