"""Data frames in and out: names, index, other columns, pandas and polars."""

import decimal
import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

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
        UserWarning, match="Columns left out because they are not numeric: when, station"
    ) as told:
        model = RobustPCA().fit(frame)
    assert told[0].filename == __file__
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


@pytest.mark.filterwarnings("ignore:Columns left out")
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


@pytest.mark.filterwarnings("ignore:Columns left out")
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


def test_types_of_filled_rows_do_not_depend_on_their_holes():
    rng = np.random.default_rng(3)
    whole = np.round(100 * rng.standard_normal((60, 1)) + 10 * rng.standard_normal((60, 4)))
    frame = pd.DataFrame(whole.astype(int), columns=list("abcd"))
    model = RobustPCA().fit(frame)
    holed = frame.head(5).astype(float)
    holed.loc[2, "b"] = np.nan
    for given in (frame.head(5), holed, pl.from_pandas(frame.head(5))):
        assert {str(kind).lower() for kind in list(model.impute(given).dtypes)} == {"float64"}


def test_frames_that_cannot_be_fitted_get_a_sentence():
    with (
        pytest.raises(ValueError, match="no numeric column"),
        pytest.warns(UserWarning, match="Columns left out"),
    ):
        RobustPCA().fit(pd.DataFrame({"name": ["a", "b"]}))
    twice = pd.DataFrame(np.ones((4, 2)), columns=["a", "a"])
    with pytest.raises(ValueError, match="are called 'a'"):
        RobustPCA().fit(twice)
    levels = pd.DataFrame(np.ones((4, 2)), columns=pd.MultiIndex.from_tuples([("a", 1), ("a", 2)]))
    with pytest.raises(ValueError, match="several levels"):
        RobustPCA().fit(levels)
    numbers = np.array([[1.0, np.nan], [2.0, np.nan], [4.0, np.nan]])
    with pytest.raises(ValueError, match="Column 1 holds no values"):
        RobustPCA().fit(numbers)
    with pytest.raises(ValueError, match="infinity"):
        RobustPCA().fit(pd.DataFrame({"a": [1.0, np.inf, 3.0], "b": [1.0, 2.0, 3.0]}))
    with pytest.raises(ValueError, match=r"infinity at \[0, 1\], counted from 0"):
        RobustPCA().fit([[1.0, np.inf], [2.0, 3.0], [3.0, 4.0]])


@pytest.mark.filterwarnings("ignore:Columns left out")
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
def test_cells_that_are_no_numbers_are_holes(library):
    frame = measurements()[["a", "b", "c", "d", "e"]].reset_index(drop=True)
    texts = frame.copy()
    texts["a"] = [f"{1000 * value:,.2f}" for value in frame["a"]]
    texts["c"] = [str(value) for value in frame["c"]]
    texts.loc[7, "c"], texts.loc[8, "c"] = "12,a", "n/a"
    texts["name"] = [f"x{k}" for k in range(60)]
    texts["empty"] = np.nan
    given = texts
    if library == "polars":
        given = pl.DataFrame({name: texts[name].to_list() for name in texts.columns})
        given = given.with_columns(pl.col("empty").fill_nan(None))
    with pytest.warns(UserWarning, match="numbers") as told:
        model = RobustPCA().fit(given)
    (warning,) = told
    assert str(warning.message) == (
        "Columns left out because they are not numeric: name. "
        "Columns left out because they have no values: empty. "
        "Columns of text read as numbers: a, c. "
        "Cells that are not numbers, treated as missing: '12,a' in column 'c', row 7."
    )
    holed = frame.assign(a=np.round(1000 * frame["a"], 2))
    holed.loc[[7, 8], "c"] = np.nan
    expected = RobustPCA().fit(holed)
    np.testing.assert_array_equal(
        model.cleaned_["c"].to_numpy().astype(float), expected.cleaned_["c"]
    )
    assert list(model.cleaned_.columns) == list(texts.columns)


