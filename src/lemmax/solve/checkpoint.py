"""Checkpoints: the state of a run in a folder, from which it can continue."""

import pathlib
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

from .._digest import digest_of
from .._journal import begun
from .._plain import Kinds
from .._storage import Unreadable, read_fields, write
from .._typing import Parameters
from ..status import Status
from .loop import Carry, Plan

_NAME, _WHAT = "solve.safetensors", "checkpoint of solve"
_KINDS, _ARRAYS = Kinds(), list[np.ndarray]
_FIELDS = {"key": str, "steps": int, "seconds": float, "state": _ARRAYS, "trace": _ARRAYS}


class Part:
    """A run that is a stage of a longer computation, saved in that computation's journal."""

    def __init__(self) -> None:
        self.stage = begun("solve")

    def resumed(self, carry: Carry, max_steps: int) -> tuple[Carry, float]:
        """The saved state, or the initial one, and the time it took."""
        if self.stage.value is None:
            return carry, 0.0
        leaves, seconds = self.stage.value
        return placed(carry, leaves), seconds

    def keep(self, carry: Carry, seconds: float) -> None:
        """Save the state of the run."""
        status = int(carry.state.status)
        if not self.stage.kept or status == Status.INTERRUPTED:
            return
        value = [np.asarray(leaf) for leaf in jax.tree.leaves(carry)], seconds
        if status == Status.RUNNING:
            self.stage.keep(value)
        else:
            self.stage.end(value)


class Checkpoint:
    """The checkpoint file of a run.

    With several processes, the first one writes and all read: all must see the folder.

    Parameters
    ----------
    folder : str or Path
        The folder; created if it does not exist.
    plan, x0
        The run; the file of another run is refused.
    """

    def __init__(self, folder: str | pathlib.Path, plan: Plan, x0: Parameters):
        self.path = pathlib.Path(folder) / _NAME
        # max_steps is not part of the fingerprint: a run may be continued with more steps.
        parts = plan.problem, plan.method, plan.stopping, dict(plan.metrics), plan.tol, x0
        self.key = digest_of(*parts)
        self.path.parent.mkdir(parents=True, exist_ok=True)

    def resumed(self, carry: Carry, max_steps: int) -> tuple[Carry, float]:
        """The saved state, or the initial one, and the time it took."""
        _require_arrays(carry)
        if not self.path.exists():
            return carry, 0.0
        kept = read_fields(self.path, _WHAT, _FIELDS)
        if kept["key"] != self.key:
            raise ValueError(
                f"{self.path} is the checkpoint of another run: the problem, the method, x0, tol, "
                "stopping or metrics differ. Use another folder, or remove the file."
            )
        steps = kept["steps"]
        if steps > max_steps:
            raise ValueError(
                f"{self.path} has taken {steps} steps already, and max_steps is {max_steps}: "
                "increase it, or use another folder."
            )
        blanks = jax.tree.leaves(carry.trace)
        filled = [jax.ShapeDtypeStruct((steps, *each.shape[1:]), each.dtype) for each in blanks]
        _require_alike(filled, kept["trace"])
        rows = [
            np.concatenate([rows, np.asarray(blank)[steps:]])
            for rows, blank in zip(kept["trace"], blanks, strict=True)
        ]
        return Carry(placed(carry.state, kept["state"]), placed(carry.trace, rows)), kept["seconds"]

    def keep(self, carry: Carry, seconds: float) -> None:
        """Save the state of an unfinished run."""
        if int(carry.state.status) != Status.RUNNING:
            return
        if jax.process_index() == 0:
            self._write(carry, seconds)
        if jax.process_count() > 1:  # wait until the file exists
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
                f"This method's state contains a {type(leaf).__name__}, which cannot be "
                "written to a checkpoint."
            )
        if isinstance(leaf, jax.Array) and not (
            leaf.is_fully_addressable or leaf.is_fully_replicated
        ):
            raise TypeError(
                "This method's state contains arrays that are sharded over several processes, "
                "which cannot be written to one checkpoint."
            )


def placed(like: Any, arrays: list[np.ndarray]) -> Any:
    """A pytree of arrays from a file, with the types and shardings of a new run's state."""

    def place(leaf: Any, array: np.ndarray) -> Any:
        if not isinstance(leaf, jax.Array):
            return array
        # This also works if part of the array is on devices of another process.
        return jax.make_array_from_callback(array.shape, leaf.sharding, lambda index: array[index])

    _require_alike(like, arrays)
    leaves, structure = jax.tree.flatten(like)
    return jax.tree.unflatten(structure, list(map(place, leaves, arrays)))


def _require_alike(like: Any, arrays: list[np.ndarray]) -> None:
    wanted = [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(like)]
    if wanted != [(array.shape, array.dtype) for array in arrays]:
        raise Unreadable("The checkpoint contains arrays of other shapes.")
