"""`fit_many`: the same model fitted to thousands of curves, in one program."""

import dataclasses
import pathlib
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from .._checks import check_kind, check_real, check_whole
from .._dtype import x64_context
from .._journal import begun, journal
from .._plain import Kinds
from .._storage import write
from ..losses import AbstractLoss, SquaredL2
from . import _constants as constants
from ._batch import Batch, prepare_many
from ._lanes import Curves, Model, lanes_of_a_call
from ._many_verdict import Verdicts, judge_many
from ._pool import Pool, fit_pool
from ._program import one_program
from .api import fit
from .result import Fit, as_outputs
from .status import FitStatus

# From the number of a curve, where it ended and options to its fit.
Curve = Callable[[int, PyTree, dict], Fit]


@dataclasses.dataclass(frozen=True, eq=False)
class ManyFits:
    """The outcome of `lemmax.fit_many`; every array has an axis of curves first.

    Use the results of a curve only if its `succeeded` is True.
    """

    x: PyTree
    """The parameters, like the start with an axis of curves before."""
    standard_errors: PyTree
    covariance: np.ndarray
    """Of shape (curves, p, p), in the order of `names`."""
    names: tuple[str, ...]
    codes: np.ndarray
    """The `FitStatus` of each curve, as a number."""
    wrong: PyTree
    """Masks like y: the outliers."""
    noise: np.ndarray
    freedom: np.ndarray
    """Inliers less parameters."""
    seconds: float
    task: Curve | None = dataclasses.field(repr=False)
    """What was fitted, curve by curve; None after `lemmax.load`."""

    @property
    def succeeded(self) -> np.ndarray:
        """For which curves the data support the parameters."""
        return np.isin(self.codes, [s for s in FitStatus if s.succeeded])

    def status(self, curve: int) -> FitStatus:
        """The verdict on one curve."""
        return FitStatus(int(self.codes[curve]))

    def one(self, curve: int, **options: Any) -> Fit:
        """One curve fitted anew by `lemmax.fit`, from the start and from where it ended.

        Parameters
        ----------
        curve : int
            Its number.
        **options
            Of `lemmax.fit`, such as ``max_seconds``.

        Returns
        -------
        Fit
            With reasons, residuals, intervals and bands, and a search from more starts if need be.
        """
        check_whole(0, curve=curve)
        if curve >= len(self.codes):
            raise ValueError(f"There are {len(self.codes)} curves; got {curve}.")
        if self.task is None:
            raise ValueError("Model and data are not saved: fit this curve by lm.fit.")
        ended = jax.tree.map(lambda leaf: leaf[curve], self.x)
        return self.task(curve, ended, options)

    def retry(self, max_seconds: float | None = None) -> "ManyFits":
        """All curves that did not succeed, fitted anew by `one`.

        Parameters
        ----------
        max_seconds : float, optional
            After so many seconds the others stay as they are.

        Returns
        -------
        ManyFits
            With these in place of the former.

        Examples
        --------
        >>> import jax.numpy as jnp
        >>> import numpy as np
        >>> import lemmax as lm
        >>> t = np.linspace(0.0, 10.0, 50)
        >>> y = np.sin(np.array([[1.0], [1.6]]) * t) + 0.01 * np.cos(99 * t)
        >>> fits = lm.fit_many(lambda x: jnp.sin(x[0] * t), y, np.array([1.05]))
        >>> fits.succeeded, fits.retry().succeeded
        (array([ True, False]), array([ True,  True]))
        """
        began = time.perf_counter()
        if max_seconds is not None:
            check_real(0, max_seconds=max_seconds)
        new = dataclasses.replace(
            self,
            x=jax.tree.map(np.copy, self.x),
            standard_errors=jax.tree.map(np.copy, self.standard_errors),
            covariance=self.covariance.copy(),
            codes=self.codes.copy(),
            wrong=jax.tree.map(np.copy, self.wrong),
            noise=self.noise.copy(),
            freedom=self.freedom.copy(),
        )
        for curve in np.flatnonzero(~self.succeeded):
            left = None if max_seconds is None else max_seconds - (time.perf_counter() - began)
            if left is not None and left <= 0:
                break
            try:
                fit = self.one(int(curve), max_seconds=left)
            except ValueError:  # too few data, or a model that is finite nowhere near: as it was
                continue
            trees = (new.x, fit.x), (new.standard_errors, fit.standard_errors)
            for whole, part in (*trees, (new.wrong, fit.wrong)):
                jax.tree.map(lambda w, p, k=curve: w.__setitem__(k, p), whole, part)
            new.covariance[curve], new.codes[curve] = fit.covariance, fit.status
            new.noise[curve], new.freedom[curve] = fit.noise, fit.freedom
        seconds = self.seconds + time.perf_counter() - began
        return dataclasses.replace(new, seconds=seconds)

    def summary(self) -> str:
        """How many curves ended how, in a few lines."""
        lines = [f"{len(self.codes)} curves, {self.seconds:.2f} s"]
        for status in FitStatus:
            count = int(np.sum(self.codes == status))
            if count:
                lines.append(f"{count:>8} {status.name}: {status.message}")
        return "\n".join(lines)

    def save(self, path: str | pathlib.Path) -> None:
        """Write it to a file, without pickle; `lemmax.load` reads it.

        The model and the data are not saved.

        Parameters
        ----------
        path : str or Path
            By custom with the suffix ``.safetensors``.
        """
        write(path, "ManyFits", dataclasses.replace(self, task=None), KINDS)

    def __str__(self) -> str:
        return self.summary()

    def __repr__(self) -> str:
        return f"<ManyFits of {len(self.codes)} curves, {int(np.sum(self.succeeded))} succeeded>"


