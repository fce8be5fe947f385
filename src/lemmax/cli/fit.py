"""``lemmax fit``: fit a formula to the columns of a file, robustly."""

import pathlib
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console

from .. import page, plots
from .._columns import Spelling
from .._dtype import x64_context
from ..fit import Fit, Prediction
from ..fit import fit as fit_model
from ..losses import SquaredL2
from ._files import Refusal
from ._model import FitRequest, ask
from ._options import Header, Kept, Labels, MaxSeconds, Member, Out
from ._outcome import Outcome, listed, refusing, shortest
from ._reading import TableFile, as_dense, read_table
from ._requirements import contents, counted

# Number of outliers listed on the page.
_SHOWN = 200
_COLUMNS = ("fitted", "low", "high", "residual", "outlier")


def fit(
    file: Annotated[
        pathlib.Path, typer.Argument(help="A table: csv, tsv, xlsx, parquet, npy, npz or mtx.")
    ],
    model: Annotated[
        str,
        typer.Option(
            help="Formula of a column, such as 'y = a*exp(-b*t) + c'; names that are not "
            "columns are parameters. Names with blanks must be quoted."
        ),
    ],
    start: Annotated[
        str | None, typer.Option(help="Start of each parameter, such as a=1,b=1,c=0.")
    ] = None,
    y: Annotated[
        str | None,
        typer.Option("--y", help="Column to fit, if the formula has no left side."),
    ] = None,
    sigma: Annotated[
        str | None,
        typer.Option(help="Column of standard deviations of y, up to a common factor."),
    ] = None,
    bounds: Annotated[
        str | None, typer.Option(help="Bounds, such as 'a=0:10,b=0:'; either side may be empty.")
    ] = None,
    fixed: Annotated[
        str | None, typer.Option(help="Parameters held at their start, such as a,c.")
    ] = None,
    least_squares: Annotated[
        bool,
        typer.Option(
            "--least-squares", help="Least squares on all data, without a search for outliers."
        ),
    ] = False,
    level: Annotated[float, typer.Option(help="Confidence level of intervals and band.")] = 0.95,
    labels: Labels = None,
    header: Header = None,
    array: Member = None,
    max_seconds: MaxSeconds = None,
    checkpoint: Kept = None,
    out: Out = pathlib.Path("lemmax-fit"),
) -> None:
    """Fit a formula to data that may contain outliers, with standard errors.

    For example: lemmax fit data.csv --model "y = a*exp(-b*t) + c" --start a=1,b=1,c=0
    """
    console = Console()
    with refusing():
        if not 0 < level < 1:
            raise Refusal(f"--level must be between 0 and 1, as in 0.95; got {level:g}.")
        table = as_dense(read_table(file, labels, array, header))
        asked = ask(table, model, y, start, sigma, bounds, fixed)
        used = _rows(asked, table)
        outcome = Outcome(console, out, f"Fit to {file.name}", [file], summary="fit.json")
        for sentence in (contents(table), *table.notes, *asked.notes):
            outcome.note(sentence)
        left_out = len(used) - int(np.sum(used))
        if left_out:
            rows = "1 row has" if left_out == 1 else f"{left_out} rows have"
            outcome.note(f"{rows} a missing value in a column of the model: left out.")
        limits = {"max_seconds": max_seconds, "checkpoint": checkpoint}
        with outcome.working():
            fitted = outcome.run(lambda: _fit(asked, used, least_squares, limits))
            curve = fitted.predict(level)
            _tell(outcome, asked, fitted, level)
            _write_parameters(outcome, asked, fitted, level)
            _write_fitted(outcome, asked, table, used, fitted, curve)
            _show(outcome, asked, used, fitted, curve, level)
            _list_wrong(outcome, asked, table, used, fitted, curve)
            outcome.write()
        outcome.tell(_doubt(fitted))


