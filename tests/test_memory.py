"""Large measurement arrays exist once, and what cannot fit is refused before it is allocated."""

import re
import subprocess
import sys

import jax
import numpy as np
import pytest

import lemmax as lm
from lemmax import _memory
from lemmax._dtype import aligned_empty
from lemmax._programs import compiled, forget_programs_if_many, own
from lemmax.experiments.instances import cp_sensing, psd_sensing

GIB = 2**30


def system(folder, meminfo, membership="", files=()):
    """A make-believe /proc and /sys/fs/cgroup."""
    proc, groups = folder / "proc", folder / "cgroup"
    (proc / "self").mkdir(parents=True)
    (proc / "meminfo").write_text(meminfo)
    (proc / "self" / "cgroup").write_text(membership)
    for name, text in dict(files).items():
        path = groups / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return _memory.available_bytes(proc, groups)


UNUSED = f"MemTotal: {64 * 2**20} kB\nMemAvailable: {16 * 2**20} kB\n"


def test_unused_memory_counts_not_all_of_it(tmp_path):
    assert system(tmp_path, UNUSED) == 16 * GIB


def test_where_the_system_does_not_say_all_memory_counts(tmp_path):
    assert system(tmp_path, "") == _memory.physical_bytes()


@pytest.mark.parametrize(
    ("membership", "files", "expected"),
    [
        # Version 2: the limit may be a parent's; cached files give way.
        (
            "0::/user/job\n",
            {
                "user/job/memory.max": "max\n",
                "user/job/memory.current": "1000\n",
                "user/memory.max": str(8 * GIB),
                "user/memory.current": str(5 * GIB),
                "user/memory.stat": f"anon 7\ninactive_file {GIB}\n",
            },
            4 * GIB,
        ),
        # Version 1.
        (
            "5:cpu:/\n4:memory:/job\n0::/\n",
            {
                "memory/job/memory.limit_in_bytes": str(3 * GIB),
                "memory/job/memory.usage_in_bytes": str(GIB),
                "memory/memory.limit_in_bytes": str(2**63),
                "memory/memory.usage_in_bytes": str(GIB),
            },
            2 * GIB,
        ),
        # A limit above what is unused.
        ("0::/\n", {"memory.max": str(32 * GIB), "memory.current": "0"}, 16 * GIB),
        # A container that sees only its own group, under the host's name for it.
        (
            "0::/host/name\n",
            {"memory.max": str(6 * GIB), "memory.current": str(GIB)},
            5 * GIB,
        ),
        # Used up.
        ("0::/\n", {"memory.max": str(GIB), "memory.current": str(2 * GIB)}, 0),
    ],
)
def test_a_lower_limit_of_the_control_group_counts(tmp_path, membership, files, expected):
    assert system(tmp_path, UNUSED, membership, files) == expected


