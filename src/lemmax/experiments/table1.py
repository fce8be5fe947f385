"""The paper's Table 1, measured: which method converges how in which setting.

The paper ticks a method where a theorem promises local linear convergence at a rate set by h
alone. Here every method runs in every setting it accepts, and the trace tells.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

import lemmax as lm

from .instances import Instance, low_rank_sensing, psd_sensing

_SOLVED = 1e-12
_STEPS = 800


class Setting(NamedTuple):
    """A kind of problem; each is run with condition numbers 1 and 100."""

    symmetric: bool
    smooth: bool
    overparameterised: bool

    def __str__(self) -> str:
        shape = "symmetric" if self.symmetric else "asymmetric"
        loss = "smooth" if self.smooth else "nonsmooth"
        return f"{shape}, {loss}, {'over' if self.overparameterised else 'exact'}"

    def instance(self, seed: int, condition: float, dim: int = 40) -> Instance:
        """Sensing from a relative error of 1e-2, twice (four times) as many data as parameters."""
        rank = 5 if self.overparameterised else 2
        loss = lm.losses.SquaredL2() if self.smooth else lm.losses.L1()
        if self.symmetric:
            return psd_sensing(
                seed,
                dim=dim,
                rank=rank,
                measurements=2 * dim * rank,
                condition=condition,
                loss=loss,
            )
        return low_rank_sensing(
            seed,
            shape=(dim, dim),
            rank=rank,
            measurements=4 * dim * rank,
            condition=condition,
            loss=loss,
        )


SETTINGS = [
    Setting(symmetric, smooth, over)
    for symmetric in (True, False)
    for smooth in (True, False)
    for over in (False, True)
]


class Entry(NamedTuple):
    """A row of the paper's table: a method and its ticks."""

    name: str
    make: Callable[[], lm.methods.AbstractMethod]
    overparameterised: bool
    symmetric: bool
    asymmetric: bool
    smooth: bool
    nonsmooth: bool
    neighbourhood: bool = False
    """Whether the paper says that it converges only to a neighbourhood."""

    def ticked(self, setting: Setting) -> bool:
        """Whether the paper promises linear convergence in this setting."""
        return (
            (self.symmetric if setting.symmetric else self.asymmetric)
            and (self.smooth if setting.smooth else self.nonsmooth)
            and (self.overparameterised or not setting.overparameterised)
        )


ENTRIES = [
    Entry("ScaledGD", lm.methods.scaled_gd, False, True, True, True, False),
    Entry("ScaledGD(λ)", lm.methods.scaled_gd_damped, True, True, True, True, False, True),
    Entry("ScaledSM", lm.methods.scaled_subgradient, False, True, True, False, True),
    Entry("PrecGD", lm.methods.prec_gd, True, True, False, True, False),
    Entry("Asymmetric PrecGD", lm.methods.prec_gd_asymmetric, True, False, True, True, False),
    Entry("OPSA", lambda: lm.methods.rebalanced(lm.methods.opsa()), True, False, True, False, True),
    Entry("APGD", lm.methods.apgd, True, False, True, True, False),
    Entry("Approximated GN", lm.methods.approximate_gauss_newton, True, True, True, True, False),
    Entry("Gauss-Newton (GNP)", lm.methods.gauss_newton, False, True, True, True, True),
    Entry("LMM", lm.methods.lmm, True, True, True, True, True),
    # Not in the paper's table; what all of them are there to beat.
    Entry("Polyak subgradient", lm.methods.polyak_subgradient, False, False, False, False, False),
]


class Outcome(NamedTuple):
    """How one run converged."""

    kind: str
    """linear, neighbourhood, sublinear, diverges, or refused."""
    best: float
    """Smallest relative error."""
    rate: float
    """Factor per step, fitted where the error falls; NaN if it does not."""

    def __str__(self) -> str:
        return {
            "linear": f"✓ {self.rate:.3f}",
            "neighbourhood": f"floor {self.best:.0e}",
            "sublinear": f"✗ {self.best:.0e}",
            "diverges": "diverges",
            "refused": "-",
        }[self.kind]


def classify(error: np.ndarray) -> Outcome:
    """Name the convergence from the errors of a run, one per step."""
    finite = np.isfinite(error)
    best = float(np.min(error[finite]))
    if not finite.all() or error[-1] > 10 * error[0]:
        return Outcome("diverges", best, float("nan"))
    # Fit log(error) over the part of the run above twice its best, the start left out.
    falling = np.flatnonzero(error > max(2 * best, _SOLVED))
    last = falling[-1] + 1 if falling.size else 1
    fitted = np.arange(last // 5, last)
    slope = np.polyfit(fitted, np.log(error[fitted]), 1)[0] if fitted.size > 2 else float("nan")
    rate = float(np.exp(slope))
    if best <= _SOLVED:
        return Outcome("linear", best, rate)
    # A floor: the last quarter of the run brought nothing although the error had fallen far.
    late = error[-len(error) // 4 :]
    flat = np.min(late) > 0.5 * np.min(error[: -len(error) // 4])
    if flat and best < 1e-4 * error[0]:
        return Outcome("neighbourhood", best, rate)
    return Outcome("sublinear", best, rate)


class Cell(NamedTuple):
    """A method in a setting: the outcomes for both condition numbers, and the paper's tick."""

    method: str
    setting: Setting
    outcomes: dict[float, Outcome]
    ticked: bool
    neighbourhood: bool

    @property
    def linear(self) -> bool:
        """Whether both runs converged linearly (to a neighbourhood, if that is the claim)."""
        good = {"linear", "neighbourhood"} if self.neighbourhood else {"linear"}
        return all(outcome.kind in good for outcome in self.outcomes.values())

    @property
    def disagreement(self) -> str | None:
        """A sentence, where measurement and tick differ."""
        seen = ", ".join(f"κ={k:g}: {o}" for k, o in self.outcomes.items())
        if self.ticked and any(o.kind == "refused" for o in self.outcomes.values()):
            return f"{self.method} ({self.setting}): ticked, but its form here does not apply."
        if self.ticked and not self.linear:
            return f"{self.method} ({self.setting}): ticked, but measured {seen}."
        if not self.ticked and self.linear:
            return f"{self.method} ({self.setting}): not ticked, but converges linearly ({seen})."
        return None


def measure(
    seed: int = 0,
    dim: int = 40,
    steps: int = _STEPS,
    settings: Sequence[Setting] = SETTINGS,
) -> Iterator[Cell]:
    """Run every method in every setting, one setting after the other."""
    for setting in settings:
        outcomes: dict[str, dict[float, Outcome]] = {entry.name: {} for entry in ENTRIES}
        for condition in (1.0, 100.0):
            instance = setting.instance(seed, condition, dim)
            comparison = lm.compare(
                instance.problem,
                {entry.name: entry.make() for entry in ENTRIES},
                instance.x0,
                max_steps=steps,
                tol=0.0,
                metrics={"error": instance.error},
            )
            for name in outcomes:
                if name in comparison.refused:
                    outcome = Outcome("refused", float("nan"), float("nan"))
                else:
                    trace = comparison.results[name].trace
                    outcome = classify(np.asarray(trace.metrics["error"]))
                outcomes[name][condition] = outcome
        for entry in ENTRIES:
            yield Cell(
                entry.name,
                setting,
                outcomes[entry.name],
                entry.ticked(setting),
                entry.neighbourhood,
            )
