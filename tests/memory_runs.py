"""Calls that need more memory than a process may have: run by test_memory_limits.py in one process.

python -m tests.memory_runs FILES          with the limits that the process has
python -m tests.memory_runs FILES limited  with a limit of its own on the address space
python -m tests.memory_runs FILES PROC GROUPS  with make-believe files of the system

FILES is a folder of files to read. A line per call: its name and what it says.
"""

import functools
import pathlib
import resource
import sys

import jax
import jax.numpy as jnp
import numpy as np

import lemmax as lm
from lemmax import _memory, estimators
from lemmax.cli._reading import read_table

# What a process may take beyond what it has when it is limited.
MORE = 1_500_000_000


def ones(*shape):
    """A read-only view of one number: it takes no memory itself."""
    return np.broadcast_to(np.float64(1), shape)


def squares(observations):
    curve = lm.maps.FromFunction(lambda x: x * x)
    return lm.Composite(lm.losses.L1(), curve, ones(observations))


def solved(observations, method, **options):
    return lm.solve(squares(observations), method, 2 * np.ones(observations), **options)


lmm = lm.methods.lmm()
CALLS = {
    "Dense": lambda: lm.operators.Dense(ones(400_000, 10, 100)),
    "SymmetricDense": lambda: lm.operators.SymmetricDense(ones(600_000, 30, 30)),
    "RankOne": lambda: lm.operators.RankOne(ones(400_000, 1000)),
    "data of a problem": lambda: squares(400_000_000),
    "solve, a Jacobian": lambda: solved(30_000, lm.methods.prox_linear()),
    "solve, a trace": lambda: solved(10, lmm, max_steps=300_000_000),
    "solve_many, a trace": lambda: lm.solve_many(
        [lm.Run(squares(10), lmm, 2 * np.ones(10))] * 2, max_steps=300_000_000
    ),
    "recover, a start": lambda: lm.recover(
        ones(9), lm.maps.PSD(20_000, 1), lm.operators.RankOne(np.eye(9, 20_000))
    ),
    "recover, a table": lambda: lm.recover(ones(4000, 4000), lm.maps.LowRank((4000, 4000), 2)),
    "RobustPCA": lambda: estimators.RobustPCA().fit(ones(200_000, 100)),
    "MatrixCompletion": lambda: estimators.MatrixCompletion().fit(ones(100_000, 100)),
    "CPDecomposition": lambda: estimators.CPDecomposition(2).fit(ones(200, 200, 400)),
    "NonnegativeRegression": lambda: estimators.NonnegativeRegression().fit(
        ones(800_000, 100), ones(800_000)
    ),
}


def main(files, *limits):
    jax.block_until_ready(jnp.ones(3) + 1)
    if limits == ("limited",):
        used = int(pathlib.Path("/proc/self/statm").read_text().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (used * resource.getpagesize() + MORE,) * 2)
    elif limits:
        system = map(pathlib.Path, limits)
        _memory.available_bytes = functools.partial(_memory.available_bytes, *system)
    reading = {p.suffix: functools.partial(read_table, p) for p in pathlib.Path(files).iterdir()}
    for name, call in {**CALLS, **reading}.items():
        try:
            call()
        except MemoryError as error:
            print(name, "|", error, flush=True)
        else:
            print(name, "|", "done", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
