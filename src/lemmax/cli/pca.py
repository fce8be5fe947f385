"""``lemmax pca``: clean a table with missing cells and outliers, and find its components."""

import pathlib
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console

from .. import page, plots
from ._answers import LEVEL, Replaced, list_wrong, show_cells, tell_verdict, write_replaced
from ._files import Refusal
from ._options import (
    Components,
    Drop,
    Header,
    Kept,
    Labels,
    MaxComponents,
    MaxSeconds,
    Member,
    Only,
    Out,
    Seed,
    Squared,
    doubt_of,
    loss_of,
)
from ._outcome import Outcome, refusing
from ._reading import TableFile, as_dense, read_table
from ._requirements import (
    note_reading,
    possible_rank,
    require_columns,
    require_rows,
    require_values,
)

# Number of cells that are hidden and predicted, for a plot.
_HIDDEN = 300


def pca(
    file: Annotated[
        pathlib.Path, typer.Argument(help="A table: csv, tsv, xlsx, parquet, npy, npz or mtx.")
    ],
    components: Components = None,
    max_components: MaxComponents = 12,
    only: Only = None,
    drop: Drop = None,
    centre: Annotated[bool, typer.Option(help="Whether to subtract column means.")] = True,
    nonnegative: Annotated[
        bool, typer.Option("--nonnegative", help="No negative components (needs --no-centre).")
    ] = False,
    squared: Squared = False,
    labels: Labels = None,
    header: Header = None,
    array: Member = None,
    max_seconds: MaxSeconds = None,
    seed: Seed = 0,
    checkpoint: Kept = None,
    out: Out = pathlib.Path("lemmax-pca"),
) -> None:
    """Clean a table with missing cells and outliers, and find its principal components."""
    from ..estimators import RobustPCA

    console = Console()
    with refusing():
        table = as_dense(read_table(file, labels, array, header, only=only, drop=drop))
        require_values(table)
        require_rows(table, 2)
        require_columns(table, 2)
        if nonnegative and centre:
            raise Refusal("--nonnegative needs --no-centre: a mean has a sign.")
        outcome = Outcome(console, out, f"Robust PCA of {file.name}", [file])
        note_reading(outcome, table)
        shape = table.values.shape
        model = RobustPCA(
            possible_rank(outcome, components, shape, "--components"),
            max_components=max_components,
            loss=loss_of(squared),
            centre=centre,
            nonnegative=nonnegative,
            max_seconds=max_seconds,
            random_state=seed,
        )
        with outcome.working():
            outcome.fit(model, table.values, checkpoint=checkpoint)
            _verdict(outcome, model, table)
            replaced = _replaced(model, table.values)
            write_replaced(outcome, "cleaned.csv", table, replaced)
            _write_model(outcome, model, table)
            standard = _standardised(model, table.values)
            show_cells(outcome, table, standard, replaced)
            _show_predictions(outcome, model, table.values)
            _show_components(outcome, model, table)
            list_wrong(outcome, table, standard, replaced)
            outcome.write()
        outcome.tell(doubt_of(model))


def _verdict(outcome: Outcome, model: Any, table: TableFile) -> None:
    """Show the verdict."""
    if model.nonnegative:
        tell_verdict(outcome, model, table.row_name, table.column_name)
        return
    shares = np.asarray(model.explained_variance_ratio_).tolist()
    outcome.report(
        model.report_,
        table.row_name,
        table.column_name,
        explained_variance_ratio=shares,
        interval_level=LEVEL,
    )


def _replaced(model: Any, values: np.ndarray) -> Replaced:
    wrong = model.outliers_.toarray() != 0
    rows, columns = np.nonzero(np.isnan(values) | wrong)
    lower, upper = model.predict_interval(LEVEL)
    tables = (wrong, model.cleaned_, model.standard_error_, lower, upper)
    return Replaced(rows, columns, *(each[rows, columns] for each in tables))


def _spread(model: Any) -> np.ndarray:
    """The model's standard deviation of every column; outliers do not count."""
    explained = model.explained_variance_ @ model.components_**2
    return np.sqrt(explained + model.noise_variance_)


def _standardised(model: Any, values: np.ndarray) -> np.ndarray:
    """Residuals in standard errors, or in scales of the columns if those are 0 or unknown."""
    error = np.asarray(model.standard_error_)
    spread = _spread(model)
    unit = np.where((error > 0) & (error < np.inf), error, np.where(spread > 0, spread, 1.0))
    return (values - model.reconstruction_) / unit


def _write_model(outcome: Outcome, model: Any, table: TableFile) -> None:
    """Write means and noise of columns, components, scores."""
    numbers = [f"component {k + 1}" for k in range(model.n_components_)]
    names = table.column_labels()
    deviations = np.sqrt(model.noise_variance_)
    columns = np.column_stack([model.mean_, deviations, _spread(model)])
    outcome.table("columns.csv", columns, ["mean", "noise", "spread"], names, "column")
    if model.n_components_:
        outcome.table("components.csv", model.components_, names, numbers, "component")
        outcome.table("scores.csv", model.scores_, numbers, table.row_labels(), "row")


def _show_predictions(outcome: Outcome, model: Any, values: np.ndarray) -> None:
    """Plot some inliers, each hidden and predicted from the other cells of its row."""
    right = ~np.isnan(values) & (model.outliers_.toarray() == 0)
    # If the only value of a row is hidden, nothing is left.
    places = np.argwhere(right & (np.sum(right, axis=1) > 1)[:, None])
    if not len(places):
        return
    rng = np.random.default_rng(0)
    rows, columns = places[rng.choice(len(places), min(len(places), _HIDDEN), replace=False)].T
    hidden, each = values[rows], np.arange(len(rows))
    hidden[each, columns] = np.nan
    filled, errors = model.impute(hidden, return_std=True)
    unit = np.where(_spread(model) > 0, _spread(model), 1.0)[columns]
    centre = model.mean_[columns]
    figure = plots.predicted_against_observed(
        (values[rows, columns] - centre) / unit,
        (filled[each, columns] - centre) / unit,
        errors[each, columns] / unit,
        "in scales of the column",
    )
    words = (
        f"{len(rows)} inliers, each hidden and predicted from the other cells of its row; "
        "centred, in units of the columns' scales."
    )
    outcome.picture(figure, "Predictions", words)


def _show_components(outcome: Outcome, model: Any, table: TableFile) -> None:
    if not model.n_components_:
        return
    figure = plots.component_map(
        model.components_, model.explained_variance_, _spread(model), table.columns, first=1
    )
    spread = np.where(_spread(model) > 0, _spread(model), np.inf)
    of_columns = np.mean(model.components_**2 / spread**2, axis=1) * model.explained_variance_
    shares = [
        (k + 1, f"{own:.1%}", f"{share:.1%}")
        for k, (own, share) in enumerate(
            zip(of_columns, model.explained_variance_ratio_, strict=True)
        )
    ]
    words = (
        "Loadings of every column, in units of the column's scale: near 1 or "
        "-1 if the component explains all of a column, 0 if it explains nothing."
    )
    header = ("component", "of a column's variance, on average", "of all variance, in file units")
    below = page.table(header, shares)
    outcome.picture(figure, "Components", words, below)
