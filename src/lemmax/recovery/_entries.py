"""Observed entries of a matrix: the graduated fit, and what it proves."""

import jax
import jax.numpy as jnp
import numpy as np

from .._dtype import cast_floats
from ..init._matrices import project_low_rank, project_psd
from ..maps import PSD
from ..operators import Identity
from ..problem import Composite
from ._certificate import Fit, certify_exact, certify_noise, nothing_found
from ._descent import Descent, Watch
from ._entrywise import EntrywiseFit, fit_entries
from ._linearised import Workbench
from ._noise import bulk_of, schwarz
from ._search import Answer, is_robust, predictions
from ._structure import degrees_of_freedom, is_ranked, largest_rank, term_sizes, with_rank
from ._tangent import tangent_of_entries


def search_entries(problem: Composite, seed: int, watch: Watch) -> tuple[Answer, int, int]:
    """The answer, the passes and the steps it took."""

    def told(step: int, rank: int, scale: float) -> bool:
        return watch(f"rank {rank}", step, scale)

    robust = is_robust(problem)
    descent = Descent(Workbench(problem), robust, watch, np.random.default_rng(seed))
    found = _nothing_wrong(problem, descent) or fit_entries(problem, seed=seed, watch=told)
    passes = found.passes
    fitted = found.map
    assert is_ranked(fitted)
    freedom = degrees_of_freedom(fitted, fitted.rank)
    fit = Fit(
        np.asarray(found.residual, np.float64),
        descent.known,
        descent.bench.labels,
        float(found.map(jax.tree.map(jnp.asarray, found.x)).norm()),
        lambda used: tangent_of_entries(problem, fitted, found.x, used, freedom),
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
        used, scale = bulk_of(fit.residual, fit.known, freedom, robust)
        try:
            certificate = certify_noise(fit, used, scale, lambda: predictions(problem, seed, again))
        except KeyboardInterrupt:
            interrupted, certificate = True, certify_exact(fit, descent.zero)
    sizes = term_sizes(found.map, found.x)
    criterion = schwarz(
        descent.bench, fit.residual, certificate.explained, certificate.noise, freedom
    )
    answer = Answer(found.map, found.x, fit.residual, sizes, certificate, criterion, interrupted)
    return answer, passes, found.steps


def _nothing_wrong(problem: Composite, descent: Descent) -> EntrywiseFit | None:
    """A complete table of low rank, up to rounding errors: its singular vectors are the answer."""
    if not isinstance(problem.operator, Identity) or not np.all(descent.known):
        return None
    assert is_ranked(problem.map)
    data = np.asarray(problem.data, np.float64)
    bound = largest_rank(problem.map)
    project = project_psd if isinstance(problem.map, PSD) else project_low_rank
    # Of the rank that the singular values show; more than the bound is not of low rank.
    values = np.linalg.svd(data, compute_uv=False)
    shown = int(np.sum(values > np.sqrt(data.size) * descent.zero))
    if not 0 < shown <= bound:
        return None
    spectrum = project(data, shown, noisy=False).parts
    left, right = (side * np.sqrt(spectrum.values) for side in (spectrum.left, spectrum.right))
    residual = left @ right.T - data
    if np.sqrt(np.mean(residual**2)) > descent.rounding:
        return None
    x = cast_floats(left if isinstance(problem.map, PSD) else (left, right), problem.data.dtype)
    return EntrywiseFit(with_rank(problem.map, shown), x, residual, 0, 1, True, False)