def test_what_does_not_fit_now_is_refused_with_what_would(monkeypatch):
    monkeypatch.setattr(_memory, "available_bytes", lambda: 3 * GIB)
    room = 3 * GIB - _memory._RESERVE
    sentence = (
        f"The measurement array of shape (7500, 50, 50, 50) needs 7,500,000,000 bytes (7.0 GiB), "
        f"but only {room:,} (2.8 GiB) are free. "
        f"{room // 10**6:,} measurements would fit; float32 doubles that."
    )

    def never(rows):
        raise AssertionError("allocated")

    with pytest.raises(MemoryError, match=re.escape(sentence)):
        lm.operators.Dense.generate(7500, (50, 50, 50), never)
    with pytest.raises(MemoryError, match=re.escape(sentence)):
        cp_sensing(0, dims=(50, 50, 50), rank=5, measurements=7500)
    with pytest.raises(MemoryError, match=r"needs 11,050,000,000 bytes"):
        lm.operators.SymmetricDense.generate(62_500, 50, never, order=3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_generated_rows_are_those_written_in_order(dtype, monkeypatch):
    monkeypatch.setattr("lemmax.operators._rows._BLOCK_BYTES", 1000)
    expected = np.random.default_rng(0).standard_normal((23, 6, 10)).astype(dtype)
    shapes, position = [], 0

    def fill(rows):
        nonlocal position
        shapes.append(rows.shape)
        rows[:] = expected[position : position + len(rows)].reshape(rows.shape)
        position += len(rows)

    dense = lm.operators.Dense.generate(23, (6, 10), fill, dtype)
    assert len(shapes) > 5
    assert shapes[0][1:] == (6, 10)
    assert dense.matrix.dtype == dtype
    np.testing.assert_array_equal(dense.matrix, expected.reshape(23, 60))
    assert dense.point_shape == (6, 10)
    expected, position = expected[:, :, 0], 0
    packed = lm.operators.SymmetricDense.generate(23, 3, fill, dtype=dtype)
    np.testing.assert_array_equal(packed.packed, expected)


def test_what_cannot_be_generated_gets_a_sentence():
    def fill(rows):
        rows[:] = np.nan

    for measurements, shape, dtype, sentence in [
        (0, (3,), np.float64, "measurements must be a whole number"),
        (2, (3, 0), np.float64, "dimension 1 must be a whole number"),
        (2, (3,), np.float16, "dtype must be float32 or float64"),
        (2, (3,), np.float64, "6 entries are NaN"),
    ]:
        with pytest.raises(ValueError, match=sentence):
            lm.operators.Dense.generate(measurements, shape, fill, dtype)
    with pytest.raises(ValueError, match="order must be a whole number"):
        lm.operators.SymmetricDense.generate(2, 3, fill, order=0)


ONCE = """
import resource, sys
import jax
import lemmax as lm
from lemmax.experiments.instances import cp_sensing, symmetric_cp_sensing

symmetric, x64 = (word == "True" for word in sys.argv[1:])
jax.config.update("jax_enable_x64", x64)

def make(measurements):
    if symmetric:
        return symmetric_cp_sensing(0, dim=25, rank=2, measurements=measurements, outliers=0.1)
    return cp_sensing(0, dims=(25, 25, 25), rank=2, measurements=measurements, outliers=0.1)

def use(instance):
    instance.problem.evaluate(instance.x0)
    with jax.enable_x64(True):
        value = jax.jit(lambda problem, x: problem.evaluate(x).value)
        jax.block_until_ready(value(instance.problem, instance.x0))
    lm.solve(instance.problem, lm.methods.lmm(), instance.x0, max_steps=3, tol=0.0)

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()

use(make(10))  # so that what the compiler needs is there already
before = resident()
instance = make(17000 if symmetric else 3200)
use(instance)
operator = instance.problem.operator
stored = operator.packed if symmetric else operator.matrix
assert stored.dtype == "float64"
# Not getrusage: its peak is inherited from the process that started this one.
with open("/proc/self/status") as file:
    (line,) = [line for line in file if line.startswith("VmHWM")]
peak = int(line.split()[1]) * 1024
print(stored.nbytes, (peak - before) / stored.nbytes)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    ("symmetric", "x64"),
    [
        (False, True),
        pytest.param(False, False, marks=pytest.mark.slow),
        pytest.param(True, True, marks=pytest.mark.slow),
    ],
)
def test_a_large_measurement_array_exists_once(symmetric, x64):
    done = subprocess.run(
        [sys.executable, "-c", ONCE, str(symmetric), str(x64)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    stored, growth = map(float, done.stdout.split())
    assert stored >= 395e6
    assert growth < 1.25


def constant(array):
    """A read-only copy that begins where XLA can take it over."""
    mine = aligned_empty(array.shape, array.dtype)
    mine[:] = array
    mine.base.flags.writeable = mine.flags.writeable = False
    return mine


def held(operator):
    (array, *_) = jax.tree.leaves(operator)
    return np.asarray(array)


def test_arrays_are_used_as_they_are_where_nobody_can_change_them(tmp_path):
    rng = np.random.default_rng(0)
    array = rng.standard_normal((5, 4, 3)).astype(np.float32)
    np.save(tmp_path / "a.npy", array)
    mapped = np.load(tmp_path / "a.npy", mmap_mode="r")
    packed = constant(rng.standard_normal((5, 6)))
    for given, operator in [
        (mapped, lm.operators.Dense(mapped)),
        (packed, lm.operators.SymmetricDense.from_packed(packed, 3)),
        (packed, lm.operators.RankOne(packed)),
    ]:
        assert np.shares_memory(held(operator), given)
        np.testing.assert_array_equal(held(operator).ravel(), given.ravel())
    device = jax.device_put(packed.astype(np.float32))
    assert lm.operators.Dense(device).matrix is device
    # What the caller can still write to is copied.
    view = array[:]
    view.flags.writeable = False
    for given in (array, view):
        operator = lm.operators.Dense(given)
        assert not np.shares_memory(held(operator), array)


def test_a_program_whose_arrays_do_not_fit_is_not_run(monkeypatch):
    """The compiler says how much memory it takes: here for two arrays of 8,000 bytes."""

    @compiled
    def twice(x):
        return 2 * x, x + 1

    x = jax.device_put(np.ones(1000))
    monkeypatch.setattr("lemmax._programs.SMALL", 7999)
    monkeypatch.setattr(_memory, "SMALL", 15_999)
    monkeypatch.setattr(_memory, "available_bytes", lambda: _memory._RESERVE + 10_000)
    with pytest.raises(
        MemoryError, match=r"arrays of 8,000 bytes needs 16,\d+ bytes .* only 10,000"
    ):
        twice(x)
    monkeypatch.setattr(_memory, "available_bytes", lambda: _memory._RESERVE + 20_000)
    np.testing.assert_array_equal(twice(x)[0], 2 * np.ones(1000))


def test_programs_are_forgotten_before_there_are_too_many(monkeypatch):
    traced = []
    double = own(jax.jit(lambda x: traced.append(1) or 2 * x))
    double(1.0)
    forget_programs_if_many()
    double(1.0)
    assert len(traced) == 1
    monkeypatch.setattr("lemmax._programs._MANY", 0)
    forget_programs_if_many()
    double(1.0)
    assert len(traced) == (2 if sys.platform == "linux" else 1)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nobody counts")
def test_the_programs_of_the_loop_are_forgotten_too(monkeypatch):
    """Each takes maps of memory; without more of these the compiler takes the process down."""

    def alive():
        programs = jax.devices()[0].client.live_executables()
        return {program.hlo_modules()[0].name for program in programs}

    given = psd_sensing(0, dim=6, rank=2, measurements=120, outliers=0.1).problem
    assert lm.recover(given.data, given.map, given.operator).status.succeeded
    assert "jit_advance" in alive()
    monkeypatch.setattr("lemmax._programs._MANY", 0)
    forget_programs_if_many()
    assert not alive() & {"jit_start", "jit_advance", "jit__residual"}
