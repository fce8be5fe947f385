"""Several runs in one program: shared arrays are stored once, the others are stacked."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import jaxprs_in_params
from jaxtyping import Array, Int, PyTree

from .._tree import tree_where
from ..problem import Composite, Evaluation
from ..status import Status
from .loop import Carry, Plan, State, settle, start
from .trace import Trace, record


class Lanes(eqx.Module):
    """Runs with methods of one kind, side by side."""

    stacked: PyTree
    """The leaves of the plans that differ, with a leading lane axis."""
    shared: PyTree
    """The leaves that all lanes share."""

    def plan(self, stacked: PyTree) -> Plan:
        """The plan of one lane, from its part of the stacked leaves."""
        return eqx.combine(stacked, self.shared)

    def take(self, lanes: np.ndarray) -> "Lanes":
        """A subset of the lanes."""
        return Lanes(take(self.stacked, lanes), self.shared)


def take(tree: PyTree, lanes: np.ndarray) -> PyTree:
    """A subset of the lanes of a stacked pytree.

    On the host, since the device would compile a program for every number of lanes.
    """
    return jax.tree.map(lambda leaf: jax.device_put(np.asarray(leaf)[lanes]), tree)


def signature(tree: PyTree) -> Any:
    """The properties that two pytrees must share to be lanes of one program."""
    arrays, rest = eqx.partition(tree, eqx.is_array)
    shapes = [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(arrays)]
    return jax.tree.structure(tree), tuple(shapes), tuple(map(id, jax.tree.leaves(rest)))


def differing(trees: Sequence[PyTree]) -> list[bool]:
    """Which leaves differ between the trees: arrays by identity, numbers by value."""

    def same(leaves: tuple) -> bool:
        first = leaves[0]
        if all(leaf is first for leaf in leaves):
            return True
        scalars = all(eqx.is_array(leaf) and leaf.ndim == 0 for leaf in leaves)
        return scalars and len({leaf.item() for leaf in leaves}) == 1

    leaves = zip(*(jax.tree.leaves(tree) for tree in trees), strict=True)
    return [not same(column) for column in leaves]


def stack(trees: Sequence[PyTree], differ: Sequence[bool], dtype: Any) -> Lanes:
    """Stack trees of one signature."""
    leaves, structure = jax.tree.flatten(trees[0])
    mask = jax.tree.unflatten(structure, differ)
    columns = zip(*(jax.tree.leaves(tree) for tree in trees), strict=True)
    together = [
        _stack(column, dtype) if differs else first
        for column, differs, first in zip(columns, differ, leaves, strict=True)
    ]
    return Lanes(*eqx.partition(jax.tree.unflatten(structure, together), mask))


def _stack(column: Sequence[Array], dtype: Any) -> Array:
    together = np.stack([np.asarray(leaf) for leaf in column])
    if column[0].weak_type:
        # A stack of hyper-parameters is an ordinary array: it is no longer weakly typed.
        together = together.astype(np.int32 if together.dtype.kind == "i" else dtype)
    return jax.device_put(together)


def start_lanes(lanes: Lanes, x0: PyTree, rows: int) -> Carry:
    """The state of every lane before its first evaluation."""
    return jax.vmap(lambda part, x: start(lanes.plan(part), x, rows))(lanes.stacked, x0)


def advance_lanes(
    groups: Sequence[Lanes], carries: Sequence[Carry], limit: Int[Array, ""]
) -> list[Carry]:
    """Evaluate and move all lanes together until all have ended or reached ``limit``."""
    sizes = [carry.state.step.shape[0] for carry in carries]
    problems = _concatenated([lanes.stacked.problem for lanes in groups])
    common = groups[0].shared.problem

    def evaluate(part: PyTree, x: PyTree) -> Evaluation:
        problem: Composite = eqx.combine(part, common)
        return problem.evaluate(x)

    def running(carries: list[Carry]) -> Array:
        return jnp.any(jnp.concatenate([_active(carry.state, limit) for carry in carries]))

    def visit(carries: list[Carry]) -> list[Carry]:
        # If the lanes share their measurements, this is one matrix-matrix product instead of one
        # matrix-vector product per lane.
        states = [carry.state for carry in carries]
        together = jax.vmap(evaluate)(problems, _concatenated([state.x for state in states]))
        evaluations = _split(together, sizes)
        # All running lanes are at the same iterate; rows written by others are cut off later.
        row = jnp.max(jnp.concatenate([jnp.where(_active(s, limit), s.step, 0) for s in states]))
        return [
            _settle(lanes, carry, evaluation, row, limit)
            for lanes, carry, evaluation in zip(groups, carries, evaluations, strict=True)
        ]

    return jax.lax.while_loop(running, visit, list(carries))


def _settle(
    lanes: Lanes, carry: Carry, evaluation: Evaluation, row: Int[Array, ""], limit: Int[Array, ""]
) -> Carry:
    """Test and move every lane.

    Lanes are vectorised if the step has no inner loop: many small operations then take as long
    for many lanes as for one. Methods with inner iterations run lane by lane; vectorised, each
    lane would iterate as often as the slowest.
    """

    def one(lane: tuple[PyTree, State, Evaluation]) -> tuple[State, Trace]:
        part, state, evaluation = lane
        return settle(lanes.plan(part), state, evaluation, row)

    def one_if_active(lane: tuple[PyTree, State, Evaluation]) -> tuple[State, Trace]:
        state, entries = lane[1], jax.eval_shape(one, lane)[1]
        return jax.lax.cond(
            _active(state, limit),
            lambda: one(lane),
            lambda: (state, jax.tree.map(lambda u: jnp.zeros(u.shape, u.dtype), entries)),
        )

    together = (lanes.stacked, carry.state, evaluation)
    first = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), together)
    if _iterates(jax.make_jaxpr(one)(first).jaxpr):
        states, entries = jax.lax.map(one_if_active, together)
    else:
        states, entries = jax.vmap(one)(together)
        states = jax.vmap(tree_where)(_active(carry.state, limit), states, carry.state)
    return Carry(states, jax.vmap(record, in_axes=(0, None, 0))(carry.trace, row, entries))


def _iterates(jaxpr: Any) -> bool:
    """Whether a program contains a loop of data-dependent length."""
    return any(
        equation.primitive.name == "while" or any(map(_iterates, jaxprs_in_params(equation.params)))
        for equation in jaxpr.eqns
    )


def _active(state: State, limit: Int[Array, ""]) -> Array:
    return (state.status == Status.RUNNING) & (state.step < limit)


def _concatenated(trees: Sequence[PyTree]) -> PyTree:
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *trees)


def _split(tree: PyTree, sizes: Sequence[int]) -> list[PyTree]:
    ends = np.cumsum(sizes)
    return [
        jax.tree.map(lambda leaf, a=end - size, b=end: leaf[a:b], tree)
        for size, end in zip(sizes, ends, strict=True)
    ]
