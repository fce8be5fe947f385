"""The appendix's claim: about ten conjugate-gradient iterations compute the preconditioner.

LMM on the problems of figures 3, 4 and 7, with the damped system solved by a number of iterations
or in closed form; and on the same problems with a truth of rank 10 instead of 2.
"""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

import lemmax as lm

from ..harness import (
    Claim,
    Experiment,
    Facts,
    Job,
    Lane,
    Outcome,
    Settings,
    Summary,
    Table,
    Watch,
    error_of,
    part_of,
    run,
    run_together,
    steps_to,
)
from ..instances import (
    Instance,
    cp_factorisation,
    matrix_sensing,
    symmetric_cp_factorisation,
)
from ._cg_drawing import CLOSED, SOLVED, SYMMETRIC, draw

ASYMMETRIC = "asymmetric"
_KINDS = (SYMMETRIC, ASYMMETRIC)
_SHORT = {SYMMETRIC: "sym.", ASYMMETRIC: "asym."}
_PAPERS_RANK = 2
_COMMON = {"conditions": [1.0, 100.0], "start_error": 1e-2, "iterations": [1, 3, 10, 30, 100]}
# Problems: number of the figure, type, dimension, rank of the truth, rank of the fit.
SETTINGS = {
    "full": {
        **_COMMON,
        "steps": 1000,
        "problems": [
            *([figure, kind, 100, 2, r] for figure in (3, 4) for kind in _KINDS for r in (2, 5)),
            *([7, kind, 500, 2, r] for kind in _KINDS for r in (2, 5)),
            *([3, kind, 100, 10, r] for kind in _KINDS for r in (10, 13)),
            *([7, kind, 500, 10, r] for kind in _KINDS for r in (10, 13)),
        ],
        "products": [[100, 5], [400, 5], [100, 20]],
        "timed": True,
    },
    # Compilation dominates the time, so there are few programs.
    "quick": {
        **_COMMON,
        "steps": 400,
        "problems": [
            [3, ASYMMETRIC, 20, 2, 5],
            [4, ASYMMETRIC, 20, 2, 5],
            [7, SYMMETRIC, 20, 2, 5],
            [7, SYMMETRIC, 20, 8, 11],
        ],
        "products": [[20, 3], [80, 3]],
        "timed": False,
    },
}
_LOSSES = {3: lm.losses.SquaredL2(), 4: lm.losses.L1(), 7: lm.losses.L2()}
_DAMPINGS = {
    3: lm.damping.ProportionalToRootGap(2.5e-3),
    4: lm.damping.ProportionalToGap(1e-3),
    7: lm.damping.ProportionalToGap(1e-3),
}
_STEPS = {3: lm.steps.Polyak(), 4: lm.steps.Polyak(), 7: lm.steps.Polyak(scale=0.5)}
_MAPS = {
    "x∘x": lambda d, r: lm.maps.Square(d),
    "XXᵀ": lambda d, r: lm.maps.PSD(d, r),
    "XYᵀ": lambda d, r: lm.maps.LowRank((d, d), r),
    "symmetric CP": lambda d, r: lm.maps.SymmetricCP(d, r),
    "CP": lambda d, r: lm.maps.CP((d, d, d), r),
}
# Factor that counts as equally fast: draws of one setting differ by some 20 %.
_AS_FAST = 1.5
_PLACE = ("figure", "kind", "true_rank", "rank", "condition")


def jobs(settings: Settings, seed: int) -> list[Job]:
    """One for each problem, and one that counts the flops of products with J'J + damping."""
    return [
        *(_job(settings, seed, *problem) for problem in settings["problems"]),
        Job("products", lambda watch: Outcome(Table({}), _flops(settings["products"]))),
    ]


def _job(
    settings: Settings, seed: int, figure: int, kind: str, dim: int, true_rank: int, rank: int
) -> Job:
    numbers = [*settings["iterations"], CLOSED]
    labels = {"figure": figure, "kind": kind, "dim": dim, "true_rank": true_rank, "rank": rank}

    def work(watch: Watch) -> Outcome:
        lanes, operator = [], None
        for condition in settings["conditions"]:
            common = {
                "rank": rank,
                "true_rank": true_rank,
                "condition": condition,
                "loss": _LOSSES[figure],
                "start_error": settings["start_error"],
            }
            instance = _instance(figure, kind, seed, dim, operator, common)
            operator = instance.problem.operator
            for number in numbers:
                lanes.append(
                    Lane(
                        {**labels, "condition": condition, "iterations": number},
                        instance,
                        _method(figure, number),
                    )
                )
        results = _results(watch, figure, lanes, settings["steps"])
        rows = [{**x.labels, **_row(r)} for x, r in zip(lanes, results, strict=True)]
        facts = _times(lanes[-len(numbers) :]) if settings["timed"] else {}
        return Outcome(Table.from_rows(rows), facts)

    return Job(f"fig{figure}-{kind}-d={dim}-truth={true_rank}-r={rank}", work)


