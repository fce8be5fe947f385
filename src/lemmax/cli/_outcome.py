"""What a command about data leaves behind: files, a page, and a few lines on the screen."""

import contextlib
import csv
import io
import json
import pathlib
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import typer
from rich.console import Console

from .. import page
from .._files import save_text
from ..recovery import Recovery
from ._files import Refusal, check_writable, save

INTERRUPTED = 130


@contextlib.contextmanager
def refusing() -> Iterator[None]:
    """Turn what went wrong into one sentence and exit code 2."""
    from sklearn.exceptions import ConvergenceWarning

    try:
        with warnings.catch_warnings():
            # The verdict is printed anyway.
            warnings.simplefilter("ignore", ConvergenceWarning)
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

    def __init__(self, folder: pathlib.Path, title: str):
        check_writable(folder)
        self.folder, self.title = folder, title
        self.texts: dict[str, str] = {}
        self.arrays: dict[str, np.ndarray] = {}
        self.blocks: list[Any] = []

    def table(
        self,
        name: str,
        values: Any,
        columns: Sequence[str] | None = None,
        labels: Sequence[str] | None = None,
        label_name: str = "",
    ) -> None:
        """A table of numbers, as a csv file."""
        values = np.asarray(values)
        rows = ([_shortest(v) for v in row] for row in values)
        header = None if columns is None else list(columns)
        if labels is not None:
            rows = ([label, *row] for label, row in zip(labels, rows, strict=True))
            header = [label_name, *(header or column_names(values.shape[1]))]
        self.listing(name, header, rows)

    def listing(
        self, name: str, header: Sequence[str] | None, rows: Iterable[Sequence[Any]]
    ) -> None:
        """Rows of anything, as a csv file."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        if header is not None:
            writer.writerow(header)
        writer.writerows(rows)
        self.texts[name] = text.getvalue()

    def array(self, name: str, values: np.ndarray) -> None:
        """An array of any shape, in NumPy's format."""
        self.arrays[name] = values

    def verdict(self, found: Recovery) -> None:
        """What `recover` says, as numbers and on the page."""
        self.texts["summary.json"] = json.dumps(found.as_dict(), indent=1) + "\n"
        tone = "good" if found.status.succeeded else "caution"
        facts = [
            (name, _said(value)) for name, value in found.as_dict().items() if name != "status"
        ]
        self.blocks += [
            page.paragraph(page.badge(found.status.name, tone), " ", found.status.message),
            page.details("all numbers", page.table(("", ""), facts)),
        ]

    def picture(self, figure: Any, title: str, description: str) -> None:
        """A picture on the page."""
        self.blocks.append(page.section(title, page.picture(figure, description)))

    def write(self, console: Console) -> None:
        """Write all files, each entirely or not at all."""
        self.texts["report.html"] = page.page(self.title, *self.blocks)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Refusal(f"Cannot write to {self.folder}: {error.strerror}.") from error
        for name, values in self.arrays.items():
            save(self.folder / name, lambda partial, v=values: _save_array(partial, v))
        for name, text in self.texts.items():
            save_text(self.folder / name, text)
        names = ", ".join([*self.arrays, *self.texts])
        console.print(f"Written to {self.folder}: {names}", highlight=False, markup=False)


def column_names(count: int) -> list[str]:
    """For columns that have none."""
    return [f"column {k + 1}" for k in range(count)]


def _save_array(partial: str, values: np.ndarray) -> None:
    with open(partial, "wb") as file:
        np.save(file, values, allow_pickle=False)


def _shortest(value: float) -> str:
    """As few digits as give the same number again; nothing for NaN."""
    return "" if np.isnan(value) else repr(float(value))


def _said(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list):
        return "; ".join(map(str, value)) or "none"
    return "unknown" if value is None else str(value)
