"""Common part of figures 3 and 4: matrix sensing, all methods and conditions with one A."""

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import lemmax as lm

from ..harness import (
    Claim,
    Facts,
    Job,
    Lane,
    Outcome,
    Settings,
    Table,
    Watch,
    curve,
    draw_curves,
    error_of,
    legend_beside,
    measured_array,
    panels,
    run_together,
    seconds_per_step,
    steps_to,
)
from ..instances import Instance, matrix_sensing

Methods = Mapping[str, lm.methods.AbstractMethod]

_COMMON = {"true_rank": 2, "conditions": [1.0, 100.0], "start_error": 1e-2}
# Sizes are pairs of dimension and rank.
SETTINGS = {
    "full": {
        **_COMMON,
        "sizes": [[100, 2], [100, 5], [200, 2], [200, 5]],
        "steps": 1000,
        "timed": True,
    },
    "quick": {**_COMMON, "sizes": [[20, 2], [20, 5], [30, 5]], "steps": 600, "timed": False},
}
KINDS = {"symmetric": True, "asymmetric": False}
# Limit for the time of an iteration, in units of two plain products in NumPy.
_COST_BOUND = 1.6


def jobs(
    settings: Settings,
    seed: int,
    loss: lm.losses.AbstractLoss,
    methods: Callable[[bool], Methods],
) -> list[Job]:
    """One per array of measurements; ``methods(symmetric)`` gives the methods."""
    return [
        _job(settings, seed, loss, methods, kind, dim, rank)
        for kind in KINDS
        for dim, rank in settings["sizes"]
    ]


def _job(
    settings: Settings,
    seed: int,
    loss: lm.losses.AbstractLoss,
    methods: Callable[[bool], Methods],
    kind: str,
    dim: int,
    rank: int,
) -> Job:
    def work(watch: Watch) -> Outcome:
        instances: dict[float, Instance] = {}
        operator = None
        for condition in settings["conditions"]:
            instances[condition] = matrix_sensing(
                KINDS[kind],
                seed,
                dim=dim,
                rank=rank,
                true_rank=settings["true_rank"],
                condition=condition,
                loss=loss,
                start_error=settings["start_error"],
                operator=operator,
            )
            operator = instances[condition].problem.operator
        setting = {"kind": kind, "dim": dim, "rank": rank}
        lanes = [
            Lane({"method": name, **setting, "condition": condition}, instance, method)
            for condition, instance in instances.items()
            for name, method in methods(KINDS[kind]).items()
        ]
        results = run_together(watch, lanes, settings["steps"])
        curves = [curve(error_of(r), **x.labels) for x, r in zip(lanes, results, strict=True)]
        longest = max(int(result.steps) for result in results)
        facts = {
            "lanes": len(lanes),
            "seconds per step of all lanes": results[0].seconds / longest,
        }
        if settings["timed"]:
            facts |= _costs(lanes[0])
        return Outcome(Table.concatenate(curves), facts)

    return Job(f"{kind}-d={dim}-r={rank}", work)


def _costs(lane: Lane) -> dict[str, float]:
    """Seconds per step of a single run, and of two products with the same array in NumPy."""
    problem = lane.instance.problem
    array = measured_array(lane.instance)
    z, s = np.ones(array.shape[1]), np.ones(array.shape[0])
    # About a tenth of a second of steps, but at least ten.
    steps = 10 + int(1e9 / array.nbytes)
    alone, products = [], []
    for _ in range(4):
        result = lm.solve(problem, lane.method, lane.instance.x0, max_steps=steps, tol=0.0)
        alone.append(seconds_per_step(result))
        began = time.perf_counter()
        for _ in range(steps):
            _ = array @ z
            _ = s @ array
        products.append((time.perf_counter() - began) / steps)
    return {
        "bytes of the measurements": array.nbytes,
        "seconds per step of LMM alone": min(alone),
        "seconds of two NumPy products": min(products),
        "ratio": min(alone) / min(products),
    }


def draw(table: Table) -> Any:
    """A panel for each kind and dimension."""
    dims, styled_by = table.unique("dim"), ["rank", "condition"]
    figure, axes = panels(len(dims), len(KINDS))
    for row, dim in enumerate(dims):
        for column, kind in enumerate(KINDS):
            ax = axes[row, column]
            rows = table.where(kind=kind, dim=dim)
            draw_curves(ax, rows, styled_by=styled_by, legend=None, error_range=(1e-13, 1.0))
            ax.set_title(f"{kind}, d = {dim}")
    legend_beside(figure, table, styled_by=styled_by)
    return figure


