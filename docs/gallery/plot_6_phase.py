"""
Phase retrieval
===============

A picture from intensities. A sensor that measures intensities loses the sign. A picture of 24 x
24 pixels is recovered from the squares of random projections, a tenth of which are outliers.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from data import camera

from lemmax.estimators import PhaseRetrieval

picture = camera()[60:252:8, 150:342:8]
picture = picture - picture.mean()
rng = np.random.default_rng(0)
X = rng.standard_normal((8 * picture.size, picture.size))
intensities = (X @ picture.ravel()) ** 2
wrong = rng.random(len(intensities)) < 0.1
intensities[wrong] = 5 * intensities.mean() * rng.random(wrong.sum())

model = PhaseRetrieval().fit(X, intensities)
print(model.recovery_.summary())
sign = np.sign(model.coef_ @ picture.ravel())
error = np.linalg.norm(sign * model.coef_ - picture.ravel()) / np.linalg.norm(picture)
print(f"relative error {error:.1e}; {len(model.outliers_)} of {wrong.sum()} outliers found")

# %%
# For comparison: gradient descent on squares (Wirtinger flow), from a spectral start without the
# largest intensities. Its loss squares the outliers, too.
size = np.median(intensities) / 0.455  # of the picture, squared: chi-square has this median
trusted = np.where(intensities < 9 * size, intensities, 0)
direction = np.linalg.eigh(X.T @ (trusted[:, None] * X))[1][:, -1]
estimate = direction * np.sqrt(size)
step = 0.05 / size
for _ in range(500):
    product = X @ estimate
    estimate -= step * X.T @ ((product**2 - intensities) * product) / len(X)
sign = np.sign(estimate @ picture.ravel())
error = np.linalg.norm(sign * estimate - picture.ravel()) / np.linalg.norm(picture)
print(f"Wirtinger flow: relative error {error:.1e}")

figure, axes = plt.subplots(1, 3, figsize=(9, 3.6), layout="constrained")
shown = {"picture": picture.ravel(), "PhaseRetrieval": model.coef_, "Wirtinger flow": estimate}
for ax, (name, values) in zip(axes, shown.items(), strict=True):
    ax.imshow((np.sign(values @ picture.ravel()) * values).reshape(picture.shape), cmap="gray")
    ax.set(title=name, xticks=[], yticks=[])
