"""Instances that tempt `recover` to be sure of something wrong, each of one class.

The bound on the rank is too low; the spectrum decays without an end; measurements have sizes from
1e-3 to 1e3, and noise of one size or of their own; behind 35 to 49 % of the data is a second model;
columns of a table are rolled against each other.
"""

import functools
from collections.abc import Callable, Iterator

import numpy as np

import lemmax as lm
from lemmax.points import KruskalPoint

from ._recover_cases import row_of
from ._recover_maps import FIRST_SEED

Task = Callable[[], list[dict]]
CLASSES = ("bound too low", "decaying spectrum", "scaled rows", "second model", "rolled columns")
KINDS = ("psd", "asymmetric", "table", "tensor")
LEVELS = (0.0, 1e-3, 1e-2, 3e-2)


def challenges(seeds: int) -> Iterator[Task]:
    """Every class with every kind of point that it exists for."""
    for number in range(3 * seeds):
        for name in CLASSES:
            for kind in KINDS:
                if (name == "rolled columns") <= (kind == "table") and not (
                    name == "scaled rows" and kind in ("table", "tensor")
                ):
                    yield functools.partial(_challenged, name, kind, number)


def _challenged(name: str, kind: str, number: int) -> list[dict]:
    key = (FIRST_SEED, 7, CLASSES.index(name), KINDS.index(kind), number)
    rng = np.random.default_rng(key)
    level = float(rng.choice(LEVELS))
    shape = tuple(int(n) for n in rng.choice(_SHAPES[kind]))
    rank = int(rng.choice([1, 2, 3]))
    truth = _point(rng, kind, shape, rank, name)
    given = max(1, rank - 1) if name == "bound too low" else rank + int(rng.choice([0, 2]))
    if name == "bound too low" and rank == 1:
        truth, rank = _point(rng, kind, shape, 2, name), 2
    if kind in ("psd", "asymmetric"):
        data, operator = _measured(rng, name, kind, shape, rank, truth, level)
    else:
        data, operator = _spoiled(rng, name, kind, shape, rank, truth, level), None
    maps = {"psd": lm.maps.PSD, "asymmetric": lm.maps.LowRank, "table": lm.maps.LowRank}
    where = shape[0] if kind == "psd" else shape
    found = lm.recover(data, maps.get(kind, lm.maps.CP)(where, given), operator)
    labels = {"kind": f"{name}, {kind}", "level": level, "true_rank": rank, "given": given}
    return [row_of(found, truth, **labels) | {"expected": found.expected_error}]


_SHAPES = {
    "psd": [[8, 8], [12, 12]],
    "asymmetric": [[8, 8], [12, 9]],
    "table": [[20, 15], [40, 12], [30, 30]],
    "tensor": [[8, 7, 6], [12, 10, 8]],
}


def _point(
    rng: np.random.Generator, kind: str, shape: tuple[int, ...], rank: int, name: str
) -> KruskalPoint:
    terms = min(shape) if name == "decaying spectrum" else rank
    sizes = 2.0 ** -np.arange(terms) if name == "decaying spectrum" else np.ones(terms)
    factors = [rng.standard_normal((n, terms)) for n in shape]
    if kind == "psd":
        return KruskalPoint((factors[0] * np.sqrt(sizes),) * 2)
    return KruskalPoint((factors[0] * sizes, *factors[1:]))


def _measured(rng, name, kind, shape, rank, truth, level) -> tuple[np.ndarray, lm.operators.Dense]:
    count = int(rng.choice([4, 8]) * rank * sum(shape))
    rows = rng.standard_normal((count, *shape))
    own = np.ones(count)
    noise = level * np.std(np.einsum("mij,ij->m", rows, np.asarray(truth.dense())))
    if name == "scaled rows":
        sizes = 10.0 ** rng.uniform(-3, 3, count)
        rows *= sizes[:, None, None]
        own = sizes if rng.random() < 0.5 else own
    exact = np.einsum("mij,ij->m", rows, np.asarray(truth.dense()))
    data = exact + noise * own * rng.standard_normal(count)
    wrong = rng.random(count) < rng.choice([0.0, 0.1, 0.3])
    gross = 10 * np.std(exact) * rng.standard_normal(count)
    if name == "second model":
        wrong = rng.random(count) < rng.uniform(0.35, 0.49)
        other = np.asarray(_point(rng, kind, shape, rank, name).dense())
        gross = np.einsum("mij,ij->m", rows, other) + noise * rng.standard_normal(count)
    data = np.where(wrong, gross, data)
    operator = lm.operators.SymmetricDense if kind == "psd" else lm.operators.Dense
    return data, operator((rows + rows.transpose(0, 2, 1)) / 2 if kind == "psd" else rows)


def _spoiled(rng, name, kind, shape, rank, truth, level) -> np.ndarray:
    exact = np.asarray(truth.dense())
    array = exact + level * np.std(exact) * rng.standard_normal(shape)
    wrong = rng.random(shape) < rng.choice([0.0, 0.05, 0.15])
    gross = 10 * np.std(exact) * rng.standard_normal(shape)
    if name == "second model":
        wrong = rng.random(shape) < rng.uniform(0.35, 0.49)
        gross = np.asarray(_point(rng, kind, shape, rank, name).dense())
        gross = gross + level * np.std(exact) * rng.standard_normal(shape)
    if name == "rolled columns":
        for column in rng.choice(shape[1], rng.integers(1, shape[1] // 2 + 1), replace=False):
            array[:, column] = np.roll(array[:, column], rng.integers(1, shape[0]))
    array = np.where(wrong, gross, array)
    array[rng.random(shape) > rng.choice([1.0, 0.8])] = np.nan
    return array


def summary(rows: list[dict]) -> list[dict]:
    """Claims that are wrong, of each class and kind."""
    lines = []
    for name in dict.fromkeys(row["kind"] for row in rows):
        some = [row for row in rows if row["kind"] == name]
        sure = [row for row in some if row["verdict"] in ("EXACT", "NOISE_LEVEL")]
        wrong = [
            row
            for row in sure
            if float(row["error"])
            > max(1e-3, 3 * float(row["expected"]) if row["verdict"] != "EXACT" else 0)
        ]
        lines.append(
            {
                "class": name,
                "instances": len(some),
                "sure": len(sure),
                "of these wrong": len(wrong),
                "largest error": f"{max((float(row['error']) for row in wrong), default=0):.1g}",
                "seconds, median": np.median([float(row["seconds"]) for row in some]),
            }
        )
    return lines
