"""`fit`: a user's own model, fitted to data with outliers."""

import pathlib
import time
from collections.abc import Callable, Iterable
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from .._checks import check_kind, check_real, check_whole
from .._dtype import x64_context, x64_is_on
from .._journal import journal
from .._tree import is_traced
from ..losses import AbstractLoss, SquaredL2
from ..methods.jacobians import AbstractJacobian, Dense, chosen_jacobian
from ..solve.progress import no_progress_bar, progress_bar
from ..status import Stopped
from . import _constants as constants
from ._chosen import ChosenSearch
from ._chosen_loss import Chosen, check_loss, is_least_squares
from ._chosen_verdict import judge_chosen
from ._data import Task, prepare, start_like
from ._gradients import differentiable
from ._large import fit_large
from ._program import one_program
from ._refine import Candidates, Setting
from ._search import Search
from ._verdict import Verdict, judge_fit
from .result import Fit, TracedFit, as_outputs


def fit(
    model: Callable[..., PyTree],
    y: Any,
    start: PyTree,
    *,
    args: Any = None,
    loss: AbstractLoss | None = None,
    sigma: Any = None,
    bounds: Any = None,
    fixed: Any = None,
    starts: int | Iterable[PyTree] = constants.STARTS,
    jacobian: AbstractJacobian | None = None,
    max_seconds: float | None = None,
    callback: Callable[[str, int, float], Any] | None = None,
    progress: bool = False,
    checkpoint: str | pathlib.Path | None = None,
) -> Fit:
    """Fit your own model to data, some of which may be outliers.

    Nonlinear least squares on the inliers, which are found first: by least absolute deviations,
    then a redescending loss. The answer does not depend on the units of parameters or data. Several
    starts are tried until fits agree. See docs/fit.md.

    Parameters
    ----------
    model : callable
        ``model(x)``, or ``model(x, *args)``: any function of the parameters written in JAX. What it
        returns is compared with y.
    y : array, or pytree of arrays
        What was observed; NaN is missing. Complex data have real and imaginary parts, each with
        errors of its own.
    start : pytree of numbers or arrays
        Where to start. The parameters come back in the same structure.
    args : tuple, optional
        Further arguments of the model: arrays, such as times. The model is compiled once for all
        their values.
    loss : AbstractLoss, optional
        One of ``lm.losses`` that is a sum over the data: its minimum, on all data. ``SquaredL2()``,
        ``L1()`` (least absolute deviations), ``Quantile(level)``, or ``Huber(threshold)``, with the
        threshold in units of sigma. If not given, outliers are found and left out.
    sigma : number, or like y, optional
        Standard deviation of each datum, up to a common factor. It serves for the fit, the errors
        and the judgement of outliers.
    bounds : pair of pytrees, optional
        ``(low, high)``, each like the start, a number for all, or None; None within is no bound.
    fixed : pytree of bool, optional
        Like the start: True for parameters that keep the value of the start.
    starts : int, or several pytrees
        How many variations of the start to look at, at most, if the first fits do not convince; or
        further starts to begin with.
    jacobian : AbstractJacobian, optional
        One of ``lm.jacobians``: ``Dense()``, or for many parameters ``Products()`` or ``Sparse()``,
        which fit from the given start alone. If not given, ``Dense()`` where the matrix of data x
        parameters takes at most 30 MB, else ``Products()``. See docs/fit.md, "Large models".
    max_seconds : float, optional
        After so many seconds the search ends with what it has.
    callback : callable, optional
        Called after every round of starts with ``"starts"``, how many there were, and the sum of
        squares; the search stops if it returns True.
    progress : bool
        Show a progress bar (needs rich).
    checkpoint : str or Path, optional
        A folder in which finished descents are kept, about every second. The same call goes on
        from there after the process was killed, and ends as it would have without that, to the last
        bit; a checkpoint of another fit is refused. See docs/devices.md.

    Returns
    -------
    Fit
        Parameters, standard errors, outliers, noise and a verdict; ``print(fitted.summary())``
        shows them. Ctrl-C ends the search and returns what it had.

    Notes
    -----
    `jax.grad`, `jax.jacrev` and `jax.jvp` with respect to y, args and sigma differentiate
    ``fitted.x`` (all that there is then) by the implicit function theorem; the set of
    outliers is held fixed.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import numpy as np
    >>> import lemmax as lm
    >>> def decay(x, t):
    ...     return x["height"] * jnp.exp(-x["rate"] * t)
    >>> t = np.linspace(0.0, 3.0, 40)
    >>> y = 2 * np.exp(-1.3 * t) + 0.01 * np.random.default_rng(0).standard_normal(40)
    >>> y[::8] += 3.0  # wrong
    >>> fitted = lm.fit(decay, y, {"height": 1.0, "rate": 1.0}, args=(t,))
    >>> fitted.status.name, fitted.outliers
    ('FITTED', array([ 0,  8, 16, 24, 32]))
    >>> print(f"{fitted.x['rate']:.2f} ± {fitted.standard_errors['rate']:.2f}")
    1.31 ± 0.01
    """
    began = time.perf_counter()
    if max_seconds is not None:
        check_real(0, max_seconds=max_seconds)
    if loss is not None:
        check_loss(loss)
    if jacobian is not None:
        check_kind("jacobian", jacobian, AbstractJacobian, "one of lm.jacobians")
    if is_traced((y, start, args, sigma, bounds)):
        if checkpoint is not None:
            raise ValueError("Where a fit is differentiated there is no checkpoint.")
        return _traced(model, y, start, args, sigma, loss, bounds, fixed, starts)
    inputs = model, y, start, args, loss, sigma, bounds, fixed, starts, jacobian
    with x64_context(), journal(checkpoint, "fit", *inputs):
        task = prepare(model, y, start, args, sigma, bounds, fixed)
        tries, others = _starts(starts, task)
        jacobian = chosen_jacobian(jacobian, len(task.y), len(task.start))
        ends = None if max_seconds is None else began + max_seconds
        chosen = None if loss is None or is_least_squares(loss) else Chosen(loss)
        bar = progress_bar("fit", constants.STARTS) if progress else no_progress_bar()
        with bar as report:
            setting = _setting(task, ends, loss is None)
            if not isinstance(jacobian, Dense):
                if chosen is not None:
                    raise ValueError(
                        "Fits by Products() or Sparse() find outliers (no loss given) or take "
                        "SquaredL2(); other losses need jacobian=lm.jacobians.Dense()."
                    )
                with one_program():
                    found, verdict = fit_large(task, setting, jacobian)
                return as_fit(task, found, verdict, 1, time.perf_counter() - began)
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                search = (
                    Search(setting, task.start, others, tries)
                    if chosen is None
                    else ChosenSearch(setting, task.start, others, tries, chosen)
                )
                if search.hopeless:
                    raise ValueError(task.complaint())
                interrupted = _run(search, _told(report, callback))
                # The verdict is short, and there has to be one.
                search.setting = search.setting._replace(watch=lambda: None)
                verdict = (
                    judge_chosen(task, search, interrupted)
                    if isinstance(search, ChosenSearch)
                    else judge_fit(task, search, interrupted)
                )
    return as_fit(task, search.found, verdict, search.starts, time.perf_counter() - began)


