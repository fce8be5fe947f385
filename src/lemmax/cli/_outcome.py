"""What a command about data leaves behind: files, a page, and a few lines on the screen."""

import contextlib
import csv
import dataclasses
import io
import itertools
import json
import math
import pathlib
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from .. import page
from .._columns import as_numbers
from .._files import Write, save_all, text_writer
from ._files import Refusal, check_writable, made_folder, remove_leftovers, written_before
from ._interrupts import fit_until_interrupted, giving_up_at_second

INTERRUPTED = 130
DOUBTFUL = 1
_STOPPED = "Interrupted: what the fit had by then is written, and is not to be relied on."
_FINISHED = "Interrupted, but the fit came to its end all the same: its answer is written."
_TIME = "seconds of the fit"
# What formulas begin with; numbers and words for what is missing may, too.
_RUN = ("=", "+", "-", "@")
# So many rows or columns are named.
_LISTED = 3
# What the page says in words.
_TOLD = ("status", "objections", "doubtful", "remarks", "model", "parameters", "minima")


@contextlib.contextmanager
def refusing() -> Iterator[None]:
    """Turn what went wrong into one sentence and exit code 2."""
    try:
        with warnings.catch_warnings():
            # What estimators warn of is on the screen anyway: the verdict, names that are unknown.
            warnings.simplefilter("ignore", UserWarning)
            yield
    except (Refusal, ValueError, TypeError, MemoryError) as error:
        _say(str(error))
        raise typer.Exit(2) from error
    except OSError as error:
        _say(f"{error.filename or 'A file'}: {error.strerror or error}.")
        raise typer.Exit(2) from error
    except KeyboardInterrupt as error:
        _say("Interrupted; nothing was written.")
        raise typer.Exit(INTERRUPTED) from error


def _say(sentence: str) -> None:
    Console(stderr=True, soft_wrap=True).print(sentence, style="red", markup=False, highlight=False)


