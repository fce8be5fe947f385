"""Watching a run (trace, stopping rules, callback, progress bar) costs next to nothing."""

import contextlib
import os
import sys
import threading
from collections.abc import Iterator
from unittest import mock

import equinox as eqx
import jax
import jax.numpy as jnp

import lemmax as lm
from lemmax.experiments.instances import Instance, psd_sensing

from .measure import Row, interleave, seconds_of_first_call

BOUND = 1.05
_EVERY = 50
_ROUNDS = 11


def rows() -> Iterator[Row]:
    yield from _rows(
        "PSD, d=100, r=5, m=1000", psd_sensing(0, dim=100, rank=5, measurements=1000), steps=500
    )


def _rows(name: str, instance: Instance, steps: int) -> Iterator[Row]:
    problem, x0, method = instance.problem, jnp.asarray(instance.x0), lm.methods.lmm()
    seen = []

    def bare() -> None:
        jax.block_until_ready(bare_loop(problem, method, x0, jnp.asarray(steps)))

    def quiet() -> None:
        lm.solve(problem, method, x0, tol=0, max_steps=steps)

    def watched() -> None:
        with terminal_that_nobody_reads():
            lm.solve(
                problem,
                method,
                x0,
                tol=0,
                max_steps=steps,
                callback=lambda snapshot: seen.append(snapshot.value),
                every=_EVERY,
                progress=True,
            )

    compile_bare, compile_solve = seconds_of_first_call(bare), seconds_of_first_call(quiet)
    timings = interleave({"bare": bare, "quiet": quiet, "watched": watched}, _ROUNDS)
    assert len(seen) == (_ROUNDS + 1) * (steps // _EVERY), "The callback was not called."
    seconds = {job: timings.typical(job) for job in timings.seconds}

    looking = timings.ratio("watched", "quiet")
    yield Row(
        what=f"solve with callback every {_EVERY} steps and progress bar / without, {name}",
        measured=str(looking),
        bound=f"<= {BOUND}x",
        passes=looking.median <= BOUND,
        absolute=f"{seconds['watched']:.3f} s and {seconds['quiet']:.3f} s for {steps} steps",
    )
    everything = timings.ratio("watched", "bare")
    yield Row(
        what="the same with trace and stopping rules too / bare compiled loop of evaluate and step",
        measured=str(everything),
        bound=f"<= {BOUND}x",
        passes=everything.median <= BOUND,
        absolute=(
            f"{seconds['watched']:.3f} s and {seconds['bare']:.3f} s for {steps} steps; compile "
            f"{compile_solve - seconds['quiet']:.1f} s and {compile_bare - seconds['bare']:.1f} s "
            "apart"
        ),
    )


@eqx.filter_jit
def bare_loop(
    problem: lm.Composite, method: lm.methods.AbstractMethod, x: jax.Array, steps: jax.Array
) -> jax.Array:
    """What one would write by hand: no trace, no status, no best point."""

    def move(_, state):
        x, method_state = state
        step, method_state = method.step(problem, problem.evaluate(x), method_state)
        return step.x, method_state

    return jax.lax.fori_loop(0, steps, move, (x, method.init(problem, x)))[0]


@contextlib.contextmanager
def terminal_that_nobody_reads() -> Iterator[None]:
    """A pseudo-terminal as stderr: into a file or to /dev/null, rich would not draw at all."""
    master, slave = os.openpty()

    def drain() -> None:
        # Reading fails once the other end is closed.
        with contextlib.suppress(OSError):
            while os.read(master, 4096):
                pass

    drainer = threading.Thread(target=drain, daemon=True)
    drainer.start()
    with (
        os.fdopen(slave, "w") as terminal,
        mock.patch.object(sys, "stderr", terminal),
        mock.patch.dict(os.environ, {"TERM": "xterm-256color", "COLUMNS": "100"}),
    ):
        yield
    drainer.join()
    os.close(master)
