"""Check of a whole run against the theorems, step by step."""

import dataclasses

import jax
import numpy as np

from .._typing import Parameters
from ..methods.steps import damped_norm, projected_norm, range_norm
from ..problem import Composite
from ..solve import Result
from ._parameters import as_parameters
from ._truths import AtTruth, require_fit
from ._verdicts import (
    Violation,
    broken_choices,
    broken_distance,
    broken_hypotheses,
    broken_lengths,
    broken_progress,
    broken_rate,
    broken_steps,
    too_far,
)
from .measure import require_concrete
from .one_step import ROUNDING_UNITS
from .predict import Prediction
from .trajectory import Trajectory, errors_along, every_step

_DENOMINATORS = (range_norm, damped_norm, projected_norm)

# Errors below this multiple of the rounding level are ignored.
_FLOOR = 100


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The outcome of `check`; true if something was tested and nothing was violated."""

    violations: list[Violation]
    steps: int
    """Steps with an error above rounding level."""
    worst_ratio: float
    """Largest ratio of an error to its bound while the hypotheses held; NaN if they never did, or
    without a prediction."""
    tested: int = 0
    """Steps to which a theorem or Proposition 4.2 applied, and whose outcome was compared."""
    unmet: int = 0
    """Steps at which the hypotheses failed."""
    notes: tuple[str, ...] = ()
    """What could not be checked."""

    def __bool__(self) -> bool:
        return self.tested > 0 and not self.violations

    @property
    def kinds(self) -> set[str]:
        """The kinds of violations."""
        return {violation.kind for violation in self.violations}

    def __str__(self) -> str:
        return " ".join([self._outcome(), *self.notes])

    def _outcome(self) -> str:
        if self.violations:
            first, count = self.violations[0], len(self.violations)
            many = f"{count} violations; the first" if count > 1 else "1 violation,"
            return f"{many} at step {first.step}: {first.message}"
        if not self.steps:
            return "Nothing could be checked: no step has an error above rounding level."
        if not self.tested:
            why = f": hypotheses failed at all of {self.steps} steps" if self.unmet else ""
            return f"Nothing could be checked{why}."
        if self.tested == self.steps:
            return f"All {self.steps} steps agree with the theory."
        return (
            f"{self.tested} of {self.steps} steps could be checked and agree with the theory; at "
            f"{self.unmet} its hypotheses failed."
        )


def check(
    run: Result | Trajectory,
    problem: Composite,
    truth: Parameters,
    prediction: Prediction | None = None,
    *,
    lipschitz: float | None = None,
) -> Verdict:
    """Check a run against a prediction, and every Polyak step against Proposition 4.2.

    Parameters
    ----------
    run : Result or Trajectory
        A result needs a prediction and the metric ``"error"``, a `lemmax.metrics.RelativeError`
        of the truth. Its trace has no iterates, so only the rate, the damping and the bound of
        Proposition 4.2 are checked. Gamma is assumed to be small enough unless the lengths show
        that it is far too large. A trajectory from `follow` is checked in full.
    problem : Composite
        The problem.
    truth : array, pytree of arrays or KruskalPoint
        Parameters of the truth, which must fit the data.
    prediction : Prediction, optional
        The result of `predict`. Without it, only Proposition 4.2 and Lemmas 3.1(3) and B.10 are
        checked.
    lipschitz : float, optional
        Lipschitz constant of the Jacobian, if that of the map is not known.

    Returns
    -------
    Verdict
        Conclusions are compared only where the checked hypotheses held.

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
    All 20 steps agree with the theory.
    """
    require_concrete((problem, truth), "check")
    truth = as_parameters(problem.map, truth, "the truth")
    there = require_fit(problem, truth)
    dtype = np.asarray(jax.tree.leaves(truth)[0]).dtype
    rounding = ROUNDING_UNITS * float(np.finfo(dtype).eps) * there.size
    if isinstance(run, Trajectory):
        errors = errors_along(problem, run.iterates, truth)
        dampings, lengths, values = run.dampings, run.lengths, run.values
    else:
        errors = _traced_errors(run) * there.size
        columns = (run.trace.damping, run.trace.step, run.trace.value)
        dampings, lengths, values = (np.asarray(column) for column in columns)
    alive = ~(errors <= _FLOOR * rounding)  # NaN counts as large
    count = len(errors) if alive.all() else int(np.argmin(alive))
    errors = errors[:count]
    steps = min(count, len(alive) - 1)
    dampings, lengths = dampings[:steps], lengths[:steps]
    found: list[Violation] = []
    notes: tuple[str, ...] = ()
    tested = np.zeros(steps, bool)
    examined, worst = False, float("nan")
    if isinstance(run, Trajectory) and run.denominator in _DENOMINATORS:
        each = every_step(problem, run, truth, lipschitz)
        found += broken_steps(each, steps)
        tested |= np.asarray(each.hypotheses_held)[:steps]
        examined = True
        spoken = np.isfinite(each.linearisation_bound[:steps])
        if np.any(spoken & ~tested):
            notes = (_LEMMA.format(int(np.sum(spoken))),)
    elif prediction is None:
        notes = (_NO_PREDICTION if isinstance(run, Trajectory) else _RESULT_ALONE,)
    if prediction is not None:
        _require_same_truth(prediction, there)
        assumed = broken_hypotheses(prediction, errors, dampings, lengths, rounding)
        distances = None
        if isinstance(run, Trajectory):
            distances = _distances(run.iterates, truth)[: steps + 1]
            assumed += broken_choices(prediction, run, there.tolerance)
            assumed += too_far(prediction, distances)
        else:
            assumed += broken_lengths(prediction, errors, lengths, values, assumed)
            if prediction.configuration == "polyak":
                notes = (_NO_GAMMA.format(prediction.scale),)
        # The prediction covers the iterates up to the first violated hypothesis.
        kept = min((violation.step for violation in assumed), default=steps)
        found += assumed
        if kept:
            too_slow, worst = broken_rate(prediction, errors[: kept + 1], rounding)
            found += too_slow
            if distances is None:
                found += broken_progress(prediction, errors[: kept + 1], lengths, values, rounding)
            else:
                found += broken_distance(prediction, distances[: kept + 1])
        tested[:kept] = True
        examined = True
    return Verdict(
        sorted(found, key=lambda violation: violation.step),
        steps,
        worst,
        tested=int(np.sum(tested)),
        unmet=int(np.sum(~tested)) if examined else 0,
        notes=notes,
    )


_NO_PREDICTION = (
    "Without a prediction only Polyak steps with a denominator of lemmax.steps are checked."
)
_RESULT_ALONE = "A Result can only be checked against a prediction: pass one, or use theory.follow."
_LEMMA = "Lemma 3.1(3), which only needs a positive damping, was checked at {} steps."
_NO_GAMMA = (
    "A Result does not contain gamma or x: gamma is only checked to be not far above {:.6g}; "
    "theory.follow checks it exactly."
)


def _require_same_truth(prediction: Prediction, there: AtTruth) -> None:
    allowed = there.tolerance + 1e-6 * abs(prediction.target)
    if abs(there.value - prediction.target) > allowed:
        raise ValueError(
            f"The prediction is for another problem or truth: its value at the truth is "
            f"{prediction.target:.6g}, but here it is {there.value:.6g}."
        )


def _traced_errors(run: Result) -> np.ndarray:
    if "error" not in run.trace.metrics:
        raise ValueError(
            "check needs the errors of the run: solve with "
            "metrics={'error': lm.metrics.RelativeError(truth)}, or use theory.follow."
        )
    return np.asarray(run.trace.metrics["error"])[: int(run.steps) + 1]


def _distances(iterates: Parameters, truth: Parameters) -> np.ndarray:
    squares = [
        np.sum((np.asarray(u) - np.asarray(t)) ** 2, axis=tuple(range(1, np.ndim(u))))
        for u, t in zip(jax.tree.leaves(iterates), jax.tree.leaves(truth), strict=True)
    ]
    return np.sqrt(np.sum(squares, axis=0))
