"""MatrixCompletion on ratings and on long lists of entries, beside cmfrec where that is installed.

python -m benchmarks.ratings               # MovieLens 100k, five folds, as it is and spoiled
python -m benchmarks.ratings 200000 2000000   # synthetic lists of so many entries instead
"""

import argparse
import importlib.util
import pathlib
import time
from collections.abc import Callable

import numpy as np

from lemmax.estimators import MatrixCompletion

_FOLDS = 5
_DATA = pathlib.Path(__file__).parents[1] / "docs" / "gallery" / "data.py"
Places = tuple[np.ndarray, np.ndarray]
Tool = Callable[[Places, np.ndarray, Places], np.ndarray]


def lemmax(places: Places, stars: np.ndarray, asked: Places) -> np.ndarray:
    return MatrixCompletion().fit((*places, stars)).predict(asked)


def cmfrec(places: Places, stars: np.ndarray, asked: Places) -> np.ndarray:
    import pandas as pd
    from cmfrec import CMF

    frame = pd.DataFrame({"UserId": places[0], "ItemId": places[1], "Rating": stars})
    guess = CMF(k=40, lambda_=10.0, verbose=False, nthreads=2).fit(frame).predict(*asked)
    return np.clip(np.where(np.isnan(guess), stars.mean(), guess), stars.min(), stars.max())


def movielens(tool: Tool, random_share: float) -> str:
    """Root mean square errors of the folds; a share of the ratings is replaced by random ones."""
    spec = importlib.util.spec_from_file_location("gallery_data", _DATA)
    assert spec is not None
    assert spec.loader is not None
    data = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(data)
    users, items, stars = data.movielens()
    fold = np.random.default_rng(0).integers(0, _FOLDS, len(stars))
    rng = np.random.default_rng(1)
    given = np.where(rng.random(len(stars)) < random_share, rng.integers(1, 6, len(stars)), stars)
    errors, began = [], time.perf_counter()
    for hidden in (fold == each for each in range(_FOLDS)):
        asked = users[hidden], items[hidden]
        guess = tool((users[~hidden], items[~hidden]), given[~hidden].astype(float), asked)
        errors.append(np.sqrt(np.mean((guess - stars[hidden]) ** 2)))
    seconds = (time.perf_counter() - began) / _FOLDS
    listed = " ".join(f"{error:.4f}" for error in errors)
    return (
        f"{random_share:.0%} random: mean {np.mean(errors):.4f} ({listed}), {seconds:.1f} s a fold"
    )


def synthetic(count: int) -> str:
    """A list of rank 5 with noise .1, of which 5 % is wrong: relative error at random places."""
    rng = np.random.default_rng(0)
    shape = (int(np.sqrt(2 * count) * 3), int(np.sqrt(2 * count) * 1.5))
    left, right = rng.standard_normal((shape[0], 5)), rng.standard_normal((shape[1], 5)) / 5**0.5
    rows, columns = rng.integers(0, shape[0], count), rng.integers(0, shape[1], count)
    values = np.einsum("ij,ij->i", left[rows], right[columns]) + 0.1 * rng.standard_normal(count)
    wrong = rng.random(count) < 0.05
    values[wrong] += rng.uniform(-10, 10, int(wrong.sum()))
    began = time.perf_counter()
    model = MatrixCompletion(max_components=8, shape=shape, clip=False).fit((rows, columns, values))
    seconds = time.perf_counter() - began
    asked = tuple(rng.integers(0, size, 100_000) for size in shape)
    truth = np.einsum("ij,ij->i", left[asked[0]], right[asked[1]])
    error = np.linalg.norm(model.predict(asked) - truth) / np.linalg.norm(truth)
    return f"{count} entries of {shape}: {seconds:.1f} s, relative error {error:.4f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("counts", type=int, nargs="*", help="entries of synthetic lists")
    counts = parser.parse_args().counts
    for count in counts:
        print(synthetic(count), flush=True)
    tools: dict[str, Tool] = {"lemmax": lemmax}
    if importlib.util.find_spec("cmfrec"):
        tools["cmfrec"] = cmfrec
    for name, tool in tools.items() if not counts else ():
        for share in (0.0, 0.05):
            print(name, movielens(tool, share), flush=True)


if __name__ == "__main__":
    main()
