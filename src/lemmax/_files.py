"""Atomic writing of files."""

import contextlib
import os
import pathlib
import platform
import secrets
import zlib
from collections.abc import Callable, Mapping

Write = Callable[[str], object]
"""A function that writes a file with the given name."""


def save(path: pathlib.Path, write: Write) -> None:
    """Write to a temporary file, then rename it, so that no partial file is ever visible."""
    save_all({path: write})


def save_text(path: pathlib.Path, text: str) -> None:
    """Write a text in UTF-8, without changing line ends."""
    save(path, text_writer(text))


def text_writer(text: str) -> Write:
    """A function that writes a text in UTF-8, without changing line ends."""
    return lambda partial: pathlib.Path(partial).write_bytes(text.encode())


def save_all(files: Mapping[pathlib.Path, Write]) -> None:
    """Write several files, all or none: none is renamed before all are written.

    Raises
    ------
    OSError
        With the name of the file that could not be written. Existing files are unchanged.
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
    """Let system errors name the requested file instead of the temporary one."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, os.strerror(error.errno), str(path)) from error


def _partial(path: pathlib.Path) -> pathlib.Path:
    """A new empty file beside the target, with default permissions; its name has the process id."""
    writer = f"{os.getpid()}-{secrets.token_hex(4)}"
    partial = path.with_name(f"{_start(path)}{writer}.partial{path.suffix}")
    partial.touch(exist_ok=False)
    return partial


def _start(path: pathlib.Path) -> str:
    """The start of temporary names, with an id of this machine: folders may be shared."""
    return f".{path.stem[:100]}.{zlib.crc32(platform.node().encode()):08x}-"


def _remove_abandoned(path: pathlib.Path) -> None:
    """Remove temporary files of killed processes."""
    start, end = _start(path), f".partial{path.suffix}"
    for other in path.parent.iterdir():
        if other.name.startswith(start) and other.name.endswith(end):
            writer = other.name.removeprefix(start).partition("-")[0]
            if writer.isdigit() and not _is_alive(int(writer)):
                other.unlink(missing_ok=True)


def _is_alive(process: int) -> bool:
    if os.name != "posix":  # on other systems, signal 0 would end the process
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # a process of another user
        return True
    return True


def _flush(path: pathlib.Path) -> None:
    """Flush a file to disk, so that a power failure cannot leave an empty file."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
