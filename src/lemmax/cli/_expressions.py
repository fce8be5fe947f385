"""Models written as text, such as ``y = a*exp(-b*t) + c``, converted to JAX functions.

The text is parsed by Python's `ast`, and only the constructs listed here are translated; it is
never executed as Python.
"""

import ast
import difflib
import functools
import keyword
import math
import re
import unicodedata
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ._files import Refusal

# Limits beyond any reasonable formula, but far below those of Python's parser.
_LONGEST, _MOST, _DEEPEST = 2000, 500, 60
# Number of characters of the model that a message repeats.
_SHOWN = 40

_FUNCTIONS: dict[str, tuple[int, Callable[..., Any]]] = {
    "abs": (1, jnp.abs),
    "acos": (1, jnp.arccos),
    "acosh": (1, jnp.arccosh),
    "arccos": (1, jnp.arccos),
    "arcsin": (1, jnp.arcsin),
    "arctan": (1, jnp.arctan),
    "arctan2": (2, jnp.arctan2),
    "asin": (1, jnp.arcsin),
    "asinh": (1, jnp.arcsinh),
    "atan": (1, jnp.arctan),
    "atan2": (2, jnp.arctan2),
    "atanh": (1, jnp.arctanh),
    "cbrt": (1, jnp.cbrt),
    "cos": (1, jnp.cos),
    "cosh": (1, jnp.cosh),
    "erf": (1, jax.scipy.special.erf),
    "erfc": (1, jax.scipy.special.erfc),
    "exp": (1, jnp.exp),
    "expm1": (1, jnp.expm1),
    "ln": (1, jnp.log),
    "log": (1, jnp.log),
    "log10": (1, jnp.log10),
    "log1p": (1, jnp.log1p),
    "log2": (1, jnp.log2),
    "max": (2, jnp.maximum),
    "min": (2, jnp.minimum),
    "sin": (1, jnp.sin),
    "sinh": (1, jnp.sinh),
    "sqrt": (1, jnp.sqrt),
    "tan": (1, jnp.tan),
    "tanh": (1, jnp.tanh),
    "where": (3, jnp.where),
}
_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: jnp.add,
    ast.Sub: jnp.subtract,
    ast.Mult: jnp.multiply,
    ast.Div: jnp.divide,
    ast.Pow: jnp.power,
}
_COMPARISONS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Lt: jnp.less,
    ast.LtE: jnp.less_equal,
    ast.Gt: jnp.greater,
    ast.GtE: jnp.greater_equal,
}
_PI = "pi"
# Replacements that keyboards and word processors make.
_TYPED = str.maketrans(
    {"−": "-", "–": "-", "×": "*", "·": "*", "⋅": "*", "÷": "/", "²": "**2", "³": "**3", "’": "'"}
)
_TARGET = re.compile(r"""\s*([^\W\d]\w*|'[^']*'|"[^"]*")\s*=(?!=)(.*)""", re.DOTALL)
_WORD = re.compile(r"[^\W\d]\w*")
_PRODUCT = re.compile(
    r"(?<![\w.])\d+\.?\d*(?:[eE][+-]?\d+)?\s*[^\W\d]\w*|\)\s*[\w(]\w*|\b[^\W\d]\w*\s+\w+"
)
_EXAMPLE = "y = a*exp(-b*t) + c"
_WORDS = {
    ast.BitXor: "Powers are written with **: t**2, not t^2.",
    ast.Mod: "A model has no remainder operator (%); write percentages as numbers: 0.05.",
    ast.FloorDiv: "A model has no integer division (//); divide with /.",
    ast.MatMult: "A model has no matrices; write products with *.",
}


class Expression(NamedTuple):
    """A parsed formula."""

    text: str
    target: str | None
    """The name on the left of ``=``, if there is one."""
    names: tuple[str, ...]
    """Names of parameters and columns on the right, in order of appearance."""
    tree: ast.expr

    def __call__(self, values: Mapping[str, Any]) -> Any:
        """Evaluate the formula for given values of its names."""
        return _value(self.tree, values)


