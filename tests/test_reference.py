"""Every public name is in the reference, and every name there exists and says what it is."""

import ast
import importlib
import inspect
import pathlib
import re
import types

import pytest

import lemmax

REFERENCE = pathlib.Path(__file__).parents[1] / "docs" / "api"
# Fronts that are imported by themselves, beside the modules that lemmax imports.
FRONTS = ("lemmax.estimators", "lemmax.optimistix", "lemmax.testing")


def exported(module):
    """Names that a package hands on (``import x as x``), or that a module defines itself."""
    if not hasattr(module, "__path__"):
        return {
            name
            for name, value in vars(module).items()
            if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
        }
    return {
        alias.asname
        for node in ast.walk(ast.parse(pathlib.Path(str(module.__file__)).read_text()))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname == alias.name
    }


def modules():
    """Modules that a user reads from: lemmax itself, those in it, those in these, the fronts."""
    found = [lemmax, *map(importlib.import_module, FRONTS)]
    for module in found:
        inside = (getattr(module, name) for name in exported(module))
        found += [part for part in inside if isinstance(part, types.ModuleType)]
    return {module.__name__: module for module in found}


def entries():
    """Objects that the reference shows, by their full names."""
    text = "\n".join(path.read_text() for path in REFERENCE.glob("*.md"))
    shown = {}
    for directive, name, options in re.findall(r"\.\. auto(\w+):: (\S+)\n((?:   :.*\n)*)", text):
        if directive != "module":
            module, _, last = name.rpartition(".")
            shown[name] = getattr(importlib.import_module(module), last)
        elif ":no-members:" not in options:
            module = importlib.import_module(name)
            names = exported(module)
            assert not hasattr(module, "__path__") or ":imported-members:" in options, name
            shown |= {f"{name}.{each}": getattr(module, each) for each in names}
    return shown


@pytest.mark.parametrize("name", sorted(modules()))
def test_every_public_name_is_in_the_reference(name):
    module, shown = modules()[name], {id(value) for value in entries().values()}
    names = {each for each in exported(module) if not inspect.ismodule(getattr(module, each))}
    assert {each for each in names if id(getattr(module, each)) not in shown} == set()


def test_every_entry_says_what_it_is():
    silent = []
    for name, value in entries().items():
        # Of a class its own text, not what it inherits.
        text = vars(value).get("__doc__") if inspect.isclass(value) else value.__doc__
        silent += [] if text else [name]
    assert silent == []
