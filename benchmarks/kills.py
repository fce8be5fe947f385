"""Kill -9 at random moments: nothing half-written, the same answer in the end, little lost.

    python -m benchmarks.kills --count 50

Each entry is run once undisturbed. Then it is started, killed at a random moment, started again
with the same folder, killed again, and let come to its end. What it ends with must be equal to the
last bit. After every kill all files must be whole. What a kill loses is the processor's time of
the process since its last checkpoint was written, or since it had started up.
"""

import argparse
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import numpy as np

# What a kill may cost: a second of work on two cores, and what writing a large state delays.
MOST_SECONDS = 2.5


def solve(folder: str, out: pathlib.Path) -> None:
    """Several seconds with a schedule, which must go on where it was."""
    import lemmax as lm
    from lemmax.experiments.instances import psd_sensing

    instance = psd_sensing(0, dim=30, rank=5, true_rank=3, measurements=2000, outliers=0.2)
    result = lm.solve(
        instance.problem,
        lm.methods.lmm(lm.steps.Geometric(0.3, 0.9999), lm.damping.Geometric(1.0, 0.9999)),
        instance.x0,
        max_steps=20_000,
        tol=0.0,
        every=25,
        checkpoint=folder,
    )
    np.save(out / "x.npy", result.last_x)
    np.save(out / "trace.npy", result.trace.value)


def recover(folder: str, out: pathlib.Path) -> None:
    """A table of some seconds."""
    import lemmax as lm

    found = lm.recover(table(), lm.maps.LowRank((3000, 200), 8), checkpoint=folder)
    np.save(out / "residual.npy", found.residual)
    for k, factor in enumerate(found.x):
        np.save(out / f"factor{k}.npy", factor)
    (out / "status.txt").write_text(f"{found.status.name} {found.noise!r} {found.steps}")


def fit_many(folder: str, out: pathlib.Path) -> None:
    """A few hundred thousand curves."""
    import jax.numpy as jnp

    import lemmax as lm

    rng, t = np.random.default_rng(0), np.linspace(0.0, 3.0, 60)
    y = np.exp(-rng.uniform(0.5, 2.0, (400_000, 1)) * t) + 0.01 * rng.standard_normal((400_000, 60))
    y[::3, 7] = 5.0
    fits = lm.fit_many(lambda x: x[0] * jnp.exp(-x[1] * t), y, [1.0, 1.0], checkpoint=folder)
    np.save(out / "x.npy", fits.x)
    np.save(out / "codes.npy", fits.codes)


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


CALLS: dict[str, Callable[[str, pathlib.Path], None]] = {
    "solve": solve,
    "recover": recover,
    "fit_many": fit_many,
}
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


def last_written(*folders: pathlib.Path) -> float | None:
    """When the newest file was written; None if there is none."""
    files = (path for folder in folders for path in folder.rglob("*") if path.is_file())
    return max((path.stat().st_mtime for path in files), default=None)


def seconds_of(arguments: list[str], limit: float | None = None) -> tuple[int | None, str, float]:
    """Exit code (None if killed), complaints and the processor's seconds of a process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        _, errors = run.communicate(timeout=limit)
        code = run.returncode
    except subprocess.TimeoutExpired:
        run.send_signal(signal.SIGKILL)
        _, errors = run.communicate()
        code = None
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return code, errors, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def check(name: str, count: int, rng: np.random.Generator, root: pathlib.Path) -> int:
    """Kill an entry so often; how many times something was wrong."""
    calm = root / f"{name}-calm"
    calm.mkdir()
    undisturbed = command(name, root, root / f"{name}-calm-kept", calm)
    began = time.perf_counter()
    code, errors, work = seconds_of(undisturbed)
    whole = time.perf_counter() - began
    wanted = answer(calm)
    if code not in (0, 1) or not wanted:
        print(f"{name}: it does not run: {errors[-500:]}")
        return 1
    *_, starting = seconds_of(undisturbed)  # all there is to do is done
    kills, failures, rounds, most = 0, 0, 0, 0.0
    while kills < count:
        rounds += 1
        place = root / f"{name}-{rounds}"
        folder, out = place / "kept", place / "out"
        out.mkdir(parents=True)
        ended = None
        for attempt in range(3):
            limit = None if attempt == 2 or kills == count else rng.uniform(0.15, 1.0) * whole
            started = time.time()
            ended, errors, seconds = seconds_of(command(name, root, folder, out), limit)
            stopped, written = time.time(), last_written(folder, out)
            for sentence in broken(folder) if folder.exists() else []:
                failures += 1
                print(f"{name}: {sentence}")
            if ended is not None:
                break
            kills += 1
            lost = max(seconds - starting, 0.0)
            if written is not None and written > started:
                lost = min(lost, seconds * (stopped - written) / (stopped - started))
            most = max(most, lost)
            if lost > MOST_SECONDS:
                failures += 1
                print(f"{name}: {lost:.1f} s were lost in a kill")
        if ended != code:
            failures += 1
            print(f"{name}: it ends with {ended}: {errors[-300:]}")
        elif answer(out) != wanted:
            failures += 1
            print(f"{name}: another answer")
        if left := leftovers(place):
            failures += 1
            print(f"{name}: left behind: {left}")
    print(
        f"{name}: {kills} kills, {work:.1f} s without, {starting:.1f} s to start; "
        f"at most {most:.1f} s lost in a kill; {failures} failures",
        flush=True,
    )
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
