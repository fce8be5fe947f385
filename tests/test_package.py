"""Names, versions and bounds that are written down in several places agree."""

import os
import pathlib
import re
import subprocess
import sys
import tomllib

import pytest

import lemmax
from tests.commands import run as command

ROOT = pathlib.Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
RECIPE = (ROOT / "recipe" / "meta.yaml").read_text()


@pytest.mark.parametrize(
    ("file", "pattern"),
    [
        ("CITATION.cff", r"^version: (.+)$"),
        ("CHANGELOG.md", r"^## (\S+)"),
        ("recipe/meta.yaml", r'set version = "(.+)"'),
    ],
)
def test_the_version_is_the_same_everywhere(file, pattern):
    found = re.search(pattern, (ROOT / file).read_text(), re.MULTILINE)
    assert found is not None
    assert found[1] == lemmax.__version__


def bounds(requirements):
    """Names and lowest versions; extras of lemmax itself are asked for by name."""
    pairs = (re.split(">=", requirement.replace(" ", "")) for requirement in requirements)
    return {tuple(pair) for pair in pairs if not pair[0].startswith("lemmax[")}


def test_the_recipe_has_the_bounds_of_the_project():
    extras = PROJECT["optional-dependencies"]
    wanted = bounds(PROJECT["dependencies"])
    for extra in ("cli", "plots", "estimators"):
        wanted |= bounds(extras[extra])
    run = RECIPE.split("  run:\n")[1].split("\ntest:")[0]
    found = bounds(re.findall(r"^    - (.+)$", run, re.MULTILINE))
    found = {(name.removesuffix("-base"), version) for name, version in found}
    assert found == wanted | {("python", PROJECT["requires-python"].removeprefix(">="))}
    for name, target in PROJECT["scripts"].items():
        assert f"- {name} = {target}" in RECIPE


def test_the_module_is_the_command():
    run = [sys.executable, "-m", "lemmax"]
    done = subprocess.run([*run, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == lemmax.__version__ == command("--version").output.strip()
    # Completion is installed for the command, however it was asked for.
    # Typer would look for a shell among the parents; under make that is sh, which it does not know.
    told = os.environ | {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    script = subprocess.run(
        [*run, "--show-completion", "bash"], capture_output=True, text=True, check=True, env=told
    ).stdout
    assert re.search(r"^complete .* lemmax$", script, re.MULTILINE)
