"""``lemmax pca``, ``complete``, ``cp``, ``nnls``: from a file to an answer and a picture."""

import pathlib
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console

from .. import page, plots
from ._entries import NamedEntries
from ._files import Refusal
from ._outcome import INTERRUPTED, Outcome, column_names, refusing
from ._reading import TableFile, read_array, read_table

Rank = Annotated[int | None, typer.Option(min=1, help="Upper bound on the rank.")]
Squared = Annotated[bool, typer.Option("--squared", help="Noise alone, no gross errors.")]
Seed = Annotated[int, typer.Option(min=0, help="Of everything random.")]
Member = Annotated[str | None, typer.Option("--array", help="Which array of an npz file.")]
Labels = Annotated[str | None, typer.Option(help="Name of the column that labels the rows.")]
Header = Annotated[
    bool | None, typer.Option(help="Whether the first line of a text has names; found out if not.")
]
Out = Annotated[pathlib.Path, typer.Option(help="Folder for what is written.")]


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
        outcome = Outcome(out, f"Robust PCA of {file.name}")
        values = dense_with_gaps(table.values)
        model = RobustPCA(
            rank,
            loss=_loss(squared),
            centre=centre,
            nonnegative=nonnegative,
            random_state=seed,
            verbose=True,
        ).fit(values)
        numbers = [f"component {k + 1}" for k in range(model.rank_)]
        names = (table.labels, table.label_name)
        outcome.table("cleaned.csv", model.low_rank_, table.columns, *names)
        outcome.table("location.csv", model.location_[None, :], table.columns)
        _verdict(console, outcome, model)
        _outliers(outcome, model.outliers_, values, model.low_rank_, table)
        figure = plots.before_after(values, model.low_rank_, model.outliers_)
        outcome.picture(figure, "Before and after", "The table as it came, and cleaned.")
        if model.rank_:
            outcome.table("components.csv", model.components_, table.columns, numbers, "component")
            outcome.table("scores.csv", model.scores_, numbers, *names)
            figure = plots.factors([model.scores_, model.components_.T], ["scores", "components"])
            outcome.picture(figure, "Components", "Scores and components as lines.")
        _finish(console, outcome, model)


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
        table = read_table(file, labels, array, header) if entries is None else TableFile(None)
        outcome = Outcome(out, f"Completion of {file.name}")
        model = MatrixCompletion(
            rank or "auto", loss=_loss(squared), effects=effects, random_state=seed, verbose=True
        )
        model.fit(table.values if entries is None else entries.values)
        _verdict(console, outcome, model)
        for rank_tried, error in model.held_out_errors_.items():
            console.print(f"rank {rank_tried}: error {error:.4g} at entries kept aside")
        keys = (table.labels, table.columns) if entries is None else (entries.rows, entries.columns)
        _factors(outcome, model, *keys)
        if entries is None:
            values, cleaned = dense_with_gaps(table.values), model.complete()
            outcome.table("completed.csv", cleaned, table.columns, table.labels, table.label_name)
            _outliers(outcome, model.outliers_, values, cleaned, table)
            figure = plots.before_after(values, cleaned, model.outliers_.tocsr())
            outcome.picture(figure, "Before and after", "The table as it came, and completed.")
        else:
            outcome.listing("outliers.csv", *entries.outliers(model))
        if entries is not None and asked is not None:
            outcome.listing("predictions.csv", *entries.predictions(model, asked))
        _finish(console, outcome, model)


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
        tensor = read_array(file, array)
        outcome = Outcome(out, f"CP decomposition of {file.name}")
        model = CPDecomposition(
            rank,
            loss=_loss(squared),
            nonnegative=nonnegative,
            n_init=starts,
            random_state=seed,
            verbose=True,
        ).fit(tensor)
        _verdict(console, outcome, model)
        if starts > 1:
            agree = ", ".join(f"{score:.3f}" for score in model.stability_)
            console.print(f"factor-match scores of all starts: {agree}", highlight=False)
        outcome.array("cleaned.npy", model.reconstruct())
        errors = model.outliers_.tocoo()
        header = [*(f"mode {mode + 1}" for mode in range(tensor.ndim)), "wrong by"]
        rows = zip(*(index.tolist() for index in errors.coords), errors.data.tolist(), strict=True)
        outcome.listing("outliers.csv", header, rows)
        if model.rank_:
            numbers = [f"term {k + 1}" for k in range(model.rank_)]
            for mode, factor in enumerate(model.factors_):
                outcome.table(f"factor{mode + 1}.csv", factor, numbers)
            outcome.table("weights.csv", model.weights_[None, :], numbers)
            outcome.picture(plots.factors(model.factors_), "Factors", "One panel for each mode.")
        _finish(console, outcome, model)


