"""The error ratio per step on factorisation, against the sharp local theory.

With vanishing damping an exactly parameterised block contracts by |1 - g| and a redundant block of
an order-N symmetric map by (1 - g/N)^N, where g is the Polyak scale for the norm and half of it
for its square. The error follows the slower of the two.
"""

import numpy as np
import pytest

import lemmax as lm
from lemmax.experiments.instances import conditioned_factor, pad_columns


def final_ratios(order, loss, scale, noise=1e-4):
    rng = np.random.default_rng(3)
    dim, rank = 12, 3
    factor = conditioned_factor(rng, dim, 2, condition=1.0, order=order)
    solution = pad_columns(factor, rank)
    redundant = np.zeros_like(solution)
    redundant[:, 2] = rng.standard_normal(dim)
    redundant[:, 2] -= factor @ np.linalg.lstsq(factor, redundant[:, 2], rcond=None)[0]
    redundant *= 0.1 ** (2 / order) / np.linalg.norm(redundant)
    x0 = solution + redundant + noise * rng.standard_normal(solution.shape)
    truth = lm.points.KruskalPoint((factor,) * order)
    map_ = lm.maps.PSD(dim, rank) if order == 2 else lm.maps.SymmetricCP(dim, rank, order)
    rule = (
        lm.damping.ProportionalToRootGap if loss.quadratic else lm.damping.ProportionalToGap
    )  # vanishing: the theory is for damping = o(error)
    method = lm.methods.lmm(lm.steps.Polyak(scale=scale), rule(1e-8))
    result = lm.solve(
        lm.Composite(loss, map_, truth),
        method,
        x0,
        tol=0,
        max_steps=60,
        metrics={"error": lm.metrics.RelativeError(truth)},
    )
    error = result.trace.metrics["error"]
    clean = error[error > 1e-11]  # below, rounding errors show
    return clean[-4:] / clean[-5:-1]


@pytest.mark.parametrize("scale", [0.5, 1.0, 1.5])
@pytest.mark.parametrize("loss", [lm.losses.L2(), lm.losses.SquaredL2()], ids=["norm", "square"])
@pytest.mark.parametrize("order", [2, 3, 4])
def test_error_ratio_is_the_predicted_one(order, loss, scale):
    g = scale / 2 if loss.quadratic else scale
    predicted = max(abs(1 - g), (1 - g / order) ** order)
    np.testing.assert_allclose(final_ratios(order, loss, scale), predicted, rtol=1e-3)


def test_the_ratios_quoted_in_the_literature():
    for order, loss, scale, ratio in (
        (2, lm.losses.L2(), 1.0, 0.2500),
        (2, lm.losses.SquaredL2(), 1.0, 0.5625),
        (3, lm.losses.L2(), 0.5, 0.5787),
    ):
        np.testing.assert_allclose(final_ratios(order, loss, scale), ratio, atol=5e-4)


def test_best_fixed_scale_for_psd():
    ratios = final_ratios(2, lm.losses.L2(), 4 - 2 * np.sqrt(2), noise=1e-3)
    np.testing.assert_allclose(ratios, 3 - 2 * np.sqrt(2), rtol=1e-3)
