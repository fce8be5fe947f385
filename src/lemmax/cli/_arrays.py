"""Files with arrays: NumPy formats and Matrix Market."""

import io as io_module
import math
import pathlib
import zipfile
import zlib
from typing import Any

import numpy as np
from scipy import io, sparse

from .._memory import require_memory
from ._files import Refusal
from ._formats import ARRAYS, SHEETS, kind_of, unreadable

# NumPy's limit for headers of untrusted files.
_HEADER = 10_000


def is_array(path: pathlib.Path) -> bool:
    """Whether the format can hold an array with any number of dimensions."""
    return kind_of(path) in ARRAYS


def read_array(
    path: pathlib.Path, array: str | None = None, has_options: bool = True
) -> np.ndarray:
    """Read a numeric array from an npy or npz file."""
    kind = kind_of(path)
    refuse_member(path, kind, array)
    try:
        with open(path, "rb") as file:
            other = file.read(6) == b"\x93NUMPY" if kind == ".npz" else zipfile.is_zipfile(file)
            if other:
                raise Refusal(f"{path} is not in the format that its name indicates.")
        values = _member(path, array, has_options) if kind == ".npz" else _stored(path)
    except OSError as error:
        raise unreadable(path, error) from error
    except (ValueError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError) as error:
        raise Refusal(f"{path} is not a numeric file in NumPy's format.") from error
    if values.dtype.kind not in "fiub":
        raise Refusal(f"{path} contains entries of type {values.dtype}; numbers are needed.")
    if values.size == 0:
        raise Refusal(f"{path} contains no entries.")
    _require_room(path, values.shape)
    values = np.array(values, np.float64, order="C", copy=kind == ".npy" or None)
    infinite = np.argwhere(np.isinf(values))
    if len(infinite):
        raise Refusal(
            f"{path} contains an infinite value, at index {infinite[0].tolist()} counted from 0; "
            "values must be finite, or NaN if they are missing."
        )
    return values


def read_stored_entries(path: pathlib.Path) -> Any:
    """Read a dense array, or a sparse one whose entries that are not stored are missing."""
    try:
        _check_stored_entries(path)
        matrix: Any = io.mmread(str(path))
    except (ValueError, OSError, StopIteration, IndexError, OverflowError) as error:
        raise Refusal(f"{path} is not a file in the Matrix Market format.") from error
    if matrix.dtype.kind == "c":
        raise Refusal(f"{path} contains complex numbers; real ones are needed.")
    if 0 in matrix.shape:
        raise Refusal(f"{path} contains no entries.")
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
        raise Refusal(f"{path} contains an infinite value; values must be finite.")
    return values


def _stored(path: pathlib.Path) -> np.ndarray:
    """Map the array of an npy file, so that its size is checked before it is read."""
    with open(path, "rb") as file:
        shape, dtype = _header(file)
        if file.tell() + math.prod(shape) * dtype.itemsize > path.stat().st_size:
            raise ValueError("The file is shorter than its header says.")
    # Mapped, it takes address space, which may be limited, too.
    _require_room(path, shape, dtype.itemsize)
    if dtype.hasobject or math.prod(shape) == 0:
        return np.empty(0, dtype)
    return np.load(path, mmap_mode="r", allow_pickle=False)


def _member(path: pathlib.Path, name: str | None, has_options: bool) -> np.ndarray:
    """Read an array of an npz file if its header matches the size in the archive."""
    with zipfile.ZipFile(path) as archive:
        names = [each.removesuffix(".npy") for each in archive.namelist()]
        if not names:
            raise Refusal(f"{path} contains no entries.")
        if name is None and len(names) != 1:
            cure = "choose one with --array" if has_options else "save the right one as npy"
            raise Refusal(f"{path} contains several arrays, {', '.join(names)}; {cure}.")
        if name is not None and name not in names:
            raise Refusal(f"{path} contains no array {name!r}; it contains {', '.join(names)}.")
        place = archive.infolist()[0 if name is None else names.index(name)]
        with archive.open(place) as file:
            shape, dtype = _header(file)
            if file.tell() + math.prod(shape) * dtype.itemsize != place.file_size:
                raise ValueError("The size in the archive differs from that in the array's header.")
        _require_room(path, shape, dtype.itemsize)
        with archive.open(place) as file:
            return np.lib.format.read_array(file, allow_pickle=False)


def _header(file: Any) -> tuple[tuple[int, ...], np.dtype]:
    """Shape and type of an array in NumPy's format; large headers are refused."""
    version = np.lib.format.read_magic(file)
    length = 2 if version[0] == 1 else 4
    if int.from_bytes(file.read(length), "little") > _HEADER:
        raise ValueError("The header is too large.")
    file.seek(-length, io_module.SEEK_CUR)
    numpy_format = np.lib.format
    one, two = numpy_format.read_array_header_1_0, numpy_format.read_array_header_2_0
    shape, _, dtype = (one if length == 2 else two)(file)
    if any(size < 0 for size in shape):
        raise ValueError("A size is negative.")
    return shape, dtype


def _require_room(path: pathlib.Path, shape: tuple[int, ...], itemsize: int = 8) -> None:
    """Refuse an array that does not fit in memory."""
    require_memory(shape, itemsize, f"The array in {path}", "{rows} rows of it would fit.")


def _check_stored_entries(path: pathlib.Path) -> None:
    """Refuse a Matrix Market file that declares more entries than it has, or than fit."""
    rows, columns, entries, kind, *_ = io.mminfo(str(path))
    # An entry takes at least a digit and a line end; its position, two more numbers.
    listed = kind == "coordinate"
    if entries * (4 if listed else 2) > path.stat().st_size + 2:
        raise ValueError("The file is shorter than its header says.")
    _require_room(path, (entries, 3) if listed else (rows, columns))


def refuse_member(path: pathlib.Path, kind: str, array: str | None) -> None:
    """Refuse --array for files without several arrays or sheets."""
    if array is not None and kind not in (".npz", *SHEETS):
        raise Refusal(f"--array selects an array of an npz file or a sheet; {path} is neither.")
