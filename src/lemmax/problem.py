"""The problem: minimise ``loss(operator(map(x)) - data)`` over x."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from ._checks import check_kind
from ._dtype import keeps_float64, require_finite, to_device
from ._tree import is_traced
from ._typing import Parameters, RealScalar
from .covectors import AbstractCovector
from .covectors.dense import as_covector
from .losses import AbstractLoss
from .maps import AbstractMap
from .operators import AbstractOperator, Identity
from .points import AbstractPoint, DensePoint, KruskalPoint

_NOT_SYMMETRIC = (
    "The operator {} only measures symmetric points, but this map returns others. Use Dense."
)
IMPURE = (
    "The map's function must depend on its parameters alone: it keeps something from one call to "
    "the next, or returns arrays of other shapes each time."
)
"""Why a function of the user cannot be compiled."""


class Evaluation(eqx.Module):
    """All quantities at a point that a step may need, computed once.

    Under ``jit``, fields that a method does not use are not computed.
    """

    x: Parameters
    point: AbstractPoint
    """F(x)."""
    residual: Array
    """The measurements of the point minus the data."""
    value: RealScalar
    """The objective."""
    subgradient: Array
    """A subgradient of the loss at the residual."""
    covector: AbstractCovector
    """A subgradient of h at F(x): the operator's adjoint of `subgradient`."""
    gradient: Parameters
    """A subgradient of the objective at x."""


class Composite(eqx.Module):
    """A composite objective ``h(F(x))`` with ``h(z) = loss(operator(z) - data)``.

    Parameters
    ----------
    loss : AbstractLoss
        Convex, from `lemmax.losses`.
    map : AbstractMap
        Smooth, from `lemmax.maps`.
    data : array, pytree of arrays, or KruskalPoint
        The observations. Float64 NumPy arrays keep their precision even if JAX's x64 mode is off.
    operator : AbstractOperator
        Linear, from `lemmax.operators`; `Identity` if everything is observed.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import lemmax as lm
    >>> problem = lm.Composite(
    ...     loss=lm.losses.L1(), map=lm.maps.Square(2), data=jnp.array([1.0, 4.0]))
    >>> print(problem.evaluate(jnp.array([1.0, 3.0])).value)
    5.0
    """

    loss: AbstractLoss
    map: AbstractMap
    operator: AbstractOperator
    data: PyTree

    def __init__(
        self,
        loss: AbstractLoss,
        map: AbstractMap,
        data: Any,
        operator: AbstractOperator | None = None,
    ):
        operator = Identity() if operator is None else operator
        for name, part, kind in (
            ("loss", loss, AbstractLoss),
            ("map", map, AbstractMap),
            ("operator", operator, AbstractOperator),
        ):
            if callable(part) and name == "map" and not isinstance(part, (type, kind)):
                raise TypeError(
                    "map must be a lemmax map; wrap your own function: "
                    "lm.maps.FromFunction(function)."
                )
            check_kind(name, part, kind, f"a lemmax object (an instance of {kind.__name__})")
        self.loss, self.map, self.operator = loss, map, operator
        self.data = _prepare_data(data, loss)
        _check_shapes(self)

    @keeps_float64
    def evaluate(self, x: Parameters) -> Evaluation:
        """Evaluate all quantities at x, with one forward and one adjoint pass over the data."""
        x = jax.tree.map(jnp.asarray, x)
        point = self.map(x)
        residual, adjoint = self.operator.residual(point, self.data)
        subgradient = self.loss.subgradient(residual)
        covector = as_covector(adjoint(subgradient))
        return Evaluation(
            x=x,
            point=point,
            residual=residual,
            value=self.loss.value(residual),
            subgradient=subgradient,
            covector=covector,
            gradient=self.map.vjp(x, covector),
        )

    def value_scales(self, x: Parameters) -> tuple[RealScalar, RealScalar]:
        """The loss of residuals as large as the data, and of residuals of rounding size."""
        residual = jax.eval_shape(self.evaluate, x).residual
        data = self.data if isinstance(self.data, AbstractPoint) else DensePoint(self.data)
        typical = (data.norm() / residual.size**0.5).astype(residual.dtype)
        error = 64 * jnp.finfo(residual.dtype).eps * typical

        def value(size: RealScalar) -> RealScalar:
            return self.loss.value(jnp.broadcast_to(size, residual.shape))

        return value(typical), value(error)

    @property
    def weights(self) -> np.ndarray:
        """The weight of every observation in the loss; those of weight 0 are missing."""
        weights = 1.0 if self.loss.weights is None else self.loss.weights
        return np.broadcast_to(np.asarray(weights, np.float64), self.data.shape)

    def check_start(self, x0: Parameters) -> None:
        """Raise an error if x0 does not fit the map, or its points do not fit the data."""
        self.map.check_parameters(x0)
        if self.map.shape is not None:
            return
        if self.operator.needs_symmetry and not is_traced((self.map, x0)):
            dense = np.asarray(self.map(x0).dense())
            if not all(np.allclose(dense, np.swapaxes(dense, 0, k)) for k in range(dense.ndim)):
                raise ValueError(_NOT_SYMMETRIC.format(type(self.operator).__name__))
        point = _outputs(self.map, x0)
        made = jax.tree.map(lambda leaf: leaf.shape, point.dense())
        wanted = self.operator.shape_of_points(self.data)
        if wanted is None:
            _check_observations(self, point)
        elif made != wanted:
            raise ValueError(
                f"The map's function returns arrays of shape {made}, but {wanted} is needed to "
                "fit the data or the operator."
            )


