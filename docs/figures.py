"""A scraper for the gallery: figures of `lemmax.plots` are not registered with pyplot."""

from typing import Any

from matplotlib.figure import Figure
from sphinx_gallery.scrapers import figure_rst


class LastFigure:
    """Save the figure at the end of a block of an example, once."""

    def __repr__(self) -> str:
        return "LastFigure"

    def __call__(self, block: Any, block_vars: dict, gallery_conf: dict) -> str:
        """ReStructuredText that shows it."""
        figure = block_vars["example_globals"].get("___")
        if not isinstance(figure, Figure) or getattr(figure, "is_in_gallery", False):
            return ""
        figure.is_in_gallery = True
        path = next(block_vars["image_path_iterator"])
        figure.savefig(path, dpi=100)
        return figure_rst([path], gallery_conf["src_dir"])


def _get_sg_image_scraper() -> LastFigure:
    return LastFigure()
