"""
Enzyme
======

The rate of an enzymatic reaction against the concentration of its substrate, with and without the
antibiotic puromycin: 23 measurements of Treloar (1974), in Bates and Watts, *Nonlinear Regression
Analysis and Its Applications* (1988), appendix A1.3. Three of them are copied wrongly here. The
fit should give the parameters and standard errors of the others.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import curve_fit

import lemmax as lm

concentration = np.repeat([0.02, 0.06, 0.11, 0.22, 0.56, 1.10], 2)
concentration = np.concatenate([concentration, concentration[:-1]])  # ppm
treated = np.arange(23) < 12
with_it = [76, 47, 97, 107, 123, 139, 159, 152, 191, 201, 207, 200]  # counts/min²
without = [67, 51, 84, 86, 98, 115, 131, 124, 144, 158, 160]
measured = np.array([*with_it, *without], dtype=float)
rate = measured.copy()
rate[[2, 9, 20]] = 9.7, 20.1, 441  # 97, 201 and 144, with a point or a digit in the wrong place


# %%
# Michaelis and Menten's model. The treatment changes the largest rate, not the half-way
# concentration. (Functions such as exp must be those of ``jax.numpy``.) The start is a rough
# guess.
def michaelis_menten(x, concentration, treated):
    largest = x["largest"] + x["gain by treatment"] * treated
    return largest * concentration / (x["half at"] + concentration)


start = {"largest": 100.0, "gain by treatment": 0.0, "half at": 0.1}
fitted = lm.fit(michaelis_menten, rate, start, args=(concentration, treated))
print(fitted.summary())
print("outliers:", fitted.outliers, "with values", rate[fitted.outliers])


# %%
# For comparison: SciPy's ``curve_fit``, by least squares and with its robust loss, whose scale
# must be given. The first line is a fit to the right numbers.
def formula(data, largest, gain, half):
    concentration, treated = data
    return (largest + gain * treated) * concentration / (half + concentration)


order = ("largest", "gain by treatment", "half at")
data, guess = (concentration, treated), [start[name] for name in order]
robust = {"method": "trf", "loss": "soft_l1", "f_scale": 10.0}
answers = {
    "curve_fit, before the slips": curve_fit(formula, data, measured, guess),
    "curve_fit, after them": curve_fit(formula, data, rate, guess),
    "curve_fit, soft_l1": curve_fit(formula, data, rate, guess, **robust),
}
errors = fitted.standard_errors
for name, (x, covariance) in answers.items():
    pairs = zip(x, np.sqrt(np.diag(covariance)), strict=True)
    print(f"{name:28} {', '.join(f'{value:.4g} ± {error:.2g}' for value, error in pairs)}")
told = ", ".join(f"{fitted.x[name]:.4g} ± {errors[name]:.2g}" for name in order)
print(f"{'lm.fit, after them':28} {told}")

# %%
# The curves with their 95 % bands:
figure, ax = plt.subplots(layout="constrained")
grid = np.linspace(0.0, 1.2, 100)
wrong = np.isin(np.arange(23), fitted.outliers)
for kind, colour, name in ((True, "C0", "treated"), (False, "C1", "untreated")):
    curve = fitted.predict(0.95, args=(grid, np.full(100, kind)))
    ax.plot(grid, curve.value, color=colour)
    ax.fill_between(grid, curve.low, curve.high, color=colour, alpha=0.25, linewidth=0)
    chosen = treated == kind
    right, bad = chosen & ~wrong, chosen & wrong
    ax.plot(concentration[right], rate[right], "o", color=colour, label=name)
    ax.plot(concentration[bad], rate[bad], "x", color=colour, label=f"{name}, outliers")
    squares = answers["curve_fit, after them"][0]
    ax.plot(grid, formula((grid, kind), *squares), ":", color=colour)
ax.plot([], [], ":", color="0.4", label="curve_fit")
ax.set(xlabel="concentration in ppm", ylabel="rate in counts/min²", ylim=(0, None))
ax.legend()
