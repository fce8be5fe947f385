"""Calls of compiled programs on several cores.

JAX's CPU backend runs calls of one program one after another, even if they are begun together. From
threads of their own they run at the same time, since a running program does not hold Python's lock.
"""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import numpy as np

from .._dtype import x64_context


class Program:
    """A function that is compiled for arrays of given shapes, once for each, then called.

    Compilation is a step of its own, because JAX's settings that are set by a context manager, such
    as the default device, hold in one thread only: the caller's.
    """

    def __init__(self, function: Callable):
        self._jitted = jax.jit(function)
        self._compiled: dict[Any, Callable] = {}

    def compiled(self, *args: Any) -> Callable:
        """The compiled function for arguments like these."""
        leaves, structure = jax.tree.flatten(args)
        key = structure, tuple((np.shape(leaf), leaf.dtype.str) for leaf in leaves)
        if key not in self._compiled:
            self._compiled[key] = self._jitted.lower(*args).compile()
        return self._compiled[key]


def side_by_side(
    program: Program,
    calls: Iterable[tuple],
    after: Callable[[int, Any], Any] = lambda number, result: result,
) -> list[Any]:
    """Results of a program as NumPy arrays, for each of several tuples of arguments.

    Or what a function makes of the number of a call and of its result, on as many cores.
    """
    calls = list(calls)
    if not calls:
        return []
    ready = [program.compiled(*args) for args in calls]

    def run(number: int, compiled: Callable, args: tuple) -> Any:
        with x64_context():
            # Waiting here, since np.asarray would hold Python's lock while it waits.
            result = jax.tree.map(np.asarray, jax.block_until_ready(compiled(*args)))
        return after(number, result)

    threads = min(len(calls), _cores())
    if threads == 1:
        return list(map(run, range(len(calls)), ready, calls))
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(run, range(len(calls)), ready, calls))


def _cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
