"""The arguments of many fits of one model, checked, as arrays with an axis of curves first."""

from typing import Any, NamedTuple

import jax
import numpy as np

from . import _constants as constants
from ._data import Task, arguments, numbers, prepare, spread_of


class Batch(NamedTuple):
    """Many fits of one model; arrays have an axis of curves first."""

    task: Task
    """What they share, with the data of the first curve."""
    start: np.ndarray
    y: np.ndarray
    inverse: np.ndarray | None
    """One divided by sigma, if that is given."""
    observed: np.ndarray
    each: tuple
    rounding: np.ndarray
    width: np.ndarray
    """Range of the data in units of sigma."""
    null: np.ndarray
    """Lengths of messages that tell the data by a constant."""

    def begun(self, curve: int) -> np.ndarray:
        """All entries of the start of one curve."""
        return self.task.layout.fill(self.task.base, self.start[curve])


def prepare_many(
    model: Any, y: Any, start: Any, args: Any, each: Any, sigma: Any, bounds: Any, fixed: Any
) -> Batch:
    """Check the arguments of many fits, and raise a sentence for what cannot be right."""
    if not callable(model):
        raise TypeError(f"The model must be a function of the parameters; got {model!r}.")
    leaves, structure = jax.tree.flatten(y)
    parts = [numbers(leaf, "The data") for leaf in leaves]
    counts = {part.shape[0] if part.ndim else 0 for part in parts}
    if len(counts) != 1 or 0 in counts:
        raise ValueError("The data need an axis of curves first, of the same length everywhere.")
    (count,) = counts
    each = arguments(each)
    for leaf in jax.tree.leaves(each):
        if leaf.ndim == 0 or leaf.shape[0] != count:
            raise ValueError(f"each must have an axis of {count} curves first; got {leaf.shape}.")
    first = jax.tree.unflatten(structure, [part[0] for part in parts])
    args = arguments(args)
    # Times of the first curve serve to check the model.
    own = tuple(jax.tree.map(lambda leaf: leaf[0], each))
    one = jax.tree.map(lambda leaf: np.zeros_like(np.asarray(leaf)), first)
    starts, start_of_one = _starts_of(start, count)

    def task_from(begin: Any) -> Task:
        return prepare(model, one, begin, (*args, *own), None, bounds, fixed)

    try:
        task = task_from(start_of_one)
    except (TypeError, ValueError) as error:
        if starts is None:
            raise
        # As many parameters as curves: perhaps the axis is not one of curves.
        try:
            starts, task = None, task_from(start)
        except (TypeError, ValueError):
            raise error from None
    kinds = task.outputs[1]
    flat = _flat_of_many(parts, kinds)
    if np.any(np.isinf(flat)):
        raise ValueError("The data hold infinite values; NaN marks what is missing.")
    inverse = None if sigma is None else 1 / _spread_of_many(sigma, structure, kinds, flat)
    observed, data = np.isfinite(flat), flat
    if inverse is not None:
        observed &= inverse > 0
        data = np.where(observed, flat * inverse, np.nan)
    complete = bool(np.all(observed))
    filled = data if complete else np.where(observed, data, 0)
    n = np.maximum(np.sum(observed, axis=1), 1)
    rounding = constants.EPS * np.sqrt(_squares(filled) / n) + np.finfo(np.float64).tiny
    # Where nothing is missing, it need not be looked for: that takes longer than all the rest.
    some = {"axis": 1, "where": True if complete else observed}
    width = np.max(data, initial=-np.inf, **some) - np.min(data, initial=np.inf, **some)
    width = np.where(width > 0, width, 1.0)
    # The null model: a constant, or 0 if the model itself has one parameter.
    constant = len(task.layout.free) > 1
    away = filled - (np.sum(filled, axis=1) / n)[:, None] if constant else filled
    freedom = np.maximum(n - constant, 1)
    mean_square = _squares(away if complete else np.where(observed, away, 0)) / freedom
    variance = np.maximum(mean_square, rounding**2) / width**2
    free = list(task.layout.free)
    return Batch(
        task=task._replace(args=args),
        start=np.clip(
            np.repeat(task.start[None], count, 0) if starts is None else starts[:, free],
            task.box.low,
            task.box.high,
        ),
        y=flat,
        inverse=inverse,
        observed=observed,
        each=each,
        rounding=rounding,
        width=width,
        null=freedom * (np.log(2 * np.pi * variance) + 1) / 2,
    )


def _squares(rows: np.ndarray) -> np.ndarray:
    return np.einsum("cn,cn->c", rows, rows)


def _flat_of_many(parts: list[np.ndarray], kinds: tuple) -> np.ndarray:
    count, flat = len(parts[0]), []
    for part, (_, is_complex) in zip(parts, kinds, strict=True):
        part = np.stack([np.real(part), np.imag(part)], axis=-1) if is_complex else part
        flat.append(part.reshape(count, -1).astype(np.float64, copy=False))
    return np.concatenate(flat, axis=1) if len(flat) > 1 else flat[0]


def _starts_of(start: Any, count: int) -> tuple[np.ndarray | None, Any]:
    """Starts of all curves if they differ, and the first."""
    leaves, structure = jax.tree.flatten(start)
    arrays = [numbers(leaf, "The start") for leaf in leaves]
    if not arrays or any(array.ndim == 0 or array.shape[0] != count for array in arrays):
        return None, start
    flat = np.concatenate([array.reshape(count, -1) for array in arrays], axis=1)
    return flat.astype(np.float64), jax.tree.unflatten(structure, [array[0] for array in arrays])


def _spread_of_many(sigma: Any, structure: Any, kinds: tuple, flat: np.ndarray) -> np.ndarray:
    count = len(flat)
    if np.ndim(sigma) == 0 and not isinstance(sigma, (dict, list, tuple)):
        rows = [spread_of(sigma, structure, kinds, flat[k]) for k in range(1)] * count
        return np.stack(rows)
    leaves = [np.asarray(leaf) for leaf in structure.flatten_up_to(sigma)]
    for leaf, (shape, _) in zip(leaves, kinds, strict=True):
        if leaf.shape != (count, *shape):
            raise ValueError(f"sigma of shape {leaf.shape} does not fit data of {(count, *shape)}.")
    rows = [
        spread_of(
            jax.tree.unflatten(structure, [leaf[k] for leaf in leaves]), structure, kinds, row
        )
        for k, row in enumerate(flat)
    ]
    return np.stack(rows)