KINDS = Kinds(ManyFits, Verdicts)
"""What files of fits to many curves may hold."""


def fit_many(
    model: Callable[..., PyTree],
    y: Any,
    start: PyTree,
    *,
    args: Any = None,
    each: Any = None,
    loss: AbstractLoss | None = None,
    sigma: Any = None,
    bounds: Any = None,
    fixed: Any = None,
    checkpoint: str | pathlib.Path | None = None,
) -> ManyFits:
    """Fit the same model to thousands of curves, in one program.

    Like `fit` for each of them, but from the given start alone: where a curve has several minima
    and the start is far, `fit` finds more; `ManyFits.retry` has it fit those that did not succeed.
    Curves that are fitted leave the program.

    Parameters
    ----------
    model : callable
        ``model(x)``, or ``model(x, *args, *each)``, for one curve.
    y : array, or pytree of arrays
        The data of all curves, along the first axis; NaN is missing.
    start : pytree of numbers or arrays
        Where to start: for one curve, and all start there; or with an axis of curves first.
    args : tuple, optional
        Further arguments of the model that all curves share.
    each : tuple, optional
        Further arguments with an axis of curves first, of which each curve has its own.
    loss : SquaredL2, optional
        Least squares on all data. If not given, outliers are found and left out.
    sigma : number, or like y, optional
        Standard deviation of each datum, up to a factor for each curve.
    bounds, fixed
        As for `fit`, the same for all curves.
    checkpoint : str or Path, optional
        A folder in which fitted curves are kept, about every second. The same call goes on from
        there after the process was killed; a checkpoint of other curves is refused.

    Returns
    -------
    ManyFits
        Parameters, standard errors, noise, outliers and a verdict for each curve.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import numpy as np
    >>> import lemmax as lm
    >>> def decay(x, t):
    ...     return x["height"] * jnp.exp(-x["rate"] * t)
    >>> t, rates = np.linspace(0.0, 3.0, 50), np.linspace(0.5, 2.0, 100)
    >>> noise = 0.01 * np.random.default_rng(0).standard_normal((100, 50))
    >>> y = np.exp(-rates[:, None] * t) + noise
    >>> y[:, 7] = 5.0  # wrong
    >>> fits = lm.fit_many(decay, y, {"height": 1.0, "rate": 1.0}, args=(t,))
    >>> bool(np.all(fits.succeeded)), bool(np.all(np.abs(fits.x["rate"] - rates) < 0.1))
    (True, True)
    >>> np.flatnonzero(fits.wrong.any(axis=0))
    array([7])
    """
    began = time.perf_counter()
    if loss is not None:
        check_kind("loss", loss, SquaredL2, "SquaredL2() or None, which is robust (fit has more)")
        if loss.weights is not None:
            raise ValueError("Weights are given by sigma, the standard deviation of each datum.")
    inputs = model, y, start, args, each, loss, sigma, bounds, fixed
    with (
        x64_context(),
        np.errstate(over="ignore", invalid="ignore", divide="ignore"),
        journal(checkpoint, "fit_many", *inputs),
    ):
        batch = prepare_many(model, y, start, args, each, sigma, bounds, fixed)
        count, n = batch.y.shape
        numbers = n * (len(batch.task.layout.free) + 2)
        size = max(constants.TOGETHER // numbers, 1)
        together = lanes_of_a_call(min(size, count), numbers)
        with one_program():
            parts = [
                _fit(batch, np.arange(first, min(first + size, count)), together, loss is None)
                for first in range(0, count, size)
            ]
    whole = [np.concatenate(part) for part in zip(*parts, strict=True)]
    several = () if args is None else tuple(args) if isinstance(args, (tuple, list)) else (args,)
    own = () if each is None else tuple(each) if isinstance(each, (tuple, list)) else (each,)

    def curve(number: int, ended: PyTree, options: dict) -> Fit:
        def part(tree: PyTree) -> PyTree:
            return jax.tree.map(lambda leaf: np.asarray(leaf)[number], tree)

        begun = batch.task.layout.tree(batch.begun(number))
        # The start itself first; then where the lane ended, unless the options have other starts.
        return fit(
            model,
            part(y),
            begun,
            args=(*several, *(part(leaf) for leaf in own)),
            loss=loss,
            sigma=sigma if sigma is None or np.ndim(sigma) == 0 else part(sigma),
            bounds=bounds,
            fixed=fixed,
            **{"starts": [ended], **options},
        )

    seconds = time.perf_counter() - began
    return _as_fits(batch, *whole, seconds=seconds, curve=curve)


def _fit(batch: Batch, lanes: np.ndarray, together: int, robust: bool) -> Verdicts:
    """Fit and judge some curves."""
    stage = begun("curves", KINDS)
    if stage.ended:
        return stage.value
    task = batch.task
    observed = batch.observed[lanes]
    y = batch.y[lanes]
    curves = Curves(
        y if np.all(observed) else np.where(observed, y, 0),
        None if batch.inverse is None else np.where(observed, batch.inverse[lanes], 0),
        jax.tree.map(lambda leaf: leaf[lanes], batch.each),
        batch.rounding[lanes],
    )
    low, high = task.box
    model = Model(task.model, task.layout, task.base, task.args, low, high, together)
    pool = Pool(model, curves, observed, batch.width[lanes])
    found, glance = fit_pool(pool, batch.start[lanes], robust)
    found = judge_many(batch, lanes, pool, found, glance, robust)
    stage.end(found)
    return found


def _as_fits(
    batch: Batch, x, covariance, codes, keep, noise, *, seconds: float, curve: Curve
) -> ManyFits:
    task = batch.task
    structure, kinds = task.outputs
    count = len(x)
    full = np.repeat(task.base[None], count, axis=0)
    free = list(task.layout.free)
    full[:, free] = x
    errors = np.zeros_like(full)
    errors[:, free] = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
    wrong = batch.observed & ~keep
    masks = as_outputs(wrong.astype(float), kinds, structure, lanes=count)
    return ManyFits(
        x=task.layout.tree(full, lanes=count),
        standard_errors=task.layout.tree(errors, lanes=count),
        covariance=covariance,
        names=task.free_names,
        codes=codes,
        wrong=jax.tree.map(lambda part: part != 0, masks),
        noise=noise,
        freedom=np.sum(keep, axis=1) - x.shape[1],
        seconds=seconds,
        task=curve,
    )
