"""Kill -9 at random moments: nothing half-written, the same answer in the end, little lost.

    python -m benchmarks.kills --count 50

Each entry is run once undisturbed. Then it is started, killed at a random moment, started again
with the same folder, killed again, and let come to its end. What it ends with must be equal to the
last bit. After every kill all files must be whole. A call that tells its progress must go on where
it was, but for a chunk.
"""

import argparse
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import numpy as np

# Progress that may be lost: a second of work, and what writing adds on a busy machine.
CHUNK_SECONDS = 2.5
STEPS = 25


def solve(folder: str, out: pathlib.Path) -> None:
    """A run of some seconds with a schedule, which must go on where it was."""
    import lemmax as lm
    from lemmax.experiments.instances import psd_sensing

    instance = psd_sensing(0, dim=30, rank=5, true_rank=3, measurements=2000, outliers=0.2)
    result = lm.solve(
        instance.problem,
        lm.methods.lmm(lm.steps.Geometric(0.3, 0.999), lm.damping.Geometric(1.0, 0.999)),
        instance.x0,
        max_steps=1500,
        tol=0.0,
        every=STEPS,
        callback=lambda snapshot: tell(snapshot.step, snapshot.value),
        checkpoint=folder,
    )
    np.save(out / "x.npy", result.last_x)
    np.save(out / "trace.npy", result.trace.value)


def recover(folder: str, out: pathlib.Path) -> None:
    """A table of some seconds."""
    import lemmax as lm

    found = lm.recover(
        table(),
        lm.maps.LowRank((3000, 200), 8),
        callback=lambda stage, step, value: tell(step, value),
        checkpoint=folder,
    )
    np.save(out / "residual.npy", found.residual)
    for k, factor in enumerate(found.x):
        np.save(out / f"factor{k}.npy", factor)
    (out / "status.txt").write_text(f"{found.status.name} {found.noise!r} {found.steps}")


def tell(step: int, value: float) -> None:
    """Say how far it is, for who counts what is lost: steps of a search may begin anew."""
    print(f"{step}:{value!r}", time.perf_counter(), flush=True)


def table() -> np.ndarray:
    """Of rank 5 with noise, wrong cells and holes."""
    rng = np.random.default_rng(0)
    table = rng.standard_normal((3000, 5)) @ rng.standard_normal((5, 200))
    table += 0.3 * rng.standard_normal(table.shape)
    table[rng.random(table.shape) < 0.05] = 20.0
    table[rng.random(table.shape) < 0.2] = np.nan
    return table


def ratings() -> str:
    """A list of entries, as a csv file."""
    rng = np.random.default_rng(0)
    rows, columns = rng.integers(0, 1500, 60_000), rng.integers(0, 800, 60_000)
    left, right = rng.standard_normal((1500, 3)), rng.standard_normal((800, 3))
    values = 3 + np.sum(left[rows] * right[columns], axis=1) + 0.5 * rng.standard_normal(60_000)
    lines = (f"u{u},i{i},{v:.2f}" for u, i, v in zip(rows, columns, values, strict=True))
    return "\n".join(["user,item,rating", *lines])


CALLS: dict[str, Callable[[str, pathlib.Path], None]] = {"solve": solve, "recover": recover}
ENTRIES = (*CALLS, "pca", "complete", "reproduce")


def command(name: str, data: pathlib.Path, folder: pathlib.Path, out: pathlib.Path) -> list[str]:
    """What starts an entry, or goes on with it."""
    if name in CALLS:
        return [sys.executable, "-m", "benchmarks.kills", "--run", name, str(folder), str(out)]
    main = [sys.executable, "-c", "from lemmax.cli import main; main()", name]
    if name == "reproduce":
        return [*main, "fig4", "--quick", "--resume", "--out", str(out)]
    file = data / {"pca": "table.npy", "complete": "ratings.csv"}[name]
    return [*main, str(file), "--checkpoint", str(folder), "--out", str(out)]


def answer(out: pathlib.Path) -> dict[str, bytes]:
    """What does not depend on the time: numbers."""
    kept = (".npy", ".csv", ".txt")
    return {p.name: p.read_bytes() for p in sorted(out.iterdir()) if p.suffix in kept}


