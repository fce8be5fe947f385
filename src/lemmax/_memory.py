"""Refuse arrays that do not fit in memory, before they are allocated."""

import itertools
import math
import os
import pathlib
from collections.abc import Iterator

# Smaller arrays are not checked.
SMALL = 2**26
# Reserve for other allocations of the program.
_RESERVE = 2**28

_IN_A_POINT = "Keep it factored, use a smaller size, or float32."


def require_memory(shape: tuple[int, ...], itemsize: int, what: str, cure: str = "") -> None:
    """Raise a MemoryError with the required and the available bytes if ``what`` does not fit.

    Parameters
    ----------
    shape, itemsize
        Shape and item size of the array to be allocated.
    what : str
        The name of the array, at the beginning of the message.
    cure : str
        Advice. A ``{rows}`` in it is replaced by the number of rows that fit.
    """
    row = math.prod(shape[1:]) * itemsize
    described = f"{what} of shape {shape}" if len(shape) > 1 else what
    require_bytes(math.prod(shape) * itemsize, described, cure or _IN_A_POINT, row)


def require_bytes(needed: int, what: str, cure: str, row: int = 1) -> None:
    """Raise a MemoryError if this many bytes do not fit; ``row`` is the size of a row."""
    if needed <= SMALL:
        return
    available = available_bytes()
    if available is None:
        return
    room = max(0, available - _RESERVE)
    if needed > room:
        raise MemoryError(
            f"{what} needs {needed:,} bytes ({needed / 2**30:.1f} GiB), but only "
            f"{room:,} ({room / 2**30:.1f} GiB) are free. "
            + cure.replace("{rows}", f"{room // row:,}")
        )


def available_bytes(
    proc: pathlib.Path = pathlib.Path("/proc"),
    groups: pathlib.Path = pathlib.Path("/sys/fs/cgroup"),
) -> int | None:
    """Bytes that can still be allocated: unused memory, or what the control groups allow.

    If the system does not report this (Linux does), the physical memory. None if unknown.
    """
    unused = _entry(proc / "meminfo", "MemAvailable:", unit=1024)
    if unused is None:
        return physical_bytes()
    limits = (_left_in_groups(proc / "self" / "cgroup", groups), _left_to_process(proc / "self"))
    return min([unused, *itertools.chain(*limits)])


def _left_to_process(process: pathlib.Path) -> Iterator[int]:
    """Bytes left by a limit on the address space (``ulimit -v``)."""
    import resource  # exists wherever /proc does

    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    used = _entry(process / "status", "VmSize:", unit=1024)
    if limit != resource.RLIM_INFINITY and used is not None:
        yield max(0, limit - used)


def _left_in_groups(membership: pathlib.Path, root: pathlib.Path) -> Iterator[int]:
    """Bytes left by the control groups (v1 or v2) of a process."""
    for line in _read(membership).splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            top, limit, used, cached = root, "memory.max", "memory.current", "inactive_file"
        elif "memory" in controllers.split(","):
            top, limit, used = root / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes"
            cached = "total_inactive_file"
        else:
            continue
        group = top / path.lstrip("/")
        # In a container the path may be the host's and not exist; the root still does.
        for folder in (group, *group.parents):
            limit_bytes, used_bytes = _read(folder / limit).strip(), _read(folder / used).strip()
            if limit_bytes.isdigit() and used_bytes.isdigit():
                # Cached files count as used, but can be reclaimed.
                reclaimed = _entry(folder / "memory.stat", cached) or 0
                yield max(0, int(limit_bytes) - int(used_bytes) + reclaimed)
            if folder == top:
                break


def _entry(path: pathlib.Path, key: str, unit: int = 1) -> int | None:
    for line in _read(path).splitlines():
        name, *rest = line.split()
        if name == key:
            return int(rest[0]) * unit
    return None


def _read(path: pathlib.Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def physical_bytes() -> int | None:
    """Physical memory of the machine; None if the system does not report it."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not a POSIX system
        return None