def _outputs(map: AbstractMap, x0: Parameters) -> AbstractPoint:
    """Shapes that a user's function returns; JAX's tracing errors become clear messages."""
    try:
        # Not the map itself: it may hold traced arrays, which cannot be compared. A second call
        # shows whether the function depends on more than its parameters.
        point, again = (jax.eval_shape(lambda x: map(x), x0) for _ in range(2))
    except jax.errors.TracerArrayConversionError as error:
        raise TypeError(
            "The map's function passes its parameters to NumPy, which JAX cannot trace: use "
            "jax.numpy in it."
        ) from error
    except jax.errors.ConcretizationTypeError as error:
        raise TypeError(
            "The map's function needs the value of a parameter (in an if, a while, float() or "
            "int()), which JAX cannot trace: use jax.numpy.where or jax.lax.cond."
        ) from error
    except (KeyError, IndexError, AttributeError) as error:
        raise ValueError(
            f"The map's function does not find its parameters in x0, {jax.tree.structure(x0)}: "
            f"{type(error).__name__}: {error}."
        ) from error
    except (TypeError, ValueError) as error:
        shapes = jax.tree.map(jnp.shape, x0)
        raise ValueError(
            f"The map's function fails at x0, of shapes {shapes}: {str(error).splitlines()[0]}"
        ) from error
    if not eqx.tree_equal(point, again):
        raise TypeError(IMPURE)
    for leaf in jax.tree.leaves(point):
        if not jnp.issubdtype(leaf.dtype, jnp.floating):
            raise TypeError(
                f"The map's function returns values of type {leaf.dtype}, which have no "
                "derivatives in real numbers: return floating-point numbers."
            )
    return point


def _prepare_data(data: Any, loss: AbstractLoss) -> PyTree:
    if isinstance(data, DensePoint):
        data = data.dense()
    if isinstance(data, KruskalPoint):
        data = KruskalPoint(tuple(to_device(factor) for factor in data.factors))
        if not loss.depends_on_norm_alone:
            data = data.dense()
    elif hasattr(data, "shape"):
        data = to_device(data)
    elif isinstance(data, (list, float, int)):
        data = to_device(np.asarray(data))
    else:
        data = jax.tree.map(to_device, data)
    leaves = jax.tree.leaves(data)
    if not leaves or any(leaf.size == 0 for leaf in leaves):
        raise ValueError("The data are empty.")
    cure = " Leave those observations out, or set them to 0 and give them weight 0 in the loss."
    require_finite(data, "The data", cure)
    return data


def _check_shapes(problem: Composite) -> None:
    makes, takes = problem.map.shape, problem.operator.point_shape
    name = type(problem.operator).__name__
    if makes is not None and takes is not None and tuple(makes) != tuple(takes):
        raise ValueError(
            f"The map returns points of shape {tuple(makes)}, but the operator {name} measures "
            f"points of shape {tuple(takes)}."
        )
    if problem.operator.needs_symmetry and problem.map.symmetric is False:
        raise ValueError(_NOT_SYMMETRIC.format(name))
    if makes is not None:
        kind = jnp.result_type(*jax.tree.leaves(problem.data))
        _check_observations(problem, DensePoint(jax.ShapeDtypeStruct(makes, kind)))
    elif problem.operator.observation_shape is not None:
        _check_observations(problem, None)


def _check_observations(problem: Composite, point: AbstractPoint | None) -> None:
    """Compare the data with the operator's observation shape, or with an actual measurement."""
    observed = problem.operator.observation_shape
    if observed is None:
        with jax.enable_x64(True):  # the data may be float64 in either mode
            observed = jax.eval_shape(lambda z: problem.operator.measure(z), point).shape
    actual = getattr(problem.data, "shape", None)
    if actual is None or tuple(actual) != tuple(observed):
        raise ValueError(
            f"The operator {type(problem.operator).__name__} on this map gives observations of "
            f"shape {tuple(observed)}, but the data have shape {actual}."
        )
    _check_weights(problem.loss, tuple(observed))


def _check_weights(loss: AbstractLoss, observed: tuple[int, ...]) -> None:
    if loss.weights is None:
        return
    shape = tuple(loss.weights.shape)
    try:
        fits = np.broadcast_shapes(shape, observed) == observed
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(
            f"The loss has weights of shape {shape}, which do not match observations of shape "
            f"{observed}."
        )
