"""The three parts of `lemmax demo`: a table, a model, the paper's claim."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

import lemmax as lm

from .instances import Instance, psd_sensing

ERROR = "relative error"


class Act(NamedTuple):
    """One part of the demo: text, a table, and a function that draws its panel."""

    title: str
    text: str
    code: str
    header: tuple[str, ...]
    rows: list[tuple[str, ...]]
    remark: str
    description: str
    draw: Callable[[Any], None]


def table(seed: int) -> Act:
    """Clean a real table with missing cells and typing errors.

    The table is scikit-learn's breast cancer data set: 569 tumours, 30 measurements of very
    different sizes. A tenth of the cells is deleted, and in 3 % the decimal point is moved.
    """
    from sklearn.datasets import load_breast_cancer
    from sklearn.impute import KNNImputer

    from lemmax.estimators import RobustPCA

    rng = np.random.default_rng(seed)
    data: Any = load_breast_cancer(as_frame=True)
    truth = data.data.astype(float)
    exact = truth.to_numpy()
    holes = rng.random(exact.shape) < 0.1
    typos = (rng.random(exact.shape) < 0.03) & ~holes & (exact != 0)
    spoiled = np.where(typos, exact * rng.choice([0.1, 10.0], exact.shape), exact)
    spoiled[holes] = np.nan
    frame = truth.copy()
    frame.iloc[:, :] = spoiled

    began = time.perf_counter()
    model = RobustPCA().fit(frame)
    seconds = time.perf_counter() - began
    low, high = (bound.to_numpy() for bound in model.predict_interval(0.9))
    found = np.zeros(exact.shape, bool)
    places = {name: k for k, name in enumerate(frame.columns)}
    found[model.outliers_["row"], model.outliers_["column"].map(places)] = True

    # The usual approach: hide cells beyond 5 robust standard deviations, impute the missing ones.
    centre = np.nanmedian(spoiled, axis=0)
    spread = 1.4826 * np.nanmedian(np.abs(spoiled - centre), axis=0)
    hidden = np.abs(spoiled - centre) > 5 * spread
    began = time.perf_counter()
    neighbours = KNNImputer().fit_transform(np.where(hidden, np.nan, spoiled))
    others = time.perf_counter() - began

    def row(name: str, filled: np.ndarray, called: np.ndarray, cover: str, taken: float):
        errors = ((filled - exact) / exact.std(axis=0))[holes]
        return (
            name,
            f"{np.sqrt(np.mean(errors**2)):.2f}",
            f"{np.sum(called & typos)} of {np.sum(typos)}",
            f"{np.sum(called & ~typos)}",
            cover,
            f"{taken:.2f}",
        )

    covered = float(np.mean((low <= exact) & (exact <= high), where=holes))
    nothing = np.zeros(exact.shape, bool)
    rows = [
        row("RobustPCA", model.cleaned_.to_numpy(), found, f"{covered:.0%}", seconds),
        row("z-scores + KNN", neighbours, hidden, "none", others),
        row("column medians", np.where(holes, centre, spoiled), nothing, "none", 0.0),
    ]
    column = "mean compactness"
    k = places[column]

    def draw(ax: Any) -> None:
        from matplotlib.ticker import LogLocator, NullFormatter

        cells = np.flatnonzero(holes[:, k] | found[:, k])
        bad = np.flatnonzero(typos[:, k] & found[:, k])
        ends = [0.8 * exact[:, k].min(), 1.25 * exact[:, k].max()]
        ax.plot(ends, ends, color="0.6", linewidth=1, zorder=1)
        value = model.cleaned_.to_numpy()[cells, k]
        bars = np.maximum([value - low[cells, k], high[cells, k] - value], 0)
        ax.errorbar(
            exact[cells, k],
            value,
            bars,
            fmt=".",
            color="C0",
            elinewidth=1,
            label="cleaned, 90 % interval",
        )
        ax.plot(exact[bad, k], spoiled[bad, k], "x", color="C3", label="as typed")
        ax.set(xscale="log", yscale="log", xlabel=f"true {column}", ylabel="in the table")
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            axis.set_major_formatter("{x:g}")
            axis.set_minor_formatter(NullFormatter())
        ax.legend()

    return Act(
        title="A table with missing cells and typos",
        text=(
            "scikit-learn's breast cancer table, 569 x 30. A tenth of the cells is deleted; in "
            f"{np.sum(typos)} others the decimal point is moved by one place. RobustPCA finds the "
            "typos, replaces them and the missing cells, and gives every replacement an error bar."
        ),
        code=(
            "model = RobustPCA().fit(frame)\nmodel.cleaned_, model.standard_error_, model.outliers_"
        ),
        header=("method", "error", "typos found", "false alarms", "90 % cover", "seconds"),
        rows=rows,
        remark=(
            "Error: root mean square at the missing cells, in standard deviations of the columns. "
            "90 % cover: share of the missing cells whose true value is inside its 90 % interval. "
            "Typos that are as plausible as the true value, such as a small number ten times "
            "smaller, are not found."
        ),
        description="Missing cells and typos of one column: typed, cleaned with error bars, true.",
        draw=draw,
    )


def peak(x: Any, t: Any) -> Any:
    """A peak on a sloping background."""
    bump = jnp.exp(-(((t - x["centre"]) / x["width"]) ** 2))
    return x["height"] * bump + x["offset"] + x["slope"] * t


def model(seed: int) -> Act:
    """Fit a peak to data with a fifth of outliers, and compare with SciPy's curve_fit."""
    from scipy.optimize import curve_fit

    rng = np.random.default_rng(seed)
    t = np.linspace(0.0, 10.0, 100)
    truth = {"height": 3.0, "centre": 4.0, "width": 0.8, "offset": 1.0, "slope": 0.2}
    noise = 0.1
    y = np.asarray(peak(truth, t)) + noise * rng.standard_normal(t.size)
    y[rng.choice(t.size, t.size // 5, replace=False)] += rng.uniform(1.0, 6.0, t.size // 5)
    start = {"height": 1.0, "centre": 5.0, "width": 1.0, "offset": 0.0, "slope": 0.0}
    # A width and its negative give the same peak.
    low = {"height": 0.0, "centre": None, "width": 0.0, "offset": None, "slope": None}
    fitted = lm.fit(peak, y, start, args=(t,), bounds=(low, None))

    names = list(truth)
    told = names[:4]

    def formula(t: np.ndarray, *values: float) -> np.ndarray:
        x = dict(zip(names, values, strict=True))
        bump = np.exp(-(((t - x["centre"]) / x["width"]) ** 2))
        return x["height"] * bump + x["offset"] + x["slope"] * t

    def scipy_row(name: str, **options: Any) -> tuple[np.ndarray, tuple[str, ...]]:
        least = [-np.inf if low[each] is None else low[each] for each in names]
        begin = [start[each] for each in names]
        x, covariance = curve_fit(formula, t, y, begin, bounds=(least, np.inf), **options)
        errors = np.sqrt(np.diag(covariance))
        return x, (name, *list(map(_with_error, x, errors))[: len(told)], "none")

    squares, by_squares = scipy_row("curve_fit")
    _, by_soft_l1 = scipy_row("curve_fit, soft_l1", method="trf", loss="soft_l1", f_scale=noise)
    errors = fitted.standard_errors
    rows = [
        ("truth", *(f"{truth[name]:.2f}" for name in told), f"{t.size // 5}"),
        ("lm.fit", *(_with_error(fitted.x[k], errors[k]) for k in told), f"{len(fitted.outliers)}"),
        by_squares,
        by_soft_l1,
    ]

    def draw(ax: Any) -> None:
        fine = np.linspace(t[0], t[-1], 400)
        curve = fitted.predict(0.95, args=(fine,))
        wrong = np.isin(np.arange(t.size), fitted.outliers)
        ax.plot(t[~wrong], y[~wrong], ".", color="0.4", label="data")
        ax.plot(t[wrong], y[wrong], "x", color="C3", label="outliers")
        ax.plot(fine, curve.value, color="C0", label="lm.fit")
        ax.fill_between(fine, curve.low, curve.high, color="C0", alpha=0.25, linewidth=0)
        ax.plot(fine, formula(fine, *squares), "--", color="C1", label="curve_fit")
        ax.set(xlabel="t", ylabel="y")
        ax.legend()

    return Act(
        title="A model of your own, 20 % outliers",
        text=(
            "A peak on a sloping background, 100 data, of which 20 are outliers. lm.fit finds the "
            "outliers, and gives the parameters and standard errors of the other data."
        ),
        code="fitted = lm.fit(peak, y, start, args=(t,), bounds=bounds)\nprint(fitted.summary())",
        header=("method", *told, "wrong"),
        rows=rows,
        remark=(
            "Values ± standard errors. The robust loss of curve_fit (soft_l1) is given the true "
            "noise level, which lm.fit estimates from the data."
        ),
        description="Data with outliers, lm.fit's curve through the others, curve_fit's above it.",
        draw=draw,
    )


def _with_error(value: Any, error: Any) -> str:
    return f"{value:.2f}±{error:.2f}"


def claim(seed: int) -> Act:
    """The paper's claim: over-estimated rank, ill-conditioned, a fifth of outliers."""
    instance = claim_instance(seed)
    # No method is tuned: the target of the steps is estimated from the residuals.
    step = lm.steps.BulkPolyak()
    methods = {
        "LMM": lm.methods.lmm(step),
        "Gauss-Newton": lm.methods.gauss_newton(step),
        "scaled subgradient": lm.methods.scaled_subgradient(step),
        "subgradient": lm.methods.subgradient(step),
    }
    results = {
        name: lm.solve(
            instance.problem,
            method,
            instance.x0,
            max_steps=100,
            tol=0.0,
            metrics={ERROR: instance.error},
        )
        for name, method in methods.items()
    }

    def row(name: str, result: lm.Result) -> tuple[str, ...]:
        error = np.asarray(result.trace.metrics[ERROR])
        reached = np.flatnonzero(error <= 1e-10)
        return (
            name,
            f"{np.max(error):.0e}",
            f"{error[-1]:.0e}",
            str(reached[0]) if reached.size else "never",
            f"{1e3 * result.seconds / max(int(result.steps), 1):.2f}",
        )

    def draw(ax: Any) -> None:
        lm.plots.convergence(results, metric=ERROR, ax=ax)
        ax.set_ylim(1e-16, 1e8)

    return Act(
        title="The paper's claim: rank, conditioning and outliers do not slow LMM down",
        text=(
            "A 30 x 30 matrix of rank 2 with condition number 100, fitted with rank 5 to 1500 "
            "measurements, of which 300 are outliers of ten times their size. The start has a "
            "relative error of 1 %, and its three superfluous columns are small."
        ),
        code="lm.solve(problem, lm.methods.lmm(lm.steps.BulkPolyak()), x0)",
        header=("method", "largest error", "at step 100", "steps to 1e-10", "ms/step"),
        rows=[row(name, result) for name, result in results.items()],
        remark=(
            "The start is chosen to show it: small superfluous columns make the Jacobian nearly "
            "rank-deficient. Gauss-Newton and the scaled subgradient method have no damping and "
            "jump far away; they return within a few hundred steps. From a start with large "
            "superfluous columns they are as fast as LMM. The subgradient method is slow from both."
        ),
        description="LMM falls to rounding errors; the others stay above or leave the picture.",
        draw=draw,
    )


def claim_instance(seed: int) -> Instance:
    """Sensing with outliers, from a start whose superfluous singular values are scaled by 1e-4."""
    instance = psd_sensing(seed, dim=30, rank=5, measurements=1500, condition=100.0, outliers=0.2)
    left, values, right = np.linalg.svd(np.asarray(instance.x0), full_matrices=False)
    values[2:] *= 1e-4
    return instance._replace(x0=left * values @ right)


def picture(acts: list[Act]) -> Any:
    """A matplotlib Figure with one panel per part."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.0 * len(acts), 4.2), layout="constrained")
    for act, ax in zip(acts, figure.subplots(1, len(acts), squeeze=False)[0], strict=True):
        act.draw(ax)
        ax.set_title(act.title.split(":")[0])
    return figure


ACTS = (table, model, claim)
