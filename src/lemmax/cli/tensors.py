"""``lemmax cp``: decompose a tensor into terms."""

import pathlib
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console

from .. import plots
from ._answers import tell_verdict
from ._arrays import is_array, read_array
from ._files import Refusal
from ._options import Kept, Member, Out, Seed, Squared, doubt_of, loss_of
from ._outcome import Outcome, refusing
from ._requirements import missing, possible_rank


def cp(
    file: Annotated[pathlib.Path, typer.Argument(help="A tensor: npy or npz.")],
    rank: Annotated[int, typer.Option(min=1, help="Upper bound on the number of terms.")] = 5,
    nonnegative: Annotated[
        bool, typer.Option("--nonnegative", help="No negative factors.")
    ] = False,
    starts: Annotated[int, typer.Option(min=1, help="Number of starts.")] = 1,
    squared: Squared = False,
    array: Member = None,
    seed: Seed = 0,
    checkpoint: Kept = None,
    out: Out = pathlib.Path("lemmax-cp"),
) -> None:
    """Decompose a tensor with missing entries and outliers into a sum of outer products."""
    from ..estimators import CPDecomposition

    console = Console()
    with refusing():
        tensor = _read_tensor(file, array)
        outcome = Outcome(console, out, f"CP decomposition of {file.name}", [file])
        shape, holes = " × ".join(map(str, tensor.shape)), int(np.sum(np.isnan(tensor)))
        outcome.note(f"{file.name}: {shape}, {missing(holes, tensor.size)}.")
        model = CPDecomposition(
            possible_rank(outcome, rank, tensor.shape),
            loss=loss_of(squared),
            nonnegative=nonnegative,
            n_init=starts,
            random_state=seed,
        )
        with outcome.working():
            outcome.fit(model, tensor, checkpoint=checkpoint)
            tell_verdict(outcome, model)
            if starts > 1:
                agree = ", ".join(f"{score:.3f}" for score in model.stability_)
                outcome.say(f"factor-match scores of all starts: {agree}")
            outcome.array("cleaned.npy", model.cleaned_)
            outcome.array("errors.npy", model.standard_error_)
            _tensor_outliers(outcome, model, tensor)
            if model.rank_:
                numbers = [f"term {k + 1}" for k in range(model.rank_)]
                for mode, factor in enumerate(model.factors_):
                    outcome.table(f"factor{mode}.csv", factor, numbers)
                outcome.table("weights.csv", model.weights_[None, :], numbers)
                figure = plots.factors(model.factors_)
                outcome.picture(figure, "Factors", "One panel for each mode, counted from 0.")
            outcome.write()
        outcome.tell(doubt_of(model))


def _read_tensor(file: pathlib.Path, array: str | None) -> np.ndarray:
    """Read an array with three or more dimensions and at least one value."""
    if not is_array(file):
        raise Refusal(
            f"A tensor is a npy or npz file; {file} is a table: use lemmax pca, or lemmax complete."
        )
    tensor = read_array(file, array)
    if tensor.ndim == 2:
        raise Refusal(f"{file} contains a matrix: use lemmax pca, or lemmax complete.")
    if tensor.ndim < 2:
        raise Refusal(f"{file} contains an array of shape {tensor.shape}; a tensor has more modes.")
    if len(tensor) < 2:
        raise Refusal(f"{file} has shape {tensor.shape}: a tensor with a single slice is a matrix.")
    if np.all(np.isnan(tensor)):
        raise Refusal(f"{file} contains no values: every entry is missing.")
    return tensor


def _tensor_outliers(outcome: Outcome, model: Any, tensor: np.ndarray) -> None:
    places = model.outliers_.tocoo().coords
    header = [*(f"mode {mode}" for mode in range(tensor.ndim)), "was", "should be"]
    columns = [*places, tensor[places], model.reconstruct()[places]]
    rows = zip(*(column.tolist() for column in columns), strict=True)
    outcome.listing("outliers.csv", header, rows)
