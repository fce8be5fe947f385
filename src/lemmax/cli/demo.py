"""``lemmax demo``: a table, a model and the paper's claim, in a few seconds each."""

import pathlib
import time
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

import lemmax as lm
from lemmax.experiments import demo as acts

from .. import page
from .._files import Write, save_all, text_writer
from ._files import make_folder
from ._options import Seed


def demo(
    out: Annotated[pathlib.Path, typer.Option(help="Folder for the page and the pictures.")] = (
        pathlib.Path("lemmax-demo")
    ),
    seed: Seed = 0,
) -> None:
    """Clean a table, fit a model, and test the paper's claim: tables, plots and a page."""
    console = Console()
    make_folder(console, out)
    began, shown = time.perf_counter(), {}
    for make in acts.ACTS:
        with console.status(make.__name__):
            act = shown[make.__name__] = make(seed)
        console.print(_table(act))
        console.print(f"{act.remark}\n", style="dim", highlight=False)
    figures = {name: acts.picture([act]) for name, act in shown.items()}
    index, text = out / "index.html", _page(shown, figures)
    figures["demo"] = acts.picture(list(shown.values()))
    files: dict[pathlib.Path, Write] = {
        out / f"{name}.png": lambda partial, f=figure: f.savefig(partial, format="png", dpi=110)
        for name, figure in figures.items()
    }
    save_all({**files, index: text_writer(text)})
    seconds = time.perf_counter() - began
    console.print(f"Done in {seconds:.0f} s. Open {index} in a browser.", soft_wrap=True)


def _table(act: acts.Act) -> Table:
    table = Table(title=act.title, title_justify="left")
    first, *others = act.header
    table.add_column(first, no_wrap=True)
    for column in others:
        table.add_column(column, justify="right", no_wrap=True)
    for row in act.rows:
        table.add_row(*row)
    return table


def _page(shown: dict[str, acts.Act], figures: dict[str, Any]) -> str:
    return page.page(
        "What lemmax does",
        page.paragraph(f"Written by lemmax demo, version {lm.__version__}."),
        *(
            page.section(
                act.title,
                page.paragraph(act.text),
                page.code(act.code),
                page.picture(figures[name], act.description),
                page.table(act.header, act.rows),
                page.paragraph(act.remark, faint=True),
            )
            for name, act in shown.items()
        ),
    )
