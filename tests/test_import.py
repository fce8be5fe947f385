"""Importing lemmax is free of side effects."""

import ast
import importlib
import os
import pathlib
import subprocess
import sys

import pytest

import lemmax


def run(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_import_starts_no_backend_and_leaves_the_configuration_alone():
    code = """
import jax
before = dict(jax.config.values)
from lemmax import *
from lemmax import theory
assert callable(solve) and theory.check
from jax._src import xla_bridge
print(xla_bridge.backends_are_initialized(), before == dict(jax.config.values))
"""
    assert run(code) == "False True"


def test_import_pulls_in_no_extras():
    code = """
import sys
from lemmax import *
from lemmax.plots import *
extras = ("matplotlib", "sklearn", "rich", "typer", "mpmath", "scipy.optimize", "optimistix",
          "pandas", "polars", "safetensors", "openpyxl", "pyarrow", "asdex", "jinja2")
print([name for name in extras if name in sys.modules])
"""
    assert run(code) == "[]"


def test_a_table_needs_no_jax():
    code = """
import sys
import numpy as np
import lemmax.cli, lemmax.page, lemmax.plots
from lemmax.estimators import MatrixCompletion, RobustPCA
rng = np.random.default_rng(0)
rows = rng.standard_normal((40, 1))
table = rows @ rng.standard_normal((1, 6)) + 0.1 * rng.standard_normal((40, 6))
RobustPCA().fit(table).impute(table)
MatrixCompletion().fit(table).predict([[0, 0]])
print([name for name in ("jax", "equinox", "jaxtyping") if name in sys.modules])
"""
    assert run(code) == "[]"


def test_a_function_is_not_hidden_by_the_folder_it_is_in():
    code = """
import sys
import lemmax.fit.api, lemmax.solve.api
for name in ("fit", "solve"):
    print(getattr(lemmax, name) is getattr(sys.modules[f"lemmax.{name}.api"], name))
"""
    assert run(code) == "True\nTrue"


@pytest.mark.parametrize("package", ["lemmax", "lemmax.estimators", "lemmax.plots"])
def test_names_are_the_same_to_python_and_to_a_type_checker(package):
    module = importlib.import_module(package)
    imports = [
        node
        for block in ast.parse(pathlib.Path(str(module.__file__)).read_text()).body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
    ]
    assert sorted(node.names[0].name for node in imports) == module.__all__
    for node in imports:
        name = node.names[0].name
        value = getattr(importlib.import_module(f"{package}.{node.module or name}"), name, None)
        assert getattr(module, name) is (value or sys.modules[f"{package}.{name}"])
        assert name in dir(module)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = module.nothing


USER = """
import jax.numpy as jnp
import lemmax as lm
from lemmax.estimators import RobustPCA

problem = lm.Composite(lm.losses.L2(), lm.maps.Square(3), jnp.ones(3))
result = lm.solve(problem, lm.methods.lmm(), jnp.ones(3))
reveal_type(result)
reveal_type(result.seconds)
reveal_type(RobustPCA().fit([[1.0]]))
reveal_type(lm.fit(lambda x: x, 1.0, 1.0).noise)
lm.solve(problem, lm.methods.lmm())
"""


def test_a_users_types_are_checked(tmp_path):
    pytest.importorskip("pyright")
    (tmp_path / "user.py").write_text(USER)
    environment = {**os.environ, "PYTHONPATH": str(pathlib.Path(lemmax.__file__).parents[1])}
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "user.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment)
    if "error: Failed" in done.stderr or not done.stdout:
        pytest.skip("pyright cannot run here")
    told = [f'Type of "{part}' for part in ("result", "result.seconds")]
    for words in (*told, 'is "Result"', 'is "float"', 'is "RobustPCA"', "Argument missing for"):
        assert words in done.stdout, done.stdout
    assert (pathlib.Path(lemmax.__file__).parent / "py.typed").exists()
