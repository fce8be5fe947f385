"""Folders and files for what a command writes."""

import os
import pathlib
import tempfile
from collections.abc import Callable

import typer
from rich.console import Console


def make_folder(console: Console, folder: pathlib.Path) -> None:
    """Create a folder, or leave with one sentence and exit code 2."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        console.print(f"Cannot write to {folder}: {error.strerror}.")
        raise typer.Exit(2) from error


def save(path: pathlib.Path, write: Callable[[str], object]) -> None:
    """Write beside the target, then rename: nobody ever sees half a file."""
    handle, partial = tempfile.mkstemp(suffix=path.suffix, dir=path.parent)
    os.close(handle)
    try:
        write(partial)
        # A temporary file is private; what is asked for is as public as any other.
        pathlib.Path(partial).chmod(0o666 & ~_umask())
        pathlib.Path(partial).replace(path)
    except BaseException:
        pathlib.Path(partial).unlink(missing_ok=True)
        raise


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
