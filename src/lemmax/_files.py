"""Files that are there entirely or not at all."""

import contextlib
import os
import pathlib
import platform
import secrets
import zlib
from collections.abc import Callable, Mapping

Write = Callable[[str], object]
"""Writes a file of the name that it is given."""


def save(path: pathlib.Path, write: Write) -> None:
    """Write beside the target, then rename: nobody ever sees half a file."""
    save_all({path: write})


def save_text(path: pathlib.Path, text: str) -> None:
    """Write a text in UTF-8, with line ends as they are."""
    save(path, text_writer(text))


def text_writer(text: str) -> Write:
    """What writes a text in UTF-8, with line ends as they are."""
    return lambda partial: pathlib.Path(partial).write_bytes(text.encode())


def save_all(files: Mapping[pathlib.Path, Write]) -> None:
    """Write several files, all or none: the first is renamed when the last is written.

    Raises
    ------
    OSError
        With the name of the file that could not be written. What was there before is as it was.
    """
    partials: dict[pathlib.Path, pathlib.Path] = {}
    try:
        for path, write in files.items():
            with _naming(path):
                _remove_abandoned(path)
                partials[path] = _partial(path)
                write(str(partials[path]))
                _flush(partials[path])
        for path, partial in partials.items():
            with _naming(path):
                partial.replace(path)
    finally:
        for partial in partials.values():
            partial.unlink(missing_ok=True)


@contextlib.contextmanager
def _naming(path: pathlib.Path):
    """Errors of the system name the file that was asked for, not the one beside it."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, os.strerror(error.errno), str(path)) from error


def _partial(path: pathlib.Path) -> pathlib.Path:
    """A new empty file beside the target, as public as any other; the name says who writes it."""
    writer = f"{os.getpid()}-{secrets.token_hex(4)}"
    partial = path.with_name(f"{_start(path)}{writer}.partial{path.suffix}")
    partial.touch(exist_ok=False)
    return partial


def _start(path: pathlib.Path) -> str:
    """With a number for this machine: folders may be shared by several."""
    return f".{path.stem[:100]}.{zlib.crc32(platform.node().encode()):08x}-"


def _remove_abandoned(path: pathlib.Path) -> None:
    """What a process that was killed has left of this file."""
    start, end = _start(path), f".partial{path.suffix}"
    for other in path.parent.iterdir():
        if other.name.startswith(start) and other.name.endswith(end):
            writer = other.name.removeprefix(start).partition("-")[0]
            if writer.isdigit() and not _is_alive(int(writer)):
                other.unlink(missing_ok=True)


def _is_alive(process: int) -> bool:
    if os.name != "posix":  # elsewhere a signal of 0 would end it
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # somebody else's
        return True
    return True


def _flush(path: pathlib.Path) -> None:
    """Bring a file to the disk, so that a power failure does not leave its name alone."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
