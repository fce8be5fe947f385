"""Measure everything that is promised, print it as a table, and fail if a promise is broken."""

import argparse
import os
import platform
import sys
import time

import jax
from rich.console import Console
from rich.table import Table

from . import (
    core_solvers,
    direction,
    importing,
    iteration,
    memory,
    operators,
    recovering,
    watching,
)

_VERDICTS = {True: "[green]pass", None: "[yellow]unclear", False: "[bold red]FAIL"}


def main() -> int:
    argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__).parse_args()
    jax.config.update("jax_enable_x64", True)
    console = Console(width=None if sys.stdout.isatty() else 160)
    began = time.perf_counter()
    broken = 0
    table = Table(show_lines=True)
    for heading in ("what", "measured", "bound", "", "absolute (medians)"):
        table.add_column(heading, no_wrap=heading in ("measured", "bound", ""))
    for benchmark in (
        iteration,
        direction,
        core_solvers,
        operators,
        watching,
        importing,
        memory,
        recovering,
    ):
        with console.status(str(benchmark.__doc__)):
            for row in benchmark.rows():
                verdict = _VERDICTS[row.passes] if row.bound else "-"
                table.add_row(row.what, row.measured, row.bound, verdict, row.absolute)
                broken += row.passes is False
    console.print(table)
    load = " ".join(f"{load:.1f}" for load in os.getloadavg())
    console.print(
        "Ratios are medians over interleaved rounds, warm, ± two standard errors; unclear: beyond "
        "the bound, but not by more than these. Measured on "
        f"{platform.machine()}, {os.cpu_count()} CPUs, load {load}, in "
        f"{time.perf_counter() - began:.0f} s."
    )
    if broken:
        console.print(f"[red]{broken} bound(s) violated.")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
