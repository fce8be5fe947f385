"""A run that was killed goes on as if it had not been."""

import os
import signal
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lemmax as lm
from lemmax._digest import digest_of
from lemmax._plain import Kinds
from lemmax._storage import Unreadable, read, write

RNG = np.random.default_rng(0)
A = RNG.standard_normal((60, 5, 5))
FACTOR = RNG.standard_normal((5, 2))
B = np.einsum("mij,ik,jk->m", A, FACTOR, FACTOR)
B[::9] += 3.0
TIMES = np.linspace(0.0, 3.0, 30)
START = RNG.standard_normal((5, 3))


def problem(data=B):
    operator = lm.operators.SymmetricDense(A)
    return lm.Composite(lm.losses.L1(), lm.maps.PSD(5, 3), data, operator)


def assert_same(one, other):
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        if not isinstance(a, float):  # seconds
            np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


METHODS = {
    "polyak": lambda: lm.methods.lmm(lm.steps.Polyak(target=0.0)),
    "geometric": lambda: lm.methods.lmm(
        lm.steps.Geometric(0.3, 0.95), lm.damping.Geometric(1.0, 0.95)
    ),
    "subgradient": lm.methods.polyak_subgradient,
}


@pytest.mark.parametrize("name", METHODS)
def test_half_a_run_and_the_rest_are_a_run(tmp_path, name):
    method = METHODS[name]()
    options = {"tol": 0.0, "every": 7, "metrics": {"size": lambda x, e: jnp.sum(x * x)}}
    whole = lm.solve(problem(), method, START, max_steps=40, **options)
    kept = {**options, "checkpoint": tmp_path / "run"}
    lm.solve(problem(), method, START, max_steps=25, **kept)
    seen = []
    rest = lm.solve(
        problem(), method, START, max_steps=40, callback=lambda s: seen.append(s.step), **kept
    )
    # 21 steps were kept; the callback is called as often as without the interruption.
    assert seen == [28, 35]
    assert_same(whole, rest)
    # And again, from the last that was kept: nothing has changed.
    assert_same(whole, lm.solve(problem(), method, START, max_steps=40, **kept))
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["solve.safetensors"]


@pytest.mark.slow
def test_methods_that_try_points(tmp_path):
    def curve(x):
        return x[0] * jnp.exp(-x[1] * jnp.asarray(TIMES, x.dtype))

    data = (2 * np.exp(-0.7 * TIMES)).astype(np.float32)
    own = lm.Composite(lm.losses.SquaredL2(), lm.maps.FromFunction(curve), data)
    method, start = lm.methods.trust_region(), np.array([20.0, 5.0], np.float32)
    whole = lm.solve(own, method, start, max_steps=9, tol=0.0)
    options = {"tol": 0.0, "every": 2, "checkpoint": tmp_path}
    lm.solve(own, method, start, max_steps=5, **options)
    assert_same(whole, lm.solve(own, method, start, max_steps=9, **options))


def test_other_runs_are_refused(tmp_path):
    method = lm.methods.lmm()
    options = {"checkpoint": tmp_path, "every": 5, "max_steps": 20}
    lm.solve(problem(), method, START, **options)
    other = B.copy()
    other[3] = np.nextafter(other[3], 1)
    for args, changed in [
        ((problem(other), method, START), {}),
        ((problem(), lm.methods.lmm(lm.steps.Polyak(scale=0.5)), START), {}),
        ((problem(), method, 2 * START), {}),
        ((problem(), method, START), {"tol": 1e-3}),
    ]:
        with pytest.raises(ValueError, match="is the checkpoint of another run"):
            lm.solve(*args, **{**options, **changed})
    with pytest.raises(ValueError, match="has taken 16 steps already, and max_steps is 10"):
        lm.solve(problem(), method, START, **{**options, "max_steps": 10})
    (tmp_path / "solve.safetensors").write_bytes(b"nothing")
    with pytest.raises(ValueError, match="is not a lemmax file"):
        lm.solve(problem(), method, START, **options)
    with pytest.raises(ValueError, match="Inside jit or vmap there are no callbacks"):
        jax.jit(lambda x: lm.solve(problem(), method, x, checkpoint=tmp_path).x)(jnp.asarray(START))


