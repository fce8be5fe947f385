"""Bad input gets a sentence, before anything is compiled, and nothing is modified."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lemmax as lm
from lemmax.experiments.instances import psd_sensing

ONES = np.ones


def psd_problem(**changes):
    parts = {
        "loss": lm.losses.L1(),
        "map": lm.maps.PSD(4, 2),
        "operator": lm.operators.Dense(ONES((7, 4, 4))),
        "data": ONES(7),
    }
    return lm.Composite(**{**parts, **changes})


def with_nan(array):
    array = np.array(array)
    array.flat[0] = np.nan
    return array


def solve(x0, **options):
    return lm.solve(psd_problem(), lm.methods.lmm(), x0, **options)


BAD = {
    "data shape": (lambda: psd_problem(data=ONES(6)), r"observations of shape \(7,\).*\(6,\)"),
    "data rank": (lambda: psd_problem(data=ONES((7, 1))), r"shape \(7, 1\)"),
    "data NaN": (lambda: psd_problem(data=with_nan(ONES(7))), r"1 entries are NaN"),
    "data infinite": (lambda: psd_problem(data=ONES(7) * np.inf), r"7 entries are NaN or inf"),
    "data empty": (lambda: psd_problem(data=ONES(0)), r"The data are empty"),
    "operator and map": (
        lambda: psd_problem(map=lm.maps.PSD(5, 2)),
        r"map returns points of shape \(5, 5\).*Dense measures points of shape \(4, 4\)",
    ),
    "identity data": (
        lambda: lm.Composite(lm.losses.L2(), lm.maps.PSD(4, 2), data=ONES((4, 3))),
        r"observations of shape \(4, 4\).*\(4, 3\)",
    ),
    "weights shape": (
        lambda: psd_problem(loss=lm.losses.L1(weights=ONES(3))),
        r"weights of shape \(3,\).*do not match.*\(7,\)",
    ),
    "weights negative": (lambda: lm.losses.L1(weights=-ONES(3)), r"nonnegative"),
    "operator empty": (lambda: lm.operators.Dense(ONES((0, 4, 4))), r"non-empty array"),
    "operator vector": (lambda: lm.operators.Dense(ONES(4)), r"shape \(m, \.\.\.\)"),
    "operator not square": (
        lambda: lm.operators.SymmetricDense(ONES((7, 4, 3))),
        r"\(m, d, d\).*Use Dense",
    ),
    "packed size": (
        lambda: lm.operators.SymmetricDense.from_packed(ONES((7, 9)), 4),
        r"10 distinct entries.*\(m, 10\)",
    ),
    "rank 0": (lambda: lm.maps.PSD(4, 0), r"rank must be a whole number of at least 1; got 0"),
    "dimension -1": (lambda: lm.maps.Square(-1), r"dim must be a whole number"),
    "matrix as tensor": (lambda: lm.maps.CP((4, 4), 2), r"three or more modes.*Use LowRank"),
    "order 2": (lambda: lm.maps.SymmetricCP(4, 2, order=2), r"order of 3 or more.*Use PSD"),
    "LowRank shape": (lambda: lm.maps.LowRank((4, 4, 4), 2), r"two entries"),
    "Huber threshold": (lambda: lm.losses.Huber(0.0), r"threshold must be above 0; got 0.0"),
    "quantile level": (lambda: lm.losses.Quantile(1.0), r"level must be below 1"),
    "x0 shape": (lambda: solve(ONES((4, 3))), r"PSD takes parameters of shape \(4, 2\).*\(4, 3\)"),
    "x0 structure": (lambda: solve((ONES((4, 2)),)), r"PSD takes parameters"),
    "x0 NaN": (
        lambda: solve(with_nan(ONES((4, 2)))),
        r"parameters x0 must be finite; 1 entries are NaN",
    ),
    "max_steps": (lambda: solve(ONES((4, 2)), max_steps=-1), r"max_steps must be a whole number"),
    "tol": (lambda: solve(ONES((4, 2)), tol=-1.0), r"tol must be at least 0; got -1.0"),
    "every": (lambda: solve(ONES((4, 2)), every=0), r"every must be a whole number"),
    "damping without target": (
        lambda: lm.methods.lmm(lm.steps.Geometric(1e-2, 0.9)),
        r"damping.SuitedToLoss needs the gap.*steps.Geometric has no target",
    ),
    "function's output": (
        lambda: lm.solve(
            lm.Composite(lm.losses.L1(), lm.maps.FromFunction(lambda x: x[:, None]), data=ONES(3)),
            lm.methods.lmm(),
            ONES(3),
        ),
        r"returns arrays of shape \(3, 1\), but \(3,\) is needed",
    ),
    "function of other parameters": (
        lambda: lm.solve(
            lm.Composite(lm.losses.L1(), lm.maps.FromFunction(lambda x: x["u"]), data=ONES(3)),
            lm.methods.lmm(),
            ONES(3),
        ),
        r"The map's function fails at x0, of shapes \(3,\).*'u'",
    ),
    "a step rule as target": (
        lambda: lm.methods.polyak_subgradient(lm.steps.BulkPolyak()),
        r"target must be a number; got a BulkPolyak",
    ),
    "operator NaN": (
        lambda: lm.operators.Dense(with_nan(ONES((7, 4, 4)))),
        r"The measurement arrays must be finite; 1 entries are NaN",
    ),
    "symmetric operator on other maps": (
        lambda: lm.Composite(
            lm.losses.L1(),
            lm.maps.LowRank((4, 4), 2),
            ONES(7),
            lm.operators.SymmetricDense(ONES((7, 4, 4))),
        ),
        r"SymmetricDense only measures symmetric points.*Use Dense",
    ),
    "symmetric operator on a function": (
        lambda: lm.solve(
            lm.Composite(
                lm.losses.L1(),
                lm.maps.FromFunction(lambda x: x),
                ONES(7),
                lm.operators.SymmetricDense(ONES((7, 4, 4))),
            ),
            lm.methods.lmm(),
            np.arange(16.0).reshape(4, 4),
        ),
        r"SymmetricDense only measures symmetric points",
    ),
    "decay": (lambda: lm.steps.Geometric(1.0, 1.5), r"decay must be above 0 and at most 1"),
    "initial": (lambda: lm.damping.Geometric(-1.0, 0.5), r"initial must be at least 0"),
    "scale": (lambda: lm.steps.Polyak(scale=-1.0), r"scale must be above 0"),
    "window": (lambda: lm.Stopping(window=0), r"window must be a whole number"),
    "metric": (
        lambda: solve(ONES((4, 2)), metrics={"all": lambda x, evaluation: x}),
        r"metric 'all' must return a number; it returned shape \(4, 2\)",
    ),
    "Kruskal factors": (
        lambda: lm.points.KruskalPoint((ONES((3, 2)), ONES((3, 1)))),
        r"same number of columns",
    ),
}


def counting():
    calls = []

    def shorter_each_time(x):
        calls.append(None)
        return x[: 3 - len(calls)]

    return shorter_each_time


def leaking():
    kept = []

    def parameters_and_the_first(x):
        kept.append(x)
        return x + kept[0]

    return parameters_and_the_first


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (counting(), "must depend on its parameters alone"),
        (leaking(), "must depend on its parameters alone"),
        (lambda x: jnp.round(x).astype(int), "returns values of type int64"),
        (lambda x: jax.lax.complex(x, x), "returns values of type complex128"),
    ],
)
def test_functions_that_misbehave(function, sentence):
    problem = lm.Composite(lm.losses.L1(), lm.maps.FromFunction(function), ONES(3))
    with pytest.raises(TypeError, match=sentence):
        lm.solve(problem, lm.methods.lmm(), ONES(3))


def test_programs_that_need_too_much_memory():
    """More than any machine has, inside a function of the user: only the compiler knows."""

    def wasteful(x):
        return jnp.cumsum(jnp.outer(jnp.tile(x, 10**6), jnp.tile(x, 10**6)))[:3]

    problem = lm.Composite(lm.losses.L1(), lm.maps.FromFunction(wasteful), ONES(3))
    with pytest.raises(MemoryError, match="program needs more memory than there is"):
        lm.solve(problem, lm.methods.polyak_subgradient(), ONES(3))


@pytest.mark.parametrize("name", BAD)
def test_bad_input_gets_a_sentence(name):
    provoke, sentence = BAD[name]
    with pytest.raises(ValueError, match=sentence):
        provoke()


def test_what_cannot_fit_is_refused_with_the_number_of_bytes():
    factor = np.ones((200_000, 1))
    huge = lm.points.KruskalPoint((factor,) * 3)
    message = r"needs 64,000,000,000,000,000 bytes"
    with pytest.raises(MemoryError, match=message):
        huge.dense()
    with pytest.raises(MemoryError, match=message):
        # l1 needs every entry, so the factored target would have to be formed.
        lm.Composite(lm.losses.L1(), lm.maps.SymmetricCP(200_000, 1), data=huge)
    lm.Composite(lm.losses.L2(), lm.maps.SymmetricCP(200_000, 1), data=huge)


WRONG_KINDS = """
import lemmax as lm
import numpy as np

