"""``lemmax pca``, ``complete``, ``cp``, ``nnls``: from a file to an answer and a picture."""

import pathlib
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from scipy import sparse

from .. import page, plots
from ..estimators import CPDecomposition, MatrixCompletion, NonnegativeRegression, RobustPCA
from ._files import Refusal
from ._outcome import Outcome, refusing, thinned
from ._reading import TableFile, as_numbers, read_array, read_columns, read_table

Rank = Annotated[int | None, typer.Option(min=1, help="Upper bound on the rank.")]
Squared = Annotated[bool, typer.Option("--squared", help="Noise alone, no gross errors.")]
Seed = Annotated[int, typer.Option(min=0, help="Of everything random.")]
Member = Annotated[str | None, typer.Option("--array", help="Which array of an npz file.")]
Labels = Annotated[str | None, typer.Option(help="Name of the column that labels the rows.")]
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
    array: Member = None,
    seed: Seed = 0,
    out: Out = pathlib.Path("lemmax-pca"),
) -> None:
    """Clean a table with holes and wrong entries, and find its principal components."""
    console = Console()
    with refusing():
        table = read_table(file, labels, array)
        values = table.values.toarray() if sparse.issparse(table.values) else table.values
        model = RobustPCA(
            rank,
            loss=_loss(squared),
            centre=centre,
            nonnegative=nonnegative,
            random_state=seed,
            verbose=True,
        ).fit(values)
        outcome = Outcome(out, f"Robust PCA of {file.name}")
        numbers = [f"component {k + 1}" for k in range(model.rank_)]
        names = (table.labels, table.label_name)
        outcome.table("cleaned.csv", model.low_rank_, table.columns, *names)
        outcome.table("components.csv", model.components_, table.columns, numbers, "component")
        scores = (model.low_rank_ - model.location_) @ model.components_.T
        outcome.table("scores.csv", scores, numbers, *names)
        _outliers(outcome, model.outliers_, values, model.low_rank_, table)
        if hasattr(model, "recovery_"):
            _report(console, outcome, model)
            wrong = model.outliers_.toarray()
            figure = plots.before_after(*thinned(values, model.low_rank_, wrong))
            outcome.picture(figure, "Before and after", "The table as it came, and cleaned.")
            if model.rank_:
                figure = plots.factors([scores, model.components_.T], ["scores", "components"])
                outcome.picture(figure, "Components", "Scores and components as lines.")
        outcome.write(console)


def complete(
    file: Annotated[pathlib.Path, typer.Argument(help="A table with holes, or a list of entries.")],
    columns: Annotated[
        str | None, typer.Option(help="For a list: names of row, column and value, as in u,i,r.")
    ] = None,
    rank: Annotated[
        int | None, typer.Option(min=0, help="Upper bound; chosen by held-out entries if absent.")
    ] = None,
    effects: Annotated[
        bool, typer.Option("--effects", help="Rows and columns have own levels.")
    ] = False,
    predict: Annotated[
        pathlib.Path | None, typer.Option(help="A list with rows and columns to predict.")
    ] = None,
    squared: Squared = False,
    labels: Labels = None,
    array: Member = None,
    seed: Seed = 0,
    out: Out = pathlib.Path("lemmax-complete"),
) -> None:
    """Fill the holes of a table, or predict entries from a list of known ones."""
    console = Console()
    with refusing():
        listed = None if columns is None else _listed(file, columns)
        table = read_table(file, labels, array) if listed is None else None
        model = MatrixCompletion(
            rank or "auto", loss=_loss(squared), effects=effects, random_state=seed, verbose=True
        )
        model.fit(table.values if listed is None else listed.entries)
        outcome = Outcome(out, f"Completion of {file.name}")
        _report(console, outcome, model)
        for rank_tried, error in model.held_out_errors_.items():
            console.print(f"rank {rank_tried}: error {error:.4g} at entries kept aside")
        numbers = [f"factor {k + 1}" for k in range(model.rank_)]
        sides = ("row", model.row_factors_), ("column", model.column_factors_)
        keys = (None, None) if listed is None else (listed.rows, listed.columns)
        for (side, factor), key in zip(sides, keys, strict=True):
            outcome.table(f"{side}_factors.csv", factor, numbers, key, side)
        if table is not None:
            values = _with_gaps(table.values)
            cleaned = model.complete()
            outcome.table("completed.csv", cleaned, table.columns, table.labels, table.label_name)
            _outliers(outcome, model.outliers_, values, cleaned, table)
            wrong = model.outliers_.toarray()
            figure = plots.before_after(*thinned(values, cleaned, wrong))
            outcome.picture(figure, "Before and after", "The table as it came, and completed.")
        if predict is not None:
            if listed is None:
                raise Refusal("--predict needs --columns: it asks for rows and columns by name.")
            outcome.listing("predictions.csv", *listed.predictions(model, predict))
        outcome.write(console)


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
    console = Console()
    with refusing():
        tensor = read_array(file, array)
        model = CPDecomposition(
            rank,
            loss=_loss(squared),
            nonnegative=nonnegative,
            n_init=starts,
            random_state=seed,
            verbose=True,
        ).fit(tensor)
        outcome = Outcome(out, f"CP decomposition of {file.name}")
        _report(console, outcome, model)
        if starts > 1:
            agree = ", ".join(f"{score:.3f}" for score in model.stability_)
            console.print(f"factor-match scores with the other starts: {agree}", highlight=False)
        numbers = [f"term {k + 1}" for k in range(model.rank_)]
        for mode, factor in enumerate(model.factors_):
            outcome.table(f"factor{mode + 1}.csv", factor, numbers)
        outcome.table("weights.csv", model.weights_[None, :], numbers)
        outcome.array("cleaned.npy", model.reconstruct())
        places = np.stack(model.outliers_.coords, axis=1).tolist()
        header = [*(f"mode {mode + 1}" for mode in range(tensor.ndim)), "wrong by"]
        wrong = model.outliers_.data.tolist()
        listing = [[*place, value] for place, value in zip(places, wrong, strict=True)]
        outcome.listing("outliers.csv", header, listing)
        if model.rank_:
            outcome.picture(plots.factors(model.factors_), "Factors", "One panel for each mode.")
        outcome.write(console)


