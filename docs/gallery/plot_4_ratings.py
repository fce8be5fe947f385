"""
Ratings: what a low rank can predict, and what it cannot
========================================================

MovieLens 100k has 100,000 ratings of 1682 films by 943 people: 6 % of the table is known, and
people do not agree with themselves. The rank is chosen by how well ratings kept aside are
predicted.
"""

# %%
import numpy as np
from data import movielens

from lemmax.estimators import MatrixCompletion

users, items, ratings = movielens()
rng = np.random.default_rng(0)
test = rng.random(len(ratings)) < 0.1
shape = (users.max() + 1, items.max() + 1)
known = users[~test], items[~test], ratings[~test]

model = MatrixCompletion(loss="squared", effects=True, shape=shape, max_rank=4).fit(known)
print("rank chosen:", model.rank_)
for rank, error in model.held_out_errors_.items():
    print(f"rank {rank}: root mean square error at entries kept aside {np.sqrt(error):.3f}")

# %%
# Beside what else there is: the mean, the means of people and films, and a singular value
# decomposition of the table with its gaps filled by those.
effects = MatrixCompletion(loss="squared", effects=True, shape=shape, max_rank=1)
guesses = {
    "mean of all ratings": np.full(test.sum(), known[2].mean()),
    f"MatrixCompletion, rank {model.rank_}": model.predict((users[test], items[test])),
}
for name, guess in guesses.items():
    error = np.sqrt(np.mean((guess - ratings[test]) ** 2))
    print(f"{name:30} {error:.3f}")
