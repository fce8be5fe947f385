"""
Predators
=========

Hares and lynxes: Lotka and Volterra's differential equations, fitted to the furs that the
Hudson's Bay Company bought from 1900 to 1920 (in thousands; Howard, *Modeling Basics*, 2009). A
model may contain a solver of differential equations, here diffrax. Three numbers have a decimal
point in the wrong place.
"""

# %%
import diffrax
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import curve_fit

import lemmax as lm

years = np.arange(1900.0, 1921.0)
hares = "30 47.2 70.2 77.4 36.3 20.6 18.1 21.4 22 25.4 27.1 40.3 57 76.6 52.3 19.5 11.2 7.6 14.6 "
lynxes = "4 6.1 9.8 35.2 59.4 41.7 19 13 8.3 9.1 7.4 8 12.3 19.5 45.7 51.1 29.7 15.8 9.7 10.1 8.6"
hares, lynxes = (np.array(text.split(), float) for text in (hares + "16.2 24.7", lynxes))
spoiled = {"hares": hares.copy(), "lynxes": lynxes.copy()}
spoiled["hares"][[3, 12]] = 7.74, 570
spoiled["lynxes"][15] = 5.11
data = jax.tree.map(np.log, spoiled)  # errors of counts are relative


# %%
# The model: logarithms of both populations at given times. Parameters are growth and death rates,
# what hares and lynxes do to each other, and both populations in 1900. ``lm.fit`` differentiates in
# forward mode, which diffrax must be told.
def change(t, state, x):
    hares, lynxes = state
    eaten = hares * lynxes
    return x["birth"] * hares - x["hunt"] * eaten, x["feed"] * eaten - x["death"] * lynxes


def populations(x, years):
    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(change),
        diffrax.Tsit5(),
        t0=1900.0,
        t1=1920.0,
        dt0=None,
        y0=(x["hares"], x["lynxes"]),
        args=x,
        saveat=diffrax.SaveAt(ts=years),
        stepsize_controller=diffrax.PIDController(rtol=1e-7, atol=1e-7),
        adjoint=diffrax.ForwardMode(),
        max_steps=2000,
        throw=False,
    )
    return {"hares": jnp.log(solution.ys[0]), "lynxes": jnp.log(solution.ys[1])}


start = {"birth": 0.5, "hunt": 0.02, "feed": 0.02, "death": 0.5, "hares": 30.0, "lynxes": 5.0}
bounds = (dict.fromkeys(start, 1e-4), None)
fitted = lm.fit(populations, data, start, args=(years,), bounds=bounds)
print(fitted.summary())
print("outliers:", {name: years[places].astype(int) for name, places in fitted.outliers.items()})

# %%
# SciPy's ``curve_fit`` on the same function, compiled and with its exact derivative, from the same
# start:
names = list(start)


def flat(years, *values):
    made = populations(dict(zip(names, values, strict=True)), years)
    return jnp.concatenate([made["hares"], made["lynxes"]])


value, slopes = jax.jit(flat), jax.jit(jax.jacfwd(flat, range(1, 7)))


def scipy_fit(observed):
    with jax.enable_x64(True):
        return curve_fit(
            lambda *at: np.asarray(value(*at)),
            years,
            observed,
            list(start.values()),
            jac=lambda *at: np.stack(slopes(*at), axis=1),
            bounds=(1e-4, np.inf),
        )


squares, covariance = scipy_fit(np.concatenate([data["hares"], data["lynxes"]]))
clean, _ = scipy_fit(np.log(np.concatenate([hares, lynxes])))
errors = dict(zip(names, np.sqrt(np.diag(covariance)), strict=True))
print(f"{'':8} {'lm.fit':>16} {'curve_fit':>16} {'curve_fit without slips':>24}")
for k, name in enumerate(names):
    ours = f"{fitted.x[name]:.3g} ± {fitted.standard_errors[name]:.1g}"
    theirs = f"{squares[k]:.3g} ± {errors[name]:.1g}"
    print(f"{name:8} {ours:>16} {theirs:>16} {clean[k]:24.3g}")

# %%
# Both populations with 95 % bands of the curve, and the furs that were counted:
fine = np.linspace(1900.0, 1920.0, 200)
curve = fitted.predict(0.95, args=(fine,))
with jax.enable_x64(True):
    other = np.exp(np.asarray(value(fine, *squares))).reshape(2, -1)
figure, axes = plt.subplots(2, 1, sharex=True, layout="constrained", figsize=(7, 6))
for ax, name, line in zip(axes, ("hares", "lynxes"), other, strict=True):
    wrong = np.isin(np.arange(21), fitted.outliers[name])
    ax.plot(fine, np.exp(curve.value[name]), label="lm.fit")
    low, high = np.exp(curve.low[name]), np.exp(curve.high[name])
    ax.fill_between(fine, low, high, alpha=0.25, linewidth=0)
    ax.plot(fine, line, ":", color="C1", label="curve_fit")
    ax.plot(years[~wrong], spoiled[name][~wrong], "o", color="0.3", label="data")
    ax.plot(years[wrong], spoiled[name][wrong], "x", color="C3", label="outliers")
    ax.set(ylabel=f"thousands of {name}", yscale="log")
    ticks = [5, 10, 20, 50, 100, 200, 500]
    ax.set_yticks(ticks, map(str, ticks))
    ax.minorticks_off()
    ax.set_ylim(3.5, 700)
axes[0].legend(ncols=2)
_ = axes[1].set_xticks(np.arange(1900, 1921, 5))