def sentence(provoke):
    try:
        provoke()
    except TypeError as error:
        print(error)

sentence(lambda: lm.Composite(lm.losses.L1, lm.maps.Square(2), data=np.ones(2)))
sentence(lambda: lm.Composite(lm.losses.L1(), "square", data=np.ones(2)))
problem = lm.Composite(lm.losses.L1(), lm.maps.Square(2), data=np.ones(2))
sentence(lambda: lm.solve(problem, lm.methods.lmm, np.ones(2)))
sentence(lambda: lm.solve(lm.methods.lmm(), problem, np.ones(2)))
sentence(lambda: lm.Composite(lm.losses.L1(), lambda x: x, data=np.ones(2)))
sentence(lambda: lm.methods.lmm(0.5))
sentence(lambda: lm.Composite(lm.losses.L1(), lm.maps.Square(2), data=np.array([1j, 2])))
sentence(lambda: lm.operators.Dense(np.array([["a", "b"]])))
sentence(lambda: lm.methods.lmm(preconditioner=lm.methods.preconditioners.Damped))
"""


def test_wrong_kinds_of_things():
    """In a process of its own, since under pytest the type annotations are checked first."""
    done = subprocess.run(
        [sys.executable, "-c", WRONG_KINDS], capture_output=True, text=True, check=True
    )
    lines = done.stdout.strip().splitlines()
    assert len(lines) == 9
    assert "the class L1: did you mean L1()?" in lines[0]
    assert lines[1].startswith("map must be a lemmax")
    assert "method such as lm.methods.lmm(); got the function lmm: did you" in lines[2]
    assert "first argument of solve must be a Composite" in lines[3]
    assert "lm.maps.FromFunction(function)" in lines[4]
    assert "step must be a rule such as lm.steps.Polyak(); got a float" in lines[5]
    assert "Complex arrays are not supported" in lines[6]
    assert "An array of numbers is needed" in lines[7]
    assert "the class Damped: did you mean Damped()?" in lines[8]


def test_the_callers_arrays_are_not_modified():
    instance = psd_sensing(0, dim=6, rank=2, measurements=40)
    x0 = instance.x0.copy()
    array, data = np.random.default_rng(0).standard_normal((9, 4, 4)), np.ones(9)
    kept_array, kept_data = array.copy(), data.copy()
    problem = psd_problem(operator=lm.operators.SymmetricDense(array), data=data)
    lm.solve(problem, lm.methods.lmm(), np.ones((4, 2)), max_steps=3)
    lm.solve(instance.problem, lm.methods.lmm(), instance.x0, max_steps=3)
    np.testing.assert_array_equal(instance.x0, x0)
    np.testing.assert_array_equal(array, kept_array)
    np.testing.assert_array_equal(data, kept_data)


def test_the_operator_does_not_follow_later_changes_of_the_callers_array():
    # Large enough that JAX would copy it in the background.
    array = np.ones((1000, 80, 80))
    operator = lm.operators.Dense(array)
    array[:] = 0
    assert jnp.all(operator.matrix == 1)
    packed = np.ones((1000, 3240))
    symmetric = lm.operators.SymmetricDense.from_packed(packed, 80)
    packed[:] = 0
    assert jnp.all(symmetric.packed == 1)


def test_a_new_operator_may_return_a_plain_array():
    class Doubled(lm.operators.AbstractOperator):
        point_shape = None
        observation_shape = None

        def measure(self, point):
            return 2 * point.dense()

        def adjoint(self, observations):
            return 2 * observations

    problem = lm.Composite(lm.losses.L2(), lm.maps.FromFunction(lambda x: x), ONES(2), Doubled())
    result = lm.solve(problem, lm.methods.lmm(), np.zeros(2))
    np.testing.assert_allclose(result.x, 0.5)


def test_lists_and_integers_are_welcome():
    problem = lm.Composite(lm.losses.L2(), lm.maps.Square(2), data=[1, 4])
    nested = lm.solve(problem, lm.methods.lmm(), [1, 1])
    np.testing.assert_allclose(nested.point.dense(), [1, 4], rtol=1e-6)
    problem = lm.Composite(lm.losses.L2(), lm.maps.Square(2), data=[1, 4])
    result = lm.solve(problem, lm.methods.lmm(), np.array([1, 1]))
    np.testing.assert_allclose(result.point.dense(), [1, 4], rtol=1e-6)
