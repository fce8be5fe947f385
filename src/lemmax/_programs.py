"""Compiled programs of lemmax's own, which it can drop without touching the user's.

Programs take maps of memory, of which a process has a limited number.
"""

import functools
import gc
import pathlib
import weakref
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax

# Linux allows a process 65530 maps; without more, the compiler takes the process down.
_MAPS, _MANY = pathlib.Path("/proc/self/maps"), 30_000
_own: weakref.WeakSet[Any] = weakref.WeakSet()


def own(program: Any) -> Any:
    """Remember a function that `jax.jit` has returned as one whose programs may be dropped."""
    _own.add(program)
    return program


class _Fixed(eqx.Module):
    """What a function returns beside arrays."""

    value: Any = eqx.field(static=True)


def compiled(function: Callable) -> Callable:
    """Compile a function of any pytrees for all values of their arrays; the rest is fixed.

    As `equinox.filter_jit` does, but so that the programs can be dropped.
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
        arrays, fixed = jitted(*split(args))
        return eqx.combine(arrays, fixed.value)

    call.lower = lambda *args: jitted.lower(*split(args))  # pyright: ignore
    return call


def forget_programs_if_many() -> None:
    """Drop lemmax's compiled programs before there are too many; those that are needed come again.

    Data of ever new shapes need ever new programs: a thousand tables, each of its own shape, would
    end in a crash.
    """
    if programs_are_many():
        for program in list(_own):
            program.clear_cache()
        gc.collect()


def programs_are_many() -> bool:
    """Whether the process has used up half of its maps of memory."""
    return _MAPS.exists() and _MAPS.read_bytes().count(b"\n") > _MANY
