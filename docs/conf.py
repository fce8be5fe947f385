"""Sphinx: the pages in Markdown, the reference from the docstrings, the gallery executed."""

import pathlib
import sys
import warnings
from typing import Any

from sphinx.addnodes import pending_xref

import lemmax

sys.path.insert(0, str(pathlib.Path(__file__).parent))

project = "lemmax"
author = "The lemmax developers"
project_copyright = "The lemmax developers"
version = release = lemmax.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "gallery", "methods/pictures.py", "Thumbs.db"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
myst_enable_extensions = ["colon_fence", "dollarmath", "fieldlist"]
myst_heading_anchors = 3
# Pages link to the sources beside them; and "shape" in the type of a parameter is no reference.
suppress_warnings = ["myst.xref_missing", "ref.python"]

autosummary_generate = True
autodoc_default_options = {"members": True}
autodoc_typehints = "none"
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_rtype = False
# Attributes as a list like the parameters: as entries of their own they would fill pages. Names
# that end with an underscore, which is a link in reStructuredText, have to be escaped.
napoleon_custom_sections = [("Attributes", "params_style")]
strip_signature_backslash = True
toc_object_entries_show_parents = "hide"

html_theme = "pydata_sphinx_theme"
html_title = "lemmax"
html_static_path = ["_static"]
html_css_files = ["lemmax.css"]
# The right side shows the sections of a page; nothing else is wide enough to take room from code.
html_theme_options = {
    "show_prev_next": False,
    "navigation_with_keys": False,
    "secondary_sidebar_items": {"**": ["page-toc", "sourcelink"], "index": []},
}
html_sidebars = {"index": []}

sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "examples",
    "filename_pattern": "/plot_",
    "ignore_pattern": r"data\.py",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "abort_on_example_error": True,
    "image_scrapers": ("matplotlib", "figures"),
    "capture_repr": (),
    "reference_url": {"lemmax": None},
}

warnings.filterwarnings("ignore", category=UserWarning, message=".*non-interactive.*")
(pathlib.Path(__file__).parent / "examples").mkdir(exist_ok=True)


def _not_ours(app: object, what: str, name: str, obj: object, skip: bool, options: object) -> bool:
    """Leave out what estimators have from scikit-learn: its own pages explain that."""
    return (
        skip
        or name in ("set_output", "get_metadata_routing")
        or (name.startswith("set_") and name.endswith("_request"))
    )


def _unlink_shapes(app: object, tree: Any) -> None:
    """In "array of shape (n,)", which Sphinx reads as types, shape is no property of a point."""
    for reference in list(tree.findall(pending_xref)):
        if reference.get("reftarget") == "shape":
            reference.replace_self(reference.children)


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("autodoc-skip-member", _not_ours)
    app.connect("doctree-read", _unlink_shapes)
