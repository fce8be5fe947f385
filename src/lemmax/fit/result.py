"""What `lemmax.fit` hands over: parameters with their errors, and what is known about them."""

import dataclasses
import pathlib
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree
from scipy.special import stdtrit

from .._checks import check_level
from .._dtype import x64_context
from .._plain import Kinds
from .._storage import write
from . import _constants as constants
from ._data import Task, arguments
from ._program import Layout, compiled
from ._steps import Box
from .status import FitStatus


class Interval(NamedTuple):
    """Two pytrees of bounds."""

    low: PyTree
    high: PyTree


class Prediction(NamedTuple):
    """The curve of a fit with its band; pytrees like the data."""

    value: PyTree
    standard_error: PyTree
    low: PyTree
    high: PyTree


@dataclasses.dataclass(frozen=True, eq=False)
class Fit:
    """The outcome of `lemmax.fit`.

    Pytrees hold NumPy arrays in float64. Use the results only if
    ``status.succeeded``.
    """

    x: PyTree
    """The parameters, like the start."""
    standard_errors: PyTree
    """Like the start: infinite where the data do not determine a parameter, NaN at a bound, 0 where
    it was fixed."""
    covariance: np.ndarray
    """Of the parameters that were fitted, in the order of `names`; of shape (0, 0) where these are
    too many for such a matrix."""
    names: tuple[str, ...]
    """Of the parameters that were fitted."""
    status: FitStatus
    objections: tuple[str, ...]
    """Reasons why the fit did not succeed; empty if it did."""
    remarks: tuple[str, ...]
    """Further notes."""
    residual: PyTree
    """The model less the data; NaN where these are missing."""
    outliers: Any
    """Indices of the outliers, so that ``y[outliers]`` are their values (a pytree if y is one). A
    complex datum is an outlier if either part is."""
    noise: float
    """Standard deviation of the inliers around the curve, in units of sigma if given."""
    freedom: int
    """Inliers less parameters."""
    observations: int
    """The number of observed values."""
    outlier_count: int
    """How many of them are outliers."""
    offset: float
    """Cosine between the residual and what the parameters can change: 0 at a minimum."""
    minima: tuple[PyTree, ...]
    """Where other starts ended, the best first; only those that explain the data differently."""
    starts: int
    """How many starts were looked at."""
    seconds: float
    """Time it took, compilation included."""
    right: np.ndarray = dataclasses.field(repr=False)
    """The inliers, as a mask over all data in one vector."""
    interpolated: np.ndarray = dataclasses.field(repr=False)
    """Which of them the curve goes through, under a loss with a kink such as `L1`."""
    task: Task = dataclasses.field(repr=False)
    """Model, data and start, as they were fitted."""
    information: Any = dataclasses.field(default=None, repr=False)
    """Gives standard errors of combinations of many parameters, see `standard_error_of`."""

    @property
    def wrong(self) -> PyTree:
        """Masks like y: the outliers."""
        structure, kinds = self.task.outputs
        wrong = (self.task.observed & ~self.right).astype(float)
        masks = as_outputs(wrong, kinds, structure)
        return jax.tree.map(lambda part: np.asarray(part != 0), masks)

    def interval(self, level: float = 0.95) -> Interval:
        """Confidence intervals of the parameters.

        Parameters
        ----------
        level : float
            Between 0 and 1.

        Returns
        -------
        Interval
            Two pytrees like the start, ``low`` and ``high``.

        Examples
        --------
        >>> import jax.numpy as jnp
        >>> import numpy as np
        >>> import lemmax as lm
        >>> fitted = lm.fit(lambda x: x * jnp.ones(4), np.array([1.0, 2.0, 3.0, 4.0]), 1.0)
        >>> low, high = fitted.interval(0.95)
        >>> print(f"{low:.3f} {high:.3f}")
        0.446 4.554
        """
        factor = self._factor(level)
        with np.errstate(invalid="ignore"):
            return Interval(
                jax.tree.map(lambda x, s: x - factor * s, self.x, self.standard_errors),
                jax.tree.map(lambda x, s: x + factor * s, self.x, self.standard_errors),
            )

    def predict(self, level: float = 0.95, *, args: Any = None) -> Prediction:
        """The curve, with a band in which it lies at this level of confidence, point by point.

        Parameters
        ----------
        level : float
            Between 0 and 1.
        args : tuple, optional
            Other arguments of the model than those it was fitted with, say other times.

        Returns
        -------
        Prediction
            Pytrees like what the model returns: ``value``, ``standard_error``, ``low``, ``high``.
            Parts of complex values have errors of their own.

        Examples
        --------
        >>> import numpy as np
        >>> import lemmax as lm
        >>> def line(x, t):
        ...     return x["a"] + x["b"] * t
        >>> t = np.array([0.0, 1.0, 2.0, 3.0, 4.0])
        >>> y = np.array([1.1, 2.9, 5.1, 6.9, 9.1])
        >>> fitted = lm.fit(line, y, {"a": 1.0, "b": 1.0}, args=(t,))
        >>> later = fitted.predict(0.95, args=(np.array([5.0]),))
        >>> print(later.value.round(3), (later.high - later.value).round(3))
        [11.02] [0.422]
        """
        if self.information is not None:
            raise ValueError(
                "There are too many parameters for a band: use standard_error_of for what is of "
                "interest."
            )
        factor = self._factor(level)
        task = self.task
        other = task.args if args is None else arguments(args)
        flat = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(self.x)])
        with x64_context():
            shapes = jax.eval_shape(task.model, task.layout.tree(flat), *other)
            leaves, structure = jax.tree.flatten(shapes)
            kinds = tuple(
                (leaf.shape, np.issubdtype(leaf.dtype, np.complexfloating)) for leaf in leaves
            )
            count = sum(int(np.prod(shape)) * (2 if both else 1) for shape, both in kinds)
            program = compiled(task.model, task.layout, count)
            value, slopes = program(flat[list(task.layout.free)], task.base, other)
        error = np.sqrt(np.maximum(_variances(slopes, self.covariance), 0))
        with np.errstate(invalid="ignore"):
            parts = (value, error, value - factor * error, value + factor * error)
        return Prediction(*(as_outputs(part, kinds, structure) for part in parts))

    def standard_error_of(self, function: Callable[[PyTree], Any]) -> np.ndarray:
        """The standard error of anything computed from the parameters, linearised.

        Also where there are too many parameters for a matrix of covariances: then a linear system
        is solved for each number that the function returns.

        Parameters
        ----------
        function : callable
            From the parameters to a number or an array, in JAX.

        Returns
        -------
        array
            Of the shape that the function returns; infinite where the data do not determine it.

        Examples
        --------
        >>> import numpy as np
        >>> import lemmax as lm
        >>> t = np.array([0.0, 1.0, 2.0, 3.0, 4.0])
        >>> y = np.array([1.1, 2.9, 5.1, 6.9, 9.1])
        >>> fitted = lm.fit(lambda x: x["a"] + x["b"] * t, y, {"a": 1.0, "b": 1.0})
        >>> print(fitted.standard_error_of(lambda x: x["a"] / x["b"]).round(3))
        0.058
        """
        task = self.task
        flat = _flat(self.x)
        with x64_context():

            def of_free(u: Any) -> Any:
                full = jnp.asarray(flat).at[np.array(task.layout.free)].set(u)
                return jnp.asarray(function(task.layout.tree(full)))

            u = jnp.asarray(flat[list(task.layout.free)])
            slopes = np.asarray(jax.jacrev(of_free)(u))
        rows = slopes.reshape(-1, slopes.shape[-1])
        if self.information is not None:
            noise = max(self.noise, task.rounding)
            variances = noise**2 * np.array([self.information.variance(row) for row in rows])
        else:
            variances = _variances(rows, self.covariance)
        return np.sqrt(np.maximum(variances, 0)).reshape(slopes.shape[:-1])

    def _factor(self, level: float) -> float:
        check_level(level)
        if self.freedom <= 0:
            return float("inf")
        return float(stdtrit(self.freedom, (1 + level) / 2))

    def _rows(self) -> list[tuple[str, float, float]]:
        flat = _flat(self.x), _flat(self.standard_errors)
        return list(zip(self.task.names, *flat, strict=True))

    def as_dict(self) -> dict[str, Any]:
        """Numbers and names, to be written as JSON; what is unknown or infinite is None."""

        def number(value: Any) -> float | None:
            return float(value) if np.isfinite(value) else None

        table = {
            name: {
                "value": number(value),
                "standard_error": number(error),
                "fixed": name not in self.names,
            }
            for name, value, error in self._rows()
        }
        return {
            "status": self.status.name,
            "objections": list(self.objections),
            "remarks": list(self.remarks),
            "parameters": table,
            "noise": number(self.noise),
            "outlier_count": self.outlier_count,
            "observations": self.observations,
            "freedom": self.freedom,
            "offset": number(self.offset),
            "starts": self.starts,
            "seconds": self.seconds,
        }

    def summary(self) -> str:
        """The parameters with their errors, and what is known about them, in a few lines."""
        lines = [f"{self.status.name}: {self.status.message}"]
        lines += [f"  Because {objection}." for objection in self.objections]
        width = max(len(name) for name in self.task.names)
        rows, fitted = self._rows(), set(self.names)
        for name, value, error in rows[: constants.LISTED]:
            lines.append(f"{name:{width}}  {_with_error(value, error, name in fitted)}")
        if len(rows) > constants.LISTED:
            lines.append(f"... and {len(rows) - constants.LISTED} more parameters")
        share = self.outlier_count / max(self.observations, 1)
        units = " times sigma" if self.task.sigma is not None else ""
        exact = self.status is FitStatus.EXACT
        lines += [
            f"noise     {'none' if exact else f'{self.noise:.3g}{units} (standard deviation)'}",
            f"outliers  {self.outlier_count} of {self.observations} ({share:.1%})",
            f"freedom   {self.freedom}: inliers less parameters",
        ]
        lines += [f"remark    {remark}" for remark in self.remarks]
        lines.append(
            f"effort    {self.starts} start{'s' * (self.starts != 1)}, {self.seconds:.2f} s"
        )
        return "\n".join(lines)

    def save(self, path: str | pathlib.Path) -> None:
        """Write it to a file, without pickle; `lemmax.load` reads it.

        The model is a function and not saved: `lemmax.load` takes it again.

        Parameters
        ----------
        path : str or Path
            By custom with the suffix ``.safetensors``.
        """
        if self.information is not None:
            raise TypeError(
                "A fit of so many parameters cannot be saved: the standard errors of "
                "combinations of them need functions. Save x and standard_errors."
            )
        # Structures of pytrees come again from the parameters and the residual.
        task = self.task._replace(
            model=None, layout=self.task.layout._replace(structure=None), outputs=None
        )
        write(path, "Fit", dataclasses.replace(self, task=task), KINDS)

    def __str__(self) -> str:
        return self.summary()

    def __repr__(self) -> str:
        return f"<Fit {self.status.name}, {len(self.names)} parameters>"


