"""``lemmax reproduce``: recompute the paper's figures and table, and test its claims."""

import pathlib
from collections import Counter
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from lemmax.experiments import figures
from lemmax.experiments.harness import Claim, Finished, Summary, perform, write_report

from ._files import make_folder
from ._options import Seed

_COLOURS = {"supported": "green", "corrected": "yellow", "undecided": "dim", "not supported": "red"}
_INTERRUPTED = 130


def _completions(incomplete: str) -> list[str]:
    """Names for shell completion; typer requires this argument name."""
    return [name for name in figures.NAMES if name.startswith(incomplete)]


def reproduce(
    what: Annotated[
        list[str] | None,
        typer.Argument(
            help="What to reproduce; without a name, --all or --quick, show the list.",
            autocompletion=_completions,
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Reproduce everything.")] = False,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick", help="Small sizes: minutes instead of hours; everything if nothing is named."
        ),
    ] = False,
    out: Annotated[
        pathlib.Path, typer.Option(help="Folder for tables, pictures and report.")
    ] = pathlib.Path("lemmax-paper"),
    seed: Seed = 0,
    resume: Annotated[
        bool, typer.Option("--resume", help="Reuse what an interrupted call has finished.")
    ] = False,
) -> None:
    """Recompute the paper's figures, and test every claim."""
    console = Console()
    # --quick without a name means everything.
    names = list(figures.NAMES) if everything or (quick and not what) else list(what or ())
    if not names:
        console.print(_listing())
        return
    unknown = [name for name in names if name not in figures.NAMES]
    if unknown:
        known = ", ".join(figures.NAMES)
        console.print(f"Unknown: {', '.join(unknown)}. There is: {known}.")
        raise typer.Exit(2)
    make_folder(console, out)
    size = "quick" if quick else "full"
    names = [name for name in figures.NAMES if name in names]
    too_large = False
    try:
        for name in names:
            try:
                _tell(console, _run(console, name, out, seed, size, resume))
            except MemoryError as error:
                too_large = True
                console.print(
                    f"{name} does not fit in memory: {error} Its small size does: "
                    f"lemmax reproduce {name} --quick"
                )
                continue
            # After each experiment, so that there is a report even after an interrupt.
            write_report(out)
    except KeyboardInterrupt:
        options = f"--out {out} --seed {seed}{' --quick' if quick else ''} --resume"
        console.print(
            "\nInterrupted. Finished parts are kept; continue with:\n"
            f"  lemmax reproduce {' '.join(names)} {options}"
        )
        raise typer.Exit(_INTERRUPTED) from None
    if (out / "report.html").exists():
        console.print(f"\nReport: {out / 'report.html'}")
    if too_large:
        raise typer.Exit(1)


def _listing() -> Table:
    table = Table(title="Experiments", title_justify="left")
    table.add_column("name", no_wrap=True)
    table.add_column("what")
    table.add_column("minutes on two cores", justify="right")
    for name in figures.NAMES:
        experiment = figures.load(name)
        table.add_row(name, experiment.title, f"{experiment.minutes:g}")
    table.caption = "lemmax reproduce NAME ..., or --all; --quick for small sizes."
    return table


def _run(
    console: Console, name: str, out: pathlib.Path, seed: int, size: str, resume: bool
) -> Finished:
    experiment = figures.load(name)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:3.0f} %"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[job]}"),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(name, total=1.0, job="")

        def progress(job: str, share: float) -> None:
            bar.update(task, completed=share, job=job)

        return perform(experiment, out, seed=seed, size=size, resume=resume, progress=progress)


def _tell(console: Console, finished: Finished) -> None:
    record = finished.record
    console.rule(f"{record['title']} ({record['seconds']:.0f} s)", align="left")
    for summary in finished.summaries:
        console.print(_grid(summary))
        if summary.remark:
            console.print(summary.remark, style="dim")
    for claim in finished.claims:
        _judge(console, claim)
    console.print(_count(finished.claims))


def _grid(summary: Summary) -> Table:
    table = Table(title=summary.title, title_justify="left")
    for column in summary.header:
        table.add_column(column)
    for row in summary.rows:
        table.add_row(*row)
    return table


def _judge(console: Console, claim: Claim) -> None:
    outcome = claim.outcome
    console.print(f"[{_COLOURS[outcome]}]{outcome}[/]: ", end="")
    # Numbers in brackets are not rich markup.
    console.print(claim.statement, markup=False, highlight=False)
    if claim.correction and outcome != "supported":
        console.print(f"  Instead: {claim.correction}", markup=False, highlight=False)
    console.print(f"  {claim.numbers}", style="dim", markup=False, highlight=False)


def _count(claims: Sequence[Claim]) -> str:
    counts = Counter(claim.outcome for claim in claims)
    shown = [f"{counts[outcome]} {outcome}" for outcome in _COLOURS if counts[outcome]]
    return f"Claims: {', '.join(shown) or 'none'}."
