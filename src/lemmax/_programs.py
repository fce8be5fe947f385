"""Compiled programs take maps of memory, of which a process has a limited number."""

import gc
import pathlib

import jax

# Linux allows a process 65530 maps; without more, the compiler takes the process down.
_MAPS, _MANY = pathlib.Path("/proc/self/maps"), 30_000


def forget_programs_if_many() -> None:
    """Drop all compiled programs before there are too many; those that are needed come again.

    Data of ever new shapes need ever new programs: a thousand tables, each of its own shape, would
    end in a crash.
    """
    if _MAPS.exists() and _MAPS.read_bytes().count(b"\n") > _MANY:
        jax.clear_caches()
        gc.collect()
