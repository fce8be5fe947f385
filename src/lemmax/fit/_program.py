"""The model as a compiled function of a flat vector, with its Jacobian.

One program gives both: on small data calling it costs more than running it, and one compilation is
all that a first fit waits for.
"""

import collections
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from .._programs import forget_programs_if_many, own

# So many models stay compiled, and with them whatever arrays they close over.
_KEPT = 32
_programs: collections.OrderedDict[Any, Any] = collections.OrderedDict()


class Layout(NamedTuple):
    """How a pytree of parameters lies in a flat vector, and which of its entries are free."""

    structure: Any
    shapes: tuple[tuple[int, ...], ...]
    free: tuple[int, ...]
    """Positions of the free entries in the flat vector."""

    @property
    def size(self) -> int:
        """The number of entries, fixed ones included."""
        return sum(int(np.prod(shape)) for shape in self.shapes)

    def tree(self, flat: Any, lanes: int | None = None) -> PyTree:
        """Parameters from the flat vector of all entries (or one for each lane); NumPy or JAX."""
        leaves, first = [], 0
        before = () if lanes is None else (lanes,)
        for shape in self.shapes:
            count = int(np.prod(shape))
            leaves.append(flat[..., first : first + count].reshape((*before, *shape)))
            first += count
        return jax.tree.unflatten(self.structure, leaves)

    def fill(self, base: np.ndarray, u: np.ndarray) -> np.ndarray:
        """All entries, from the free ones."""
        full = base.copy()
        full[list(self.free)] = u
        return full


def outputs_as_vector(tree: PyTree) -> Array:
    """Everything a model returns in one real vector; of complex numbers, both parts."""
    leaves = []
    for leaf in jax.tree.leaves(tree):
        leaf = jnp.asarray(leaf)
        if jnp.issubdtype(leaf.dtype, jnp.complexfloating):
            leaf = jnp.stack([jnp.real(leaf), jnp.imag(leaf)], axis=-1)
        leaves.append(jnp.ravel(leaf).astype(float))
    return jnp.concatenate(leaves)


def flat_model(model: Callable, layout: Layout) -> Callable[..., Array]:
    """The model as a function of the free entries, all entries, and its other arguments."""

    def function(u: Array, base: Array, args: tuple) -> Array:
        full = u if len(layout.free) == layout.size else base.at[np.array(layout.free)].set(u)
        return outputs_as_vector(model(layout.tree(full), *args))

    return function


def compiled(model: Callable, layout: Layout, outputs: int, lanes: bool = False) -> Callable:
    """``program(u, base, args)``: the outputs and their Jacobian; of many u if there are lanes.

    The programs of the last few models are kept.
    """
    key = (model, layout, outputs, lanes)
    try:
        known = _programs.get(key)
    except TypeError:  # a model that cannot be hashed has to be compiled each time
        return _compile(model, layout, outputs, lanes)
    if known is None:
        known = _programs[key] = _compile(model, layout, outputs, lanes)
        while len(_programs) > _KEPT:
            _programs.popitem(last=False)
    else:
        _programs.move_to_end(key)
    return known


def _compile(model: Callable, layout: Layout, outputs: int, lanes: bool) -> Callable:
    forget_programs_if_many()
    function = flat_model(model, layout)

    def forward(u: Array, base: Array, args: tuple) -> tuple[Array, Array]:
        value, push = jax.linearize(lambda v: function(v, base, args), u)
        return value, jax.vmap(push, out_axes=1)(jnp.eye(u.size, dtype=u.dtype))

    def reverse(u: Array, base: Array, args: tuple) -> tuple[Array, Array]:
        value, pullback = jax.vjp(lambda v: function(v, base, args), u)
        (rows,) = jax.vmap(pullback)(jnp.eye(value.size, dtype=value.dtype))
        return value, rows

    def jitted(both: Callable) -> Callable:
        return own(jax.jit(jax.vmap(both, in_axes=(0, None, None)) if lanes else both))

    if len(layout.free) > outputs:
        return jitted(reverse)
    program = jitted(forward)

    def either(u: Any, base: Any, args: tuple) -> tuple[Array, Array]:
        nonlocal program
        try:
            return program(u, base, args)
        except TypeError as error:
            # Some models, such as solvers of differential equations, know reverse mode alone.
            if "custom_vjp" not in str(error):
                raise
        program = jitted(reverse)
        return program(u, base, args)

    return either
