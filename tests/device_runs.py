"""Measurements spread over devices or processes: run by test_devices.py in processes of their own.

python -m tests.device_runs devices COUNT
python -m tests.device_runs process RANK COUNT PORT FOLDER
python -m tests.device_runs long RANK COUNT PORT FOLDER
"""

import json
import os
import re
import sys
import time

if __name__ == "__main__":  # JAX reads it when it is imported
    count = sys.argv[2] if sys.argv[1] == "devices" else "1"
    os.environ["XLA_FLAGS"] = (
        os.environ.get("XLA_FLAGS", "") + " --xla_cpu_multi_thread_eigen=false"
        f" --xla_force_host_platform_device_count={count}"
    )

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import lemmax as lm
from lemmax.solve import _compiled, many
from lemmax.solve._plan import as_limit, make_plan

RNG = np.random.default_rng(0)
A = RNG.standard_normal((240, 8, 8))
VECTORS = RNG.standard_normal((240, 8))
TRUTH = RNG.standard_normal((8, 2))
START = TRUTH + 0.1 * RNG.standard_normal(TRUTH.shape)
SEEN = np.einsum("mij,ik,jk->m", A, TRUTH, TRUTH)
SQUARES = np.sum((VECTORS @ TRUTH) ** 2, axis=1)
CASES = {
    "Dense": (lm.operators.Dense, A, SEEN),
    "SymmetricDense": (lm.operators.SymmetricDense, A, SEEN),
    "RankOne": (lm.operators.RankOne, VECTORS, SQUARES),
}
OPTIONS = {"tol": 1e-13, "max_steps": 200}
_SHAPES = re.compile(r"f64\[([\d,]*)\]")


def spread(array, devices):
    """One part of the measurements on each device."""
    rows = PartitionSpec("m", *[None] * (array.ndim - 1))
    sharding = NamedSharding(Mesh(np.array(devices), ("m",)), rows)
    return jax.make_array_from_callback(array.shape, sharding, lambda index: array[index])


def problem(name, devices=None):
    make, array, data = CASES[name]
    if devices is not None:
        array, data = spread(array, devices), spread(data, devices)
    return lm.Composite(lm.losses.L1(), lm.maps.PSD(8, 2), data, make(array))


def answers(own):
    method = lm.methods.lmm()
    one = lm.solve(own, method, START, **OPTIONS)
    runs = [lm.Run(own, method, START), lm.Run(own, method, 1.01 * START)]
    found = [np.asarray(each.x) for each in (one, *lm.solve_many(runs, **OPTIONS))]
    return one.status.name, [x @ x.T for x in found]


def sent(program):
    """Sizes of what a compiled program gathers and reduces, in numbers."""
    sizes = {"all-gather": [], "all-reduce": [], "all-to-all": [], "collective-permute": []}
    for line in program.splitlines():
        made = re.match(r"\s*(?:ROOT )?%?[\w.-]+ = (.*?) ([a-z-]+?)(?:-start)?\(", line)
        if made and made[2] in sizes:
            shapes = _SHAPES.findall(made[1])
            sizes[made[2]] += [int(np.prod([int(k) for k in s.split(",") if k])) for s in shapes]
    return sizes


def programs(own):
    """The compiled steps of `solve` and of `solve_many`."""
    plan, x0 = make_plan(own, lm.methods.lmm(), START, {}, None, 1e-13, 200)
    carry = _compiled.start_compiled(plan, x0, 256)
    single = _compiled._advance.lower(plan, carry, as_limit(9)).compile()
    (group,) = many._grouped([plan, plan], [x0, 2 * x0], 256)
    several = many._advance.lower([group.lanes], [group.carry], as_limit(9)).compile()
    return [each.as_text() for each in (single, several)]


def devices(count):
    assert jax.device_count() == count
    told = {}
    for name in CASES:
        _, alone = answers(problem(name))
        own = problem(name, jax.devices())
        status, found = answers(own)
        difference = max(np.abs(a - b).max() for a, b in zip(alone, found, strict=True))
        collectives = [sent(text) for text in programs(own)]
        told[name] = {"status": status, "difference": float(difference), "sent": collectives}
    print(json.dumps(told))


def joined(rank, count, port):
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"127.0.0.1:{port}", count, rank)


def process(rank, count, port, folder):
    joined(rank, count, port)
    told = {}
    for name in CASES:
        own = problem(name, jax.devices())
        status, found = answers(own)
        error = max(np.abs(each - TRUTH @ TRUTH.T).max() for each in found)
        collectives = [sent(text) for text in programs(own)]
        told[name] = {"status": status, "error": float(error), "sent": collectives}
    kept = {"tol": 0.0, "every": 5, "checkpoint": folder}
    own = problem("Dense", jax.devices())
    whole = lm.solve(own, schedule(), START, max_steps=30, tol=0.0)
    lm.solve(own, schedule(), START, max_steps=17, **kept)
    rest = lm.solve(own, schedule(), START, max_steps=30, **kept)
    told["resumed"] = bool(np.array_equal(whole.last_x, rest.last_x))
    print(json.dumps(told), flush=True)
    os._exit(0)  # without waiting for the other


def long(rank, count, port, folder):
    """A run of seconds that can be killed; says where it goes on, and where it ends."""
    joined(rank, count, port)
    own, seen = problem("Dense", jax.devices()), []

    def callback(snapshot):
        if not seen:
            print("from", snapshot.step, flush=True)
        seen.append(snapshot.step)
        time.sleep(0.02)

    options = {"tol": 0.0, "every": 10, "callback": callback, "checkpoint": folder}
    try:
        result = lm.solve(own, schedule(), START, max_steps=800, **options)
        print("to", np.asarray(result.last_x).tobytes().hex(), flush=True)
    except RuntimeError as error:
        print(error, flush=True)
    os._exit(0)


def schedule():
    return lm.methods.lmm(lm.steps.Geometric(0.3, 0.999), lm.damping.Geometric(1.0, 0.999))


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    what, *arguments = sys.argv[1:]
    if what == "devices":
        assert jnp.zeros(1).dtype == "float64"
        devices(int(arguments[0]))
    else:
        run = {"process": process, "long": long}[what]
        run(*map(int, arguments[:3]), arguments[3])
