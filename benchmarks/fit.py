"""`lm.fit` on NIST's problems, with and without wrong data, and on random ones.

``python -m benchmarks.fit nist`` for certified digits from both starts, ``mgh`` for the problems of
Moré, Garbow and Hillstrom, ``outliers`` with a tenth and three tenths of the data wrong, ``random``
for coverage of intervals, wrong and refused answers (``others``: on other families), ``beyond``
with more than half of the data wrong, and ``seconds`` beside scipy.
Many curves are measured by `benchmarks.fit_many`.
"""

import argparse
import contextlib
import sys
import time
from typing import Any, NamedTuple

import jax
import numpy as np
import scipy.optimize

import lemmax as lm

from .fit_instances import FAMILIES, OTHERS, Instance, instance, other_instance
from .mgh import cases
from .nist import Problem, problems


def digits(found: np.ndarray, certified: np.ndarray) -> float:
    """Least number of correct digits."""
    with np.errstate(divide="ignore"):
        return float(np.min(-np.log10(np.abs(found - certified) / np.abs(certified))))


def nist() -> int:
    """Certified parameters and standard deviations, default settings."""
    right = 0
    for problem in problems().values():
        for number, start in enumerate(problem.starts, 1):
            fitted = lm.fit(problem.model, problem.y, start)
            of_x = digits(fitted.x, problem.parameters)
            of_errors = digits(fitted.standard_errors, problem.deviations)
            good = of_x >= 6 and of_errors >= 4
            right += good
            print(
                f"{problem.name:9} {number} {of_x:5.1f} {of_errors:5.1f} {fitted.status.name:10} "
                f"{fitted.outlier_count} {fitted.seconds:.2f} s{'' if good else '  <--'}"
            )
    print(f"{right} of 54 to 6 digits of the parameters and 4 of their standard deviations")
    return 0 if right == 54 else 1


def mgh() -> int:
    """Known minima by least squares from the standard starts, and statuses that fit them."""
    broken = 0
    for case in cases():
        fitted = lm.fit(case.model, case.y, case.start, loss=lm.losses.SquaredL2())
        reached = float(np.sum(np.asarray(fitted.residual) ** 2))
        start = np.sum((np.asarray(case.model(case.start)) - case.y) ** 2)
        found = any(abs(reached - least) <= 1e-5 * least + 1e-20 * start for least in case.minima)
        # Neither equations without data to spare nor parameters that data do not tell are success.
        unsure = case.singular or len(case.y) == len(case.start)
        honest = not fitted.status.succeeded if unsure else found
        broken += not (found and honest)
        print(
            f"{case.name:28} {len(case.start):2} {len(case.y):2} {reached:11.5e} "
            f"{fitted.status.name:14} {fitted.seconds:.2f} s{'' if found and honest else '  <--'}",
            flush=True,
        )
    print(f"{len(cases()) - broken} of {len(cases())} at a known minimum with an honest status")
    return int(broken > 0)


