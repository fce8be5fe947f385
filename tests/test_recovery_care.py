"""`lm.recover` with data and demands that are out of the ordinary."""

from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import lemmax as lm
from lemmax import _programs
from lemmax.experiments.instances import psd_sensing
from lemmax.points import KruskalPoint


@pytest.mark.parametrize("size", [1e200, 1e-200])
def test_data_of_extreme_size(size):
    instance = psd_sensing(3, dim=8, rank=3, true_rank=2, measurements=200, outliers=0.1)
    data = np.asarray(instance.problem.data)
    plain = lm.recover(data, instance.problem.map, instance.problem.operator)
    found = lm.recover(size * data, instance.problem.map, instance.problem.operator)
    assert found.status is plain.status is lm.RecoveryStatus.EXACT
    assert found.rank == plain.rank
    np.testing.assert_allclose(found.point.dense() / size, plain.point.dense(), rtol=1e-9)
    np.testing.assert_array_equal(found.outliers, plain.outliers)


def test_a_time_limit_ends_the_search():
    rng = np.random.default_rng(0)
    A, b = rng.standard_normal((120, 8, 8)), rng.standard_normal(120)  # nothing to be found
    operator, map = lm.operators.Dense(A), lm.maps.LowRank((8, 8), rank=4)
    found = lm.recover(b, map, operator, max_seconds=0)
    whole = lm.recover(b, map, operator)
    assert found.status is lm.RecoveryStatus.INTERRUPTED
    assert found.steps == 0 < whole.steps
    assert len(found.outliers) == 0  # nothing is known about what is wrong


def test_a_search_that_is_stopped_while_it_is_judged_has_an_answer():
    """The start of a noisy table is a fit already, and then come fits to parts of the data."""
    rng = np.random.default_rng(2)
    truth = rng.standard_normal((40, 2)) @ rng.standard_normal((2, 12))
    table = truth + 0.05 * rng.standard_normal(truth.shape)
    calls = 0

    def count(*_):
        nonlocal calls
        calls += 1

    whole = lm.recover(table, lm.maps.LowRank(table.shape, rank=4), callback=count)
    for last in np.unique(np.linspace(1, calls - 1, 3).astype(int)):
        left = iter(range(last, -1, -1))
        map = lm.maps.LowRank(table.shape, rank=4)
        found = lm.recover(table, map, callback=lambda *_, left=left: next(left, 0) == 0)
        # The last call comes too late to change anything.
        assert found.status in (lm.RecoveryStatus.INTERRUPTED, whole.status)
        assert np.linalg.norm(found.point.dense() - truth) < 0.1 * np.linalg.norm(truth)


