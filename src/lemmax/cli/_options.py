"""Options that several commands have."""

import pathlib
from typing import Annotated, Any

import typer

from ..recovery import RecoveryStatus

Components = Annotated[
    int | None, typer.Option(min=1, help="How many; if absent, found from cells kept aside.")
]
MaxComponents = Annotated[int, typer.Option(min=1, help="The largest number that is tried.")]
MaxSeconds = Annotated[
    float | None, typer.Option(min=0, help="End the fit with what there is after so long.")
]
Kept = Annotated[
    pathlib.Path | None,
    typer.Option(
        "--checkpoint", help="Folder that keeps the fit: killed, the same command goes on from it."
    ),
]
Squared = Annotated[bool, typer.Option("--squared", help="Noise alone, no gross errors.")]
Seed = Annotated[int, typer.Option(min=0, help="Random seed.")]
Member = Annotated[
    str | None, typer.Option("--array", help="Which array of an npz file, or sheet of an xlsx.")
]
Labels = Annotated[str | None, typer.Option(help="Name of the column that labels the rows.")]
Header = Annotated[
    bool | None, typer.Option(help="Whether the first line of a text has names; found out if not.")
]
Only = Annotated[
    str | None, typer.Option(help="Columns to fit, as in a,b,c; the others are carried through.")
]
Drop = Annotated[
    str | None, typer.Option(help="Columns that are not fitted, as in a,b, but carried through.")
]
Out = Annotated[pathlib.Path, typer.Option(help="Folder for what is written.")]


def loss_of(squared: bool) -> str:
    """The name of a loss."""
    return "squared" if squared else "robust"


def doubt_of(model: Any) -> str:
    """Why not to rely on the answer; nothing if the data support it."""
    status = RecoveryStatus[model.status_]
    if status.succeeded:
        return ""
    return f"The verdict is {status.name}: what was written is not to be relied on."
