"""What is fitted to what: the arguments of a fit, checked, as flat NumPy arrays."""

import collections
import contextlib
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from . import _constants as constants
from ._program import Layout, ModelFailed, compiled, failure
from ._steps import Box

_NUMPY_IN_MODEL = (
    "The model must be written with jax.numpy: somewhere in it NumPy (or float(), int(), bool()) "
    "is applied to the parameters or to what depends on them, which cannot be differentiated. "
    "Use jnp.exp instead of np.exp, and jnp.where instead of if."
)


# Models that return what the data are like: to trace them again would take longer than the fit.
_checked: collections.OrderedDict[Any, None] = collections.OrderedDict()


def _remember(key: Any) -> None:
    with contextlib.suppress(TypeError):  # a model that cannot be hashed
        _checked[key] = None
        while len(_checked) > constants.KEPT_PROGRAMS:
            _checked.popitem(last=False)


class Task(NamedTuple):
    """One fit: a model with its parameters, and flat vectors of observed data."""

    model: Callable
    layout: Layout
    args: tuple
    base: np.ndarray
    """All entries of the parameters at the start."""
    start: np.ndarray
    """The free ones."""
    names: tuple[str, ...]
    """Of all entries."""
    box: Box
    """Of the free entries."""
    y: np.ndarray
    """Observed data."""
    sigma: np.ndarray | None
    """Their standard deviations, if they were given."""
    observed: np.ndarray
    """Which outputs were observed."""
    outputs: Any
    """Structure of the data, and the shapes and whether complex of its leaves."""

    @property
    def free_names(self) -> tuple[str, ...]:
        """Names of the parameters that are fitted."""
        return tuple(self.names[k] for k in self.layout.free)

    @property
    def units(self) -> np.ndarray | float:
        """What residuals are divided by."""
        return 1.0 if self.sigma is None else self.sigma

    @property
    def rounding(self) -> float:
        """Rounding errors of a residual, as it is divided by sigma."""
        return constants.EPS * float(np.sqrt(np.mean((self.y / self.units) ** 2)))

    def evaluate(self, lanes: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Residuals and Jacobians of the observed data, divided by sigma."""
        program = compiled(self.model, self.layout, self.observed.size)
        n = len(self.y)
        residual, jacobian = np.empty((len(x), n)), np.empty((len(x), n, x.shape[1]))
        everything = n == self.observed.size
        for k, u in enumerate(x):
            try:
                value, slopes = program(u, self.base, self.args)
            except ModelFailed:  # as bad as values that are not finite
                residual[k], jacobian[k] = np.nan, np.nan
                continue
            if not everything:
                value, slopes = value[self.observed], slopes[self.observed]
            residual[k] = value - self.y
            jacobian[k] = slopes
        return self._in_units(residual, jacobian)

    def evaluate_together(self, lanes: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same by a program for several lanes: one more to compile, and far fewer calls."""
        if len(x) < constants.LANES_ALONE:
            return self.evaluate(lanes, x)
        program = compiled(self.model, self.layout, self.observed.size, lanes=True)
        values, slopes = [], []
        for first in range(0, len(x), constants.LANES_TOGETHER):
            some = x[first : first + constants.LANES_TOGETHER]
            filled = some[np.arange(constants.LANES_TOGETHER) % len(some)]
            try:
                made = program(filled, self.base, self.args)
            except ModelFailed:  # in one of the lanes, nobody says in which
                return self.evaluate(lanes, x)
            values.append(made[0][: len(some), self.observed])
            slopes.append(made[1][: len(some), self.observed])
        return self._in_units(np.concatenate(values) - self.y, np.concatenate(slopes))

    def complaint(self) -> str:
        """Why there are no values at the start."""
        program = compiled(self.model, self.layout, self.observed.size)
        try:
            program(self.start, self.base, self.args)
        except ModelFailed as error:
            return f"The model fails at the start {error}. Start elsewhere."
        return "The model, or its derivative, is not finite at the start. Start elsewhere."

    def _in_units(
        self, residual: np.ndarray, jacobian: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        if self.sigma is not None:
            residual /= self.sigma
            jacobian /= self.sigma[:, None]
        return residual, jacobian


def prepare(model: Any, y: Any, start: Any, args: Any, sigma: Any, bounds: Any, fixed: Any) -> Task:
    """Check the arguments of a fit, and raise a sentence for what cannot be right."""
    if not callable(model):
        raise TypeError(f"The model must be a function of the parameters; got {model!r}.")
    base, structure, shapes, names = _parameters(start)
    free = _free(fixed, start, structure, shapes)
    layout = Layout(structure, shapes, tuple(int(k) for k in np.flatnonzero(free)))
    args = arguments(args)
    box = _box(bounds, structure, shapes, base, names, free)
    parts, kinds, outputs = _observations(y)
    like = jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype.str), args)
    key = (model, structure, shapes, str(like), outputs, kinds)
    try:
        known = key in _checked
    except TypeError:  # a model that cannot be hashed
        known = False
    if not known:
        _check_outputs(model, layout.tree(base), args, outputs, kinds)
        _remember(key)
    flat = flat_vector(parts, kinds)
    spread = None if sigma is None else spread_of(sigma, outputs, kinds, flat)
    observed = np.isfinite(flat) if spread is None else np.isfinite(flat) & np.isfinite(spread)
    _check_counts(flat, observed, len(layout.free))
    return Task(
        model=model,
        layout=layout,
        args=args,
        base=base,
        start=np.clip(base[free], box.low, box.high),
        names=names,
        box=box,
        y=flat[observed],
        sigma=None if spread is None else spread[observed],
        observed=observed,
        outputs=(outputs, kinds),
    )


