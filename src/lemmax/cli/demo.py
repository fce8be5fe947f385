"""``lemmax demo``: a table, a model and the paper's claim, each in a few seconds."""

import pathlib
import time
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

import lemmax as lm
from lemmax.experiments import demo as acts

from .. import page
from .._files import save_all, text_writer
from ._files import make_folder
from ._options import Seed


def demo(
    out: Annotated[pathlib.Path, typer.Option(help="Folder for the page and the picture.")] = (
        pathlib.Path("lemmax-demo")
    ),
    seed: Seed = 0,
) -> None:
    """Clean a table, fit a model, test the paper's claim: tables, a picture and a page."""
    console = Console()
    make_folder(console, out)
    began, shown = time.perf_counter(), []
    for make in acts.ACTS:
        with console.status(make.__name__):
            act = make(seed)
        shown.append(act)
        console.print(_table(act))
        console.print(f"{act.remark}\n", style="dim", highlight=False)
    figure = acts.picture(shown)
    index, picture = out / "index.html", out / "demo.png"
    text = _page(shown)
    save_all(
        {
            picture: lambda partial: figure.savefig(partial, format="png", dpi=110),
            index: text_writer(text),
        }
    )
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


def _page(shown: list[acts.Act]) -> str:
    return page.page(
        "What lemmax does",
        page.paragraph(f"Written by lemmax demo, version {lm.__version__}."),
        *(
            page.section(
                act.title,
                page.paragraph(act.text),
                page.code(act.code),
                page.picture(acts.picture([act]), act.description),
                page.table(act.header, act.rows),
                page.paragraph(act.remark, faint=True),
            )
            for act in shown
        ),
    )
