"""Conversion of values to JSON and arrays, and back, with checks before objects are created."""

import dataclasses
import datetime
import enum
import re
import sys
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy import sparse

from ._memory import require_memory

_PLAIN = (bool, int, float, str, type(None))
# Kinds of NumPy dtypes that safetensors supports.
_NUMBERS = "fiub"


class Misfit(Exception):
    """The contents of a file are invalid."""


class Kinds:
    """The classes that a file may contain: dataclasses, named tuples and enumerations, by name.

    Parameters
    ----------
    *kinds : types
    special : dict
        For other classes: a pair of functions, to plain values and back.
    """

    def __init__(self, *kinds: type, special: Mapping[type, tuple[Callable, Callable]] = {}):
        self.special = dict(special)
        self.by_name = {kind.__name__: kind for kind in (*kinds, *special)}

    def knows(self, value: Any) -> bool:
        return self.by_name.get(type(value).__name__) is type(value)


class Describing:
    """Converts values to JSON and collects their arrays by name."""

    def __init__(self, kinds: Kinds, arrays: dict[str, np.ndarray]):
        self.kinds, self.arrays = kinds, arrays

    def node(self, value: Any, name: str) -> Any:
        if type(value) in _PLAIN:
            return value
        if self.kinds.knows(value):
            return self._object(value, name)
        if isinstance(value, dict):
            if not all(isinstance(key, (str, int)) for key in value):
                raise TypeError(f"{name} cannot be saved: its keys are not strings.")
            return {
                "dict": [[key, self.node(part, f"{name}.{key}")] for key, part in value.items()]
            }
        if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
            parts = [self.node(part, f"{name}.{k}") for k, part in enumerate(value)]
            return {type(value).__name__: parts}
        if isinstance(value, datetime.datetime):
            return {"datetime": value.isoformat()}
        if isinstance(value, datetime.date):
            return {"date": value.isoformat()}
        if sparse.issparse(value):
            return self._sparse(value, name)
        if isinstance(value, (np.ndarray, np.generic)) or _is_jax(value):
            return self._array(value, name)
        raise TypeError(f"{name} cannot be saved: it is a {type(value).__name__}.")

    def _object(self, value: Any, name: str) -> Any:
        kind = type(value).__name__
        if type(value) in self.kinds.special:
            there, _ = self.kinds.special[type(value)]
            return {"object": kind, "of": self.node(there(value), name)}
        if isinstance(value, enum.Enum):
            return {"object": kind, "of": value.name}
        fields = {field: getattr(value, field) for field in _fields(type(value))}
        return {"object": kind, "of": self.node(fields, name)}

    def _array(self, value: Any, name: str) -> Any:
        array = np.asarray(value)
        if array.dtype.kind in "OU":
            listed = [
                self.node(part, f"{name}.{k}") for k, part in enumerate(array.ravel().tolist())
            ]
            return {"objects": listed, "shape": list(array.shape)}
        node: dict[str, Any] = {"scalar" if isinstance(value, np.generic) else "array": name}
        if array.dtype.kind in "mM":
            node["time"], array = array.dtype.str, array.view(np.int64)
        elif array.dtype.kind == "c":
            node["complex"], array = array.dtype.str, np.stack([np.real(array), np.imag(array)], -1)
        if array.dtype.kind not in _NUMBERS or array.itemsize > 8:
            raise TypeError(f"{name} cannot be saved: it is an array of {array.dtype}.")
        axes = _axes(array)
        if axes != sorted(axes):
            node["axes"], array = axes, array.transpose(axes)
        self.arrays[name] = np.asarray(array, order="C")
        return node

    def _sparse(self, value: Any, name: str) -> Any:
        coo = value.tocoo()
        parts = {f"{name}.{k}": index for k, index in enumerate(coo.coords)}
        for place, index in (*parts.items(), (f"{name}.values", coo.data)):
            self.arrays[place] = np.asarray(index, order="C")
        return {
            "sparse": value.format,
            "shape": list(coo.shape),
            "places": list(parts),
            "values": f"{name}.values",
        }


