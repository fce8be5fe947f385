"""CPDecomposition on noisy tensors with wrong entries and holes, beside tensorly's parafac.

    python -m benchmarks.tensors                # up to 100 x 100 x 100
    python -m benchmarks.tensors --large        # and 200 x 200 x 200

Errors are relative to those of least squares that know the rank and the wrong entries, about: the
noise times the root of the degrees of freedom over the right entries.
"""

import argparse
import time

import numpy as np
from rich.console import Console
from rich.table import Table

from lemmax.estimators import CPDecomposition

_NOISE, _WRONG, _HOLES, _SIZE = 0.1, 0.05, 0.1, 10.0
_CASES = (((25, 18, 12), 3), ((20, 15, 12), 7), ((12, 9, 8, 7), 3), ((50, 50, 50), 5))
_BIG, _LARGE = ((100, 100, 100), 5), ((200, 200, 200), 5)
_BOUND = 10


def instance(
    shape: tuple[int, ...], rank: int, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A spoiled tensor, the truth, and what is wrong."""
    rng = np.random.default_rng((4711, seed))
    letters = "abcdef"[: len(shape)]
    spec = ",".join(f"{letter}r" for letter in letters)
    factors = [rng.standard_normal((side, rank)) for side in shape]
    truth = np.einsum(f"{spec}->{letters}", *factors, optimize=True)
    size = truth.std()
    tensor = truth + _NOISE * size * rng.standard_normal(shape)
    wrong = rng.random(shape) < _WRONG
    tensor[wrong] += _SIZE * size * rng.standard_normal(int(wrong.sum()))
    tensor[rng.random(shape) < _HOLES] = np.nan
    return tensor, truth, wrong & ~np.isnan(tensor)


def parafac(tensor: np.ndarray, rank: int) -> np.ndarray:
    """Alternating least squares that are told the rank."""
    from tensorly.cp_tensor import cp_to_tensor
    from tensorly.decomposition import parafac as decompose

    seen = ~np.isnan(tensor)
    found = decompose(np.where(seen, tensor, 0), rank, mask=seen, n_iter_max=100, random_state=0)
    return np.asarray(cp_to_tensor(found))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--large", action="store_true", help="200 x 200 x 200, too")
    options = parser.parse_args()
    table = Table(title="Noisy tensors: 5 % of the entries wrong, 10 % missing, noise .1")
    for name in (
        "shape",
        "rank",
        "found",
        "error / oracle",
        "F1",
        "coverage",
        "seconds",
        "parafac",
    ):
        table.add_column(name)
    for shape, rank in (*_CASES, _BIG, *([_LARGE] if options.large else [])):
        rows = []
        for seed in range(1 if (shape, rank) == _LARGE else options.seeds):
            tensor, truth, wrong = instance(shape, rank, seed)
            began = time.perf_counter()
            model = CPDecomposition(rank=max(_BOUND, rank)).fit(tensor)
            seconds = time.perf_counter() - began
            right = int(np.sum(~np.isnan(tensor) & ~wrong))
            freedom = rank * (sum(shape) - len(shape) + 1)
            oracle = _NOISE * truth.std() * np.sqrt(freedom / right)
            flagged = np.zeros(shape, bool)
            flagged[model.outliers_.coords] = True
            hit = 2 * np.sum(flagged & wrong) / max(1, np.sum(flagged) + np.sum(wrong))
            lower, upper = model.predict_interval(0.9)
            fresh = truth + _NOISE * truth.std() * np.random.default_rng(seed).standard_normal(
                shape
            )
            holes = np.isnan(tensor)
            inside = np.mean(((lower <= fresh) & (fresh <= upper))[holes])
            error = np.sqrt(np.mean((model.reconstruct() - truth) ** 2)) / oracle
            peer = np.nan
            if tensor.size <= 50**3:
                peer = np.sqrt(np.mean((parafac(tensor, rank) - truth) ** 2)) / oracle
            rows.append((model.rank_, error, hit, inside, seconds, peer))
        found, error, hit, inside, seconds, peer = (
            np.array(column) for column in zip(*rows, strict=True)
        )
        table.add_row(
            " x ".join(map(str, shape)),
            str(rank),
            " ".join(map(str, found)),
            f"{np.median(error):.2f} (at most {error.max():.2f})",
            f"{hit.mean():.3f}",
            f"{inside.mean():.3f}",
            f"{np.median(seconds):.2f}",
            f"{np.median(peer):.1f}",
        )
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
