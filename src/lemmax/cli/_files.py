"""Folders and files for what a command writes."""

import os
import pathlib

import typer
from rich.console import Console

from .._files import save as save


class Refusal(Exception):
    """Something that cannot be done, said in one sentence."""


def check_writable(folder: pathlib.Path) -> None:
    """Refuse a folder that cannot be made or written to, before anything is computed."""
    nearest = folder.absolute()
    while not nearest.exists() and nearest != nearest.parent:
        nearest = nearest.parent
    if not nearest.is_dir():
        raise Refusal(f"Cannot write to {folder}: {nearest} is not a folder.")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise Refusal(f"Cannot write to {folder}: permission denied.")


def make_folder(console: Console, folder: pathlib.Path) -> None:
    """Create a folder, or leave with one sentence and exit code 2."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        console.print(f"Cannot write to {folder}: {error.strerror}.")
        raise typer.Exit(2) from error