class Reading:
    """Converts JSON and arrays back to values, each checked before it is created."""

    def __init__(self, kinds: Kinds, arrays: Mapping[str, np.ndarray]):
        self.kinds, self.arrays = kinds, arrays

    def value(self, node: Any) -> Any:
        if isinstance(node, _PLAIN):
            return node
        if not isinstance(node, dict) or not node:
            raise Misfit("a list was found instead of a value")
        kind = next(iter(node))
        made = getattr(self, f"_read_{kind}", None) if kind in _NODES else None
        if made is None:
            raise Misfit(f"the type {kind!r} is unknown")
        return made(node)

    def _part(self, node: dict, name: str, kind: type) -> Any:
        if not isinstance(node.get(name), kind):
            raise Misfit(f"{name!r} of a value is missing, or has another type")
        return node[name]

    def _read_dict(self, node: dict) -> dict:
        pairs = self._part(node, "dict", list)
        if not all(
            isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], (str, int))
            for pair in pairs
        ):
            raise Misfit("a dict does not consist of names and values")
        return {key: self.value(part) for key, part in pairs}

    def _read_list(self, node: dict) -> list:
        return [self.value(part) for part in self._part(node, "list", list)]

    def _read_tuple(self, node: dict) -> tuple:
        return tuple(self.value(part) for part in self._part(node, "tuple", list))

    def _read_datetime(self, node: dict) -> datetime.datetime:
        return datetime.datetime.fromisoformat(self._part(node, "datetime", str))

    def _read_date(self, node: dict) -> datetime.date:
        return datetime.date.fromisoformat(self._part(node, "date", str))

    def _named(self, name: Any) -> np.ndarray:
        if not isinstance(name, str) or name not in self.arrays:
            raise Misfit(f"the array {name!r} is missing")
        return self.arrays[name]

    def _read_array(self, node: dict) -> np.ndarray:
        array = self._named(node["array" if "array" in node else "scalar"])
        if "axes" in node:
            axes = self._part(node, "axes", list)
            if not all(type(k) is int for k in axes) or sorted(axes) != list(range(array.ndim)):
                raise Misfit("the axes of an array are not a permutation")
            array = array.transpose(np.argsort(axes))
        if "time" in node:
            time = self._part(node, "time", str)
            if not re.fullmatch(r"[<>][mM]8(\[\d*[A-Za-zμ]+\])?", time) or array.dtype != np.int64:
                raise Misfit("a time has an unknown type")
            return array.view(time)
        if "complex" in node:
            if array.ndim == 0 or array.shape[-1] != 2 or array.dtype.kind != "f":
                raise Misfit("complex numbers do not have two parts")
            return np.ascontiguousarray(array).view(f"c{2 * array.itemsize}")[..., 0]
        return array

    def _read_scalar(self, node: dict) -> Any:
        array = self._read_array(node)
        if array.ndim:
            raise Misfit("an array was found instead of a number")
        return array[()]

    def _shape(self, node: dict) -> tuple[int, ...]:
        shape = self._part(node, "shape", list)
        if not all(type(size) is int and 0 <= size < 2**62 for size in shape):
            raise Misfit("a shape does not consist of sizes")
        return tuple(shape)

    def _read_objects(self, node: dict) -> np.ndarray:
        listed, shape = self._part(node, "objects", list), self._shape(node)
        if len(listed) != int(np.prod(shape, dtype=object)):
            raise Misfit("an array of names has another shape")
        array = np.empty(len(listed), object)
        array[:] = [self.value(part) for part in listed]
        return array.reshape(shape)

    def _read_sparse(self, node: dict) -> Any:
        form, shape = self._part(node, "sparse", str), self._shape(node)
        if form not in ("coo", "csr", "csc"):
            raise Misfit("a sparse array has an unknown format")
        require_memory((max(shape, default=0),), 8, "A sparse array", "Its shape may be wrong.")
        places = tuple(self._named(place) for place in self._part(node, "places", list))
        return sparse.coo_array((self._named(node.get("values")), places), shape).asformat(form)

    def _read_object(self, node: dict) -> Any:
        name = self._part(node, "object", str)
        kind = self.kinds.by_name.get(name)
        if kind is None:
            raise Misfit(f"{name!r} is not one of the allowed classes")
        of = self.value(node.get("of"))
        if kind in self.kinds.special:
            return self.kinds.special[kind][1](of)
        if issubclass(kind, enum.Enum):
            if not isinstance(of, str) or of not in kind.__members__:
                raise Misfit(f"{kind.__name__} has no {of!r}")
            return kind[of]
        check_fields(of, _fields(kind), kind.__name__)
        made = object.__new__(kind) if not issubclass(kind, tuple) else None
        if made is None:
            return kind(**of)
        # Initialisers are bypassed: they may take other arguments than the fields.
        for field, value in of.items():
            object.__setattr__(made, field, value)
        if hasattr(made, "check_saved"):
            made.check_saved()
        return made


