"""
Faces
=====

Ten pictures of each of twenty people (the ORL faces). A black square covers a tenth of every
picture, each time in another place. Ten components explain faces roughly. PCA of the uncovered
pictures is the best that any method with ten components can reach.
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
robust = RobustPCA(10).fit(table)


def plain(table):
    model = PCA(10, random_state=0).fit(table)
    return model.inverse_transform(model.transform(table)).reshape(pictures.shape)


cleaned = {
    "as it was": pictures,
    "covered": covered,
    "RobustPCA": robust.reconstruction_.reshape(pictures.shape),
    "PCA": plain(table),
    "PCA, not covered": plain(pictures.reshape(200, -1)),
}
hidden = covered != pictures
for name in ("RobustPCA", "PCA", "PCA, not covered"):
    error = np.abs(cleaned[name] - pictures)
    behind, elsewhere = error[hidden].mean(), error[~hidden].mean()
    print(f"{name:18} behind the squares {behind:.1f}   elsewhere {elsewhere:.1f}")

# %%
figure, axes = plt.subplots(5, 6, figsize=(9, 9.4), layout="constrained")
for row, (name, stack) in zip(axes, cleaned.items(), strict=True):
    for ax, picture in zip(row, stack[::33], strict=False):
        ax.imshow(picture, cmap="gray", vmin=0, vmax=255)
        ax.set(xticks=[], yticks=[])
    row[0].set_ylabel(name)
