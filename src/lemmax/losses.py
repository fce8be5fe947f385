"""Convex losses of a residual: value, subgradient, prox, growth constants.

Subgradients are written by hand because their value at a kink matters: it is 0, so that a point
that fits the data exactly is a fixed point. Every loss takes optional nonnegative weights, one
per observation (or any array that broadcasts to the observations).
"""

import abc
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ._checks import check_real
from ._dtype import to_device
from ._tree import is_traced, tree_norm
from ._typing import RealLike, RealScalar


class LossConstants(NamedTuple):
    """Growth constants of a loss in the Euclidean norm of the residual.

    A *sharp* loss satisfies ``value(r) >= sharpness * |r|`` and is ``lipschitz``-Lipschitz. A
    *quadratic* loss satisfies ``value(r) >= growth / 2 * |r|^2`` and has a
    ``smoothness``-Lipschitz gradient. A constant that does not exist is None.
    """

    sharpness: RealScalar | None = None
    lipschitz: RealScalar | None = None
    growth: RealScalar | None = None
    smoothness: RealScalar | None = None


def _as_weights(weights: Any) -> Array | None:
    if weights is None:
        return None
    weights = to_device(weights)
    if not is_traced(weights) and not bool(
        np.all(np.isfinite(weights)) and np.all(np.asarray(weights) >= 0)
    ):
        raise ValueError("Weights must be finite and nonnegative.")
    return weights


class AbstractLoss(eqx.Module):
    """A convex function of the residual with minimum 0 at 0.

    A subclass implements the abstract members, sets the class variable ``quadratic``, and applies
    its weights with ``self._weighted(terms)``. Add it to ``tests/cases/`` so that the law checks
    of `lemmax.testing` run on it.
    """

    quadratic: eqx.AbstractClassVar[bool]
    """Whether the loss grows like the square of the residual near 0 (else like its norm)."""

    separable: ClassVar[bool] = True
    """Whether the loss is a sum over the entries of the residual."""

    degree: ClassVar[int | None] = None
    """The degree N of homogeneity, ``h(t r) = t^N h(r)`` for t > 0; None if not homogeneous."""

    symmetric: ClassVar[bool] = True
    """Whether ``h(-r) = h(r)``."""

    robust: ClassVar[bool] = True
    """Whether large residuals have bounded influence on the minimiser."""

    weights: Array | None = eqx.field(default=None, converter=_as_weights, kw_only=True)

    @abc.abstractmethod
    def value(self, residual: Array) -> RealScalar:
        """Value of the loss."""

    @abc.abstractmethod
    def subgradient(self, residual: Array) -> Array:
        """One element of the subdifferential; 0 at kinks where 0 belongs to it."""

    @abc.abstractmethod
    def prox(self, residual: Array, step: RealLike) -> Array:
        """Proximal operator: the minimiser u of ``value(u) + |u - residual|^2 / (2 step)``."""

    @abc.abstractmethod
    def constants(self, size: int) -> LossConstants:
        """Growth constants for a residual with ``size`` entries."""

    def weight(self, residual: Array) -> Array:
        """Weights for iteratively reweighted least squares.

        ``weight(r) * r`` is the subgradient, and ``h(r) + h'(r) (u - r) + weight(r) (u - r)^2 / 2``
        is an upper bound of ``h(u)``. Losses with a kink have no such weights: they would be
        infinite at the kink.
        """
        raise TypeError(f"{type(self).__name__} has a kink, so it has no reweighting weights.")

    @property
    def reweightable(self) -> bool:
        """Whether `weight` is defined (the loss has no kink)."""
        return type(self).weight is not AbstractLoss.weight

    @property
    def depends_on_norm_alone(self) -> bool:
        """Whether the loss is a function of the Euclidean norm of the residual."""
        return not self.robust and self.weights is None

    def with_weights(self, weights: Any) -> "AbstractLoss":
        """The same loss with other weights of the observations; those of weight 0 are missing."""
        return eqx.tree_at(
            lambda loss: loss.weights, self, to_device(weights), is_leaf=lambda leaf: leaf is None
        )

    def precisions(self, shape: tuple[int, ...]) -> np.ndarray:
        """The inverse variances of observations that the weights stand for; 0 of missing ones.

        A robust loss multiplies residuals by its weights, a squared one their squares.
        """
        weights = np.asarray(1.0 if self.weights is None else self.weights, np.float64)
        return np.broadcast_to(weights**2 if self.robust else weights, shape)

    def _weighted(self, terms: Array) -> Array:
        return terms if self.weights is None else self.weights.astype(terms.dtype) * terms

    def _weight(self, like: Array) -> Array:
        return self._weighted(jnp.ones_like(like))

    def _weight_range(self) -> tuple[RealScalar, RealScalar]:
        if self.weights is None:
            return jnp.asarray(1.0), jnp.asarray(1.0)
        return jnp.min(self.weights), jnp.max(self.weights)


