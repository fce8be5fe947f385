"""The model as a compiled function of a flat vector, with its Jacobian.

One program gives both: on small data calling it costs more than running it, and one compilation is
all that a first fit waits for.
"""

import collections
import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from .._programs import forget_programs_if_many, own
from . import _constants as constants

_programs: collections.OrderedDict[Any, Any] = collections.OrderedDict()
_IMPURE = (
    "The model must be a function of its arguments alone: it keeps something from one call to the "
    "next, or returns arrays of other shapes each time."
)


class ModelFailed(Exception):
    """Raised by a model while it ran, at some parameters: by a check or a solver in it."""


def failure(error: Exception, most: int = 300) -> str:
    """What was raised, in a line; of errors in callbacks, that of the callback."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip(" -^=")]
    inner = [line for line in lines if re.match(r"[\w.]*(Error|Exception): ", line)]
    if inner:
        kind, _, text = inner[-1].partition(": ")
        return f"with {kind.rpartition('.')[2].lstrip('_')}: {text[:most].rstrip('.')}"
    return f"with {type(error).__name__}: {(lines or ['no message'])[0][:most].rstrip('.')}"


def raised_while_running(error: Exception) -> bool:
    """Whether a compiled program failed, and not its tracing: XLA's errors begin with a status."""
    return isinstance(error, RuntimeError) or bool(re.match(r"[A-Z_]+: ", str(error)))


@contextlib.contextmanager
def one_program() -> Iterator[None]:
    """A sentence for models that raise where all steps are one program: none can be rejected."""
    try:
        yield
    except (RuntimeError, ValueError) as error:
        if not raised_while_running(error):
            raise
        raise ValueError(
            f"The model fails at some parameters {failure(error)}. Here all steps are one program: "
            "let it return NaN instead (throw=False in diffrax), or give bounds."
        ) from None


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

    It returns NumPy arrays, and raises `ModelFailed` if the model raises while it runs. The
    programs of the last few models are kept.
    """
    key = (model, layout, outputs, lanes)
    try:
        known = _programs.get(key)
    except TypeError:  # a model that cannot be hashed has to be compiled each time
        return _compile(model, layout, outputs, lanes)
    if known is None:
        known = _programs[key] = _compile(model, layout, outputs, lanes)
        while len(_programs) > constants.KEPT_PROGRAMS:
            _programs.popitem(last=False)
    else:
        _programs.move_to_end(key)
    return known


def _compile(model: Callable, layout: Layout, outputs: int, lanes: bool) -> Callable:
    forget_programs_if_many()
    flat = flat_model(model, layout)

    def function(u: Array, base: Array, args: tuple) -> Array:
        value = flat(u, base, args)
        if value.size != outputs:
            raise TypeError(_IMPURE)
        return value

    def forward(u: Array, base: Array, args: tuple) -> tuple[Array, Array]:
        value, push = jax.linearize(lambda v: function(v, base, args), u)
        return value, jax.vmap(push, out_axes=1)(jnp.eye(u.size, dtype=u.dtype))

    def reverse(u: Array, base: Array, args: tuple) -> tuple[Array, Array]:
        value, pullback = jax.vjp(lambda v: function(v, base, args), u)
        (rows,) = jax.vmap(pullback)(jnp.eye(value.size, dtype=value.dtype))
        return value, rows

    def jitted(both: Callable) -> Callable:
        return own(jax.jit(jax.vmap(both, in_axes=(0, None, None)) if lanes else both))

    program = jitted(reverse if len(layout.free) > outputs else forward)

    def run(u: Any, base: Any, args: tuple) -> tuple[np.ndarray, np.ndarray]:
        nonlocal program
        try:
            value, slopes = program(u, base, args)
            return np.asarray(value), np.asarray(slopes)
        except jax.errors.UnexpectedTracerError as error:
            raise TypeError(_IMPURE) from error
        except TypeError as error:
            # Some models, such as solvers of differential equations, know reverse mode alone.
            if "custom_vjp" not in str(error):
                raise
        except (RuntimeError, ValueError) as error:
            if not raised_while_running(error):
                raise
            raise ModelFailed(failure(error)) from None
        program = jitted(reverse)
        return run(u, base, args)

    return run
