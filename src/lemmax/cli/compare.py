"""``lemmax compare``: compare methods on a random sensing problem."""

import enum
import pathlib
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table

import lemmax as lm
from lemmax.experiments.instances import matrix_sensing

from ._files import make_folder, save
from ._options import Seed

METHODS = {
    "lmm": lm.methods.lmm,
    "gauss-newton": lm.methods.gauss_newton,
    "subgradient": lm.methods.polyak_subgradient,
    "scaled-gd": lm.methods.scaled_gd,
    "scaled-gd-damped": lm.methods.scaled_gd_damped,
    "scaled-subgradient": lm.methods.scaled_subgradient,
    "prec-gd": lm.methods.prec_gd,
    "prec-gd-asymmetric": lm.methods.prec_gd_asymmetric,
    "opsa": lm.methods.opsa,
    "apgd": lm.methods.apgd,
    "agn": lm.methods.approximate_gauss_newton,
    "prox-linear": lambda: lm.methods.prox_linear(target=0.0),
    "super-polyak": lm.methods.super_polyak,
}
_ERROR = "relative error"
_SHORT = {
    "TARGET_REACHED": "reached",
    "CONVERGED": "converged",
    "STEP_LIMIT": "limit",
    "STAGNATED": "stalled",
    "PRECISION_FLOOR": "floor",
    "DIVERGED": "diverged",
    "NON_FINITE": "NaN",
    "LINEAR_SOLVE_FAILED": "failed",
    "INTERRUPTED": "stopped",
    "STATIONARY": "stationary",
}
# Exit code of a program ended by Ctrl-C.
_INTERRUPTED = 130


class Kind(enum.StrEnum):
    """Types of matrices to recover."""

    psd = "psd"
    asymmetric = "asymmetric"


class Loss(enum.StrEnum):
    """Losses of the sensing problem."""

    l1 = "l1"
    square = "square"


def compare(
    kind: Annotated[Kind, typer.Argument(help="Type of matrix to recover.")] = Kind.psd,
    methods: Annotated[
        str, typer.Option(help=f"Method names, separated by commas: {', '.join(METHODS)}.")
    ] = "lmm,gauss-newton,subgradient,scaled-subgradient,prox-linear",
    dim: Annotated[int, typer.Option(min=2, help="Rows of the matrix.")] = 40,
    rank: Annotated[int, typer.Option(min=1, help="Rank of the fit.")] = 5,
    true_rank: Annotated[int, typer.Option(min=1, help="True rank.")] = 2,
    condition: Annotated[float, typer.Option(min=1, help="Condition number.")] = 100.0,
    loss: Annotated[Loss, typer.Option(help="Loss.")] = Loss.l1,
    steps: Annotated[int, typer.Option(min=1, help="Largest number of steps.")] = 400,
    seed: Seed = 0,
    out: Annotated[pathlib.Path, typer.Option(help="Folder for the picture.")] = pathlib.Path(
        "lemmax-compare"
    ),
) -> None:
    """Run several methods on a sensing problem: a table and a plot."""
    console = Console()
    chosen = _chosen(console, methods)
    try:
        instance = matrix_sensing(
            kind is Kind.psd,
            seed,
            dim=dim,
            rank=rank,
            true_rank=true_rank,
            condition=condition,
            loss=lm.losses.L1() if loss is Loss.l1 else lm.losses.SquaredL2(),
        )
    except (ValueError, MemoryError) as error:
        console.print(str(error))
        raise typer.Exit(2) from None
    make_folder(console, out)
    with console.status("running"):
        comparison = lm.compare(
            instance.problem,
            {name: METHODS[name]() for name in chosen},
            instance.x0,
            max_steps=steps,
            # Relative to the start, whose error is 1e-2; a squared loss falls twice as fast.
            tol=1e-12 if loss is Loss.l1 else 1e-24,
            metrics={_ERROR: instance.error},
        )
    if comparison.results:
        console.print(_table(comparison))
    for name, sentence in comparison.refused.items():
        console.print(f"{name} was left out. {sentence}")
    if comparison.interrupted:
        waiting = ", ".join(comparison.not_run)
        console.print("Interrupted." + (f" Not run: {waiting}." if waiting else ""))
        raise typer.Exit(_INTERRUPTED)
    if not comparison.results:
        console.print("Every method refused this problem: there is nothing to compare.")
        raise typer.Exit(2)
    path = out / "compare.png"
    figure = lm.plots.compare(comparison, _ERROR)
    save(path, lambda partial: figure.savefig(partial, dpi=150))
    console.print(f"Picture: {path}")


def _chosen(console: Console, methods: str) -> list[str]:
    """The names in a comma-separated list; exits with code 2 if one is unknown."""
    chosen = [name.strip().lower() for name in methods.split(",") if name.strip()]
    unknown = [name for name in chosen if name not in METHODS]
    if unknown or not chosen:
        console.print(f"Unknown method {', '.join(unknown) or '(nothing)'}. There are:")
        console.print(", ".join(METHODS))
        raise typer.Exit(2)
    repeated = sorted({name for name in chosen if chosen.count(name) > 1})
    if repeated:
        console.print(f"Named more than once: {', '.join(repeated)}.")
        raise typer.Exit(2)
    return chosen


def _table(comparison: lm.Comparison) -> Table:
    # Without a frame, eight columns fit in 80 characters.
    table = Table(
        title="Relative error, and the cost of reaching 1e-10",
        title_justify="left",
        caption="seconds: mean time per step × steps, without compilation",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        collapse_padding=True,
    )
    table.add_column("method", no_wrap=True)
    table.add_column("ended", no_wrap=True)
    for column in ("best", "last", "steps", "passes", "seconds", "compile"):
        table.add_column(column, justify="right")

    def cell(number: float | None, form: str) -> str:
        return "never" if number is None else format(number, form)

    for row in comparison.table(_ERROR):
        table.add_row(
            row["method"],
            _SHORT[row["status"]],
            f"{row['best']:.1e}",
            f"{row['last']:.1e}",
            cell(row["steps_to_accuracy"], "d"),
            cell(row["passes_to_accuracy"], "d"),
            cell(row["seconds_to_accuracy"], ".3f"),
            f"{row['compile_seconds']:.1f} s",
        )
    return table
