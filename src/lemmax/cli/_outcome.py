"""The output of a command: files, a page, and a few lines on the screen."""

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
from .._checks import first_few
from .._columns import as_numbers
from .._files import Write, save_all, text_writer
from ._files import Refusal, check_writable, made_folder, remove_leftovers, written_before
from ._interrupts import fit_until_interrupted, giving_up_at_second

INTERRUPTED = 130
DOUBTFUL = 1
_STOPPED = "Interrupted: the results so far are written, and are unreliable."
_FINISHED = "Interrupted, but the fit was complete: its results are written."
_TIME = "seconds of the fit"
# Spreadsheets run cells that begin with these; numbers and missing values may, too.
_RUN = ("=", "+", "-", "@")
# Number of rows or columns that a message names.
_LISTED = 3
# Facts that the page has in words.
_TOLD = ("status", "objections", "doubtful", "remarks", "model", "parameters", "minima")


@contextlib.contextmanager
def refusing() -> Iterator[None]:
    """Turn errors into a message and exit code 2."""
    try:
        with warnings.catch_warnings():
            # The screen shows the verdict and unknown names anyway, so the estimators' warnings go.
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
    """The files of a command in one folder, written when all of them are ready."""

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
        """A note about the data, on the screen at once and on the page."""
        self._print(sentence)
        self.blocks.append(page.paragraph(sentence, faint=True))

    def remark(self, sentence: str) -> None:
        """A remark about the answer, below it on the screen and on the page."""
        self.say(sentence)
        self.blocks.append(page.paragraph(sentence))

    def say(self, line: str) -> None:
        """A line of the answer, printed at the end."""
        self.lines.append(line)

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        """A status line on the terminal with the elapsed time, removed at the end."""
        console = Console(stderr=True)
        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        with Progress(
            *columns,
            console=console,
            transient=True,
            disable=not console.is_terminal,
            # stdout may be redirected to a file: do not send it to the terminal.
            redirect_stdout=False,
            redirect_stderr=False,
        ) as line:
            task = line.add_task("", total=None)
            self._stage = lambda stage: line.update(task, description=stage)
            yield

    def fit(self, model: Any, *data: Any, **options: Any) -> Any:
        """Fit a model, and measure the time.

        Raises
        ------
        KeyboardInterrupt
            If it came before there was a result, or twice.
        """
        self.run(lambda: fit_until_interrupted(model, data, options))
        return model

    def run(self, fit: Callable[[], Any]) -> Any:
        """Call a fit, which Ctrl-C ends with its current result, and measure the time.

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
        self._stage("interrupted: finishing with the current result (again: without)")

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
        """Any rows, as a csv file; text that a spreadsheet would run is marked as text."""
        text = io.StringIO()
        writer = csv.writer(text, delimiter=separator, lineterminator="\n")
        lines = rows if header is None else itertools.chain([header], rows)
        writer.writerows(map(harmless, line) for line in lines)
        self.texts[name] = text.getvalue()

    def array(self, name: str, values: np.ndarray) -> None:
        """An array of any shape, in NumPy's format."""
        self.arrays[name] = values

    def verdict(self, found: Any) -> None:
        """The verdict of `recover`: numbers, page and screen."""
        # A fit may take several calls; the last one only knows its own time.
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
        """The report of a fit on its table: numbers, page and screen.

        Rows and columns have the names of the file; slices of a tensor have none.
        """
        found = dataclasses.replace(found, seconds=self.seconds)
        self.say(found.summary(*names))
        badge = page.badge(found.status.name, "good" if found.succeeded else "caution")
        sentence = found.sentence().removeprefix(f"{found.status.name}: ")
        parts = f"{found.components} component{'' if found.components == 1 else 's'}"
        wrong = f"{found.wrong} of {found.known} cells ({found.wrong / max(1, found.known):.1%})"
        told = f" There are {parts}; outliers: {wrong}; missing: {found.holes}."
        if found.held_out and found.status.name != "EXACT":
            told += f" 90 % intervals cover {found.coverage:.0%} of the held-out cells."
        self.facts(found.as_dict() | more, badge, " ", sentence, told)
        called = names or (str,) * len(found.doubtful)
        for side, places, name in zip(found.sides, found.doubtful, called, strict=True):
            if places:
                self.blocks.append(
                    page.paragraph(
                        f"Doubtful {side}, without known cells or with mostly outliers: "
                        f"{listed(places, name)}."
                    )
                )

    def facts(self, facts: dict[str, Any], *said: Any) -> None:
        """Facts about the answer: as numbers, and as text on the page."""
        self._summary = facts
        self.texts[self.summary] = ""  # written last, since it lists all files
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
        """A plot on the page with a description, perhaps with more below.

        With ``file``, it is saved as a separate file, too.
        """
        if file:
            self.pictures[file] = figure
        drawn = page.picture(figure, description, description)
        self.blocks.append(page.section(title, drawn, *below, name=name))

    def write(self) -> None:
        """Write all files or none: if the disk is full, existing files are unchanged."""
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
        """Print the answer, and exit with the appropriate exit code.

        Parameters
        ----------
        doubt : str
            Why the answer is unreliable; empty if it is not.
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
    """Names for columns without names."""
    return [f"column {k + 1}" for k in range(count)]


def harmless(cell: Any) -> Any:
    """A cell, with an apostrophe before it if a spreadsheet would run it."""
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
    """The fewest digits that reproduce a number; empty if it is unknown."""
    return repr(value) if math.isfinite(value) else ""


def listed(
    places: Sequence[int] | np.ndarray, name_of: Callable[[int], str], between: str = ", "
) -> str:
    """The names of the first few, and the number of others."""
    return first_few((name_of(int(place)) for place in places), _LISTED, between)


def _said(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_said, value)) or "none"
    return "unknown" if value is None else str(value)
