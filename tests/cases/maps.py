"""One line per map, point and covector for the law checks."""

import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from lemmax.covectors import AbstractCovector, DenseCovector, TuckerCovector
from lemmax.maps import (
    CP,
    PSD,
    AbstractMap,
    Composed,
    ConjugateGradients,
    FromFunction,
    LowRank,
    Square,
    Squares,
    WithFixed,
)
from lemmax.maps import SymmetricCP as SymCP

_rng = np.random.default_rng(30)


def _normal(*shape):
    return jnp.asarray(_rng.standard_normal(shape))


def _factors(dims, rank):
    return tuple(_normal(d, rank) for d in dims)


def _dense(*shape):
    return DenseCovector(_normal(*shape))


def _symmetric(dim, order):
    value = np.asarray(_normal(*(dim,) * order))
    permutations = itertools.permutations(range(order))
    mean = sum(np.transpose(value, p) for p in permutations) / math.factorial(order)
    return DenseCovector(jnp.asarray(mean), symmetric=True)


def _tucker(*shape):
    bases = tuple(jnp.asarray(np.linalg.qr(_rng.standard_normal((d, 2)))[0]) for d in shape)
    return TuckerCovector(_normal(*(2,) * len(shape)), bases)


def _without_column(x, column=1):
    return x.at[:, column].set(0.0)


# The maps written out, for the checks to differentiate.
def _square(x):
    return x**2


def _psd(x):
    return jnp.einsum("il,jl->ij", x, x)


def _low_rank(x):
    return jnp.einsum("il,jl->ij", *x)


def _cp3(x):
    return jnp.einsum("il,jl,kl->ijk", *x)


def _cp4(x):
    return jnp.einsum("il,jl,kl,ml->ijkm", *x)


def _sym3(x):
    return _cp3((x,) * 3)


def _sym4(x):
    return _cp4((x,) * 4)


_TIMES = np.linspace(0.0, 2.0, 7)


def _decay(x):
    return x[0] * jnp.exp(-x[1] * _TIMES) + jnp.sin(x[2] * _TIMES)


def _two_outputs(x):
    moved = x["matrix"] @ jnp.tanh(x["vector"])
    return {"moved": moved, "squares": jnp.ravel(x["matrix"]) ** 2 + x["shift"]}


_DECAY_AT = jnp.array([2.0, 0.7, 1.3])
_TREE_AT = {"matrix": _normal(2, 3), "vector": _normal(3), "shift": jnp.asarray(0.4)}
_TREE_COVECTOR = DenseCovector({"moved": _normal(2), "squares": _normal(6)})


# Cases that share the map, the shapes and the kind of covector, here or in test_accuracy.py,
# also share the compilation.
class MapCase(NamedTuple):
    name: str
    map: AbstractMap
    x: Any
    covector: AbstractCovector
    formula: Callable[[Any], Any]
    rtol: float = 1e-8


_SQUARE_AT = jnp.array([1.5, 0.0, -0.3, 2.0])
_X73, _X43 = _normal(7, 3), _normal(4, 3)
_XY = _factors((6, 5), 3)
_ABC = _factors((4, 3, 5), 3)
_PCG = ConjugateGradients()
_MIDDLE = _normal(3, 3)


def _nonnegative_low_rank(x):
    return _low_rank(tuple(factor**2 for factor in x))


def _cp3_middle_known(x):
    return _cp3((x[0], _MIDDLE, x[1]))


