"""What `lm.recover` is worth, on fresh seeds: tables, and a picture of where it succeeds.

    python -m benchmarks.recover            # everything (hours); names of parts for some of it
    python -m benchmarks.recover noise --seeds 5

The parts: `map` (success against the paper's tuned Configuration 2, which is given a start),
`passes` over the measurements, `kinds` of problems, `entries` of matrices, `noise` against an
oracle, `honesty` of the verdicts, and `challenges` to it. Results go to `lemmax-recover` as CSV;
what is there is not run again, and an interrupted part goes on where it was. One process works on
each core.
"""

import argparse
import csv
import multiprocessing
import os
import pathlib
import time
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from . import _recover_cases, _recover_challenges, _recover_honesty, _recover_maps

Row = dict[str, object]
Task = Callable[[], list[Row]]

PARTS: dict[str, Callable[[int], Iterator[Task]]] = {
    "map": _recover_maps.success_map,
    "passes": _recover_cases.passes,
    "kinds": _recover_cases.kinds,
    "entries": _recover_cases.entries,
    "noise": _recover_cases.noise,
    "honesty": _recover_honesty.honesty,
    "challenges": _recover_challenges.challenges,
}
SUMMARIES = {
    "map": _recover_maps.summary,
    "passes": _recover_cases.summary_of_passes,
    "kinds": _recover_cases.summary_of_kinds,
    "entries": _recover_cases.summary_of_kinds,
    "noise": _recover_cases.summary_of_noise,
    "honesty": _recover_honesty.summary,
    "challenges": _recover_challenges.summary,
}
_TASK = "task"
# Each process has one core: what the libraries start beside it would be in the way.
_ALONE = {"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false", "OPENBLAS_NUM_THREADS": "1"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="all if none is named")
    parser.add_argument("--seeds", type=int, default=20, help="instances of each kind")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("lemmax-recover"))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    console = Console()
    for name in arguments.parts or PARTS:
        path = arguments.out / f"{name}.csv"
        if not path.exists():
            measure(path, name, arguments.seeds, arguments.jobs)
        rows = read(path)
        table = Table(title=name)
        lines = SUMMARIES[name](rows)
        for heading in lines[0]:
            table.add_column(heading)
        for line in lines:
            table.add_row(*map(str, line.values()))
        console.print(table)
        if name == "map":
            _recover_maps.draw(rows, arguments.out / "map.png")


def measure(path: pathlib.Path, name: str, seeds: int, jobs: int) -> None:
    """Share the tasks out, and put the rows together when all are there."""
    os.environ.update(_ALONE)
    context = multiprocessing.get_context("spawn")
    parts = [path.with_suffix(f".{job}.part") for job in range(jobs)]
    workers = [
        context.Process(target=work, args=(part, name, seeds, job, jobs))
        for job, part in enumerate(parts)
    ]
    total = sum(1 for _ in PARTS[name](seeds))
    for worker in workers:
        worker.start()
    with Progress() as progress:
        bar = progress.add_task(name, total=total)
        while any(worker.is_alive() for worker in workers):
            time.sleep(1)
            progress.update(bar, completed=sum(len(finished(part)) for part in parts))
    if any(worker.exitcode for worker in workers):
        raise SystemExit(f"{name} was not finished; call again to go on.")
    rows = sorted((row for part in parts for row in read(part)), key=lambda row: int(row[_TASK]))
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    for part in parts:
        part.unlink()


def work(part: pathlib.Path, name: str, seeds: int, job: int, jobs: int) -> None:
    """Every so-many-th task that is not done yet; the rows of one are written at once."""
    import jax

    jax.config.update("jax_enable_x64", True)
    # What one process has compiled, no other has to.
    jax.config.update("jax_compilation_cache_dir", str(part.parent / "compiled"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
    done, parent = finished(part), os.getppid()
    for number, task in enumerate(PARTS[name](seeds)):
        if number % jobs != job or number in done:
            continue
        if os.getppid() != parent:  # which has been killed
            return
        rows = task()
        begins = not part.exists()
        with part.open("a", newline="") as file:
            writer = csv.DictWriter(file, [_TASK, *rows[0]])
            if begins:
                writer.writeheader()
            writer.writerows({_TASK: number, **row} for row in rows)


def finished(part: pathlib.Path) -> set[int]:
    """Numbers of the tasks whose rows are there."""
    return {int(row[_TASK]) for row in read(part)} if part.exists() else set()


def read(path: pathlib.Path) -> list[dict[str, str]]:
    """The rows of a file."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


if __name__ == "__main__":
    main()
