"""
Faces behind masks
==================

Ten pictures of each of twenty people (the ORL faces), a tenth of which are covered by a black
square. Pictures of faces are nearly of low rank; squares in changing places are not.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from data import faces
from sklearn.decomposition import PCA

from lemmax.estimators import RobustPCA

pictures = faces(people=20)[:, :, ::2, ::2].reshape(200, 56, 46)
rng = np.random.default_rng(0)
covered = pictures.copy()
for picture in covered:
    top, left = rng.integers(0, 56 - 16), rng.integers(0, 46 - 14)
    picture[top : top + 16, left : left + 14] = 0

table = covered.reshape(200, -1)
robust = RobustPCA(rank=30).fit(table)
plain = PCA(30, random_state=0).fit(table)
cleaned = {
    "as it was": pictures,
    "covered": covered,
    "RobustPCA": robust.low_rank_.reshape(pictures.shape),
    "PCA": plain.inverse_transform(plain.transform(table)).reshape(pictures.shape),
}
hidden = covered != pictures
for name in ("RobustPCA", "PCA"):
    error = np.abs(cleaned[name] - pictures)
    behind, elsewhere = error[hidden].mean(), error[~hidden].mean()
    print(f"{name:10} behind the squares {behind:.1f}   elsewhere {elsewhere:.1f}")

# %%
figure, axes = plt.subplots(4, 6, figsize=(9, 7.5), layout="constrained")
for row, (name, stack) in zip(axes, cleaned.items(), strict=True):
    for ax, picture in zip(row, stack[::33], strict=False):
        ax.imshow(picture, cmap="gray", vmin=0, vmax=255)
        ax.set(xticks=[], yticks=[])
    row[0].set_ylabel(name)
