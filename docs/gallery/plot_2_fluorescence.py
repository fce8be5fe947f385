"""
Fluorescence
============

A tensor with real outliers and real gaps. The fluorescence of 64 samples was measured over time,
for pairs of excitation and emission wavelengths (Nikolajsen and others, 2003): a tensor of four
modes, of which 0.4 % could not be measured. Five samples are documented as outliers. lemmax is
not told which.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from data import kinetic_fluorescence

import lemmax as lm
from lemmax.estimators import CPDecomposition

tensor = kinetic_fluorescence()
print(tensor.shape, f"{np.isnan(tensor).mean():.2%} missing")

model = CPDecomposition(rank=4, n_init=3).fit(tensor)
print(model.summary())
print("agreement of the factors of three starts:", model.stability_.round(3))

# %%
# The factors: samples, and the spectra and courses in time of what is in them.
lm.plots.factors(model.factors_, ["sample", "emission", "excitation", "time"])

# %%
# How well each sample is explained: its mean residual, and the same relative to its strength. All
# residuals are at the noise level, those of the documented five as well. Relative to the strength
# they are among the twenty largest of 64, but so is every weak sample. The same four components
# explain the documented outliers: a wrong concentration, for example, fits perfectly.
documented = [34, 35, 44, 45, 63]
strength = np.nanmean(np.abs(tensor), axis=(1, 2, 3))


def mean_residuals(explained):
    """Of every sample; and the places of the documented ones among them."""
    residuals = np.nanmean(np.abs(tensor - explained), axis=(1, 2, 3))
    for name, sizes in (("mean", residuals), ("relative", residuals / strength)):
        places = 1 + np.argsort(np.argsort(-sizes))
        print(f"places of the documented ones by {name} residual:", places[documented].tolist())
    return residuals


residuals = mean_residuals(model.reconstruct())
figure, axes = plt.subplots(2, 1, figsize=(8, 4.5), layout="constrained", sharex=True)
colours = np.where(np.isin(np.arange(64), documented), "C3", "C0")
axes[0].bar(np.arange(64), residuals, color=colours)
axes[0].set(ylabel="mean residual", title="red: documented as outliers")
axes[1].bar(np.arange(64), residuals / strength, color=colours)
axes[1].set(xlabel="sample", ylabel="relative to strength")

# %%
# The same with alternating least squares, which fills the gaps and squares the residuals:
from tensorly.cp_tensor import cp_to_tensor
from tensorly.decomposition import parafac

seen = ~np.isnan(tensor)
found = parafac(np.where(seen, tensor, 0), 4, mask=seen, n_iter_max=200, random_state=0)
residuals = mean_residuals(cp_to_tensor(found))
