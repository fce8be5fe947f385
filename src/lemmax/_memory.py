"""Refuse, before allocating, what cannot fit."""

import math
import os


def _physical_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not a POSIX system
        return None


def require_memory(shape: tuple[int, ...], itemsize: int, what: str) -> None:
    """Raise a MemoryError that names the number of bytes if ``what`` exceeds this machine."""
    needed = math.prod(shape) * itemsize
    available = _physical_bytes()
    if available is not None and needed > available:
        raise MemoryError(
            f"{what} of shape {shape} needs {needed:,} bytes ({needed / 2**30:.1f} GiB), but this "
            f"machine has {available:,} ({available / 2**30:.1f} GiB). Keep it factored, use a "
            "smaller size, or float32."
        )
