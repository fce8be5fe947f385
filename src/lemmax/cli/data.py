"""``lemmax pca``, ``complete``, ``cp``: from a file to an answer and a picture."""

import pathlib
from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console

from .. import plots
from ..recovery import RecoveryStatus
from ._arrays import is_array, read_array
from ._entries import WRONG, NamedEntries
from ._files import Refusal
from ._outcome import Outcome, column_names, refusing
from ._readiness import (
    contents,
    counted,
    missing,
    note_empty_columns,
    note_empty_rows,
    note_left_out,
    note_likely_list,
    possible_rank,
    refuse_empty_columns,
    require_rows,
    require_values,
)
from ._reading import TableFile, read_table

Rank = Annotated[int | None, typer.Option(min=1, help="Upper bound on the rank.")]
Squared = Annotated[bool, typer.Option("--squared", help="Noise alone, no gross errors.")]
Seed = Annotated[int, typer.Option(min=0, help="Of everything random.")]
Member = Annotated[str | None, typer.Option("--array", help="Which array of an npz file.")]
Labels = Annotated[str | None, typer.Option(help="Name of the column that labels the rows.")]
Header = Annotated[
    bool | None, typer.Option(help="Whether the first line of a text has names; found out if not.")
]
Out = Annotated[pathlib.Path, typer.Option(help="Folder for what is written.")]

_PCA = ("scores", "components")
_COMPLETION = ("row factors", "column factors")


def pca(
    file: Annotated[pathlib.Path, typer.Argument(help="A table: csv, npy, npz, mtx or parquet.")],
    rank: Rank = None,
    centre: Annotated[bool, typer.Option(help="Whether a location is part of the model.")] = True,
    nonnegative: Annotated[
        bool, typer.Option("--nonnegative", help="No negative components (needs --no-centre).")
    ] = False,
    squared: Squared = False,
    labels: Labels = None,
    header: Header = None,
    array: Member = None,
    seed: Seed = 0,
    out: Out = pathlib.Path("lemmax-pca"),
) -> None:
    """Clean a table with holes and wrong entries, and find its principal components."""
    from ..estimators import RobustPCA
    from ..estimators._tables import dense_with_gaps

    console = Console()
    with refusing():
        table = read_table(file, labels, array, header)
        require_values(table)
        require_rows(table, 2)
        refuse_empty_columns(table)
        if nonnegative and centre:
            raise Refusal("--nonnegative needs --no-centre: a location has a sign.")
        outcome = Outcome(console, out, f"Robust PCA of {file.name}", [file])
        outcome.note(contents(table))
        note_empty_rows(
            outcome, table, "the location stands there, and the verdict speaks of the others"
        )
        values = dense_with_gaps(table.values)
        model = RobustPCA(
            None if rank is None else possible_rank(outcome, rank, values.shape),
            loss=_loss(squared),
            centre=centre,
            nonnegative=nonnegative,
            random_state=seed,
        )
        with outcome.working():
            outcome.fit(model, values)
            numbers = [f"component {k + 1}" for k in range(model.rank_)]
            names = (table.labels, table.label_name)
            outcome.table("cleaned.csv", model.low_rank_, table.columns, *names)
            outcome.table("location.csv", model.location_[None, :], table.columns)
            _verdict(outcome, model, table.row_name, table.column_name)
            note_left_out(outcome, table, model.left_out_)
            _before_after(outcome, model, values, model.low_rank_, table)
            if model.rank_:
                outcome.table(
                    "components.csv", model.components_, table.columns, numbers, "component"
                )
                outcome.table("scores.csv", model.scores_, numbers, *names)
                _factors_picture(
                    outcome, "Components", (model.scores_, model.components_.T), _PCA, table
                )
            outcome.write()
        outcome.tell(model.status_, _doubt(model))