class Outcome:
    """Files of one command in one folder, written when all of them are made."""

    def __init__(
        self,
        console: Console,
        folder: pathlib.Path,
        title: str,
        sources: Sequence[pathlib.Path] = (),
        summary: str = "summary.json",
    ):
        check_writable(folder)
        self.console, self.folder, self.title, self.sources = console, folder, title, sources
        self.summary = summary
        self.pictures: dict[str, Any] = {}
        self.texts: dict[str, str] = {}
        self.arrays: dict[str, np.ndarray] = {}
        self.blocks: list[Any] = []
        self.lines: list[str] = []
        self.seconds = 0.0
        self.interrupted = False
        self._summary: dict[str, Any] = {}
        self._stage: Callable[[str], None] = lambda stage: None

    def note(self, sentence: str) -> None:
        """What is to be known about the data, on the screen at once and on the page."""
        self._print(sentence)
        self.blocks.append(page.paragraph(sentence, faint=True))

    def remark(self, sentence: str) -> None:
        """What is to be known about the answer, below it on the screen and on the page."""
        self.say(sentence)
        self.blocks.append(page.paragraph(sentence))

    def say(self, line: str) -> None:
        """A line of the answer, for the screen when all is done."""
        self.lines.append(line)

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        """One line on the terminal: what is being done, and for how long. Gone afterwards."""
        console = Console(stderr=True)
        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        with Progress(
            *columns,
            console=console,
            transient=True,
            disable=not console.is_terminal,
            # What goes to stdout may go to a file: it must not be taken to the terminal.
            redirect_stdout=False,
            redirect_stderr=False,
        ) as line:
            task = line.add_task("", total=None)
            self._stage = lambda stage: line.update(task, description=stage)
            yield

    def fit(self, model: Any, *data: Any, **options: Any) -> Any:
        """Fit a model, and take the time.

        Raises
        ------
        KeyboardInterrupt
            If it came before the model had anything, or twice.
        """
        self.run(lambda: fit_until_interrupted(model, data, options))
        return model

    def run(self, fit: Callable[[], Any]) -> Any:
        """Call a fit, which Ctrl-C ends with what it has, and take the time.

        Raises
        ------
        KeyboardInterrupt
            If the fit raises it, or at the second Ctrl-C.
        """
        self._stage("fitting")
        began = time.perf_counter()
        with giving_up_at_second(self._interrupt):
            fitted = fit()
        self.seconds = time.perf_counter() - began
        self._stage("drawing")
        return fitted

    def _interrupt(self) -> None:
        self.interrupted = True
        self._stage("interrupted: ending with what there is (again: with nothing)")

    def table(
        self,
        name: str,
        values: Any,
        columns: Sequence[str] | None = None,
        labels: Sequence[str] | None = None,
        label_name: str = "",
    ) -> None:
        """A table of numbers, as a csv file."""
        values = np.asarray(values, np.float64)
        rows = ([shortest(v) for v in row] for row in values.tolist())
        header = None if columns is None else list(columns)
        if labels is not None:
            rows = ([label, *row] for label, row in zip(labels, rows, strict=True))
            header = [label_name, *(header or column_names(values.shape[1]))]
        self.listing(name, header, rows)

    def listing(
        self,
        name: str,
        header: Sequence[str] | None,
        rows: Iterable[Sequence[Any]],
        separator: str = ",",
    ) -> None:
        """Rows of anything, as a csv file; text that a spreadsheet would run is marked as text."""
        text = io.StringIO()
        writer = csv.writer(text, delimiter=separator, lineterminator="\n")
        lines = rows if header is None else itertools.chain([header], rows)
        writer.writerows(map(harmless, line) for line in lines)
        self.texts[name] = text.getvalue()

    def array(self, name: str, values: np.ndarray) -> None:
        """An array of any shape, in NumPy's format."""
        self.arrays[name] = values

    def verdict(self, found: Any) -> None:
        """What `recover` says, as numbers, on the page and on the screen."""
        # Of several calls that a fit may take, the last one knows its own time only.
        found = dataclasses.replace(found, seconds=self.seconds)
        self.say(found.summary())
        tone = "good" if found.status.succeeded else "caution"
        badge = page.badge(found.status.name, tone)
        self.facts(found.as_dict(), badge, " ", found.status.message)

    def report(
        self,
        found: Any,
        *names: Callable[[int], str],
        **more: Any,
    ) -> None:
        """What a fit says about its table, as numbers, on the page and on the screen.

        With what rows and columns are called; slices of a tensor have no names.
        """
        found = dataclasses.replace(found, seconds=self.seconds)
        self.say(found.summary(*names))
        badge = page.badge(found.status.name, "good" if found.succeeded else "caution")
        sentence = found.sentence().removeprefix(f"{found.status.name}: ")
        parts = f"{found.components} component{'' if found.components == 1 else 's'}"
        wrong = f"{found.wrong} of {found.known} cells ({found.wrong / max(1, found.known):.1%})"
        told = f" There are {parts}; wrong: {wrong}; missing: {found.holes}."
        if found.held_out and found.status.name != "EXACT":
            told += f" 90 % intervals cover {found.coverage:.0%} of the held-out cells."
        self.facts(found.as_dict() | more, badge, " ", sentence, told)
        called = names or (str,) * len(found.doubtful)
        for side, places, name in zip(found.sides, found.doubtful, called, strict=True):
            if places:
                self.blocks.append(
                    page.paragraph(
                        f"Doubtful {side}, of which nothing is known, or most is wrong: "
                        f"{listed(places, name)}."
                    )
                )

    def facts(self, facts: dict[str, Any], *said: Any) -> None:
        """What is known about the answer, as numbers, and in a sentence on the page."""
        self._summary = facts
        self.texts[self.summary] = ""  # made last: it lists all files
        shown = [
            (_TIME if name == "seconds" else name.replace("_", " "), _said(value))
            for name, value in facts.items()
            if name not in _TOLD
        ]
        self.blocks += [
            page.paragraph(*said),
            *(page.paragraph(f"Because {each}.") for each in facts.get("objections", ())),
            page.details("all numbers", page.table(("", ""), shown)),
        ]

    def picture(
        self,
        figure: Any,
        title: str,
        description: str,
        *below: Any,
        name: str = "",
        file: str = "",
    ) -> None:
        """A picture on the page, with what it shows in words, and perhaps more below.

        With ``file``, it is a file of its own, too.
        """
        if file:
            self.pictures[file] = figure
        drawn = page.picture(figure, description, description)
        self.blocks.append(page.section(title, drawn, *below, name=name))

    def write(self) -> None:
        """Write all files, or none: where the disk is full, what was there stays as it was."""
        self._stage("writing")
        self.texts["report.html"] = page.page(self.title, *self.blocks)
        names = self._names()
        self.texts[self.summary] = json.dumps({**self._summary, "files": names}, indent=1) + "\n"
        before = written_before(self.folder)
        files: dict[str, Write] = {
            name: lambda partial, v=values: _save_array(partial, v)
            for name, values in self.arrays.items()
        }
        for name, figure in self.pictures.items():
            files[name] = lambda partial, f=figure: _save_picture(partial, f)
        files |= {name: text_writer(text) for name, text in self.texts.items()}
        with made_folder(self.folder):
            save_all({self.folder / name: write for name, write in files.items()})
        removed = remove_leftovers(self.folder, before - set(names), self.sources)
        if removed:
            self.say(f"Removed from {self.folder}, of an earlier run: {', '.join(removed)}")

    def tell(self, doubt: str = "") -> None:
        """Print the answer, and leave with the exit code that it deserves.

        Parameters
        ----------
        doubt : str
            Why the answer is not to be relied on; empty if it is.
        """
        names = ", ".join(self._names())
        for line in (
            *self.lines,
            f"The fit took {self.seconds:.1f} s.",
            f"Written to {self.folder}: {names}",
        ):
            self._print(line)
        if self.interrupted:
            _say(_STOPPED if doubt else _FINISHED)
            raise typer.Exit(INTERRUPTED)
        if doubt:
            _say(doubt)
            raise typer.Exit(DOUBTFUL)

    def _names(self) -> list[str]:
        return [*self.arrays, *self.pictures, *self.texts]

    def _print(self, line: str) -> None:
        self.console.print(line, highlight=False, markup=False, soft_wrap=True)


