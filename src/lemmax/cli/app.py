"""Commands, their options, and what they print."""

import pathlib
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

import lemmax as lm
from lemmax.experiments import demo as demo_contests

from ._files import make_folder, save
from ._options import Seed
from .compare import compare
from .completion import complete
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


@app.command()
def demo(
    out: Annotated[pathlib.Path, typer.Option(help="Folder for the picture.")] = pathlib.Path(
        "lemmax-demo"
    ),
    seed: Seed = 0,
) -> None:
    """Solve three problems with three methods, side by side, and draw the outcome."""
    console = Console()
    make_folder(console, out)
    outcomes = {}
    for make in demo_contests.CONTESTS:
        with console.status("preparing"):
            contest = make(seed)
        outcomes[contest.title] = _run(console, contest)
        console.print(_table(contest, outcomes[contest.title]))
    path = out / "demo.png"
    figure = demo_contests.picture(outcomes)
    save(path, lambda partial: figure.savefig(partial, dpi=150))
    console.print(f"\nPicture: {path}")


def _run(console: Console, contest: demo_contests.Contest) -> dict[str, lm.Result]:
    columns = (TextColumn("{task.description:20}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        tasks = {name: progress.add_task(name, total=contest.max_steps) for name in contest.methods}

        def watch(name: str, snapshot: lm.Snapshot) -> None:
            progress.update(tasks[name], completed=snapshot.step)

        return dict(demo_contests.run(contest, watch))


def _table(contest: demo_contests.Contest, results: dict[str, lm.Result]) -> Table:
    table = Table(title=contest.title, caption=contest.remark, title_justify="left")
    table.add_column("method", no_wrap=True)
    for column in ("largest error", "last error", "steps to 1e-10", "ms/step", "compiling"):
        table.add_column(column, justify="right")
    for name, result in results.items():
        error = np.asarray(result.trace.metrics[demo_contests.ERROR])
        hit = np.flatnonzero(error <= 1e-10)
        table.add_row(
            name,
            f"{np.max(error):.1e}",
            f"{error[-1]:.1e}",
            str(hit[0]) if hit.size else "never",
            f"{1e3 * result.seconds / max(int(result.steps), 1):.2f}",
            f"{result.compile_seconds:.1f} s",
        )
    return table