def parse(text: str) -> Expression:
    """Parse a formula.

    Parameters
    ----------
    text : str
        With or without a left side. Names that are not Python identifiers are quoted.

    Raises
    ------
    Refusal
        With an explanation if the formula cannot be parsed.
    """
    if len(text) > _LONGEST:
        raise Refusal(f"A model has at most {_LONGEST} characters; this one has {len(text)}.")
    plain = text.translate(_TYPED)
    match = _TARGET.fullmatch(plain)
    target, right = (match[1].strip("'\""), match[2]) if match else (None, plain)
    if not right.strip():
        raise Refusal(f"The model is empty; write one such as {_EXAMPLE!r}.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python's warnings about its own grammar
            tree = ast.parse(" ".join(right.split()), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise Refusal(_unreadable(text, right)) from error
    _check_size(tree)
    names: dict[str, None] = {}
    _check(tree, names)
    return Expression(text.strip(), None if target is None else normal(target), tuple(names), tree)


def normal(name: str) -> str:
    """A name as Python normalises it: equivalent characters become the same."""
    return unicodedata.normalize("NFKC", name.strip())


def similar(name: str, there: Iterable[str]) -> str:
    """A suggestion of a similar name, or nothing."""
    by_letters = {each.lower(): each for each in there}
    near = difflib.get_close_matches(name.lower(), by_letters, 1, 0.6)
    return f" Did you mean {by_letters[near[0]]}?" if near else ""


def suggestion(name: str, there: Iterable[str]) -> str:
    """Advice about an unknown name."""
    if name in _FUNCTIONS:
        return f" {name} is a function: write {name}(...)."
    if name == "e":
        return " Write the exponential function as exp(...), Euler's number as exp(1)."
    return similar(name, there)


def _unreadable(text: str, right: str) -> str:
    """The most likely reason for a syntax error."""
    words = [word for word in _WORD.findall(right) if keyword.iskeyword(word)]
    if words:
        return f"{words[0]} cannot be a name in a model, unless quoted: '{words[0]}'."
    if right.count("(") != right.count(")"):
        more, fewer = "()" if right.count("(") > right.count(")") else ")("
        return f"The brackets of the model do not match: there are more {more} than {fewer}."
    product = _PRODUCT.search(right)
    if product:
        return f"A product is written with *; in {product[0]!r} one is missing."
    if re.search(r"(?<![<>=!])=(?!=)", right):
        return (
            "The left side of = must be the name of one column, as in "
            f"{_EXAMPLE!r}; names with blanks must be quoted."
        )
    strange = next((c for c in right if not (c.isascii() or c.isalnum())), None)
    if strange is not None:
        return (
            f"The character {strange!r} is not allowed in a model; write one such as {_EXAMPLE!r}."
        )
    shown = text.strip() if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
    return f"The model {shown!r} cannot be parsed; write one such as {_EXAMPLE!r}."


def _check_size(tree: ast.expr) -> None:
    """Refuse expressions that are too large, without recursion."""
    count, level = 0, [tree]
    for _ in range(_DEEPEST):
        count += len(level)
        level = [
            child
            for node in level
            for child in ast.iter_child_nodes(node)
            if isinstance(child, ast.expr)
        ]
        if not level:
            break
    else:
        raise Refusal(f"The model is nested too deeply: more than {_DEEPEST} levels.")
    if count > _MOST:
        raise Refusal(f"The model is too large: it has more than {_MOST} parts.")


def _check(node: ast.expr, names: dict[str, None], condition: bool = False) -> None:
    """Refuse constructs that are not listed, and collect the names."""
    if isinstance(node, ast.Name) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    ):
        name = _name(node)
        if name != _PI:
            names[name] = None
    elif isinstance(node, ast.Constant):
        _number(node)
    elif isinstance(node, ast.BinOp):
        if type(node.op) not in _OPERATORS:
            raise Refusal(_WORDS.get(type(node.op), _not_allowed(node)))
        _check(node.left, names)
        _check(node.right, names)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.UAdd, ast.USub)):
        _check(node.operand, names)
    elif isinstance(node, ast.Compare):
        if not condition:
            raise Refusal(
                "Comparisons are only allowed in where(...), as in where(t < t0, a, b); the model "
                f"itself has a single =, as in {_EXAMPLE!r}."
            )
        if len(node.ops) > 1 or type(node.ops[0]) not in _COMPARISONS:
            raise Refusal("where(...) compares two values by <, <=, > or >=.")
        _check(node.left, names)
        _check(node.comparators[0], names)
    elif isinstance(node, ast.Call):
        _check_call(node, names)
    elif isinstance(node, ast.Tuple):
        raise Refusal(
            "A comma separates the arguments of a function; decimals have a point: 0.5, not 0,5."
        )
    else:
        raise Refusal(_not_allowed(node))