def _traced(
    model: Any,
    y: Any,
    start: Any,
    args: Any,
    sigma: Any,
    loss: Any,
    bounds: Any,
    fixed: Any,
    starts: Any,
) -> Fit:
    if is_traced((start, bounds)):
        raise ValueError(
            "The parameters do not depend on the start, nor on bounds: give them as numbers, or by "
            "jax.lax.stop_gradient outside of the function that is differentiated."
        )
    if not x64_is_on():
        raise ValueError(
            "lm.fit cannot run inside jit or vmap (lm.fit_many fits many curves at once), and "
            "derivatives of fits need 64 bits: jax.config.update('jax_enable_x64', True)."
        )
    several = () if args is None else tuple(args) if isinstance(args, (tuple, list)) else (args,)

    def run(y: Any, args: Any, sigma: Any) -> Fit:
        return fit(
            model,
            y,
            start,
            args=args,
            loss=loss,
            sigma=sigma,
            bounds=bounds,
            fixed=fixed,
            starts=starts,
        )

    return TracedFit(differentiable(run, model, y, several, sigma, loss or SquaredL2()))


def _starts(starts: Any, task: Task) -> tuple[int, np.ndarray]:
    if isinstance(starts, int) or (np.ndim(starts) == 0 and not isinstance(starts, Iterable)):
        check_whole(0, starts=starts)
        return int(starts), np.zeros((0, len(task.start)))
    others = [start_like(task, one) for one in starts]
    return constants.STARTS, np.stack(others) if others else np.zeros((0, len(task.start)))


