"""
Unmixing
========

What a field is made of. A hyperspectral image has a spectrum in every pixel: a mixture, with
nonnegative shares, of the spectra of what grows there. That is a nonnegative regression for each
of 21025 pixels, with one matrix for all. The scene is Indian Pines, with its published classes.
"""

# %%
import time

import matplotlib.pyplot as plt
import numpy as np
from data import indian_pines
from scipy.optimize import nnls

from lemmax.estimators import NonnegativeRegression

image, classes = indian_pines()
names = {1: "alfalfa", 2: "corn", 6: "trees and grass", 14: "woods", 16: "stone and steel"}
spectra = np.stack([image[classes == k].mean(axis=0) for k in names], axis=1)
pixels = image.reshape(-1, 200).T  # one column for each pixel

NonnegativeRegression().fit(spectra, pixels)  # the first call compiles
began = time.perf_counter()
model = NonnegativeRegression().fit(spectra, pixels)
ours = time.perf_counter() - began
began = time.perf_counter()
some = np.stack([nnls(spectra, pixel)[0] for pixel in pixels.T[:2000]])
theirs = (time.perf_counter() - began) * pixels.shape[1] / 2000
print(f"lemmax {ours:.2f} s, scipy in a loop {theirs:.2f} s")
print("largest difference:", np.abs(model.coef_[:2000] - some).max())

# %%
# Shares of the five spectra.
shares = model.coef_.T.reshape(-1, 145, 145)
figure, axes = plt.subplots(1, 5, figsize=(15, 3.6), layout="constrained")
for ax, share, name in zip(axes, shares, names.values(), strict=True):
    ax.imshow(share, cmap="viridis")
    ax.set(title=name, xticks=[], yticks=[])

# %%
# Twenty of the 200 bands fail, different ones in every pixel. Least squares spreads the failures
# over the shares; the robust loss ignores them.
rng = np.random.default_rng(0)
broken = pixels[:, ::50].copy()
broken[rng.integers(200, size=(20, broken.shape[1])), np.arange(broken.shape[1])] = 0
truth = model.coef_[::50]
for loss in ("squared", "robust"):
    found = NonnegativeRegression(loss).fit(spectra, broken).coef_
    print(f"{loss:8} median error of a share: {np.median(np.abs(found - truth)):.4f}")
