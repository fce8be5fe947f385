"""MatrixCompletion on ratings and on long lists of entries, beside cmfrec.

    python -m benchmarks.ratings --peers .peers/bin/python    # MovieLens 100k, five folds
    python -m benchmarks.ratings 200000 2000000    # synthetic lists of so many entries instead

MovieLens is fitted as it is, and with some of the ratings replaced by random ones. cmfrec runs in a
Python that has it; it is left out if that one has not. `benchmarks.league` shows the same table.
"""

import argparse
import importlib.util
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy import sparse

from lemmax.estimators import MatrixCompletion

_FOLDS = 5
_SHARES = (0.0, 0.05, 0.1)
# Of alternating least squares from the truth, for the oracle.
_ROUNDS = 5
_DATA = pathlib.Path(__file__).parents[1] / "docs" / "gallery" / "data.py"


class Fold(NamedTuple):
    """A list of ratings, and what is asked."""

    key: str
    given: np.ndarray
    """Rows: user, item, stars."""
    asked: np.ndarray
    """Rows: user, item."""
    truth: np.ndarray

    def error(self, guess: np.ndarray) -> float:
        """Root mean square error in stars."""
        return float(np.sqrt(np.mean((guess - self.truth) ** 2)))


def movielens() -> Iterator[Fold]:
    """Five random folds of MovieLens 100k, for each share of random ratings among the given."""
    spec = importlib.util.spec_from_file_location("gallery_data", _DATA)
    assert spec is not None
    assert spec.loader is not None
    data = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(data)
    users, items, stars = data.movielens()
    places = np.column_stack([users, items])
    fold = np.random.default_rng(0).integers(0, _FOLDS, len(stars))
    for share in _SHARES:
        rng = np.random.default_rng(1)
        given = np.where(rng.random(len(stars)) < share, rng.integers(1, 6, len(stars)), stars)
        for each in range(_FOLDS):
            hidden = fold == each
            seen = np.column_stack([places, given])[~hidden]
            yield Fold(f"{share}|{each}", seen, places[hidden], stars[hidden])


def lemmax(given: np.ndarray, asked: np.ndarray) -> np.ndarray:
    places = given[:, :2].astype(int)
    return MatrixCompletion().fit((*places.T, given[:, 2])).predict(asked)


def cmfrec(python: str, folds: list[Fold]) -> dict[str, np.ndarray]:
    """Predictions and seconds of the folds, by another Python."""
    script = pathlib.Path(__file__).with_name("ratings_peers.py")
    with tempfile.TemporaryDirectory() as folder:
        lists, written = pathlib.Path(folder, "lists.npz"), pathlib.Path(folder, "answers.npz")
        arrays = {f"{fold.key}@given": fold.given for fold in folds}
        np.savez(lists, **arrays, **{f"{fold.key}@asked": fold.asked for fold in folds})
        subprocess.run([python, str(script), str(lists), str(written)], check=True)
        with np.load(written) as file:
            return dict(file)


def compared(python: str) -> Table:
    """Errors and seconds of lemmax and cmfrec."""
    folds, ours = list(movielens()), {}
    for fold in folds:
        began = time.perf_counter()
        guess = lemmax(fold.given, fold.asked)
        ours[fold.key] = np.append(guess, time.perf_counter() - began)
    table = Table(title="MovieLens 100k, root mean square error in stars (five folds)")
    for heading in ("tool", "as it is", *(f"{share:.0%} random" for share in _SHARES[1:])):
        table.add_column(heading)
    table.add_column("seconds a fold")
    for name, answers in (("lemmax", ours), ("cmfrec", cmfrec(python, folds))):
        if not answers:
            continue
        errors = [fold.error(answers[fold.key][:-1]) for fold in folds]
        means = np.mean(np.reshape(errors, (len(_SHARES), _FOLDS)), axis=1)
        rises = [f"{mean:.4f} (+{mean - means[0]:.4f})" for mean in means[1:]]
        seconds = np.mean([answer[-1] for answer in answers.values()])
        table.add_row(name, f"{means[0]:.4f}", *rises, f"{seconds:.1f}")
    return table


def synthetic(count: int, ratio: float = 2.0) -> str:
    """A list of rank 5 with noise .1, of which 5 % is wrong: relative error at random places.

    Beside it the error of an oracle: least squares with known rank and known wrong entries.
    """
    rng = np.random.default_rng(0)
    columns_count = int(3 * np.sqrt(count / ratio))
    shape = (int(ratio * columns_count), columns_count)
    left, right = rng.standard_normal((shape[0], 5)), rng.standard_normal((shape[1], 5)) / 5**0.5
    places = np.unique(rng.integers(0, shape[0] * shape[1], 2 * count))
    rows, columns = np.divmod(rng.permutation(places)[:count], shape[1])
    values = np.einsum("ij,ij->i", left[rows], right[columns])
    values += 0.1 * rng.standard_normal(len(rows))
    wrong = rng.random(len(rows)) < 0.05
    values[wrong] += rng.uniform(-10, 10, int(wrong.sum()))
    began = time.perf_counter()
    model = MatrixCompletion(max_components=8, shape=shape, clip=False).fit((rows, columns, values))
    seconds = time.perf_counter() - began
    asked = tuple(rng.integers(0, size, 100_000) for size in shape)
    truth = np.einsum("ij,ij->i", left[asked[0]], right[asked[1]])
    data = sparse.csr_array((values[~wrong], (rows[~wrong], columns[~wrong])), shape=shape)
    for _ in range(_ROUNDS):
        left = _regressions(data, right)
        right = _regressions(data.T.tocsr(), left)
    oracle = np.einsum("ij,ij->i", left[asked[0]], right[asked[1]])
    error, least = (
        float(np.linalg.norm(each - truth) / np.linalg.norm(truth))
        for each in (model.predict(asked), oracle)
    )
    return (
        f"{count} entries of {shape}: {seconds:.1f} s, relative error {error:.4f}, "
        f"{error / least:.3f} times an oracle's"
    )


def _regressions(data: sparse.csr_array, design: np.ndarray) -> np.ndarray:
    """Coefficients of the rows of a table, by least squares on the entries that are stored."""
    size = design.shape[1]
    products = (design[:, :, None] * design[:, None, :]).reshape(len(design), -1)
    grams = (data.astype(bool).astype(float) @ products).reshape(-1, size, size)
    grams += 1e-9 * np.eye(size)
    return np.linalg.solve(grams, (data @ design)[..., None])[..., 0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("counts", type=int, nargs="*", help="entries of synthetic lists")
    parser.add_argument("--ratio", type=float, default=2.0, help="rows to columns of these")
    parser.add_argument("--peers", default=sys.executable, help="a Python that has cmfrec")
    options = parser.parse_args()
    for count in options.counts:
        print(synthetic(count, options.ratio), flush=True)
    if not options.counts:
        Console(width=None if sys.stdout.isatty() else 140).print(compared(options.peers))


if __name__ == "__main__":
    main()
