"""A run that can be killed: its state in a folder, and the way on from there."""

import pathlib
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

from .._digest import digest_of
from .._journal import begun
from .._plain import Kinds
from .._storage import read, write
from .._typing import Parameters
from ..status import Status
from .loop import Carry, Plan

_NAME, _WHAT = "solve.safetensors", "checkpoint of solve"
_KINDS = Kinds()


class Part:
    """A run that is a stage of a longer computation: kept in the journal of that, if it has one."""

    def __init__(self) -> None:
        self.stage = begun("solve")

    def resumed(self, carry: Carry, max_steps: int) -> tuple[Carry, float]:
        """The state that was kept, or that of the start, and the seconds it took to get there."""
        if self.stage.value is None:
            return carry, 0.0
        leaves, seconds = self.stage.value
        return placed(carry, leaves), seconds

    def keep(self, carry: Carry, seconds: float) -> None:
        """Remember where the run is; what was interrupted goes on from where it was before."""
        status = int(carry.state.status)
        if not self.stage.kept or status == Status.INTERRUPTED:
            return
        value = [np.asarray(leaf) for leaf in jax.tree.leaves(carry)], seconds
        if status == Status.RUNNING:
            self.stage.keep(value)
        else:
            self.stage.end(value)


class Checkpoint:
    """The file that a run is kept in.

    Of several processes the first writes, and all read: the folder must be one that all see.

    Parameters
    ----------
    folder : str or Path
        Made if it is not there.
    plan, x0
        The run; a file of another one is refused.
    """

    def __init__(self, folder: str | pathlib.Path, plan: Plan, x0: Parameters):
        self.path = pathlib.Path(folder) / _NAME
        # With more steps than before a run goes on.
        parts = plan.problem, plan.method, plan.stopping, dict(plan.metrics), plan.tol, x0
        self.key = digest_of(*parts)
        self.path.parent.mkdir(parents=True, exist_ok=True)

    def resumed(self, carry: Carry, max_steps: int) -> tuple[Carry, float]:
        """The state that was kept, or that of the start, and the seconds it took to get there."""
        _require_arrays(carry)
        if not self.path.exists():
            return carry, 0.0
        kept = read(self.path, _WHAT, _KINDS)
        if kept["key"] != self.key:
            raise ValueError(
                f"{self.path} is the checkpoint of another run: the problem, the method, x0, tol, "
                "stopping or metrics differ. Name another folder, or remove the file."
            )
        steps = int(kept["steps"])
        if steps > max_steps:
            raise ValueError(
                f"{self.path} has taken {steps} steps already, and max_steps is {max_steps}: give "
                "more, or name another folder."
            )
        state = placed(carry.state, kept["state"])
        trace = placed(
            carry.trace,
            [
                np.concatenate([rows, np.asarray(blank)[len(rows) :]])
                for rows, blank in zip(kept["trace"], jax.tree.leaves(carry.trace), strict=True)
            ],
        )
        return Carry(state, trace), float(kept["seconds"])

    def keep(self, carry: Carry, seconds: float) -> None:
        """Write the state of a run that goes on; the end needs no file, it is a chunk away."""
        if int(carry.state.status) != Status.RUNNING:
            return
        if jax.process_index() == 0:
            self._write(carry, seconds)
        if jax.process_count() > 1:  # nobody goes on before it is there
            multihost_utils.sync_global_devices("lemmax checkpoint")

    def _write(self, carry: Carry, seconds: float) -> None:
        steps = int(carry.state.step)
        content = {
            "key": self.key,
            "steps": steps,
            "seconds": seconds,
            "state": [np.asarray(leaf) for leaf in jax.tree.leaves(carry.state)],
            "trace": [np.asarray(leaf)[:steps] for leaf in jax.tree.leaves(carry.trace)],
        }
        write(self.path, _WHAT, content, _KINDS)


def _require_arrays(carry: Carry) -> None:
    for leaf in jax.tree.leaves(carry.state):
        if not isinstance(leaf, (np.ndarray, np.generic, jax.Array)):
            raise TypeError(
                f"This method keeps a {type(leaf).__name__} from step to step, which cannot be "
                "written to a checkpoint."
            )
        if isinstance(leaf, jax.Array) and not (
            leaf.is_fully_addressable or leaf.is_fully_replicated
        ):
            raise TypeError(
                "This method keeps arrays that are spread over several processes, which cannot be "
                "written to one checkpoint."
            )


def placed(like: Any, arrays: list[np.ndarray]) -> Any:
    """A pytree of the arrays of a file, where and as those of a new run are."""

    def place(leaf: Any, array: np.ndarray) -> Any:
        if (leaf.shape, leaf.dtype) != (array.shape, array.dtype):
            raise ValueError("The checkpoint holds arrays of other shapes.")
        if not isinstance(leaf, jax.Array):
            return array
        # Also where part of it is on devices of another process.
        return jax.make_array_from_callback(array.shape, leaf.sharding, lambda index: array[index])

    leaves, structure = jax.tree.flatten(like)
    return jax.tree.unflatten(
        structure, [place(*pair) for pair in zip(leaves, arrays, strict=True)]
    )