def broken(folder: pathlib.Path) -> list[str]:
    """Files of a checkpoint that cannot be read."""
    from lemmax._plain import Kinds
    from lemmax._storage import Unreadable, read

    names = []
    for path in folder.glob("[!.]*.safetensors"):
        try:
            read(path, ("journal", "checkpoint of solve"), Kinds())
        except Unreadable as error:
            names.append(str(error))
    return names


def leftovers(*folders: pathlib.Path) -> list[str]:
    """Partial files, hidden or not."""
    return [str(p) for folder in folders for p in folder.rglob("*partial*")]


Told = list[tuple[str, float]]


def progress(said: str) -> Told:
    """Places and times that a run has told; the last line may be cut."""
    lines = (line.split() for line in said.splitlines()[:-1])
    return [(line[0], float(line[1])) for line in lines if len(line) == 2]


def lost(calm: Told, before: Told, after: Told) -> tuple[int, float]:
    """Places and seconds of the undisturbed run that a kill has cost."""
    if not before or not after:
        return 0, 0.0
    order = {place: (k, moment) for k, (place, moment) in enumerate(calm)}
    there, moment = order[before[-1][0]]
    again, earlier = order[after[0][0]]
    return max(0, there - again), max(0.0, moment - earlier)


def check(name: str, count: int, rng: np.random.Generator, root: pathlib.Path) -> int:
    """Kill an entry so often; how many times something was wrong."""
    calm = root / f"{name}-calm"
    calm.mkdir()
    began = time.perf_counter()
    first = subprocess.run(
        command(name, root, root / f"{name}-calm-kept", calm), capture_output=True, text=True
    )
    whole = time.perf_counter() - began
    wanted, timeline = answer(calm), progress(first.stdout) if name in CALLS else []
    if first.returncode not in (0, 1) or not wanted:
        print(f"{name}: it does not run: {first.stderr[-500:]}")
        return 1
    kills, failures, rounds, most_steps, most_seconds = 0, 0, 0, 0, 0.0
    while kills < count:
        rounds += 1
        place = root / f"{name}-{rounds}"
        folder, out = place / "kept", place / "out"
        out.mkdir(parents=True)
        told: Told = []
        for attempt in range(3):
            run = subprocess.Popen(
                command(name, root, folder, out),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            limit = None if attempt == 2 or kills == count else rng.uniform(0.15, 1.0) * whole
            try:
                said, errors = run.communicate(timeout=limit)
                ended = True
            except subprocess.TimeoutExpired:
                run.send_signal(signal.SIGKILL)
                said, errors = run.communicate()
                kills, ended = kills + 1, False
            now = progress(said) if name in CALLS else []
            steps, seconds = lost(timeline, told, now)
            told = now or told
            if steps > 1 and seconds > CHUNK_SECONDS:
                failures += 1
                print(f"{name}: {steps} chunks and {seconds:.1f} s were lost")
            most_steps, most_seconds = max(most_steps, steps), max(most_seconds, seconds)
            for sentence in broken(folder) if folder.exists() else []:
                failures += 1
                print(f"{name}: {sentence}")
            if ended:
                break
        if run.returncode != first.returncode:
            failures += 1
            print(f"{name}: it ends with {run.returncode}: {errors[-300:]}")
        elif answer(out) != wanted:
            failures += 1
            print(f"{name}: another answer")
        if left := leftovers(place):
            failures += 1
            print(f"{name}: left behind: {left}")
    cost = f"; at most {most_steps} chunks, {most_seconds:.1f} s lost" if name in CALLS else ""
    print(f"{name}: {kills} kills, {whole:.1f} s without{cost}; {failures} failures", flush=True)
    return failures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--count", type=int, default=50, help="kills of all entries together")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--only", default=",".join(ENTRIES))
    parser.add_argument("--run", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        name, folder, out = options.run
        CALLS[name](folder, pathlib.Path(out))
        return 0
    names, rng = options.only.split(","), np.random.default_rng(options.seed)
    with tempfile.TemporaryDirectory() as root:
        np.save(pathlib.Path(root) / "table.npy", table())
        (pathlib.Path(root) / "ratings.csv").write_text(ratings())
        each = -(-options.count // len(names))
        failures = sum(check(name, each, rng, pathlib.Path(root)) for name in names)
    print(f"{failures} failures")
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