def test_forged_checkpoints_are_refused(tmp_path):
    """With the right digest: only the contents are wrong."""
    options = {"checkpoint": tmp_path, "every": 5, "max_steps": 20}
    lm.solve(problem(), lm.methods.lmm(), START, **options)
    path, what = tmp_path / "solve.safetensors", "checkpoint of solve"
    kept = read(path, what, Kinds())
    state, trace = kept["state"], kept["trace"]
    for forged, sentence in {
        "none": (None, "has other fields"),
        "list": ([1.0], "has other fields"),
        "fewer": ({"key": kept["key"]}, "has other fields"),
        "steps": ({**kept, "steps": "3"}, "steps of a checkpoint of solve has another type"),
        "numbers": ({**kept, "state": [1.0] * len(state)}, "has another type"),
        "state": ({**kept, "state": state[:-1]}, "arrays of other shapes"),
        "shape": ({**kept, "state": [a[..., None] for a in state]}, "arrays of other shapes"),
        "trace": ({**kept, "trace": trace[:-1]}, "arrays of other shapes"),
        "rows": ({**kept, "trace": [a[1:] for a in trace]}, "arrays of other shapes"),
    }.values():
        write(path, what, forged, Kinds())
        with pytest.raises(Unreadable, match=sentence):
            lm.solve(problem(), lm.methods.lmm(), START, **options)
    write(path, what, kept, Kinds())
    assert lm.solve(problem(), lm.methods.lmm(), START, **options).steps == 20


def made(scale):
    def function(x):
        return x * scale

    return function


def test_digests_know_functions_by_their_code():
    assert digest_of(made(2.0)) == digest_of(made(2.0))
    assert digest_of(made(2.0)) != digest_of(made(3.0))
    assert digest_of(jax.jit(made(2.0))) == digest_of(jax.jit(made(2.0)))
    assert digest_of(lambda x: x + 1) != digest_of(lambda x: x + 2)
    assert digest_of(1) != digest_of(1.0) != digest_of("1.0")
    assert digest_of([1, [2]]) != digest_of([[1], 2])
    assert digest_of(np.zeros(2)) != digest_of(np.zeros((2, 1)))
    code = "from lemmax._digest import digest_of; print(digest_of({'a': [1.5, None, 'b']}, len))"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert other.stdout.strip() == digest_of({"a": [1.5, None, "b"]}, len)


LONG = """
import sys
import numpy as np
import lemmax as lm
from tests.test_checkpoints import START, problem
method = lm.methods.lmm(lm.steps.Geometric(0.3, 0.999), lm.damping.Geometric(1.0, 0.999))
checkpoint = sys.argv[1] if len(sys.argv) > 1 else None
print("ready", flush=True)
result = lm.solve(
    problem(), method, START, max_steps=1500, tol=0.0, every=10, checkpoint=checkpoint)
print(int(result.steps), np.asarray(result.last_x).tobytes().hex(),
      np.asarray(result.trace.value).tobytes().hex())
"""


@pytest.mark.skipif(os.name != "posix", reason="there is no SIGKILL")
def test_killed_at_random_moments(tmp_path):
    def started(*arguments):
        return subprocess.Popen(
            [sys.executable, "-c", LONG, *map(str, arguments)], stdout=subprocess.PIPE, text=True
        )

    wanted, _ = started().communicate()
    rng, folder, kills = np.random.default_rng(1), tmp_path / "run", 0
    while True:
        run = started(folder)
        assert run.stdout.readline() == "ready\n"
        # Killed at a random moment of its writing, twice; then it may end.
        began = len(list(folder.iterdir())) if folder.exists() else 0
        while kills < 2 and run.poll() is None:
            if folder.exists() and len(list(folder.iterdir())) > began - 1:
                time.sleep(rng.uniform(0.0, 0.2))
                run.send_signal(signal.SIGKILL)
                kills += 1
                break
            time.sleep(0.01)
        said, _ = run.communicate()
        if run.returncode == 0:
            break
    assert said in wanted
    assert len(said) > 100
    assert [path.name for path in folder.iterdir()] == ["solve.safetensors"]
