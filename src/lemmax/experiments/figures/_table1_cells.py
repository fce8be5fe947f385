"""Rows and columns of the paper's Table 1, and the classification of convergence."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

import lemmax as lm

from ..instances import Instance, low_rank_sensing, psd_sensing

_SOLVED = 1e-12


class Setting(NamedTuple):
    """A type of problem; each is run with condition numbers 1 and 100."""

    symmetric: bool
    smooth: bool
    overparameterised: bool

    def __str__(self) -> str:
        shape = "symmetric" if self.symmetric else "asymmetric"
        loss = "smooth" if self.smooth else "nonsmooth"
        return f"{shape}, {loss}, {'over' if self.overparameterised else 'exact'}"

    def instance(self, seed: int, condition: float, dim: int) -> Instance:
        """Sensing from a relative error of 1e-2, two (four) times as many data as parameters."""
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
    """Whether the paper claims convergence only to a neighbourhood."""
    remark: str = ""
    in_paper: bool = True

    def ticked(self, setting: Setting) -> bool:
        """Whether the paper claims linear convergence in this setting."""
        return (
            (self.symmetric if setting.symmetric else self.asymmetric)
            and (self.smooth if setting.smooth else self.nonsmooth)
            and (self.overparameterised or not setting.overparameterised)
        )


ENTRIES = [
    Entry("ScaledGD", lm.methods.scaled_gd, False, True, True, True, False),
    Entry(
        "ScaledGD(λ)",
        lm.methods.scaled_gd_damped,
        True,
        True,
        True,
        True,
        False,
        neighbourhood=True,
        remark="The asymmetric form is an extension; the original is for symmetric matrices.",
    ),
    Entry("ScaledSM", lm.methods.scaled_subgradient, False, True, True, False, True),
    Entry("PrecGD", lm.methods.prec_gd, True, True, False, True, False),
    Entry("Asymmetric PrecGD", lm.methods.prec_gd_asymmetric, True, False, True, True, False),
    Entry("OPSA", lambda: lm.methods.rebalanced(lm.methods.opsa()), True, False, True, False, True),
    Entry("APGD", lm.methods.apgd, True, False, True, True, False),
    Entry("Approximated GN", lm.methods.approximate_gauss_newton, True, True, True, True, False),
    Entry("Gauss-Newton (GNP)", lm.methods.gauss_newton, False, True, True, True, True),
    Entry("LMM", lm.methods.lmm, True, True, True, True, True),
    # Not in the paper's table; the baseline of all methods.
    Entry(
        "Polyak subgradient",
        lm.methods.polyak_subgradient,
        False,
        False,
        False,
        False,
        False,
        in_paper=False,
    ),
]


class Outcome(NamedTuple):
    """How one run converged."""

    kind: str
    """linear, neighbourhood, sublinear, diverges, or refused."""
    best: float
    """Smallest relative error."""
    rate: float
    """Factor per step, fitted while the error falls; NaN if it does not."""

    def __str__(self) -> str:
        return {
            "linear": f"✓ {self.rate:.3f}",
            "neighbourhood": f"floor {self.best:.0e}",
            "sublinear": f"✗ {self.best:.0e}",
            "diverges": "diverges",
            "refused": "-",
        }[self.kind]


def classify(error: np.ndarray) -> Outcome:
    """Classify the convergence of a run by its errors, one per step."""
    finite = np.isfinite(error)
    best = float(np.min(error[finite]))
    if not finite.all() or error[-1] > 10 * error[0]:
        return Outcome("diverges", best, float("nan"))
    # Fit log(error) over the part of the run above twice its minimum, without the start.
    falling = np.flatnonzero(error > max(2 * best, _SOLVED))
    last = falling[-1] + 1 if falling.size else 1
    fitted = np.arange(last // 5, last)
    slope = np.polyfit(fitted, np.log(error[fitted]), 1)[0] if fitted.size > 2 else float("nan")
    rate = float(np.exp(slope))
    if best <= _SOLVED:
        return Outcome("linear", best, rate)
    # A floor: the error fell far and then slowed down, to less than a quarter of its rate.
    if best < 1e-4 * error[0] and _late_slope(error) > 0.25 * _early_slope(error):
        return Outcome("neighbourhood", best, rate)
    return Outcome("sublinear", best, rate)


def _early_slope(error: np.ndarray) -> float:
    """Slope of log(error) per step, over the first half of the decrease."""
    middle = np.sqrt(error[0] * np.min(error))
    steps = int(np.flatnonzero(error <= middle)[0])
    return float(np.log(error[steps] / error[0]) / steps)


def _late_slope(error: np.ndarray) -> float:
    """Slope of log(error) per step, from the best before the last quarter to the best in it."""
    quarter = len(error) // 4
    return float(np.log(np.min(error[-quarter:]) / np.min(error[:-quarter])) / quarter)


class Cell(NamedTuple):
    """A method in a setting: the outcomes for each condition number, and the paper's tick."""

    entry: Entry
    setting: Setting
    outcomes: dict[float, Outcome]

    @property
    def ticked(self) -> bool:
        """Whether the paper claims linear convergence here."""
        return self.entry.ticked(self.setting)

    @property
    def refused(self) -> bool:
        """Whether the method does not apply to this setting."""
        return any(outcome.kind == "refused" for outcome in self.outcomes.values())

    @property
    def linear(self) -> bool:
        """Whether all runs converged linearly, to a neighbourhood if that is the claim."""
        return self.is_near if self.entry.neighbourhood else self._all_of("linear")

    @property
    def is_near(self) -> bool:
        """Whether all runs converged linearly at least to a neighbourhood."""
        return self._all_of("linear", "neighbourhood")

    def _all_of(self, *kinds: str) -> bool:
        return all(outcome.kind in kinds for outcome in self.outcomes.values())

    def __str__(self) -> str:
        return " / ".join(dict.fromkeys(str(outcome) for outcome in self.outcomes.values()))
