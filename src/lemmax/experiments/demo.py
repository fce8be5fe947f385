"""The main job in miniature: three contests of three methods, one picture."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import lemmax as lm

from .instances import Instance, psd_factorisation, psd_sensing

ERROR = "relative error"
Watch = Callable[[str, lm.Snapshot], Any]


class Contest(NamedTuple):
    """Several methods on one instance."""

    title: str
    remark: str
    instance: Instance
    methods: dict[str, lm.methods.AbstractMethod]
    max_steps: int


def introduction(seed: int) -> Contest:
    """The paper's introductory example: one column too many."""
    return Contest(
        title="Factorisation, one column too many",
        remark="50 x 50, rank 2 fitted with rank 3, everything observed, random start.",
        instance=psd_factorisation(seed, dim=50, rank=3),
        methods=_exact_methods(),
        max_steps=50,
    )


def rank_loss(seed: int) -> Contest:
    """The same, from a start next to where the Jacobian loses rank.

    The paper's figure shows Gauss-Newton diverging. It does not from most starts; it does when
    the superfluous singular value is far below the root of the error.
    """
    return Contest(
        title="The same, next to rank loss",
        remark=(
            "The start's superfluous singular value is scaled by 1e-8: almost exactly "
            "parameterised, which is easy for the subgradient method; Gauss-Newton jumps far away "
            "before it comes back."
        ),
        instance=psd_factorisation(seed, dim=50, rank=3, redundant_scale=1e-8),
        methods=_exact_methods(),
        max_steps=50,
    )


def _exact_methods() -> dict[str, lm.methods.AbstractMethod]:
    return {
        "LMM": lm.methods.lmm(),
        "Gauss-Newton": lm.methods.gauss_newton(),
        "subgradient": lm.methods.polyak_subgradient(),
    }


def robust_sensing(seed: int) -> Contest:
    """Rank over-estimated, ill-conditioned, a fifth of the data grossly wrong.

    The minimum value is unknown, so nobody can take Polyak's steps: they shrink geometrically.
    The plain subgradient method gets the best first step of a grid.
    """
    instance = psd_sensing(seed, dim=30, rank=5, measurements=1500, condition=100.0, outliers=0.2)
    decay = 0.97
    steps = lm.steps.Geometric(1e-4, decay)
    return Contest(
        title="Robust sensing, 20 % gross outliers",
        remark=(
            "30 x 30, rank 2 fitted with rank 5, condition number 100, 1500 measurements of which "
            "300 are wrong by ten times their size. Steps shrink by 0.97; the subgradient method "
            "gets the best first step of a grid."
        ),
        instance=instance,
        methods={
            "LMM": lm.methods.lmm(steps, lm.damping.Geometric(1e-5, decay)),
            "Gauss-Newton": lm.methods.gauss_newton(steps),
            "subgradient": _best_subgradient(instance, decay),
        },
        max_steps=800,
    )


def _best_subgradient(instance: Instance, decay: float) -> lm.methods.AbstractMethod:
    def final_error(initial: float) -> float:
        method = lm.methods.subgradient(lm.steps.Geometric(initial, decay))
        result = lm.solve(
            instance.problem,
            method,
            instance.x0,
            max_steps=300,
            tol=0.0,
            metrics={ERROR: instance.error},
        )
        return float(result.trace.metrics[ERROR][-1])

    best = min((10.0**-k for k in range(1, 7)), key=final_error)
    return lm.methods.subgradient(lm.steps.Geometric(best, decay))


def run(contest: Contest, watch: Watch) -> Iterator[tuple[str, lm.Result]]:
    """Run every method for all its steps; the watcher is told between them."""
    for name, method in contest.methods.items():
        result = lm.solve(
            contest.instance.problem,
            method,
            contest.instance.x0,
            max_steps=contest.max_steps,
            tol=0.0,
            metrics={ERROR: contest.instance.error},
            callback=lambda snapshot, name=name: watch(name, snapshot),
            every=10,
        )
        yield name, result


def picture(outcomes: dict[str, dict[str, lm.Result]]) -> Any:
    """One panel per contest: relative error against steps. Returns a matplotlib Figure."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.8 * len(outcomes), 4.0), layout="constrained")
    for k, (title, results) in enumerate(outcomes.items()):
        ax = figure.add_subplot(1, len(outcomes), k + 1)
        lm.plots.convergence(results, metric=ERROR, ax=ax)
        ax.set_title(title)
        ax.set_ylim(1e-16, 1e4)
    return figure


CONTESTS = (introduction, rank_loss, robust_sensing)
