"""Tensors of low multilinear rank, and their CP factors, in NumPy."""

import functools
import itertools
from typing import NamedTuple

import numpy as np

# Sweeps of higher-order orthogonal iteration (De Lathauwer, De Moor and Vandewalle, 2000). The
# first basis contains noise of all columns of an unfolding, the next ones that of a few.
_SWEEPS = 2


class Tucker(NamedTuple):
    """A core and one orthonormal basis per mode."""

    core: np.ndarray
    bases: tuple[np.ndarray, ...]

    def dense(self) -> np.ndarray:
        """All entries."""
        return multiplied(self.core, tuple(basis.T for basis in self.bases))


def unfolded(tensor: np.ndarray, mode: int) -> np.ndarray:
    """Matrix whose rows are the given mode."""
    return np.moveaxis(tensor, mode, 0).reshape(tensor.shape[mode], -1)


def mode_order(sides: tuple[int, ...], tensor: np.ndarray) -> tuple[int, ...]:
    """The modes in an order that transposing does not change: those of long sides first.

    Of equal sides, the one whose slices differ more in size is first.
    """
    squares = [np.sum(unfolded(tensor, mode) ** 2, axis=1) for mode in range(tensor.ndim)]
    unequal = [float(np.sum(each**2)) for each in squares]
    return tuple(sorted(range(len(sides)), key=lambda mode: (-sides[mode], -unequal[mode])))


def multiplied(
    tensor: np.ndarray, matrices: tuple[np.ndarray, ...], skip: int | None = None
) -> np.ndarray:
    """Multiply every mode ``k != skip`` by ``matrices[k].T``."""
    for k, matrix in enumerate(matrices):
        if k != skip:
            tensor = np.moveaxis(np.tensordot(tensor, matrix, axes=((k,), (0,))), -1, k)
    return tensor


def outer_products(factors: tuple[np.ndarray, ...]) -> np.ndarray:
    """The sum over l of the outer product of the l-th columns."""
    return term_columns(factors).sum(axis=1).reshape(tuple(len(factor) for factor in factors))


def term_columns(factors: tuple[np.ndarray, ...]) -> np.ndarray:
    """The outer product of the l-th columns, as the l-th column."""
    return functools.reduce(
        lambda a, b: (a[:, None, :] * b[None, :, :]).reshape(-1, a.shape[1]), factors
    )


def symmetrised(tensor: np.ndarray) -> np.ndarray:
    """The mean over all permutations of the modes."""
    permutations = list(itertools.permutations(range(tensor.ndim)))
    return np.sum([np.transpose(tensor, p) for p in permutations], axis=0) / len(permutations)


def nearest_tucker(array: np.ndarray, rank: int, *, symmetric: bool, noisy: bool = False) -> Tucker:
    """Approximately the nearest tensor of that multilinear rank, shrunk if it is noisy.

    Along every mode a direction keeps the fraction ``1 - (edge / value)^2`` of its singular value
    (a Wiener filter with noise of the size of the edge, the first omitted singular value). This
    makes the directions of a superfluous rank small.
    """
    order = array.ndim
    if symmetric:
        array = symmetrised(array)
    bases = tuple(leading_vectors(unfolded(array, mode), rank) for mode in range(order))
    shares, modes = [np.ones(basis.shape[1]) for basis in bases], mode_order(array.shape, array)
    for _ in range(_SWEEPS):
        for mode in modes:
            basis, shares[mode] = _shrunk(unfolded(multiplied(array, bases, mode), mode), rank)
            if symmetric:
                bases, shares = (basis,) * order, [shares[mode]] * order
                break
            bases = (*bases[:mode], basis, *bases[mode + 1 :])
    core = multiplied(array, bases)
    if noisy:
        core = multiplied(core, tuple(np.diag(share) for share in shares))
    return Tucker(core, bases)


