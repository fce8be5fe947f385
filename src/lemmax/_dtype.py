"""The precision policy; the only module that asks JAX about it.

lemmax never changes ``jax.config``. It follows the dtype of its input. A float64 array stays
float64 even if JAX's x64 mode is off: such computations run in JAX's local x64 context and return
NumPy arrays, because JAX would truncate a float64 array at the next operation outside that context.
"""

import contextlib
import functools
import math
from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from ._memory import require_memory
from ._tree import is_traced

# XLA uses foreign memory without a copy if it is aligned to this.
_ALIGNMENT = 64
_COPIED = (
    "{rows} rows of it would fit. A read-only array is not copied: "
    "numpy.load(file, mmap_mode='r') reads one from a file."
)

Function = TypeVar("Function", bound=Callable[..., Any])


def x64_is_on() -> bool:
    """Whether JAX computes in 64 bits, including the local context."""
    return jax.dtypes.canonicalize_dtype(np.float64) == np.float64


def _is_float64(leaf: Any) -> bool:
    # Python and NumPy scalars are hyper-parameters: they adapt to the arrays.
    return isinstance(leaf, (np.ndarray, jax.Array)) and leaf.dtype == np.float64


def needs_local_x64(*trees: PyTree) -> bool:
    """Whether these arrays would be truncated outside of a local x64 context."""
    if x64_is_on():
        return False
    return any(_is_float64(leaf) for leaf in jax.tree.leaves(trees))


def precision_context(*trees: PyTree) -> contextlib.AbstractContextManager:
    """A context in which these arrays keep their precision."""
    return jax.enable_x64(True) if needs_local_x64(*trees) else contextlib.nullcontext()


def x64_context() -> contextlib.AbstractContextManager:
    """A context in which JAX computes in 64 bits."""
    return contextlib.nullcontext() if x64_is_on() else jax.enable_x64(True)


def to_device(array: Any) -> Array:
    """Put an array on the device as floating point; float64 is kept in either x64 mode.

    Data from outside JAX (integers, lists, anything NumPy accepts) become float64, except float32,
    which is kept. The caller's memory is copied before this returns, unless it is read-only: such
    an array is used without a copy, even if it is memory-mapped.

    Raises
    ------
    MemoryError
        If the copy does not fit.
    """
    if is_traced(array):
        return array
    if isinstance(array, jax.Array):
        _refuse_complex(array.dtype)
        half = jnp.issubdtype(array.dtype, jnp.floating) and array.dtype.itemsize < 4
        if half or not jnp.issubdtype(array.dtype, jnp.floating):
            array = array.astype(jnp.float32 if half else float)
        return array
    array = np.asarray(array)
    _refuse_complex(array.dtype)
    if array.dtype.kind not in "fiubO":
        raise TypeError(f"An array of numbers is needed; got one of type {array.dtype}.")
    dtype = np.float32 if array.dtype.kind == "f" and array.dtype.itemsize <= 4 else np.float64
    if array.dtype == dtype and _is_constant(array):
        with precision_context(array):
            return jax.device_put(array)
    require_memory(array.shape, np.dtype(dtype).itemsize, "The array", _COPIED)
    try:
        mine = aligned_empty(array.shape, dtype)
        np.copyto(mine, array, casting="unsafe")
    except (TypeError, ValueError) as error:
        raise TypeError(f"An array of numbers is needed, and these are not: {error}.") from error
    with precision_context(mine):
        return jax.device_put(mine)


def _is_constant(array: np.ndarray) -> bool:
    """Whether XLA can use the memory directly, and it has always been read-only."""
    if not array.flags.c_contiguous or array.ctypes.data % _ALIGNMENT:
        return False
    owner: Any = array
    while isinstance(owner, np.ndarray):
        if owner.flags.writeable:
            return False
        owner = owner.base
    return True


def _refuse_complex(dtype: Any) -> None:
    if jnp.issubdtype(dtype, jnp.complexfloating):
        raise TypeError(
            "Complex arrays are not supported. Stack real and imaginary parts along a new axis."
        )


def require_finite(tree: PyTree, what: str, cure: str = "") -> None:
    """Raise an error if an array contains NaN or infinity; traced arrays pass."""
    if is_traced(tree):
        return
    bad = 0
    for array in (part for leaf in jax.tree.leaves(tree) for part in _local_parts(leaf)):
        # A sum needs no memory. Entries are tested only if it is not finite.
        with np.errstate(over="ignore", invalid="ignore"):
            total = np.sum(array)
        if not np.isfinite(total):
            bad += int(array.size - np.count_nonzero(np.isfinite(array)))
    if bad:
        raise ValueError(f"{what} must be finite; {bad} entries are NaN or infinite.{cure}")


def _local_parts(leaf: Any) -> list[np.ndarray]:
    """The parts of an array in this process, device by device, so that nothing is gathered."""
    if not isinstance(leaf, jax.Array):
        return [np.asarray(leaf)]
    return [np.asarray(part.data) for part in leaf.addressable_shards if part.replica_id == 0]


def aligned_empty(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """A NumPy array whose memory `jax.device_put` uses on a CPU instead of copying it.

    ``jnp.asarray`` of a NumPy array copies twice, and in the background: it may read the caller's
    array after it has returned, when the caller may be writing to it again. Copying into our own
    memory and passing that to JAX is a single copy, finished on return.
    """
    count = math.prod(shape) * np.dtype(dtype).itemsize
    memory = np.empty(count + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    return memory[start : start + count].view(dtype).reshape(shape)


def to_numpy(tree: PyTree) -> PyTree:
    """Convert every JAX array of a pytree to a NumPy array."""
    return jax.tree.map(lambda u: np.asarray(u) if isinstance(u, jax.Array) else u, tree)


def keeps_float64(function: Function) -> Function:
    """Let a public function keep float64 arguments in float64 if x64 mode is off."""

    @functools.wraps(function)
    def wrapped(*args, **kwargs):
        if not needs_local_x64(args, kwargs):
            return function(*args, **kwargs)
        with jax.enable_x64(True):
            return to_numpy(function(*args, **kwargs))

    return wrapped  # pyright: ignore[reportReturnType]


def cast_floats(tree: PyTree, dtype: Any) -> PyTree:
    """Cast every floating-point array of a pytree to one dtype."""

    def cast(leaf):
        floating = eqx.is_array(leaf) and jnp.issubdtype(leaf.dtype, jnp.floating)
        return leaf.astype(dtype) if floating else leaf

    return jax.tree.map(cast, tree)


def as_hyperparameters(tree: PyTree) -> PyTree:
    """Convert Python numbers to weakly typed device scalars.

    They become arguments of the compiled program instead of constants, so that another value does
    not compile again, and they take the precision of the arrays they are combined with.
    """

    def convert(leaf):
        number = isinstance(leaf, (int, float)) and not isinstance(leaf, bool)
        return jnp.asarray(leaf) if number else leaf

    return jax.tree.map(convert, tree)


def common_dtype(*trees: PyTree) -> Any:
    """The widest floating dtype among the arrays of these pytrees."""
    dtypes = [leaf.dtype for leaf in jax.tree.leaves(trees) if hasattr(leaf, "dtype")]
    floating = [dtype for dtype in dtypes if jnp.issubdtype(dtype, jnp.floating)]
    return functools.reduce(np.promote_types, floating)