def column_names(count: int) -> list[str]:
    """For columns that have none."""
    return [f"column {k + 1}" for k in range(count)]


def harmless(cell: Any) -> Any:
    """A cell with an apostrophe before it if it is text that a spreadsheet would run."""
    if not isinstance(cell, str) or cell.lstrip()[:1] not in _RUN:
        return cell
    try:
        float(cell)
    except ValueError:
        (read,) = as_numbers([np.array([cell], object)])
        return f"'{cell}" if len(read.unreadable) else cell
    return cell


def _save_array(partial: str, values: np.ndarray) -> None:
    with open(partial, "wb") as file:
        np.save(file, values, allow_pickle=False)


def _save_picture(partial: str, figure: Any) -> None:
    figure.savefig(partial, format="png", dpi=150)


def shortest(value: float) -> str:
    """As few digits as give the same number again; nothing for what is not known."""
    return repr(value) if math.isfinite(value) else ""


def listed(
    places: Sequence[int] | np.ndarray, name_of: Callable[[int], str], between: str = ", "
) -> str:
    """The first few by name, the others by their number."""
    names = [name_of(int(place)) for place in places[:_LISTED]]
    more = len(places) - len(names)
    return between.join(names) + (f" and {more} more" if more else "")


def _said(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_said, value)) or "none"
    return "unknown" if value is None else str(value)