def _parameters(start: Any) -> tuple[np.ndarray, Any, tuple, tuple[str, ...]]:
    paths, structure = jax.tree_util.tree_flatten_with_path(start)
    if not paths:
        raise ValueError("The start holds no parameters.")
    leaves, shapes, names = [], [], []
    for path, leaf in paths:
        array = numbers(leaf, "The start")
        if array.dtype.kind == "c":
            raise TypeError("Complex parameters are not supported: give real and imaginary parts.")
        label = jax.tree_util.keystr(path, simple=True, separator=".") or "x"
        leaves.append(np.ravel(array).astype(np.float64))
        shapes.append(array.shape)
        places = np.ndindex(array.shape)
        names += [f"{label}[{', '.join(map(str, k))}]" if k else label for k in places]
    base = np.concatenate(leaves)
    if not np.all(np.isfinite(base)):
        bad = [name for name, value in zip(names, base, strict=True) if not np.isfinite(value)]
        raise ValueError(f"The start must be finite; {listed(bad)} is not.")
    if base.size == 0:
        raise ValueError("The start holds no parameters.")
    return base, structure, tuple(shapes), tuple(names)


def start_like(task: Task, start: Any) -> np.ndarray:
    """The free entries of another start."""
    parts = _like_parameters(start, task.layout.structure, task.layout.shapes, "A start")
    flat = np.concatenate(parts).astype(np.float64)
    if not np.all(np.isfinite(flat)):
        raise ValueError("All starts must be finite.")
    return np.clip(flat[list(task.layout.free)], task.box.low, task.box.high)


def numbers(leaf: Any, what: str) -> np.ndarray:
    """An array of numbers, NaN where it is masked, or a sentence."""
    try:
        if np.ma.is_masked(leaf):
            leaf = leaf.astype(np.result_type(leaf, np.float64)).filled(np.nan)
        array = np.asarray(leaf)
        if array.dtype.kind == "O":
            array = array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{what} must be made of numbers; got {leaf!r}.") from error
    if array.dtype.kind not in "fiubc":
        raise TypeError(f"{what} must be made of numbers; got {leaf!r}.")
    return array


