"""Laws of measurement operators and of the covectors that their adjoints return."""

import string

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from ..covectors import AbstractCovector, DenseCovector
from ..covectors.dense import as_covector
from ..operators import AbstractOperator
from ..points import AbstractPoint, DensePoint
from ._numbers import (
    Key,
    compiled_quickly,
    flat,
    generator,
    normal_like,
    require,
    require_close,
)

# Number of columns of the thin matrices that covectors are multiplied by.
_RANK = 2


def check_operator(
    operator: AbstractOperator, point: AbstractPoint, key: Key, rtol: float = 1e-12
) -> None:
    """Check that an operator is linear and its adjoint is correct.

    For random observations s and ``V = adjoint(s)``, ``<V, point> = <s, measure(point)>`` must
    hold. A factored point and its dense form must give the same observations, and V must pass
    `check_covector`.

    Parameters
    ----------
    operator : AbstractOperator
        The operator to check.
    point : AbstractPoint
        A point to measure, factored if the operator treats factored points separately.
    key : int or JAX key
        Seed of the random numbers.
    rtol : float
        Relative error allowed for rounding.

    Raises
    ------
    AssertionError
        If a law is violated; the message has the numbers.

    Examples
    --------
    >>> import numpy as np
    >>> import lemmax as lm
    >>> from lemmax.testing import check_operator
    >>> rng = np.random.default_rng(0)
    >>> factors = rng.standard_normal((3, 2)), rng.standard_normal((4, 2))
    >>> point = lm.points.KruskalPoint(factors)
    >>> check_operator(lm.operators.Dense(rng.standard_normal((7, 3, 4))), point, key=1)
    """
    name, rng = type(operator).__name__, generator(key)
    with jax.enable_x64(True):
        point = jax.tree.map(jnp.asarray, point)
        dense, observed, of_dense, of_opposite = _observed(operator, point)
        shape = operator.observation_shape
        require(
            shape is None or tuple(shape) == observed.shape,
            f"{name} declares observations of shape {shape}, but measures {observed.shape}.",
        )
        require_close(of_dense, observed, rtol, f"{name}.measure of a dense point")
        opposite = -2 * np.asarray(observed)
        require_close(of_opposite, opposite, rtol, f"{name}.measure of -2 times a point")

        data, *duals = (normal_like(rng, observed) for _ in range(4))
        residual, covectors, again = _carried_back(operator, point, data, duals)
        require_close(residual, flat(observed) - flat(data), rtol, f"{name}.residual")
        shapes, wanted = (jax.tree.map(jnp.shape, tree) for tree in (covectors[0].dense(), dense))
        require(shapes == wanted, f"{name}.adjoint returns shapes {shapes} instead of {wanted}.")
        for s, covector, other in zip(duals, covectors, again, strict=True):
            terms = flat(covector.dense()) * flat(dense)
            require_close(
                np.sum(terms),
                np.sum(flat(s) * flat(observed)),
                rtol,
                f"{name}: <adjoint(s), point> against <s, measure(point)>",
                scale=float(np.sum(np.abs(terms))),
            )
            require_close(other, covector.dense(), rtol, f"{name}.adjoint")
        if isinstance(dense, jax.Array) and dense.ndim > 1:
            check_covector(covectors[0], rng.integers(2**31).item(), rtol)


# Compiled as a whole: otherwise each operation would be compiled separately.


@compiled_quickly
def _observed(operator: AbstractOperator, point: AbstractPoint) -> tuple[PyTree, ...]:
    dense = point.dense()
    opposite = DensePoint(jax.tree.map(lambda leaf: -2 * leaf, dense))
    seen = (operator.measure(each) for each in (point, DensePoint(dense), opposite))
    return dense, *seen


@compiled_quickly
def _carried_back(
    operator: AbstractOperator, point: AbstractPoint, data: Array, duals: list[Array]
) -> tuple[PyTree, ...]:
    residual, adjoint = operator.residual(point, data)
    covectors = [as_covector(adjoint(s)) for s in duals]
    return residual, covectors, [as_covector(operator.adjoint(s)).dense() for s in duals]