@pytest.mark.filterwarnings("ignore:Columns left out")
def test_text_in_new_rows_is_a_hole_and_named():
    frame = measurements()
    model = RobustPCA().fit(frame)
    new = frame.tail(3).astype({"c": object})
    new.loc["row 58", "c"] = "oops"
    with pytest.warns(UserWarning, match="'oops' in column 'c', row 'row 58'"):
        filled = model.impute(new)
    holed = frame.tail(3).copy()
    holed.loc["row 58", "c"] = np.nan
    assert filled.loc["row 58", "c"] == model.impute(holed).loc["row 58", "c"]
    with pytest.raises(ValueError, match="Column 'c' was numeric in the fit; now it is datetime"):
        model.impute(new.assign(c=new["when"]))


def as_polars(frame):
    return pl.DataFrame({name: frame[name].to_list() for name in frame.columns})


def small():
    return measurements()[["a", "b", "c", "d", "e"]].reset_index(drop=True)


def test_polars_in_and_out():
    frame = small().fillna(20.0)
    given, new = as_polars(frame), as_polars(frame.tail(4))
    model = RobustPCA(n_components=2).fit(given)
    array = RobustPCA(n_components=2).fit(frame.to_numpy())
    lower, upper = model.predict_interval(0.8)
    assert isinstance(lower, pl.DataFrame)
    assert lower.columns == given.columns
    np.testing.assert_array_equal(upper.to_numpy(), array.predict_interval(0.8)[1])
    with pytest.warns(ConvergenceWarning):  # of the typing error in it
        clean = RobustPCA(n_components=2, loss="squared").fit(given)
    assert clean.outliers_.schema["column"] == pl.String
    assert clean.outliers_.shape == (0, 5)
    scores = model.set_output(transform="polars").transform(new)
    assert isinstance(scores, pl.DataFrame)
    assert scores.columns == ["robustpca0", "robustpca1"]
    np.testing.assert_array_equal(scores.to_numpy(), array.transform(frame.tail(4).to_numpy()))
    np.testing.assert_array_equal(model.impute(given.lazy()), model.impute(given))


@pytest.mark.parametrize(
    "change",
    [
        lambda frame: frame.set_index(np.repeat([1, 2], 30)),
        lambda frame: frame.set_index(pd.MultiIndex.from_product([range(6), list("abcdefghij")])),
        lambda frame: frame.set_index(pd.date_range("2020-01-01", periods=60)),
        lambda frame: frame.map(lambda cell: decimal.Decimal(repr(cell))),
        lambda frame: frame.astype(object).where(frame.notna(), None),
        lambda frame: frame.astype("Float64"),
        lambda frame: frame.astype(pd.SparseDtype(float)),
        lambda frame: frame.set_axis([1, "b", 2.5, ("x", 1), None], axis=1),
    ],
)
def test_frames_of_every_kind_give_the_same_numbers(change):
    frame = change(small())
    expected = RobustPCA().fit(small().to_numpy())
    model = pickle.loads(pickle.dumps(clone(RobustPCA()).fit(frame)))
    pd.testing.assert_index_equal(model.cleaned_.index, frame.index)
    assert list(model.cleaned_.columns) == list(frame.columns)
    np.testing.assert_array_equal(model.cleaned_.to_numpy(float), expected.cleaned_)
    assert model.outliers_["row"].tolist() == [frame.index[17]]
    assert model.outliers_["column"].tolist() == [frame.columns[3]]
    assert model.score(frame) == expected.score(small().to_numpy())
    lower, _ = model.predict_interval()
    np.testing.assert_array_equal(lower.to_numpy(), expected.predict_interval()[0])


def test_whole_numbers_and_yes_and_no_are_numbers():
    frame = small()
    numbers = frame.assign(c=np.round(10 * frame["c"]), d=(frame["d"] > 20) * 1.0)
    numbers.loc[3, ["c", "d"]] = np.nan
    nullable = numbers.astype({"c": "Int64", "d": "boolean"})
    one, two = RobustPCA().fit(numbers), RobustPCA().fit(nullable)
    np.testing.assert_array_equal(two.cleaned_.to_numpy(float), one.cleaned_.to_numpy())
    three = RobustPCA().fit(as_polars(nullable.astype(object).where(nullable.notna(), None)))
    np.testing.assert_array_equal(three.cleaned_["c"].to_numpy(), one.cleaned_["c"])


