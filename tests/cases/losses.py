"""One line per loss for the law checks; residuals have `SIZE` entries."""

from typing import NamedTuple

import numpy as np

from lemmax.losses import L1, L2, AbstractLoss, Huber, Quantile, SquaredL2

SIZE = 5
WEIGHTS = np.array([0.5, 2.0, 1.0, 0.1, 3.0])
# A weight of zero is how a missing observation is left out.
SOME_ZERO = np.array([0.5, 0.0, 1.0, 0.0, 3.0])


class LossCase(NamedTuple):
    name: str
    loss: AbstractLoss


LOSSES = [
    LossCase("L1", L1()),
    LossCase("L1-weights", L1(weights=WEIGHTS)),
    LossCase("L1-zero-weights", L1(weights=SOME_ZERO)),
    LossCase("L2", L2()),
    LossCase("L2-weights", L2(weights=WEIGHTS)),
    LossCase("L2-zero-weights", L2(weights=SOME_ZERO)),
    LossCase("SquaredL2", SquaredL2()),
    LossCase("SquaredL2-weights", SquaredL2(weights=WEIGHTS)),
    LossCase("SquaredL2-zero-weights", SquaredL2(weights=SOME_ZERO)),
    LossCase("Huber", Huber(0.7)),
    LossCase("Huber-weights", Huber(0.7, weights=WEIGHTS)),
    LossCase("Huber-zero-weights", Huber(0.7, weights=SOME_ZERO)),
    LossCase("Quantile", Quantile(0.3)),
    LossCase("Quantile-weights", Quantile(0.8, weights=WEIGHTS)),
    LossCase("Quantile-zero-weights", Quantile(0.8, weights=SOME_ZERO)),
]
