"""``python -m lemmax``: the command line."""

from .cli import main

main()