def spoiled(problem: Problem, share: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Data of which a share was moved by five standard deviations of y, and which are right."""
    rng = np.random.default_rng([seed, list(problems()).index(problem.name)])
    n = len(problem.y)
    wrong = rng.choice(n, max(round(share * n), 1), replace=False)
    y = problem.y.copy()
    y[wrong] += 5 * np.std(problem.y) * rng.choice([-1.0, 1.0], len(wrong))
    right = np.ones(n, bool)
    right[wrong] = False
    return y, right


def distance(fitted: lm.Fit, best: lm.Fit) -> float:
    """Largest difference of parameters in standard errors; 0 for the same curve.

    Of parameters with the same curve as the best, such as those with two terms exchanged, the ones
    nearest to the fit count.
    """
    if _same_curve(fitted, best):
        return 0.0
    away = float(np.max(np.abs(fitted.x - best.x) / best.standard_errors))
    if away > 5:
        right = np.isfinite(best.residual)
        sigma = fitted.task.sigma
        twin = lm.fit(
            best.task.model,
            np.where(right, fitted.task.y, np.nan),
            fitted.x,
            loss=lm.losses.SquaredL2(),
            sigma=sigma,
            starts=0,
        )
        if _same_curve(twin, best):
            away = min(away, float(np.max(np.abs(fitted.x - twin.x) / twin.standard_errors)))
    return away


def _same_curve(one: lm.Fit, other: lm.Fit) -> bool:
    curve = np.asarray(one.residual) - np.asarray(other.residual)
    curve = curve[np.isfinite(curve)]
    rounding = 1e-14 * np.max(np.abs(other.task.y))
    return bool(np.sqrt(np.mean(curve**2)) <= 1e-3 * other.noise + rounding)


def outliers(seeds: int, first: int) -> int:
    """Beside least squares on the right data alone."""
    broken = 0
    for share, needed in ((0.1, 46), (0.3, 30)):
        for seed in range(first, first + seeds):
            near = wrong_and_sure = refused = 0
            for problem in problems().values():
                y, right = spoiled(problem, share, seed)
                alone = np.where(right, y, np.nan)
                best = lm.fit(
                    problem.model, alone, problem.parameters, loss=lm.losses.SquaredL2(), starts=0
                )
                for number, start in enumerate(problem.starts, 1):
                    fitted = lm.fit(problem.model, y, start)
                    off = distance(fitted, best)
                    near += off <= 1
                    wrong_and_sure += off > 5 and fitted.status.succeeded
                    refused += off <= 1 and not fitted.status.succeeded
                    if off > 5 and fitted.status.succeeded:
                        print(f"  {problem.name} {number}: {off:.1e} standard errors off and sure")
            print(
                f"{share:.0%} wrong, seed {seed}: {near} of 54 within a standard error, "
                f"{wrong_and_sure} wrong and sure, {refused} right and refused",
                flush=True,
            )
            broken += near < needed or wrong_and_sure > 0
    return broken


def random_instances(count: int, first: int, draw: Any) -> int:
    """Coverage of 95 % intervals; wrong answers with success; right ones refused.

    Least squares on the inliers, told which these are, is fitted to the same instances: the
    difference of coverages has a much smaller sampling error than either of them.
    """
    wrong_and_sure = right = refused = 0
    rows: list[Coverage] = []
    for seed in range(first, first + count):
        case = draw(seed)
        try:
            fitted = lm.fit(case.model, case.y, case.start, sigma=case.sigma)
        except ValueError as error:  # far starts at which the model is not finite
            print(f"  {case.family} {seed}: {error}", flush=True)
            continue
        told = lm.fit(
            case.model,
            np.where(case.right, case.y, np.nan),
            case.truth,
            loss=lm.losses.SquaredL2(),
            sigma=case.sigma,
            starts=0,
        )
        off = float("inf")
        if np.all(np.isfinite(told.standard_errors)) and fitted.x.size:
            off = distance(fitted, told)
        sure = fitted.status.succeeded
        if sure:
            rows.append(coverage(case, fitted, told))
        correct = off <= 5
        right += correct
        refused += correct and not sure
        wrong_and_sure += sure and not correct
        if (correct and not sure) or (sure and not correct):
            print(
                f"  {case.family} {seed}: {off:.1e} standard errors off, {fitted.status.name}, "
                f"{case.wrong:.0%} wrong of {case.y.size}, start {case.reach:g}; "
                f"{'; '.join(fitted.objections)}",
                flush=True,
            )
    print_coverage(rows)
    covered, intervals = sum(row.covered for row in rows), sum(row.intervals for row in rows)
    print(
        f"{count} instances: {right} right, {refused} of them refused "
        f"({refused / max(right, 1):.1%}), {wrong_and_sure} wrong and sure; "
        f"intervals of 95 % cover {covered / max(intervals, 1):.1%} of {intervals}"
    )
    return int(wrong_and_sure > 0 or refused > 0.05 * right)


class Coverage(NamedTuple):
    """How many of the 95 % intervals of an instance cover the truth."""

    family: str
    wrong: str
    """Share of outliers, as a class."""
    data: str
    """Number of data, as a class."""
    missed: bool
    """Whether the fit keeps an outlier."""
    trimmed: bool
    """Whether it leaves out an inlier."""
    intervals: int
    covered: int
    told: int
    """The number that least squares covers if it is told the inliers."""


def coverage(case: Instance, fitted: lm.Fit, told: lm.Fit) -> Coverage:
    """Compare intervals with the truth, or with other parameters that have its curve."""

    def covered(one: lm.Fit) -> int:
        x = nearest_twin(case, one.x)
        low, high = one.interval(0.95)
        return int(np.sum((x >= low) & (x <= high)))

    share, n = case.wrong, case.y.size
    return Coverage(
        family=case.family.split(",")[0],
        wrong="none" if share == 0 else "below 20 %" if share < 0.2 else "20 % or more",
        data="below 60" if n < 60 else "below 120" if n < 120 else "120 or more",
        missed=bool(np.any(fitted.right & ~case.right)),
        trimmed=bool(np.any(case.right & ~fitted.right)),
        intervals=case.truth.size,
        covered=covered(fitted),
        told=covered(told),
    )


def nearest_twin(case: Instance, x: np.ndarray) -> np.ndarray:
    """Parameters with the curve of the truth, near x: terms exchanged, another phase or sign."""
    with jax.enable_x64(True):
        curve = np.asarray(case.model(case.truth))
    same = lm.fit(case.model, curve, x, loss=lm.losses.SquaredL2(), sigma=case.sigma, starts=0)
    off = np.max(np.abs(np.asarray(same.residual)))
    return same.x if off <= 1e-9 * np.ptp(curve) else case.truth


def print_coverage(rows: list[Coverage]) -> None:
    """Coverage by each property of the instances; in brackets, if the inliers are known."""
    for name in Coverage._fields[:-3]:
        for value in sorted({getattr(row, name) for row in rows}):
            some = [row for row in rows if getattr(row, name) == value]
            total = max(sum(row.intervals for row in some), 1)
            ours, told = sum(row.covered for row in some), sum(row.told for row in some)
            print(
                f"  {name} {value}: {len(some)} instances, {ours / total:.1%} of {total} "
                f"({told / total:.1%})"
            )
    # Intervals of one instance are not independent: the error is that of sums over instances.
    total = max(sum(row.intervals for row in rows), 1)
    for name, counts in (
        ("fits", [row.covered for row in rows]),
        ("inliers known", [row.told for row in rows]),
    ):
        share = sum(counts) / total
        parts = [k - share * row.intervals for k, row in zip(counts, rows, strict=True)]
        print(f"  {name}: {share:.1%} +- {np.linalg.norm(parts) / total:.1%}")


def seconds() -> int:
    """Warm fits beside scipy's, both from the first start, with the same Jacobian."""
    ratios: list[float] = []
    for problem in problems().values():
        for start in problem.starts:
            with jax.enable_x64(True):
                both = jax.jit(lambda b, model=problem.model: (model(b), jax.jacfwd(model)(b)))

                def residual(b: Any, both=both, y=problem.y) -> np.ndarray:
                    return np.asarray(both(b)[0]) - y

                def jacobian(b: Any, both=both) -> np.ndarray:
                    return np.asarray(both(b)[1])

                residual(start)
                ours = _shortest(lambda p=problem, s=start: lm.fit(p.model, p.y, s))
                theirs = _shortest(
                    lambda r=residual, j=jacobian, s=start: scipy.optimize.least_squares(
                        r, s, jac=j, x_scale="jac", max_nfev=1000
                    )
                )
            ratios.append(ours / theirs)
            print(f"{problem.name:9} {ours * 1e3:7.1f} ms, scipy {theirs * 1e3:7.1f} ms")
    print(f"ratio to scipy: median {np.median(ratios):.1f}, largest {np.max(ratios):.1f}")
    return int(np.median(ratios) > 5)


def _shortest(run: Any, times: int = 7) -> float:
    """The shortest time of several: the machine may be busy."""
    run()
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        # scipy does not bear what is not finite.
        with np.errstate(all="ignore"), contextlib.suppress(ValueError):
            run()
        taken.append(time.perf_counter() - began)
    return min(taken)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "what",
        choices=["nist", "mgh", "outliers", "random", "others", "beyond", "seconds"],
    )
    parser.add_argument("--count", type=int, default=500, help="random instances")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--reach", type=float, default=3.0, help="how far random starts are")
    parser.add_argument("--seeds", type=int, default=1, help="choices of wrong data")
    parser.add_argument("--share", type=float, default=0.6, help="of wrong data, beyond half")
    chosen = parser.parse_args()
    count, first, reach = chosen.count, chosen.first, chosen.reach
    runs = {
        "nist": nist,
        "mgh": mgh,
        "outliers": lambda: outliers(chosen.seeds, first),
        "random": lambda: random_instances(
            count, first, lambda seed: instance(FAMILIES[seed % 7], seed, reach)
        ),
        "others": lambda: random_instances(
            count, first, lambda seed: other_instance(OTHERS[seed % 6], seed, reach)
        ),
        "beyond": lambda: random_instances(
            count, first, lambda seed: instance(FAMILIES[seed % 7], seed, reach, chosen.share)
        ),
        "seconds": seconds,
    }
    return runs[chosen.what]()


if __name__ == "__main__":
    sys.exit(main())