def _rows(asked: FitRequest, table: TableFile) -> np.ndarray:
    """Rows in which the model has a value; enough of them must have data, too."""
    used = asked.complete
    free = [name for name, is_fixed in asked.fixed.items() if not is_fixed]
    known = int(np.sum(used & ~np.isnan(asked.y)))
    if known < len(free):
        raise Refusal(
            f"{table.path} has {counted(known, 'row')} with all columns of the model, too few for "
            f"{counted(len(free), 'parameter')}."
        )
    with x64_context():
        columns = {name: column[used] for name, column in asked.columns.items()}
        begun = np.full(len(used), np.nan)
        begun[used] = asked.model(asked.start, columns)
    bad = np.flatnonzero(used & ~np.isnan(asked.y) & ~np.isfinite(begun))
    if len(bad):
        raise Refusal(
            f"At the start the model is not finite in {listed(bad, table.row_name)}: use another "
            "start, or leave the y of such rows empty."
        )
    return used


def _fit(asked: FitRequest, used: np.ndarray, squares: bool, limits: dict[str, Any]) -> Fit:
    return fit_model(
        asked.model,
        asked.y[used],
        asked.start,
        args=({name: column[used] for name, column in asked.columns.items()},),
        loss=SquaredL2() if squares else None,
        sigma=None if asked.sigma is None else asked.sigma[used],
        bounds=(asked.low, asked.high),
        fixed=asked.fixed,
        **limits,
    )


def _doubt(fitted: Fit) -> str:
    if fitted.status.succeeded:
        return ""
    return f"The verdict is {fitted.status.name}: the results are unreliable."


def _parameters(asked: FitRequest, fitted: Fit, level: float) -> list[tuple[str, list[float], str]]:
    """Name; value, standard error and interval; a note."""
    low, high = fitted.interval(level)
    rows = []
    for name in asked.start:
        numbers = [float(each[name]) for each in (fitted.x, fitted.standard_errors, low, high)]
        note = "fixed" if asked.fixed[name] else ""
        if np.isnan(numbers[1]):
            note = "at its bound"
        elif np.isinf(numbers[1]):
            note = "not determined"
        rows.append((name, numbers, note))
    return rows


def _tell(outcome: Outcome, asked: FitRequest, fitted: Fit, level: float) -> None:
    """Show the verdict and the parameters with their intervals on the screen and the page."""
    formula = asked.expression.text
    if asked.expression.target is None:
        formula = f"{asked.y_name} = {formula}"
    outcome.say(fitted.summary())
    facts = fitted.as_dict()
    for name, (_, _, low, high), _ in _parameters(asked, fitted, level):
        facts["parameters"][name] |= {
            side: value if np.isfinite(value) else None
            for side, value in (("low", low), ("high", high))
        }
    facts |= {"model": formula, "level": level, "minima": [_plain(x) for x in fitted.minima]}
    outcome.blocks.append(page.paragraph(formula))
    badge = page.badge(fitted.status.name, "good" if fitted.status.succeeded else "caution")
    share = f"{fitted.outlier_count} of {fitted.observations} data are outliers"
    noise = f"the noise is {fitted.noise:.3g}" + (" times sigma" if asked.sigma is not None else "")
    outcome.facts(facts, badge, " ", fitted.status.message, f" {share}; {noise}.")
    for sentence in fitted.remarks:
        outcome.blocks.append(page.paragraph(f"Remark: {sentence}."))
    rows = [
        [name, *(_short(number) for number in numbers), note]
        for name, numbers, note in _parameters(asked, fitted, level)
    ]
    header = ("parameter", "value", "standard error", f"{level:.0%} from", "to", "")
    blocks = [page.table(header, rows)]
    if fitted.minima:
        others = [[_short(x[name]) for name in asked.start] for x in fitted.minima]
        words = "other minima of the search, which explain the data less well"
        blocks.append(page.details(words, page.table(list(asked.start), others)))
    outcome.blocks.append(page.section("Parameters", *blocks))


def _plain(x: dict[str, Any]) -> dict[str, float]:
    return {name: float(value) for name, value in x.items()}


def _short(value: Any) -> str:
    return f"{float(value):.6g}" if np.isfinite(value) else ""


