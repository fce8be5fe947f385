"""Digests of data and configuration, to check that a checkpoint belongs to a problem."""

import dataclasses
import functools
import hashlib
import re
import types
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def digest_of(*values: Any) -> str:
    """A digest that is equal for equal arrays, numbers and functions, in any process.

    Functions count by their code and the values they use, not by comments or line numbers.
    """
    digest = _Digest()
    for value in values:
        digest.add(value)
    return digest.hash.hexdigest()


class _Digest:
    """A hash of objects; each object is visited once."""

    def __init__(self) -> None:
        self.hash = hashlib.sha256()
        self.seen: dict[int, Any] = {}

    def add(self, value: Any) -> None:
        if value is None or isinstance(value, (bool, int, float, str, bytes)):
            self._word(type(value).__name__, repr(value))
        elif isinstance(value, (np.ndarray, np.generic, jax.Array)):
            self._array(value)
        elif id(value) in self.seen:
            self._word("again")
        else:
            self.seen[id(value)] = value  # a reference, so that the id is not reused
            self._parts(value)

    def _word(self, *words: str) -> None:
        for word in words:
            self.hash.update(f"{len(word)}:{word};".encode())

    def _array(self, value: Any) -> None:
        self._word("array", str(value.dtype), str(tuple(value.shape)))
        if isinstance(value, jax.Array) and not (
            value.is_fully_addressable or value.is_fully_replicated
        ):
            # Sharded over several processes: only global sums are known to all of them.
            squares = jnp.sum(jnp.square(value))
            value = np.stack([np.asarray(jnp.sum(value)), np.asarray(squares)])
        if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
            value = jax.random.key_data(value)
        array = np.asarray(value)
        if array.dtype.hasobject:
            self.add(array.tolist())
        else:
            self.hash.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)

    def _parts(self, value: Any) -> None:
        kind = type(value)
        self._word(kind.__module__, kind.__qualname__)
        if isinstance(value, Mapping):
            for key in value:
                self.add(key)
                self.add(value[key])
        elif isinstance(value, (list, tuple)):
            for part in value:
                self.add(part)
        elif isinstance(value, functools.partial):
            self.add([value.func, value.args, value.keywords])
        elif isinstance(value, types.MethodType):
            self.add([value.__func__, value.__self__])
        elif isinstance(value, types.FunctionType):
            self._function(value)
        elif isinstance(value, types.CodeType):
            self._code(value)
        elif isinstance(value, (type, types.BuiltinFunctionType, types.ModuleType)):
            self._word(getattr(value, "__module__", "") or "", value.__name__)
        elif hasattr(value, "__wrapped__"):  # for example by jax.jit
            self.add(value.__wrapped__)
        elif dataclasses.is_dataclass(value):
            for field in dataclasses.fields(value):
                self.add(getattr(value, field.name, None))
        elif hasattr(value, "__dict__"):
            self.add(vars(value))
        else:
            self._word(_ADDRESS.sub("", repr(value)))

    def _function(self, value: types.FunctionType) -> None:
        self._code(value.__code__)
        self.add([value.__defaults__, value.__kwdefaults__])
        for cell in value.__closure__ or ():
            try:
                self.add(cell.cell_contents)
            except ValueError:  # an empty cell
                self._word("empty")
        names = value.__code__.co_names
        for name in sorted(set(names) & set(value.__globals__)):
            used = value.__globals__[name]
            # Libraries count by name; the user's numbers, arrays and functions by value.
            if isinstance(used, (int, float, str, np.ndarray, jax.Array)) or (
                isinstance(used, types.FunctionType) and used.__module__ == value.__module__
            ):
                self.add(used)

    def _code(self, code: types.CodeType) -> None:
        self.hash.update(code.co_code)
        self._word(*code.co_names, *code.co_varnames)
        for constant in code.co_consts:
            self.add(constant)
