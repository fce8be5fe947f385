"""`recover`: from data to an answer, in one call."""

import pathlib
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._checks import check_kind, check_real, check_whole
from .._dtype import needs_local_x64, precision_context, require_finite, to_device, to_numpy
from .._journal import journal
from .._programs import forget_programs_if_many
from .._threads import one_thread_of_lapack
from .._typing import Parameters
from ..losses import L1, AbstractLoss
from ..maps import AbstractMap
from ..operators import AbstractOperator
from ..points import AbstractPoint
from ..problem import Composite
from ..solve.progress import no_progress_bar, progress_bar
from ._certificate import Certificate, needed_observations
from ._facts import Watch
from ._functions import recover_function
from ._objections import Objection
from ._pipeline import Answer, Search
from ._select import bulk_of
from .found import Recovery, RecoveryStatus

# The length of the progress bar; the number of steps is not known beforehand.
_BAR = 100


def recover(
    data: Any,
    map: AbstractMap,
    operator: AbstractOperator | None = None,
    loss: AbstractLoss | None = None,
    *,
    x0: Parameters | None = None,
    seed: int = 0,
    restarts: int = 3,
    max_seconds: float | None = None,
    callback: Callable[[str, int, float], Any] | None = None,
    progress: bool = False,
    checkpoint: str | pathlib.Path | None = None,
) -> Recovery:
    """Find the point behind incomplete and partly wrong data, without tuning.

    Start, step lengths, rank and the number of outliers are found from the data; the rank of the
    map is an upper bound. docs/recover.md explains how, and how well it works.

    Parameters
    ----------
    data : array
        Observations. Float64 NumPy arrays keep their precision in any x64 mode of JAX. Without
        an operator, NaN marks missing entries.
    map : AbstractMap
        The structure of the point, from `lemmax.maps`; the rank is an upper bound.
    operator : AbstractOperator, optional
        The measurements, from `lemmax.operators`; by default the entries of the point.
    loss : AbstractLoss, optional
        `L1` by default, for gross errors in up to nearly half of the data. `SquaredL2` and `L2`
        are for noise without gross errors. Observations with weight 0 are missing.
    x0 : parameters, optional
        The start; found from the data by default. A `FromFunction` needs one.
    seed : int
        Seed of all random choices. The same seed gives the same answer.
    restarts : int
        The number of further starts for a tensor or a function if the first fails.
    max_seconds : float, optional
        The search ends after so many seconds with the latest point.
    callback : callable, optional
        Called with the stage, the step and the value; the search stops if it returns True.
    progress : bool
        Show a progress bar (needs rich).
    checkpoint : str or Path, optional
        A folder for the stages of the search, written about every second. After a crash, the same
        call resumes from there, with the same answer to the last bit. A checkpoint of another
        problem is refused. See docs/devices.md.

    Returns
    -------
    Recovery
        The point with its rank, the outliers, the noise level and a verdict; see its ``summary()``.
        Ctrl-C ends the search and returns the latest point.

    Examples
    --------
    >>> import lemmax as lm
    >>> from lemmax.experiments.instances import psd_sensing
    >>> problem = psd_sensing(0, dim=10, rank=2, measurements=300, outliers=0.2).problem
    >>> found = lm.recover(problem.data, lm.maps.PSD(10, rank=4), problem.operator)
    >>> found.status.name, found.rank, len(found.outliers)
    ('EXACT', 2, 60)
    """
    began = time.perf_counter()
    check_whole(0, seed=seed, restarts=restarts)
    if max_seconds is not None:
        check_real(0, max_seconds=max_seconds)
    check_kind("map", map, AbstractMap, "one of lemmax's; the order is data, map, operator")
    loss = L1() if loss is None else loss
    check_kind("loss", loss, AbstractLoss, "one of lemmax's (an instance of AbstractLoss)")
    if operator is None:
        data, loss = _without_missing(data, loss)
    if map.ranked is not None and x0 is None:
        map = map.ranked.with_rank(map.ranked.largest_rank)
    problem = Composite(loss, map, data, operator)
    _check(problem, x0)
    # A quantile is not the centre of the inliers: it keeps its loss.
    if map.model is not None and loss.symmetric:
        assert x0 is not None
        with journal(checkpoint, "recover", problem, x0, restarts):
            return recover_function(problem, x0, restarts, max_seconds, callback, progress)
    forget_programs_if_many()
    gives_numpy = not isinstance(data, jax.Array) or needs_local_x64(problem)
    stages = journal(checkpoint, "recover", problem, x0, seed, restarts)
    with precision_context(problem, x0), one_thread_of_lapack(), stages:
        if x0 is not None:
            x0 = jax.tree.map(to_device, x0)
            problem.check_start(x0)
            require_finite(x0, "The parameters x0")
        bar = progress_bar(type(map).__name__, _BAR) if progress else no_progress_bar()
        with bar as report:
            ends = None if max_seconds is None else began + max_seconds
            search = Search(problem, x0, seed, restarts, _watch(callback, report, ends))
            answer = search.run()
            if progress:
                report(_BAR, float(np.median(np.abs(answer.fitted.residual))))
        x = answer.fitted.x
        point = answer.fitted.map(jax.tree.map(jnp.asarray, x))
        if gives_numpy:
            point, x = to_numpy((point, x))
    seconds = time.perf_counter() - began
    return _as_recovery(problem, answer, point, x, search, seconds)


