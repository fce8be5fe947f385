"""Values as files, without pickle: arrays in the safetensors format, the rest as JSON.

A file contains data and never code. Everything is checked before objects are created: the digest of
the contents, the classes (only those that the reader allows), their fields, and the types of these.
"""

import hashlib
import json
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from ._files import save
from ._memory import require_memory
from ._plain import Describing, Kinds, Misfit, Reading, check_fields

FORMAT = "lemmax 2"
# The names of dtypes in the safetensors format.
_TYPES = {"b1": "BOOL"} | {
    f"{kind}{size}": f"{kind.upper()}{8 * size}"
    for kind, sizes in (("f", (2, 4, 8)), ("i", (1, 2, 4, 8)), ("u", (1, 2, 4, 8)))
    for size in sizes
}


class Unreadable(ValueError):
    """A file is damaged, or contains something else."""


def write(path: str | pathlib.Path, what: str, value: Any, kinds: Kinds) -> None:
    """Write a value to a file atomically.

    Parameters
    ----------
    path : str or Path
    what : str
        The type of contents, which `read` has to ask for.
    value : object
        Consists of numbers, strings, arrays, sparse arrays, lists, tuples, dicts and ``kinds``.
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
    """Raise an error if the folder of a file does not exist."""
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path} cannot be written: there is no folder {path.parent}.")


def _serialise(path: str, arrays: Mapping[str, np.ndarray], metadata: dict[str, str]) -> None:
    """Write the safetensors format without copying the arrays.

    The package's own function creates a file with private permissions.
    """
    header: dict[str, Any] = {"__metadata__": metadata}
    # The largest item sizes first, so that all arrays are aligned.
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
    """Read a file that `write` has written.

    Raises
    ------
    Unreadable
        If the file is damaged or contains something else.
    """
    from safetensors import SafetensorError, safe_open

    path = pathlib.Path(path)
    if path.is_dir():
        raise Unreadable(f"{path} is a folder; pass the name of the file.")
    if not path.exists():
        raise FileNotFoundError(f"There is no file {path}.")
    require_memory((path.stat().st_size,), 1, f"Reading {path}", "Use a larger machine.")
    try:
        with safe_open(str(path), framework="numpy") as file:
            header = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise Unreadable(f"{path} is not a lemmax file.") from error
    if header.get("format") != FORMAT or "what" not in header:
        raise Unreadable(f"{path} was not written by this version of lemmax.")
    found = header["what"]
    if header.get("digest") != _digest(found, header.get("content", ""), arrays):
        raise Unreadable(f"{path} was damaged or modified after it was written.")
    asked = (what,) if isinstance(what, str) else what
    if found not in asked:
        raise Unreadable(f"{path} contains a {found}, not a {' or '.join(asked)}.")
    try:
        value = Reading(kinds, arrays).value(json.loads(header["content"]))
        if not isinstance(value, kinds.by_name.get(found, object)):
            raise Misfit(f"it contains a {type(value).__name__}")
        return value
    except (Misfit, RecursionError, ValueError) as error:
        raise Unreadable(f"{path} is not a valid {found}: {error}.") from error


def read_fields(path: str | pathlib.Path, what: str, declared: Mapping[str, Any]) -> Any:
    """Read a dict of numbers, names and arrays, with exactly the declared names and types."""
    values = read(path, what, Kinds())
    try:
        check_fields(values, declared, what)
    except Misfit as error:
        raise Unreadable(f"{path} is not a valid {what}: {error}.") from error
    return values


def contents(path: str | pathlib.Path) -> str:
    """The type of contents that a file declares; no object is created."""
    from safetensors import SafetensorError, safe_open

    if not pathlib.Path(path).is_file():
        raise FileNotFoundError(f"There is no file {path}.")
    try:
        with safe_open(str(path), framework="numpy") as file:
            return str((file.metadata() or {}).get("what", ""))
    except SafetensorError as error:
        raise Unreadable(f"{path} is not a lemmax file.") from error


def digest_arrays(digest: Any, arrays: Mapping[str, np.ndarray]) -> None:
    """Add arrays, with names, dtypes and shapes, to a digest."""
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8))


def _digest(what: str, content: str, arrays: Mapping[str, np.ndarray]) -> str:
    digest = hashlib.sha256(f"{what}\n{content}\n".encode())
    digest_arrays(digest, arrays)
    return digest.hexdigest()
