"""The parts of an instance: truths, starts, outliers, and checks."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array

import lemmax as lm
from lemmax._checks import check_positive, check_real, check_whole
from lemmax._dtype import keeps_float64

# Relative accuracy of the start's error, and maximum number of secant steps.
_CLOSE, _SECANT_STEPS = 1e-12, 60


class Instance(NamedTuple):
    """A problem, a start, and the true solution."""

    problem: lm.Composite
    x0: Any
    truth: lm.points.AbstractPoint

    @property
    def error(self) -> lm.metrics.RelativeError:
        """The relative error, as a metric for the trace."""
        return lm.metrics.RelativeError(self.truth)


class Streams(NamedTuple):
    """Independent random streams, so that one part can change without the others."""

    operator: np.random.Generator
    truth: np.random.Generator
    outliers: np.random.Generator
    start: np.random.Generator


def streams(seed: int) -> Streams:
    """The random streams of a seed."""
    check_whole(0, seed=seed)
    return Streams(*np.random.default_rng(seed).spawn(4))


def check_model(dims: Sequence[int], rank: int, true_rank: int) -> None:
    """Raise an error unless the truth fits the space and the model."""
    if len(dims) < 2:
        raise ValueError(f"A matrix or tensor needs two or more dimensions; got {tuple(dims)}.")
    square = len(set(dims)) == 1
    sizes = {"dim" if square else f"dimension {k}": dim for k, dim in enumerate(dims)}
    check_positive(**sizes, rank=rank, true_rank=true_rank)
    if true_rank > min(rank, *dims):
        raise ValueError(
            "The true rank must be at most the fitted rank and every dimension; got true_rank "
            f"{true_rank}, rank {rank}, dimensions {tuple(dims)}."
        )


def check_law(*, condition: float, start_error: float, outliers: float = 0.0) -> None:
    """Raise an error unless condition, start error and share of outliers are valid."""
    # Beyond this the smallest value is a rounding error of the largest.
    check_real(1, 1e16, condition=condition)
    check_real(0, 1e6, start_error=start_error, open_low=True)
    check_real(0, 1, outliers=outliers)
    if outliers == 1:
        raise ValueError("outliers must be below 1: no correct observation would be left.")


def haar_columns(rng: np.random.Generator, dim: int, count: int) -> np.ndarray:
    """Orthonormal columns, uniformly distributed."""
    basis, triangle = np.linalg.qr(rng.standard_normal((dim, count)))
    return basis * np.sign(np.diagonal(triangle))  # uniform only with these signs


def conditioned_factor(
    rng: np.random.Generator, dim: int, rank: int, condition: float, order: int = 2
) -> np.ndarray:
    """Orthogonal columns, uniformly random, with ``norm**order`` spaced from 1 to 1/condition."""
    spectrum = np.linspace(1.0, 1.0 / condition, rank)
    return haar_columns(rng, dim, rank) * spectrum ** (1.0 / order)


def pad_columns(factor: np.ndarray, rank: int) -> np.ndarray:
    """Pad with zero columns up to the given rank."""
    return np.pad(factor, ((0, 0), (0, rank - factor.shape[1])))


def perturb(rng: np.random.Generator, map: lm.maps.AbstractMap, solution: Any, error: float) -> Any:
    """Move from a solution in a Gaussian direction to a given relative error."""
    noise = jax.tree.map(lambda factor: rng.standard_normal(factor.shape), solution)

    def moved(length: float) -> Any:
        return jax.tree.map(lambda f, e: f + length * e, solution, noise)

    def excess(log_length: float) -> float:
        return float(np.log(_relative_error(map, moved(np.exp(log_length)), solution) / error))

    # On logarithmic scales the error is nearly linear: the secant method needs few steps.
    before, now = np.log(1e-3 * error), np.log(1e-2 * error)
    above_before, above = excess(before), excess(now)
    for _ in range(_SECANT_STEPS):
        if abs(above) <= _CLOSE or above == above_before:
            break
        step = -above * (now - before) / (above - above_before)
        before, above_before, now = now, above, now + float(np.clip(step, -3, 3))
        above = excess(now)
    return moved(float(np.exp(now)))


@keeps_float64
@eqx.filter_jit
def _relative_error(map: lm.maps.AbstractMap, x: Any, solution: Any) -> Array:
    truth = map(solution)
    return map(x).distance(truth) / truth.norm()


def corrupt(
    rng: np.random.Generator,
    data: np.ndarray,
    fraction: float,
    scale: float = 10.0,
    wrong: np.ndarray | None = None,
) -> np.ndarray:
    """Replace a fraction of the observations by outliers.

    They are the entries of ``wrong`` if given, otherwise Gaussian noise of ``scale`` times the size
    of the data.
    """
    chosen = rng.choice(data.size, math.floor(fraction * data.size), replace=False)
    corrupted = data.copy()
    if wrong is None:
        corrupted[chosen] = scale * np.sqrt(np.mean(data**2)) * rng.standard_normal(chosen.size)
    else:
        corrupted[chosen] = wrong[chosen]
    return corrupted
