"""
A year of temperatures, with spikes and gaps
============================================

Hourly temperatures of a year are a table with a row for each day. Mornings, afternoons and nights
of most days resemble each other, so that a few components explain it. We spoil the table as loggers
do, with gaps and spikes, and have it repaired.
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
# As it came, repaired, and what was wrong:
lm.plots.before_after(table, model.cleaned_, model.outliers_)

# %%
# What people do today: fill the gaps with the hour's mean, or with an iterative imputer, and hope
# that the spikes do no harm. The errors are those at the entries that were spoiled.
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
# Every cell has an interval, calibrated on cells that were kept aside:
lower, upper = model.predict_interval(0.9)
inside = (lower <= truth) & (truth <= upper)
print(f"90 % intervals cover {inside[gaps].mean():.1%} of the gaps")
