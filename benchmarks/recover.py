"""What `lm.recover` is worth, on fresh seeds: tables, and a picture of where it succeeds.

    python -m benchmarks.recover            # everything (hours); names of parts for some of it
    python -m benchmarks.recover noise --seeds 5

The parts: `map` (success against the paper's tuned Configuration 2, which is given a start),
`passes` over the measurements, `kinds` of problems, `entries` of matrices, `noise` against an
oracle, and `honesty` of the verdicts. Results go to `lemmax-recover` as CSV; what is there is not
run again.
"""

import argparse
import csv
import pathlib
from collections.abc import Callable, Iterator

import jax
from rich.console import Console
from rich.progress import track
from rich.table import Table

from . import _recover_cases, _recover_maps

Row = dict[str, object]

PARTS: dict[str, Callable[[int], Iterator[Row]]] = {
    "map": _recover_maps.success_map,
    "passes": _recover_cases.passes,
    "kinds": _recover_cases.kinds,
    "entries": _recover_cases.entries,
    "noise": _recover_cases.noise,
    "honesty": _recover_cases.honesty,
}
SUMMARIES = {
    "map": _recover_maps.summary,
    "passes": _recover_cases.summary_of_passes,
    "kinds": _recover_cases.summary_of_kinds,
    "entries": _recover_cases.summary_of_kinds,
    "noise": _recover_cases.summary_of_noise,
    "honesty": _recover_cases.summary_of_honesty,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="all if none is named")
    parser.add_argument("--seeds", type=int, default=20, help="instances of each kind")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("lemmax-recover"))
    arguments = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    arguments.out.mkdir(parents=True, exist_ok=True)
    console = Console()
    for name in arguments.parts or PARTS:
        path = arguments.out / f"{name}.csv"
        rows = read(path) if path.exists() else written(path, PARTS[name](arguments.seeds), name)
        table = Table(title=name)
        lines = SUMMARIES[name](rows)
        for heading in lines[0]:
            table.add_column(heading)
        for line in lines:
            table.add_row(*map(str, line.values()))
        console.print(table)
        if name == "map":
            _recover_maps.draw(rows, arguments.out / "map.png")


def written(path: pathlib.Path, rows: Iterator[Row], name: str) -> list[dict[str, str]]:
    """Write row by row under another name; a part that is complete gets its own."""
    unfinished = path.with_suffix(".part")
    with unfinished.open("w", newline="") as file:
        writer = None
        for row in track(rows, description=name):
            if writer is None:
                writer = csv.DictWriter(file, list(row))
                writer.writeheader()
            writer.writerow(row)
            file.flush()
    unfinished.replace(path)
    return read(path)


def read(path: pathlib.Path) -> list[dict[str, str]]:
    """The rows of a finished part."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


if __name__ == "__main__":
    main()
