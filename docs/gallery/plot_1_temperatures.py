"""
Temperatures
============

Hourly temperatures of a year form a table with a row for each day. Most days resemble each other,
so that a few components explain the table. We add gaps and spikes, as data loggers do, and clean
it.
"""

# %%
import numpy as np
from data import seattle_temperatures

import lemmax as lm
from lemmax.estimators import RobustPCA

truth = seattle_temperatures()  # 364 days x 24 hours, in degrees Fahrenheit
rng = np.random.default_rng(0)
table = truth.copy()
spikes, gaps = rng.random(table.shape) < 0.05, rng.random(table.shape) < 0.2
table[spikes], table[gaps] = 120.0, np.nan

model = RobustPCA().fit(table)
print(model.summary())

# %%
# The data, the cleaned table, and the outliers:
lm.plots.before_after(table, model.cleaned_, model.outliers_)

# %%
# For comparison: gaps filled with the mean of the hour, or by an iterative imputer. Neither knows
# of spikes. Errors are those at the spoiled cells.
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, SimpleImputer

spoiled = spikes | gaps
repaired = {
    "RobustPCA": model.cleaned_,
    "mean of the hour": SimpleImputer().fit_transform(table),
    "IterativeImputer": IterativeImputer(random_state=0).fit_transform(table),
}
for name, found in repaired.items():
    error = np.abs(found - truth)
    print(f"{name:20} gaps {error[gaps].mean():5.2f}   spikes {error[spikes & ~gaps].mean():5.2f}")

# %%
# Every cell has an interval, calibrated on a hold-out set:
lower, upper = model.predict_interval(0.9)
inside = (lower <= truth) & (truth <= upper)
print(f"90 % intervals cover {inside[gaps].mean():.1%} of the gaps")
