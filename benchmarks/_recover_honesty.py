"""Verdicts on random instances, a good part of them hopeless: none may be a confident error."""

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import lemmax as lm
from lemmax.experiments.instances import low_rank_sensing, psd_sensing
from lemmax.points import KruskalPoint

from ._recover_cases import row_of
from ._recover_maps import FIRST_SEED

Task = Callable[[], list[dict]]
KINDS = ("measurements", "tables", "tensors")
TABLES = [[20, 15], [40, 12], [30, 30], [60, 20]]
TENSORS = [[8, 7, 6], [15, 10, 5], [12, 12, 12], [20, 15, 10]]


def honesty(seeds: int) -> Iterator[Task]:
    """Random instances, a good part of them hopeless: small, so that there can be many."""
    for number in range(100 * seeds):
        yield functools.partial(_judged_sensing, number)
    for number in range(20 * seeds):
        yield functools.partial(_judged_entries, number, "tables", TABLES)
    for number in range(4 * seeds):
        yield functools.partial(_judged_entries, number, "tensors", TENSORS)


def _judged_sensing(number: int) -> list[dict]:
    rng = np.random.default_rng((FIRST_SEED, number))
    dim, true_rank = (int(n) for n in rng.choice([[8, 1], [8, 2], [12, 1], [12, 2], [12, 3]]))
    rank = int(rng.choice([true_rank, true_rank + 2]))
    freedom = dim * true_rank
    count = int(rng.choice([0.7, 1.0, 1.5, 2.5, 5.0, 10.0]) * freedom)
    outliers = float(rng.choice([0.0, 0.1, 0.3, 0.45, 0.5, 0.6]))
    level = float(rng.choice([0.0, 0.0, 1e-4, 1e-2, 1e-1]))
    condition = float(rng.choice([1.0, 30.0]))
    law = {
        "rank": rank,
        "true_rank": true_rank,
        "measurements": count,
        "outliers": outliers,
        "condition": condition,
        "outlier_law": str(rng.choice(["noise", "signal"])),
    }
    kind = str(rng.choice(["psd", "asymmetric"]))
    if kind == "psd":
        instance = psd_sensing(FIRST_SEED + number, dim=dim, **law)
    else:
        instance = low_rank_sensing(FIRST_SEED + number, shape=(dim, dim), **law)
    problem = instance.problem
    exact = np.asarray(problem.operator.measure(instance.truth))
    data = np.asarray(problem.data) + level * np.std(exact) * rng.standard_normal(count)
    found = lm.recover(data, problem.map, problem.operator)
    labels = {
        "kind": kind,
        "dim": dim,
        "true_rank": true_rank,
        "given": rank,
        "measurements": count,
        "outliers": outliers,
        "level": level,
        "condition": condition,
    }
    return [row_of(found, instance.truth, **labels) | {"expected": found.expected_error}]


def _judged_entries(number: int, kind: str, shapes: list[list[int]]) -> list[dict]:
    """Entries of an array: wrong ones anywhere, of all sizes or of one, or in whole rows."""
    order = len(shapes[0])
    rng = np.random.default_rng((FIRST_SEED, order - 1, number))
    shape = tuple(int(n) for n in rng.choice(shapes))
    true_rank = int(rng.choice([1, 2, 3]))
    rank = true_rank + int(rng.choice([0, 2, 5]))
    seen = float(rng.choice([1.0, 1.0, 0.7, 0.4]))
    outliers = float(rng.choice([0.0, 0.01, 0.1, 0.2, 0.35, 0.5]))
    level = float(rng.choice([0.0, 0.0, 1e-4, 1e-2, 1e-1]))
    law = str(rng.choice(["constant", "spread", "rows"]))
    point = KruskalPoint(tuple(rng.standard_normal((n, true_rank)) for n in shape))
    truth = np.asarray(point.dense())
    array = truth + level * np.std(truth) * rng.standard_normal(shape)
    wrong = rng.random(shape) < outliers
    if law == "rows":
        wrong = np.broadcast_to(rng.random((shape[0],) + (order - 1) * (1,)) < outliers, shape)
    gross = 20.0 if law == "constant" else 20 * rng.standard_normal(shape)
    array = np.where(wrong, gross, array)
    array[rng.random(shape) > seen] = np.nan
    map = lm.maps.LowRank(shape, rank) if order == 2 else lm.maps.CP(shape, rank)
    found = lm.recover(array, map)
    labels = {
        "kind": f"{kind}, wrong: {law}",
        "dim": shape[0],
        "true_rank": true_rank,
        "given": rank,
        "measurements": int(np.sum(~np.isnan(array))),
        "outliers": outliers,
        "level": level,
        "condition": 1.0,
    }
    return [row_of(found, point, **labels) | {"expected": found.expected_error}]


def summary(rows: list[dict]) -> list[dict]:
    """Wrong verdicts of success, and answers that were right and not called so."""

    def count(some: list[dict], test: Any) -> int:
        return sum(bool(test(row)) for row in some)

    def error(row: dict) -> float:
        return float(row["error"])

    lines = []
    for kind, noisy in itertools.product(KINDS, (False, True)):
        name = f"{kind}, {'noisy' if noisy else 'exact'}"
        some = [
            row
            for row in rows
            if (float(row["level"]) > 0) == noisy
            and (row["kind"].split(",")[0] if "," in row["kind"] else "measurements") == kind
        ]
        exact = [row for row in some if row["verdict"] == "EXACT"]
        level = [row for row in some if row["verdict"] == "NOISE_LEVEL"]
        right = [
            row for row in some if error(row) <= (1e-8 if not noisy else 2 * float(row["level"]))
        ]
        lines.append(
            {
                "data": name,
                "instances": len(some),
                "EXACT": len(exact),
                "of these with error > 1e-3": count(exact, lambda row: error(row) > 1e-3),
                "NOISE_LEVEL": len(level),
                "of these with error > 3 x expected": count(
                    level, lambda row: error(row) > 3 * float(row["expected"])
                ),
                "and error > 1e-3": count(
                    level, lambda row: error(row) > max(1e-3, 3 * float(row["expected"]))
                ),
                "right": len(right),
                "of these not called recovered": count(
                    right, lambda row: row["verdict"] not in ("EXACT", "NOISE_LEVEL")
                ),
            }
        )
    return lines
