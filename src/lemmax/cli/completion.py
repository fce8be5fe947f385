"""``lemmax complete``: fill in a table, or predict entries from a list."""

import pathlib
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from scipy import sparse

from .. import plots
from ._answers import LEVEL, Replaced, list_wrong, show_cells, write_replaced
from ._entries import NamedEntries
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
from ._reading import TableFile, as_dense, columns_of_list, read_table
from ._requirements import (
    note_likely_list,
    note_reading,
    possible_rank,
    require_columns,
    require_values,
)

_FACTORS = ("row factors", "column factors")


def complete(
    file: Annotated[pathlib.Path, typer.Argument(help="A table with missing cells, or a list.")],
    columns: Annotated[
        str | None,
        typer.Option(help="For a list: row, column and value by name or number: u,i,r or 1,2,3."),
    ] = None,
    predict: Annotated[
        pathlib.Path | None, typer.Option(help="A list with rows and columns to predict.")
    ] = None,
    components: Components = None,
    max_components: MaxComponents = 12,
    effects: Annotated[
        bool | None,
        typer.Option(help="Whether to fit row effects; by default for lists."),
    ] = None,
    only: Only = None,
    drop: Drop = None,
    squared: Squared = False,
    labels: Labels = None,
    header: Header = None,
    array: Member = None,
    max_seconds: MaxSeconds = None,
    seed: Seed = 0,
    checkpoint: Kept = None,
    out: Out = pathlib.Path("lemmax-complete"),
) -> None:
    """Fill in the missing cells of a table, or predict entries from a list of known ones."""
    from ..estimators import MatrixCompletion

    console = Console()
    with refusing():
        recognised = None
        of_table = {"--labels": labels, "--only": only, "--drop": drop}
        asked_for = [option for option, value in of_table.items() if value is not None]
        if columns is not None and asked_for:
            raise Refusal(f"--columns reads a list of entries; {asked_for[0]} is for tables.")
        if columns is None and not asked_for:
            columns = recognised = columns_of_list(file, array, header)
        if predict is not None and columns is None:
            raise Refusal("--predict needs --columns: it takes rows and columns by name.")
        table = entries = asked = None
        if columns is None:
            table = read_table(file, labels, array, header, only=only, drop=drop)
            # A sparse matrix is treated as a list.
            effects = sparse.issparse(table.values) if effects is None else effects
            table = as_dense(table)
            require_values(table)
            require_columns(table, 2)
            shape = table.values.shape
        else:
            entries = NamedEntries(file, columns, array, header)
            effects = True if effects is None else effects
            asked = None if predict is None else entries.asked(predict)
            shape = len(entries.rows), len(entries.columns)
        sources = [file] if predict is None else [file, predict]
        outcome = Outcome(console, out, f"Completion of {file.name}", sources)
        if table is not None:
            note_reading(outcome, table)
            note_likely_list(outcome, table)
        if entries is not None:
            entries.tell(outcome)
            if recognised is not None:
                outcome.note(
                    f"It is read as a list of entries, --columns {recognised}; to read it as a "
                    "table, use --only with the names of its columns."
                )
        if asked is not None:
            asked.tell(outcome, effects)
        model = MatrixCompletion(
            possible_rank(outcome, components, shape, "--components"),
            max_components=max_components,
            loss=loss_of(squared),
            effects=effects,
            max_seconds=max_seconds,
            random_state=seed,
        )
        with outcome.working():
            if table is not None:
                outcome.fit(model, table.values, checkpoint=checkpoint)
                _table(outcome, model, table)
                names = (table.row_labels(), table.column_labels())
            else:
                assert entries is not None
                outcome.fit(model, entries.values, checkpoint=checkpoint)
                entries.write(outcome, model, asked)
                names = (entries.rows, entries.columns)
            _factors(outcome, model, *names)
            outcome.write()
        outcome.tell(doubt_of(model))


def _table(outcome: Outcome, model: Any, table: TableFile) -> None:
    """The completed table, and its outliers."""
    outcome.report(model.report_, table.row_name, table.column_name, interval_level=LEVEL)
    values = table.values
    wrong = model.outliers_.toarray() != 0
    places = np.nonzero(np.isnan(values) | wrong)
    filled, errors = model.predict(places, return_std=True)
    lower, upper = model.predict_interval(places, LEVEL)
    rows, columns = places
    replaced = Replaced(rows, columns, wrong[places], filled, errors, lower, upper)
    write_replaced(outcome, "completed.csv", table, replaced)
    everywhere = np.nonzero(~np.isnan(values))
    fitted, unit = model.predict(everywhere, return_std=True)
    standard = np.full(values.shape, np.nan)
    # Without noise, in units of the spread of the fitted values.
    unit = np.where(unit > 0, unit, np.std(fitted) or 1.0)
    standard[everywhere] = (values[everywhere] - fitted) / unit
    show_cells(outcome, table, standard, replaced)
    list_wrong(outcome, table, standard, replaced)


def _factors(outcome: Outcome, model: Any, rows: list[str], columns: list[str]) -> None:
    """Factors and effects of rows and columns."""
    names = [f"factor {k + 1}" for k in range(model.n_components_)]
    sides = (
        ("row", model.row_factors_, model.row_effects_ + model.offset_, rows),
        ("column", model.column_factors_, model.column_effects_, columns),
    )
    for side, factor, effect, labels in sides:
        stacked = np.column_stack([effect, factor])
        outcome.table(f"{side}_factors.csv", stacked, ["effect", *names], labels, side)
    if names:
        figure = plots.factors(
            (model.row_factors_, model.column_factors_), _FACTORS, (rows, columns), first=1
        )
        outcome.picture(figure, "Factors", "Row factors and column factors.")
