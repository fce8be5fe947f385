"""
Lifetimes
=========

A thousand curves at once. In fluorescence lifetime imaging every pixel has a curve of its own:
light that decays after a flash. Here are 32 x 32 simulated pixels with 60 times each. One datum
in twenty has a spike, as cosmic rays make them. ``lm.fit_many`` fits all curves in one program.
"""

# %%
import time

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import curve_fit

import lemmax as lm

rng = np.random.default_rng(0)
row, column = np.mgrid[:32, :32] / 31
truth = 1.5 + 1.5 * np.exp(-(((row - 0.35) ** 2 + (column - 0.4) ** 2) / 0.03))  # nanoseconds
truth += 0.8 * (np.hypot(row - 0.75, column - 0.7) < 0.15)
t = np.linspace(0.0, 12.0, 60)
heights = rng.uniform(50, 150, (32, 32, 1))
curves = heights * np.exp(-t / truth[..., None]) + 5 + 1.5 * rng.standard_normal((32, 32, 60))
wrong = rng.random(curves.shape) < 0.05
curves[wrong] += rng.uniform(50, 300, int(wrong.sum()))


def decay(x, t):
    return x["height"] * jnp.exp(-t / x["lifetime"]) + x["background"]


start = {"height": 100.0, "lifetime": 2.0, "background": 0.0}
began = time.perf_counter()
fits = lm.fit_many(decay, curves.reshape(-1, 60), start, args=(t,))
ours = time.perf_counter() - began
print(fits)
print(f"{np.sum(fits.wrong & wrong.reshape(-1, 60))} of {wrong.sum()} spikes were found")

# %%
# ``lm.fit_many`` uses one start, and a spike at the first time may mislead it. All curves have
# the same noise, so a large residual shows which these are. ``lm.fit``, which tries more starts,
# fits them again.
began = time.perf_counter()
again = np.flatnonzero(fits.noise > 2 * np.median(fits.noise))
values, errors = fits.x["lifetime"].copy(), fits.standard_errors["lifetime"].copy()
for k in again:
    one = lm.fit(decay, curves.reshape(-1, 60)[k], start, args=(t,))
    values[k], errors[k] = one.x["lifetime"], one.standard_errors["lifetime"]
ours += time.perf_counter() - began
print(f"{len(again)} curves were fitted again")

# %%
# The standard errors match the true errors:
lifetimes = values.reshape(32, 32)
ratio = (lifetimes - truth) / errors.reshape(32, 32)
print(f"within two standard errors of the truth: {np.mean(np.abs(ratio) < 2):.1%}")
print(f"the worst is {np.max(np.abs(ratio)):.1f} standard errors off")


# %%
# A loop over SciPy's ``curve_fit``, by least squares, and by its robust loss with the true noise as
# its scale, which ``lm.fit_many`` has to find. The time of the latter includes compilation.
def formula(t, height, lifetime, background):
    return height * np.exp(-t / lifetime) + background


def loop(**options):
    began, found = time.perf_counter(), []
    for curve in curves.reshape(-1, 60):
        try:
            with np.errstate(over="ignore"):
                found.append(curve_fit(formula, t, curve, (100.0, 2.0, 0.0), **options)[0][1])
        except RuntimeError:  # no convergence
            found.append(np.nan)
    return np.reshape(found, (32, 32)), time.perf_counter() - began


squares, squares_time = loop()
robust, robust_time = loop(method="trf", loss="soft_l1", f_scale=1.5)
answers = {
    "lm.fit_many, lm.fit": (lifetimes, ours),
    "curve_fit": (squares, squares_time),
    "curve_fit, soft_l1": (robust, robust_time),
}
for name, (found, seconds) in answers.items():
    error = np.abs(found - truth)
    told = (
        f"median error {np.nanmedian(error):.3f} ns, {np.sum(~(error < 0.5))} curves beyond 0.5 ns"
    )
    print(f"{name:20} {told}, {seconds:.1f} s")

# %%
# Maps of lifetimes, in nanoseconds:
figure, axes = plt.subplots(1, 4, figsize=(11, 3.2), layout="constrained")
shown = {"truth": truth} | {name: found for name, (found, _) in answers.items()}
for ax, (name, found) in zip(axes, shown.items(), strict=True):
    drawn = ax.imshow(found, vmin=1, vmax=3.5)
    ax.set(title=name, xticks=[], yticks=[])
figure.colorbar(drawn, ax=axes, shrink=0.8)