def _setting(task: Task, ends: float | None, robust: bool) -> Setting:
    def watch() -> None:
        if ends is not None and time.perf_counter() > ends:
            raise Stopped

    data = task.y / task.units
    width = float(np.ptp(data)) or float(np.max(np.abs(data))) or 1.0
    return Setting(
        evaluate=task.evaluate,
        counts=np.ones(len(task.y)),
        box=task.box,
        rounding=task.rounding or _rounding_at_start(task),
        width=width,
        watch=watch,
        robust=robust,
        together=task.evaluate_together,
        grain=_grain(task.y) / float(np.median(task.units)),
    )


def _grain(y: np.ndarray, digits: int = 8) -> float:
    """Standard deviation of rounding if the data are decimal numbers of few digits, else 0."""
    size = float(np.max(np.abs(y), initial=0.0))
    for k in range(digits if size > 0 else 0):
        step = 10.0 ** (np.floor(np.log10(size)) - k)
        # Up to rounding errors: beside a large level, anything is nearly a whole number.
        if np.all(np.abs(y / step - np.round(y / step)) < 100 * constants.EPS * size / step):
            return step / np.sqrt(12)
    return 0.0


def _rounding_at_start(task: Task) -> float:
    """Rounding errors of residuals if all data are 0: those of what the model returns."""
    residual, _ = task.evaluate(np.zeros(1, int), task.start[None])
    size = float(np.sqrt(np.mean(residual**2)))
    return constants.EPS * size if 0 < size < np.inf else float(np.finfo(np.float64).tiny)


def _told(
    report: Callable[[int, float], None], callback: Callable[[str, int, float], Any] | None
) -> Callable[[int, float], None]:
    def told(starts: int, value: float) -> None:
        report(starts, value)
        answer = None if callback is None else callback("starts", starts, value)
        if answer is not None and bool(answer):
            raise Stopped

    return told


def _run(search: Search, report: Callable[[int, float], None]) -> bool:
    """Search; whether it was interrupted."""
    try:
        search.run(report)
    except (Stopped, KeyboardInterrupt):
        return True
    return False


def as_fit(task: Task, found: Candidates, verdict: Verdict, starts: int, seconds: float) -> Fit:
    """The best candidate in the user's terms."""
    structure, kinds = task.outputs
    layout = task.layout
    x = layout.fill(task.base, found.ended.x[0])
    errors = np.sqrt(np.diag(verdict.covariance)) if verdict.errors is None else verdict.errors
    errors = layout.fill(np.zeros_like(task.base), errors)
    residual = np.full(task.observed.size, np.nan)
    residual[task.observed] = found.ended.residual[0] * task.units
    wrong = np.zeros(task.observed.size)
    wrong[task.observed] = ~found.keep[0]
    right = task.observed & (wrong == 0)
    interpolated = np.zeros(task.observed.size, bool)
    if verdict.interpolated is not None:
        interpolated[task.observed] = verdict.interpolated
    masks = jax.tree.map(lambda part: np.asarray(part != 0), as_outputs(wrong, kinds, structure))
    return Fit(
        x=layout.tree(x),
        standard_errors=layout.tree(errors),
        covariance=verdict.covariance,
        names=task.free_names,
        status=verdict.status,
        objections=verdict.objections,
        remarks=verdict.remarks,
        residual=as_outputs(residual, kinds, structure),
        outliers=jax.tree.map(_indices, masks),
        noise=verdict.noise,
        freedom=verdict.freedom,
        observations=len(task.y),
        outlier_count=int(np.sum(~found.keep[0])),
        offset=float(found.ended.offset[0]),
        minima=_minima(task, found),
        starts=starts,
        seconds=seconds,
        right=right,
        interpolated=interpolated,
        task=task,
        information=verdict.information,
    )


def _indices(mask: np.ndarray) -> Any:
    places = np.nonzero(np.atleast_1d(mask))
    return places[0] if len(places) == 1 else places


def _minima(task: Task, found: Candidates, most: int = 5) -> tuple[PyTree, ...]:
    """Other ends of the search that explain the data differently."""
    lengths, others = [found.length[0]], []
    for k in range(1, len(found.length)):
        fair = np.isfinite(found.length[k]) and found.ended.settled[k]
        if (
            fair
            and len(others) < most
            and np.min(np.abs(found.length[k] - lengths)) > constants.AGREE
        ):
            lengths.append(found.length[k])
            others.append(task.layout.tree(task.layout.fill(task.base, found.ended.x[k])))
    return tuple(others)
