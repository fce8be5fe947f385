"""Which solver of the CP core system is faster at which rank: the basis of `choose_solver`."""

import jax
import jax.numpy as jnp
import numpy as np

import lemmax as lm

from .measure import Row, interleave

_DIM = 100


def rows() -> list[Row]:
    """Directions with columns graded over two orders of magnitude, damping 1e-4."""
    return [_row("CP", rank) for rank in (5, 8, 10, 12)] + [
        _row("SymmetricCP", rank) for rank in (8, 12, 16, 20)
    ]


def _row(name: str, rank: int) -> Row:
    rng = np.random.default_rng(rank)
    factors = tuple(
        jnp.asarray(rng.standard_normal((_DIM, rank)) / _DIM**0.5 * np.logspace(0, -2, rank))
        for _ in range(3)
    )
    covector = lm.operators.Identity().adjoint(jnp.asarray(rng.standard_normal((_DIM,) * 3)))

    def job(solver):
        if name == "CP":
            x, map_ = factors, lm.maps.CP((_DIM,) * 3, rank, solver)
        else:
            x, map_ = factors[0], lm.maps.SymmetricCP(_DIM, rank, solver=solver)
        direction = jax.jit(map_.direction)

        def run() -> None:
            jax.block_until_ready(direction(x, 1e-4, covector))

        return run

    solvers = {"direct": lm.maps.DirectSolver(), "cg": lm.maps.ConjugateGradients()}
    timings = interleave({key: job(solver) for key, solver in solvers.items()}, rounds=7)
    order = (3 if name == "CP" else 1) * rank**2
    return Row(
        what=f"{name} core of order {order} (rank {rank}): conjugate gradients / direct",
        measured=str(timings.ratio("cg", "direct")),
        bound="",
        passes=True,
        absolute=f"direct {1e3 * timings.typical('direct'):.1f} ms, "
        f"conjugate gradients {1e3 * timings.typical('cg'):.1f} ms",
    )
