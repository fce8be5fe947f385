"""The command line: ``lemmax pca``, ``complete``, ``cp``, ``nnls``, ``fit``, ``compare``, ..."""

import os
import pathlib
import sys

_INTERRUPTED = 130


def main() -> None:
    """Run the command line, or say which package is missing."""
    # Reuse compiled programs of earlier commands. JAX reads this variable when it is imported,
    # which some commands avoid.
    caches = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(caches / "lemmax"))
    try:
        from .app import app
    except ImportError as error:
        sys.exit(f"The command line needs the package {error.name}: pip install 'lemmax[cli]'")
    try:
        # The name is also needed for `python -m lemmax`: shell completion uses it.
        app(prog_name="lemmax")
    except SystemExit as ended:
        if ended.code != _INTERRUPTED:
            raise
        # After Ctrl-C, JAX's threads may still be running, and shutting down the interpreter would
        # crash. All files are complete; only the output has to be flushed.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(_INTERRUPTED)
