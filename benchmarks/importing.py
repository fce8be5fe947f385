"""Importing lemmax takes little longer than importing what it stands on, and starts nothing."""

from collections.abc import Iterator

from .measure import Row, Timings, in_fresh_process, interleave

BOUND = 1.5
_FOUNDATION = "jax, equinox, scipy.linalg, scipy.optimize, scipy.sparse"
# All of it: parts are imported when they are used.
_STATEMENTS = {"lemmax": "from lemmax import *", _FOUNDATION: f"import {_FOUNDATION}"}
_ROUNDS = 7

_IMPORT = """
import json, time
began = time.perf_counter()
{statement}
seconds = time.perf_counter() - began
from jax._src.xla_bridge import backends_are_initialized
print(json.dumps([seconds, backends_are_initialized()]))
"""


def rows() -> Iterator[Row]:
    started_backend = []

    def seconds_to_import(modules: str) -> float:
        seconds, started = in_fresh_process("-c", _IMPORT.format(statement=_STATEMENTS[modules]))
        if modules == "lemmax":
            started_backend.append(started)
        return seconds

    def passes(timings: Timings) -> bool | None:
        return timings.ratio("lemmax", _FOUNDATION).at_most(BOUND)

    jobs = {name: lambda name=name: seconds_to_import(name) for name in ("lemmax", _FOUNDATION)}
    timings = interleave(jobs, _ROUNDS, passes)
    yield Row(
        what=f"from lemmax import * / import {_FOUNDATION}",
        measured=str(timings.ratio("lemmax", _FOUNDATION)),
        bound=f"<= {BOUND}x",
        passes=passes(timings),
        absolute=(
            f"{timings.typical('lemmax'):.2f} s and {timings.typical(_FOUNDATION):.2f} s "
            "in fresh processes"
        ),
    )
    yield Row(
        what="import lemmax starts a backend",
        measured="yes" if any(started_backend) else "no",
        bound="no",
        passes=not any(started_backend),
        absolute=f"{len(started_backend)} fresh processes",
    )
