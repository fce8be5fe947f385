"""Figure 7: CP decompositions of fully observed tensors that are too large to form."""

import math
from typing import Any

import numpy as np

import lemmax as lm

from ..harness import (
    Claim,
    Experiment,
    Facts,
    Job,
    Outcome,
    Settings,
    Summary,
    Table,
    Watch,
    curve,
    draw_curves,
    error_of,
    panels,
    run,
    seconds_per_step,
    steps_to,
)
from ..instances import Instance, cp_factorisation, symmetric_cp_factorisation

SYMMETRIC, ASYMMETRIC = "symmetric", "asymmetric"
_PROBLEM = {"true_rank": 2, "conditions": [1.0, 100.0], "start_error": 1e-2}
SETTINGS = {
    "full": {
        **_PROBLEM,
        "dim": 500,
        "ranks": {SYMMETRIC: [2, 5], ASYMMETRIC: [2, 5]},
        "steps": 1000,
        "variants": True,
    },
    # Compilation dominates the time, so there are fewer programs.
    "quick": {
        **_PROBLEM,
        "dim": 20,
        "ranks": {SYMMETRIC: [2, 3], ASYMMETRIC: [3]},
        "steps": 300,
        "variants": False,
    },
}
_HALF, _WHOLE = lm.steps.Polyak(scale=0.5), lm.steps.Polyak()
_DAMPING = lm.damping.ProportionalToGap(1e-3)
# The same damping in terms of half the squared norm.
_DAMPING_OF_SQUARE = lm.damping.ProportionalToRootGap(1e-3 * math.sqrt(2.0))
_LMM, _WHOLE_STEP = "LMM", "LMM, whole step"
_TEXT, _CODE = "LMM, |Πv|²", "LMM, |Pv|²"
_SQUARE, _SQUARE_WHOLE_STEP = "LMM, square", "LMM, square, whole step"
# LMM is drawn over Gauss-Newton, with which it mostly coincides.
DRAWN = ("Gauss-Newton", _LMM, "subgradient")
_METHODS = {
    _LMM: lm.methods.lmm(_HALF, _DAMPING),
    # Gauss-Newton as LMM without damping, so that both are one program, compiled once.
    "Gauss-Newton": lm.methods.lmm(_HALF, lm.damping.ProportionalToGap(0.0)),
    "subgradient": lm.methods.polyak_subgradient(),
    _WHOLE_STEP: lm.methods.lmm(_WHOLE, _DAMPING),
}
_VARIANTS = {
    _TEXT: lm.methods.lmm(lm.steps.Polyak(0.0, 0.5, lm.steps.range_norm), _DAMPING),
    _CODE: lm.methods.lmm(lm.steps.Polyak(0.0, 0.5, lm.steps.projected_norm), _DAMPING),
}
_OF_SQUARE = {
    _SQUARE: lm.methods.lmm(_HALF, _DAMPING_OF_SQUARE),
    _SQUARE_WHOLE_STEP: lm.methods.lmm(_WHOLE, _DAMPING_OF_SQUARE),
}
_SOLVED = 1e-10
# The lower end of the paper's curves.
_CUT = 1e-13
_TICKS = (0, 10, 20, 30, 40, 50, 100, 300, 1000)


def jobs(settings: Settings, seed: int) -> list[Job]:
    """One for each kind of tensor, rank and condition number."""
    return [
        _job(settings, seed, kind, rank, condition)
        for kind, ranks in settings["ranks"].items()
        for rank in ranks
        for condition in settings["conditions"]
    ]


