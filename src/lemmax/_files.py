"""Files that are there entirely or not at all."""

import os
import pathlib
import tempfile
from collections.abc import Callable


def save(path: pathlib.Path, write: Callable[[str], object]) -> None:
    """Write beside the target, then rename: nobody ever sees half a file."""
    handle, partial = tempfile.mkstemp(suffix=path.suffix, dir=path.parent)
    os.close(handle)
    try:
        write(partial)
        # A temporary file is private; what is asked for is as public as any other.
        pathlib.Path(partial).chmod(0o666 & ~_umask())
        pathlib.Path(partial).replace(path)
    except BaseException:
        pathlib.Path(partial).unlink(missing_ok=True)
        raise


def save_text(path: pathlib.Path, text: str) -> None:
    """Write a text in UTF-8, with line ends as they are."""
    save(path, lambda partial: pathlib.Path(partial).write_bytes(text.encode()))


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
