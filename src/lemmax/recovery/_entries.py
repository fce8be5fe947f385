"""Observed entries of a matrix: the graduated fit, and what it proves."""

import jax
import jax.numpy as jnp
import numpy as np

from ..problem import Composite
from ._certificate import Fit, certify_exact, certify_noise, nothing_found
from ._descent import Descent, Watch
from ._entrywise import fit_entries
from ._linearised import Workbench
from ._noise import BULK, noise_scale
from ._search import Answer, is_robust, predictions
from ._structure import degrees_of_freedom, is_ranked, term_sizes
from ._tangent import tangent_of_entries


def search_entries(problem: Composite, seed: int, watch: Watch) -> tuple[Answer, int, int]:
    """The answer, the passes and the steps it took."""

    def told(step: int, rank: int, scale: float) -> bool:
        return watch(f"rank {rank}", step, scale)

    found = fit_entries(problem, seed=seed, watch=told)
    passes = found.passes
    robust = is_robust(problem)
    descent = Descent(Workbench(problem), robust, watch, np.random.default_rng(seed))
    assert is_ranked(found.map)
    freedom = degrees_of_freedom(found.map, found.map.rank)
    fit = Fit(
        np.asarray(found.residual, np.float64),
        descent.known,
        descent.bench.labels,
        float(found.map(jax.tree.map(jnp.asarray, found.x)).norm()),
        lambda used: tangent_of_entries(problem, found.x, used, freedom),
    )

    def again(part: Composite) -> np.ndarray:
        nonlocal passes
        less = fit_entries(part, seed=seed, watch=told)
        passes += less.passes
        if less.interrupted:
            raise KeyboardInterrupt
        return np.asarray(less.residual, np.float64)

    interrupted = found.interrupted
    if fit.norm == 0:
        certificate = nothing_found(fit, freedom)
    elif interrupted or descent.vanishes(fit.residual):
        certificate = certify_exact(fit, descent.zero)
    else:
        scale = noise_scale(fit.residual, fit.known, freedom, robust)
        used = fit.known & ((np.abs(fit.residual) <= BULK * scale) | (not robust))
        try:
            certificate = certify_noise(fit, used, scale, lambda: predictions(problem, seed, again))
        except KeyboardInterrupt:
            interrupted, certificate = True, certify_exact(fit, descent.zero)
    sizes = term_sizes(found.map, found.x)
    answer = Answer(found.map, found.x, fit.residual, sizes, certificate, interrupted)
    return answer, passes, found.steps
