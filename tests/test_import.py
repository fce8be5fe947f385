"""Importing lemmax is free of side effects."""

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
import lemmax
from jax._src import xla_bridge
print(xla_bridge.backends_are_initialized(), before == dict(jax.config.values))
"""
    assert run(code) == "False True"


def test_import_pulls_in_no_extras():
    code = """
import sys
import lemmax
extras = ("matplotlib", "sklearn", "rich", "typer", "mpmath", "scipy.optimize", "optimistix",
          "pandas", "polars", "safetensors", "openpyxl", "pyarrow", "asdex", "jinja2")
print([name for name in extras if name in sys.modules])
"""
    assert run(code) == "[]"


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