def nnls(
    matrix: Annotated[pathlib.Path, typer.Argument(help="The matrix A.")],
    targets: Annotated[pathlib.Path, typer.Argument(help="b, or several in columns.")],
    robust: Annotated[bool, typer.Option("--robust", help="Least absolute deviations.")] = False,
    out: Out = pathlib.Path("lemmax-nnls"),
) -> None:
    """Explain b by the columns of A with coefficients that are not negative."""
    console = Console()
    with refusing():
        a, b = read_array(matrix), read_array(targets)
        if b.ndim == 2 and b.shape[1] == 1:
            b = b[:, 0]
        model = NonnegativeRegression("robust" if robust else "squared").fit(a, b)
        coefficients = np.atleast_2d(model.coef_)
        residual = model.predict(a) - b
        size = np.mean(np.abs(residual)) / np.mean(np.abs(b))
        outcome = Outcome(out, f"Nonnegative regression of {targets.name} on {matrix.name}")
        line = (
            f"{coefficients.shape[0]} right-hand sides, {coefficients.shape[1]} coefficients each, "
            f"of which {np.mean(coefficients > 0):.0%} are positive; the mean residual is "
            f"{size:.3g} of the mean target; settled: {np.mean(model.settled_):.0%}."
        )
        console.print(line, highlight=False)
        outcome.table("coefficients.csv", coefficients.T)
        outcome.blocks.append(page.paragraph(line))
        outcome.picture(plots.factors([coefficients.T], ["coefficients"]), "Coefficients", line)
        outcome.write(console)


class _Entries:
    """A list of entries whose rows and columns have names."""

    def __init__(self, names: list[str], rows: list[str], columns: list[str], values: np.ndarray):
        known = ~np.isnan(values)
        self.names = names
        self.rows, row = np.unique(np.asarray(rows)[known], return_inverse=True)
        self.columns, column = np.unique(np.asarray(columns)[known], return_inverse=True)
        self.entries = row, column, values[known]

    def predictions(self, model: MatrixCompletion, path: pathlib.Path) -> tuple[list[str], Any]:
        """Header and rows: what was asked for, and the predictions."""
        asked = read_columns(path, self.names[:2])
        places = []
        for labels, texts, name in zip((self.rows, self.columns), asked, self.names, strict=False):
            numbers = {label: k for k, label in enumerate(labels)}
            unknown = next((text for text in texts if text not in numbers), None)
            if unknown is not None:
                raise Refusal(f"{path} asks for {name} {unknown!r}, of which no entry is known.")
            places.append(np.array([numbers[text] for text in texts], int))
        guesses = model.predict(tuple(places))
        rows = [[*pair, float(g)] for *pair, g in zip(*asked, guesses, strict=True)]
        return self.names, rows


def _listed(file: pathlib.Path, columns: str) -> _Entries:
    names = [name.strip() for name in columns.split(",")]
    if len(names) != 3:
        raise Refusal("--columns takes three names: those of row, column and value, as in u,i,r.")
    rows, places, texts = read_columns(file, names)
    return _Entries(names, rows, places, as_numbers(file, names[2], texts, 2))


def _loss(squared: bool) -> str:
    return "squared" if squared else "robust"


def _with_gaps(values: Any) -> np.ndarray:
    if not sparse.issparse(values):
        return values
    dense = np.full(values.shape, np.nan)
    dense[values.coords] = values.data
    return dense


def _report(console: Console, outcome: Outcome, model: Any) -> None:
    """The verdict on the screen and on the page, and the picture that supports it."""
    found = getattr(model, "recovery_", None)
    if found is None:
        return
    console.print(found.summary(), highlight=False, markup=False)
    outcome.verdict(found)
    outcome.picture(
        plots.recovery(found), "Rank and outliers", "Sizes of terms, and sizes of residuals."
    )


def _outliers(
    outcome: Outcome, outliers: Any, values: np.ndarray, cleaned: np.ndarray, table: TableFile
) -> None:
    places = outliers.tocoo()
    columns = table.columns or [str(k + 1) for k in range(values.shape[1])]
    labels = table.labels or [str(k + 1) for k in range(values.shape[0])]
    rows = [
        [labels[i], columns[j], float(values[i, j]), float(cleaned[i, j])]
        for i, j in zip(places.row, places.col, strict=True)
    ]
    outcome.listing("outliers.csv", ["row", "column", "was", "should be"], rows)
