"""Ablation of `recover`: every rule switched off, one at a time, on seeds of their own.

    python -m benchmarks.ablation                  # all of them; names for some
    python -m benchmarks.ablation --seeds 2 "lower ranks"

For every variant: the number of correct certified answers, of wrong certified answers, and seconds
of CPU (with compilation, so that the first variant takes longer).
"""

import argparse
import contextlib
import functools
import itertools
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import numpy as np
from rich.console import Console
from rich.table import Table

import lemmax as lm
from lemmax._terms.unfolding import core_from_entries
from lemmax.recovery import (
    _certificate,
    _entries,
    _evidence,
    _pipeline,
    _propose,
    _refine,
    _rivals,
    _select,
)
from lemmax.recovery import _constants as constants
from lemmax.recovery._tangent import tangent_of_measurements

from . import _recover_challenges, _recover_honesty, _recover_maps
from ._recover_cases import row_of

FIRST_SEED = 1_330_000
KINDS = ("measurements", "tables", "tensors", "success map", "challenges")


def _patched(owner: object, name: str, value: object) -> Callable[[], object]:
    return lambda: mock.patch.object(owner, name, value)


def _lmm_alone(facts: Any, x: Any) -> list:
    return [_refine.LMM] if facts.robust else [None]


def _prox_linear_alone(facts: Any, x: Any) -> list:
    small = facts.robust and facts.has_small_jacobian(x)
    return [_refine.PROX_LINEAR] if small else _lmm_alone(facts, x)


def _without_test(name: str) -> Callable[[], object]:
    """Without one of the certificate's tests."""

    @contextlib.contextmanager
    def patched() -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            for group in ("QUICK_TESTS", "EXPENSIVE_TESTS"):
                kept = tuple(t for t in getattr(_certificate, group) if t.__name__ != name)
                stack.enter_context(mock.patch.object(_certificate, group, kept))
            yield

    return patched


def _with_all_columns(tensor: np.ndarray, lost: np.ndarray, rank: int, **options: Any) -> Any:
    return core_from_entries(tensor, np.zeros_like(lost), rank, **options)


_TESTS = [test.__name__ for test in (*_certificate.QUICK_TESTS, *_certificate.EXPENSIVE_TESTS)]
VARIANTS: dict[str, Callable[[], object]] = {
    "everything": contextlib.nullcontext,
    "LMM": _patched(_propose, "methods_for", _prox_linear_alone),
    "prox-linear steps": _patched(_propose, "methods_for", _lmm_alone),
    "lower ranks": _patched(_propose, "lower_ranks", lambda bound: []),
    "nested ranks": _patched(_pipeline, "nested_ranks", lambda sizes, superfluous: [len(sizes)]),
    "gaps first": _patched(constants, "GAP", np.inf),
    "exact unfolding": _patched(_entries.Array, "unfolded", lambda array: None),
    "rank of a table": _patched(_entries, "_best_rank", lambda facts, found: found.rank),
    "restarts": _patched(lm, "recover", functools.partial(lm.recover, restarts=0)),
    "factor model of a tensor": _patched(_entries.Array, "tensor", lambda array: None),
    "lost columns": _patched(_entries, "core_from_entries", _with_all_columns),
    "end near a solution": _patched(constants, "NEAR", 0.0),
    "largest Gaussian": _patched(_select, "largest_gaussian", lambda count: constants.BULK),
    "rivals by chance": _patched(_rivals, "_by_chance", lambda *_: 0.0),
    "F test": _patched(_certificate, "log_chance", lambda *_: -np.inf),
    "eight to spare": _patched(constants, "SPARE_OF_NOISE", 0),
    "terms that chance may explain": _patched(_evidence, "_unsettled", lambda *_: 0.0),
    "lone data": _patched(
        _evidence,
        "tangent_of_measurements",
        lambda *given: tangent_of_measurements(*given)._replace(lone=None),
    ),
    "own errors and lone data": _patched(
        _evidence,
        "tangent_of_measurements",
        lambda *given: tangent_of_measurements(*given[:4]),
    ),
    **{name.replace("_", " "): _without_test(name) for name in _TESTS},
}


def instances(seeds: int) -> Iterator[tuple[str, Callable[[], list[dict]]]]:
    """Honesty's and its challenges', by kind."""
    with mock.patch.object(_recover_honesty, "FIRST_SEED", FIRST_SEED):
        for number in range(20 * seeds):
            yield "measurements", functools.partial(_recover_honesty._judged_sensing, number)
        for kind, shapes in (
            ("tables", _recover_honesty.TABLES),
            ("tensors", _recover_honesty.TENSORS),
        ):
            for number in range(10 * seeds):
                yield (
                    kind,
                    functools.partial(_recover_honesty._judged_entries, number, kind, shapes),
                )
    with mock.patch.object(_recover_maps, "FIRST_SEED", FIRST_SEED):
        for sampling, rank in itertools.product((2, 4), (2, 5)):
            made = _recover_maps.instances(0, sampling, rank)
            for key in itertools.product((1.0, 100.0), (0.2, 0.4, 0.45)):
                yield "success map", functools.partial(_mapped, made[key])
    with mock.patch.object(_recover_challenges, "FIRST_SEED", FIRST_SEED):
        for task in itertools.islice(_recover_challenges.challenges(seeds), 15 * seeds):
            yield "challenges", task


def _mapped(instance: Any) -> list[dict]:
    problem = instance.problem
    found = lm.recover(problem.data, problem.map, problem.operator)
    row = row_of(found, instance.truth, level=0.0)
    return [row | {"expected": found.expected_error}]


def judged(row: dict) -> tuple[bool, bool]:
    """Whether an answer is right and called so, and whether it is a claim that is wrong."""
    sure, error = row["verdict"] in ("EXACT", "NOISE_LEVEL"), float(row["error"])
    bound = 1e-3 if row["verdict"] == "EXACT" else max(1e-3, 3 * float(row["expected"]))
    right = error <= max(1e-8, 2 * float(row["level"]))
    return sure and right, sure and error > bound


def measured(name: str, seeds: int, kinds: list[str]) -> dict[str, np.ndarray]:
    """Counts of right answers, of wrong claims, and seconds, for each kind."""
    found: dict[str, np.ndarray] = {}
    for kind, task in instances(seeds):
        if kind not in kinds:
            continue
        began = time.process_time()
        with VARIANTS[name]():
            (row,) = task()
        seconds = time.process_time() - began
        found[kind] = found.get(kind, np.zeros(3)) + np.array([*judged(row), seconds])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", help="variants; all if none is named")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    chosen = parser.parse_args()
    import jax

    jax.config.update("jax_enable_x64", True)
    table = Table(title="right and called so / wrong claims / seconds of CPU, by kind of instance")
    table.add_column("without")
    for kind in (kind for kind in KINDS if kind in chosen.kinds):
        table.add_column(kind)
    for name in chosen.names or VARIANTS:
        found = measured(name, chosen.seeds, chosen.kinds)
        cells = [" / ".join(f"{n:.0f}" for n in counts) for counts in found.values()]
        print(name, cells, flush=True, file=sys.stderr)
        table.add_row(name, *cells)
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
