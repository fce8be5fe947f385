"""What can be wrong with a run, found from arrays with one entry per step."""

import dataclasses
from typing import Any

import numpy as np

from .one_step import OneStep
from .predict import Prediction

RELATIVE = 1e-9
"""Relative rounding allowance in comparisons along a run."""


@dataclasses.dataclass(frozen=True)
class Violation:
    """Something that is proved, or assumed in the proof, and did not hold at one step."""

    step: int
    kind: str
    """``start``, ``damping``, ``length``, ``rate``, ``progress``, ``linearisation`` or
    ``movement``: the first three are hypotheses, the others conclusions."""
    message: str


def broken_steps(steps: OneStep, count: int) -> list[Violation]:
    """The conclusions of Proposition 4.2 and of Lemmas 3.1(3) and B.10."""
    held = np.asarray(steps.hypotheses_held)
    wrong = {
        "progress": (held & ~np.asarray(steps.progress_held), "Proposition 4.2"),
        "linearisation": (~np.asarray(steps.linearisation_held), "Lemma 3.1(3)"),
        "movement": (held & ~np.asarray(steps.movement_held), "Lemma B.10"),
    }
    numbers = {
        "progress": (steps.error_after, steps.progress_bound),
        "linearisation": (steps.linearisation_error, steps.linearisation_bound),
        "movement": (steps.movement, steps.movement_bound),
    }
    return [
        Violation(
            int(k),
            kind,
            f"{source}: {float(numbers[kind][0][k]):.6g} exceeds {float(numbers[kind][1][k]):.6g}.",
        )
        for kind, (mask, source) in wrong.items()
        for k in np.flatnonzero(mask[:count])
    ]


def broken_hypotheses(
    prediction: Prediction,
    errors: np.ndarray,
    dampings: np.ndarray,
    lengths: np.ndarray,
    slack: float,
) -> list[Violation]:
    """Where the start, the damping or the lengths are not what the theorem asks for."""
    found = []
    if errors.size and errors[0] > prediction.radius * (1 + RELATIVE):
        message = f"the start has error {errors[0]:.6g}, more than {prediction.radius:.6g}"
        found.append(_assumed(prediction, 0, "start", message))
    count = min(errors.size, dampings.size)
    if prediction.damping_range is not None:
        low, high = prediction.damping_range
        ratios = dampings[:count] / errors[:count]
        # The damping is read off the objective and the error off the point: they round apart.
        apart = 1 + 1e-6 + slack / errors[:count]
        for k in np.flatnonzero((ratios < low / apart) | (ratios > high * apart)):
            message = f"damping is {ratios[k]:.6g} times the error, outside [{low:.6g}, {high:.6g}]"
            found.append(_assumed(prediction, k, "damping", message))
        return found
    assert prediction.initial_damping is not None
    shrunk = prediction.contraction ** np.arange(count)
    constant = prediction.configuration == "constant"
    asked = {
        "damping": (dampings, prediction.initial_damping * shrunk),
        "length": (lengths, prediction.scale * (np.ones(count) if constant else shrunk)),
    }
    for kind, (taken, wanted) in asked.items():
        for k in np.flatnonzero(np.abs(taken[:count] / wanted - 1) > 1e-6):
            message = f"the {kind} is {taken[k]:.6g}, not {wanted[k]:.6g}"
            found.append(_assumed(prediction, k, kind, message))
    return found


def broken_progress(
    prediction: Prediction,
    errors: np.ndarray,
    lengths: np.ndarray,
    values: np.ndarray,
    slack: float,
) -> list[Violation]:
    """Proposition 4.2 from a trace: ``gamma/8 gap^2/denominator`` is ``length * gap / 8``."""
    if prediction.configuration != "polyak" or errors.size < 2:
        return []
    count = errors.size - 1
    gaps = np.maximum(values[:count] - prediction.target, 0)
    squares = errors[:-1] ** 2 - lengths[:count] * gaps / 8
    bounds = np.sqrt(np.maximum(squares, 0)) + slack
    return [
        Violation(int(k), "progress", _exceeds("Proposition 4.2", errors[k + 1], bounds[k]))
        for k in np.flatnonzero(~(errors[1:] <= bounds))
    ]


def broken_rate(
    prediction: Prediction, errors: np.ndarray, slack: float
) -> tuple[list[Violation], float]:
    """Where the promised bound is exceeded, and the largest ratio to it."""
    if not errors.size:
        return [], 0.0
    bounds = prediction.bound(np.arange(errors.size), float(errors[0]))
    found = [
        Violation(int(k), "rate", _exceeds(prediction.theorem, errors[k], bounds[k]))
        for k in np.flatnonzero(~(errors <= bounds * (1 + RELATIVE) + slack))
    ]
    return found, float(np.max(errors / bounds))


def broken_distance(prediction: Prediction, distances: np.ndarray) -> list[Violation]:
    """Local theorems: x starts within epsilon/2 of x* and stays within epsilon."""
    near = prediction.parameter_radius
    found = []
    if distances[0] > near:
        message = f"x0 is {distances[0]:.6g} away from the truth, more than {near:.6g}"
        found.append(_assumed(prediction, 0, "start", message))
    return found + [
        Violation(int(k), "distance", _exceeds(prediction.theorem, distances[k], 2 * near))
        for k in np.flatnonzero(distances > 2 * near)
    ]


def _assumed(prediction: Prediction, step: Any, kind: str, message: str) -> Violation:
    return Violation(int(step), kind, f"{prediction.theorem} does not apply: {message}.")


def _exceeds(source: str, number: Any, bound: Any) -> str:
    return f"{source}: {float(number):.6g} exceeds {float(bound):.6g}."
