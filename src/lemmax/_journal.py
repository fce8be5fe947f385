"""Journals: stages of long computations in a folder, so that a killed process can continue.

A search is deterministic and consists of stages: sweeps, descents, runs of `lemmax.solve`. A public
function opens a `journal`; the algorithms below it announce their stages with `begun`. A stage that
was finished before the process was killed is read instead of computed. One that was running
continues from its last saved state. Everything else is computed again, with the same result.
"""

import contextlib
import json
import pathlib
import time
from collections.abc import Iterator
from contextvars import ContextVar
from importlib import metadata
from typing import Any

import numpy as np

from ._files import save_text
from ._plain import Describing, Kinds, Misfit, Reading, check_fields
from ._storage import Unreadable, read, write

# Seconds between two files: at most this much work is lost, and shorter stages leave no file. The
# interval is longer if writing would take a larger share of the time than this.
_SECONDS, _SHARE = 1.0, 0.05
_NAME, _STATE, _ENDED = "journal.json", "state.safetensors", "ended-*.safetensors"
_WHAT = "journal"
_PLAIN = Kinds()
_STAGE = {"name": str, "node": str, "arrays": dict[str, np.ndarray]}


@contextlib.contextmanager
def journal(folder: str | pathlib.Path | None, what: str, *inputs: Any) -> Iterator[None]:
    """Record the stages of the enclosed computation; without a folder, in the enclosing journal.

    Parameters
    ----------
    folder : str, Path or None
        The folder; created if it does not exist.
    what : str
        The name of the public function.
    *inputs
        Everything that the result depends on. A journal with other inputs is refused.

    Raises
    ------
    ValueError
        If the folder contains the journal of another computation, or is damaged.
    """
    if folder is None:
        yield
        return
    token = _CURRENT.set(Journal(pathlib.Path(folder), what, inputs))
    try:
        yield
    finally:
        _CURRENT.reset(token)


def begun(name: str, kinds: Kinds = _PLAIN) -> "Stage":
    """Begin the next stage of the current computation.

    Parameters
    ----------
    name : str
    kinds : Kinds
        The classes that its states and its result consist of, besides arrays and numbers.
    """
    current = _CURRENT.get()
    return Stage() if current is None else current.next(name, kinds)


class Stage:
    """A stage that is not recorded.

    Attributes
    ----------
    kept : bool
        Whether there is a journal.
    ended : bool
        Whether the stage was finished before.
    value
        Its result if it was; otherwise the last saved state, or None.
    """

    kept: bool = False
    ended: bool = False
    value: Any = None

    def keep(self, state: Any) -> None:
        """Save a state from which the stage can continue, if the last file is old enough."""

    def end(self, result: Any) -> None:
        """Record the result; it is written with the next file."""


class _KeptStage(Stage):
    kept = True

    def __init__(self, journal: "Journal", number: int, name: str, kinds: Kinds):
        self.journal, self.number, self.name, self.kinds = journal, number, name, kinds
        self.ended, entry = journal.found(number, name)
        self.value = None if entry is None else _unpacked(entry, kinds, journal.folder)
        journal.open = not self.ended

    def keep(self, state: Any) -> None:
        if self.journal.due:
            self.journal.write(str(self.number), _packed(self.name, state, self.kinds))

    def end(self, result: Any) -> None:
        self.journal.pending[str(self.number)] = _packed(self.name, result, self.kinds)
        self.journal.open = False
        if self.journal.due:
            self.journal.write()


class Journal:
    """The stages of one computation, numbered in the order in which they begin."""

    def __init__(self, folder: pathlib.Path, what: str, inputs: tuple):
        from ._digest import digest_of  # needs JAX, which fits of tables do not load

        self.folder, self.number, self.open = folder, 0, False
        self.pending: dict[str, Any] = {}
        self.written, self.pause = time.perf_counter(), _SECONDS
        identity = {
            "what": what,
            "lemmax": metadata.version("lemmax"),
            "digest": digest_of(*inputs),
        }
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / _NAME
        if not path.exists():
            save_text(path, json.dumps(identity) + "\n")
        else:
            _require_same(path, identity)
        self.ended: dict[str, Any] = {}
        for part in sorted(folder.glob(_ENDED)):
            self.ended |= _read(part)
        self.state = _read(folder / _STATE) if (folder / _STATE).exists() else {}

    def next(self, name: str, kinds: Kinds) -> Stage:
        """The stage that begins now.

        Stages within a running stage are part of it. So are those after a stage that was stopped:
        they must not be mistaken for the stages that would follow its end.
        """
        if self.open:
            return Stage()
        self.number += 1
        return _KeptStage(self, self.number, name, kinds)

    def found(self, number: int, name: str) -> tuple[bool, Any]:
        """Whether a stage is finished, and its recorded value; a result is returned once."""
        key = str(number)
        ended = key in self.ended
        entry = (self.ended if ended else self.state).pop(key, None)
        if entry is not None and entry.get("name") != name:
            raise Unreadable(f"{self.folder} is damaged: its stages are those of another search.")
        return ended, entry

    @property
    def due(self) -> bool:
        """Whether the last file is old enough."""
        return time.perf_counter() - self.written > self.pause

    def write(self, number: str | None = None, state: Any = None) -> None:
        """Write the stages that ended since the last file, and the state of the running one."""
        began = time.perf_counter()
        if self.pending:
            # Named by the last number, so that a continued run never reuses a name.
            name = _ENDED.replace("*", f"{int(next(reversed(self.pending))):06d}")
            write(self.folder / name, _WHAT, self.pending, _PLAIN)
            self.pending = {}
        if number is not None:
            write(self.folder / _STATE, _WHAT, {number: state}, _PLAIN)
        self.written = time.perf_counter()
        self.pause = max(_SECONDS, (self.written - began) / _SHARE)


_CURRENT: ContextVar[Journal | None] = ContextVar("lemmax journal", default=None)


def _require_same(path: pathlib.Path, identity: dict[str, str]) -> None:
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        kept = None
    if not isinstance(kept, dict) or set(kept) != set(identity):
        raise Unreadable(f"{path} is not a lemmax file.")
    if kept != identity:
        raise ValueError(
            f"{path.parent} is the checkpoint of another run: the data or options of "
            f"{identity['what']}, or lemmax's version, differ. Use another folder, or remove it."
        )


def _read(path: pathlib.Path) -> dict[str, Any]:
    entries = read(path, _WHAT, _PLAIN)
    if not isinstance(entries, dict):
        raise Unreadable(f"{path} does not contain stages of a search.")
    try:
        for entry in entries.values():
            check_fields(entry, _STAGE, "stage")
    except Misfit as error:
        raise Unreadable(f"{path} does not contain stages of a search: {error}.") from error
    return entries


def _packed(name: str, value: Any, kinds: Kinds) -> dict[str, Any]:
    """A value with copies of its arrays, since the algorithms modify them later."""
    arrays: dict[str, np.ndarray] = {}
    node = Describing(kinds, arrays).node(value, name)
    copies = {name: array.copy() for name, array in arrays.items()}
    return {"name": name, "node": json.dumps(node), "arrays": copies}


def _unpacked(entry: dict[str, Any], kinds: Kinds, folder: pathlib.Path) -> Any:
    # Copies in NumPy's own memory: aligned and writable.
    arrays = {name: np.array(array) for name, array in entry["arrays"].items()}
    try:
        return Reading(kinds, arrays).value(json.loads(entry["node"]))
    except (Misfit, ValueError) as error:
        raise Unreadable(f"{folder} is damaged: {error}.") from error
