"""Models written as text: what they are worth, and what is refused."""

import math

import jax
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import special

from lemmax._dtype import x64_context
from lemmax.cli._expressions import parse
from lemmax.cli._files import Refusal

VALUES = {"a": 1.7, "b": -0.3, "t": 2.25}


def value_of(text, **values):
    with x64_context():
        return float(parse(text)(values or VALUES))


def refusal(text):
    with pytest.raises(Refusal) as refused:
        parse(text)
    said = str(refused.value)
    assert said.endswith((".", "...)"))
    assert len(said) < 500
    return said


leaves = st.one_of(
    st.sampled_from(sorted(VALUES)),
    st.integers(0, 9).map(str),
    st.floats(0.1, 9.0).map(lambda x: f"{x:.3g}"),
)


def combined(inner):
    return st.one_of(
        st.tuples(inner, st.sampled_from("+-*/"), inner).map(" ".join),
        st.tuples(st.sampled_from("+-"), inner).map("".join),
        inner.map("({})".format),
    )


@settings(max_examples=60, deadline=None)
@given(st.recursive(leaves, combined, max_leaves=8))
def test_formulas_are_what_python_makes_of_them(text):
    """Operations are correctly rounded in both, so that no digit may differ."""
    try:
        expected = eval(text, {"__builtins__": {}}, VALUES)
    except ZeroDivisionError:
        assume(False)
    assert value_of(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("-t**2", -(2.25**2)),
        ("(-t)**3", -(2.25**3)),
        ("2**-t", 2**-2.25),
        ("t**-2", 2.25**-2),
        ("a**t**0.5", 1.7**1.5),
        ("2*pi*t", 2 * math.pi * 2.25),
        ("t² × 2 − 1", 2 * 2.25**2 - 1),
        ("where(t < 2, a, b)", -0.3),
        ("where(t >= 2.25, a, b)", 1.7),
        ("max(a, b) + min(a, b)", 1.4),
    ],
)
def test_powers_and_signs(text, expected):
    assert value_of(text) == pytest.approx(expected, rel=1e-14)


FUNCTIONS = {
    "abs": abs,
    "acosh": math.acosh,
    "arctan2": math.atan2,
    "cbrt": math.cbrt,
    "erf": special.erf,
    "erfc": special.erfc,
    "ln": math.log,
}
FUNCTIONS |= {
    f.__name__: f
    for f in (
        math.acos,
        math.asin,
        math.asinh,
        math.atan,
        math.atan2,
        math.atanh,
        math.cos,
        math.cosh,
        math.exp,
        math.expm1,
        math.log,
        math.log10,
        math.log1p,
        math.log2,
        math.sin,
        math.sinh,
        math.sqrt,
        math.tan,
        math.tanh,
    )
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name):
    if name.endswith("2") and name != "log2":
        assert value_of(f"{name}(b, t)") == pytest.approx(math.atan2(-0.3, 2.25), rel=1e-14)
        return
    at = {"acosh": 1.7}.get(name, 0.3)
    assert value_of(f"{name}(u)", u=at) == pytest.approx(FUNCTIONS[name](at), rel=1e-13)


def test_whole_powers_of_negative_numbers_have_derivatives():
    with x64_context():
        slope = jax.grad(lambda t: parse("t**3 + t**2")({"t": t}))(-2.0)
    assert float(slope) == pytest.approx(3 * 4 - 4, rel=1e-14)


def test_names_and_the_left_side():
    found = parse("y = a*exp(-b*t) + a + pi")
    assert found.target == "y"
    assert found.names == ("a", "b", "t")
    quoted = parse("'flow rate' = k*'time (s)' + 'lambda'")
    assert quoted.target == "flow rate"
    assert quoted.names == ("k", "time (s)", "lambda")
    assert parse("a + b").target is None
    # The micro sign and the Greek letter are one name, as in Python.
    assert parse("\N{MICRO SIGN}*t").names == ("\N{GREEK SMALL LETTER MU}", "t")


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("a*t^2", "**"),
        ("2t + a", "in '2t' one is missing"),
        ("2(t + a)", "one is missing"),
        ("a(t - b)", "a*(...)"),
        ("sin(t)cos(t)", "one is missing"),
        ("a b", "one is missing"),
        ("expp(t)", "Did you mean exp?"),
        ("np.exp(t)", "Write exp(...), not"),
        ("0,5*t", "decimals have a point"),
        ("a*exp(-b*t", "more ("),
        ("a*t)", "more )"),
        ("y == a*t", "a single ="),
        ("log(y) = a*t", "The left side of ="),
        ("a = b = t", "The left side of ="),
        ("a*lambda", "'lambda'"),
        ("where(t, a, b)", "a comparison"),
        ("where(1 < t < 2, a, b)", "two values"),
        ("(a < t)*b", "where"),
        ("sin(t, a)", "one argument"),
        ("exp(x=t)", "no names"),
        ("exp(*t)", "no stars"),
        ("t % 2", "remainder"),
        ("y =", "empty"),
        ("  ", "empty"),
        ("1e999*t", "too large"),
        ("1" + "0" * 400, "too large"),
        ("a*☃", "'☃'"),
        ("a;b", "cannot be parsed"),
    ],
)
def test_what_people_get_wrong_is_named(text, part):
    assert part in refusal(text)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "().__class__.__bases__[0]",
        "a.__class__",
        "exp.__globals__",
        "[t for t in a]",
        "{a: t}",
        "lambda: 1",
        "(y := 1)",
        "a if t else b",
        "a and b",
        "not a",
        "~a",
        "a[0]",
        "f'{a}'",
        "b'a'*t",
        "1j*t",
        "True",
        "None",
        "...",
        "exp(t)(a)",
        "eval('1')",
        "exec('1')",
        "a\x00b",
        "-" * 1900 + "1",
        "(" * 500 + "1" + ")" * 500,
        "+".join("a" * 999),
        "exp(" * 80 + "t" + ")" * 80,
        "a" * 3000,
        "a)+(b",
        "await a",
        "yield a",
        "import os",
        "a\nimport os",
    ],
)
def test_nothing_else_is_let_in(text):
    refusal(text)


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="abt019.,+-*/^%()[]{}'\"=<>!:; \n\\_@#~&|²é\x00", max_size=30))
def test_whatever_is_typed_gets_an_answer_or_a_sentence(text):
    try:
        found = parse(text)
    except Refusal:
        return
    values = dict.fromkeys(found.names, np.float64(1.5))
    with x64_context():
        assert np.shape(found(values)) == ()
