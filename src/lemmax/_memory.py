"""Refuse, before allocating, what cannot fit."""

import itertools
import math
import os
import pathlib
from collections.abc import Iterator

# Less than this is not worth looking up what there is.
_SMALL = 2**26
# What else a program allocates while it works with an array.
_RESERVE = 2**28

_IN_A_POINT = "Keep it factored, use a smaller size, or float32."


def require_memory(shape: tuple[int, ...], itemsize: int, what: str, cure: str = "") -> None:
    """Raise a MemoryError that says what is needed and what there is if ``what`` does not fit.

    Parameters
    ----------
    shape, itemsize
        Of the array about to be allocated.
    what : str
        Its name, to begin the sentence with.
    cure : str
        What to do instead. A ``{rows}`` in it is replaced by the number of rows that fit.
    """
    row = math.prod(shape[1:]) * itemsize
    described = f"{what} of shape {shape}" if len(shape) > 1 else what
    require_bytes(math.prod(shape) * itemsize, described, cure or _IN_A_POINT, row)


def require_bytes(needed: int, what: str, cure: str, row: int = 1) -> None:
    """The same of a number of bytes, of which a row takes so many."""
    if needed <= _SMALL:
        return
    available = available_bytes()
    if available is None:
        return
    room = max(0, available - _RESERVE)
    if needed > room:
        raise MemoryError(
            f"{what} needs {needed:,} bytes ({needed / 2**30:.1f} GiB), but there is room for "
            f"{room:,} ({room / 2**30:.1f} GiB) now. " + cure.replace("{rows}", f"{room // row:,}")
        )


def available_bytes(
    proc: pathlib.Path = pathlib.Path("/proc"),
    groups: pathlib.Path = pathlib.Path("/sys/fs/cgroup"),
) -> int | None:
    """Memory that can still be allocated: what is unused, or what this process's groups leave.

    Where the system does not say (it is Linux that does), all there is. None if unknown.
    """
    unused = _entry(proc / "meminfo", "MemAvailable:", unit=1024)
    if unused is None:
        return physical_bytes()
    limits = (_left_in_groups(proc / "self" / "cgroup", groups), _left_to_process(proc / "self"))
    return min([unused, *itertools.chain(*limits)])


def _left_to_process(process: pathlib.Path) -> Iterator[int]:
    """What a limit on the address space (``ulimit -v``) leaves."""
    import resource  # where there is /proc there is this

    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    used = _entry(process / "status", "VmSize:", unit=1024)
    if limit != resource.RLIM_INFINITY and used is not None:
        yield max(0, limit - used)


def _left_in_groups(membership: pathlib.Path, root: pathlib.Path) -> Iterator[int]:
    """What the control groups of a process, in either version of them, leave it."""
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
        # In a container the path may be that of the host, and not be found: the top still is.
        for folder in (group, *group.parents):
            limit_bytes, used_bytes = _read(folder / limit).strip(), _read(folder / used).strip()
            if limit_bytes.isdigit() and used_bytes.isdigit():
                # Files kept in memory count as used, but give way.
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
    """Of the machine's memory; None where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not a POSIX system
        return None
