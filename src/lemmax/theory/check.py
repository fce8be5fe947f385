"""A whole run held against the theorems, step by step."""

import dataclasses

import jax
import numpy as np

from .._typing import Parameters
from ..problem import Composite
from ..solve import Result
from ._truths import at_truth
from ._verdicts import (
    Violation,
    broken_distance,
    broken_hypotheses,
    broken_progress,
    broken_rate,
    broken_steps,
)
from .measure import require_concrete
from .one_step import ROUNDING_UNITS
from .predict import Prediction
from .trajectory import Trajectory, errors_along, every_step

# Errors below this many times the rounding level say nothing any more.
_FLOOR = 100


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The outcome of `check`; true if nothing was violated."""

    violations: list[Violation]
    steps: int
    """Steps that were checked: those above the level of rounding."""
    worst_ratio: float
    """Largest error divided by its bound; NaN without a prediction."""

    def __bool__(self) -> bool:
        return not self.violations

    @property
    def kinds(self) -> set[str]:
        """Which kinds of violation there were."""
        return {violation.kind for violation in self.violations}

    def __str__(self) -> str:
        if not self.violations:
            return f"All of {self.steps} steps kept to the theory."
        first = self.violations[0]
        return f"{len(self.violations)} violations; the first at step {first.step}: {first.message}"


def check(
    run: Result | Trajectory,
    problem: Composite,
    truth: Parameters,
    prediction: Prediction | None = None,
    *,
    lipschitz: float | None = None,
) -> Verdict:
    """Hold a run against a prediction, and every Polyak step against Proposition 4.2.

    Parameters
    ----------
    run : Result or Trajectory
        A result needs the metric ``"error"``, a `lemmax.metrics.RelativeError` of the truth: its
        trace has no iterates, so only its rate, its damping and the bound of Proposition 4.2
        are checked. A trajectory from `follow` is checked in full.
    problem : Composite
        The problem.
    truth : array or pytree of arrays
        Parameters of the truth.
    prediction : Prediction, optional
        From `predict`.
    lipschitz : float, optional
        Lipschitz constant of the Jacobian, if the map's is not known.

    Returns
    -------
    Verdict

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import lemmax as lm
    >>> x_true = jnp.array([2.0, 1.0, 0.0])
    >>> problem = lm.Composite(lm.losses.L2(), lm.maps.Square(3), x_true**2)
    >>> prediction = lm.theory.predict(problem, x_true)
    >>> run = lm.theory.follow(
    ...     problem, prediction.method(), jnp.array([2.05, 0.95, 0.2]), max_steps=20)
    >>> print(lm.theory.check(run, problem, x_true, prediction))
    All of 20 steps kept to the theory.
    """
    require_concrete((problem, truth), "check")
    _, _, size = at_truth(problem, truth)
    dtype = np.asarray(jax.tree.leaves(truth)[0]).dtype
    rounding = ROUNDING_UNITS * float(np.finfo(dtype).eps) * size
    if isinstance(run, Trajectory):
        errors = errors_along(problem, run.iterates, truth)
        dampings, lengths, values = run.dampings, run.lengths, run.values
    else:
        errors = _traced_errors(run) * size
        columns = (run.trace.damping, run.trace.step, run.trace.value)
        dampings, lengths, values = (np.asarray(column) for column in columns)
    alive = ~(errors <= _FLOOR * rounding)  # an error that is not a number is no small one
    count = len(errors) if alive.all() else int(np.argmin(alive))
    errors = errors[:count]
    checked = min(count, len(alive) - 1)
    found = []
    if isinstance(run, Trajectory) and run.denominator is not None:
        found += broken_steps(every_step(problem, run, truth, lipschitz), checked)
    worst = float("nan")
    if prediction is not None:
        found += broken_hypotheses(
            prediction, errors, dampings[:checked], lengths[:checked], rounding
        )
        if isinstance(run, Trajectory):
            found += _broken_choices(prediction, run)
            found += broken_distance(prediction, _distances(run.iterates, truth)[: checked + 1])
        else:
            found += broken_progress(prediction, errors, lengths, values, rounding)
        too_slow, worst = broken_rate(prediction, errors, rounding)
        found += too_slow
    return Verdict(sorted(found, key=lambda violation: violation.step), checked, worst)


def _traced_errors(run: Result) -> np.ndarray:
    if "error" not in run.trace.metrics:
        raise ValueError(
            "check needs the errors of the run: solve with "
            "metrics={'error': lm.metrics.RelativeError(truth)}, or use theory.follow."
        )
    return np.asarray(run.trace.metrics["error"])[: int(run.steps) + 1]


def _broken_choices(prediction: Prediction, run: Trajectory) -> list[Violation]:
    """A Polyak step with another denominator or a larger gamma than the theorem allows."""
    if prediction.configuration != "polyak":
        return []
    if run.scale is None or run.denominator is not prediction.denominator:
        message = "the steps are not Polyak steps with the denominator of the prediction"
    elif run.scale > prediction.scale * (1 + 1e-6):
        message = f"gamma is {run.scale:.6g}, more than {prediction.scale:.6g}"
    else:
        return []
    return [Violation(0, "length", f"{prediction.theorem} does not apply: {message}.")]


def _distances(iterates: Parameters, truth: Parameters) -> np.ndarray:
    squares = [
        np.sum((np.asarray(u) - np.asarray(t)) ** 2, axis=tuple(range(1, np.ndim(u))))
        for u, t in zip(jax.tree.leaves(iterates), jax.tree.leaves(truth), strict=True)
    ]
    return np.sqrt(np.sum(squares, axis=0))
