"""Fits from files, with their models if these are given again."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from .._dtype import x64_context
from ._program import outputs_as_vector
from .result import Fit


def restored(fitted: Fit, model: Callable | None) -> Fit:
    """A fit from a file, with its model if that is given again."""
    task, leaves = fitted.task, jax.tree.leaves(fitted.residual)
    kinds = tuple((leaf.shape, np.iscomplexobj(leaf)) for leaf in leaves)
    layout = task.layout._replace(structure=jax.tree.structure(fitted.x))
    task = task._replace(
        model=_forgotten if model is None else model,
        layout=layout,
        outputs=(jax.tree.structure(fitted.residual), kinds),
    )
    again = dataclasses.replace(fitted, task=task)
    if model is not None:
        _check_model(again)
    return again


def _check_model(fitted: Fit) -> None:
    """Raise an error if the model does not have the residuals of the fit."""
    task = fitted.task
    with x64_context():
        made = task.model(task.layout.tree(outputs_as_vector(fitted.x)), *task.args)
        residual = np.asarray(outputs_as_vector(fitted.residual))[task.observed]
        made = np.asarray(outputs_as_vector(made))
    same = made.shape == task.observed.shape and np.allclose(
        made[task.observed], task.y + residual, rtol=1e-6, atol=1e-6 * np.max(np.abs(task.y))
    )
    if not same:
        raise ValueError(
            "The model is not the one that was fitted: it has other values at the parameters."
        )


def _forgotten(*_: Any) -> Any:
    raise ValueError("The model is a function, which is not saved: lm.load(path, model=...).")
