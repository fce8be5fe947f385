"""Values as files, without pickle: arrays in the safetensors format, the rest as JSON.

A file holds data and never code. What is read is checked before anything is made of it: the digest
of the contents, the kinds of classes (only those that the reader names), their fields, and the
types of these.
"""

import hashlib
import json
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from ._files import save
from ._memory import require_memory
from ._plain import Describing, Kinds, Misfit, Reading

FORMAT = "lemmax 2"
# What the format calls types of arrays.
_TYPES = {"b1": "BOOL"} | {
    f"{kind}{size}": f"{kind.upper()}{8 * size}"
    for kind, sizes in (("f", (2, 4, 8)), ("i", (1, 2, 4, 8)), ("u", (1, 2, 4, 8)))
    for size in sizes
}


class Unreadable(ValueError):
    """A file that is damaged, or holds something else; a sentence."""


def write(path: str | pathlib.Path, what: str, value: Any, kinds: Kinds) -> None:
    """Write a value to a file, entirely or not at all.

    Parameters
    ----------
    path : str or Path
    what : str
        What it is; `read` asks for the same.
    value : object
        Made of numbers, texts, arrays, sparse arrays, lists, tuples, dicts and the given kinds.
    kinds : Kinds

    Raises
    ------
    TypeError
        If part of it is something else, such as a function.
    """
    path = pathlib.Path(path)
    check_folder(path)
    arrays: dict[str, np.ndarray] = {}
    content = json.dumps(Describing(kinds, arrays).node(value, what))
    header = {
        "format": FORMAT,
        "what": what,
        "content": content,
        "digest": _digest(what, content, arrays),
    }

    save(path, lambda partial: _serialise(partial, arrays, header))


def check_folder(path: pathlib.Path) -> None:
    """Raise a sentence if there is no folder for a file."""
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path} cannot be written: there is no folder {path.parent}.")


def _serialise(path: str, arrays: Mapping[str, np.ndarray], metadata: dict[str, str]) -> None:
    """Write the safetensors format, without a copy of the arrays.

    The package's own function renames a private file of its own over the target, which then is not
    as public as others.
    """
    header: dict[str, Any] = {"__metadata__": metadata}
    # The largest items first, so that all of them are aligned.
    names = sorted(arrays, key=lambda name: (-arrays[name].itemsize, name))
    end = 0
    for name in names:
        array = arrays[name]
        begin, end = end, end + array.nbytes
        header[name] = {
            "dtype": _TYPES[array.dtype.str[1:]],
            "shape": array.shape,
            "data_offsets": (begin, end),
        }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little"))
        file.write(text)
        for name in names:
            little = arrays[name].astype(arrays[name].dtype.newbyteorder("<"), copy=False)
            file.write(little.reshape(-1).view(np.uint8).data)


def read(path: str | pathlib.Path, what: str | tuple[str, ...], kinds: Kinds) -> Any:
    """Read what `write` has written.

    Raises
    ------
    Unreadable
        In one sentence, if the file is damaged or holds something else.
    """
    from safetensors import SafetensorError, safe_open

    path = pathlib.Path(path)
    if path.is_dir():
        raise Unreadable(f"{path} is a folder; name the file.")
    if not path.exists():
        raise FileNotFoundError(f"There is no file {path}.")
    require_memory((path.stat().st_size,), 1, f"What {path} holds", "Read it on a larger machine.")
    try:
        with safe_open(str(path), framework="numpy") as file:
            header = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise Unreadable(f"{path} is not a file that lemmax has written.") from error
    if header.get("format") != FORMAT or "what" not in header:
        raise Unreadable(f"{path} was not written by this version of lemmax.")
    found = header["what"]
    if header.get("digest") != _digest(found, header.get("content", ""), arrays):
        raise Unreadable(f"{path} was damaged or changed after it was written.")
    asked = (what,) if isinstance(what, str) else what
    if found not in asked:
        raise Unreadable(f"{path} holds a {found}, not a {' or '.join(asked)}.")
    try:
        node = json.loads(header["content"])
        return Reading(kinds, arrays).value(node)
    except (Misfit, RecursionError, ValueError) as error:
        raise Unreadable(f"{path} does not hold what a {found} is made of: {error}.") from error


def contents(path: str | pathlib.Path) -> str:
    """What a file holds, by its own words; nothing of it is made."""
    from safetensors import SafetensorError, safe_open

    if not pathlib.Path(path).is_file():
        raise FileNotFoundError(f"There is no file {path}.")
    try:
        with safe_open(str(path), framework="numpy") as file:
            return str((file.metadata() or {}).get("what", ""))
    except SafetensorError as error:
        raise Unreadable(f"{path} is not a file that lemmax has written.") from error


def digest_arrays(digest: Any, arrays: Mapping[str, np.ndarray]) -> None:
    """Add arrays, with names, types and shapes, to a digest."""
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8))


def _digest(what: str, content: str, arrays: Mapping[str, np.ndarray]) -> str:
    digest = hashlib.sha256(f"{what}\n{content}\n".encode())
    digest_arrays(digest, arrays)
    return digest.hexdigest()