def test_a_pipeline_takes_frames_and_weights():
    frame = small()
    weights = np.ones(60)
    weights[:20] = 0.0
    model = make_pipeline(RobustPCA(n_components=2), StandardScaler())
    scores = model.fit(frame, robustpca__sample_weight=weights).transform(frame)
    assert scores.shape == (60, 2)
    rest = RobustPCA(n_components=2).fit(frame.iloc[20:].to_numpy())
    np.testing.assert_allclose(model[0].mean_, rest.mean_, rtol=1e-3)
    np.testing.assert_allclose(abs(model[0].components_), abs(rest.components_), atol=1e-3)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (pd.DataFrame(), "has no rows"),
        (pl.DataFrame({"a": []}), "has no rows"),
        (small().head(1), "1 sample"),
        (small() * np.inf, "There is infinity in column 'a', row 0"),
        (small().mask(small() > 150, -1e200), "There is -1e\\+200 in column 'd', row 17"),
        (small().to_numpy()[:, 0], "2D array"),
        (small().astype(complex).to_numpy(), "Complex data"),
        (np.array([[1, 2], [3, "x"]], object), r"There is text, 'x' at \[1, 1\]"),
    ],
)
def test_odd_tables_get_a_sentence(given, sentence):
    with pytest.raises(ValueError, match=sentence):
        RobustPCA().fit(given)


def test_one_column_of_text_tells_how_another_is_written():
    frame = small()
    # With three decimals and a comma, a thousand or little more than one.
    thirds = [f"{value / 20:.3f}".replace(".", ",") for value in frame["a"]]
    texts = frame.assign(a=thirds, b=[f"{value:.2f}".replace(".", ",") for value in frame["c"]])
    with pytest.warns(UserWarning, match="Columns of text read as numbers: a, b"):
        model = RobustPCA().fit(texts)
    assert model.mean_[0] == pytest.approx(1, abs=0.1)


def test_what_is_masked_is_missing():
    table = small().fillna(20.0).to_numpy()
    hidden = np.random.default_rng(1).random(table.shape) < 0.1
    masked = np.ma.MaskedArray(np.where(hidden, 1e9, table), mask=hidden)
    expected = RobustPCA().fit(np.where(hidden, np.nan, table))
    np.testing.assert_array_equal(RobustPCA().fit(masked).cleaned_, expected.cleaned_)


@pytest.mark.filterwarnings("ignore:Columns left out")
def test_doubtful_rows_have_the_names_of_the_frame():
    frame = measurements()
    frame.loc["row 30", ["a", "b", "c", "d", "e"]] = np.nan
    frame = frame.drop(columns=["count", "cold"])
    assert "doubtful rows    row 30 (" in RobustPCA().fit(frame).summary()


def test_identifiers_are_warned_of():
    rng = np.random.default_rng(0)
    size = rng.gamma(6, 20, 300)
    frame = pd.DataFrame(
        {
            "house": np.arange(10001, 10301),
            "size": size,
            "price": size * np.exp(0.1 * rng.standard_normal(300)),
            "rent": size * np.exp(0.1 * rng.standard_normal(300)),
        }
    )
    with pytest.warns(UserWarning, match="'house': distinct whole numbers"):
        model = RobustPCA().fit(frame)
    assert model.report_.alone == (0,)
    assert "columns alone   house" in model.summary()
    # Years are distinct whole numbers, too, but go with the other columns.
    years = np.arange(1947, 1987)
    frame = pd.DataFrame({name: years + rng.standard_normal(40) for name in "abc"})
    frame["year"] = years
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert RobustPCA().fit(frame).report_.alone == ()