def _job(settings: Settings, seed: int, kind: str, rank: int, condition: float) -> Job:
    labels = {"kind": kind, "rank": rank, "condition": condition}
    norm, square = lm.losses.L2(), lm.losses.SquaredL2()
    contests = [(norm, _METHODS)]
    if settings["variants"]:
        contests += [(norm, _VARIANTS), (square, _OF_SQUARE)]

    def work(watch: Watch) -> Outcome:
        curves, facts = [], {}
        for loss, methods in contests:
            instance = _instance(settings, seed, kind, rank, condition, loss)
            fall = _CUT / settings["start_error"]
            for name, method in methods.items():
                result = run(
                    watch,
                    instance,
                    method,
                    settings["steps"],
                    tol=fall**2 if loss is square else fall,
                    # A slow run may use all its steps: it is part of the plot.
                    stopping=lm.Stopping(window=settings["steps"]),
                )
                curves.append(curve(error_of(result), method=name, **labels))
                facts[f"{name}: seconds per step"] = seconds_per_step(result)
        return Outcome(Table.concatenate(curves), facts)

    return Job(f"{kind}_rank={rank}_condition={condition:g}", work)


def _instance(
    settings: Settings,
    seed: int,
    kind: str,
    rank: int,
    condition: float,
    loss: lm.losses.AbstractLoss,
) -> Instance:
    common = {
        "rank": rank,
        "true_rank": settings["true_rank"],
        "condition": condition,
        "loss": loss,
        "start_error": settings["start_error"],
    }
    if kind == SYMMETRIC:
        return symmetric_cp_factorisation(seed, dim=settings["dim"], **common)
    return cp_factorisation(seed, dims=(settings["dim"],) * 3, **common)


def _errors(table: Table, method: str) -> dict[tuple[str, int, float], np.ndarray]:
    """Errors by kind, rank and condition number."""
    runs = table.where(method=method).groups("kind", "rank", "condition")
    return {key: rows.column("error") for key, rows in runs}


def _steps(table: Table, method: str) -> list[int | None]:
    return [steps_to(error, _SOLVED) for error in _errors(table, method).values()]


def _range(steps: list[int | None]) -> str:
    found = [n for n in steps if n is not None]
    if not found:
        return "never"
    missing = len(steps) - len(found)
    counts = str(found[0]) if len(set(found)) == 1 else f"{min(found)} to {max(found)}"
    return counts + (f" (never in {missing} settings)" if missing else "")


def _within(steps: list[int | None], low: int, high: int) -> bool:
    return all(n is not None and low <= n <= high for n in steps)


def claims(table: Table, facts: Facts) -> list[Claim]:
    """The paper's claims about this figure, and claims about the additional curves."""
    judged = [
        _lmm_everywhere(table),
        _subgradient_fails(table),
        _gauss_newton(table),
        _whole_step(table),
    ]
    if _TEXT in table.unique("method"):
        judged += [_norm_is_faster(table), _denominators(table)]
    return judged


def _lmm_everywhere(table: Table) -> Claim:
    counts = _steps(table, _LMM)
    ratios = [_late_ratio(error) for error in _errors(table, _LMM).values()]
    return Claim(
        "LMM converges linearly in all settings, whatever the rank and the condition number.",
        _within(counts, 25, 40) and max(ratios) < 0.7,
        f"Iterations to 1e-10: {_range(counts)} (25 to 40 expected) in {len(counts)} settings; "
        f"ratio per iteration {min(ratios):.2f} to {max(ratios):.2f}.",
    )


def _late_ratio(error: np.ndarray) -> float:
    """Mean factor per step from the start to 1e-10, without the first steps."""
    last = steps_to(error, _SOLVED) or len(error) - 1
    first = last // 3
    return float((error[last] / error[first]) ** (1 / (last - first)))


def _subgradient_fails(table: Table) -> Claim:
    easy, hard = [], []
    benign = min(table.unique("rank")), min(table.unique("condition"))
    for (_, *place), error in _errors(table, "subgradient").items():
        (easy if tuple(place) == benign else hard).append(error)
    last = [float(error[-1]) for error in hard]
    return Claim(
        "The Polyak subgradient method converges slowly if the tensor is ill-conditioned or the "
        "rank over-estimated.",
        min(last) > _SOLVED and all(steps_to(error, _SOLVED) is not None for error in easy),
        f"Relative error after {max(map(len, hard)) - 1} iterations {min(last):.0e} to "
        f"{max(last):.0e} where there is either; 1e-10 after "
        f"{_range([steps_to(error, _SOLVED) for error in easy])} where there is neither.",
    )


