"""Random numbers, comparisons and messages of the law checks."""

import math
from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

Key = int | Array
"""A seed, or a `jax.random` key."""

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled_quickly(function: Function) -> Function:
    """`equinox.filter_jit` with little optimisation.

    A check runs its functions a few times on tiny arrays, so compilation dominates.
    """
    options = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
    return eqx.filter_jit(function, compiler_options=options)  # pyright: ignore


def generator(key: Key) -> np.random.Generator:
    """A NumPy generator from a seed or a JAX key; drawing from it compiles nothing."""
    if isinstance(key, int):
        return np.random.default_rng(key)
    typed = jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    return np.random.default_rng(np.asarray(jax.random.key_data(key) if typed else key))


def normal_like(rng: np.random.Generator, tree: PyTree) -> PyTree:
    """A pytree of the same shapes with standard normal float64 entries."""
    return jax.tree.map(lambda leaf: jnp.asarray(rng.standard_normal(jnp.shape(leaf))), tree)


def flat(tree: PyTree) -> np.ndarray:
    """All entries of a pytree as one vector."""
    leaves = [np.ravel(np.asarray(leaf)) for leaf in jax.tree.leaves(tree)]
    return np.concatenate(leaves) if leaves else np.zeros(0)


def require(condition: Any, sentence: str) -> None:
    """Raise an AssertionError with the message unless the condition holds."""
    if not bool(condition):
        raise AssertionError(sentence)


def require_close(
    actual: PyTree, expected: PyTree, rtol: float, what: str, scale: float = 0.0
) -> None:
    """Compare in the Euclidean norm, relative to the larger of ``|expected|`` and ``scale``."""
    have, want = flat(actual), flat(expected)
    require(
        have.shape == want.shape,
        f"{what} has {have.size} entries, but {want.size} are expected.",
    )
    error = float(np.linalg.norm(have - want))
    size = max(float(np.linalg.norm(want)), scale)
    relative = error / size if size > 0 else (0.0 if error == 0 else math.inf)
    # Written so that NaN fails.
    require(
        relative <= rtol,
        f"{what}: the relative error is {relative:.1e}, more than the {rtol:.1e} allowed "
        f"(a difference of norm {error:.3e}, where the expected value has norm {size:.3e}).",
    )