def _instance(
    figure: int, kind: str, seed: int, dim: int, operator: Any, common: dict[str, Any]
) -> Instance:
    if figure != 7:
        return matrix_sensing(kind == SYMMETRIC, seed, dim=dim, operator=operator, **common)
    if kind == SYMMETRIC:
        return symmetric_cp_factorisation(seed, dim=dim, **common)
    return cp_factorisation(seed, dims=(dim,) * 3, **common)


def _method(figure: int, number: int) -> lm.methods.AbstractMethod:
    solver = None if number == CLOSED else lm.methods.preconditioners.TruncatedCG(number)
    return lm.methods.lmm(_STEPS[figure], _DAMPINGS[figure], solver)


def _results(watch: Watch, figure: int, lanes: Sequence[Lane], steps: int) -> list[lm.Result]:
    """In one program if they share measurements."""
    if figure != 7:
        return run_together(watch, lanes, steps)
    # A slow run may use all its steps; a fast one ends at rounding errors.
    patient = lm.Stopping(window=steps)
    return [
        run(
            part_of(watch, k, len(lanes)),
            lane.instance,
            lane.method,
            steps,
            tol=1e-11,
            stopping=patient,
        )
        for k, lane in enumerate(lanes)
    ]


def _row(result: lm.Result) -> dict[str, Any]:
    """Steps to 1e-10 (-1: never), the smallest error, and the mean number of inner iterations."""
    error, inner = error_of(result), np.asarray(result.trace.iterations)
    steps = steps_to(error, SOLVED)
    return {
        "steps": -1 if steps is None else steps,
        "error": float(np.nanmin(error)),
        "taken": float(np.mean(inner[inner >= 0])),
    }


def _times(lanes: Sequence[Lane]) -> dict[str, float]:
    """Seconds per step of each method alone: the best of four consecutive runs."""
    best: dict[str, float] = {}
    for _ in range(4):
        for lane in lanes:
            problem, x0 = lane.instance.problem, lane.instance.x0
            result = lm.solve(problem, lane.method, x0, max_steps=20, tol=0.0)
            name = str(lane.labels["iterations"])
            best[name] = min(best.get(name, np.inf), result.seconds / max(int(result.steps), 1))
    return best


def _flops(sizes: Sequence[Sequence[int]]) -> dict[str, Any]:
    """Flops of a compiled product by map and size, and the count in the appendix."""
    found = {}
    for name, make in _MAPS.items():
        for dim, rank in sizes:
            map_ = make(dim, rank)
            x = jax.tree.map(np.ones, map_.parameter_shapes, is_leaf=_is_shape)
            rows = sum(leaf.shape[0] for leaf in jax.tree.leaves(x))
            count = rows if name == "x∘x" else rows * rank**2
            found[f"{name} {dim} {rank}"] = [_flops_of_a_product(map_, x), count]
    return found


def _is_shape(thing: Any) -> bool:
    return isinstance(thing, tuple) and all(isinstance(size, int) for size in thing)


def _flops_of_a_product(map_: lm.maps.AbstractMap, x: Any) -> float:
    def product(x: Any, damping: Any, y: Any) -> Any:
        return jax.tree.map(lambda image, y: image + damping * y, map_.gram(x, y), y)

    counted = jax.jit(product).lower(x, 0.1, x).compile().cost_analysis()
    return counted["flops"] if counted else float("nan")


def _ratios(table: Table, number: int) -> dict[tuple[Any, ...], float]:
    """LMM iterations to 1e-10 by setting, relative to the closed form; infinite if never."""
    closed = dict(table.where(iterations=CLOSED).groups(*_PLACE))
    found = {}
    for key, rows in table.where(iterations=number).groups(*_PLACE):
        steps, wanted = rows.column("steps")[0], closed[key].column("steps")[0]
        found[key] = steps / max(wanted, 1) if steps >= 0 else np.inf
    return found


def _as_fast(table: Table, number: int) -> bool:
    ratios = _ratios(table, number)
    return bool(ratios) and bool(max(ratios.values()) <= _AS_FAST)


