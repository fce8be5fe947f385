"""Folders and files for what a command writes."""

import contextlib
import os
import pathlib
import tempfile

import typer
from rich.console import Console

from .._files import save as save


class Refusal(Exception):
    """Something that cannot be done, said in one sentence."""


def check_writable(folder: pathlib.Path) -> None:
    """Refuse a folder that cannot be made or written to, before anything is computed.

    It is tried: permissions alone say nothing about full or read-only disks. Nothing is left of it.
    """
    absent = [place for place in (folder, *folder.parents) if not os.path.exists(place)]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"tried")
    except (FileExistsError, NotADirectoryError) as error:
        raise Refusal(f"Cannot write to {folder}: a file is where a folder should be.") from error
    except OSError as error:
        raise Refusal(f"Cannot write to {folder}: {error.strerror}.") from error
    finally:
        for place in absent:
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
