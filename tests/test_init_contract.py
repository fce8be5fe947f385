"""Starts from data: passes, precision, seeds, refusals and random starts."""

import jax
import numpy as np
import pytest

import lemmax as lm
from lemmax.experiments.instances import (
    cp_factorisation,
    cp_sensing,
    low_rank_sensing,
    psd_sensing,
)
from lemmax.init import random_starts, spectral

ROUNDS = 9


class Counting(lm.operators.AbstractOperator):
    """Says how often it was used."""

    inner: lm.operators.AbstractOperator

    @property
    def point_shape(self):
        return self.inner.point_shape

    @property
    def observation_shape(self):
        return self.inner.observation_shape

    def measure(self, point):
        USES.append("measure")
        return self.inner.measure(point)

    def adjoint(self, observations):
        USES.append("adjoint")
        return self.inner.adjoint(observations)


USES = []


@pytest.mark.parametrize("make", [low_rank_sensing, psd_sensing])
def test_passes_are_counted(make):
    sizes = {"shape": (5, 4)} if make is low_rank_sensing else {"dim": 5}
    problem = make(0, rank=2, measurements=60, outliers=0.1, **sizes).problem
    counted = lm.Composite(problem.loss, problem.map, problem.data, Counting(problem.operator))
    USES.clear()
    with jax.disable_jit():
        start = spectral(counted)
    assert start.passes == len(USES) == 2 + 2 * ROUNDS
    assert USES.count("measure") == USES.count("adjoint")


def test_no_column_is_zero_or_redundant():
    instance = psd_sensing(0, dim=6, rank=9, measurements=100)
    x0 = spectral(instance.problem).x0
    assert np.linalg.matrix_rank(x0, tol=1e-12) == 6
    assert np.all(np.linalg.norm(x0, axis=0) > 0)
    instance = cp_factorisation(0, dims=(8, 9, 7), rank=6, true_rank=2)
    for factor in spectral(instance.problem).x0:
        assert np.all(np.linalg.norm(factor, axis=0) > 1e-4)


def test_same_seed_same_start():
    problem = cp_sensing(0, dims=(6, 5, 4), rank=4, measurements=200, outliers=0.2).problem
    first, second, third = (spectral(problem, seed=seed).x0 for seed in (4, 4, 5))
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)
    assert any(np.any(a != b) for a, b in zip(first, third, strict=True))


def test_precision_follows_the_problem():
    single = psd_sensing(0, dim=5, rank=2, measurements=60).problem
    single = jax.tree.map(lambda u: u.astype(np.float32), single)
    x0 = spectral(single).x0
    assert isinstance(x0, np.ndarray)
    assert x0.dtype == np.float32
    with jax.enable_x64(False):
        double = cp_sensing(0, dims=(5, 4, 3), rank=2, measurements=100).problem
        outside = spectral(double).x0
    assert all(isinstance(factor, np.ndarray) for factor in outside)
    inside = spectral(double).x0
    for a, b in zip(inside, outside, strict=True):
        assert b.dtype == np.float64
        np.testing.assert_array_equal(a, b)


def test_data_that_nothing_resembles():
    """The negative of a positive semidefinite matrix has no positive direction."""
    problem = lm.Composite(lm.losses.L1(), lm.maps.PSD(3, 3), -np.eye(3))
    start = spectral(problem)
    assert "random" in start.note
    assert np.all(np.isfinite(start.x0))
    assert np.any(start.x0)


def test_sentences():
    own = lm.Composite(lm.losses.L1(), lm.maps.FromFunction(lambda x: x), np.ones(3))
    with pytest.raises(ValueError, match="There is no spectral start"):
        spectral(own)
    with pytest.raises(ValueError, match="All data are zero"):
        spectral(lm.Composite(lm.losses.L1(), lm.maps.PSD(3, 1), np.zeros((3, 3))))
    # With types checked at run time, as here, the sentence is the checker's.
    with pytest.raises(TypeError, match="problem"):
        spectral(lm.maps.PSD(3, 1))  # pyright: ignore
    with pytest.raises(ValueError, match="seed must be a whole number"):
        spectral(own, seed=-1)


def test_what_does_not_fit_is_refused(monkeypatch):
    monkeypatch.setattr("lemmax._memory.available_bytes", lambda: 2**28)
    operator = lm.operators.Entries(([0, 1], [0, 1]), shape=(20_000, 20_000))
    problem = lm.Composite(
        lm.losses.L1(), lm.maps.LowRank((20_000, 20_000), 1), np.ones(2), operator
    )
    with pytest.raises(MemoryError, match="The adjoint of the data of shape"):
        spectral(problem)


def test_random_starts():
    starts = random_starts(lm.maps.CP((3, 4, 5), 2), 2, seed=0, scale=0.1)
    assert [factor.shape for factor in starts[0]] == [(3, 2), (4, 2), (5, 2)]
    longer = random_starts(lm.maps.CP((3, 4, 5), 2), 3, seed=0, scale=0.1)
    np.testing.assert_array_equal(starts[1][2], longer[1][2])
    assert np.any(starts[0][0] != starts[1][0])
    many = random_starts(lm.maps.PSD(200, 50), 1, seed=1, scale=3.0)[0]
    assert abs(many.std() - 3) < 0.1


def test_random_starts_from_a_template():
    own = lm.maps.FromFunction(lambda x: x["height"] * np.ones(3))
    with pytest.raises(ValueError, match="pass a template"):
        random_starts(own, 1, seed=0)
    template = {"height": np.float32(0), "rate": np.zeros(2)}
    start = random_starts(own, 1, seed=0, template=template)[0]
    assert start["height"].dtype == np.float32
    assert start["rate"].shape == (2,)
    for wrong in ({"count": 0}, {"scale": 0.0}, {"seed": -1}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            random_starts(own, **{"count": 1, "seed": 0, "template": template, **wrong})
    with pytest.raises(ValueError, match="takes parameters of shape"):
        random_starts(lm.maps.PSD(3, 1), 1, seed=0, template=np.zeros((2, 1)))
