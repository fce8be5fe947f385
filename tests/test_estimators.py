"""Estimators: scikit-learn's own checks, and answers that are known otherwise."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import lemmax as lm
from lemmax.estimators import (
    BlindDeconvolution,
    CPDecomposition,
    MatrixCompletion,
    MatrixSensing,
    NonnegativeRegression,
    PhaseRetrieval,
    RobustPCA,
)
from lemmax.estimators._report import TableReport

ESTIMATORS = [
    RobustPCA(),
    MatrixCompletion(),
    CPDecomposition(rank=1),
    NonnegativeRegression(),
    MatrixSensing(rank=1),
    PhaseRetrieval(),
    BlindDeconvolution(),
]
_POSITIONS = "predict takes positions in the matrix, not rows of it"
EXPECTED_FAILURES = {
    "RobustPCA": {
        "check_sample_weight_equivalence_on_dense_data": (
            "a weight is the precision of a row, not the number of its copies"
        )
    },
    "MatrixCompletion": dict.fromkeys(
        (
            "check_array_api_input",
            "check_dict_unchanged",
            "check_dtype_object",
            "check_estimator_sparse_array",
            "check_estimator_sparse_matrix",
            "check_estimators_dtypes",
            "check_estimators_pickle",
            "check_f_contiguous_array_estimator",
            "check_fit2d_predict1d",
            "check_methods_sample_order_invariance",
            "check_methods_subset_invariance",
            "check_n_features_in_after_fitting",
        ),
        _POSITIONS,
    ),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(
    ESTIMATORS,
    expected_failed_checks=lambda estimator: EXPECTED_FAILURES.get(type(estimator).__name__, {}),
)
def test_scikit_learn_accepts(estimator, check):
    check(estimator)


def spoiled_tensor(rng, dims=(12, 11, 10), rank=2):
    factors = [rng.standard_normal((d, rank)) for d in dims]
    truth = np.einsum("ir,jr,kr->ijk", *factors)
    tensor = truth.copy()
    tensor[rng.random(dims) < 0.05] = 30.0
    tensor[rng.random(dims) < 0.1] = np.nan
    return factors, truth, tensor


@pytest.fixture(scope="module")
def decomposed():
    factors, truth, tensor = spoiled_tensor(np.random.default_rng(8))
    return factors, truth, tensor, CPDecomposition(rank=4).fit(tensor)


def test_cp_finds_factors_and_errors(decomposed):
    from lemmax.metrics import factor_match_score

    factors, truth, tensor, model = decomposed
    assert model.rank_ == 2
    np.testing.assert_allclose(model.reconstruct(), truth, atol=1e-8)
    assert factor_match_score(model.factors_, factors) > 1 - 1e-9
    wrong = ~np.isnan(tensor) & (np.abs(tensor - truth) > 1e-6)
    np.testing.assert_array_equal(np.abs(model.outliers_.toarray()) > 1e-9, wrong)
    assert model.score(np.where(wrong, np.nan, tensor)) > -1e-8


def test_cp_with_known_factors_fits_the_others(decomposed):
    factors, truth, tensor, _ = decomposed
    model = CPDecomposition(fixed={1: factors[1], 2: factors[2]}).fit(tensor)
    np.testing.assert_allclose(model.reconstruct(), truth, atol=1e-7)


def test_cp_goes_on_from_where_it_was(decomposed):
    _, truth, tensor, model = decomposed
    again = clone(model).set_params(warm_start=True)
    again.factors_, again.weights_, again.rank_ = model.factors_, model.weights_, model.rank_
    again.fit(tensor)
    assert again.rank_ == 2
    np.testing.assert_allclose(again.reconstruct(), truth, atol=1e-8)


def test_cp_of_somebody_else(decomposed):
    _, truth, _, model = decomposed
    copy = CPDecomposition.from_cp((model.weights_, model.factors_))
    np.testing.assert_allclose(copy.reconstruct(), truth, atol=1e-8)


def test_symmetric_cp():
    rng = np.random.default_rng(9)
    factor = rng.standard_normal((8, 2))
    truth = np.einsum("ir,jr,kr->ijk", factor, factor, factor)
    model = CPDecomposition(rank=3, symmetric=True).fit(truth)
    assert model.rank_ == 2
    np.testing.assert_allclose(model.reconstruct(), truth, atol=1e-8)
    with pytest.raises(ValueError, match="modes of equal length"):
        CPDecomposition(symmetric=True).fit(truth[:5])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("kind", [RobustPCA, MatrixCompletion, CPDecomposition])
def test_saved_and_loaded_it_is_the_same(kind, tmp_path, cleaned):
    _, table, _ = cleaned
    model = kind(3).fit(table)
    path = tmp_path / "model.safetensors"
    model.save(path)
    again = kind.load(path)
    assert again.get_params() == model.get_params()
    for name, value in vars(model).items():
        if name.endswith("_") and name != "recovery_":
            _assert_same(getattr(again, name), value)
    first = model.summary().splitlines()[0]
    assert again.summary() == (first if hasattr(model, "recovery_") else model.summary())
    if hasattr(model, "transform"):
        np.testing.assert_array_equal(again.transform(table), model.transform(table))
    _assert_same(pickle.loads(pickle.dumps(model)).outliers_, model.outliers_)


def _assert_same(found, wanted):
    if sparse.issparse(wanted):
        np.testing.assert_array_equal(found.toarray(), wanted.toarray())
    elif isinstance(wanted, list):
        for one, other in zip(found, wanted, strict=True):
            _assert_same(one, other)
    elif isinstance(wanted, dict):
        for name, value in wanted.items():
            _assert_same(found[name], value)
    elif isinstance(wanted, TableReport):
        assert found == wanted
    else:
        np.testing.assert_array_equal(found, wanted)


def test_terms_that_are_nonnegative_stay_as_they_are():
    rng = np.random.default_rng(2)
    factors = [rng.random((size, 2)) for size in (9, 8, 7)]
    tensor = np.einsum("ar,br,cr->abc", *factors)
    model = CPDecomposition(3, nonnegative=True).fit(tensor)
    assert (model.status_, model.rank_) == ("EXACT", 2)
    assert all(np.all(factor >= 0) for factor in model.factors_)
    assert lm.metrics.factor_match_score(model.factors_, factors) > 1 - 1e-9


def test_negative_entries_are_a_reason_why_no_nonnegative_terms_are_found():
    rng = np.random.default_rng(4)
    table = rng.standard_normal((40, 2)) @ rng.standard_normal((2, 12))
    with pytest.warns(ConvergenceWarning, match=r"\d+% of the entries are negative beyond"):
        model = RobustPCA(2, centre=False, nonnegative=True).fit(table)
    assert model.status_ == "NOT_CONVERGED"


def test_bad_input_gets_a_sentence(tmp_path):
    rng = np.random.default_rng(0)
    numbers = rng.random((6, 5))
    with pytest.raises(ValueError, match="A tensor needs two modes or more"):
        CPDecomposition(2).fit(numbers[0])
    with pytest.raises(ValueError, match=r"shape \(1, 6, 5\) has no more. Leave that mode out"):
        CPDecomposition(2).fit(numbers[None])
    for model in (RobustPCA(), MatrixCompletion(1), CPDecomposition(1)):
        with pytest.raises(ValueError, match="use real and imaginary parts"):
            model.fit(1j * numbers)
    for model in (PhaseRetrieval(), BlindDeconvolution(), NonnegativeRegression()):
        with pytest.raises(ValueError, match="use real and imaginary parts"):
            model.fit(numbers, 1j * numbers[:, 0])
    with pytest.raises(NotFittedError):
        RobustPCA().save(tmp_path / "nothing.safetensors")
    assert not list(tmp_path.iterdir())


def test_other_files_are_refused(tmp_path, cleaned):
    model = cleaned[2]
    path = tmp_path / "model.safetensors"
    model.save(path)
    with pytest.raises(ValueError, match="contains a RobustPCA, not a CPDecomposition"):
        CPDecomposition.load(path)
    path.write_bytes(b"nothing")
    with pytest.raises(ValueError, match="is not a lemmax file"):
        RobustPCA.load(path)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_in_a_pipeline_and_a_grid_search(cleaned):
    _, table, _ = cleaned
    filled = np.where(np.isnan(table), 0.0, table)
    pipeline = make_pipeline(StandardScaler(), RobustPCA(2))
    assert pipeline.fit_transform(filled).shape == (60, 2)
    X = np.random.default_rng(13).standard_normal((40, 3))
    y = X @ [1.0, 0.0, 2.0]
    y[::8] += 50.0
    search = GridSearchCV(
        NonnegativeRegression(),
        {"loss": ["squared", "robust"]},
        scoring="neg_median_absolute_error",
        cv=2,
    )
    assert search.fit(X, y).best_params_ == {"loss": "robust"}


def test_sensing_agrees_with_the_truth():
    rng = np.random.default_rng(11)
    signal, X = rng.standard_normal(8), rng.standard_normal((120, 8))
    intensities = (X @ signal) ** 2
    intensities[:10] += 5.0
    model = PhaseRetrieval().fit(X, intensities)
    sign = np.sign(model.coef_ @ signal)
    np.testing.assert_allclose(model.coef_, sign * signal, atol=1e-8)
    np.testing.assert_array_equal(np.sort(model.outliers_), np.arange(10))
    np.testing.assert_allclose(model.predict(X)[10:], intensities[10:], atol=1e-7)


def test_measuring_matrices_tell_the_shape():
    rng = np.random.default_rng(13)
    truth = np.outer(rng.standard_normal(6), rng.standard_normal(5))
    matrices = rng.standard_normal((120, 6, 5))
    y = np.einsum("nij,ij->n", matrices, truth)
    model = MatrixSensing(rank=2).fit(matrices, y)
    np.testing.assert_allclose(model.matrix_, truth, atol=1e-9)
    np.testing.assert_allclose(model.predict(list(matrices[:3])), y[:3], atol=1e-9)
    with pytest.raises(
        ValueError, match=r"Matrices of shape \(6, 5\) cannot measure one of shape \(5, 6"
    ):
        MatrixSensing(shape=(5, 6)).fit(matrices, y)
    with pytest.warns(UserWarning, match="measurements of a column of 30. Pass the shape"):
        MatrixSensing().fit(matrices.reshape(120, 30), y)


@pytest.mark.parametrize("estimator", [RobustPCA(), MatrixCompletion()])
def test_the_name_of_a_file_is_no_data(estimator):
    with pytest.raises(TypeError, match=r"read it first, such as by pandas.read_csv\('my.csv'\)"):
        estimator.fit("my.csv")
