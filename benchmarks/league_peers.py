"""What people use on such tables today, each as one function: table with NaN in, cleaned table out.

Every peer returns its guess of all cells and which cells it takes for wrong. Imputers have no
notion of a wrong cell; they get the table after a screen by robust z-scores.

Some peers need older versions of NumPy and scikit-learn than lemmax. So they run in a process of
their own, by whatever Python is told to `benchmarks.league`; this file needs none of lemmax:

    python benchmarks/league_peers.py instances.npz answers.npz
"""

import contextlib
import io
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator

import numpy as np

Answer = tuple[np.ndarray, np.ndarray]
# A cell is screened if it is so many robust standard deviations from the median of its column.
_SCREEN = 5.0
# A peer that takes longer than so many seconds for a table is stopped.
_PATIENCE = 60


def screened(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The table without cells far from the median of their column, and which these are."""
    centre = np.nanmedian(table, axis=0)
    spread = 1.4826 * np.nanmedian(np.abs(table - centre), axis=0)
    spread = np.where(spread > 0, spread, np.nanstd(table, axis=0))
    with np.errstate(invalid="ignore", divide="ignore"):
        flagged = np.abs(table - centre) > _SCREEN * spread
    return np.where(flagged, np.nan, table), flagged


def _imputed(make: Callable[[], object]) -> Callable[[np.ndarray], Answer]:
    def peer(table: np.ndarray) -> Answer:
        rest, flagged = screened(table)
        # These imputers want columns of one size.
        centre, spread = np.nanmean(rest, axis=0), np.nanstd(rest, axis=0)
        spread = np.where(spread > 0, spread, 1.0)
        return make().fit_transform((rest - centre) / spread) * spread + centre, flagged

    return peer


def _iterative() -> object:
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer

    return IterativeImputer(random_state=0)


def _neighbours() -> object:
    from sklearn.impute import KNNImputer

    return KNNImputer()


def _soft_impute() -> object:
    from fancyimpute import SoftImpute

    return SoftImpute(verbose=False)


def _median(table: np.ndarray) -> Answer:
    return np.broadcast_to(np.nanmedian(table, axis=0), table.shape), np.zeros(table.shape, bool)


def _ddc(table: np.ndarray) -> Answer:
    import pandas as pd
    from robpy.outliers import DDC

    model = DDC().fit(pd.DataFrame(table))
    return np.asarray(model.rescaled_predictions_), np.asarray(model.cellwise_outliers_, bool)


def _cell_mcd(table: np.ndarray) -> Answer:
    from robpy.covariance import CellMCD

    model = CellMCD().fit(table)
    return np.asarray(model.predictions), ~np.asarray(model.W, bool) & ~np.isnan(table)


PEERS: dict[str, Callable[[np.ndarray], Answer]] = {
    "column medians": _median,
    "z-scores + IterativeImputer": _imputed(_iterative),
    "z-scores + KNNImputer": _imputed(_neighbours),
    "z-scores + softImpute": _imputed(_soft_impute),
    "DDC": _ddc,
    "cellMCD": _cell_mcd,
}


def _late(*_: object) -> None:
    raise TimeoutError


def answers(tables: dict[str, np.ndarray]) -> Iterator[tuple[str, np.ndarray]]:
    """Of every table and peer its guess, the cells it flags, the seconds; nothing if it fails."""
    signal.signal(signal.SIGALRM, _late)
    for key, table in tables.items():
        for name, peer in PEERS.items():
            began = time.perf_counter()
            signal.alarm(_PATIENCE)
            try:
                with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    guess, flagged = peer(table)
            except Exception as error:  # whatever a peer raises, it has no answer
                print(f"{name} has no answer for {key}: {error!r:.80}", file=sys.stderr)
                continue
            finally:
                signal.alarm(0)
            if guess.shape == table.shape and np.all(np.isfinite(guess)):
                seconds = np.full(guess.shape, time.perf_counter() - began)
                yield f"{name}@{key}", np.stack([guess, flagged.astype(float), seconds])


if __name__ == "__main__":
    given, written = sys.argv[1:]
    with np.load(given) as file:
        np.savez(written, **dict(answers(dict(file))))
