"""Saving and loading of fitted estimators."""

import importlib
import pathlib
import typing
from typing import Any

from sklearn.utils.validation import check_is_fitted

from .._plain import Kinds, Misfit, check_types
from .._storage import Unreadable, check_folder, contents, read, write
from ..status import RecoveryStatus
from ._frames import library_of
from ._report import TableReport

_KINDS = Kinds(TableReport, RecoveryStatus)
# Attributes that are not saved: the details of a search are larger than the model.
_LEFT_OUT = ("recovery_",)


class Saved:
    """An estimator that can be saved and loaded, without pickle."""

    def save(self, path: str | pathlib.Path) -> None:
        """Write parameters and fitted attributes to a file, atomically.

        The details of the search (``recovery_``) and data frames are not saved.

        Parameters
        ----------
        path : str or Path
            The file name, by convention with the suffix ``.safetensors``.
        """
        check_folder(pathlib.Path(path))
        check_is_fitted(self)
        fitted = {
            name: value
            for name, value in vars(self).items()
            if name in declared(type(self)) and name not in _LEFT_OUT and library_of(value) is None
        }
        state = {"params": self.get_params(deep=False), "fitted": fitted}  # pyright: ignore
        write(path, type(self).__name__, state, _KINDS)

    @classmethod
    def load(cls, path: str | pathlib.Path) -> Any:
        """Load an estimator of this class from a file.

        Parameters
        ----------
        path : str or Path
            A file written by `save`.

        Raises
        ------
        ValueError
            If the file is damaged, or contains something else.
        """
        name = contents(path)
        kind = getattr(importlib.import_module("lemmax.estimators"), name, None)
        known = isinstance(kind, type) and issubclass(kind, cls)
        # A file of another class is read as well, so that a damaged file is reported as such.
        state = read(path, name if known else cls.__name__, _KINDS)
        try:
            return _made(kind, state)
        except Misfit as misfit:
            raise Unreadable(f"{path} is not a valid {name}: {misfit}.") from None

    def _check_loaded(self) -> None:
        """Raise any exception if the loaded attributes are inconsistent."""


def declared(kind: type) -> dict[str, Any]:
    """The fitted attributes of a class with their types, from its annotations."""
    hints = typing.get_type_hints(kind)
    return {name: hint for name, hint in hints.items() if name.endswith("_") and name[0] != "_"}


def _made(kind: Any, state: Any) -> Any:
    """An estimator from the contents of a file, checked before anything is set."""
    check_types({"state": state}, {"state": dict[str, dict[str, Any]]}, kind.__name__)
    if set(state) != {"params", "fitted"}:
        raise Misfit("there are other parts than parameters and attributes")
    params, fitted = state["params"], state["fitted"]
    check_types(params, dict.fromkeys(kind._get_param_names(), Any), kind.__name__)
    attributes = declared(kind)
    check_types(fitted, {k: v for k, v in attributes.items() if k not in _LEFT_OUT}, kind.__name__)
    loaded = kind(**params)
    for name, value in fitted.items():
        setattr(loaded, name, value)
    try:
        loaded._check_loaded()
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise Misfit("its attributes are inconsistent") from error
    return loaded
