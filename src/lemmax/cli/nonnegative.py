"""``lemmax nnls``: nonnegative regression of one file on another."""

import dataclasses
import pathlib
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from scipy import sparse

from .. import page, plots
from ._files import Refusal
from ._options import Out
from ._outcome import Outcome, refusing
from ._reading import TableFile, read_table
from ._requirements import contents, counted, require_all_values

# Allowed ratio of the root mean square to that of Gaussian noise with the same median.
_HEAVY_TAILS = 3.0
_GAUSSIAN = 1.4826
_GROSS_ERRORS = "A few residuals are far larger than the others, like outliers: use --robust."


def nnls(
    matrix: Annotated[pathlib.Path, typer.Argument(help="The matrix A.")],
    targets: Annotated[
        pathlib.Path, typer.Argument(help="b; several right-hand sides as columns.")
    ],
    robust: Annotated[bool, typer.Option("--robust", help="Least absolute deviations.")] = False,
    out: Out = pathlib.Path("lemmax-nnls"),
) -> None:
    """Fit b by the columns of A with nonnegative coefficients."""
    from ..estimators import NonnegativeRegression

    console = Console()
    with refusing():
        a, b = _read(matrix, targets)
        title = f"Nonnegative regression of {targets.name} on {matrix.name}"
        outcome = Outcome(console, out, title, [matrix, targets])
        outcome.note(contents(a))
        outcome.note(contents(b))
        model = NonnegativeRegression("robust" if robust else "squared")
        with outcome.working():
            outcome.fit(model, a.values, b.values)
            coefficients = model.coef_.T
            residuals = b.values - model.predict(a.values)
            doubt = _tell_fit(outcome, model, b.values, residuals)
            if not robust and _has_heavy_tails(residuals, b.values):
                outcome.say(_GROSS_ERRORS)
            header = (b.columns or _sides(b)) if a.columns else b.columns
            outcome.table("coefficients.csv", coefficients, header, a.columns, "column")
            outcome.table("residuals.csv", residuals, b.columns)
            outcome.picture(
                plots.regression(coefficients, residuals, a.columns, first=1),
                "Coefficients and residuals",
                "One coefficient per column, one residual per row.",
            )
            outcome.write()
        outcome.tell(doubt)


def _read(matrix: pathlib.Path, targets: pathlib.Path) -> tuple[TableFile, TableFile]:
    """Read A and b, complete and with equally many rows; entries not stored are 0."""
    a = _dense(read_table(matrix, has_options=False))
    b = _dense(read_table(targets, has_options=False, vector=True))
    require_all_values(a)
    require_all_values(b)
    height, length = len(a.values), len(b.values)
    if height != length:
        raise Refusal(
            f"{matrix} has {counted(height, 'row')}, {targets} {length}; the numbers must be equal."
        )
    return a, b


def _dense(table: TableFile) -> TableFile:
    values = table.values
    dense = values.toarray() if sparse.issparse(values) else values
    return dataclasses.replace(table, values=dense)


def _sides(targets: TableFile) -> list[str]:
    """Names for right-hand sides without names."""
    return [f"right-hand side {k + 1}" for k in range(targets.values.shape[1])]


def _has_heavy_tails(residuals: np.ndarray, targets: np.ndarray) -> bool:
    """Whether the residuals of some right-hand side have heavier tails than noise."""
    whole = np.sqrt(np.mean(residuals**2, axis=0))
    typical = _GAUSSIAN * np.median(np.abs(residuals), axis=0)
    rounding = len(targets) * np.finfo(float).eps * np.max(np.abs(targets), axis=0)
    return bool(np.any((whole > _HEAVY_TAILS * typical) & (whole > rounding)))


def _tell_fit(outcome: Outcome, model: Any, targets: np.ndarray, residuals: np.ndarray) -> str:
    """Describe the fit in words and numbers; returns what is doubtful about it."""
    settled = np.atleast_1d(model.settled_)
    level = float(np.mean(np.abs(targets))) or 1.0
    facts = {
        "status": "SETTLED" if np.all(settled) else "NOT_CONVERGED",
        "loss": model.loss,
        "rows": len(targets),
        "columns": model.n_features_in_,
        "right_hand_sides": len(settled),
        "settled": int(np.sum(settled)),
        "positive_coefficients": int(np.sum(model.coef_ > 0)),
        "mean_residual": float(np.mean(np.abs(residuals))),
        "largest_residual": float(np.max(np.abs(residuals))),
        "relative_residual": float(np.mean(np.abs(residuals))) / level,
        "seconds": outcome.seconds,
    }
    line = (
        f"{counted(len(settled), 'right-hand side')}, "
        f"{counted(model.n_features_in_, 'coefficient')} each, "
        f"of which {np.mean(model.coef_ > 0):.0%} are positive; the mean residual is "
        f"{facts['relative_residual']:.3g} of the mean target; proved optimal: "
        f"{np.mean(settled):.0%}."
    )
    outcome.say(line)
    tone = "good" if np.all(settled) else "caution"
    outcome.facts(facts, page.badge(facts["status"], tone), " ", line)
    if np.all(settled):
        return ""
    open_ones = counted(int(np.sum(~settled)), "right-hand side")
    return f"For {open_ones} the coefficients are approximations, not proved optimal."
