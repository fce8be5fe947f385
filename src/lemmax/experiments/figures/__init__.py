"""The paper's figures, table and appendix, one `Experiment` per file."""

import importlib

from ..harness import Experiment

# In the paper's order; each is the name of a file.
NAMES = ("fig1", "fig2", "fig3", "fig4", "fig5", "fig6", "fig7", "fig8", "table1", "cg")


def load(name: str) -> Experiment:
    """The experiment of this name."""
    return importlib.import_module(f".{name}", __name__).EXPERIMENT
