"""Violations of the theory along a run, found from arrays with one entry per step."""

import dataclasses
from typing import Any

import numpy as np

from .one_step import OneStep
from .predict import Prediction
from .trajectory import Trajectory

RELATIVE = 1e-9
"""Relative rounding allowance in comparisons along a run."""


@dataclasses.dataclass(frozen=True)
class Violation:
    """A conclusion or hypothesis of a theorem that did not hold at one step."""

    step: int
    kind: str
    """``start``, ``damping``, ``length`` (hypotheses), or ``rate``, ``progress``,
    ``linearisation``, ``movement``, ``distance`` (conclusions)."""
    message: str


def broken_steps(steps: OneStep, count: int) -> list[Violation]:
    """Violated conclusions of Proposition 4.2 and Lemmas 3.1(3) and B.10."""
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
    """Where the start, the damping or the lengths violate the theorem's hypotheses."""
    found = []
    if errors.size and errors[0] > prediction.radius * (1 + RELATIVE):
        message = f"the start has error {errors[0]:.6g}, more than {prediction.radius:.6g}"
        found.append(_assumed(prediction, 0, "start", message))
    count = min(errors.size, dampings.size)
    if prediction.damping_range is not None:
        low, high = prediction.damping_range
        ratios = dampings[:count] / errors[:count]
        # Damping and error come from objective and point, which round differently.
        apart = 1 + 1e-6 + slack / errors[:count]
        for k in np.flatnonzero(~((ratios >= low / apart) & (ratios <= high * apart))):
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
        for k in np.flatnonzero(~(np.abs(taken[:count] / wanted - 1) <= 1e-6)):
            message = f"the {kind} is {taken[k]:.6g}, not {wanted[k]:.6g}"
            found.append(_assumed(prediction, k, kind, message))
    return found


def broken_lengths(
    prediction: Prediction,
    errors: np.ndarray,
    lengths: np.ndarray,
    values: np.ndarray,
    assumed: list[Violation],
) -> list[Violation]:
    """Steps of a trace whose gamma was certainly too large.

    A trace has no denominator. But if the other hypotheses hold, ``<P v, z - z*>`` is at least
    three quarters of the gap, so every denominator is at least ``(3/4 gap / e)^2``. Local theorems
    also need x to be near x*, which a trace does not show.
    """
    if prediction.configuration != "polyak" or prediction.alignment.local:
        return []
    count = min(errors.size, lengths.size)
    gaps = np.maximum(values[:count] - prediction.target, 0)
    least = 9 / 16 * lengths[:count] * gaps / errors[:count] ** 2
    spoken = errors[:count] <= prediction.radius
    spoken[[violation.step for violation in assumed if violation.kind == "damping"]] = False
    return [
        _assumed(
            prediction,
            k,
            "length",
            f"gamma is at least {least[k]:.6g}, more than {prediction.scale:.6g}",
        )
        for k in np.flatnonzero(spoken & (least > prediction.scale * (1 + 1e-6)))
    ]


def broken_choices(prediction: Prediction, run: Trajectory, tolerance: float) -> list[Violation]:
    """A Polyak step whose denominator, target or gamma differs from the theorem's."""
    scale, denominator, target = run.scale, run.denominator, run.target
    if prediction.configuration != "polyak":
        return []
    if scale is None or denominator is None:
        message = "the steps are not Polyak steps"
    elif denominator is not prediction.denominator:
        message = (
            f"the denominators differ: the run divides by {_name(denominator)}, the prediction "
            f"uses {_name(prediction.denominator)}; pass the run's denominator to predict"
        )
    elif target is not None and abs(target - prediction.target) > tolerance:
        message = (
            f"the target is {target:.6g}, but the value at the truth is {prediction.target:.6g}"
        )
    elif scale > prediction.scale * (1 + 1e-6):
        message = f"gamma is {scale:.6g}, more than {prediction.scale:.6g}"
    else:
        return []
    return [_assumed(prediction, 0, "length", message)]


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
    """Where the predicted bound is exceeded, and the largest ratio to it."""
    if not errors.size:
        return [], float("nan")
    bounds = prediction.bound(np.arange(errors.size), float(errors[0]))
    found = [
        Violation(int(k), "rate", _exceeds(prediction.theorem, errors[k], bounds[k]))
        for k in np.flatnonzero(~(errors <= bounds * (1 + RELATIVE) + slack))
    ]
    return found, float(np.max(errors / bounds))


def too_far(prediction: Prediction, distances: np.ndarray) -> list[Violation]:
    """Local theorems: x must start within epsilon/2 of x*."""
    near = prediction.parameter_radius
    if not distances[0] > near:
        return []
    message = f"the distance of x0 from the truth is {distances[0]:.6g}, more than {near:.6g}"
    return [_assumed(prediction, 0, "start", message)]


def broken_distance(prediction: Prediction, distances: np.ndarray) -> list[Violation]:
    """Local theorems: x must stay within epsilon of x*."""
    bound = 2 * prediction.parameter_radius
    return [
        Violation(int(k), "distance", _exceeds(prediction.theorem, distances[k], bound))
        for k in np.flatnonzero(distances > bound)
    ]


def _name(function: Any) -> str:
    return getattr(function, "__name__", repr(function))


def _assumed(prediction: Prediction, step: Any, kind: str, message: str) -> Violation:
    return Violation(int(step), kind, f"{prediction.theorem} does not apply: {message}.")


def _exceeds(source: str, number: Any, bound: Any) -> str:
    return f"{source}: {float(number):.6g} exceeds {float(bound):.6g}."
