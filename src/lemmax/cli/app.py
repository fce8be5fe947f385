"""Commands, their options, and what they print."""

from typing import Annotated

import typer

import lemmax as lm

from .compare import compare
from .completion import complete
from .demo import demo
from .fit import fit
from .nonnegative import nnls
from .pca import pca
from .reproduce import reproduce
from .tensors import cp

_HELP = (
    "Composite optimisation: fast whatever the conditioning, the rank or the outliers.\n\n"
    "Exit codes: 0 after an answer that the data support; 1 after one that they do not, which is "
    "written nevertheless (verdicts such as NOT_CONVERGED and NOT_IDENTIFIABLE); 2 if something "
    "was refused and nothing written; 130 after Ctrl-C (what a fit had by then is written)."
)

app = typer.Typer(
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


for command in (pca, complete, cp, nnls, fit):
    app.command()(command)
app.command()(compare)
app.command()(reproduce)
app.command()(demo)
