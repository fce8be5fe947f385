"""Arrays of numbers: NumPy's formats, and Matrix Market's."""

import pathlib
import zipfile
import zlib
from typing import Any

import numpy as np
from scipy import io, sparse

from ._files import Refusal
from ._formats import ARRAYS, SHEETS, kind_of, unreadable


def is_array(path: pathlib.Path) -> bool:
    """Whether a file may hold an array of any number of dimensions."""
    return kind_of(path) in ARRAYS


def read_array(
    path: pathlib.Path, array: str | None = None, has_options: bool = True
) -> np.ndarray:
    """An array of numbers from an npy or npz file."""
    kind = kind_of(path)
    refuse_member(path, kind, array)
    try:
        with open(path, "rb") as file:
            loaded = np.load(file, allow_pickle=False)
            if isinstance(loaded, np.ndarray) == (kind == ".npz"):
                raise Refusal(f"{path} is not in the format that its name says.")
            values = (
                _member(path, loaded, array, has_options) if kind == ".npz" else np.asarray(loaded)
            )
    except OSError as error:
        raise unreadable(path, error) from error
    except (ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise Refusal(f"{path} is not a file of numbers in NumPy's format.") from error
    if values.dtype.kind not in "fiub":
        raise Refusal(f"{path} holds entries of type {values.dtype}; numbers are needed.")
    if values.size == 0:
        raise Refusal(f"{path} holds no entries.")
    values = values.astype(np.float64)
    infinite = np.argwhere(np.isinf(values))
    if len(infinite):
        raise Refusal(
            f"{path} holds an infinite value, at index {infinite[0].tolist()} counted from 0; "
            "values must be finite, or NaN where they are missing."
        )
    return values


def read_stored_entries(path: pathlib.Path) -> Any:
    """A dense array as it is, or a sparse one, of which what is not stored is missing."""
    try:
        matrix: Any = io.mmread(str(path))
    except (ValueError, OSError, StopIteration, IndexError) as error:
        raise Refusal(f"{path} is not a file in the Matrix Market format.") from error
    if matrix.dtype.kind == "c":
        raise Refusal(f"{path} holds complex numbers; real ones are needed.")
    if 0 in matrix.shape:
        raise Refusal(f"{path} holds no entries.")
    if not sparse.issparse(matrix):
        return _finite_entries(path, np.asarray(matrix, np.float64))
    entries: Any = sparse.coo_array(matrix).astype(np.float64)
    _finite_entries(path, entries.data)
    places, counts = np.unique(np.stack(entries.coords), axis=1, return_counts=True)
    if np.any(counts > 1):
        row, column = places[:, np.argmax(counts > 1)] + 1
        raise Refusal(f"{path} has several values for row {row}, column {column}.")
    return entries


def _finite_entries(path: pathlib.Path, values: np.ndarray) -> np.ndarray:
    if np.any(np.isinf(values)):
        raise Refusal(f"{path} holds an infinite value; values must be finite.")
    return values


def _member(path: pathlib.Path, archive: Any, name: str | None, has_options: bool) -> np.ndarray:
    names = list(archive.keys())
    if name is None and len(names) != 1:
        cure = "name one (--array)" if has_options else "save the one that is meant as npy"
        raise Refusal(f"{path} holds several arrays, {', '.join(names)}; {cure}.")
    if name is not None and name not in names:
        raise Refusal(f"{path} holds no array {name!r}; it holds {', '.join(names)}.")
    return archive[name or names[0]]


def refuse_member(path: pathlib.Path, kind: str, array: str | None) -> None:
    """Only files of several arrays, or sheets, have one that can be named."""
    if array is not None and kind not in (".npz", *SHEETS):
        raise Refusal(f"--array names an array of an npz file or a sheet; {path} is neither.")
