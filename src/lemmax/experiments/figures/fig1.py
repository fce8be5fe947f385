"""Figure 1: factorise a rank 2 matrix with one superfluous column.

The paper shows one start, from which Gauss-Newton diverges. Here there are many: random starts, and
starts whose superfluous singular value is scaled down.
"""

from typing import Any

import numpy as np

import lemmax as lm

from ..harness import (
    ERROR_RANGE,
    Claim,
    Experiment,
    Facts,
    Job,
    Outcome,
    Settings,
    Summary,
    Table,
    Watch,
    colour,
    curve,
    draw_curves,
    error_of,
    panels,
    part_of,
    run,
    seconds_per_step,
    steps_to,
)
from ..instances import psd_factorisation

_PROBLEM = {"dim": 50, "true_rank": 2, "rank": 3, "condition": 1.0, "start_error": 1e-2}
SETTINGS = {
    "full": {
        **_PROBLEM,
        "steps": 50,
        # Number of starts for each factor on the superfluous singular value of the start.
        "starts": {"1.0": 60, "0.01": 20, "0.0001": 20, "1e-06": 20, "1e-08": 20},
    },
    "quick": {**_PROBLEM, "steps": 50, "starts": {"1.0": 4, "0.0001": 2, "1e-08": 2}},
}
METHODS = {
    "LMM": lm.methods.lmm(damping=lm.damping.ProportionalToGap(1e-3)),
    "Gauss-Newton": lm.methods.gauss_newton(),
    "subgradient": lm.methods.polyak_subgradient(),
}
_SOLVED = 1e-13


def jobs(settings: Settings, seed: int) -> list[Job]:
    """One for each factor on the superfluous singular value."""
    return [
        _job(settings, seed, float(scale), starts) for scale, starts in settings["starts"].items()
    ]


def _job(settings: Settings, seed: int, scale: float, starts: int) -> Job:
    problem = {name: settings[name] for name in _PROBLEM}

    def work(watch: Watch) -> Outcome:
        curves, seconds = [], {name: [] for name in METHODS}
        for start in range(starts):
            # Seeds a thousand apart, so that different seeds share no start.
            instance = psd_factorisation(1000 * seed + start, redundant_scale=scale, **problem)
            for name, method in METHODS.items():
                result = run(part_of(watch, start, starts), instance, method, settings["steps"])
                labels = {"method": name, "redundant_scale": scale, "start": start}
                curves.append(curve(error_of(result), **labels))
                seconds[name].append(seconds_per_step(result))
        facts = {f"{n}: median seconds per step": float(np.median(s)) for n, s in seconds.items()}
        return Outcome(Table.concatenate(curves), facts)

    return Job(f"scale={scale:g}", work)


def _errors(table: Table, method: str, scale: float) -> list[np.ndarray]:
    runs = table.where(method=method, redundant_scale=scale).groups("start")
    return [rows.column("error") for _, rows in runs]


def _escaped(table: Table, method: str, scale: float) -> tuple[int, int]:
    """How many runs left the range of the paper's plot (shown there as divergence), of how many."""
    errors = _errors(table, method, scale)
    return sum(not np.max(error) <= ERROR_RANGE[1] for error in errors), len(errors)


def claims(table: Table, facts: Facts) -> list[Claim]:
    """The paper's claims about this figure."""
    scales = table.unique("redundant_scale")
    return [
        _lmm_is_fast(table),
        _subgradient_stalls(table),
        _gauss_newton_diverges(table, scales),
        _lmm_is_stable(table, scales),
    ]


def _lmm_is_fast(table: Table) -> Claim:
    errors = _errors(table, "LMM", 1.0)
    needed = [steps_to(error, _SOLVED) for error in errors]
    # From the second step down to rounding errors.
    ratios = [e[k + 1] / e[k] for e in errors for k in range(2, len(e) - 1) if e[k + 1] > 1e-12]
    ratio = float(np.median(ratios))
    reached = [steps for steps in needed if steps is not None]
    everywhere = len(reached) == len(errors)
    middle = float(np.median(reached)) if reached else float("nan")
    return Claim(
        "Although one column is superfluous, LMM converges linearly: the relative error is 1e-13 "
        "after about 14 iterations, a quarter of the error remaining after each.",
        everywhere and abs(middle - 14) <= 3 and abs(ratio - 0.25) < 0.02,
        f"{len(reached)} of {len(errors)} starts reach 1e-13, after {middle:.0f} iterations in the "
        f"median (at most {max(reached, default=0)}); median ratio per step {ratio:.4f}.",
    )