class TracedFit(Fit):
    """What a fit is while JAX differentiates it: the parameters."""

    def __init__(self, x: PyTree):
        object.__setattr__(self, "x", x)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"While JAX differentiates a fit only its x is known, not {name}: fit again outside."
        )

    def __repr__(self) -> str:
        return "<Fit, differentiated>"


KINDS = Kinds(Fit, Task, Layout, Box, FitStatus)
"""What the file of a fit may hold."""


def _variances(slopes: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """Of combinations of parameters; infinite where one of them is not determined."""
    covariance = np.where(np.isnan(covariance), 0, covariance)
    unseen = np.isinf(np.diag(covariance))
    known = np.where(np.isinf(covariance), 0, covariance)
    variances = np.einsum("np,pq,nq->n", slopes, known, slopes)
    return np.where(np.any(slopes[:, unseen] != 0, axis=1), np.inf, variances)


def _flat(tree: PyTree) -> np.ndarray:
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])


def _with_error(value: float, error: float, fitted: bool) -> str:
    """A value with as many digits as its error supports."""
    if not fitted:
        return f"{value:.7g} (fixed)"
    if np.isnan(error):
        return f"{value:.7g} (at its bound)"
    if np.isinf(error):
        return f"{value:.7g} (not determined)"
    if error == 0 or value == 0:
        return f"{value:.7g} ± {error:.2g}"
    digits = int(np.clip(np.floor(np.log10(abs(value))) - np.floor(np.log10(error)) + 2, 2, 16))
    return f"{value:.{digits}g} ± {error:.2g}"


def as_outputs(flat: np.ndarray, kinds: tuple, structure: Any, lanes: int | None = None) -> PyTree:
    """A pytree like the outputs of the model, from one real vector, or one for each lane."""
    leaves, first = [], 0
    before = () if lanes is None else (lanes,)
    for shape, both in kinds:
        count = int(np.prod(shape)) * (2 if both else 1)
        part = flat[..., first : first + count]
        first += count
        if both:
            part = part.reshape((*before, *shape, 2))
            # Built by parts: infinite times the imaginary unit would make the other part NaN.
            made = np.empty(part.shape[:-1], np.complex128)
            made.real, made.imag = part[..., 0], part[..., 1]
            part = made
        leaves.append(part.reshape((*before, *shape)))
    return jax.tree.unflatten(structure, leaves)
