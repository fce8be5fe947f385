"""The commands and their common help text."""

import importlib
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import lemmax as lm

# The modules of the commands.
_FILES = {
    "pca": "pca",
    "complete": "completion",
    "cp": "tensors",
    "nnls": "nonnegative",
    "fit": "fit",
    "compare": "compare",
    "reproduce": "reproduce",
    "demo": "demo",
}
_HELP = (
    "Robust tables, ratings, tensors and model fits, with error bars.\n\n"
    "Exit codes: 0 if the data support the answer; 1 if they do not (verdicts such as "
    "NOT_CONVERGED and NOT_IDENTIFIABLE; the results are written nevertheless); 2 if the input "
    "was refused and nothing was written; 130 after Ctrl-C (the results so far are written)."
)


class _Commands(Mapping[str, Any]):
    """The commands by name; each is imported on first use."""

    def __iter__(self) -> Iterator[str]:
        return iter(_FILES)

    def __len__(self) -> int:
        return len(_FILES)

    def __getitem__(self, name: str) -> Any:
        single = typer.Typer(add_completion=False)
        file = importlib.import_module(f".{_FILES[name]}", __package__)
        single.command(name)(getattr(file, name))
        return typer.main.get_command(single)


class _Group(TyperGroup):
    def __init__(self, **options: Any):
        super().__init__(**options)
        self.commands: Any = _Commands()

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.commands)


app = typer.Typer(
    cls=_Group,
    help=_HELP,
    no_args_is_help=True,
    invoke_without_command=True,
)


@app.callback()
def lemmax(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Print the version or the help text."""
    if version:
        typer.echo(lm.__version__)
        raise typer.Exit
