"""Recovery of many kinds of points: passes, errors, ranks, noise, and verdicts that must hold."""

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.optimize import least_squares

import lemmax as lm
from lemmax.experiments.instances import (
    cp_sensing,
    low_rank_sensing,
    psd_sensing,
    symmetric_cp_sensing,
)
from lemmax.points import KruskalPoint

from ._recover_maps import FIRST_SEED, SUCCESS

Task = Callable[[], list[dict]]


def row_of(found: lm.Recovery, truth: Any, **labels: Any) -> dict:
    """What is written down of every answer."""
    return {
        **labels,
        "error": float(found.point.distance(truth) / truth.norm()),
        "verdict": found.status.name,
        "rank": found.rank,
        "passes": found.passes,
        "steps": found.steps,
        "seconds": round(found.seconds, 3),
    }


def _recovered(instance: Any, **options: Any) -> lm.Recovery:
    problem = instance.problem
    return lm.recover(problem.data, problem.map, problem.operator, **options)


def passes(seeds: int) -> Iterator[Task]:
    """PSD sensing where the paper takes 200 to 400 iterations of two passes each."""
    cases = itertools.product((2, 5, 10), (1.0, 100.0, 1e4), (4, 8, 16), (0.0, 0.1, 0.2))
    for case in cases:
        for seed in range(max(1, seeds // 4)):
            yield functools.partial(_passes, *case, seed)


def _passes(rank: int, condition: float, sampling: int, outliers: float, seed: int) -> list[dict]:
    instance = psd_sensing(
        FIRST_SEED + 1000 + seed,
        dim=30,
        rank=rank,
        true_rank=2,
        condition=condition,
        measurements=sampling * 120,
        outliers=outliers,
    )
    labels = {"given": rank, "condition": condition, "sampling": sampling, "outliers": outliers}
    return [row_of(_recovered(instance), instance.truth, **labels)]


def summary_of_passes(rows: list[dict]) -> list[dict]:
    """Medians for each rank and condition number."""
    lines = []
    for rank, condition in itertools.product(("2", "5", "10"), ("1.0", "100.0", "10000.0")):
        some = [row for row in rows if (row["given"], row["condition"]) == (rank, condition)]
        counts = [int(row["passes"]) for row in some]
        lines.append(
            {
                "rank given": rank,
                "condition": condition,
                "instances": len(some),
                "error <= 1e-10": sum(float(row["error"]) <= 1e-10 for row in some),
                "passes, median": int(np.median(counts)),
                "passes, largest": max(counts),
                "seconds, median": np.median([float(row["seconds"]) for row in some]),
            }
        )
    return lines


def kinds(seeds: int) -> Iterator[Task]:
    """Everything but the positive semidefinite case."""
    for seed in range(max(1, seeds // 4)):
        for condition in (1.0, 100.0):
            yield functools.partial(_asymmetric, seed, condition)
        for dim in (20, 30):
            yield functools.partial(_tensors, seed, dim)
        for kind in ("quadratic", "bilinear"):
            yield functools.partial(_rank_one, seed, kind)


def _asymmetric(seed: int, condition: float) -> list[dict]:
    instance = low_rank_sensing(
        FIRST_SEED + 2000 + seed,
        shape=(30, 30),
        rank=5,
        true_rank=2,
        condition=condition,
        measurements=960,
        outliers=0.2,
    )
    labels = {"kind": "asymmetric", "condition": condition}
    return [row_of(_recovered(instance), instance.truth, **labels)]


def _tensors(seed: int, dim: int) -> list[dict]:
    law = {"rank": 6, "true_rank": 3, "condition": 10.0, "outliers": 0.1}
    key = FIRST_SEED + 3000 + seed
    made = {
        "CP": cp_sensing(key, dims=(dim,) * 3, measurements=12 * 3 * dim * 3, **law),
        "symmetric CP": symmetric_cp_sensing(key, dim=dim, measurements=12 * dim * 3, **law),
    }
    return [
        row_of(_recovered(instance), instance.truth, kind=f"{kind}, d={dim}", condition=10.0)
        for kind, instance in made.items()
    ]


def _rank_one(seed: int, kind: str) -> list[dict]:
    operator, map, data, truth = rank_one_case(FIRST_SEED + 4000 + seed, kind)
    return [row_of(lm.recover(data, map, operator), truth, kind=kind, condition=1.0)]


def rank_one_case(seed: int, kind: str, dim: int = 50) -> tuple[Any, Any, np.ndarray, Any]:
    """Phase retrieval or bilinear sensing, 15 % of the data replaced by numbers of their size."""
    rng = np.random.default_rng(seed)
    count = 8 * dim * (1 if kind == "quadratic" else 2)
    a, b = rng.standard_normal((2, count, dim))
    x, y = rng.standard_normal((2, dim, 1))
    if kind == "quadratic":
        operator, map, truth = lm.operators.RankOne(a), lm.maps.PSD(dim, 3), KruskalPoint((x, x))
    else:
        operator, map = lm.operators.RankOne(a, b), lm.maps.LowRank((dim, dim), 3)
        truth = KruskalPoint((x, y))
    data = np.array(operator.measure(truth))
    wrong = rng.random(count) < 0.15
    data[wrong] = rng.permutation(data)[wrong] * rng.exponential(3.0, wrong.sum())
    return operator, map, data, truth


def summary_of_kinds(rows: list[dict]) -> list[dict]:
    """How many of each kind were recovered."""
    lines = []
    for kind, condition in dict.fromkeys((row["kind"], row["condition"]) for row in rows):
        some = [row for row in rows if (row["kind"], row["condition"]) == (kind, condition)]
        errors = [float(row["error"]) for row in some]
        lines.append(
            {
                "kind": kind,
                "condition": condition,
                "instances": len(some),
                f"error <= {SUCCESS:g}": sum(error <= SUCCESS for error in errors),
                "largest error": f"{max(errors):.1e}",
                "ranks found": " ".join(sorted({row["rank"] for row in some})),
                "verdicts": " ".join(sorted({row["verdict"] for row in some})),
                "passes, median": int(np.median([int(row["passes"]) for row in some])),
                "seconds, median": np.median([float(row["seconds"]) for row in some]),
            }
        )
    return lines


def entries(seeds: int) -> Iterator[Task]:
    """Robust PCA and completion: d = 500, true rank 5, bound 10, 20 % of what is seen is wrong."""
    cases = itertools.product((1.0, 0.5, 0.3), (1.0, 10.0, 100.0), range(max(1, seeds // 4)))
    for case in cases:
        yield functools.partial(_entries, *case)


def _entries(seen: float, condition: float, seed: int) -> list[dict]:
    data, mask, truth = corrupted_matrix(FIRST_SEED + 5000 + seed, 500, 5, condition, seen)
    operator = None if seen == 1 else lm.operators.Entries.from_mask(mask)
    found = lm.recover(data if seen == 1 else data[mask], lm.maps.LowRank((500,) * 2, 10), operator)
    return [row_of(found, truth, kind=f"{seen:.0%} of the entries", condition=condition)]


def corrupted_matrix(
    seed: int, dim: int, rank: int, condition: float, seen: float, wrong: float = 0.2
) -> tuple[np.ndarray, np.ndarray, KruskalPoint]:
    """Haar factors; wrong entries uniform, up to ten standard deviations."""
    rng = np.random.default_rng(seed)
    left, right = (np.linalg.qr(rng.standard_normal((dim, rank)))[0] for _ in range(2))
    truth = KruskalPoint((left * np.geomspace(1, 1 / condition, rank), right))
    data = np.array(truth.dense())
    places = rng.random((dim, dim)) < wrong
    data[places] = 10 * data.std() * rng.uniform(-1, 1, places.sum())
    return data, rng.random((dim, dim)) < seen, truth


def noise(seeds: int) -> Iterator[Task]:
    """Noise on the right data and 10 % outliers, against one who knows inliers and rank."""
    cases = itertools.product((2, 5), (1.0, 10.0), (1e-4, 1e-3, 1e-2), range(seeds))
    for case in cases:
        yield functools.partial(_noise, *case)


def _noise(rank: int, condition: float, level: float, seed: int) -> list[dict]:
    key = FIRST_SEED + 6000 + seed
    instance = psd_sensing(
        key, dim=30, rank=rank, true_rank=2, condition=condition, measurements=960, outliers=0.1
    )
    problem, truth = instance.problem, instance.truth
    exact = np.asarray(problem.operator.measure(truth))
    right = np.abs(exact - np.asarray(problem.data)) < 1e-9
    sigma = level * float(np.std(exact))
    errors = sigma * np.random.default_rng(key).standard_normal(exact.shape)
    data = np.asarray(problem.data) + np.where(right, errors, 0)
    found = lm.recover(data, problem.map, problem.operator)
    best = oracle(problem.operator, data, right, truth)
    row = row_of(found, truth, given=rank, condition=condition, level=level)
    return [
        row | {"oracle": float(best.distance(truth) / truth.norm()), "noise": found.noise / sigma}
    ]


def oracle(operator: Any, data: np.ndarray, right: np.ndarray, truth: KruskalPoint) -> KruskalPoint:
    """Least squares on the right data at the right rank, from the truth."""
    shape = truth.factors[0].shape

    def residual(flat: np.ndarray) -> np.ndarray:
        factor = flat.reshape(shape)
        return (np.asarray(operator.measure(KruskalPoint((factor, factor)))) - data)[right]

    factor = least_squares(residual, np.ravel(truth.factors[0])).x.reshape(shape)
    return KruskalPoint((factor, factor))


def summary_of_noise(rows: list[dict]) -> list[dict]:
    """The error relative to the oracle's."""
    lines = []
    names = ("given", "condition", "level")
    for key in dict.fromkeys(tuple(row[name] for name in names) for row in rows):
        some = [row for row in rows if tuple(row[name] for name in names) == key]
        ratios = [float(row["error"]) / float(row["oracle"]) for row in some]
        lines.append(
            {
                "rank given": key[0],
                "condition": key[1],
                "noise / signal": key[2],
                "instances": len(some),
                "error / oracle's, median": f"{np.median(ratios):.3f}",
                "largest": f"{max(ratios):.2f}",
                "rank 2 found": sum(row["rank"] == "2" for row in some),
                "noise found, median": f"{np.median([float(row['noise']) for row in some]):.3f}",
                "NOISE_LEVEL": sum(row["verdict"] == "NOISE_LEVEL" for row in some),
            }
        )
    return lines
