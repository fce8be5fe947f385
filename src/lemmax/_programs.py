"""lemmax's own compiled programs, which can be dropped without affecting the user's.

Compiled programs use memory maps, of which a process has a limited number.
"""

import functools
import gc
import pathlib
import weakref
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax

from ._memory import SMALL, require_bytes
from ._tree import is_traced

# Linux allows 65530 maps per process; beyond that, the compiler crashes the process.
_MAPS, _MANY = pathlib.Path("/proc/self/maps"), 30_000
_own: weakref.WeakSet[Any] = weakref.WeakSet()


def own(program: Any) -> Any:
    """Register a function returned by `jax.jit` as one whose programs may be dropped."""
    _own.add(program)
    return program


class _Fixed(eqx.Module):
    """The static part of a function's result."""

    value: Any = eqx.field(static=True)


def compiled(function: Callable) -> Callable:
    """Compile a function of pytrees; their arrays are arguments, everything else is static.

    Like `equinox.filter_jit`, but the programs can be dropped, and a call is refused if what it
    allocates does not fit in memory.
    """

    def program(arrays: Any, rest: tuple) -> Any:
        leaves, structure = rest
        found = function(*eqx.combine(arrays, jax.tree.unflatten(structure, leaves)))
        arrays, fixed = eqx.partition(found, eqx.is_array)
        return arrays, _Fixed(fixed)

    program.__name__ = program.__qualname__ = function.__name__
    jitted = own(jax.jit(program, static_argnums=1))

    def split(args: tuple) -> tuple[Any, tuple]:
        arrays, rest = eqx.partition(args, eqx.is_array)
        leaves, structure = jax.tree.flatten(rest)
        return arrays, (tuple(leaves), structure)

    @functools.wraps(function)
    def call(*args: Any) -> Any:
        arrays, rest = split(args)
        _require_memory(jitted, arrays, rest)
        arrays, fixed = jitted(arrays, rest)
        return eqx.combine(arrays, fixed.value)

    call.lower = lambda *args: jitted.lower(*split(args))  # pyright: ignore
    return call


def _require_memory(program: Any, arrays: Any, rest: tuple) -> None:
    """Raise an error if results and temporary arrays of a program do not fit.

    The compiler knows their sizes. Compiling here and calling afterwards compiles once.
    """
    leaves = jax.tree.leaves(arrays)
    if is_traced(arrays) or sum(leaf.nbytes for leaf in leaves) <= SMALL:
        return
    if jax.default_backend() != "cpu":  # the memory of the device is not that of the machine
        return
    sizes = program.lower(arrays, rest).compile().memory_analysis()
    if sizes is None:
        return
    needed = sizes.temp_size_in_bytes + sizes.output_size_in_bytes - sizes.alias_size_in_bytes
    # Sizes are per device, and the devices of a CPU share the memory.
    given = [leaf for leaf in leaves if isinstance(leaf, jax.Array)]
    devices = max((len(leaf.sharding.addressable_devices) for leaf in given), default=1)
    what = f"One step with arrays of {sum(leaf.nbytes for leaf in leaves):,} bytes"
    require_bytes(needed * devices, what, "Use a smaller problem, or float32.")


def forget_programs_if_many() -> None:
    """Drop lemmax's compiled programs before there are too many; they are recompiled on demand.

    Every new shape needs new programs: a thousand tables of different shapes would crash the
    process.
    """
    if programs_are_many():
        for program in list(_own):
            program.clear_cache()
        gc.collect()


def programs_are_many() -> bool:
    """Whether the process has used about half of its memory maps."""
    return _MAPS.exists() and _MAPS.read_bytes().count(b"\n") > _MANY