def _told(table: Table, number: int) -> str:
    """In how many settings 1e-10 is reached, and how fast."""
    ratios = _ratios(table, number)
    there = [ratio for ratio in ratios.values() if ratio < np.inf]
    said = f"{number}: 1e-10 in {len(there)} of {len(ratios)} settings"
    return said + (f", {min(there):.2f} to {max(there):.2f} times" if there else "")


def claims(table: Table, facts: Facts) -> list[Claim]:
    """The appendix's claims, and their dependence on the rank of the truth."""
    papers = table.where(true_rank=_PAPERS_RANK)
    numbers = [number for number in table.unique("iterations") if number != CLOSED]
    wider = Table.concatenate(
        [table.where(true_rank=r) for r in table.unique("true_rank") if r != _PAPERS_RANK]
    )
    return [
        Claim(
            "Around ten iterations of conjugate gradients suffice for fast convergence of LMM.",
            _as_fast(papers, 10),
            "In the settings of figures 3, 4 and 7, by CG iterations, and LMM iterations relative "
            f"to the closed form: {'; '.join(_told(papers, n) for n in numbers)}.",
            correction="Ten suffice at the exact rank. With superfluous columns thirty do; with "
            "ten some runs stall.",
            correction_holds=_as_fast(_at_rank(papers, exact=True), 10) and _as_fast(papers, 30),
        ),
        Claim(
            "(Ours.) Ten are enough because the truth has rank 2: more are needed for an "
            "ill-conditioned truth of higher rank, if the rank is over-estimated.",
            not _as_fast(wider, 10) and _as_fast(wider, 100),
            f"With a truth of rank {max(table.unique('true_rank'))}: "
            f"{'; '.join(_told(wider, n) for n in numbers)}.",
        ),
        _cost(facts),
        *_closed_form_costs_little(facts),
    ]


def _at_rank(table: Table, *, exact: bool) -> Table:
    chosen = [rows for (t, r), rows in table.groups("true_rank", "rank") if (t == r) == exact]
    return Table.concatenate(chosen) if chosen else table.where(rank=-1)


def _cost(facts: Facts) -> Claim:
    """Whether flops per d r² (or d) are constant as the sizes grow."""
    constants: dict[str, list[float]] = {}
    for key, (flops, count) in facts["products"].items():
        constants.setdefault(key.rsplit(" ", 2)[0], []).append(flops / count)
    return Claim(
        "A product with JᵀJ + λ takes O(d) flops for x∘x, and O(d r²), d the rows of all factors, "
        "for the others.",
        all(max(found) <= 1.25 * min(found) for found in constants.values()),
        "Flops of the compiled product over that count: "
        + "; ".join(f"{name} {min(c):.1f} to {max(c):.1f}" for name, c in constants.items())
        + ". The printed formulas have 8 in leading order, and 5 for x∘x.",
    )


def _closed_form_costs_little(facts: Facts) -> list[Claim]:
    timed = [job for job in facts.values() if str(CLOSED) in job]
    if not timed:
        return []
    ten, hundred = ([job[n] / job[str(CLOSED)] for job in timed] for n in ("10", "100"))
    return [
        Claim(
            "(Ours.) A step with the closed form takes about as long as one with ten iterations.",
            bool(0.5 <= np.median(ten) <= 2),
            f"Time per step over that of the closed form: with at most 10 iterations "
            f"{min(ten):.2f} to {max(ten):.2f} (median {np.median(ten):.2f}), with at most 100 "
            f"{min(hundred):.2f} to {max(hundred):.2f} (median {np.median(hundred):.2f}).",
        )
    ]


def summaries(table: Table) -> list[Summary]:
    """LMM iterations to 1e-10, or the smallest error."""
    numbers = table.unique("iterations")
    rows = []
    for (figure, kind, true_rank, rank, condition), runs in table.groups(*_PLACE):
        row = [str(figure), _SHORT[kind], f"{rank} ({true_rank})", f"{condition:g}"]
        for number in numbers:
            (found,) = runs.where(iterations=number).rows()
            row.append(str(found["steps"]) if found["steps"] >= 0 else f"({found['error']:.0e})")
        rows.append(row)
    header = ["fig.", "kind", "rank", "κ", *("closed" if n == CLOSED else f"{n}" for n in numbers)]
    remark = (
        "In brackets: after the rank that of the truth; in the other columns the smallest error of "
        "a run that does not get there."
    )
    return [Summary("LMM iterations to 1e-10 by CG iterations in a step", header, rows, remark)]


EXPERIMENT = Experiment(
    "cg",
    "Appendix: the preconditioner by conjugate gradients",
    minutes=11,
    settings=SETTINGS,
    jobs=jobs,
    claims=claims,
    draw=draw,
    summaries=summaries,
)