def test_gross_errors_and_a_squared_loss_get_a_hint():
    instance = psd_sensing(1, dim=8, rank=2, measurements=200)
    data = np.array(instance.problem.data)
    data[:8] += 100 * np.max(np.abs(data))
    operator, map = instance.problem.operator, instance.problem.map
    found = lm.recover(data, map, operator, lm.losses.SquaredL2())
    assert not found.status.succeeded
    assert "use L1()" in found.summary()
    assert lm.recover(data, map, operator).status is lm.RecoveryStatus.EXACT


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (lambda x: np.exp(x["rate"]) * np.ones(5), "use jax.numpy in it"),
        (lambda x: x["speed"] * jnp.ones(5), "KeyError: 'speed'"),
        (lambda x: jnp.ones(5) * (1 if x["rate"] > 0 else 2), "needs the value of a parameter"),
    ],
)
def test_what_stops_jax_in_a_function_is_said(function, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        lm.recover(np.ones(5), lm.maps.FromFunction(function), x0={"rate": np.ones(())})


def test_weights_of_entries_count():
    """Every entry is observed twice, as one of two matrices has it: the weights tell which."""
    rng = np.random.default_rng(2)
    truths = [np.outer(rng.standard_normal(30), rng.standard_normal(25)) for _ in range(2)]
    rows, columns = np.indices((30, 25)).reshape(2, -1)
    operator = lm.operators.Entries((np.tile(rows, 2), np.tile(columns, 2)), (30, 25))
    data = np.concatenate([truth.ravel() for truth in truths])
    for k, truth in enumerate(truths):
        weights = np.repeat(np.where(np.arange(2) == k, 1.0, 0.01), truth.size)
        loss = lm.losses.L1(weights=weights)
        found = lm.recover(data, lm.maps.LowRank((30, 25), rank=1), operator, loss)
        assert np.linalg.norm(found.point.dense() - truth) < 0.02 * np.linalg.norm(truth)


def test_a_large_tensor_with_wrong_entries():
    """Too many entries and parameters for a Jacobian: steps of a falling Huber loss find it."""
    rng = np.random.default_rng(3)
    truth = KruskalPoint([rng.standard_normal((40, 3)) for _ in range(3)])
    data = np.array(truth.dense())
    wrong = rng.random(data.shape) < 0.1
    data[wrong] = 10 * rng.standard_normal(wrong.sum())
    found = lm.recover(data, lm.maps.CP((40, 40, 40), rank=4))
    assert (found.status, found.rank) == (lm.RecoveryStatus.EXACT, 3)
    assert float(found.point.distance(truth) / truth.norm()) < 1e-9


@pytest.mark.parametrize("given", [False, True])
def test_a_complete_tensor_of_nearly_collinear_factors(given):
    """Of squared losses the data decompose themselves; and so if a given start leads nowhere."""
    rng = np.random.default_rng(7)
    mix = np.linalg.cholesky(np.full((5, 5), 0.9) + 0.1 * np.eye(5)).T
    truth = KruskalPoint([np.linalg.qr(rng.standard_normal((20, 5)))[0] @ mix for _ in range(3)])
    x0 = tuple(rng.standard_normal((20, 5)) for _ in range(3)) if given else None
    data, map = np.array(truth.dense()), lm.maps.CP((20, 20, 20), rank=5)
    found = lm.recover(data, map, loss=lm.losses.SquaredL2(), x0=x0)
    assert (found.status, found.rank) == (lm.RecoveryStatus.EXACT, 5)
    assert float(found.point.distance(truth) / truth.norm()) < 1e-10


def test_lapack_has_one_thread_during_a_search_and_its_own_afterwards():
    def threads():
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    table = np.outer(np.arange(1.0, 9.0), np.arange(1.0, 7.0))
    table[0, 0] = 50.0
    seen = []

    def look(*_):
        if not seen:  # it takes long
            seen.extend(threads())

    with threadpool_limits(2, user_api="blas"):
        lm.recover(table, lm.maps.LowRank((8, 6), rank=2), callback=look)
        assert set(threads()) == {2}
    assert set(seen) == {1}


def test_compiled_programs_of_the_user_stay(monkeypatch):
    """Also when lemmax drops its own, since the process has too many."""
    monkeypatch.setattr(_programs, "_MANY", 0)
    traced = []

    @jax.jit
    def users(x):
        traced.append(x)
        return 2 * x

    users(jnp.ones(3))
    instance = psd_sensing(3, dim=6, rank=2, measurements=80)
    lm.recover(instance.problem.data, instance.problem.map, instance.problem.operator)
    users(jnp.ones(3))
    assert len(traced) == 1


def test_calls_at_the_same_time_leave_the_process_as_it_was():
    sensing = [psd_sensing(seed, dim=6, rank=2, measurements=80).problem for seed in range(3)]
    calls = [(problem.data, problem.map, problem.operator) for problem in sensing]
    table = np.outer(np.arange(1.0, 9.0), np.arange(1.0, 7.0))
    table[0, 0] = 50.0
    calls.append((table, lm.maps.LowRank((8, 6), rank=2), None))

    def process():
        pools = {pool["filepath"]: pool["num_threads"] for pool in threadpool_info()}
        return pools, dict(jax.config.values)

    alone = [lm.recover(*call) for call in calls]
    before = process()
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda call: lm.recover(*call), calls))
    assert process() == before
    for one, other in zip(alone, together, strict=True):
        assert one.status is other.status
        assert one.outlier_count == other.outlier_count
        np.testing.assert_array_equal(one.point.dense(), other.point.dense())
