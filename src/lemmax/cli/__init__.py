"""The command line: ``lemmax demo``, ``lemmax compare``, ``lemmax reproduce``."""

import sys


def main() -> None:
    """Run the command line, or say what is missing."""
    try:
        from .app import app
    except ImportError as error:
        sys.exit(f"The command line needs a package more ({error.name}): pip install 'lemmax[cli]'")
    app()
