"""Packages that import their parts on first use (PEP 562)."""

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def lazy(
    package: str, parts: Mapping[str, Sequence[str]], modules: Sequence[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """``__getattr__``, ``__dir__`` and ``__all__`` of a package.

    Type checkers do not follow these: they need the same names as imports under
    ``if TYPE_CHECKING``.

    Parameters
    ----------
    package : str
        Full name of the package.
    parts : mapping from str to names
        The exported names of each submodule.
    modules : sequence of str
        Submodules that are exported themselves.
    """
    public = sorted({name for names in parts.values() for name in names} | set(modules))
    home = {name: part for part, names in parts.items() for name in names}

    def get(name: str) -> Any:
        if name in modules:
            return importlib.import_module(f"{package}.{name}")
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{package}.{home[name]}"), name)
        # From now on the name is found without this function.
        vars(sys.modules[package])[name] = value
        return value

    special = [name for name in vars(sys.modules[package]) if name.startswith("__")]
    return get, lambda: sorted({*special, *public}), public