def complete(
    file: Annotated[pathlib.Path, typer.Argument(help="A table with holes, or a list of entries.")],
    columns: Annotated[
        str | None, typer.Option(help="For a list: names of row, column and value, as in u,i,r.")
    ] = None,
    rank: Annotated[
        int | None, typer.Option(min=1, help="Upper bound; chosen by held-out entries if absent.")
    ] = None,
    effects: Annotated[
        bool, typer.Option("--effects", help="Rows and columns have own levels.")
    ] = False,
    predict: Annotated[
        pathlib.Path | None, typer.Option(help="A list with rows and columns to predict.")
    ] = None,
    squared: Squared = False,
    labels: Labels = None,
    header: Header = None,
    array: Member = None,
    seed: Seed = 0,
    out: Out = pathlib.Path("lemmax-complete"),
) -> None:
    """Fill the holes of a table, or predict entries from a list of known ones."""
    from ..estimators import MatrixCompletion
    from ..estimators._tables import dense_with_gaps

    console = Console()
    with refusing():
        if predict is not None and columns is None:
            raise Refusal("--predict needs --columns: it asks for rows and columns by name.")
        entries = None if columns is None else NamedEntries(file, columns)
        asked = None if entries is None or predict is None else entries.asked(predict)
        table = (
            TableFile(file, None, entries.columns, entries.rows)
            if entries is not None
            else read_table(file, labels, array, header)
        )
        if entries is None:
            require_values(table)
        sources = [file] if predict is None else [file, predict]
        outcome = Outcome(console, out, f"Completion of {file.name}", sources)
        if entries is None:
            outcome.note(contents(table))
            note_empty_rows(outcome, table)
            note_empty_columns(outcome, table)
            note_likely_list(outcome, table)
            shape = table.values.shape
        else:
            outcome.note(entries.contents())
            _note_repeated(outcome, entries)
            if asked is not None and asked.unknown():
                outcome.note(asked.unknown())
            shape = len(entries.rows), len(entries.columns)
        model = MatrixCompletion(
            "auto" if rank is None else possible_rank(outcome, rank, shape),
            loss=_loss(squared),
            effects=effects,
            random_state=seed,
        )
        with outcome.working():
            outcome.fit(model, table.values if entries is None else entries.values)
            _verdict(outcome, model, table.row_name, table.column_name)
            kind = "mean square" if squared else "mean size, wrong entries among them"
            for rank_tried, error in model.held_out_errors_.items():
                outcome.say(f"rank {rank_tried}: error {error:.4g} at entries kept aside ({kind})")
            _factors(outcome, model, table)
            if entries is None:
                values, cleaned = dense_with_gaps(table.values), model.complete()
                keys = (table.columns, table.labels, table.label_name)
                outcome.table("completed.csv", cleaned, *keys)
                _before_after(outcome, model, values, cleaned, table)
            else:
                outcome.listing("outliers.csv", *entries.outliers(model))
                if asked is None:
                    outcome.say(_how_to_predict(entries))
                else:
                    outcome.listing("predictions.csv", *entries.predictions(model, asked))
            if model.rank_:
                sides = (model.row_factors_, model.column_factors_)
                _factors_picture(outcome, "Factors", sides, _COMPLETION, table)
            outcome.write()
        outcome.tell(model.status_, _doubt(model))


def cp(
    file: Annotated[pathlib.Path, typer.Argument(help="A tensor: npy or npz.")],
    rank: Annotated[int, typer.Option(min=1, help="Upper bound on the number of terms.")] = 5,
    nonnegative: Annotated[
        bool, typer.Option("--nonnegative", help="No negative factors.")
    ] = False,
    starts: Annotated[int, typer.Option(min=1, help="How many starts to try.")] = 1,
    squared: Squared = False,
    array: Member = None,
    seed: Seed = 0,
    out: Out = pathlib.Path("lemmax-cp"),
) -> None:
    """Decompose a tensor with holes and wrong entries into a sum of outer products."""
    from ..estimators import CPDecomposition

    console = Console()
    with refusing():
        tensor = _read_tensor(file, array)
        outcome = Outcome(console, out, f"CP decomposition of {file.name}", [file])
        shape, holes = " × ".join(map(str, tensor.shape)), int(np.sum(np.isnan(tensor)))
        outcome.note(f"{file.name}: {shape}, {missing(holes, tensor.size)}.")
        model = CPDecomposition(
            possible_rank(outcome, rank, tensor.shape),
            loss=_loss(squared),
            nonnegative=nonnegative,
            n_init=starts,
            random_state=seed,
        )
        with outcome.working():
            outcome.fit(model, tensor)
            _verdict(outcome, model)
            if starts > 1:
                agree = ", ".join(f"{score:.3f}" for score in model.stability_)
                outcome.say(f"factor-match scores of all starts: {agree}")
            outcome.array("cleaned.npy", model.reconstruct())
            _tensor_outliers(outcome, model, tensor)
            if model.rank_:
                numbers = [f"term {k + 1}" for k in range(model.rank_)]
                for mode, factor in enumerate(model.factors_):
                    outcome.table(f"factor{mode + 1}.csv", factor, numbers)
                outcome.table("weights.csv", model.weights_[None, :], numbers)
                figure = plots.factors(model.factors_)
                outcome.picture(figure, "Factors", "One panel for each mode, counted from 0.")
            outcome.write()
        outcome.tell(model.status_, _doubt(model))


