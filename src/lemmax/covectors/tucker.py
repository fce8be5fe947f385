"""Covectors in the column spaces of factored points."""

from jaxtyping import Array

from .._linalg import contract, mttkrp, unfold
from ._base import AbstractCovector, sum_over_modes


class TuckerCovector(AbstractCovector):
    """A small core multiplied by an orthonormal basis in every mode.

    Parameters
    ----------
    core : array
        One mode per basis.
    bases : tuple of arrays
        Basis k has shape ``(d_k, core.shape[k])``.
    """

    core: Array
    bases: tuple[Array, ...]

    def dense(self) -> Array:
        """Form all entries."""
        return contract(self.core, tuple(basis.T for basis in self.bases))

    def contract(self, matrices: tuple[Array, ...], skip: int | None = None) -> Array:
        """Multiply every mode ``k != skip`` by ``matrices[k].T``, within the bases."""
        small = tuple(
            basis.T if k == skip else basis.T @ matrix
            for k, (basis, matrix) in enumerate(zip(self.bases, matrices, strict=True))
        )
        return contract(self.core, small)

    def mttkrp(self, factors: tuple[Array, ...], mode: int) -> Array:
        """Matricised covector times Khatri-Rao product, within the bases."""
        small = tuple(q.T @ factor for q, factor in zip(self.bases, factors, strict=True))
        return self.bases[mode] @ mttkrp(self.core, small, mode)

    def contract_all_but_one(self, matrix: Array) -> Array:
        """Sum over n of the unfolding along n, all other modes multiplied by ``matrix``."""
        order = len(self.bases)
        return sum_over_modes(lambda n: unfold(self.contract((matrix,) * order, n), n), order)

    def mttkrp_in_every_mode(self, factor: Array) -> Array:
        """Sum over n of the matricised covector times a Khatri-Rao product."""
        order = len(self.bases)
        return sum_over_modes(lambda n: self.mttkrp((factor,) * order, n), order)