def nnls(
    matrix: Annotated[pathlib.Path, typer.Argument(help="The matrix A.")],
    targets: Annotated[pathlib.Path, typer.Argument(help="b, or several in columns.")],
    robust: Annotated[bool, typer.Option("--robust", help="Least absolute deviations.")] = False,
    out: Out = pathlib.Path("lemmax-nnls"),
) -> None:
    """Explain b by the columns of A with coefficients that are not negative."""
    from ..estimators import NonnegativeRegression

    console = Console()
    with refusing():
        a, b = read_array(matrix), read_array(targets)
        outcome = Outcome(out, f"Nonnegative regression of {targets.name} on {matrix.name}")
        if b.ndim == 2 and b.shape[1] == 1:
            b = b[:, 0]
        model = NonnegativeRegression("robust" if robust else "squared").fit(a, b)
        coefficients = np.atleast_2d(model.coef_)
        mean = float(np.mean(np.abs(b)))
        left = float(np.mean(np.abs(model.predict(a) - b))) / (mean or 1.0)
        line = (
            f"{coefficients.shape[0]} right-hand sides, {coefficients.shape[1]} coefficients each, "
            f"of which {np.mean(coefficients > 0):.0%} are positive; the mean residual is "
            f"{left:.3g} of the mean target; known to be the best: {np.mean(model.settled_):.0%}."
        )
        console.print(line, highlight=False)
        outcome.table("coefficients.csv", coefficients.T)
        outcome.blocks.append(page.paragraph(line))
        outcome.picture(plots.factors([coefficients.T], ["coefficients"]), "Coefficients", line)
        outcome.write(console)


def _loss(squared: bool) -> str:
    return "squared" if squared else "robust"


def _verdict(console: Console, outcome: Outcome, model: Any) -> None:
    """The verdict on the screen and on the page, and the picture that supports it."""
    found = getattr(model, "recovery_", None)
    if found is None:  # nothing but a location, or effects of rows and columns
        line = f"{model.status_}: there are no components; noise {model.noise_:.3g}."
        console.print(line, highlight=False)
        outcome.blocks.append(page.paragraph(line))
        return
    console.print(found.summary(), highlight=False, markup=False)
    outcome.verdict(found)
    outcome.picture(
        plots.recovery(found), "Rank and outliers", "Sizes of terms, and sizes of residuals."
    )


def _finish(console: Console, outcome: Outcome, model: Any) -> None:
    outcome.write(console)
    if model.status_ == "INTERRUPTED":
        raise typer.Exit(INTERRUPTED)


def _factors(outcome: Outcome, model: Any, rows: Any, columns: Any) -> None:
    """Factors, and effects where there are any, of rows and columns."""
    names = [f"factor {k + 1}" for k in range(model.rank_)]
    sides = (
        ("row", model.row_factors_, model.row_effects_ + model.offset_, rows),
        ("column", model.column_factors_, model.column_effects_, columns),
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


def _outliers(
    outcome: Outcome, outliers: Any, values: np.ndarray, cleaned: np.ndarray, table: TableFile
) -> None:
    places = outliers.tocoo()
    columns = table.columns or column_names(values.shape[1])
    labels = table.labels or [str(k + 1) for k in range(values.shape[0])]
    rows = [
        [labels[i], columns[j], float(values[i, j]), float(cleaned[i, j])]
        for i, j in zip(*places.coords, strict=True)
    ]
    outcome.listing("outliers.csv", ["row", "column", "was", "should be"], rows)
