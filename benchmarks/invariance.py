"""The same data in another order, unit or environment must get the same answer.

    python -m benchmarks.invariance --count 300

Each random instance (tables, measurements and tensors, exact and noisy) is recovered as it is, with
permuted rows and columns, transposed, times 1e3 and 1e-3, and as it is again with two BLAS threads,
with the code that OpenBLAS has for another processor, and with XLA's threads. Each environment is
a process of its own. Verdicts must agree, and of certified answers the ranks and the outliers, in
99.5 % of all pairs; two certified answers must never be different points.
"""

import argparse
import dataclasses
import itertools
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

import numpy as np

KINDS = (
    "exact table",
    "exact measurements",
    "exact tensor",
    "noisy table",
    "noisy measurements",
    "noisy tensor",
)
REFERENCE = "Haswell"
ENVIRONMENTS = {
    REFERENCE: {},
    "Nehalem": {"OPENBLAS_CORETYPE": "Nehalem"},
    "two BLAS threads": {"OPENBLAS_NUM_THREADS": "2"},
    "XLA threads": {"XLA_FLAGS": ""},
}
_ALONE = {
    "OPENBLAS_CORETYPE": "Haswell",
    "OPENBLAS_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
}
VIEWS = ("as it is", "permuted", "transposed", "times 1e3", "times 1e-3")
_UNITS = {"times 1e3": 1e3, "times 1e-3": 1e-3}
WANTED = 0.995
# Certified answers are different if they are farther apart than their expected errors allow.
_ERRORS, _ROUNDING = 3.0, 1e-8
# The status of a call that ended in an exception.
_RAISED = -1


@dataclasses.dataclass
class Instance:
    """Data with what they observe, as arrays in whatever order and unit."""

    data: np.ndarray
    shape: tuple[int, ...]
    bound: int
    matrices: np.ndarray | None
    symmetric: bool = False

    def view(self, name: str, seed: int) -> tuple["Instance", list[np.ndarray], np.ndarray | None]:
        """Another view of the same, with the order of every mode and of the measurements."""
        rng = np.random.default_rng((seed, 1))
        order = [np.arange(n) for n in self.shape]
        listed = None if self.matrices is None else np.arange(len(self.data))
        if name == "permuted":
            order = [rng.permutation(n) for n in self.shape]
            if self.symmetric:
                order = [order[0]] * len(order)
            listed = None if listed is None else rng.permutation(listed)
        data = self.data * _UNITS.get(name, 1.0)
        matrices, shape = self.matrices, self.shape
        if matrices is None or listed is None:
            data = data[np.ix_(*order)]
        else:
            data, matrices = data[listed], matrices[np.ix_(listed, *order)]
        if name == "transposed":
            shape = shape[::-1]
            if matrices is None:
                data = data.T
            else:
                matrices = np.swapaxes(matrices, 1, 2)
        return dataclasses.replace(self, data=data, matrices=matrices, shape=shape), order, listed


def instance(number: int) -> Instance:
    """Draw an instance; the kinds take turns."""
    rng = np.random.default_rng((20260, number))
    level, kind = KINDS[number % len(KINDS)].split()
    rank = int(rng.integers(1, 4 if kind == "table" else 3))
    bound = rank + int(rng.choice([0, 2]))
    wrong = float(rng.choice([0.0, 0.05, 0.15, 0.3, 0.4]))
    noise = 0.0 if level == "exact" else float(rng.choice([1e-4, 1e-2, 1e-1]))
    symmetric = kind == "measurements" and bool(rng.integers(2))
    sides = {"table": (24, 15), "measurements": (8, 8), "tensor": (8, 7, 6)}[kind]
    factors = [rng.standard_normal((n, rank)) for n in sides]
    if symmetric:
        factors[1] = factors[0]
    letters = "abc"[: len(sides)]
    truth = np.einsum(",".join(f"{letter}r" for letter in letters) + f"->{letters}", *factors)
    matrices = None
    values = truth
    if kind == "measurements":
        matrices = rng.standard_normal((int(rng.choice([40, 60, 120, 240])), *sides))
        values = np.einsum("mab,ab->m", matrices, truth)
    size = np.std(values)
    data = values + noise * size * rng.standard_normal(values.shape)
    data = np.where(
        rng.random(data.shape) < wrong, 5 * size * rng.standard_normal(data.shape), data
    )
    if matrices is None:
        data[rng.random(data.shape) > rng.choice([1.0, 0.8])] = np.nan
    return Instance(data, sides, bound, matrices, symmetric)