def _subgradient_stalls(table: Table) -> Claim:
    errors = _errors(table, "subgradient", 1.0)
    last = [float(error[-1]) for error in errors]
    late = [float((error[-1] / error[-11]) ** 0.1) for error in errors]
    return Claim(
        "From random starts the superfluous column slows the Polyak subgradient method down to a "
        "sublinear rate.",
        min(last) > 1e-8 and float(np.median(late)) > 0.9,
        f"Relative error after {len(errors[0]) - 1} iterations: median {np.median(last):.1e} "
        f"(smallest {min(last):.1e}); over the last ten it fell by a factor of "
        f"{np.median(late):.3f} each.",
    )


def _gauss_newton_diverges(table: Table, scales: list[float]) -> Claim:
    counted = {scale: _escaped(table, "Gauss-Newton", scale) for scale in scales}
    escaped, tried = counted[1.0]
    all_escaped = counted[min(scales)][0] == counted[min(scales)][1]
    last = max(float(e[-1]) for s in scales for e in _errors(table, "Gauss-Newton", s))
    return Claim(
        "Mild over-parameterisation makes the Gauss-Newton method diverge.",
        escaped > tried / 2,
        "Error beyond 1e3, the upper edge of the picture: "
        + "; ".join(
            f"{bad} of {all_} "
            + ("random starts" if scale == 1 else f"with that singular value times {scale:g}")
            for scale, (bad, all_) in counted.items()
        )
        + f". Largest error after the last iteration: {last:.0e}.",
        correction=(
            "From random starts Gauss-Newton with an exact pseudo-inverse converges like LMM. From "
            "starts next to rank loss, whose superfluous singular value is far below the root of "
            "the error, its first step leads out of the picture; from there it comes back, by a "
            "factor of four a step, if the arithmetic is accurate. The printed start is selected."
        ),
        correction_holds=escaped <= 0.1 * tried and all_escaped and last <= 1e-10,
    )


def _lmm_is_stable(table: Table, scales: list[float]) -> Claim:
    errors = [error for scale in scales for error in _errors(table, "LMM", scale)]
    grew = sum(not np.max(error) <= error[0] for error in errors)
    solved = sum(bool(error[-1] <= _SOLVED) for error in errors)
    return Claim(
        "Damping the preconditioner makes the method stable.",
        grew == 0 and solved == len(errors),
        f"The error of LMM rose above that of the start from {grew} of {len(errors)} starts, those "
        f"next to rank loss included, and ended below 1e-13 from {solved}.",
    )


def summaries(table: Table) -> list[Summary]:
    """The runs that left the plotted range, by method and scale."""
    rows = []
    for scale in table.unique("redundant_scale"):
        for method in METHODS:
            escaped, tried = _escaped(table, method, scale)
            errors = _errors(table, method, scale)
            largest = max(float(np.max(error)) for error in errors)
            solved = sum(bool(error[-1] <= 1e-10) for error in errors)
            rows.append(
                [f"{scale:g}", method, str(tried), str(escaped), f"{largest:.0e}", str(solved)]
            )
    header = ["factor", "method", "starts", "beyond 1e3", "largest error", "solved to 1e-10"]
    remark = "The factor multiplies the superfluous singular value of the start."
    return [Summary("From how many starts the error grows", header, rows, remark)]


def draw(table: Table) -> Any:
    """Curves from a random start and from one near rank loss; the largest error of each start."""
    scales = table.unique("redundant_scale")
    figure, axes = panels(1, 3)
    random, near, jumps = axes[0]
    draw_curves(random, table.where(redundant_scale=1.0, start=0), legend="upper right")
    random.set_title("a random start")
    last = table.where(redundant_scale=min(scales), start=0)
    draw_curves(near, last, legend=None)
    near.set_title(f"superfluous singular value times {min(scales):g}")
    # Shifted, since they have the same positions otherwise.
    for shift, method in zip((0.7, 1.0, 1.4), METHODS, strict=True):
        largest = {s: [np.max(error) for error in _errors(table, method, s)] for s in scales}
        places = np.concatenate([np.full(len(found), s * shift) for s, found in largest.items()])
        heights = np.concatenate(list(largest.values()))
        jumps.loglog(places, heights, "o", ms=4, alpha=0.5, color=colour(method), label=method)
    jumps.axhline(ERROR_RANGE[1], color="0.4", linestyle=":", label="edge of the paper's picture")
    jumps.set_xlabel("factor on the superfluous singular value of the start")
    jumps.set_ylabel("largest relative error of a run")
    jumps.set_title("all starts")
    jumps.legend(fontsize="small")
    jumps.grid(True, which="major", alpha=0.3)
    return figure


EXPERIMENT = Experiment(
    name="fig1",
    title="Figure 1: factorisation with one column too many",
    minutes=0.5,
    settings=SETTINGS,
    jobs=jobs,
    claims=claims,
    draw=draw,
    summaries=summaries,
)
