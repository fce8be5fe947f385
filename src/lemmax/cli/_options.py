"""Options shared by several commands."""

import pathlib
from typing import Annotated, Any

import typer

from ..status import RecoveryStatus

Components = Annotated[
    int | None,
    typer.Option(min=1, help="Number of components; by default chosen on held-out cells."),
]
MaxComponents = Annotated[int, typer.Option(min=1, help="Largest number of components to try.")]
MaxSeconds = Annotated[
    float | None, typer.Option(min=0, help="Time limit; the fit ends with its latest state.")
]
Squared = Annotated[bool, typer.Option("--squared", help="Squared loss: noise, but no outliers.")]
Kept = Annotated[
    pathlib.Path | None,
    typer.Option(
        "--checkpoint", help="Folder for the state: if killed, the same command continues from it."
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="Random seed.")]
Member = Annotated[
    str | None, typer.Option("--array", help="Array of an npz file, or sheet of an xlsx file.")
]
Labels = Annotated[str | None, typer.Option(help="Name of the column that labels the rows.")]
Header = Annotated[
    bool | None, typer.Option(help="Whether a text file has a header; detected by default.")
]
Only = Annotated[
    str | None, typer.Option(help="Columns to fit, such as a,b,c; the others are carried through.")
]
Drop = Annotated[
    str | None, typer.Option(help="Columns to carry through without fitting, such as a,b.")
]
Out = Annotated[pathlib.Path, typer.Option(help="Output folder.")]


def loss_of(squared: bool) -> str:
    """The name of a loss."""
    return "squared" if squared else "robust"


def doubt_of(model: Any) -> str:
    """Why the answer is unreliable; empty if the data support it."""
    status = RecoveryStatus[model.status_]
    if status.succeeded:
        return ""
    return f"The verdict is {status.name}: the results are unreliable."
