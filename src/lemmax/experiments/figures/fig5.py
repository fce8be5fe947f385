"""Figure 5: dependence of LMM's speed on its parameters, for geometrically decaying steps.

The text has condition number 1e4, the file names of the paper's figure 100; the latter is run, too,
as a variant with fewer trials. All parameters, methods and condition numbers of a trial share its
measurements and its program.
"""

from typing import Any

import numpy as np

from ..harness import (
    Claim,
    Experiment,
    Facts,
    Job,
    Lane,
    Outcome,
    Settings,
    Table,
    Watch,
    colour,
    panels,
    steps_to,
)
from ..instances import psd_sensing
from ._sweep import METHODS, geometric_method, run_trials

_COMMON = {
    "dim": 30,
    "true_rank": 2,
    "conditions": {"2": [1.0, 100.0, 1e4], "5": [100.0, 1e4]},
    "variant": 100.0,
    "measurements per rank": 600,
    "start_error": 1e-3,
    "damping": 1e-5,
    "steps": 1000,
    "accuracy": 1e-8,
}
SETTINGS = {
    "full": {
        **_COMMON,
        "decays": [0.95, 0.96, 0.97],
        "first_steps": [10.0**-j for j in range(1, 9)],
        "trials": 100,
        "variant_trials": 20,
        "trials per job": 10,
    },
    "quick": {
        **_COMMON,
        "dim": 12,
        "measurements per rank": 100,
        "decays": [0.95],
        "first_steps": [1e-1, 1e-3, 1e-5, 1e-7],
        "trials": 2,
        "variant_trials": 2,
        "trials per job": 2,
    },
}


def jobs(settings: Settings, seed: int) -> list[Job]:
    """One per rank and group of trials."""
    size = settings["trials per job"]
    return [
        _job(settings, seed, int(rank), range(first, min(first + size, settings["trials"])))
        for rank in settings["conditions"]
        for first in range(0, settings["trials"], size)
    ]


def _job(settings: Settings, seed: int, rank: int, trials: range) -> Job:
    def judge(error: np.ndarray) -> dict[str, Any]:
        steps = steps_to(error, settings["accuracy"])
        return {"steps": -1 if steps is None else steps}  # -1: never

    def work(watch: Watch) -> Outcome:
        def lanes_of(trial: int) -> tuple[list[Lane], list[float]]:
            return _lanes(settings, seed, rank, trial)

        return run_trials(watch, settings, trials, lanes_of, judge)

    return Job(f"r={rank}-trials={trials.start}", work)


def _lanes(settings: Settings, seed: int, rank: int, trial: int) -> tuple[list[Lane], list[float]]:
    lanes, decays, operator = [], [], None
    for condition in settings["conditions"][str(rank)]:
        if condition == settings["variant"] and trial >= settings["variant_trials"]:
            continue
        instance = psd_sensing(
            1000 * seed + trial,
            dim=settings["dim"],
            rank=rank,
            true_rank=settings["true_rank"],
            condition=condition,
            measurements=settings["measurements per rank"] * rank,
            start_error=settings["start_error"],
            operator=operator,
        )
        operator = instance.problem.operator
        for decay in settings["decays"]:
            for first_step in settings["first_steps"]:
                for name in METHODS:
                    labels = {
                        "method": name,
                        "rank": rank,
                        "condition": condition,
                        "decay": decay,
                        "first_step": first_step,
                        "trial": trial,
                    }
                    method = geometric_method(name, first_step, decay, settings["damping"])
                    lanes.append(Lane(labels, instance, method))
                    decays.append(decay)
    return lanes, decays


def _success(rows: Table) -> float:
    return float(np.mean(rows.column("steps") >= 0))


def _steps(rows: Table, limit: int) -> np.ndarray:
    """Iterations of all trials; the limit for those that failed."""
    steps = rows.column("steps")
    return np.where(steps < 0, limit, steps)


def _valley(table: Table, method: str, rank: int, condition: float, decay: float) -> list[float]:
    """The first steps with which nearly all trials succeed."""
    mine = table.where(method=method, rank=rank, condition=condition, decay=decay)
    return [step for (step,), rows in mine.groups("first_step") if _success(rows) >= 0.95]


def _settings(table: Table) -> list[tuple[int, float]]:
    return [(rank, condition) for (rank, condition), _ in table.groups("rank", "condition")]


