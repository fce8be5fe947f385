"""Common parts of sensing instances: Gaussian operators, data with outliers, a start."""

import math
from typing import Any, Literal

import numpy as np

import lemmax as lm
from lemmax._checks import check_kind, check_positive
from lemmax.operators.symmetric import distinct_entries

from ._parts import Instance, Streams, corrupt, perturb

OutlierLaw = Literal["noise", "signal"]


def gaussian(
    rng: np.random.Generator, measurements: int, shape: tuple[int, ...]
) -> lm.operators.Dense:
    """Arrays of independent N(0, 1/measurements) entries."""

    def fill(rows: np.ndarray) -> None:
        rng.standard_normal(out=rows)
        rows /= math.sqrt(measurements)

    return lm.operators.Dense.generate(measurements, shape, fill)


def symmetric_gaussian(
    rng: np.random.Generator, measurements: int, dim: int, order: int
) -> lm.operators.SymmetricDense:
    """The symmetric parts of such arrays: an entry of multiplicity k is a mean of k of them."""
    _, multiplicity = distinct_entries(dim, order)
    spread = 1.0 / np.sqrt(multiplicity * measurements)

    def fill(rows: np.ndarray) -> None:
        rng.standard_normal(out=rows)
        rows *= spread

    return lm.operators.SymmetricDense.generate(measurements, dim, fill, order)


def chosen_operator(
    operator: lm.operators.AbstractOperator | None,
    rng: np.random.Generator,
    measurements: int,
    shape: tuple[int, ...],
    *,
    symmetric: bool,
) -> lm.operators.AbstractOperator:
    """A new Gaussian operator, or the given one if it fits."""
    check_positive(measurements=measurements)
    if operator is None:
        if symmetric:
            return symmetric_gaussian(rng, measurements, shape[0], len(shape))
        return gaussian(rng, measurements, shape)
    kind = lm.operators.AbstractOperator
    check_kind("operator", operator, kind, "an operator, such as another instance's")
    if operator.point_shape != shape or operator.observation_shape != (measurements,):
        raise ValueError(
            f"The operator has observations of shape {operator.observation_shape} and points "
            f"of shape {operator.point_shape}; {measurements} observations of {shape} are needed."
        )
    return operator


def sensing(
    random: Streams,
    map: lm.maps.AbstractMap,
    solution: Any,
    truth: lm.points.KruskalPoint,
    operator: lm.operators.AbstractOperator,
    *,
    outliers: float,
    outlier_law: OutlierLaw,
    loss: lm.losses.AbstractLoss | None,
    start_error: float,
) -> Instance:
    """Measure the truth, corrupt some of the data, and start near the solution."""
    if outlier_law not in ("noise", "signal"):
        raise ValueError(f"outlier_law must be 'noise' or 'signal'; got {outlier_law!r}.")
    data = np.asarray(operator.measure(truth))
    wrong = None
    if outlier_law == "signal":
        # A symmetric operator only uses the entries with non-decreasing indices.
        other = lm.points.DensePoint(random.outliers.uniform(size=truth.shape))
        wrong = np.asarray(operator.measure(other))
    problem = lm.Composite(
        loss=lm.losses.L1() if loss is None else loss,
        map=map,
        operator=operator,
        data=corrupt(random.outliers, data, outliers, wrong=wrong),
    )
    return Instance(problem, perturb(random.start, map, solution, start_error), truth)