def _without_missing(data: Any, loss: AbstractLoss) -> tuple[Any, AbstractLoss]:
    """Replace NaN by zeros of weight 0."""
    array = np.asarray(data) if isinstance(data, (list, np.ndarray, jax.Array)) else None
    if array is None or array.dtype.kind != "f" or loss.weights is not None:
        return data, loss
    missing = np.isnan(array)
    if array.size and np.all(missing):
        raise ValueError("All data are missing (NaN): no value is observed.")
    if not np.any(missing):
        return data, loss
    weighted = loss.with_weights(np.where(missing, 0, 1).astype(array.dtype))
    filled = np.where(missing, 0, array).astype(array.dtype)
    return (to_device(filled) if isinstance(data, jax.Array) else filled), weighted


def _check(problem: Composite, x0: Parameters | None) -> None:
    if isinstance(problem.data, AbstractPoint) or not hasattr(problem.data, "shape"):
        raise TypeError("recover needs data in one array; lm.solve takes other kinds.")
    if x0 is None and problem.map.parameter_shapes is None:
        raise ValueError(
            f"No start from data alone is known for the map {type(problem.map).__name__}: give x0. "
            "If it fails, random starts of its size are tried."
        )
    if not np.any(np.asarray(problem.data)[problem.weights > 0]):
        raise ValueError("All data are zero, and so is the point that fits them.")


def _watch(
    callback: Callable[[str, int, float], Any] | None, report: Any, ends: float | None
) -> Watch:
    def watch(stage: str, step: int, value: float) -> bool:
        report(step, value)
        if ends is not None and time.perf_counter() > ends:
            return True
        return callback is not None and bool(callback(stage, step, value))

    return watch


def _as_recovery(
    problem: Composite,
    answer: Answer,
    point: AbstractPoint,
    x: Parameters,
    search: Search,
    seconds: float,
) -> Recovery:
    fitted, certificate = answer.fitted, answer.certificate
    known, ranked = problem.weights > 0, problem.map.ranked
    outliers = np.nonzero(known & ~certificate.explained)
    count = int(known.sum())
    map = fitted.map if certificate.holds else problem.map
    needed = needed_observations(map, certificate.freedom, len(outliers[0]) / count)
    return Recovery(
        point=point,
        x=x,
        map=fitted.map,
        status=_status(answer, certificate, count < needed),
        rank=_rank(answer),
        rank_bound=None if ranked is None else ranked.rank,
        sizes=fitted.sizes,
        residual=np.where(known, fitted.residual, np.nan),
        outliers=outliers if problem.data.ndim > 1 else outliers[0],
        noise=float("nan") if answer.interrupted else certificate.noise,
        expected_error=certificate.error,
        freedom=certificate.freedom,
        needed=needed,
        observations=count,
        objections=(*certificate.objections, *_hints(problem, answer)),
        doubtful=certificate.doubtful,
        passes=search.facts.passes,
        steps=search.facts.steps,
        seconds=seconds,
    )


def _hints(problem: Composite, answer: Answer) -> list[Objection]:
    """Advice for an answer that is not certified."""
    if answer.certificate.holds or answer.interrupted or problem.loss.robust:
        return []
    fitted, known = answer.fitted, problem.weights > 0
    bulk, _ = bulk_of(fitted.residual, known, fitted.freedom, robust=True)
    said = "a few residuals are far larger than the others, like gross errors: use L1()"
    return [] if np.all(bulk[known]) else [Objection(said)]


def _rank(answer: Answer) -> int | None:
    map, x = answer.fitted.map, answer.fitted.x
    if map.ranked is not None:
        return map.ranked.rank if any(np.any(leaf) for leaf in jax.tree.leaves(x)) else 0
    sizes = answer.fitted.sizes
    if sizes is None:
        return None
    # Terms above their share of the expected error.
    error = answer.certificate.error if np.isfinite(answer.certificate.error) else 1.0
    sizes = sizes / max(np.max(sizes), np.finfo(float).tiny)
    level = max(1e-8, error / np.sqrt(sizes.size)) * np.linalg.norm(sizes)
    return int(np.sum(sizes > level))


def _status(answer: Answer, certificate: Certificate, few: bool) -> RecoveryStatus:
    if answer.interrupted:
        return RecoveryStatus.INTERRUPTED
    if certificate.holds:
        return RecoveryStatus.EXACT if certificate.exact else RecoveryStatus.NOISE_LEVEL
    if few or any(objection.unseen for objection in certificate.objections):
        return RecoveryStatus.NOT_IDENTIFIABLE
    return RecoveryStatus.NOT_CONVERGED
