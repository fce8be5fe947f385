"""The command line: ``lemmax pca``, ``complete``, ``cp``, ``nnls``, ``fit``, ``compare``, ..."""

import os
import pathlib
import sys

import jax

_INTERRUPTED = 130


def main() -> None:
    """Run the command line, or say what is missing."""
    if jax.config.values.get("jax_compilation_cache_dir") is None:
        # What was compiled for a table of some shape is there for the next of that shape.
        caches = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
        jax.config.update("jax_compilation_cache_dir", str(caches / "lemmax"))
    try:
        from .app import app
    except ImportError as error:
        sys.exit(f"The command line needs a package more ({error.name}): pip install 'lemmax[cli]'")
    try:
        # The name also for `python -m lemmax`: completion is installed under it.
        app(prog_name="lemmax")
    except SystemExit as ended:
        if ended.code != _INTERRUPTED:
            raise
        # After Ctrl-C, JAX's threads may still be at work. Taking the interpreter down under them
        # crashes it; all files are complete, and what was said only has to be written out.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(_INTERRUPTED)
