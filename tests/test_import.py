"""Importing lemmax is free of side effects."""

import subprocess
import sys

CODE = """
import sys
import jax
before = dict(jax.config.values)
import lemmax
from jax._src import xla_bridge
extras = ("matplotlib", "sklearn", "rich", "typer", "mpmath", "scipy.optimize", "optimistix")
print(xla_bridge.backends_are_initialized(), before == dict(jax.config.values))
print([name for name in extras if name in sys.modules])
"""


def test_import_starts_no_backend_changes_no_configuration_and_pulls_in_no_extras():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["False True", "[]"]
