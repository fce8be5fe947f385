"""The commands, and what is said about them all."""

import importlib
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import lemmax as lm

# Where the commands are.
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
    "Composite optimisation: fast whatever the conditioning, the rank or the outliers.\n\n"
    "Exit codes: 0 after an answer that the data support; 1 after one that they do not, which is "
    "written nevertheless (verdicts such as NOT_CONVERGED and NOT_IDENTIFIABLE); 2 if something "
    "was refused and nothing written; 130 after Ctrl-C (what a fit had by then is written)."
)


class _Commands(Mapping[str, Any]):
    """The commands by their names; each is imported when it is asked for."""

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
    """Say what there is."""
    if version:
        typer.echo(lm.__version__)
        raise typer.Exit
