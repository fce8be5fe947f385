"""File formats that can be read."""

import pathlib

from ._files import Refusal

TEXTS = (".csv", ".tsv", ".txt")
COMPRESSED = ".gz"
"""After the suffix of a text."""
SHEETS = (".xlsx", ".xlsm")
NAMED = (*TEXTS, *SHEETS, ".parquet")
"""Formats of tables whose columns may have names."""
ARRAYS = (".npy", ".npz")
_FORMATS = (*TEXTS, *ARRAYS, ".mtx", *SHEETS, ".parquet")


def kind_of(path: pathlib.Path) -> str:
    """The suffix of a file, if it is known and the file exists."""
    kind = path.suffix.lower()
    if is_compressed(path) and (inner := path.with_suffix("").suffix.lower()) in TEXTS:
        kind = inner
    if path.is_dir():
        raise Refusal(f"{path} is a folder; pass the name of a file.")
    if not path.is_file():
        raise Refusal(f"There is no file {path}.")
    if kind not in _FORMATS:
        raise Refusal(
            f"{path} has an unknown format; files end in {', '.join(_FORMATS[:-1])} or .parquet; "
            f"texts may be compressed ({TEXTS[0]}{COMPRESSED})."
        )
    return kind


def is_compressed(path: pathlib.Path) -> bool:
    """Whether the name says so."""
    return path.suffix.lower() == COMPRESSED


def unreadable(path: pathlib.Path, error: OSError) -> Refusal:
    """The system's reason why a file cannot be read."""
    return Refusal(f"{path} cannot be read: {error.strerror}.")
