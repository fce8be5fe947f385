"""Commands, their options, and what they print."""

import os
import pathlib
import tempfile
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

import lemmax as lm
from lemmax.experiments import demo as demo_contests

app = typer.Typer(
    help="Composite optimisation: fast whatever the conditioning, the rank or the outliers.",
    no_args_is_help=True,
    add_completion=False,
)


@app.callback()
def _group() -> None:
    """Keep ``demo`` a subcommand while it is the only one."""


@app.command()
def demo(
    out: Annotated[pathlib.Path, typer.Option(help="Folder for the picture.")] = pathlib.Path(
        "lemmax-demo"
    ),
    seed: Annotated[int, typer.Option(min=0, help="Of everything random.")] = 0,
) -> None:
    """Solve three problems with three methods, side by side, and draw the outcome."""
    console = Console()
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        console.print(f"Cannot write to {out}: {error.strerror}.")
        raise typer.Exit(2) from error
    outcomes = {}
    for make in demo_contests.CONTESTS:
        with console.status("preparing"):
            contest = make(seed)
        outcomes[contest.title] = _run(console, contest)
        console.print(_table(contest, outcomes[contest.title]))
    path = out / "demo.png"
    _save(demo_contests.picture(outcomes), path)
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


def _save(figure, path: pathlib.Path) -> None:
    """Write beside the target, then rename: nobody ever sees half a picture."""
    handle, partial = tempfile.mkstemp(suffix=path.suffix, dir=path.parent)
    os.close(handle)
    figure.savefig(partial, dpi=150)
    pathlib.Path(partial).replace(path)