def _gauss_newton(table: Table) -> Claim:
    counts = _steps(table, "Gauss-Newton")
    return Claim(
        "Not in the paper: Gauss-Newton, the same without damping, is as fast from these starts.",
        _within(counts, 25, 40),
        f"Iterations of Gauss-Newton to 1e-10: {_range(counts)}; of LMM: "
        f"{_range(_steps(table, _LMM))}.",
    )


def _denominators(table: Table) -> Claim:
    text, code = _steps(table, _TEXT), _steps(table, _CODE)
    return Claim(
        "Not in the paper: whether Polyak's step is divided by |Πv|², as in its text, or by "
        "|Pv|², as in its code, makes little difference.",
        _within(text, 25, 42) and _within(code, 23, 29),
        f"Iterations to 1e-10: {_range(text)} with the text's (27 to 40 expected), "
        f"{_range(code)} with the code's (25 to 27 expected), {_range(_steps(table, _LMM))} with "
        "the one between them that is used here.",
    )


def _norm_is_faster(table: Table) -> Claim:
    norm, square, whole = (_steps(table, name) for name in (_LMM, _SQUARE, _SQUARE_WHOLE_STEP))
    pairs = list(zip(norm, square, whole, strict=True))
    return Claim(
        "Convergence is much faster with the norm than with its square.",
        all(a is not None and (b is None or b > 1.5 * a) for a, b, _ in pairs),
        f"Iterations to 1e-10: {_range(norm)} with the norm, {_range(square)} with half its "
        f"square, both with the halved step; {_range(whole)} with half the square and the whole "
        "Polyak step, which then is as long as the halved step with the norm.",
    )


def _whole_step(table: Table) -> Claim:
    counts = _steps(table, _WHOLE_STEP)
    return Claim(
        "Not in the paper: the halved step costs most of these iterations; whole steps need 2 to "
        "13.",
        _within(counts, 2, 13),
        f"Iterations to 1e-10 with whole steps: {_range(counts)}.",
    )


def summaries(table: Table) -> list[Summary]:
    """Iterations to 1e-10, or the last error."""
    methods = table.unique("method")
    by_method = {method: _errors(table, method) for method in methods}
    rows = []
    for place in by_method[_LMM]:
        kind, rank, condition = place
        row = [kind, str(rank), f"{condition:g}"]
        for method in methods:
            error = by_method[method][place]
            steps = steps_to(error, _SOLVED)
            row.append(f"({error[-1]:.0e})" if steps is None else str(steps))
        rows.append(row)
    header = ["tensor", "rank r", "condition", *methods]
    remark = "In brackets the last error of a run that does not get there. The true rank is 2."
    return [Summary("Iterations to a relative error of 1e-10", header, rows, remark)]


def draw(table: Table) -> Any:
    """One panel per kind of tensor; methods by colour, settings by dashes."""
    figure, axes = panels(1, 2, width=6.2, height=4.6)
    shown = Table.concatenate([table.where(method=method) for method in DRAWN])
    for ax, kind in zip(axes[0], (SYMMETRIC, ASYMMETRIC), strict=True):
        draw_curves(
            ax,
            shown.where(kind=kind),
            styled_by=["rank", "condition"],
            legend="lower right",
            error_range=(_CUT, 10.0),
        )
        # Linear in the range of the fast methods, logarithmic beyond.
        ax.set_xscale("symlog", linthresh=50, linscale=2)
        ax.set_xticks(_TICKS, labels=map(str, _TICKS))
        ax.set_xlim(0, shown.column("step").max())
        ax.set_title(f"{kind} tensor")
    return figure


EXPERIMENT = Experiment(
    name="fig7",
    title="Figure 7: CP decomposition of large tensors",
    minutes=1,
    settings=SETTINGS,
    jobs=jobs,
    claims=claims,
    draw=draw,
    summaries=summaries,
)
