"""Folders and files for what a command writes."""

import pathlib

import typer
from rich.console import Console

from .._files import save as save


class Refusal(Exception):
    """Something that cannot be done, said in one sentence."""


def make_folder(console: Console, folder: pathlib.Path) -> None:
    """Create a folder, or leave with one sentence and exit code 2."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        console.print(f"Cannot write to {folder}: {error.strerror}.")
        raise typer.Exit(2) from error