def claims(table: Table, facts: Facts) -> list[Claim]:
    """The paper's claims about this figure."""
    decays = table.unique("decay")
    valleys = {
        (setting, q): _valley(table, "LMM", *setting, q)
        for setting in _settings(table)
        for q in decays
    }
    worst = min(valleys, key=lambda key: _decades(valleys[key]))
    texts = "; ".join(
        f"rank {rank}, condition {condition:g}: {_interval(valleys[(rank, condition), decays[0]])}"
        for rank, condition in _settings(table)
    )
    others = {
        (setting, q): _valley(table, "subgradient", *setting, q)
        for setting in _settings(table)
        for q in decays
    }
    hard = [valley for (setting, _), valley in others.items() if setting[1] > 1]
    easy = [valley for (setting, _), valley in others.items() if setting[1] == 1]
    return [
        Claim(
            "LMM converges for a broad range of first steps, at least two orders of magnitude, "
            "whatever the conditioning, the rank and the decay.",
            _decades(valleys[worst]) >= 2,
            f"first steps with which 95 % of the trials reach 1e-8 (decay {decays[0]:g}): {texts}.",
        ),
        Claim(
            "The subgradient method converges only for well-conditioned problems.",
            not any(hard) and all(easy),
            f"condition 1: {_interval(easy[0])}; otherwise it reaches 1e-8 for "
            f"{sum(bool(v) for v in hard)} of {len(hard)} pairs of setting and decay.",
        ),
        _longer_steps_take_longer(table),
        _ranges_shrink(valleys, decays[0], texts),
    ]


def _decades(valley: list[float]) -> float:
    return float(np.log10(max(valley) / min(valley))) if valley else -1.0


def _interval(valley: list[float]) -> str:
    return f"{min(valley):g} to {max(valley):g}" if valley else "none"


def _longer_steps_take_longer(table: Table) -> Claim:
    """Among successful first steps, LMM's count grows with the step and with the decay factor."""
    ordered, lowest, highest = True, 10**9, 0
    for (_, _, _), mine in table.where(method="LMM").groups("rank", "condition", "decay"):
        medians = [
            float(np.median(rows.column("steps")))
            for (_,), rows in mine.groups("first_step")
            if _success(rows) >= 0.95
        ]
        by_size = medians[::-1]  # first steps are listed from large to small
        ordered &= bool(np.all(np.diff(by_size) >= 0))
        lowest, highest = min([lowest, *medians]), max([highest, *medians])
    return Claim(
        "Where it converges, the number of iterations grows slowly with the first step: the error "
        "follows the steps.",
        ordered,
        f"medians between {lowest:.0f} and {highest:.0f} iterations; monotone in every setting: "
        f"{'yes' if ordered else 'no'}.",
    )


def _ranges_shrink(valleys: dict, decay: float, texts: str) -> Claim:
    """Not in the text: the upper end of the range depends on the conditioning."""
    tops = [max(valley, default=0.0) for (_, q), valley in valleys.items() if q == decay]
    return Claim(
        "The range does not depend on conditioning and over-parameterisation.",
        len(set(tops)) == 1,
        f"decay {decay:g}: {texts}.",
        correction="The lower end is the same; the largest usable first step shrinks with the "
        "condition number and with superfluous columns, since a step must stay within the region "
        "of attraction, whose size is the smallest nonzero eigenvalue.",
        correction_holds=len({min(v, default=0.0) for v in valleys.values()}) <= 2
        and len(set(tops)) > 1,
    )


def draw(table: Table) -> Any:
    """One row per decay, one column per setting: median and 5 to 95 % of iterations."""
    decays, settings = table.unique("decay"), _settings(table)
    figure, axes = panels(len(decays), len(settings), width=3.4, height=2.7)
    limit = max(1000, int(np.max(table.column("steps"))))
    for row, decay in enumerate(decays):
        for column, (rank, condition) in enumerate(settings):
            ax = axes[row, column]
            mine = table.where(rank=rank, condition=condition, decay=decay)
            for (method,), rows in mine.groups("method"):
                steps = [(size, _steps(cell, limit)) for (size,), cell in rows.groups("first_step")]
                sizes = [size for size, _ in steps]
                low, middle, high = np.percentile([s for _, s in steps], [5, 50, 95], axis=1)
                # Gauss-Newton often coincides with LMM: dashed, it leaves the other visible.
                style = "o--" if method == "Gauss-Newton" else "o-"
                ax.semilogx(sizes, middle, style, ms=3, color=colour(method), label=method)
                ax.fill_between(sizes, low, high, color=colour(method), alpha=0.2, lw=0)
            ax.axhline(limit, color="0.4", linestyle=":", label="not reached")
            ax.set_ylim(0, 1.05 * limit)
            ax.grid(True, alpha=0.3)
            if row == 0:
                ax.set_title(f"rank {rank}, condition {condition:g}", fontsize="medium")
            if row == len(decays) - 1:
                ax.set_xlabel("first step γ")
            if column == 0:
                ax.set_ylabel(f"q = {decay:g}\niterations to 1e-8")
    axes[0, 0].legend(fontsize="small")
    return figure


EXPERIMENT = Experiment(
    "fig5",
    "Figure 5: sensitivity to the parameters",
    minutes=15,
    settings=SETTINGS,
    jobs=jobs,
    claims=claims,
    draw=draw,
)