def _read_tensor(file: pathlib.Path, array: str | None) -> np.ndarray:
    """An array of three dimensions or more that has something to decompose."""
    if not is_array(file):
        raise Refusal(
            f"A tensor is a npy or npz file; {file} is a table: use lemmax pca, or lemmax complete."
        )
    tensor = read_array(file, array)
    if tensor.ndim == 2:
        raise Refusal(f"{file} holds a matrix: use lemmax pca, or lemmax complete.")
    if tensor.ndim < 2:
        raise Refusal(f"{file} holds an array of shape {tensor.shape}; a tensor has more modes.")
    if len(tensor) < 2:
        raise Refusal(
            f"{file} has shape {tensor.shape}: with one slice only it is no more than that slice."
        )
    if np.all(np.isnan(tensor)):
        raise Refusal(f"{file} holds no values: every entry is missing.")
    return tensor


def _tensor_outliers(outcome: Outcome, model: Any, tensor: np.ndarray) -> None:
    places = model.outliers_.tocoo().coords
    header = [*(f"mode {mode + 1}" for mode in range(tensor.ndim)), *WRONG]
    columns = [*places, tensor[places], model.reconstruct()[places]]
    rows = zip(*(column.tolist() for column in columns), strict=True)
    outcome.listing("outliers.csv", header, rows)


def _note_repeated(outcome: Outcome, entries: NamedEntries) -> None:
    repeated = entries.repeated()
    if repeated:
        row, column, _ = entries.names
        outcome.note(
            f"{counted(repeated, 'value')} for a {row!r} and {column!r} that had one before: each "
            "is kept as an observation of its own."
        )


def _how_to_predict(entries: NamedEntries) -> str:
    return (
        f"For predictions, list the wanted {entries.names[0]},{entries.names[1]} in a file with "
        "that header and add --predict FILE."
    )


def _loss(squared: bool) -> str:
    return "squared" if squared else "robust"


def _verdict(outcome: Outcome, model: Any, *names: Callable[[int], str]) -> None:
    """The verdict on the screen and on the page, and the picture that supports it.

    With the names that rows and columns have in the file; positions of a tensor have none.
    """
    found = getattr(model, "recovery_", None)
    if found is None:  # nothing but a location, or effects of rows and columns
        line = f"{model.status_}: there are no components; noise {model.noise_:.3g}."
        outcome.say(line)
        facts = {"status": model.status_, "rank": 0, "noise": model.noise_}
        outcome.facts({**facts, "seconds": outcome.seconds}, line)
        return
    outcome.verdict(found.named(*names) if names else found)
    outcome.picture(
        plots.recovery(found), "Rank and outliers", "Sizes of terms, and sizes of residuals."
    )


def _doubt(model: Any) -> str:
    """Why not to rely on the answer; nothing if the data support it."""
    status = RecoveryStatus[model.status_]
    if status.succeeded:
        return ""
    return f"The verdict is {status.name}: what was written is not to be relied on."


def _factors(outcome: Outcome, model: Any, table: TableFile) -> None:
    """Factors, and effects where there are any, of rows and columns."""
    names = [f"factor {k + 1}" for k in range(model.rank_)]
    sides = (
        ("row", model.row_factors_, model.row_effects_ + model.offset_, table.labels),
        ("column", model.column_factors_, model.column_effects_, table.columns),
    )
    for side, factor, effect, labels in sides:
        if model.effects:
            outcome.table(
                f"{side}_factors.csv",
                np.column_stack([effect, factor]),
                ["effect", *names],
                labels,
                side,
            )
        elif names:
            outcome.table(f"{side}_factors.csv", factor, names, labels, side)


def _before_after(
    outcome: Outcome, model: Any, values: np.ndarray, cleaned: np.ndarray, table: TableFile
) -> None:
    """What was wrong, in a file and in a picture."""
    places = model.outliers_.tocoo()
    columns = table.columns or column_names(values.shape[1])
    labels = table.labels or [str(k + 1) for k in range(values.shape[0])]
    rows = [
        [labels[i], columns[j], float(values[i, j]), float(cleaned[i, j])]
        for i, j in zip(*places.coords, strict=True)
    ]
    outcome.listing("outliers.csv", ["row", "column", *WRONG], rows)
    description = "The table as it came, and without its errors."
    units = getattr(model, "scale_", np.ones(1))
    if np.any(units != 1):
        # One scale of colours for all columns.
        values, cleaned = ((t - model.location_) / units for t in (values, cleaned))
        description += " Every column around its location, in units of its own."
    errors = model.outliers_.toarray() / units
    title = "Not to be relied on" if _doubt(model) else ""
    figure = plots.before_after(
        values, cleaned, errors, title, rows=table.labels, columns=table.columns, first=1
    )
    outcome.picture(figure, "Before and after", description)


def _factors_picture(
    outcome: Outcome,
    title: str,
    sides: tuple[np.ndarray, np.ndarray],
    names: tuple[str, str],
    table: TableFile,
) -> None:
    figure = plots.factors(sides, names, (table.labels, table.columns), first=1)
    outcome.picture(figure, title, f"Of rows, {names[0]}; of columns, {names[1]}.")
