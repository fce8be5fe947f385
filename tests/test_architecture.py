"""Imports point one way: a layer knows only the layers before it."""

import ast
import importlib
import inspect
import pathlib

import lemmax

PACKAGE = pathlib.Path(lemmax.__file__).parent

# The layers of docs/architecture.md, in order; a name stands for a file or a folder.
LAYERS = [
    [
        "_typing",
        "_memory",
        "_checks",
        "_columns",
        "_files",
        "_terms",
        "_digest",
        "_draws",
        "_lazy",
    ],
    ["_threads"],
    ["_plain"],
    ["_tree", "_storage"],
    ["_dtype", "_linalg", "_programs", "status", "_journal"],
    ["points"],
    ["covectors"],
    ["operators"],
    ["losses"],
    ["maps"],
    ["problem"],
    ["methods"],
    ["metrics", "gradients"],
    ["solve"],
    ["init"],
    ["factor", "fit"],
    ["recovery", "regression"],
    ["testing", "plots", "page", "theory", "estimators", "optimistix"],
    ["saving", "experiments"],
    ["cli"],
    ["__main__"],
]
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
# Losses and operators do not know each other, nor do maps know either.
STRANGERS = {
    "losses": {"operators", "points", "covectors"},
    "maps": {"operators", "losses"},
    "operators": {"losses"},
    "methods": {"operators"},
}


def part_of(path):
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imported_parts(path):
    """The names directly below the package that a file imports, by relative or absolute import."""
    inside = path.relative_to(PACKAGE).parts
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = list(inside[: len(inside) - node.level])
            target = base + (node.module.split(".") if node.module else [])
            yield from [target[0]] if target else [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("lemmax."):
            yield node.module.split(".")[1]


def files():
    return [path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py"]


def test_every_file_has_a_layer():
    assert {part_of(path) for path in files()} <= set(RANK)


def test_imports_point_one_way():
    wrong = [
        f"{path.relative_to(PACKAGE)} imports {part}"
        for path in files()
        for part in imported_parts(path)
        if part != part_of(path)
        and (RANK[part] >= RANK[part_of(path)] or part in STRANGERS.get(part_of(path), ()))
    ]
    assert not wrong


def test_the_check_sees_imports():
    assert "problem" in set(imported_parts(PACKAGE / "methods" / "_base.py"))
    assert "_tree" in set(imported_parts(PACKAGE / "losses.py"))


# What may ask for the class of a map, a loss or an operator: theorems are about named ones.
NAMING = {"maps", "losses", "operators", "theory", "experiments"}


def test_classes_of_other_layers_are_not_asked_for():
    """Objects are asked what they can do; a new class then needs no change elsewhere."""
    bases = lemmax.maps.AbstractMap, lemmax.losses.AbstractLoss, lemmax.operators.AbstractOperator
    wrong = []
    for path in files():
        if part_of(path) in NAMING:
            continue
        name = ".".join(["lemmax", *path.relative_to(PACKAGE).with_suffix("").parts])
        for call in ast.walk(ast.parse(path.read_text())):
            if not (isinstance(call, ast.Call) and ast.unparse(call.func) == "isinstance"):
                continue
            for node in ast.walk(call.args[1]):
                kind = getattr(importlib.import_module(name), getattr(node, "id", ""), None)
                named = inspect.isclass(kind) and not kind.__name__.startswith("Abstract")
                if named and issubclass(kind, bases):
                    wrong.append(f"{path.name}:{call.lineno} asks for {kind.__name__}")
    assert not wrong


def test_files_can_be_read_in_one_sitting():
    long = {p.name: n for p in files() if (n := p.read_text().count("\n")) > 400}
    assert not long
