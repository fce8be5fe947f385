"""
Ratings
=======

What a low rank can predict, and what it cannot. MovieLens 100k has 100,000 ratings of 1682 films
by 943 people: 6 % of the table is known, and people are not consistent. The number of components
and the amount of shrinkage are chosen on a hold-out set of ratings.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from data import movielens

from lemmax.estimators import MatrixCompletion

users, items, ratings = movielens()
rng = np.random.default_rng(0)
test = rng.random(len(ratings)) < 0.1
shape = (users.max() + 1, items.max() + 1)
known = users[~test], items[~test], ratings[~test]

model = MatrixCompletion(shape=shape).fit(known)
print(model.summary())

# %%
# Films for one person, without those that the person has rated:
films, stars = model.recommend(7, 5)
for film, value in zip(films, stars, strict=True):
    print(f"film {film:4}: {value:.1f} stars")

# %%
# For comparison: the mean, and the shrunk means of people and films, which are hard to beat.
mean, of_user, of_item = known[2].mean(), np.zeros(shape[0]), np.zeros(shape[1])
for _ in range(10):
    for own, at, other, there in ((of_user, 0, of_item, 1), (of_item, 1, of_user, 0)):
        rest = known[2] - mean - other[known[there]]
        sums = np.bincount(known[at], rest, len(own))
        own[:] = sums / (np.bincount(known[at], minlength=len(own)) + 5)
guesses = {
    "mean of all ratings": np.full(test.sum(), mean),
    "means of people and films": mean + of_user[users[test]] + of_item[items[test]],
    "MatrixCompletion": model.predict((users[test], items[test])),
}
errors = {name: np.sqrt(np.mean((g - ratings[test]) ** 2)) for name, g in guesses.items()}
for name, error in errors.items():
    print(f"{name:30} {error:.3f}")

figure, ax = plt.subplots(figsize=(8, 2.4), layout="constrained")
ax.bar_label(ax.barh(list(errors), list(errors.values()), height=0.6), fmt="%.3f", padding=3)
ax.invert_yaxis()
ax.set(xlabel="root mean square error on the test set, in stars", xlim=(0, 1.3))
