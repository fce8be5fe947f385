"""Data frames in and out: names, index, other columns, pandas and polars."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from lemmax.estimators import RobustPCA


def measurements():
    """A frame with dates, names, whole numbers, yes and no, holes and one typing error."""
    rng = np.random.default_rng(0)
    numbers = 20 + rng.standard_normal((60, 2)) @ rng.standard_normal((2, 5))
    numbers += 0.1 * rng.standard_normal(numbers.shape)
    frame = pd.DataFrame(numbers, columns=["a", "b", "c", "d", "e"])
    frame["count"] = np.round(10 * numbers[:, 0]).astype(int)
    frame["cold"] = numbers[:, 1] < 20
    frame["when"] = pd.date_range("2024-01-01", periods=60)
    frame["station"] = [f"s{k % 4}" for k in range(60)]
    frame.loc[5, "b"], frame.loc[17, "d"] = np.nan, 200.0
    return frame.set_index(pd.Index([f"row {k}" for k in range(60)]))


def test_a_pandas_frame_is_cleaned_where_it_must_be():
    frame = measurements()
    before = frame.copy()
    with pytest.warns(
        UserWarning, match="Set aside, since they do not hold numbers: when, station"
    ):
        model = RobustPCA().fit(frame)
    pd.testing.assert_frame_equal(frame, before)
    assert list(model.feature_names_in_) == ["a", "b", "c", "d", "e", "count", "cold"]
    cleaned = model.cleaned_
    assert list(cleaned.columns) == list(frame.columns)
    pd.testing.assert_index_equal(cleaned.index, frame.index)
    changed = {("row 5", "b"), ("row 17", "d")}
    differs = (cleaned != frame).to_numpy()
    places = {(frame.index[i], frame.columns[j]) for i, j in zip(*np.nonzero(differs), strict=True)}
    assert places == changed
    assert cleaned.loc["row 17", "d"] == pytest.approx(20, abs=10)
    assert cleaned.dtypes["count"] == frame.dtypes["count"]
    outliers = model.outliers_
    assert list(outliers.columns) == ["row", "column", "was", "should be", "error"]
    assert outliers.iloc[0, :3].tolist() == ["row 17", "d", 200.0]
    assert list(model.standard_error_.columns) == list(model.feature_names_in_)
    lower, upper = model.predict_interval(0.9)
    assert lower.loc["row 5", "b"] < cleaned.loc["row 5", "b"] < upper.loc["row 5", "b"]


@pytest.mark.filterwarnings("ignore:Set aside")
def test_polars_gives_the_same():
    frame = measurements()
    other = pl.DataFrame({name: frame[name].to_list() for name in frame.columns})
    other = other.with_columns(pl.col("b").fill_nan(None))
    one, two = RobustPCA().fit(frame), RobustPCA().fit(other)
    assert isinstance(two.cleaned_, pl.DataFrame)
    assert two.cleaned_.columns == other.columns
    np.testing.assert_array_equal(two.cleaned_["d"].to_numpy(), one.cleaned_["d"].to_numpy())
    assert two.outliers_["row"].to_list() == [17]
    np.testing.assert_array_equal(two.transform(other), one.transform(frame))


@pytest.mark.filterwarnings("ignore:Set aside")
def test_new_rows_of_a_frame_keep_their_names():
    frame = measurements()
    model = RobustPCA().fit(frame)
    new = frame.tail(3).copy()
    new.loc["row 58", "c"] = np.nan
    filled, errors = model.impute(new, return_std=True)
    assert filled.loc["row 58", "c"] == pytest.approx(frame.loc["row 58", "c"], abs=1.0)
    assert errors.loc["row 58", "c"] > 0
    pd.testing.assert_series_equal(filled["station"], new["station"])
    shuffled = new[new.columns[::-1]]
    np.testing.assert_allclose(model.transform(shuffled), model.transform(new))
    scores = model.set_output(transform="pandas").transform(new)
    assert scores.columns[0] == "robustpca0"
    pd.testing.assert_index_equal(scores.index, new.index)
    with pytest.raises(ValueError, match="'a' are missing"):
        model.transform(new.drop(columns="a"))


def test_frames_that_cannot_be_fitted_get_a_sentence():
    with (
        pytest.raises(ValueError, match="no column of numbers"),
        pytest.warns(UserWarning, match="Set aside"),
    ):
        RobustPCA().fit(pd.DataFrame({"name": ["a", "b"]}))
    twice = pd.DataFrame(np.ones((4, 2)), columns=["a", "a"])
    with pytest.raises(ValueError, match="several columns of one name"):
        RobustPCA().fit(twice)
    levels = pd.DataFrame(np.ones((4, 2)), columns=pd.MultiIndex.from_tuples([("a", 1), ("a", 2)]))
    with pytest.raises(ValueError, match="several levels"):
        RobustPCA().fit(levels)
    empty = pd.DataFrame({"a": [1.0, 2.0, 4.0], "b": [np.nan] * 3})
    with pytest.raises(ValueError, match="Column b holds no values"):
        RobustPCA().fit(empty)
    with pytest.raises(ValueError, match="infinity"):
        RobustPCA().fit(pd.DataFrame({"a": [1.0, np.inf, 3.0], "b": [1.0, 2.0, 3.0]}))


@pytest.mark.filterwarnings("ignore:Set aside")
def test_a_loaded_model_says_that_frames_are_not_stored(tmp_path):
    frame = measurements()
    model = RobustPCA().fit(frame)
    model.save(tmp_path / "model.safetensors")
    loaded = RobustPCA.load(tmp_path / "model.safetensors")
    pd.testing.assert_frame_equal(loaded.impute(frame), model.impute(frame))
    with pytest.raises(ValueError, match="data frames are not stored"):
        loaded.predict_interval()


def test_numbers_in_columns_of_objects_are_numbers():
    frame = measurements()[["a", "b", "c", "d", "e"]].astype(object)
    frame.iloc[3, 0] = None
    model = RobustPCA().fit(frame)
    assert np.isfinite(float(model.cleaned_.iloc[3, 0]))


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_intervals_of_a_frame_are_frames(library):
    module = pytest.importorskip(library)
    rng = np.random.default_rng(0)
    table = rng.standard_normal((50, 2)) @ rng.standard_normal((2, 4))
    table += 0.1 * rng.standard_normal(table.shape)
    frame = module.DataFrame({name: table[:, k] for k, name in enumerate("abcd")})
    plain = RobustPCA().fit(table).predict_interval(0.8)
    for bound, expected in zip(RobustPCA().fit(frame).predict_interval(0.8), plain, strict=True):
        assert list(bound.columns) == list("abcd")
        np.testing.assert_allclose(bound.to_numpy(), expected)
