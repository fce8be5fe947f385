"""Fitted estimators as files: arrays in the safetensors format, the rest as JSON in its header."""

import importlib
import json
import pathlib
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from .._files import save as save_file
from ._frames import library_of
from ._report import TableReport

_FORMAT = "lemmax estimator 1"
# What is not kept: the details of a search hold more than the model.
_LEFT_OUT = ("recovery_",)


class Saved:
    """An estimator that can be written to a file and read again, without pickle."""

    def save(self, path: str | pathlib.Path) -> None:
        """Write parameters and fitted attributes to a file; all of it or nothing.

        The details of the search (``recovery_``) and data frames are left out.

        Parameters
        ----------
        path : str or Path
            By custom with the suffix ``.safetensors``.
        """
        from safetensors.numpy import save_file as write

        path = pathlib.Path(path)
        if not path.parent.is_dir():
            raise FileNotFoundError(f"{path} cannot be written: there is no folder {path.parent}.")
        check_is_fitted(self)
        arrays: dict[str, np.ndarray] = {}
        fitted = {
            name: _described(value, name, arrays)
            for name, value in vars(self).items()
            if name.endswith("_")
            and not name.startswith("_")
            and name not in _LEFT_OUT
            and library_of(value) is None
        }
        params = {
            name: _described(value, f"params.{name}", arrays)
            for name, value in self.get_params(deep=False).items()  # pyright: ignore
        }
        header = {
            "format": _FORMAT,
            "class": type(self).__name__,
            "params": json.dumps(params),
            "fitted": json.dumps(fitted),
        }
        save_file(path, lambda partial: write(arrays, partial, metadata=header))

    @classmethod
    def load(cls, path: str | pathlib.Path) -> Any:
        """Read an estimator of this kind from a file.

        Parameters
        ----------
        path : str or Path
            What `save` has written.
        """
        from safetensors import SafetensorError, safe_open

        if pathlib.Path(path).is_dir():
            raise ValueError(f"{path} is a folder; name the file.")
        try:
            with safe_open(str(path), framework="numpy") as file:
                header = file.metadata() or {}
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except SafetensorError as error:
            raise ValueError(f"{path} is not a file that lemmax has written.") from error
        if header.get("format") != _FORMAT or "class" not in header:
            raise ValueError(f"{path} does not hold an estimator of this version of lemmax.")
        kind = getattr(importlib.import_module("lemmax.estimators"), header["class"], None)
        if not (isinstance(kind, type) and issubclass(kind, cls)):
            raise ValueError(f"{path} holds a {header['class']}, not a {cls.__name__}.")
        params = {k: _read(v, arrays) for k, v in json.loads(header["params"]).items()}
        loaded = kind(**params)
        for name, value in json.loads(header["fitted"]).items():
            setattr(loaded, name, _read(value, arrays))
        return loaded


def _described(value: Any, name: str, arrays: dict[str, np.ndarray]) -> Any:
    """A value as JSON, its arrays put aside under their names."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "OU":
        return {"names": [str(entry) for entry in value]}
    if isinstance(value, TableReport):
        return {"report": value.as_dict()}
    if isinstance(value, np.ndarray):
        arrays[name] = np.array(value, order="C")
        return {"array": name}
    if sparse.issparse(value):
        coo = value.tocoo()
        arrays[f"{name}.values"] = np.ascontiguousarray(coo.data)
        places = [f"{name}.{k}" for k in range(len(coo.shape))]
        for place, index in zip(places, coo.coords, strict=True):
            arrays[place] = np.ascontiguousarray(index)
        return {"sparse": places, "values": f"{name}.values", "shape": list(coo.shape)}
    if isinstance(value, (list, tuple)):
        parts = [_described(part, f"{name}.{k}", arrays) for k, part in enumerate(value)]
        return {"list": parts} if isinstance(value, list) else {"tuple": parts}
    if isinstance(value, dict):
        pairs = [[key, _described(part, f"{name}.{key}", arrays)] for key, part in value.items()]
        return {"dict": pairs}
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return {"value": value}
    raise TypeError(f"{name} cannot be saved: it is a {type(value).__name__}.")


def _read(described: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
    kind = next(iter(described))
    what = described[kind]
    if kind == "array":
        return arrays[what]
    if kind == "names":
        return np.array(what, dtype=object)
    if kind == "report":
        return TableReport.from_dict(what)
    if kind == "sparse":
        coords = tuple(arrays[place] for place in what)
        shape = tuple(described["shape"])
        array = sparse.coo_array((arrays[described["values"]], coords), shape=shape)
        return array.tocsr() if len(shape) == 2 else array
    if kind in ("list", "tuple"):
        parts = [_read(part, arrays) for part in what]
        return parts if kind == "list" else tuple(parts)
    if kind == "dict":
        return {key: _read(part, arrays) for key, part in what}
    return what
