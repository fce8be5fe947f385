"""``lemmax reproduce``: the paper's evidence, measured."""

import csv
import pathlib
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

from lemmax.experiments import table1

from ._files import make_folder, save

WHAT = {"table1": "every method in every setting it accepts; about two minutes"}


def reproduce(
    what: Annotated[
        list[str] | None, typer.Argument(help="What to reproduce; nothing lists what there is.")
    ] = None,
    out: Annotated[pathlib.Path, typer.Option(help="Folder for the tables.")] = pathlib.Path(
        "lemmax-paper"
    ),
    seed: Annotated[int, typer.Option(min=0, help="Of everything random.")] = 0,
) -> None:
    """Measure what the paper claims, and say where the measurements differ."""
    console = Console()
    if not what:
        for name, description in WHAT.items():
            console.print(f"{name}: {description}")
        return
    unknown = [name for name in what if name not in WHAT]
    if unknown:
        console.print(f"Nothing called {', '.join(unknown)}. There is: {', '.join(WHAT)}.")
        raise typer.Exit(2)
    make_folder(console, out)
    _table1(console, out, seed)


def _table1(console: Console, out: pathlib.Path, seed: int) -> None:
    total = len(table1.SETTINGS) * len(table1.ENTRIES)
    cells = list(track(table1.measure(seed), "Table 1", total=total, console=console))
    for symmetric in (True, False):
        console.print(_half(cells, symmetric))
    console.print(
        "✓ linear to the solution, with the factor per step for condition numbers 1 and 100; "
        "floor: linear to a neighbourhood; ✗ slower, with the error after all steps; - not "
        "expressible; * ticked in the paper."
    )
    console.print("\nWhere the measurement differs from the paper's tick:")
    for cell in cells:
        if cell.disagreement:
            console.print(f"- {cell.disagreement}")
    path = out / "table1.csv"
    save(path, lambda partial: _write_csv(partial, cells))
    console.print(f"\nTable: {path}")


def _half(cells: list[table1.Cell], symmetric: bool) -> Table:
    settings = [s for s in table1.SETTINGS if s.symmetric == symmetric]
    table = Table(title="Symmetric" if symmetric else "Asymmetric", title_justify="left")
    table.add_column("method", no_wrap=True)
    for setting in settings:
        table.add_column(str(setting).split(", ", 1)[1])
    for entry in table1.ENTRIES:
        mine = {c.setting: c for c in cells if c.method == entry.name}
        shown = [
            " / ".join(dict.fromkeys(str(o) for o in mine[s].outcomes.values()))
            + (" *" if mine[s].ticked else "")
            for s in settings
        ]
        table.add_row(entry.name, *shown)
    return table


def _write_csv(path: str, cells: list[table1.Cell]) -> None:
    with pathlib.Path(path).open("w", newline="") as file:
        writer = csv.writer(file)
        setting = [f"setting_{name}" for name in table1.Setting._fields]
        outcome_names = table1.Outcome._fields
        writer.writerow(["method", *setting, "condition", *outcome_names, "ticked_in_paper"])
        for cell in cells:
            for condition, outcome in cell.outcomes.items():
                writer.writerow([cell.method, *cell.setting, condition, *outcome, cell.ticked])
