"""Which data are held out does not depend on their order."""

import numpy as np

from lemmax._draws import uniform_by_rank


def test_a_value_has_the_same_number_wherever_it_stands():
    rng = np.random.default_rng(5)
    values = rng.standard_normal((30, 20))
    known = rng.random(values.shape) < 0.7
    draws = uniform_by_rank(values, known, np.random.default_rng(1))
    rows, columns = rng.permutation(30), rng.permutation(20)
    permuted = uniform_by_rank(
        1e3 * values[rows][:, columns].T, known[rows][:, columns].T, np.random.default_rng(1)
    )
    np.testing.assert_array_equal(permuted, draws[rows][:, columns].T)
    assert np.all(draws[~known] == 1)


def test_the_numbers_do_not_depend_on_the_values():
    """Uniform, and uncorrelated with the values, over many draws for the same values."""
    values = np.exp(np.random.default_rng(6).standard_normal(50))
    many = np.array(
        [uniform_by_rank(values, values > 0, np.random.default_rng(k)) for k in range(4000)]
    )
    error = 1 / np.sqrt(12 * 4000)
    np.testing.assert_allclose(many.mean(axis=0), 0.5, atol=5 * error)
    np.testing.assert_allclose(np.quantile(many, [0.1, 0.9]), [0.1, 0.9], atol=0.01)
    together = np.corrcoef(many[:, np.argsort(values)[-2:]].T)[0, 1]
    assert abs(together) < 5 / np.sqrt(4000)