def listed(names: list[str], most: int = 6) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _like_parameters(tree: Any, structure: Any, shapes: tuple, what: str) -> list[np.ndarray]:
    """The leaves of a pytree that must have the structure of the start; None stands for nothing."""
    try:
        leaves = structure.flatten_up_to(tree)
    except (TypeError, ValueError, KeyError) as error:
        like = jax.tree.unflatten(structure, [0] * len(shapes))
        if isinstance(like, dict) and isinstance(tree, dict) and like.keys() != tree.keys():
            unknown = [str(name) for name in tree if name not in like]
            missing = [str(name) for name in like if name not in tree]
            parts = [f"unknown: {listed(unknown)}"] * bool(unknown)
            parts += [f"missing: {listed(missing)}"] * bool(missing)
            raise ValueError(
                f"{what} must name the parameters of the start ({'; '.join(parts)})."
            ) from error
        raise ValueError(
            f"{what} must be a pytree like the start, {structure}; got {tree!r}."
        ) from error
    arrays = []
    for leaf, shape in zip(leaves, shapes, strict=True):
        array = np.asarray(math.nan) if leaf is None else numbers(leaf, what)
        if array.ndim > 0 and array.shape != shape:
            raise ValueError(
                f"{what} must have the shapes of the start; got {array.shape} for {shape}."
            )
        arrays.append(np.ravel(np.broadcast_to(array, shape)))
    return arrays


def _free(fixed: Any, start: Any, structure: Any, shapes: tuple) -> np.ndarray:
    if fixed is None:
        return np.ones(sum(int(np.prod(shape)) for shape in shapes), bool)
    parts = _like_parameters(fixed, structure, shapes, "fixed")
    flat = np.concatenate(parts)
    if flat.dtype != bool:
        raise TypeError("fixed must be made of True and False, in the structure of the start.")
    if np.all(flat):
        raise ValueError("All parameters are fixed: there is nothing to fit.")
    return ~flat


def _box(bounds, structure, shapes, base, names, free) -> Box:
    if bounds is None:
        low, high = np.full(base.size, -np.inf), np.full(base.size, np.inf)
        return Box(low[free], high[free])
    if not isinstance(bounds, (tuple, list)) or len(bounds) != 2:
        raise ValueError(
            "bounds must be a pair (low, high) of pytrees like the start; None in them is no bound."
        )
    sides = []
    for side, nothing in zip(bounds, (-np.inf, np.inf), strict=True):
        if side is None:
            sides.append(np.full(base.size, nothing))
            continue
        if isinstance(side, (int, float)):
            side = jax.tree.unflatten(structure, [side] * len(shapes))
        flat = np.concatenate(_like_parameters(side, structure, shapes, "bounds"))
        sides.append(np.where(np.isnan(flat), nothing, flat.astype(np.float64)))
    low, high = sides
    for wrong, sentence in (
        (low > high, "The lower bound of {} is above the upper one."),
        (free & (low == high), "The bounds of {} leave no room: make it fixed instead."),
        (free & ((base < low) | (base > high)), "The start is out of bounds: {}."),
    ):
        if np.any(wrong):
            bad = [name for name, is_wrong in zip(names, wrong, strict=True) if is_wrong]
            raise ValueError(sentence.format(listed(bad)))
    return Box(low[free], high[free])


def arguments(args: Any) -> tuple:
    """Further arguments of a model as a tuple of NumPy arrays."""
    if args is None:
        return ()
    if not isinstance(args, (tuple, list)):
        args = (args,)
    for leaf in jax.tree.leaves(tuple(args)):
        array = np.asarray(leaf)
        if array.dtype.kind not in "fiubc":
            raise TypeError(
                f"args must be arrays or numbers; got {leaf!r}. Give other things to the model by "
                "functools.partial."
            )
    return tuple(jax.tree.map(np.asarray, tuple(args)))


def _observations(y: Any) -> tuple[list[np.ndarray], tuple, Any]:
    """Leaves of the data, the shape of each and whether it is complex, and their structure."""
    if isinstance(y, (list, tuple)) and all(np.ndim(leaf) == 0 for leaf in y):
        y = np.asarray(y)
    leaves, structure = jax.tree.flatten(y)
    if not leaves:
        raise ValueError("There are no data.")
    parts = [numbers(leaf, "The data") for leaf in leaves]
    return parts, tuple((part.shape, part.dtype.kind == "c") for part in parts), structure


