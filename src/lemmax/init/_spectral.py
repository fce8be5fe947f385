"""Spectral starts for all maps."""

import functools
from collections.abc import Callable

import numpy as np

from .._checks import check_kind, check_whole
from .._dtype import cast_floats, precision_context
from .._terms import Tucker, decompose, leading_terms, nearest_tucker, outer_products
from .._typing import Parameters
from ..maps import AbstractMap
from ..points import DensePoint, KruskalPoint
from ..problem import Composite
from ._matrices import balanced_factors, project_low_rank, project_psd
from ._quadratic import fit_quadratic, is_quadratic
from ._random import random_starts
from ._rounds import Projected, fit_robustly
from ._start import Observations, Start

# Entries without signal are set to this fraction of the largest.
_SMALL_ENTRY = 1e-3
# Eigenvalues below this fraction of the data may be rounding errors.
_ROUNDING = 1e-12


def spectral(problem: Composite, *, seed: int = 0) -> Start:
    """A starting point computed from the data, robust to up to about a third of outliers.

    The truncated spectral start, refined on trimmed residuals. docs/starts.md describes it for each
    map, with its accuracy.

    Parameters
    ----------
    problem : Composite
        A problem with any lemmax map except `FromFunction`. Observations with weight 0 in the
        loss are missing. With a squared loss the entries of a tensor are assumed to have no
        outliers; otherwise the loss has no influence.
    seed : int
        Random seed for the small values in directions without signal, and for slices of tensors.

    Returns
    -------
    Start
        ``x0``, parameters of the map's full rank; ``passes``, the number of passes over the
        measurements; ``note``, a description of the method used.

    Examples
    --------
    >>> import lemmax as lm
    >>> from lemmax.experiments.instances import psd_sensing
    >>> from lemmax.init import spectral
    >>> problem = psd_sensing(0, dim=8, rank=2, measurements=200, outliers=0.2).problem
    >>> start = spectral(problem)
    >>> start.x0.shape, start.passes
    ((8, 2), 20)
    >>> result = lm.solve(problem, lm.methods.lmm(lm.steps.Geometric(1e-2, 0.95),
    ...                   lm.damping.Geometric(1e-5, 0.95)), start.x0, max_steps=300)
    """
    check_kind("problem", problem, Composite, "a Composite problem")
    check_whole(0, seed=seed)
    _check_known(problem.map)
    rng = np.random.default_rng(seed)
    with precision_context(problem):
        if isinstance(problem.data, KruskalPoint):
            return _from_factors(problem.data, problem.map, rng)
        observed = Observations(problem)
        x0, note = _fitted(observed, problem.map, rng)
        if x0 is None:
            x0 = _random_of_right_size(observed, problem.map, seed)
            note = "random: no point of the map resembles the data"
    return Start(cast_floats(x0, observed.dtype), observed.passes, note)


def _check_known(map: AbstractMap) -> None:
    if map.ranked is None and map.nearest(np.ones(map.shape or ())) is None:
        raise ValueError(
            f"There is no spectral start for the map {type(map).__name__}: pass x0, or "
            "try several of lemmax.init.random_starts."
        )


def _fitted(
    observed: Observations, map: AbstractMap, rng: np.random.Generator
) -> tuple[Parameters | None, str]:
    """Parameters that fit most of the data, and a description of the method; or None."""
    fit = functools.partial(fit_robustly, observed, entrywise=observed.operator.entrywise)
    ranked = map.ranked
    if ranked is None:
        found = fit(functools.partial(_project_nearest, map))
        x = found and map.nearest(_without_zeros(found.array))
        return x, "projected steps with trimmed residuals"
    assert map.shape is not None
    rank, symmetric = ranked.rank, bool(map.symmetric)
    if len(map.shape) == 2:
        if symmetric and is_quadratic(observed, map.shape[0], rng):
            spectrum = fit_quadratic(observed, rank)
            note = "spectral start for quadratic measurements, refined on trimmed amplitudes"
        else:
            found = fit(functools.partial(_project_matrix(symmetric), rank=rank))
            spectrum = found and found.parts
            note = "truncated spectral start, refined on trimmed residuals"
        return spectrum and ranked.parameters(balanced_factors(spectrum, rank, rng)), note
    if observed.is_complete_and_right():
        tucker = nearest_tucker(observed.values, rank, symmetric=symmetric)
        note = "higher-order SVD, simultaneous diagonalisation"
    else:
        found = fit(functools.partial(_project_tensor, rank=rank, symmetric=symmetric))
        tucker = found and found.parts
        note = "higher-order SVD refined on trimmed residuals, then simultaneous diagonalisation"
    return tucker and ranked.parameters(decompose(tucker, rank, rng, symmetric=symmetric)), note


def _project_matrix(symmetric: bool) -> Callable[..., Projected]:
    return project_psd if symmetric else project_low_rank


def _project_tensor(array: np.ndarray, rank: int, symmetric: bool) -> Projected:
    tucker = nearest_tucker(array, rank, symmetric=symmetric, noisy=True)
    dense = tucker.dense()
    return Projected(dense, DensePoint(dense), tucker)


def _project_nearest(map: AbstractMap, array: np.ndarray) -> Projected:
    point = map(map.nearest(array))
    return Projected(np.asarray(point.dense()), point, None)


def _without_zeros(entries: np.ndarray) -> np.ndarray:
    """Positive everywhere: the Jacobian vanishes where x is 0."""
    return np.maximum(entries, _SMALL_ENTRY * np.max(entries))


def _random_of_right_size(observed: Observations, map: AbstractMap, seed: int) -> Parameters:
    x = random_starts(map, 1, seed=seed)[0]
    ratio = observed.typical(observed.values) / observed.typical(observed.measure(map(x)))
    if isinstance(x, tuple):
        return tuple(ratio ** (1 / len(x)) * factor for factor in x)
    order = 2 if map.shape is None else max(2, len(map.shape))
    return ratio ** (1 / order) * x


def _from_factors(data: KruskalPoint, map: AbstractMap, rng: np.random.Generator) -> Start:
    """For exact data in factored form: decompose the core, without forming the tensor."""
    factors = tuple(np.asarray(factor, np.float64) for factor in data.factors)
    if map.symmetric:
        bases = (np.linalg.qr(np.concatenate(factors, axis=1))[0],) * len(factors)
    else:
        bases = tuple(np.linalg.qr(factor)[0] for factor in factors)
    core = outer_products(tuple(q.T @ f for q, f in zip(bases, factors, strict=True)))
    if not np.any(core):
        raise ValueError("The data are zero: there is no direction to start in. Pass x0.")
    ranked = map.ranked
    assert ranked is not None
    if core.ndim == 2:
        spectrum = _project_matrix(bool(map.symmetric))(core, ranked.rank, noisy=False).parts
        if spectrum.values[0] <= _ROUNDING * np.linalg.norm(core):
            raise ValueError(
                "The data are negative semidefinite: the nearest X X' is zero. Pass x0."
            )
        left, right = bases[0] @ spectrum.left, bases[1] @ spectrum.right
        found = balanced_factors(spectrum._replace(left=left, right=right), ranked.rank, rng)
    else:
        found = leading_terms(Tucker(core, bases), ranked.rank, rng, symmetric=bool(map.symmetric))
    x0 = cast_floats(ranked.parameters(found), data.factors[0].dtype)
    return Start(x0, 1, "decomposition of the core of factored data")