def settings_of(table: Table, **wanted: Any) -> list[tuple[tuple[Any, ...], Table]]:
    """The curves of a method in all settings: ``((kind, dim, rank, condition), rows)``."""
    return list(table.where(**wanted).groups("kind", "dim", "rank", "condition"))


def counts(table: Table, accuracy: float, **wanted: Any) -> list[int | None]:
    """Steps to an accuracy in all settings."""
    return [steps_to(rows.column("error"), accuracy) for _, rows in settings_of(table, **wanted)]


def best_errors(table: Table, **wanted: Any) -> list[float]:
    """The smallest error in all settings."""
    return [float(np.min(rows.column("error"))) for _, rows in settings_of(table, **wanted)]


def reaches_everywhere(table: Table, accuracy: float, **wanted: Any) -> tuple[bool, str]:
    """Whether a method reaches an accuracy in all settings, and a text on how fast."""
    found = counts(table, accuracy, **wanted)
    reached = [steps for steps in found if steps is not None]
    if len(reached) == len(found):
        return True, f"{min(reached)} to {max(reached)} iterations to {accuracy:g} in all settings"
    return False, f"reaches {accuracy:g} in {len(reached)} of {len(found)} settings"


def rate_free_of_dimension(table: Table) -> Claim:
    """The rate is the same at both dimensions."""
    small, large = table.unique("dim")
    ratios = []
    for (kind, _, rank, condition), _ in settings_of(table, method="LMM", dim=large):
        same = {"method": "LMM", "kind": kind, "rank": rank, "condition": condition}
        (few,), (many,) = (counts(table, 1e-12, dim=d, **same) for d in (small, large))
        ratios.append(many / few if few and many else float("nan"))
    # A single draw varies by some 20 %, so the mean is tested.
    mean = float(np.exp(np.mean(np.log(ratios))))
    return Claim(
        f"The rate of LMM does not depend on the dimension: iterations to 1e-12 at d = {large} are "
        f"within 20 % of those at d = {small}, in the mean over the settings.",
        abs(mean - 1) <= 0.2,
        f"ratio {mean:.2f} in the mean, {np.min(ratios):.2f} to {np.max(ratios):.2f} in all.",
    )


def costs_little(facts: Facts) -> list[Claim]:
    """Our own claim: the cost of an iteration, where it was timed."""
    ratios = [job["ratio"] for job in facts.values() if "ratio" in job]
    if not ratios:
        return []
    together = [
        job["seconds per step of all lanes"] / job["seconds of two NumPy products"]
        for job in facts.values()
    ]
    return [
        Claim(
            f"(Ours.) An iteration of LMM takes at most {_COST_BOUND:g} times as long as two plain "
            "NumPy products with the same measurements.",
            max(ratios) <= _COST_BOUND,
            f"{min(ratios):.2f} to {max(ratios):.2f} times, measured in the same run; all methods "
            f"and condition numbers together: {min(together):.1f} to {max(together):.1f} times.",
        )
    ]


def plain_method_fails(table: Table, method: str) -> Claim:
    """The method without a preconditioner."""
    hard = {
        key: float(rows.column("error")[-1])
        for key, rows in settings_of(table, method=method)
        if key[2:] != (2, 1.0)
    }
    exact = [error for key, error in hard.items() if key[2] == 2]
    over = [error for key, error in hard.items() if key[2] > 2]
    easy = [s or 0 for s in counts(table, 1e-10, method=method, rank=2, condition=1.0)]
    return Claim(
        f"The {method} method is fast only without ill-conditioning and over-parameterisation; "
        "with superfluous columns it does not even converge linearly.",
        min(exact) > 1e-11 and min(over) > 1e-6 and min(easy) > 0,
        f"rank 2, condition 1: {min(easy)} to {max(easy)} iterations to 1e-10; condition 100: ends "
        f"at {min(exact):.0e} to {max(exact):.0e}; rank 5: {min(over):.0e} to {max(over):.0e}.",
    )