def work(environment: str, first: int, count: int, path: pathlib.Path) -> None:
    """Recover all instances in this process, and write down what was found."""
    import jax

    import lemmax as lm

    jax.config.update("jax_enable_x64", True)
    kept: dict[str, np.ndarray] = {}
    for number in range(first, first + count):
        for name in VIEWS if environment == REFERENCE else VIEWS[:1]:
            seen, order, listed = instance(number).view(name, number)
            operator = None if seen.matrices is None else lm.operators.Dense(seen.matrices)
            if seen.symmetric:
                map = lm.maps.PSD(seen.shape[0], seen.bound)
            elif len(seen.shape) == 2:
                map = lm.maps.LowRank(seen.shape, seen.bound)
            else:
                map = lm.maps.CP(seen.shape, seen.bound)
            wrong = np.zeros(seen.data.shape, bool)
            try:
                found = lm.recover(seen.data, map, operator)
            except Exception as error:
                print(f"{number}, {name}, {environment}: {type(error).__name__}: {error}")
                facts, point = (_RAISED, 0, np.nan, 0.0), np.full(seen.shape, np.nan)
            else:
                facts = int(found.status), found.rank or 0, found.expected_error, found.seconds
                point, wrong[found.outliers] = np.asarray(found.point.dense()), True
            if name == "transposed":
                point, wrong = point.T, wrong.T
            back = [np.argsort(each) for each in order]
            point = point[np.ix_(*back)] / _UNITS.get(name, 1.0)
            wrong = wrong[np.ix_(*back)] if listed is None else wrong[np.argsort(listed)]
            label = f"{number}/{name}"
            kept[f"{label}/point"], kept[f"{label}/wrong"] = point, wrong
            kept[f"{label}/facts"] = np.array(facts, float)
    np.savez(path, **kept)


@dataclasses.dataclass
class Answer:
    """What one run found, in the order and unit of the instance."""

    status: str
    rank: int
    error: float
    seconds: float
    point: np.ndarray
    wrong: np.ndarray

    @property
    def certified(self) -> bool:
        """Whether the answer claims to be right."""
        return self.status in ("EXACT", "NOISE_LEVEL")

    def __str__(self) -> str:
        return f"{self.status}, rank {self.rank}, {int(self.wrong.sum())} outliers"


def answers(first: int, count: int) -> dict[tuple[int, str], Answer]:
    """Run every environment in a process of its own, one after the other."""
    from lemmax import RecoveryStatus

    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for environment, different in ENVIRONMENTS.items():
            path = pathlib.Path(folder) / "answers.npz"
            own = {**_ALONE, **different}
            # XLA takes a blank for the name of a file.
            own["XLA_FLAGS"] = f"{own['XLA_FLAGS']} {os.environ.get('XLA_FLAGS', '')}".strip()
            # What one process has compiled, no other has to.
            own["JAX_COMPILATION_CACHE_DIR"] = folder
            own["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.1"
            command = [sys.executable, "-m", "benchmarks.invariance", "--work", environment, path]
            command += ["--first", str(first), "--count", str(count)]
            subprocess.run(command, check=True, env={**os.environ, **own})
            with np.load(path) as kept:
                for number, name in itertools.product(range(first, first + count), VIEWS):
                    label = f"{number}/{name}"
                    if f"{label}/facts" not in kept:
                        continue
                    status, rank, error, seconds = kept[f"{label}/facts"]
                    found[number, name if environment == REFERENCE else environment] = Answer(
                        "RAISED" if status == _RAISED else RecoveryStatus(int(status)).name,
                        int(rank),
                        float(error),
                        float(seconds),
                        kept[f"{label}/point"],
                        kept[f"{label}/wrong"],
                    )
    return found


def disagreements(
    found: dict[tuple[int, str], Answer],
) -> Iterator[tuple[int, str, str, bool, bool]]:
    """Every pair of the instance as it is and another view, if there is a difference.

    Of each the instance, the view, what differs, whether it counts, and whether two certified
    answers are different points. The rank and the outliers of a refusal are no claims.
    """
    for (number, name), other in found.items():
        one = found[number, VIEWS[0]]
        distance = np.linalg.norm(one.point - other.point)
        allowed = _ERRORS * (one.error + other.error) + _ROUNDING
        both = one.certified and other.certified
        apart = both and not distance <= allowed * np.linalg.norm(one.point)
        claims = one.rank == other.rank and np.array_equal(one.wrong, other.wrong)
        counts = one.status != other.status or apart or (both and not claims)
        if counts or not claims:
            moved = int(np.sum(one.wrong != other.wrong))
            told = f"{one} | {other}; {moved} outliers moved"
            yield number, name, told, counts, apart


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--count", type=int, default=300, help="instances")
    parser.add_argument("--first", type=int, default=0, help="number of the first instance")
    parser.add_argument("--work", nargs=2, metavar=("ENVIRONMENT", "FILE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        environment, path = arguments.work
        work(environment, arguments.first, arguments.count, pathlib.Path(path))
        return 0
    began = time.perf_counter()
    found = answers(arguments.first, arguments.count)
    pairs = len(found) - arguments.count
    told = list(disagreements(found))
    for number, name, said, counts, apart in told:
        mark = "DIFFERENT ANSWERS CERTIFIED" if apart else "differs" if counts else "refused alike"
        print(f"{number} ({KINDS[number % len(KINDS)]}), {name}: {mark}: {said}")
    differ, apart = sum(case[3] for case in told), sum(case[4] for case in told)
    certified = sum(answer.certified for answer in found.values())
    print(
        f"{arguments.count} instances, {pairs} pairs, {certified} of {len(found)} answers "
        f"certified: {1 - differ / pairs:.2%} of the pairs agree "
        f"({1 - len(told) / pairs:.2%} with rank and outliers of refusals), {apart} certified "
        f"answers differ; {time.perf_counter() - began:.0f} s"
    )
    raised = any(answer.status == "RAISED" for answer in found.values())
    # As far as so few pairs can tell: three standard deviations of what may differ.
    expected = (1 - WANTED) * pairs
    return int(raised or apart > 0 or differ > expected + 3 * expected**0.5)


if __name__ == "__main__":
    sys.exit(main())
