"""
Fluorescence: a tensor with real outliers and real gaps
=======================================================

Fluorescence of 64 samples was measured over time, for pairs of excitation and emission wavelengths
(Nikolajsen and others, 2003): a tensor of four modes, of which 0.4 % could not be measured. Five
samples are documented as outliers. We do not tell lemmax which.
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
print(model.recovery_.summary())
print("agreement of the factors of three starts:", model.stability_.round(3))

# %%
# The factors: samples, and the spectra and courses in time of what is in them.
lm.plots.factors(model.factors_, ["sample", "emission", "excitation", "time"])

# %%
# How well each sample is explained, relative to its strength. The five are among the twenty worst
# of the 64, but not the five worst: those are weak samples, whose noise weighs more. What is wrong
# with a sample need not be that it does not fit: a mixture of wrong concentrations fits perfectly.
difference = np.abs(tensor - model.reconstruct())
share = np.nanmean(difference, axis=(1, 2, 3)) / np.nanmean(np.abs(tensor), axis=(1, 2, 3))
documented = [34, 35, 44, 45, 63]
figure, ax = plt.subplots(figsize=(8, 3), layout="constrained")
colours = np.where(np.isin(np.arange(64), documented), "C3", "C0")
ax.bar(np.arange(64), share, color=colours)
ax.set(xlabel="sample", ylabel="relative residual", title="red: documented as outliers")
place = np.argsort(np.argsort(-share))
print("places of the documented ones:", (1 + place[documented]).tolist())

# %%
# The same with alternating least squares, which fills the gaps and squares the residuals:
from tensorly.cp_tensor import cp_to_tensor
from tensorly.decomposition import parafac

seen = ~np.isnan(tensor)
found = parafac(np.where(seen, tensor, 0), 4, mask=seen, n_iter_max=200, random_state=0)
difference = np.abs(tensor - cp_to_tensor(found))
share = np.nanmean(difference, axis=(1, 2, 3)) / np.nanmean(np.abs(tensor), axis=(1, 2, 3))
place = np.argsort(np.argsort(-share))
print("places of the documented ones with parafac:", (1 + place[documented]).tolist())