def _check_call(node: ast.Call, names: dict[str, None]) -> None:
    function = node.func
    if not isinstance(function, ast.Name):
        if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
            raise Refusal(f"Write {function.attr}(...), not {_text(node.func)}(...).")
        if isinstance(function, ast.Attribute):
            raise Refusal(_not_allowed(function))
        raise Refusal(f"A product is written with *; in {_text(node)!r} one is missing.")
    if function.id not in _FUNCTIONS:
        meant = similar(function.id, _FUNCTIONS)
        raise Refusal(
            f"There is no function {function.id}.{meant} A product with brackets is written with "
            f"*, as in {function.id}*(...). Functions are {', '.join(_FUNCTIONS)}."
        )
    count = _FUNCTIONS[function.id][0]
    if node.keywords or any(isinstance(each, ast.Starred) for each in node.args):
        raise Refusal(f"The arguments of {function.id} take no names and no stars.")
    if len(node.args) != count:
        wanted = {1: "one argument", 2: "two arguments", 3: "three arguments"}[count]
        raise Refusal(
            f"{function.id} takes {wanted}; in {_text(node)!r} there "
            f"{'is 1' if len(node.args) == 1 else f'are {len(node.args)}'}."
        )
    if function.id == "where" and not isinstance(node.args[0], ast.Compare):
        raise Refusal("The first argument of where is a comparison, as in where(t < t0, a, b).")
    for place, each in enumerate(node.args):
        _check(each, names, condition=function.id == "where" and place == 0)


def _text(node: ast.expr) -> str:
    text = ast.unparse(node)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _not_allowed(node: ast.expr) -> str:
    return (
        f"{_text(node)!r} is not allowed in a model, which consists of numbers, names, + - * / **, "
        "brackets and functions."
    )


def _name(node: ast.expr) -> str:
    return normal(node.id if isinstance(node, ast.Name) else str(getattr(node, "value", "")))


def _number(node: ast.Constant) -> float:
    value = node.value
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Refusal(_not_allowed(node))
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise Refusal("A number of the model is too large.")
    return number


def _whole(node: ast.expr) -> int | None:
    """A small integer, with or without a sign."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _whole(node.operand)
        return None if inner is None else -inner
    if isinstance(node, ast.Constant) and type(node.value) is int and node.value < 100:
        return node.value
    return None


def _value(node: Any, values: Mapping[str, Any]) -> Any:
    """Evaluate a checked syntax tree."""
    value = functools.partial(_value, values=values)
    if isinstance(node, ast.BinOp):
        power = _whole(node.right) if isinstance(node.op, ast.Pow) else None
        # With integer exponents, powers of negative numbers are differentiable.
        return _OPERATORS[type(node.op)](
            value(node.left), value(node.right) if power is None else power
        )
    if isinstance(node, ast.UnaryOp):
        return (
            jnp.negative(value(node.operand))
            if isinstance(node.op, ast.USub)
            else value(node.operand)
        )
    if isinstance(node, ast.Call):
        return _FUNCTIONS[_name(node.func)][1](*map(value, node.args))
    if isinstance(node, ast.Compare):
        return _COMPARISONS[type(node.ops[0])](value(node.left), value(node.comparators[0]))
    if isinstance(node, ast.Constant) and not isinstance(node.value, str):
        return jnp.asarray(_number(node), float)
    name = _name(node)
    return jnp.asarray(math.pi, float) if name == _PI else values[name]
