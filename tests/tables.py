"""Tables with holes and wrong entries, for tests."""

import numpy as np


def spoiled_table(rng, rows=60, columns=25, rank=2, location=5.0):
    truth = location + rng.standard_normal((rows, rank)) @ rng.standard_normal((rank, columns))
    table = truth.copy()
    table[rng.random(table.shape) < 0.1] = 40.0
    table[rng.random(table.shape) < 0.1] = np.nan
    return truth, table
