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

from .measure import Row, Timings, interleave, seconds_of_first_call

BOUND = 1.05
_EVERY = 50
_ROUNDS = 9


def rows() -> Iterator[Row]:
    instance = psd_sensing(0, dim=100, rank=5, measurements=1000)
    yield from _rows("PSD, d=100, r=5, m=1000", instance, steps=600, bounded=True)
    # Steps of 30 microseconds: here the calls themselves show.
    instance = psd_sensing(0, dim=20, rank=5, measurements=200)
    yield from _rows("PSD, d=20, r=5, m=200", instance, steps=5000, bounded=False)


def _rows(name: str, instance: Instance, steps: int, bounded: bool) -> Iterator[Row]:
    problem, x0, method = instance.problem, jnp.asarray(instance.x0), lm.methods.lmm()
    seen = []

    def bare(steps: int = steps) -> None:
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

    compile_bare = seconds_of_first_call(lambda: bare(steps=0))
    compile_solve = lm.solve(problem, method, x0, tol=0, max_steps=steps).compile_seconds

    def passes(timings: Timings, reference: str) -> bool | None:
        return not bounded or timings.ratio("watched", reference).at_most(BOUND)

    def both_pass(timings: Timings) -> bool | None:
        return passes(timings, "quiet") and passes(timings, "bare")

    jobs = {"bare": bare, "quiet": quiet, "watched": watched}
    timings = interleave(jobs, _ROUNDS, both_pass)
    runs = len(timings.seconds["watched"]) + 1
    # Not at the last step, when the run has ended.
    assert len(seen) == runs * ((steps - 1) // _EVERY), "The callback was not always called."
    seconds = {job: timings.typical(job) for job in jobs}

    def row(what: str, reference: str, compile_seconds: float) -> Row:
        return Row(
            what=f"{what}, {name}",
            measured=str(timings.ratio("watched", reference)),
            bound=f"<= {BOUND}x" if bounded else "",
            passes=passes(timings, reference),
            absolute=(
                f"{seconds['watched']:.3f} s and {seconds[reference]:.3f} s for {steps} steps; "
                f"compile {compile_seconds:.1f} s apart"
            ),
        )

    looking = f"solve with a callback every {_EVERY} steps and progress bar"
    yield row(f"{looking} / without", "quiet", compile_solve)
    yield row(f"{looking} / bare compiled loop", "bare", compile_bare)


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
