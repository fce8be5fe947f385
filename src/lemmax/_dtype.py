"""The precision policy, and the only place that asks JAX about it.

lemmax never touches ``jax.config``. It follows the dtype of its input, and a float64 array
stays float64 even while JAX's x64 mode is off: such work happens inside JAX's local x64
context, and what comes out of it are NumPy arrays, because JAX itself would truncate a float64
array at the next operation outside that context.
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

# XLA takes over foreign memory that begins at a multiple of this.
_ALIGNMENT = 64
_COPIED = (
    "{rows} rows of it would fit. A read-only array is not copied: "
    "numpy.load(file, mmap_mode='r') reads one from a file."
)

Function = TypeVar("Function", bound=Callable[..., Any])


def x64_is_on() -> bool:
    """Whether JAX computes in 64 bits right now, the local context included."""
    return jax.dtypes.canonicalize_dtype(np.float64) == np.float64


def _is_float64(leaf: Any) -> bool:
    # Python and NumPy scalars are hyper-parameters: they follow, they do not lead.
    return isinstance(leaf, (np.ndarray, jax.Array)) and leaf.dtype == np.float64


def needs_local_x64(*trees: PyTree) -> bool:
    """Whether computing with these arrays outside a local x64 context would truncate them."""
    if x64_is_on():
        return False
    return any(_is_float64(leaf) for leaf in jax.tree.leaves(trees))


def precision_context(*trees: PyTree) -> contextlib.AbstractContextManager:
    """The context in which these arrays keep their precision."""
    return jax.enable_x64(True) if needs_local_x64(*trees) else contextlib.nullcontext()


def x64_context() -> contextlib.AbstractContextManager:
    """A context in which JAX computes in 64 bits."""
    return contextlib.nullcontext() if x64_is_on() else jax.enable_x64(True)


def to_device(array: Any) -> Array:
    """Put an array on the device as floating point, float64 kept whatever the x64 mode is.

    What comes from outside JAX (integers, lists, anything NumPy understands) becomes float64,
    except float32, which stays. The caller's memory is copied, and the copy done on return, unless
    nobody can write to it: such an array is used as it is, also if it is a file's.

    Raises
    ------
    MemoryError
        In a sentence, if the copy does not fit.
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
    """Whether memory can be taken over by XLA, and is read-only from the beginning."""
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
    """Raise a sentence if an array holds NaN or infinity; traced arrays pass."""
    if is_traced(tree):
        return
    bad = 0
    for array in (part for leaf in jax.tree.leaves(tree) for part in _local_parts(leaf)):
        # A sum needs no memory; only if it is not finite are the entries looked at.
        with np.errstate(over="ignore", invalid="ignore"):
            total = np.sum(array)
        if not np.isfinite(total):
            bad += int(array.size - np.count_nonzero(np.isfinite(array)))
    if bad:
        raise ValueError(f"{what} hold {bad} entries that are NaN or infinite.{cure}")


def _local_parts(leaf: Any) -> list[np.ndarray]:
    """What this process holds of an array, device by device, so that nothing is gathered."""
    if not isinstance(leaf, jax.Array):
        return [np.asarray(leaf)]
    return [np.asarray(part.data) for part in leaf.addressable_shards if part.replica_id == 0]


def aligned_empty(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """A NumPy array whose memory `jax.device_put` takes over on a CPU instead of copying it.

    ``jnp.asarray`` of a NumPy array copies twice, and in the background: it goes on reading
    the caller's array after it has returned, when the caller may be writing to it again.
    Copying into memory of our own, then handing that over, is one copy and done at once.
    """
    count = math.prod(shape) * np.dtype(dtype).itemsize
    memory = np.empty(count + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    return memory[start : start + count].view(dtype).reshape(shape)


def to_numpy(tree: PyTree) -> PyTree:
    """Turn every JAX array of a pytree into a NumPy array."""
    return jax.tree.map(lambda u: np.asarray(u) if isinstance(u, jax.Array) else u, tree)


def keeps_float64(function: Function) -> Function:
    """Let an eager public function keep float64 arguments float64 while x64 mode is off."""

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
    """Turn Python numbers into weakly typed device scalars.

    They then are arguments of the compiled program instead of constants in it, so that another
    value does not compile again, and they take the precision of the arrays they meet.
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