def _write_parameters(outcome: Outcome, asked: FitRequest, fitted: Fit, level: float) -> None:
    outcome.listing(
        "parameters.csv",
        ["name", "value", "standard error", "low", "high", "note"],
        (
            [name, *map(shortest, numbers), note]
            for name, numbers, note in _parameters(asked, fitted, level)
        ),
    )


def _wrong(fitted: Fit) -> np.ndarray:
    wrong = np.zeros(len(fitted.residual), bool)
    wrong[fitted.outliers] = True
    return wrong


def _write_fitted(
    outcome: Outcome,
    asked: FitRequest,
    table: TableFile,
    used: np.ndarray,
    fitted: Fit,
    curve: Prediction,
) -> None:
    """The table with the fitted curve and the residuals."""
    whole = table.whole
    assert whole is not None
    names = list(whole.names or [f"c{k + 1}" for k in range(len(whole.cells))])
    for name in _COLUMNS:
        while name in names:
            name += "_"
        names.append(name)
    columns = [column.tolist() for column in whole.cells]
    numbers = (curve.value, curve.low, curve.high, -fitted.residual)
    new = [[""] * len(used) for _ in _COLUMNS]
    wrong = _wrong(fitted)
    for k, row in enumerate(np.flatnonzero(used)):
        for cells, each in zip(new, numbers, strict=False):
            if np.isfinite(each[k]):
                cells[row] = asked.spelling.write(each[k])
        if not np.isnan(fitted.residual[k]):
            new[-1][row] = "yes" if wrong[k] else "no"
    as_text = ([_cell(cell) for cell in row] for row in zip(*columns, *new, strict=True))
    outcome.listing("fitted.csv", names, as_text, whole.separator)


def _cell(cell: Any) -> str:
    return cell if isinstance(cell, str) else Spelling().write(cell)


def _show(
    outcome: Outcome,
    asked: FitRequest,
    used: np.ndarray,
    fitted: Fit,
    curve: Prediction,
    level: float,
) -> None:
    """Plot data and curve; with several columns, data against fitted values."""
    words = f"Data, curve with its {level:.0%} band, and residuals below."
    t, xlabel = None, "row"
    if len(asked.columns) == 1:
        ((xlabel, column),) = asked.columns.items()
        t = column[used]
    elif asked.columns:
        t, xlabel = np.asarray(curve.value), "fitted value"
        words = f"Data against fitted values with their {level:.0%} band, and residuals below."
    # matplotlib interprets text between dollar signs as mathematics.
    below, beside = (
        ", ".join(filter(None, (name, asked.units.get(name)))).replace("$", r"\$")
        for name in (xlabel, asked.y_name)
    )
    figure = plots.fit(fitted, t, level=level, xlabel=below, ylabel=beside)
    outcome.picture(figure, "Data and curve", words, file="fit.png")


def _list_wrong(
    outcome: Outcome,
    asked: FitRequest,
    table: TableFile,
    used: np.ndarray,
    fitted: Fit,
    curve: Prediction,
) -> None:
    """List the largest outliers."""
    sigma = 1.0 if asked.sigma is None else asked.sigma[used]
    with np.errstate(divide="ignore", invalid="ignore"):
        off = np.where(_wrong(fitted), -fitted.residual / (sigma * fitted.noise), 0)
    order = np.argsort(-np.abs(off), kind="stable")[: min(fitted.outlier_count, _SHOWN)]
    if not len(order):
        return
    places = np.flatnonzero(used)
    rows = [
        [
            table.row_name(int(places[k])),
            *(_short(column[places[k]]) for column in asked.columns.values()),
            _short(asked.y[places[k]]),
            _short(curve.value[k]),
            f"{off[k]:.3g}",
        ]
        for k in order
    ]
    header = ["row", *asked.columns, asked.y_name, "fitted", "off, in standard deviations"]
    more = fitted.outlier_count - len(order)
    caption = f"The {len(order)} largest; {more} more are in fitted.csv."
    shown = page.table(header, rows, caption if more else "")
    outcome.blocks.append(page.section("Outlying data", shown))
