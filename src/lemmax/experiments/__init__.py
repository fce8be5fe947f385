"""The experiments of the paper: problems with a known solution, figures and table."""
