"""`MatrixCompletion.score`: cross-validation of lists of entries."""

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import KFold, cross_val_score

from lemmax.estimators import MatrixCompletion


@pytest.fixture
def ratings():
    """Positions of 500 ratings by name, and the ratings."""
    rng = np.random.default_rng(0)
    users, items = rng.standard_normal(40), rng.standard_normal(25)
    pairs = np.stack(np.unravel_index(rng.choice(1000, 500, replace=False), (40, 25)), axis=1)
    stars = 3 + users[pairs[:, 0]] + items[pairs[:, 1]] + 0.1 * rng.standard_normal(500)
    names = np.stack([np.char.add(s, n.astype(str)) for s, n in zip("ui", pairs.T, strict=True)])
    return names.T, stars


def test_lists_are_cross_validated(ratings):
    pairs, stars = ratings
    folds = KFold(3, shuffle=True, random_state=0)
    scores = cross_val_score(MatrixCompletion(), pairs, stars, cv=folds)
    for score, (train, test) in zip(scores, folds.split(pairs), strict=True):
        predicted = MatrixCompletion().fit(pairs[train], stars[train]).predict(pairs[test])
        assert score == pytest.approx(-np.mean(np.abs(predicted - stars[test])), rel=1e-12)
    # The effects explain all but noise of .1.
    assert np.all(scores > -0.13)


def test_one_name_is_no_sequence_of_names(ratings):
    model = MatrixCompletion().fit(*ratings)
    with pytest.raises(ValueError, match="sequence of names; got 'i3'"):
        model.recommend("u1", 3, exclude="i3")
    assert "i3" not in model.recommend("u1", 25, exclude=["i3"], include_known=True)[0]


def test_lists_are_scored_in_every_form(ratings):
    pairs, stars = ratings
    frame = pd.DataFrame({"who": pairs[:, 0], "what": pairs[:, 1], "stars": stars})
    model = MatrixCompletion(columns=("who", "what", "stars")).fit(frame[:400])
    scores = [
        model.score(frame[400:]),
        model.score(pairs[400:], stars[400:]),
        model.score((*pairs[400:].T, stars[400:])),
        model.score(frame[["who", "what"]][400:], stars[400:]),
    ]
    assert np.allclose(scores, scores[0], rtol=1e-12)
    expected = np.abs(model.predict(pairs[400:]) - stars[400:])
    assert scores[0] == pytest.approx(-np.mean(expected), rel=1e-12)
