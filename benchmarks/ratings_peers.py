"""cmfrec on lists of ratings: lists and places asked for in, predictions and seconds out.

It runs in a process of its own, by a Python that has cmfrec; this file needs none of lemmax:

    python benchmarks/ratings_peers.py lists.npz answers.npz
"""

import sys
import time

import numpy as np


def cmfrec(given: np.ndarray, asked: np.ndarray) -> np.ndarray:
    """Of rows (user, item, stars), and of pairs (user, item)."""
    import pandas as pd
    from cmfrec import CMF

    stars = given[:, 2]
    (users, items), wanted = given[:, :2].astype(int).T, asked.astype(int).T
    frame = pd.DataFrame({"UserId": users, "ItemId": items, "Rating": stars})
    guess = CMF(k=40, lambda_=10.0, verbose=False, nthreads=2).fit(frame).predict(*wanted)
    return np.clip(np.where(np.isnan(guess), stars.mean(), guess), stars.min(), stars.max())


def answers(lists: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Of every list its predictions, and the seconds as the last number; nothing without cmfrec."""
    found = {}
    for key in [name.removesuffix("@given") for name in lists if name.endswith("@given")]:
        began = time.perf_counter()
        try:
            guess = cmfrec(lists[f"{key}@given"], lists[f"{key}@asked"])
        except ImportError as error:
            print(f"cmfrec is left out: {error}", file=sys.stderr)
            break
        found[key] = np.append(guess, time.perf_counter() - began)
    return found


if __name__ == "__main__":
    given, written = sys.argv[1:]
    with np.load(given) as file:
        np.savez(written, **answers(dict(file)))
