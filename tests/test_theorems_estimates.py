"""Constants of sensing operators: what is estimated, against extremes that are known exactly."""

import math

import numpy as np
import pytest

import lemmax as lm
from lemmax import theory
from lemmax.experiments.instances import psd_sensing

from .cases.theory import directions_of_the_24_cell, extreme_absolute_sums


@pytest.mark.parametrize("rank", [1, None])
def test_estimates_recover_the_extremes_of_an_entrywise_scaling(rank):
    """Its extremes are at single entries, which have rank 1, and so is the smallest sum.

    The largest sum of absolute values is, over all ranks, the norm of the scaling; over
    directions of rank 1 it is its largest singular value, because the scaling is positive. The
    default is four terms, one more than a matrix of this shape needs.
    """
    scaling = np.random.default_rng(0).permutation(np.linspace(0.5, 1.5, 12))
    operator = lm.operators.Dense(np.diag(scaling).reshape(12, 4, 3))
    map = lm.maps.LowRank((4, 3), 1)
    plain = theory.estimate_isometry(operator, map, rank=rank, refinements=0)
    found = theory.estimate_isometry(operator, map, rank=rank)
    largest = np.linalg.norm(scaling.reshape(4, 3), 2 if rank == 1 else "fro")
    np.testing.assert_allclose([found.lower, found.upper], [0.25, 2.25], rtol=1e-4)
    np.testing.assert_allclose(found.omega2, largest, rtol=1e-6)
    assert found.delta == pytest.approx(1.25, rel=1e-4)
    # A sum of absolute values has kinks; above rank 1 the climb stops at one of them.
    assert 0.5 * (1 - 1e-9) <= found.omega1 <= 0.5 * (1 + (1e-4 if rank == 1 else 0.05))
    # The sample alone is far off.
    assert plain.lower > 0.29
    assert plain.upper < 2.1
    assert plain.omega1 > 1.0


def test_estimates_recover_the_extremes_of_absolute_sums():
    array = directions_of_the_24_cell() * np.linspace(1.0, 0.7, 4)
    operator = lm.operators.Dense(array.reshape(-1, 2, 2))
    found = theory.estimate_isometry(operator, lm.maps.LowRank((2, 2), 1))
    smallest, largest = extreme_absolute_sums(array)
    values = np.linalg.svd(array, compute_uv=False)
    np.testing.assert_allclose([found.omega1, found.omega2], [smallest, largest], rtol=1e-4)
    np.testing.assert_allclose([found.lower, found.upper], values[[-1, 0]] ** 2, rtol=1e-4)


def test_an_isometry_has_no_deviation():
    columns = np.linalg.qr(np.random.default_rng(0).standard_normal((15, 12)))[0]
    operator = lm.operators.Dense(columns.reshape(15, 4, 3))
    found = theory.estimate_isometry(operator, lm.maps.LowRank((4, 3), 1))
    assert found.delta < 1e-12


@pytest.mark.parametrize(
    "map",
    [
        lm.maps.PSD(5, 1),
        lm.maps.LowRank((5, 5), 1),
        lm.maps.SymmetricCP(3, 1),
        lm.maps.CP((3, 3, 3), 1),
    ],
    ids=lambda map: type(map).__name__,
)
def test_climbing_widens_and_stays_within_what_is_possible(map):
    """Never beyond the singular values of the whole array, which bound all directions."""
    rng = np.random.default_rng(1)
    array = rng.standard_normal((60, *map.shape)) / math.sqrt(60)
    corrupted = np.arange(6)
    operator = lm.operators.Dense(array)
    plain, found = (
        theory.estimate_isometry(
            operator, map, rank=2, samples=200, refinements=steps, corrupted=corrupted
        )
        for steps in (0, 60)
    )
    assert plain.estimated
    assert found.estimated
    values = np.linalg.svd(array.reshape(60, -1), compute_uv=False)
    assert values[-1] ** 2 * (1 - 1e-9) <= found.lower < plain.lower
    assert plain.upper < found.upper <= values[0] ** 2 * (1 + 1e-9)
    assert found.omega0 < plain.omega0
    assert found.omega0 < found.omega1 < plain.omega1 < plain.omega2 < found.omega2
    assert found.omega2 <= math.sqrt(60) * values[0]


def test_sensing_constants_are_labelled_estimates_and_bracket_the_gap():
    instance = psd_sensing(0, dim=4, rank=2, measurements=400, loss=lm.losses.SquaredL2())
    found = theory.outer_constants(instance.problem)
    assert found.estimated
    assert 0.3 < found.lower < 1 < found.upper < 1.7
    gap = float(instance.problem.evaluate(instance.x0).value)
    error = float(instance.problem.map(instance.x0).distance(instance.truth))
    assert found.lower / 2 * error**2 <= gap <= found.upper / 2 * error**2

    sound = theory.estimate_isometry(instance.problem.operator, instance.problem.map)
    again = theory.estimate_isometry(instance.problem.operator, instance.problem.map)
    assert sound == again
    bad = theory.estimate_isometry(
        instance.problem.operator, instance.problem.map, corrupted=np.arange(40)
    )
    assert sound.omega0 == pytest.approx(sound.omega1)
    assert 0 < bad.omega0 < sound.omega1 < sound.omega2
    # Gaussian measurements of variance 1/m: sqrt(2 m / pi) times the norm.
    assert sound.omega1 < math.sqrt(800 / math.pi) < sound.omega2