class L1(AbstractLoss):
    """Sum of absolute values, robust to outliers.

    Parameters
    ----------
    weights : array, optional
        One nonnegative weight per observation.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import lemmax as lm
    >>> loss, r = lm.losses.L1(), jnp.array([3.0, 0.0, -4.0])
    >>> print(loss.value(r), loss.subgradient(r), loss.prox(r, 1.0))
    7.0 [ 1.  0. -1.] [ 2.  0. -3.]
    """

    quadratic: ClassVar[bool] = False
    degree: ClassVar[int] = 1

    def value(self, residual: Array) -> RealScalar:
        """Weighted sum of absolute values."""
        return jnp.sum(self._weighted(jnp.abs(residual)))

    def subgradient(self, residual: Array) -> Array:
        """Weighted signs."""
        return self._weighted(jnp.sign(residual))

    def prox(self, residual: Array, step: RealLike) -> Array:
        """Soft thresholding."""
        shrunk = jnp.maximum(jnp.abs(residual) - step * self._weight(residual), 0)
        return jnp.sign(residual) * shrunk

    def constants(self, size: int) -> LossConstants:
        """Sharp; the Lipschitz constant is the square root of the size."""
        low, high = self._weight_range()
        return LossConstants(sharpness=low, lipschitz=high * size**0.5)


class L2(AbstractLoss):
    """Euclidean norm (not squared), for exact data.

    Parameters
    ----------
    weights : array, optional
        With weights the loss is ``sqrt(sum(weights * residual**2))``.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import lemmax as lm
    >>> loss, r = lm.losses.L2(), jnp.array([3.0, 0.0, -4.0])
    >>> print(loss.value(r), loss.subgradient(r), loss.prox(r, 2.5))
    5.0 [ 0.6  0.  -0.8] [ 1.5  0.  -2. ]
    """

    quadratic: ClassVar[bool] = False
    degree: ClassVar[int] = 1
    robust: ClassVar[bool] = False
    separable: ClassVar[bool] = False

    def value(self, residual: Array) -> RealScalar:
        """Weighted norm."""
        return tree_norm(jnp.sqrt(self._weight(residual)) * residual)

    def subgradient(self, residual: Array) -> Array:
        """Weighted residual divided by the norm; 0 at 0."""
        norm = self.value(residual)
        return jnp.where(norm > 0, self._weighted(residual) / jnp.where(norm > 0, norm, 1), 0)

    def weight(self, residual: Array) -> Array:
        """The weights divided by the norm; 0 at 0."""
        norm = self.value(residual)
        return jnp.where(norm > 0, self._weight(residual) / jnp.where(norm > 0, norm, 1), 0)

    def prox(self, residual: Array, step: RealLike) -> Array:
        """Shrink towards 0; with weights, by solving a scalar equation."""
        weight = self._weight(residual)
        if self.weights is None:
            norm = tree_norm(residual)
            return residual * jnp.maximum(1 - step / jnp.where(norm > 0, norm, jnp.inf), 0)
        # u = r nu / (nu + step w), where nu = |u|_w solves sum w r^2 / (nu + step w)^2 = 1.
        # The left-hand side decreases in nu, so bisection finds the root.
        scaled = jnp.sqrt(weight) * residual

        def excess(nu):
            terms = jnp.where(
                weight > 0, scaled / (nu + step * jnp.where(weight > 0, weight, 1)), 0
            )
            return jnp.sum(terms**2) - 1

        def halve(_, bracket):
            low, high = bracket
            middle = (low + high) / 2
            above = excess(middle) > 0
            return jnp.where(above, middle, low), jnp.where(above, high, middle)

        upper = tree_norm(scaled)
        low, high = jax.lax.fori_loop(0, 200, halve, (jnp.zeros_like(upper), upper))
        nu = (low + high) / 2
        shrunk = residual * nu / jnp.where(nu > 0, nu + step * weight, 1)
        inside = excess(jnp.zeros_like(nu)) <= 0
        return jnp.where(weight == 0, residual, jnp.where(inside, 0, shrunk))

    def constants(self, size: int) -> LossConstants:
        """Sharp and Lipschitz; both constants are 1 without weights."""
        low, high = self._weight_range()
        return LossConstants(sharpness=low**0.5, lipschitz=high**0.5)


class SquaredL2(AbstractLoss):
    """Half the squared Euclidean norm: least squares.

    Parameters
    ----------
    weights : array, optional
        One nonnegative weight per squared residual.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import lemmax as lm
    >>> loss, r = lm.losses.SquaredL2(), jnp.array([3.0, 0.0, -4.0])
    >>> print(loss.value(r), loss.subgradient(r), loss.prox(r, 1.0))
    12.5 [ 3.  0. -4.] [ 1.5  0.  -2. ]
    """

    quadratic: ClassVar[bool] = True
    degree: ClassVar[int] = 2
    robust: ClassVar[bool] = False

    def value(self, residual: Array) -> RealScalar:
        """Half the weighted sum of squares."""
        return jnp.sum(self._weighted(residual**2)) / 2

    def subgradient(self, residual: Array) -> Array:
        """Weighted residual."""
        return self._weighted(residual)

    def weight(self, residual: Array) -> Array:
        """The given weights, for every residual."""
        return self._weight(residual)

    def prox(self, residual: Array, step: RealLike) -> Array:
        """Shrink every entry by a factor."""
        return residual / (1 + step * self._weight(residual))

    def constants(self, size: int) -> LossConstants:
        """Quadratic growth and smoothness; both constants are 1 without weights."""
        low, high = self._weight_range()
        return LossConstants(growth=low, smoothness=high)


