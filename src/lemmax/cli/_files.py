"""Output folders and files."""

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

# Files that the data commands write. Nothing else is ever removed.
_OWN = re.compile(
    r"(cleaned|completed|intervals|outliers|columns|location|components|scores|predictions"
    r"|row_factors|column_factors|factor\d+|weights|coefficients|residuals"
    r"|parameters|fitted)\.csv"
    r"|cleaned\.npy|fit\.png|report\.html|(summary|fit)\.json"
)
# Files that list all others.
_SUMMARIES = ("summary.json", "fit.json")


class Refusal(Exception):
    """A request that cannot be fulfilled, with an explanation."""


def check_writable(folder: pathlib.Path) -> None:
    """Refuse a folder that cannot be created or written to, before anything is computed.

    A file is written and removed: permissions do not show full or read-only disks.
    """
    with made_folder(folder, keep=False):
        try:
            with tempfile.TemporaryFile(dir=folder) as file:
                file.write(b"tried")
        except OSError as error:
            raise Refusal(f"Cannot write to {folder}: {error.strerror}.") from error


@contextlib.contextmanager
def made_folder(folder: pathlib.Path, keep: bool = True) -> Iterator[None]:
    """A folder to write to; new folders are removed on failure, or if they are not kept."""
    absent = [place for place in (folder, *folder.parents) if not os.path.exists(place)]
    kept = False
    try:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError) as error:
            sentence = f"Cannot write to {folder}: a file has the name of a folder."
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
    """Create a folder, or exit with a message and exit code 2."""
    try:
        check_writable(folder)
    except Refusal as refusal:
        console.print(str(refusal), markup=False)
        raise typer.Exit(2) from refusal
    folder.mkdir(parents=True, exist_ok=True)


def written_before(folder: pathlib.Path) -> set[str]:
    """Names of the files that an earlier command wrote to a folder, from its summary."""
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
