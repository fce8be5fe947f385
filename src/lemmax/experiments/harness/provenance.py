"""Versions and machine of a measurement."""

import os
import pathlib
import platform
from importlib import metadata
from typing import Any

import lemmax as lm

from ..._memory import physical_bytes

PAPER_MACHINE = (
    "Google Colab: NVIDIA T4 with 16 GB (A100 for tensors), 12 GB of system memory; Python "
    "3.11.11, PyTorch 2.5.1, CUDA 12.4, float64. The paper states no times."
)


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that affect the numbers."""
    packages = {name: metadata.version(name) for name in ("jax", "jaxlib", "numpy")}
    return {"python": platform.python_version(), "lemmax": lm.__version__, **packages}


def machine() -> dict[str, Any]:
    """Processor, cores, memory and system; None if unknown."""
    memory = physical_bytes()
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": None if memory is None else round(memory / 2**30, 1),
        "system": f"{platform.system()} {platform.machine()}",
    }


def _processor() -> str | None:
    listing = pathlib.Path("/proc/cpuinfo")
    if listing.exists():
        for line in listing.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or None