def flat_vector(parts: list[np.ndarray], kinds: tuple) -> np.ndarray:
    """All data in one real vector; of complex numbers, both parts."""
    flat = []
    for part, (_, is_complex) in zip(parts, kinds, strict=True):
        part = np.stack([np.real(part), np.imag(part)], axis=-1) if is_complex else part
        flat.append(np.ravel(part).astype(np.float64))
    return np.concatenate(flat)


def _check_outputs(model: Callable, x: PyTree, args: tuple, structure: Any, kinds: tuple) -> None:
    try:
        made = jax.eval_shape(model, jax.tree.map(jnp.asarray, x), *args)
    except (jax.errors.TracerArrayConversionError, jax.errors.ConcretizationTypeError) as error:
        raise TypeError(_NUMPY_IN_MODEL) from error
    except Exception as error:
        raise TypeError(
            f"The model, called with the parameters and {len(args)} further "
            f"argument{'s' * (len(args) != 1)} (args=), failed {failure(error)}"
        ) from error
    leaves, made_of = jax.tree.flatten(made)
    shapes = [tuple(jnp.shape(leaf)) for leaf in leaves]
    if made_of != structure or shapes != [shape for shape, _ in kinds]:
        raise ValueError(
            f"The model returns {_described(made_of, shapes)}, and the data are "
            f"{_described(structure, [shape for shape, _ in kinds])}: they must be alike."
        )
    for leaf, (_, is_complex) in zip(leaves, kinds, strict=True):
        if jnp.issubdtype(leaf.dtype, jnp.complexfloating) != is_complex:
            raise ValueError(
                "The model returns complex numbers and the data are real, or the other way round: "
                "make both complex, or both real."
            )


def _described(structure: Any, shapes: list[tuple[int, ...]]) -> str:
    if not shapes:
        return "nothing"
    if jax.tree_util.treedef_is_leaf(structure):
        return f"an array of shape {shapes[0]}"
    return f"{structure} with shapes {shapes}"


def spread_of(sigma: Any, structure: Any, kinds: tuple, flat: np.ndarray) -> np.ndarray:
    """The standard deviation of each datum; one number serves for all."""
    if np.ndim(sigma) == 0 and not isinstance(sigma, (dict, list, tuple)):
        leaves = [sigma] * len(kinds)
    else:
        if isinstance(sigma, (list, tuple)) and jax.tree_util.treedef_is_leaf(structure):
            sigma = np.asarray(sigma)
        try:
            leaves = structure.flatten_up_to(sigma)
        except (TypeError, ValueError, KeyError) as error:
            raise ValueError("sigma must be a number, or like the data.") from error
    parts = []
    for leaf, (shape, is_complex) in zip(leaves, kinds, strict=True):
        array = numbers(leaf, "sigma")
        if array.dtype.kind == "c":
            raise TypeError("sigma must be real: it serves for both parts of complex data.")
        try:
            array = np.broadcast_to(array, shape)
        except ValueError as error:
            raise ValueError(
                f"sigma of shape {array.shape} does not fit data of shape {shape}."
            ) from error
        parts.append(np.ravel(np.repeat(array[..., None], 2, -1) if is_complex else array))
    spread = np.concatenate(parts).astype(np.float64)
    known = np.isfinite(flat)
    if np.any(~(spread[known] > 0)):
        raise ValueError("sigma must be positive: it is the standard deviation of each datum.")
    return spread


def _check_counts(flat: np.ndarray, observed: np.ndarray, free: int) -> None:
    if np.any(np.isinf(flat)):
        raise ValueError("The data hold infinite values; NaN marks what is missing.")
    count = int(np.sum(observed))
    if count == 0:
        raise ValueError("There is nothing but missing data (NaN): no value is observed.")
    if count < free:
        raise ValueError(
            f"There are {count} data for {free} parameters: too few. Fix some parameters "
            "(fixed=...), or observe more."
        )