def _axes(array: np.ndarray) -> list[int]:
    """Axes in order of decreasing stride: the last bits of sums depend on it."""
    return sorted(range(array.ndim), key=lambda k: -abs(array.strides[k]))


_NODES = {name.removeprefix("_read_") for name in vars(Reading) if name.startswith("_read_")}


def _is_jax(value: Any) -> bool:
    """Whether it is a JAX array, without importing JAX."""
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(value, jax.Array)


def _fields(kind: type) -> dict[str, Any]:
    """Names and types of the fields of a class."""
    hints = typing.get_type_hints(kind)
    if issubclass(kind, tuple):
        return {name: hints.get(name, Any) for name in kind._fields}  # pyright: ignore
    return {field.name: hints.get(field.name, Any) for field in dataclasses.fields(kind)}


def check_fields(values: Any, declared: Mapping[str, Any], what: str) -> None:
    """Raise an error if values do not have exactly the declared names and types."""
    if not isinstance(values, dict) or set(values) != set(declared):
        raise Misfit(f"a {what} has other fields")
    check_types(values, declared, what)


def check_types(values: Mapping[str, Any], declared: Mapping[str, Any], what: str) -> None:
    """Raise an error if a value has no declared name, or another type."""
    for name, value in values.items():
        if name not in declared:
            raise Misfit(f"a {what} has no {name!r}")
        if not _fits(value, declared[name]):
            raise Misfit(f"{name} of a {what} has another type")


_NUMBER_TYPES = {
    float: (float, int, np.floating, np.integer),
    int: (int, np.integer),
    bool: (bool, np.bool_),
}


def _fits(value: Any, declared: Any) -> bool:
    """Whether a value has a type, as far as it is one of Python's or NumPy's."""
    origin, inside = typing.get_origin(declared), typing.get_args(declared)
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, each) for each in inside)
    if origin in (tuple, list, dict):
        return isinstance(value, origin) and _parts_fit(value, origin, inside)
    if declared in _NUMBER_TYPES:
        # bool is a subclass of int.
        return isinstance(value, _NUMBER_TYPES[declared]) and (
            declared is bool or not isinstance(value, (bool, np.bool_))
        )
    if declared in (str, dict, list, tuple, type(None)):
        return isinstance(value, declared)
    if isinstance(declared, type) and (declared is np.ndarray or issubclass(declared, enum.Enum)):
        return isinstance(value, declared)
    return declared is Any or not isinstance(value, str)


def _parts_fit(value: Any, origin: type, inside: tuple) -> bool:
    if origin is dict:
        return all(_fits(key, inside[0]) and _fits(each, inside[1]) for key, each in value.items())
    if origin is tuple and not (len(inside) == 2 and inside[1] is Ellipsis):
        return len(value) == len(inside) and all(map(_fits, value, inside))
    return all(_fits(each, inside[0]) for each in value)
