"""Many runs in one program: each as `lemmax.solve` would run it alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lemmax as lm
from lemmax.experiments.instances import low_rank_sensing, psd_sensing
from lemmax.solve import lanes, many


def sensing(seed=0, **changes):
    return psd_sensing(seed, **({"dim": 8, "rank": 3, "measurements": 80} | changes))


def run_of(instance, method):
    return lm.Run(instance.problem, method, instance.x0, {"error": instance.error})


def alone(run, **options):
    return lm.solve(run.problem, run.method, run.x0, metrics=run.metrics, **options)


METHODS = [
    *(lm.methods.lmm(lm.steps.Polyak(scale=scale)) for scale in (0.25, 0.5, 1.0)),
    lm.methods.gauss_newton(),
    lm.methods.polyak_subgradient(),
    lm.methods.lmm(lm.steps.Geometric(1e-3, 0.9), lm.damping.Geometric(1e-5, 0.9)),
]


def assert_same(together, single):
    assert together.status == single.status
    # Rounding differs between one product with a matrix and several with vectors; signs of tiny
    # residuals then do as well, and the runs drift apart slowly.
    early = slice(0, 12)
    for name in ("value", "step", "damping", "movement"):
        np.testing.assert_allclose(
            getattr(together.trace, name)[early], getattr(single.trace, name)[early], rtol=1e-6
        )
    np.testing.assert_array_equal(together.trace.passes[early], single.trace.passes[early])
    assert abs(int(together.steps) - int(single.steps)) <= 0.1 * int(single.steps) + 2
    assert together.trace.value.shape == (int(together.steps) + 1,)
    assert isinstance(together.x, type(single.x))


def test_runs_are_those_of_solve():
    """Different methods, data, truths and starts; the operator is one."""
    first = sensing()
    second = lm.Composite(
        first.problem.loss, first.problem.map, 2 * first.problem.data, first.problem.operator
    )
    truth = lm.points.KruskalPoint((2 * first.truth.factors[0], first.truth.factors[1]))
    x0 = 1.4 * first.x0
    runs = [run_of(first, method) for method in METHODS]
    runs += [
        lm.Run(second, method, x0, {"error": lm.metrics.RelativeError(truth)}) for method in METHODS
    ]
    options = {"max_steps": 300, "tol": 1e-10}
    for run, result in zip(runs, lm.solve_many(runs, **options), strict=True):
        single = alone(run, **options)
        assert_same(result, single)
        np.testing.assert_allclose(
            result.trace.metrics["error"][:12], single.trace.metrics["error"][:12], rtol=1e-6
        )


@pytest.mark.slow
def test_asymmetric_pytrees_and_alternating_methods():
    instance = low_rank_sensing(
        1, shape=(7, 6), rank=2, measurements=90, loss=lm.losses.SquaredL2()
    )
    methods = [lm.methods.approximate_gauss_newton(), lm.methods.scaled_gd(), lm.methods.lmm()]
    runs = [run_of(instance, method) for method in methods]
    for run, result in zip(runs, lm.solve_many(runs, tol=1e-20), strict=True):
        assert_same(result, alone(run, tol=1e-20))


def test_shared_measurements_are_stored_once_and_multiplied_as_matrices():
    """The measurements meet all lanes in one product of two matrices, and no copy is made."""
    instance = sensing()
    packed = instance.problem.operator.packed
    runs = [run_of(instance, method) for method in METHODS[:3]]
    prepared = [
        many.make_plan(run.problem, run.method, run.x0, dict(run.metrics), None, 0.0, 9)
        for run in runs
    ]
    (group,) = many._grouped([plan for plan, _ in prepared], [x0 for _, x0 in prepared], 16)
    assert group.lanes.shared.problem.operator.packed is packed
    assert group.lanes.stacked.problem.operator.packed is None

    def products(jaxpr):
        for equation in jaxpr.eqns:
            if equation.primitive.name == "dot_general":
                yield [v.aval.shape for v in equation.invars], equation.params["dimension_numbers"]
            for parameter in equation.params.values():
                inner = getattr(parameter, "jaxpr", parameter)
                if hasattr(inner, "eqns"):
                    yield from products(inner)

    traced = jax.make_jaxpr(
        lambda carry: lanes.advance_lanes([group.lanes], [carry], jnp.asarray(5, jnp.int32))
    )(group.carry)
    with_packed = [(s, d) for s, d in products(traced.jaxpr) if packed.shape in s]
    assert len(with_packed) == 2  # one forward, one adjoint
    for shapes, (_, batch) in with_packed:
        other = shapes[1] if shapes[0] == packed.shape else shapes[0]
        assert 3 in other
        assert len(other) == 2
        assert batch == ((), ())


def test_lanes_that_ended_leave_the_program(monkeypatch):
    monkeypatch.setattr(many, "_BYTES_WORTH_A_PROGRAM", 0.0)
    sizes = []
    advance = many._Batch._advance

    def spy(batch, limit):
        sizes.append(sum(len(group.numbers) for group in batch.groups))
        advance(batch, limit)

    monkeypatch.setattr(many._Batch, "_advance", spy)
    instance = sensing()
    # The first six are told to stop after 20 steps, one by one later.
    runs = [run_of(instance, lm.methods.lmm(lm.steps.Polyak(scale=0.1 + k / 80))) for k in range(8)]

    def callback(snapshot):
        step = snapshot.trace.value.shape[1] - 1
        return snapshot.running < {0: 0, 20: 6, 40: 7}.get(step, 0)

    results = lm.solve_many(runs, max_steps=70, tol=0.0, every=20, callback=callback)
    assert sorted(set(sizes), reverse=True) == [8, 2, 1]
    assert [int(result.steps) for result in results] == [20] * 6 + [40, 70]
    assert results[0].status == lm.Status.INTERRUPTED
    assert results[7].status == lm.Status.STEP_LIMIT
    # Nobody notices: the run that stayed to the end is what it would have been alone.
    np.testing.assert_allclose(
        results[7].trace.value[:50], alone(runs[7], max_steps=70, tol=0.0).trace.value[:50], 1e-6
    )


def test_callback_sees_the_rows_of_what_runs():
    instance = sensing()
    runs = [run_of(instance, lm.methods.lmm(lm.steps.Polyak(scale=s))) for s in (0.5, 1.0)]
    seen = []
    lm.solve_many(runs, max_steps=20, tol=0.0, every=10, callback=seen.append)
    assert [s.trace.value.shape for s in seen[:2]] == [(2, 1), (2, 11)]
    assert seen[2].running.size == len(seen[2].trace.value) == 0
    assert (seen[0].finished, seen[-1].finished, seen[0].total) == (0, 2, 2)
    single = alone(runs[1], max_steps=20, tol=0.0)
    np.testing.assert_allclose(
        seen[1].trace.metrics["error"][1], single.trace.metrics["error"][:11], rtol=1e-6
    )


def test_memory_budget_cuts_the_batch():
    instance = sensing()
    runs = [run_of(instance, method) for method in METHODS[:2]]
    together = lm.solve_many(runs, max_steps=30, tol=0.0)
    one_by_one = lm.solve_many(runs, max_steps=30, tol=0.0, memory=1.0)
    for a, b in zip(together, one_by_one, strict=True):
        np.testing.assert_allclose(a.trace.value[:12], b.trace.value[:12], rtol=1e-6)


def test_a_batch_of_factorisations_does_not_hang():
    """Several at once: on few cores JAX's own batches wait for each other's threads for ever.

    Nothing in the compiled program may hand a batch of matrices to LAPACK.
    """

    @jax.vmap
    def directions(x, y):
        map = lm.maps.LowRank((7, 6), 2)
        covector = lm.covectors.DenseCovector(jnp.ones((7, 6)))
        return map.direction((x, y), 1e-3, covector)

    x, y = jnp.ones((40, 7, 2)), jnp.ones((40, 6, 2))
    program = jax.jit(directions).lower(x, y).as_text()
    calls = [line for line in program.splitlines() if "lapack_dgesdd" in line]
    assert calls
    assert not [line for line in calls if "tensor<40x" in line]


def test_single_precision_stays_single():
    x0 = jnp.asarray([1.5, 1.5], jnp.float32)
    problem = lm.Composite(lm.losses.L2(), lm.maps.Square(2), jnp.asarray([4.0, 1.0], jnp.float32))
    runs = [lm.Run(problem, lm.methods.lmm(lm.steps.Polyak(scale=s)), x0) for s in (0.5, 1.0)]
    results = lm.solve_many(runs, tol=1e-4)
    assert all(result.x.dtype == jnp.float32 for result in results)
    assert all(result.status.succeeded for result in results)
    assert isinstance(results[0].x, jax.Array)


def test_wrong_input_gets_a_sentence():
    instance, other = sensing(), sensing(dim=9)
    lmm = lm.methods.lmm()
    assert lm.solve_many([]) == []
    with pytest.raises(ValueError, match="Run 1 differs from run 0 in the type or shape"):
        lm.solve_many([run_of(instance, lmm), run_of(other, lmm)])
    with pytest.raises(ValueError, match="Run 1 differs"):
        lm.solve_many([run_of(instance, lmm), lm.Run(instance.problem, lmm, instance.x0)])
    runs = [run_of(instance, lmm), run_of(instance, lmm)]
    with pytest.raises(ValueError, match="must return None or 2 booleans"):
        lm.solve_many(runs, max_steps=2, callback=lambda snapshot: [True])
    with pytest.raises(ValueError, match="outside of jit"):
        jax.jit(lambda x: lm.solve_many([lm.Run(instance.problem, lmm, x)])[0].value)(instance.x0)
