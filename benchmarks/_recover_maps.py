"""Where recovery succeeds: from data alone, and by the tuned method from a start near the truth."""

import functools
import itertools
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import lemmax as lm
from lemmax.experiments.instances import psd_sensing

DIM, TRUE_RANK, SUCCESS = 30, 2, 1e-8
RANKS, CONDITIONS = (2, 5, 10), (1.0, 100.0, 1e4)
SAMPLING, OUTLIERS = (2, 4, 8, 16), (0.0, 0.1, 0.2, 0.3, 0.4, 0.45)
# Fresh: no seed of this range has been used to develop anything.
FIRST_SEED = 1_400_000
# Of the paper's Configuration 2: that of its Figure 6, and a longer one. The best of both counts.
FIRST_STEPS, STEPS = (1e-4, 1e-3), 700


def tuned(first_step: float) -> lm.methods.AbstractMethod:
    """The paper's Configuration 2."""
    return lm.methods.lmm(lm.steps.Geometric(first_step, 0.97), lm.damping.Geometric(1e-5, 0.97))


def errors_of_tuned(made: dict[tuple[float, float], Any]) -> list[float]:
    """The smallest error on the way, with the better first step."""
    runs = [
        lm.Run(i.problem, tuned(first), i.x0, {"error": i.error})
        for first in FIRST_STEPS
        for i in made.values()
    ]
    results = lm.solve_many(runs, max_steps=STEPS, tol=0.0)
    smallest = [float(np.nanmin(result.trace.metrics["error"])) for result in results]
    return np.min(np.reshape(smallest, (len(FIRST_STEPS), -1)), axis=0).tolist()


def instances(seed: int, sampling: int, rank: int) -> dict[tuple[float, float], Any]:
    """All conditions and shares of outliers over the same measurements."""
    operator, made = None, {}
    for condition, outliers in itertools.product(CONDITIONS, OUTLIERS):
        made[condition, outliers] = instance = psd_sensing(
            FIRST_SEED + seed,
            dim=DIM,
            rank=rank,
            true_rank=TRUE_RANK,
            condition=condition,
            measurements=sampling * 2 * DIM * TRUE_RANK,
            outliers=outliers,
            start_error=1e-2,
            operator=operator,
        )
        operator = instance.problem.operator
    return made


def success_map(seeds: int) -> Iterator[Callable[[], list[dict]]]:
    """One row for every instance: the errors of both, and the verdict."""
    for setting in itertools.product(SAMPLING, RANKS, range(seeds)):
        yield functools.partial(_compared, *setting)


def _compared(sampling: int, rank: int, seed: int) -> list[dict]:
    made = instances(seed, sampling, rank)
    rows = []
    for (key, instance), error in zip(made.items(), errors_of_tuned(made), strict=True):
        found = lm.recover(instance.problem.data, instance.problem.map, instance.problem.operator)
        rows.append(
            {
                "sampling": sampling,
                "rank": rank,
                "seed": seed,
                "condition": key[0],
                "outliers": key[1],
                "tuned": error,
                "recover": float(found.point.distance(instance.truth) / instance.truth.norm()),
                "verdict": found.status.name,
                "found_rank": found.rank,
                "passes": found.passes,
                "seconds": round(found.seconds, 3),
            }
        )
    return rows


def _rates(rows: list[dict]) -> dict[tuple, tuple[int, int, int]]:
    cells: dict[tuple, list] = {}
    for row in rows:
        key = tuple(float(row[name]) for name in ("rank", "condition", "sampling", "outliers"))
        hits = float(row["tuned"]) <= SUCCESS, float(row["recover"]) <= SUCCESS
        cells.setdefault(key, []).append(hits)
    return {key: (*np.sum(hits, axis=0), len(hits)) for key, hits in cells.items()}


def summary(rows: list[dict]) -> list[dict]:
    """Cells in which each succeeds in at least 95 % of the instances."""
    lines = []
    for rank in RANKS:
        rates = [rate for key, rate in _rates(rows).items() if key[0] == rank]
        good = [(t >= 0.95 * n, r >= 0.95 * n) for t, r, n in rates]
        lines.append(
            {
                "rank given": rank,
                "cells": len(good),
                "tuned succeeds": sum(t for t, _ in good),
                "recover succeeds": sum(r for _, r in good),
                "tuned but not recover": sum(t and not r for t, r in good),
            }
        )
    return lines


def draw(rows: list[dict], path: pathlib.Path) -> None:
    """Both maps side by side: one panel for every rank and condition number."""
    from matplotlib.figure import Figure

    rates = _rates(rows)
    figure = Figure(figsize=(12, 13), layout="constrained")
    axes = figure.subplots(len(RANKS) * len(CONDITIONS), 2, sharex=True, sharey=True)
    for row, (rank, condition) in zip(axes, itertools.product(RANKS, CONDITIONS), strict=True):
        for which, ax in enumerate(row):
            share = np.array(
                [
                    [
                        (lambda rate: rate[which] / rate[2])(rates[rank, condition, m, p])
                        for p in OUTLIERS
                    ]
                    for m in SAMPLING
                ]
            )
            image = ax.imshow(share, vmin=0, vmax=1, cmap="cividis", origin="lower", aspect="auto")
            ax.set_xticks(range(len(OUTLIERS)), [f"{p:g}" for p in OUTLIERS])
            ax.set_yticks(range(len(SAMPLING)), [f"{m}" for m in SAMPLING])
            for (i, j), value in np.ndenumerate(share):
                ax.text(
                    j,
                    i,
                    f"{value:.0%}",
                    ha="center",
                    va="center",
                    fontsize=7,
                    color="white" if value < 0.6 else "black",
                )
        row[0].set_ylabel(f"rank {rank}, κ={condition:g}\nm / (2dr*)", fontsize=8)
    axes[0][0].set_title("Configuration 2, tuned, started at an error of 1 %")
    axes[0][1].set_title("lm.recover, from the data alone")
    for ax in axes[-1]:
        ax.set_xlabel("share of wrong data")
    figure.colorbar(
        image, ax=axes, label=f"share of instances with an error below {SUCCESS:g}", shrink=0.4
    )
    figure.savefig(path, dpi=110)
