"""What each rule and constant of `lm.fit` is worth: changed one at a time, on seeds of their own.

    python -m benchmarks.fit_ablation                       # all of them; names for some
    python -m benchmarks.fit_ablation --kinds random "hold-out test"

For every variant and kind of instance: fits that are right and called so / wrong by more than 5
standard errors and called right / seconds of CPU. A fit is right within 5 standard errors of least
squares on the inliers (NIST's problems, from the far start: within one).
"""

import argparse
import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from unittest import mock

import numpy as np

import lemmax as lm
from lemmax.fit import _constants as constants
from lemmax.fit import _refine, _search, _steps, _verdict, api

from .fit import distance, spoiled
from .fit_instances import FAMILIES, OTHERS, instance, other_instance
from .nist import problems

KINDS = ("nist 10 %", "nist 30 %", "random", "random far", "others", "beyond")
FIRST_SEED = 950_000


class Case(NamedTuple):
    """A fit with its best answer."""

    model: Callable
    y: np.ndarray
    start: np.ndarray
    sigma: np.ndarray | None
    best: lm.Fit
    limit: float
    """A fit is right if it is within so many standard errors of the best."""


def _set(**values: Any) -> Callable[[], contextlib.AbstractContextManager]:
    return lambda: mock.patch.multiple(constants, **values)


def _replaced(owner: object, name: str, value: Any) -> Callable:
    return lambda: mock.patch.object(owner, name, value)


def _straight(evaluate: Any, system: Any, lanes: Any, step: np.ndarray, *rest: Any) -> np.ndarray:
    return step


def _heavy_tails_alone(setting: Any, ended: Any, **options: Any) -> Any:
    return _refine.settle(setting, ended, np.ones(len(ended.x), bool), **options)


def _no_deep(setting: Any, ended: Any, *, deep: bool = False) -> Any:
    return _REFINE(setting, ended)


_REFINE = _refine.refine


@contextlib.contextmanager
def _one_settling() -> Iterator[None]:
    with (
        mock.patch.object(_refine, "settled", _heavy_tails_alone),
        mock.patch.object(_search, "settled", _heavy_tails_alone),
    ):
        yield


VARIANTS: dict[str, Callable[[], contextlib.AbstractContextManager]] = {
    "everything": contextlib.nullcontext,
    "geodesic acceleration": _replaced(_steps, "_bend", _straight),
    "Anderson acceleration": _set(NEAR=0.0),
    "plain least squares first": _replaced(_search, "plainly_right", lambda *given: False),
    "test of normality": _set(NORMAL=np.inf, ONE_CLUSTER=np.inf),
    "Gaussian tails first": _one_settling,
    "scales below the noise": _replaced(_search, "refine", _no_deep),
    "linear parameters": _replaced(
        _search, "linear_parameters", lambda setting, x: np.zeros(len(x), bool)
    ),
    "rounded data": _replaced(api, "_grain", lambda *given: 0.0),
    "reversed decisions": _replaced(_search, "neighbours", lambda setting, one, **rest: one),
    "rivals": _replaced(_verdict, "rivals", lambda *given: []),
    "subsets": _set(SUBSETS=1),
    "leverage in the search": _set(HIGH_LEVERAGE=2.0),
    "leverage in the verdict": _set(LEVERAGE=2.0),
    "correlation in the search": _set(WEAKLY_CORRELATED=np.inf),
    "residuals on a curve": _set(STRUCTURED=np.inf),
    "outliers on a curve": _set(RARE=0.0),
    "hold-out test": _replaced(_verdict, "_unpredicted", lambda *given: 0.0),
    "agreement by chance": _set(CHANCE=-np.inf),
    "better than a constant": _replaced(_verdict, "gain_needed", lambda n, p: -np.inf),
    "preference for inliers": _set(ODDS=0.0),
}


def cases(kind: str, count: int, first: int) -> Iterator[Case]:
    """Instances of a kind, with least squares on the inliers."""
    if kind.startswith("nist"):
        for problem in list(problems().values())[: max(count, 1)]:
            y, right = spoiled(problem, 0.1 if "10" in kind else 0.3, first)
            best = _best(problem.model, y, right, problem.parameters, None)
            yield Case(problem.model, y, problem.starts[0], None, best, 1.0)
        return
    for seed in range(first, first + count):
        if kind == "others":
            made = other_instance(OTHERS[seed % 6], seed)
        else:
            reach = 100.0 if kind == "random far" else 3.0
            share = 0.55 if kind == "beyond" else None
            made = instance(FAMILIES[seed % 7], seed, reach, share)
        best = _best(made.model, made.y, made.right, made.truth, made.sigma)
        if np.all(np.isfinite(best.standard_errors)):
            yield Case(made.model, made.y, made.start, made.sigma, best, 5.0)


def _best(model: Any, y: np.ndarray, right: np.ndarray, x: np.ndarray, sigma: Any) -> lm.Fit:
    alone, squares = np.where(right, y, np.nan), lm.losses.SquaredL2()
    return lm.fit(model, alone, x, loss=squares, sigma=sigma, starts=0)


def measured(names: list[str], kind: str, count: int, first: int) -> dict[str, np.ndarray]:
    """Counts of right and wrong answers that are called right, and seconds, of every variant."""
    found = {name: np.zeros(3) for name in names}
    for case in cases(kind, count, first):
        with contextlib.suppress(ValueError):  # the model is not finite at the start
            lm.fit(case.model, case.y, case.start, sigma=case.sigma)  # compiles
            for name in names:
                began = time.process_time()
                with VARIANTS[name]():
                    fitted = lm.fit(case.model, case.y, case.start, sigma=case.sigma)
                seconds = time.process_time() - began
                sure, off = fitted.status.succeeded, distance(fitted, case.best)
                found[name] += (sure and off <= case.limit, sure and off > 5, seconds)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="variants; all if none is named")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--count", type=int, default=60, help="instances, or NIST's problems")
    parser.add_argument("--first", type=int, default=FIRST_SEED, help="the first seed")
    parser.add_argument("--set", nargs="+", default=[], help="constants: NAME=value[,NAME=value]")
    chosen = parser.parse_args()
    for text in chosen.set:
        pairs = (pair.split("=") for pair in text.split(","))
        VARIANTS[text] = _set(**{name: type(getattr(constants, name))(v) for name, v in pairs})
    names = ["everything", *chosen.names, *chosen.set] if chosen.names or chosen.set else None
    for kind in chosen.kinds:
        for name, counts in measured(
            names or list(VARIANTS), kind, chosen.count, chosen.first
        ).items():
            print(f"{kind:10} {name:40} {counts[0]:4.0f} / {counts[1]:.0f} / {counts[2]:.1f}")
        print(flush=True)


if __name__ == "__main__":
    main()
