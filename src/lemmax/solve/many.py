"""`solve_many`: many runs over methods, parameters, data or starts in one compiled program."""

import pathlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._checks import as_whole, check_kind, check_positive, check_real
from .._dtype import common_dtype, needs_local_x64, precision_context, to_numpy
from .._journal import begun, journal
from .._programs import compiled
from .._tree import is_traced
from .._typing import Parameters
from ..methods import AbstractMethod
from ..problem import Composite
from ..status import Status
from ._plan import (
    as_limit,
    check_arguments,
    explaining,
    is_numpy,
    make_plan,
    make_result,
    require_compiled,
)
from .checkpoint import placed
from .lanes import Lanes, advance_lanes, differing, signature, stack, start_lanes, take
from .loop import Carry, Metrics, Plan
from .result import Result
from .stopping import Stopping
from .trace import Trace, columns_of_trace

# Finished lanes are removed from the program if that saves multiplying this many bytes by a vector,
# which takes as long as compiling the smaller program, some seconds: a product for many lanes is
# limited by arithmetic and processes over a hundred gigabytes per second. Bytes are counted instead
# of seconds because the number of lanes changes the last bits of the results, which must not depend
# on a clock.
_BYTES_WORTH_A_PROGRAM = 4e11

_start = compiled(start_lanes)
_advance = compiled(advance_lanes)


class Run(NamedTuple):
    """One run of a batch: the arguments of `lemmax.solve`."""

    problem: Composite
    method: AbstractMethod
    x0: Parameters
    metrics: Metrics = {}


class BatchSnapshot(NamedTuple):
    """The state of a running batch, as passed to callbacks.

    ``running`` has the numbers of the active runs, ``trace`` their rows so far (arrays with one
    row per run and one column per iterate), ``finished`` the number of finished runs of ``total``.
    """

    running: np.ndarray
    trace: Trace
    finished: int
    total: int


class _Group(NamedTuple):
    """Lanes on the device, and the numbers of their runs; -1 for padding."""

    lanes: Lanes
    carry: Carry
    numbers: np.ndarray
    kind: int
    """The index of the initial group it is part of."""
    places: np.ndarray
    """The indices of its lanes in the initial group."""


