"""Folders and files for what a command writes."""

import contextlib
import json
import os
import pathlib
import re
import tempfile
from collections.abc import Iterable, Iterator

import typer
from rich.console import Console

from .._files import save as save

# What the commands about data write. Nothing else is ever removed.
_OWN = re.compile(
    r"(cleaned|completed|intervals|outliers|columns|location|components|scores|predictions"
    r"|row_factors|column_factors|factor\d+|weights|coefficients|residuals"
    r"|parameters|fitted)\.csv"
    r"|cleaned\.npy|fit\.png|report\.html|(summary|fit)\.json"
)
# Those that list all others.
_SUMMARIES = ("summary.json", "fit.json")


class Refusal(Exception):
    """Something that cannot be done, said in one sentence."""


def check_writable(folder: pathlib.Path) -> None:
    """Refuse a folder that cannot be made or written to, before anything is computed.

    It is tried: permissions alone say nothing about full or read-only disks. Nothing is left of it.
    """
    with made_folder(folder, keep=False):
        try:
            with tempfile.TemporaryFile(dir=folder) as file:
                file.write(b"tried")
        except OSError as error:
            raise Refusal(f"Cannot write to {folder}: {error.strerror}.") from error


@contextlib.contextmanager
def made_folder(folder: pathlib.Path, keep: bool = True) -> Iterator[None]:
    """A folder to write to; new ones are removed again if that fails, or if they are not kept."""
    absent = [place for place in (folder, *folder.parents) if not os.path.exists(place)]
    kept = False
    try:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError) as error:
            sentence = f"Cannot write to {folder}: a file is where a folder should be."
            raise Refusal(sentence) from error
        except OSError as error:
            raise Refusal(f"Cannot write to {folder}: {error.strerror}.") from error
        yield
        kept = keep
    finally:
        for place in () if kept else absent:
            with contextlib.suppress(OSError):
                place.rmdir()


def make_folder(console: Console, folder: pathlib.Path) -> None:
    """Create a folder, or leave with one sentence and exit code 2."""
    try:
        check_writable(folder)
    except Refusal as refusal:
        console.print(str(refusal), markup=False)
        raise typer.Exit(2) from refusal
    folder.mkdir(parents=True, exist_ok=True)


def written_before(folder: pathlib.Path) -> set[str]:
    """Names of the files that an earlier command has written to a folder, if it says so."""
    found = set()
    for summary in _SUMMARIES:
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            listed = json.loads((folder / summary).read_text(encoding="utf-8"))["files"]
            found |= {name for name in listed if isinstance(name, str) and _OWN.fullmatch(name)}
    return found


def remove_leftovers(
    folder: pathlib.Path, names: Iterable[str], sources: Iterable[pathlib.Path]
) -> list[str]:
    """Remove files of an earlier command, except those that this one has read."""
    read = {source.resolve() for source in sources}
    removed = []
    for name in sorted(names):
        path = folder / name
        if path.is_file() and path.resolve() not in read:
            with contextlib.suppress(OSError):
                path.unlink()
                removed.append(name)
    return removed
