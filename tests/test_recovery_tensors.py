"""Tensors from entries, of which a part is wrong or missing."""

import jax
import numpy as np
import pytest

import lemmax as lm
from lemmax.points import KruskalPoint

RANK, BOUND = 3, 5


def spoiled(shape, *, symmetric=False, missing=0.0, seed=0):
    """A tensor of rank 3, a tenth of it wrong, and a map with a bound of 5."""
    rng = np.random.default_rng(seed)
    factors = [rng.standard_normal((d, RANK)) for d in shape]
    factors = [factors[0]] * len(shape) if symmetric else factors
    truth = np.asarray(KruskalPoint(factors).dense())
    wrong = rng.random(shape) < 0.1
    data = np.where(wrong, 10 * rng.standard_normal(shape), truth)
    known = rng.random(shape) >= missing
    map = lm.maps.SymmetricCP(shape[0], BOUND) if symmetric else lm.maps.CP(shape, BOUND)
    return truth, data, known, map


@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize(
    ("shape", "symmetric"), [((16, 14, 12), False), ((8, 7, 6, 5), False), ((12, 12, 12), True)]
)
def test_exact_tensors_with_wrong_and_missing_entries(listed, shape, symmetric):
    truth, data, known, map = spoiled(shape, symmetric=symmetric, missing=0.2)
    if listed:
        found = lm.recover(data[known], map, lm.operators.Entries.from_mask(known))
    else:
        found = lm.recover(np.where(known, data, np.nan), map)
    assert (found.status, found.rank) == (lm.RecoveryStatus.EXACT, RANK)
    assert np.linalg.norm(found.point.dense() - truth) < 1e-10 * np.linalg.norm(truth)


@pytest.mark.slow
def test_too_few_entries_prove_nothing():
    _, data, known, map = spoiled((8, 7, 6), missing=0.8)
    assert not lm.recover(np.where(known, data, np.nan), map).status.succeeded


def test_few_passes_to_a_tensor_of_nearly_collinear_factors():
    rng = np.random.default_rng(1)
    mix = np.linalg.cholesky(np.full((4, 4), 0.9) + 0.1 * np.eye(4)).T
    truth = KruskalPoint([np.linalg.qr(rng.standard_normal((30, 4)))[0] @ mix for _ in range(3)])
    data = np.array(truth.dense())
    wrong = rng.random(data.shape) < 0.1
    data[wrong] = 10 * np.std(data) * rng.standard_normal(wrong.sum())
    found = lm.recover(data, lm.maps.CP((30, 30, 30), rank=6))
    assert (found.status, found.rank) == (lm.RecoveryStatus.EXACT, 4)
    assert float(found.point.distance(truth) / truth.norm()) < 1e-10
    assert np.array_equal(np.stack(found.outliers), np.stack(np.nonzero(wrong)))
    assert found.passes < 500


def test_slices_of_wrong_numbers_are_named():
    """No fit is certified, and no other slice is named; one in two fits names both."""
    named = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        factors = [rng.standard_normal((d, 2)) for d in (14, 10, 8)]
        truth = np.asarray(KruskalPoint(factors).dense())
        data = truth + 1e-4 * rng.standard_normal(truth.shape)
        data[[3, 7]] = 20 * rng.standard_normal((2, 10, 8))
        found = lm.recover(data, lm.maps.CP((14, 10, 8), rank=4))
        assert not found.status.succeeded
        assert set(found.doubtful[0]) <= {3, 7}
        assert not any(found.doubtful[1:])
        named.append("slices 3, 7 of mode 0" in found.summary())
    assert sum(named) >= 3


def test_a_bound_that_is_too_low_makes_no_noise_of_terms():
    rng = np.random.default_rng(0)
    tensor = np.asarray(KruskalPoint([rng.standard_normal((d, 3)) for d in (12, 10, 8)]).dense())
    found = lm.recover(tensor, lm.maps.CP((12, 10, 8), rank=2))
    assert found.status is lm.RecoveryStatus.NOT_CONVERGED
    assert "the bound on the rank may be too low" in found.summary()


def test_an_unfolding_that_could_be_anything_misleads_no_noisy_fit():
    """At the bound, the squarest matrix has more freedom than half of the entries.

    The error is that of one who knows the truth but for the noise: its part along the tangents.
    """
    rng = np.random.default_rng(5)
    shape = (14, 12, 10)
    factors = tuple(rng.standard_normal((d, 5)) for d in shape)
    truth = np.asarray(KruskalPoint(factors).dense())
    noise = 0.02 * np.std(truth) * rng.standard_normal(shape)
    wrong = rng.random(shape) < 0.05
    data = np.where(wrong, 10 * np.std(truth) * rng.standard_normal(shape), truth + noise)
    found = lm.recover(data, lm.maps.CP(shape, rank=8))
    assert (found.status, found.rank) == (lm.RecoveryStatus.NOISE_LEVEL, 5)
    blocks = jax.jacfwd(lambda x: KruskalPoint(x).dense())(factors)
    tangents = np.concatenate([np.asarray(b).reshape(truth.size, -1) for b in blocks], axis=1)
    right = ~wrong.ravel()
    moves = np.linalg.lstsq(tangents[right], noise.ravel()[right], rcond=1e-10)[0]
    error = np.linalg.norm(np.asarray(found.point.dense()) - truth)
    assert error < 1.2 * np.linalg.norm(tangents @ moves)
