"""Importing lemmax is free of side effects."""

import subprocess
import sys


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
extras = ("matplotlib", "sklearn", "rich", "typer", "mpmath", "scipy.optimize", "optimistix")
print([name for name in extras if name in sys.modules])
"""
    assert run(code) == "[]"
