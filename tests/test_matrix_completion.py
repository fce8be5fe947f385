"""Matrices from some of their entries: every kind of input, names, ratings, unseen rows."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from lemmax.estimators import MatrixCompletion


def ratings(seed=0, users=80, films=50, seen=0.4):
    """Stars from 1 to 5 with levels of users and films, and one thing they have in common."""
    rng = np.random.default_rng(seed)
    truth = 3 + 0.7 * rng.standard_normal((users, 1)) + 0.5 * rng.standard_normal(films)
    truth += np.outer(rng.standard_normal(users), rng.standard_normal(films))
    rows, columns = np.nonzero(rng.random(truth.shape) < seen)
    stars = np.clip(np.round(truth[rows, columns]), 1, 5)
    return truth, rows, columns, stars


def test_all_kinds_of_input_give_one_answer():
    rng = np.random.default_rng(5)
    truth = rng.standard_normal((50, 2)) @ rng.standard_normal((2, 40))
    seen = rng.random(truth.shape) < 0.4
    rows, columns = np.nonzero(seen)
    kinds = [
        np.where(seen, truth, np.nan),
        sparse.csr_array((truth[seen], (rows, columns)), shape=truth.shape),
        (rows, columns, truth[seen]),
        np.c_[rows, columns],
        pd.DataFrame({"row": rows, "column": columns, "value": truth[seen]}),
        pl.DataFrame({"row": rows, "column": columns, "value": truth[seen]}),
    ]
    for number, kind in enumerate(kinds):
        values = truth[seen] if number == 3 else None
        model = MatrixCompletion().fit(kind, values)
        assert (model.status_, model.n_components_) == ("EXACT", 2)
        np.testing.assert_allclose(model.complete(), truth, atol=1e-8)
        np.testing.assert_allclose(model.predict((rows[:5], columns[:5])), truth[seen][:5])


def test_rows_and_columns_may_have_names():
    truth, rows, columns, stars = ratings()
    plain = MatrixCompletion().fit((rows, columns, stars))
    users = np.array([f"user {k:03}" for k in range(80)])[rows]
    films = np.array([(f"film {k:02}", 1900 + k) for k in range(50)], dtype=object)
    names = np.empty(50, object)
    names[:] = [tuple(each) for each in films]
    frame = pd.DataFrame({"user": users, "film": pd.Series(list(names[columns])), "stars": stars})
    model = MatrixCompletion().fit(frame)
    np.testing.assert_allclose(
        model.predict(frame[["user", "film"]]), plain.predict((rows, columns)), rtol=1e-8
    )
    best, values = model.recommend("user 007", 3)
    assert len(best) == 3
    everything, _ = model.recommend("user 007", 60, include_known=True)
    assert set(everything) == set(frame.film)
    rated = set(frame.film[users == "user 007"])
    assert best.tolist() == [film for film in everything if film not in rated][:3]
    assert model.recommend("user 007", 1, exclude=[best[0]])[0][0] == best[1]
    assert np.all(np.diff(values) <= 0)
    assert not set(best) & set(frame.film[users == "user 007"])
    assert np.all((values >= 1) & (values <= 5))
    assert model.range_ == (1.0, 5.0)
    assert np.std(truth - plain.complete()) < 0.6 * np.std(truth)


def test_a_table_with_names_is_asked_by_them():
    rng = np.random.default_rng(3)
    truth = rng.standard_normal((40, 2)) @ rng.standard_normal((2, 10))
    names = [f"r{k}" for k in range(39, -1, -1)]
    frame = pd.DataFrame(truth, index=names, columns=list("jihgfedcba"))
    known = frame.mask(rng.random(truth.shape) < 0.2)
    model = MatrixCompletion().fit(known)
    asked = [("r7", "c"), ("r30", "j"), ("nobody", "c"), ("r7", "z")]
    sentence = "'nobody' is known; the column mean .* 'z' is known; without effects"
    with pytest.warns(UserWarning, match=sentence) as told:
        values, errors = model.predict(asked, return_std=True)
    assert len(told) == 1
    assert told[0].filename == __file__
    assert np.isnan(values[3])
    assert np.isinf(errors[3])
    np.testing.assert_allclose(values[:2], [frame.loc["r7", "c"], frame.loc["r30", "j"]])
    assert errors[2] > 0.1
    assert model.recommend("r7", 1, include_known=True)[0][0] == frame.loc["r7"].idxmax()
    hidden = known.columns[known.loc["r7"].isna()]
    assert set(model.recommend("r7", 10)[0]) == set(hidden)


def test_names_of_several_kinds_stay_what_they_are():
    _, rows, columns, stars = ratings(6)
    model = MatrixCompletion().fit((rows, columns, stars))
    plain = model.predict([[1, 3]])
    with pytest.warns(UserWarning, match=r"no entry of row or column of \('1', '3'\) is known"):
        values = model.predict([("1", "3"), (1, 3), (1.0, 3.0)])
    np.testing.assert_array_equal(values[1:], [*plain] * 2)


def test_errors_of_ratings_are_told_in_stars():
    _, rows, columns, stars = ratings(1)
    one, ten = (MatrixCompletion().fit((rows, columns, each)) for each in (stars, 10 * stars))
    assert "in the units of the values" in one.summary()
    np.testing.assert_allclose(
        [ten.report_.error, ten.report_.median_error],
        [10 * one.report_.error, 10 * one.report_.median_error],
        rtol=1e-6,
    )
    # Most ratings are one of the nearest two.
    assert 0.1 < one.report_.error < one.report_.median_error < 3


def test_unseen_names_have_effects_and_larger_errors():
    _, rows, columns, stars = ratings(1)
    model = MatrixCompletion().fit((rows, columns, stars))
    places = [[3, 7], [999, 7], [3, 999], [999, 999]]
    with pytest.warns(UserWarning, match="column effect .* row effect .* overall level"):
        values, errors = model.predict(places, return_std=True)
    assert np.all(np.isfinite(values))
    assert errors[0] < min(errors[1:])
    assert values[3] == pytest.approx(np.mean(stars), abs=0.3)
    with pytest.warns(UserWarning, match="no entry of 999 is known"):
        lower, upper = model.predict_interval(places, 0.9)
    assert np.all(lower < values)
    assert np.all(values < upper)
    assert model.range_[0] <= lower.min() < upper.max() <= model.range_[1]
    with pytest.warns(UserWarning, match="no entry of 100, 101, 102, 103, 104 and 7 more is known"):
        model.predict([[k, 3] for k in range(100, 112)])
    with pytest.warns(UserWarning, match="no entry of 'me' is known"):
        best, _ = model.recommend("me", 2)
    # Of somebody who is not known, the items that all like best.
    order = np.argsort(-model.column_effects_)
    np.testing.assert_array_equal(best, model.column_ids_[order[:2]])


def test_predictions_stay_in_the_range_that_was_seen_if_they_shall():
    _, rows, columns, stars = ratings(2)
    inside = MatrixCompletion().fit((rows, columns, stars))
    free = MatrixCompletion(clip=False).fit((rows, columns, stars))
    places = tuple(np.indices((80, 50)).reshape(2, -1))
    assert np.max(free.predict(places)) > 5
    np.testing.assert_array_equal(np.clip(free.predict(places), 1, 5), inside.predict(places))


def test_intervals_cover_ratings_that_were_not_seen():
    truth, rows, columns, stars = ratings(3, users=200, films=100)
    hidden = np.random.default_rng(0).random(len(rows)) < 0.1
    model = MatrixCompletion().fit((rows[~hidden], columns[~hidden], stars[~hidden]))
    lower, upper = model.predict_interval((rows[hidden], columns[hidden]), 0.9)
    inside = (lower <= stars[hidden]) & (stars[hidden] <= upper)
    assert np.mean(inside) == pytest.approx(0.9, abs=0.04)
    assert truth.shape == (200, 100)


def test_wrong_entries_of_a_list_are_found_and_named():
    rng = np.random.default_rng(4)
    truth = rng.standard_normal((100, 2)) @ rng.standard_normal((2, 60))
    rows, columns = np.nonzero(rng.random(truth.shape) < 0.5)
    values = truth[rows, columns] + 0.1 * rng.standard_normal(len(rows))
    wrong = rng.random(len(values)) < 0.05
    values[wrong] += 20.0
    frame = pd.DataFrame({"row": rows, "column": columns, "value": values})
    model = MatrixCompletion().fit(frame)
    found = model.outliers_
    assert list(found.columns) == ["row", "column", "was", "should be", "error"]
    assert set(zip(found.row, found.column, strict=True)) == set(
        zip(rows[wrong], columns[wrong], strict=True)
    )
    np.testing.assert_allclose(found["was"] - found["should be"], 20.0, atol=1.0)


def test_effects_alone_are_found():
    rng = np.random.default_rng(7)
    truth = 3 + rng.standard_normal(60)[:, None] + rng.standard_normal(50)
    table = np.where(rng.random(truth.shape) < 0.3, truth, np.nan)
    model = MatrixCompletion(effects=True).fit(table)
    np.testing.assert_allclose(model.complete(), truth, atol=1e-8)


def test_weights_of_zero_are_missing():
    _, rows, columns, stars = ratings(5)
    weights = np.ones(len(stars))
    weights[::7] = 0
    spoiled = np.where(weights > 0, stars, 1e6)
    model = MatrixCompletion(shape=(80, 50)).fit((rows, columns, spoiled), weights=weights)
    kept = weights > 0
    other = MatrixCompletion(shape=(80, 50)).fit((rows[kept], columns[kept], stars[kept]))
    np.testing.assert_array_equal(model.complete(), other.complete())


def test_noise_is_told_from_structure():
    rng = np.random.default_rng(6)
    rows, columns = np.nonzero(rng.random((60, 40)) < 0.5)
    with pytest.warns(ConvergenceWarning, match="better than one number"):
        model = MatrixCompletion().fit((rows, columns, rng.standard_normal(len(rows))))
    assert model.status_ == "NOT_IDENTIFIABLE"


def named_ratings(seed=8):
    _, rows, columns, stars = ratings(seed)
    users = np.array([f"u{k}" for k in range(80)])[rows]
    films = np.array([f"f{k}" for k in range(50)])[columns]
    return users, films, stars


@pytest.mark.parametrize("library", [pd, pl])
@pytest.mark.parametrize(
    ("names", "columns"),
    [
        (["userId", "movieId", "rating", "timestamp"], None),
        (["stars", "item_id", "User", "when"], None),
        (["who", "what", "how much"], None),
        (["how much", "what", "who", "when"], ("who", "what", "how much")),
    ],
)
def test_lists_in_frames_of_any_order_are_found(library, names, columns):
    users, films, stars = named_ratings()
    plain = MatrixCompletion().fit((users, films, stars))
    of_role = {"u": users, "w": users, "m": films, "i": films, "r": stars, "s": stars}
    of_role |= {"who": users, "what": films, "how much": stars, "when": np.arange(len(stars))}
    of_role |= {"timestamp": np.arange(len(stars))}
    frame = library.DataFrame(
        {name: of_role.get(name, of_role.get(name[0].lower())) for name in names}
    )
    model = MatrixCompletion(columns=columns).fit(frame)
    np.testing.assert_array_equal(model.complete(), plain.complete())
    # Also with the other columns still there.
    np.testing.assert_array_equal(model.predict(frame), plain.predict((users, films)))


def test_arrays_are_tables_unless_they_are_said_to_be_lists():
    users, films, stars = named_ratings()
    plain = MatrixCompletion().fit((users, films, stars))
    array = np.array([stars, users, films], dtype=object).T
    for given in (array, array.tolist()):
        model = MatrixCompletion(columns=(1, 2, 0)).fit(given)
        np.testing.assert_array_equal(model.complete(), plain.complete())
        with pytest.raises(ValueError, match=r"text, 'u0' at \[0, 1\].* list of entries, name"):
            MatrixCompletion().fit(given)
    with pytest.raises(ValueError, match="The array has no column 3; it has: 0, 1, 2"):
        MatrixCompletion(columns=(1, 2, 3)).fit(array)
    whole = np.c_[np.arange(30) % 7, np.arange(30) % 11, np.arange(30) % 5]
    with pytest.warns(ConvergenceWarning):
        assert MatrixCompletion().fit(whole).n_features_in_ == 3


def test_ids_of_every_kind_are_ids():
    _, rows, columns, stars = ratings()
    plain = MatrixCompletion().fit((rows, columns, stars)).complete()
    frame = pd.DataFrame({"a": rows, "b": columns, "c": stars})
    kinds = [
        frame.astype({"a": "Int64", "b": "category"}),
        frame.assign(a=pd.Timestamp("2020-01-01") + pd.to_timedelta(rows, unit="D")),
        pl.DataFrame({"a": rows.astype(np.uint8), "b": columns, "c": stars}).lazy(),
    ]
    for kind in kinds:
        np.testing.assert_array_equal(MatrixCompletion().fit(kind).complete(), plain)


def test_short_lists_are_lists_and_tables_are_tables():
    entries = pd.DataFrame({"a": ["x", "y", "x"], "b": [1, 2, 3], "c": [1.0, 2.0, 3.0]})
    with pytest.warns(ConvergenceWarning):
        model = MatrixCompletion().fit(entries)
    assert model.entry_columns_ == ("a", "b", "c")
    assert (len(model.row_ids_), len(model.column_ids_)) == (2, 3)
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.standard_normal((30, 1)) @ rng.standard_normal((1, 3)))
    model = MatrixCompletion().fit(table)
    assert model.entry_columns_ is None
    assert model.n_features_in_ == 3


@pytest.mark.filterwarnings("ignore:Columns left out")
def test_frames_that_are_no_table_are_told_how_to_be_a_list():
    users, films, stars = named_ratings()
    frame = pd.DataFrame({"who": users, "what": films, "how much": stars, "when": 1.0})
    with pytest.raises(
        ValueError, match=r"but 'who', 'what' contain none.*columns=\('user', 'item'"
    ):
        MatrixCompletion().fit(frame)
    with pytest.raises(ValueError, match="columns must name three columns"):
        MatrixCompletion(columns="who").fit(frame)
    with pytest.raises(ValueError, match="has no column 'nobody'; it has: 'who', 'what'"):
        MatrixCompletion(columns=("nobody", "what", "when")).fit(frame)
    with pytest.raises(ValueError, match="must be numbers: 'what' are not"):
        MatrixCompletion(columns=("who", "when", "what")).fit(frame)
    model = MatrixCompletion(columns=("who", "what", "how much")).fit(frame)
    with pytest.raises(ValueError, match="'who' and 'what'; got 'a', 'b', 'c'"):
        model.predict(pd.DataFrame({"a": [1], "b": [2], "c": [3]}))


def test_values_of_a_list_that_are_no_numbers_are_left_out():
    users, films, stars = named_ratings()
    frame = pd.DataFrame({"user": users, "item": films, "rating": stars.astype(str)})
    frame.loc[5, "rating"] = "great"
    with pytest.warns(UserWarning, match="not numbers: 'great' in column 'rating', row 5"):
        model = MatrixCompletion().fit(frame)
    kept = np.arange(len(stars)) != 5
    plain = MatrixCompletion().fit((users[kept], films[kept], stars[kept]))
    np.testing.assert_array_equal(model.predict(frame), plain.predict((users, films)))


def test_a_table_with_a_column_of_names_is_completed_beside_them():
    rng = np.random.default_rng(9)
    truth = rng.standard_normal((40, 2)) @ rng.standard_normal((2, 8))
    frame = pd.DataFrame(truth, columns=list("abcdefgh")).mask(rng.random(truth.shape) < 0.2)
    frame.insert(0, "town", [f"t{k}" for k in range(40)])
    with pytest.warns(UserWarning, match="are not numeric: town"):
        model = MatrixCompletion().fit(frame)
    np.testing.assert_allclose(model.transform(frame), truth, atol=1e-8)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (([0, 1], [0, 1]), "three arrays of equal length"),
        (([0, 1], [0, 1], ["a", "b"]), "must be numbers"),
        (([0, 1], [0, 1], [1.0, np.inf]), "There is infinity at .1., counted from 0"),
        (([0.0, np.nan], [0, 1], [1.0, 2.0]), "have no name"),
        ((np.array(["a", None], object), [0, 1], [1.0, 2.0]), "have no name .* in entry 1"),
        (([0, 1], [0, 1], [np.nan, np.nan]), "All entries are missing"),
    ],
)
def test_bad_lists_get_a_sentence(given, sentence):
    with pytest.raises(ValueError, match=sentence):
        MatrixCompletion().fit(tuple(np.asarray(part) for part in given))


def test_one_column_cannot_be_rows_and_columns_of_a_list():
    frame = pd.DataFrame({"user": [0, 1], "item": [0, 1], "rating": [1.0, 2.0]})
    with pytest.raises(ValueError, match="columns must name three columns"):
        MatrixCompletion(columns=("user", "user", "rating")).fit(frame)


def test_numbers_beyond_the_shape_are_refused():
    with pytest.raises(ValueError, match="There are 3 rows, numbered from 0"):
        MatrixCompletion(shape=(3, 3)).fit((np.array([0, 5]), np.array([0, 1]), np.ones(2)))


def test_places_that_occur_several_times_count_once():
    """As if their means had been given; copies would be predicted by each other."""
    rng = np.random.default_rng(5)
    rows, columns = (each.ravel() for each in np.indices((30, 8)))
    values = rng.standard_normal(30)[rows] + 0.3 * rng.standard_normal(240)
    twice = rng.choice(240, 50, replace=False)
    shift = rng.standard_normal(50)
    again = values.copy()
    again[twice] += shift
    listed = (np.append(rows, rows[twice]), np.append(columns, columns[twice]))
    with pytest.warns(UserWarning, match="50 places occur several times"):
        found = MatrixCompletion().fit((*listed, np.append(again, values[twice] - shift)))
    once = MatrixCompletion().fit((rows, columns, values))
    np.testing.assert_allclose(found.complete(), once.complete(), atol=1e-9)
    assert found.report_.known == 240


@pytest.mark.parametrize("count", [1, 2])
def test_a_few_entries_prove_nothing(count):
    ids = np.arange(count)
    with pytest.warns(ConvergenceWarning):
        model = MatrixCompletion().fit((ids, ids, 1.0 + ids))
    assert model.report_.status.name == "NOT_IDENTIFIABLE"


def test_intervals_of_a_well_filled_list_of_ratings_cover():
    """A list with a third of all pairs has one noise and as many components as a sparse one."""
    inside, ranks = [], []
    for seed in range(15):
        rng = np.random.default_rng([seed, 16])
        truth = 3.4 + 0.5 * rng.standard_normal((150, 1)) + 0.5 * rng.standard_normal(60)
        truth += 0.6 * rng.standard_normal((150, 2)) @ rng.standard_normal((2, 60))
        stars = np.clip(np.round(truth + 0.1 * rng.standard_normal(truth.shape)), 1, 5)
        users, films = np.nonzero(rng.random(truth.shape) < 0.3)
        hidden = rng.random(len(users)) < 0.1
        seen = users[~hidden], films[~hidden]
        model = MatrixCompletion().fit((*seen, stars[seen]))
        asked = users[hidden], films[hidden]
        guess, error = model.predict(np.column_stack(asked), return_std=True)
        inside.append(np.abs(guess - stars[asked]) <= 1.645 * error)
        ranks.append(model.report_.components)
    assert 0.88 < np.mean(np.concatenate(inside)) < 0.925
    assert np.mean(ranks) < 3


def test_one_rating_that_differs_from_all_others_is_found_without_warnings():
    rng = np.random.default_rng(0)
    users, items = np.nonzero(rng.random((60, 30)) < 0.3)
    stars = np.full(len(users), 4.0)
    stars[5] = 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("ignore", UserWarning)
        model = MatrixCompletion().fit((users, items, stars))
    assert model.report_.wrong == 1
    assert not model.report_.status.succeeded