MAPS = [
    MapCase("Square-zero-entry", Square(4), _SQUARE_AT, _dense(4), _square),
    MapCase("PSD", PSD(7, 3), _X73, _dense(7, 7), _psd),
    MapCase("PSD-symmetric", PSD(7, 3), _X73, _symmetric(7, 2), _psd),
    MapCase("PSD-tucker", PSD(7, 3), _X73, _tucker(7, 7), _psd),
    MapCase("PSD-rank-above-dim", PSD(3, 5), _normal(3, 5), _dense(3, 3), _psd),
    MapCase("PSD-zero-column", PSD(7, 3), _without_column(_X73), _dense(7, 7), _psd),
    MapCase("LowRank", LowRank((6, 5), 3), _XY, _dense(6, 5), _low_rank),
    MapCase("LowRank-tucker", LowRank((6, 5), 3), _XY, _tucker(6, 5), _low_rank),
    MapCase(
        "LowRank-rank-above-dim",
        LowRank((3, 4), 5),
        _factors((3, 4), 5),
        _dense(3, 4),
        _low_rank,
    ),
    MapCase(
        "LowRank-zero-columns",
        LowRank((6, 5), 3),
        tuple(_without_column(factor) for factor in _XY),
        _dense(6, 5),
        _low_rank,
    ),
    MapCase(
        "LowRank-zero-column-on-one-side",
        LowRank((6, 5), 3),
        (_XY[0], _without_column(_XY[1])),
        _dense(6, 5),
        _low_rank,
    ),
    MapCase("SymmetricCP-3", SymCP(4, 3), _X43, _dense(4, 4, 4), _sym3),
    MapCase("SymmetricCP-3-symmetric", SymCP(4, 3), _X43, _symmetric(4, 3), _sym3),
    MapCase("SymmetricCP-3-tucker", SymCP(4, 3), _X43, _tucker(4, 4, 4), _sym3),
    MapCase("SymmetricCP-4", SymCP(4, 3, order=4), _X43, _dense(4, 4, 4, 4), _sym4),
    MapCase("SymmetricCP-rank-above-dim", SymCP(2, 3), _normal(2, 3), _dense(2, 2, 2), _sym3),
    MapCase("SymmetricCP-zero-column", SymCP(4, 3), _without_column(_X43), _dense(4, 4, 4), _sym3),
    MapCase("SymmetricCP-cg", SymCP(4, 3, solver=_PCG), _X43, _dense(4, 4, 4), _sym3),
    MapCase(
        "SymmetricCP-cg-zero-column",
        SymCP(4, 3, solver=_PCG),
        _without_column(_X43),
        _dense(4, 4, 4),
        _sym3,
    ),
    MapCase("CP-3", CP((4, 3, 5), 3), _ABC, _dense(4, 3, 5), _cp3),
    MapCase("CP-3-tucker", CP((4, 3, 5), 3), _ABC, _tucker(4, 3, 5), _cp3),
    MapCase(
        "CP-4",
        CP((2, 3, 2, 3), 2),
        _factors((2, 3, 2, 3), 2),
        _dense(2, 3, 2, 3),
        _cp4,
    ),
    MapCase("CP-rank-above-dim", CP((2, 2, 2), 3), _factors((2, 2, 2), 3), _dense(2, 2, 2), _cp3),
    MapCase(
        "CP-zero-column",
        CP((4, 3, 5), 3),
        tuple(_without_column(factor) for factor in _ABC),
        _dense(4, 3, 5),
        _cp3,
    ),
    MapCase("CP-cg", CP((4, 3, 5), 3, solver=_PCG), _ABC, _dense(4, 3, 5), _cp3),
    MapCase(
        "CP-cg-zero-column",
        CP((4, 3, 5), 3, solver=_PCG),
        tuple(_without_column(factor) for factor in _ABC),
        _dense(4, 3, 5),
        _cp3,
    ),
    MapCase(
        "Composed-squares",
        Composed(LowRank((6, 5), 3), Squares()),
        _XY,
        _dense(6, 5),
        _nonnegative_low_rank,
        rtol=1e-7,  # by conjugate gradients, with entries near 0, where the derivative vanishes
    ),
    MapCase(
        "Composed-fixed-factor",
        Composed(CP((4, 3, 5), 3), WithFixed((None, _MIDDLE, None))),
        (_ABC[0], _ABC[2]),
        _dense(4, 3, 5),
        _cp3_middle_known,
    ),
    MapCase("FromFunction", FromFunction(_decay), _DECAY_AT, _dense(7), _decay),
    MapCase("FromFunction-cg", FromFunction(_decay, dense_limit=0), _DECAY_AT, _dense(7), _decay),
    MapCase(
        "FromFunction-pytree", FromFunction(_two_outputs), _TREE_AT, _TREE_COVECTOR, _two_outputs
    ),
    MapCase(
        "FromFunction-pytree-cg",
        FromFunction(_two_outputs, dense_limit=0),
        _TREE_AT,
        _TREE_COVECTOR,
        _two_outputs,
    ),
]
