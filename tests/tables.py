"""Tables with holes and wrong entries, for tests."""

import numpy as np


def spoiled_table(rng, rows=60, columns=25, rank=2, location=5.0):
    truth = location + rng.standard_normal((rows, rank)) @ rng.standard_normal((rank, columns))
    table = truth.copy()
    table[rng.random(table.shape) < 0.1] = 40.0
    table[rng.random(table.shape) < 0.1] = np.nan
    return truth, table


def table_with_holes(seed=0, shape=(30, 7), rank=2, noise=0.3):
    rng = np.random.default_rng(seed)
    table = rng.standard_normal((shape[0], rank)) @ rng.standard_normal((rank, shape[1]))
    table += noise * rng.standard_normal(shape)
    table[rng.random(shape) < 0.2] = np.nan
    return table


def noisy_table(seed, noise=0.05, spikes=0.04, shape=(120, 8)):
    rng = np.random.default_rng(seed)
    truth = 5 + rng.standard_normal((shape[0], 2)) @ rng.standard_normal((2, shape[1]))
    table = truth + noise * rng.standard_normal(truth.shape)
    wrong = rng.random(truth.shape) < spikes
    table[wrong] += rng.choice([-1, 1], wrong.sum()) * rng.uniform(10, 20, wrong.sum())
    table[rng.random(table.shape) < 0.05] = np.nan
    return truth, table, wrong & ~np.isnan(table)
