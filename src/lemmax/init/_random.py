"""Random starting points."""

from typing import Any

import jax
import numpy as np

from .._checks import check_kind, check_positive, check_real, check_whole
from .._typing import Parameters
from ..maps import AbstractMap


def random_starts(
    map: AbstractMap, count: int, *, seed: int, scale: float = 1.0, template: Any = None
) -> list[Parameters]:
    """Parameters with independent Gaussian entries.

    Parameters
    ----------
    map : AbstractMap
        The map whose parameters are drawn.
    count : int
        Number of starts.
    seed : int
        Random seed. The first starts do not depend on ``count``.
    scale : float
        Standard deviation of every entry.
    template : pytree of arrays, optional
        Parameters of the right shapes and dtypes, for a map that does not define them
        (`FromFunction`). Their values are not used.

    Returns
    -------
    list of parameters
        NumPy arrays, in the structure of the template or of the map's parameters.

    Examples
    --------
    >>> import lemmax as lm
    >>> from lemmax.init import random_starts
    >>> starts = random_starts(lm.maps.PSD(5, rank=2), 3, seed=0, scale=0.1)
    >>> len(starts), starts[0].shape
    (3, (5, 2))
    """
    check_kind("map", map, AbstractMap, "a lemmax map")
    check_positive(count=count)
    check_whole(0, seed=seed)
    check_real(0, scale=scale, open_low=True)
    if template is not None:
        map.check_parameters(template)
        empty = jax.tree.map(_like, template)
    elif map.parameter_shapes is not None:
        empty = jax.tree.map(np.empty, map.parameter_shapes, is_leaf=_is_shape)
    else:
        raise ValueError(
            f"{type(map).__name__} does not define the shapes of its parameters: pass a template, "
            "parameters of the right shapes with any values."
        )

    def draw(rng: np.random.Generator) -> Parameters:
        return jax.tree.map(
            lambda leaf: np.asarray(scale * rng.standard_normal(leaf.shape), leaf.dtype), empty
        )

    return [draw(rng) for rng in np.random.default_rng(seed).spawn(count)]


def _is_shape(node: Any) -> bool:
    return isinstance(node, tuple) and all(isinstance(size, int) for size in node)


def _like(leaf: Any) -> np.ndarray:
    leaf = np.asarray(leaf)
    return np.empty(leaf.shape, leaf.dtype if leaf.dtype.kind == "f" else np.float64)


def random_starts_like(
    map: AbstractMap, like: Parameters, count: int, seed: int
) -> list[Parameters]:
    """Random starts of the same size as a given one."""
    flat = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(like)])
    scale = float(np.sqrt(np.mean(flat**2))) or 1.0
    return random_starts(map, count, seed=seed, scale=scale, template=like) if count else []
