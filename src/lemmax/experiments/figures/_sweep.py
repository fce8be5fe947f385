"""Common part of figures 5 and 6: LMM, Gauss-Newton and subgradient with geometric steps."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import lemmax as lm

from ..harness import Lane, Outcome, Settings, Table, Watch, error_of, out_of_reach, run_together

METHODS = ("LMM", "Gauss-Newton", "subgradient")


def geometric_method(
    name: str, first_step: float, decay: float, damping: float
) -> lm.methods.AbstractMethod:
    """Configuration 2: steps ``first_step * decay**k``, and for LMM similar dampings."""
    steps = lm.steps.Geometric(first_step, decay)
    if name == "LMM":
        return lm.methods.lmm(steps, lm.damping.Geometric(damping, decay))
    if name == "Gauss-Newton":
        return lm.methods.gauss_newton(steps)
    return lm.methods.subgradient(steps)


def run_trials(
    watch: Watch,
    settings: Settings,
    trials: Sequence[int],
    lanes_of: Callable[[int], tuple[list[Lane], list[float]]],
    judge: Callable[[np.ndarray], dict[str, Any]],
) -> Outcome:
    """Run the lanes of each trial in one program; one row per run.

    Parameters
    ----------
    watch : callable
        Progress function, in trials.
    settings : dict
        With ``steps``, the maximum per run, and ``accuracy``, at which a run is finished.
    trials : sequence of int
        Numbers of the trials.
    lanes_of : callable
        ``lanes_of(trial)`` returns the lanes and the decay of each.
    judge : callable
        Computes further columns of a row from the errors of its run.
    """
    rows, seconds = [], 0.0
    for done, trial in enumerate(trials):
        lanes, decays = lanes_of(trial)
        results = run_together(
            lambda part, total, done=done: watch(done + part / total, len(trials)),
            lanes,
            settings["steps"],
            every=50,
            stop=out_of_reach(settings["accuracy"], decays),
        )
        seconds += results[0].seconds
        for lane, result in zip(lanes, results, strict=True):
            error = error_of(result)
            rows.append({**lane.labels, **judge(error), "final_error": float(error[-1])})
    return Outcome(Table.from_rows(rows), {"runs": len(rows), "seconds of the runs": seconds})