def solve_many(
    runs: Sequence[Run],
    *,
    max_steps: int = 1000,
    tol: float = 1e-8,
    callback: Callable[[BatchSnapshot], Any] | None = None,
    every: int = 50,
    stopping: Stopping | None = None,
    memory: float = 2e9,
    checkpoint: str | pathlib.Path | None = None,
) -> list[Result]:
    """Solve many problems of the same shape at once, each as `lemmax.solve` would.

    Arrays that are the same object in all problems, such as the operator, are stored once, and
    measuring becomes a matrix-matrix product. Methods may differ. Finished runs are removed from
    the program, so that they cost nothing more.

    Parameters
    ----------
    runs : sequence of Run
        The runs. Their problems and starts must have the same types and shapes.
    max_steps, tol, stopping
        As for `lemmax.solve`.
    callback : callable, optional
        Called with a `BatchSnapshot` at the start, every ``every`` steps, and at the end, when no
        run is left. It may return one boolean per active run: whether to stop it.
    every : int
        Steps between two calls, and between two checks for finished runs.
    memory : float
        Bytes available for the arrays of the runs, shared arrays not counted. Larger batches are
        split.
    checkpoint : str or Path, optional
        A folder to which the runs are saved about every second. If the process is killed, the
        same call continues from there, with bitwise the same results. A checkpoint of other runs
        is refused.

    Returns
    -------
    list of Result
        The results in the order of the runs. ``seconds`` is the time of the whole batch.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import lemmax as lm
    >>> problem = lm.Composite(lm.losses.L2(), lm.maps.Square(2), jnp.array([4.0, 1.0]))
    >>> scales = [0.25, 0.5, 1.0]
    >>> runs = [
    ...     lm.Run(problem, lm.methods.lmm(lm.steps.Polyak(scale=s)), jnp.array([1.5, 1.5]))
    ...     for s in scales
    ... ]
    >>> [int(result.steps) for result in lm.solve_many(runs)]
    [65, 27, 4]
    """
    runs, max_steps = [_checked(run) for run in runs], as_whole(max_steps)
    if not runs:
        return []
    for run in runs:
        check_arguments(run.problem, run.method, max_steps, tol, every)
        require_compiled(run.method)
    check_real(0, memory=memory)
    check_positive(every=every)
    if is_traced(runs):
        raise ValueError(
            "solve_many compiles by itself: call it outside of jit, vmap and grad, or use lm.solve "
            "inside of them."
        )
    x0s = [run.x0 for run in runs]
    problems = [run.problem for run in runs]
    gives_numpy = needs_local_x64(problems, x0s) or all(is_numpy(x0) for x0 in x0s)
    results: list[Result] = []
    with precision_context(problems, x0s), explaining():
        prepared = [
            make_plan(run.problem, run.method, run.x0, dict(run.metrics), stopping, tol, max_steps)
            for run in runs
        ]
        _require_one_shape(prepared)
        size = max(1, int(memory // _bytes_of_a_run(*prepared[0], max_steps)))
        with journal(checkpoint, "solve_many", prepared, every, memory):
            for first in range(0, len(prepared), size):
                batch = _Batch(prepared[first : first + size], max_steps, first, len(prepared))
                results += batch.run(callback, every, gives_numpy)
    return results


class _Batch:
    """Runs that fit in memory together."""

    def __init__(self, prepared: list, max_steps: int, first: int, total: int):
        plans = [plan for plan, _ in prepared]
        self.plans, self.max_steps, self.first, self.total = plans, max_steps, first, total
        self.ended: dict[int, Carry] = {}
        began = time.perf_counter()
        self.groups = _grouped(plans, [x0 for _, x0 in prepared], 1 << max_steps.bit_length())
        self.compile_seconds = time.perf_counter() - began
        self.seconds = 0.0
        shared = jax.tree.leaves(self.groups[0].lanes.shared.problem)
        self.shared_bytes = sum(u.nbytes for u in shared if eqx.is_array(u))

    def run(self, callback: Any, every: int, gives_numpy: bool) -> list[Result]:
        stage = begun("solve_many")
        limit = 1 if stage.value is None else self._restore(stage.value)
        self._compile()
        while self.groups:
            if stage.kept:
                stage.keep(self._kept(limit))
            began = time.perf_counter()
            self._advance(min(limit, self.max_steps + 1))
            self.seconds += time.perf_counter() - began
            self._look(callback)
            if self._repack(limit):
                self._compile()
            limit += every
        if stage.kept and not stage.ended:
            stage.end(self._kept(limit))
        return [self._result(number, gives_numpy) for number in range(len(self.plans))]

    def _advance(self, limit: int) -> None:
        lanes, carries, numbers, kinds, places = zip(*self.groups, strict=True)
        carries = jax.block_until_ready(_advance(lanes, carries, as_limit(limit)))
        self.groups = list(map(_Group, lanes, carries, numbers, kinds, places))

    def _kept(self, limit: int) -> dict[str, Any]:
        """The changing state of the batch, as arrays."""
        return {
            "limit": limit,
            "seconds": self.seconds,
            "groups": [(*group[2:], _arrays(group.carry)) for group in self.groups],
            "ended": {number: _arrays(carry) for number, carry in self.ended.items()},
        }

    def _restore(self, kept: dict[str, Any]) -> int:
        """Restore a saved state; return the next limit."""
        first = self.groups
        self.seconds = kept["seconds"]
        self.groups = []
        for numbers, kind, places, arrays in kept["groups"]:
            carry = placed(take(first[kind].carry, places), arrays)
            lanes = first[kind].lanes.take(places)
            self.groups.append(_Group(lanes, carry, numbers, kind, places))
        for number, arrays in kept["ended"].items():
            leaves = [array[()] for array in arrays]
            self.ended[number] = jax.tree.unflatten(jax.tree.structure(first[0].carry), leaves)
        return kept["limit"]

    def _compile(self) -> None:
        """Compile without running a step, so that compilation is timed separately."""
        if self.groups:
            began = time.perf_counter()
            self._advance(0)
            self.compile_seconds += time.perf_counter() - began

    def _look(self, callback: Any) -> None:
        """Call the callback, and stop the runs it selects."""
        if callback is None:
            return
        status = [np.asarray(group.carry.state.status) for group in self.groups]
        chosen = [np.flatnonzero(s == Status.RUNNING) for s in status]
        running = np.concatenate(
            [g.numbers[lanes] for g, lanes in zip(self.groups, chosen, strict=True)]
        )
        step = max(int(np.max(np.asarray(group.carry.state.step))) for group in self.groups)
        traces = [
            jax.tree.map(lambda u, k=lanes: np.asarray(u)[k, :step], group.carry.trace)
            for group, lanes in zip(self.groups, chosen, strict=True)
        ]
        trace = jax.tree.map(lambda *parts: np.concatenate(parts), *traces)
        finished = self.first + len(self.plans) - len(running)
        answer = callback(BatchSnapshot(self.first + running, trace, finished, self.total))
        if answer is None or not running.size:
            return
        answer = np.asarray(answer)
        if answer.shape != running.shape or answer.dtype != bool:
            raise ValueError(
                f"The callback must return None or {running.size} booleans, one for each active "
                f"run; it returned an array of shape {answer.shape} and type "
                f"{answer.dtype}."
            )
        stops = set(running[answer].tolist())
        for k, group in enumerate(self.groups):
            stopped = np.asarray([number in stops for number in group.numbers])
            self.groups[k] = group._replace(carry=_interrupted(group.carry, stopped))

    def _repack(self, step: int) -> bool:
        """Remove finished lanes if there are enough of them; return whether it did."""
        running = [np.asarray(g.carry.state.status) == Status.RUNNING for g in self.groups]
        alive = sum(int(np.sum(r)) for r in running)
        ended = sum(r.size for r in running) - alive
        saved = 2 * self.shared_bytes * ended * max(self.max_steps - step, 0)
        if alive and (ended < alive or saved < _BYTES_WORTH_A_PROGRAM):
            return False
        packed = []
        for group, runs in zip(self.groups, running, strict=True):
            for lane in np.flatnonzero(~runs & (group.numbers >= 0)):
                lane_of = jax.tree.map(lambda leaf, k=lane: np.asarray(leaf)[k], group.carry)
                self.ended[int(group.numbers[lane])] = lane_of
            if np.any(runs):
                packed.append(_packed(group, np.flatnonzero(runs)))
        self.groups = packed
        return True

    def _result(self, number: int, gives_numpy: bool) -> Result:
        carry = self.ended[number]
        rows = int(carry.state.step) + 1
        carry = eqx.tree_at(lambda c: c.trace, carry, jax.tree.map(lambda u: u[:rows], carry.trace))
        result = make_result(self.plans[number], carry, self.seconds, self.compile_seconds)
        return to_numpy(result) if gives_numpy else jax.tree.map(jnp.asarray, result)


def _arrays(carry: Carry) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(carry)]


def _grouped(plans: list[Plan], x0s: list, rows: int) -> list[_Group]:
    """Group the runs by the type of their method."""
    kinds: dict[Any, list[int]] = {}
    for number, plan in enumerate(plans):
        kinds.setdefault(signature((plan.method, plan.metrics)), []).append(number)
    # All runs have the same stopping rules, and the same parts of the problem differ.
    dtype = common_dtype(plans[0].problem, x0s[0])
    problem_differs = differing([plan.problem for plan in plans])
    groups = []
    for numbers in kinds.values():
        mine = [eqx.tree_at(_rules, plans[n], _rules(plans[0])) for n in numbers]
        differ = differing(mine)
        differ[: len(problem_differs)] = problem_differs
        lanes = stack(mine, differ, dtype)
        starts = jax.tree.map(
            lambda *leaves: jax.device_put(np.stack([np.asarray(leaf) for leaf in leaves])),
            *(x0s[n] for n in numbers),
        )
        carry, places = _start(lanes, starts, rows), np.arange(len(numbers))
        groups.append(_Group(lanes, carry, np.asarray(numbers), len(groups), places))
    return groups


def _rules(plan: Plan) -> tuple:
    return plan.stopping, plan.tol, plan.max_steps


def _packed(group: _Group, lanes: np.ndarray) -> _Group:
    """Some lanes, padded to a power of two, so that few programs are compiled."""
    count = 1 << (len(lanes) - 1).bit_length()
    padded = np.concatenate([lanes, np.repeat(lanes[:1], count - len(lanes))])
    numbers = np.where(np.arange(count) < len(lanes), group.numbers[padded], -1)
    carry = take(group.carry, padded)
    ended = np.where(numbers < 0, Status.INTERRUPTED, np.asarray(carry.state.status))
    carry = eqx.tree_at(lambda c: c.state.status, carry, jax.device_put(ended.astype(np.int32)))
    places = group.places[padded]
    return _Group(group.lanes.take(padded), carry, numbers, group.kind, places)


def _interrupted(carry: Carry, stopped: np.ndarray) -> Carry:
    """End some lanes at the iterate evaluated last: the newest has no row in the trace."""
    status, step = np.asarray(carry.state.status), np.asarray(carry.state.step)
    status = np.where(stopped, np.int32(Status.INTERRUPTED), status)
    step = np.where(stopped, step - 1, step)
    return eqx.tree_at(
        lambda c: (c.state.status, c.state.step),
        carry,
        (jax.device_put(status), jax.device_put(step)),
    )


def _checked(run: Any) -> Run:
    check_kind("Every run", run, Run, "a Run(problem, method, x0)")
    if not isinstance(run.metrics, Mapping):
        raise TypeError('metrics must be a dict of functions, such as {"error": ...}.')
    return run


def _require_one_shape(prepared: list) -> None:
    first = signature((prepared[0][0].problem, prepared[0][1]))
    names = set(prepared[0][0].metrics)
    for number, (plan, x0) in enumerate(prepared):
        if signature((plan.problem, x0)) != first or set(plan.metrics) != names:
            raise ValueError(
                f"Run {number} differs from run 0 in the type or shape of its problem, start or "
                "metrics. Call solve_many separately for runs of different shapes."
            )


def _bytes_of_a_run(plan: Plan, x0: Parameters, max_steps: int) -> int:
    """Memory of one lane during an evaluation, including its trace."""
    evaluation = jax.eval_shape(plan.problem.evaluate, x0)
    held = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves((evaluation, x0)))
    return 4 * held + 8 * columns_of_trace(plan.metrics) * (1 << max_steps.bit_length())