def leading_vectors(matrix: np.ndarray, rank: int) -> np.ndarray:
    """Left singular vectors from the small Gram matrix, which is accurate enough here."""
    return _signed(np.linalg.eigh(matrix @ matrix.T)[1][:, ::-1][:, :rank])


def _signed(vectors: np.ndarray) -> np.ndarray:
    """Columns with the sign of the sum of their cubes.

    LAPACK's signs depend on the order of rows and on the last bit, and random combinations of
    coordinates along these vectors would, too.
    """
    return vectors * np.where(np.sum(vectors**3, axis=0) < 0, -1.0, 1.0)


def _shrunk(matrix: np.ndarray, rank: int) -> tuple[np.ndarray, np.ndarray]:
    """Leading left singular vectors and their shrinkage factors."""
    squares, vectors = np.linalg.eigh(matrix @ matrix.T)
    squares, vectors = np.maximum(squares[::-1], 0), _signed(vectors[:, ::-1])
    edge = squares[rank] if rank < len(squares) else 0.0
    kept = squares[:rank]
    return vectors[:, :rank], 1 - edge / np.where(kept > 0, kept, 1)


def simultaneous_diagonalisation(
    core: np.ndarray, count: int, rng: np.random.Generator
) -> tuple[np.ndarray, ...]:
    """Factors of ``count`` terms by Jennrich's algorithm (Harshman, 1970).

    Two random combinations of slices are ``A D B'`` and ``A E B'`` with diagonal D and E. The
    columns of A are the eigenvectors of one times the inverse of the other. Given A, the part that
    belongs to each column is a tensor of rank one. This is exact if there are ``count`` terms and
    the columns of the first two factors are linearly independent.
    """
    slices = core.reshape(core.shape[0], core.shape[1], -1)
    left = leading_vectors(unfolded(slices, 0), count)
    right = leading_vectors(unfolded(slices, 1), count)
    small = np.einsum("ijk,ia,jb->abk", slices, left, right)
    one, other = np.moveaxis(small @ rng.standard_normal((small.shape[2], 2)), 2, 0)
    values, vectors = np.linalg.eig(one @ np.linalg.pinv(other))
    # Of a complex pair both parts: the same real part twice would be singular.
    first = left @ np.where(np.imag(values) < 0, np.imag(vectors), np.real(vectors))
    rest = np.linalg.pinv(first) @ unfolded(core, 0)
    terms = [_rank_one(term.reshape(core.shape[1:])) for term in rest]
    return first, *(np.stack(columns, axis=1) for columns in zip(*terms, strict=True))


def _rank_one(tensor: np.ndarray) -> list[np.ndarray]:
    """Vectors whose outer product approximates a tensor of rank one; the first has its norm."""
    vectors = [leading_vectors(unfolded(tensor, mode), 1)[:, 0] for mode in range(tensor.ndim)]
    size = float(multiplied(tensor, tuple(v[:, None] for v in vectors)).reshape(()))
    return [size * vectors[0], *vectors[1:]]


def balanced(factors: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    """The same terms, with columns of equal norm in all factors."""
    norms = np.array([np.linalg.norm(factor, axis=0) for factor in factors])
    shared = np.prod(norms, axis=0) ** (1 / len(factors))
    return tuple(
        factor * (shared / np.where(norm > 0, norm, 1))
        for factor, norm in zip(factors, norms, strict=True)
    )


def symmetric_terms(factors: tuple[np.ndarray, ...], core: np.ndarray) -> np.ndarray:
    """The columns whose powers are nearest to these terms; zero if there is no such power.

    Even powers are positive, so negative terms have none.
    """
    order = len(factors)
    vectors = factors[0] / np.maximum(np.linalg.norm(factors[0], axis=0), np.finfo(float).tiny)
    weights = np.linalg.lstsq(term_columns((vectors,) * order), core.ravel(), rcond=None)[0]
    if order % 2 == 0:
        weights = np.maximum(weights, 0)
    return vectors * np.sign(weights) * np.abs(weights) ** (1 / order)