def check_covector(covector: AbstractCovector, key: Key, rtol: float = 1e-12) -> None:
    """Check a covector's products with thin matrices against sums over its entries.

    Parameters
    ----------
    covector : AbstractCovector
        The covector to check, of a matrix or tensor.
    key : int or JAX key
        Seed of the random numbers.
    rtol : float
        Relative error allowed for rounding.

    Raises
    ------
    AssertionError
        If a product is wrong; the message has the numbers.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from lemmax.covectors import TuckerCovector
    >>> from lemmax.testing import check_covector
    >>> bases = jnp.eye(3)[:, :1], jnp.eye(4)[:, :2], jnp.eye(5)[:, 1:3]
    >>> check_covector(TuckerCovector(jnp.ones((1, 2, 2)), bases), key=1)
    """
    name, rng = type(covector).__name__, generator(key)
    with jax.enable_x64(True):
        covector = jax.tree.map(jnp.asarray, covector)
        dense = np.asarray(covector.dense())
        matrices = tuple(jnp.asarray(rng.standard_normal((d, _RANK))) for d in dense.shape)
        contracted, products, in_all = _products(covector, matrices)
        for skip, have in contracted.items():
            which = None if skip == dense.ndim else skip
            wanted = _contract(dense, matrices, which)
            require_close(have, wanted, rtol, f"{name}.contract with skip={which}")
        for mode, have in enumerate(products):
            wanted = _mttkrp(dense, matrices, mode)
            require_close(have, wanted, rtol, f"{name}.mttkrp along mode {mode}")
        if not in_all:
            return
        order, same = dense.ndim, (matrices[0],) * dense.ndim
        unfolded = [np.moveaxis(_contract(dense, same, n), n, 0) for n in range(order)]
        require_close(
            in_all[0],
            sum(u.reshape(u.shape[0], -1) for u in unfolded),
            rtol,
            f"{name}.contract_all_but_one",
        )
        wanted = sum(_mttkrp(dense, same, n) for n in range(order))
        require_close(in_all[1], wanted, rtol, f"{name}.mttkrp_in_every_mode")
        if isinstance(covector, DenseCovector) and covector.symmetric:
            for mode in range(1, order):
                require_close(
                    np.swapaxes(dense, 0, mode), dense, rtol, f"{name} declared as symmetric"
                )


@compiled_quickly
def _products(covector: AbstractCovector, matrices: tuple[Array, ...]) -> tuple[PyTree, ...]:
    """All products: contractions without each mode and with all, and along each mode."""
    order = len(matrices)
    contracted = {
        k: covector.contract(matrices, k if k < order else None) for k in range(order + 1)
    }
    products = [covector.mttkrp(matrices, mode) for mode in range(order)]
    if len({len(matrix) for matrix in matrices}) > 1:
        return contracted, products, ()
    matrix = matrices[0]
    return (
        contracted,
        products,
        (covector.contract_all_but_one(matrix), covector.mttkrp_in_every_mode(matrix)),
    )


def _contract(dense: np.ndarray, matrices: tuple[Array, ...], skip: int | None) -> np.ndarray:
    modes, new = string.ascii_lowercase[: dense.ndim], string.ascii_uppercase
    kept = [k for k in range(dense.ndim) if k != skip]
    result = "".join(modes[k] if k == skip else new[k] for k in range(dense.ndim))
    terms = ",".join([modes, *(modes[k] + new[k] for k in kept)])
    return np.einsum(f"{terms}->{result}", dense, *(np.asarray(matrices[k]) for k in kept))


def _mttkrp(dense: np.ndarray, factors: tuple[Array, ...], mode: int) -> np.ndarray:
    modes = string.ascii_lowercase[: dense.ndim]
    kept = [k for k in range(dense.ndim) if k != mode]
    terms = ",".join([modes, *(modes[k] + "z" for k in kept)])
    return np.einsum(f"{terms}->{modes[mode]}z", dense, *(np.asarray(factors[k]) for k in kept))