class Huber(AbstractLoss):
    """Huber loss: quadratic up to ``threshold``, linear beyond; for noise with outliers.

    ``r^2 / 2`` where ``|r| <= threshold``, else ``threshold * (|r| - threshold / 2)``.

    Parameters
    ----------
    threshold : float
        The residual at which the loss becomes linear. Positive.
    weights : array, optional
        One nonnegative weight per observation.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import lemmax as lm
    >>> loss, r = lm.losses.Huber(1.0), jnp.array([3.0, 0.0, -0.5])
    >>> print(loss.value(r), loss.subgradient(r), loss.prox(r, 1.0))
    2.625 [ 1.   0.  -0.5] [ 2.    0.   -0.25]
    """

    threshold: RealLike
    quadratic: ClassVar[bool] = True

    def __check_init__(self):
        check_real(0, threshold=self.threshold, open_low=True)

    def value(self, residual: Array) -> RealScalar:
        """Weighted sum over the entries."""
        inner = jnp.clip(residual, -self.threshold, self.threshold)
        return jnp.sum(self._weighted(jnp.abs(inner) * (jnp.abs(residual) - jnp.abs(inner) / 2)))

    def subgradient(self, residual: Array) -> Array:
        """The residual, clipped to the threshold."""
        return self._weighted(jnp.clip(residual, -self.threshold, self.threshold))

    def weight(self, residual: Array) -> Array:
        """1 up to the threshold, ``threshold / |r|`` beyond."""
        size = jnp.maximum(jnp.abs(residual), self.threshold)
        return self._weighted(jnp.asarray(self.threshold) / size)

    def prox(self, residual: Array, step: RealLike) -> Array:
        """Shrink small entries by a factor, large ones by a constant."""
        slope = step * self._weight(residual)
        return residual - slope * jnp.clip(residual / (1 + slope), -self.threshold, self.threshold)

    def constants(self, size: int) -> LossConstants:
        """Lipschitz and smooth. Growth is only local, so it has no constant."""
        _, high = self._weight_range()
        return LossConstants(lipschitz=self.threshold * high * size**0.5, smoothness=high)


class Quantile(AbstractLoss):
    """Quantile (pinball) loss of the residual ``model - data``.

    ``(1 - level) * r`` for positive and ``-level * r`` for negative residuals. The best constant
    model is the ``level``-quantile of the data.

    Parameters
    ----------
    level : float
        In the open interval (0, 1); 0.5 gives half of `L1`.
    weights : array, optional
        One nonnegative weight per observation.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import lemmax as lm
    >>> loss, r = lm.losses.Quantile(0.75), jnp.array([4.0, 0.0, -4.0])
    >>> print(loss.value(r), loss.subgradient(r))
    4.0 [ 0.25  0.   -0.75]
    """

    level: RealLike
    quadratic: ClassVar[bool] = False
    degree: ClassVar[int] = 1
    symmetric: ClassVar[bool] = False

    def __check_init__(self):
        check_real(0, 1, level=self.level, open_low=True)
        if isinstance(self.level, (int, float)) and self.level == 1:
            raise ValueError("level must be below 1; got 1.")

    def value(self, residual: Array) -> RealScalar:
        """Weighted sum over the entries."""
        tilted = jnp.where(residual > 0, (1 - self.level) * residual, -self.level * residual)
        return jnp.sum(self._weighted(tilted))

    def subgradient(self, residual: Array) -> Array:
        """The slope on the residual's side; 0 at 0."""
        slope = jnp.where(residual > 0, 1 - self.level, -self.level).astype(residual.dtype)
        return self._weighted(jnp.where(residual == 0, 0, slope))

    def prox(self, residual: Array, step: RealLike) -> Array:
        """Soft thresholding, with one threshold for each sign."""
        scale = step * self._weight(residual)
        above = jnp.maximum(residual - (1 - self.level) * scale, 0)
        return above + jnp.minimum(residual + self.level * scale, 0)

    def constants(self, size: int) -> LossConstants:
        """Sharp and Lipschitz, with the smaller and the larger slope."""
        low, high = self._weight_range()
        gentle = jnp.minimum(self.level, 1 - self.level)
        steep = jnp.maximum(self.level, 1 - self.level)
        return LossConstants(sharpness=gentle * low, lipschitz=steep * high * size**0.5)
