"""The documentation site: the pages of this folder and the docstrings of every public name. `make docs` builds it."""

import inspect
import os
from typing import Any

from mcf_cli.version import __version__

os.environ["DASK_LOGGING__DISTRIBUTED"] = (
    "error"  # the diary of a cluster that starts and stops is no part of a page
)

project = "mcf"
author = "The mcf maintainers"
copyright = author
version = release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "examples", "sg_execution_times.rst"]
templates_path = ["_templates"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
myst_heading_anchors = 3
suppress_warnings = ["myst.xref_missing"]  # links to files of the checkout, which the site does not hold

autodoc_typehints = "none"  # the numpydoc sections say what a parameter is
autodoc_member_order = "bysource"
autosummary_generate = True
napoleon_google_docstring = False

sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",  # every example runs
    "abort_on_example_error": True,
    "download_all_examples": False,
    "capture_repr": (),
    "min_reported_time": 10**9,  # seconds say more of the machine than of the example
    "write_computation_times": False,
    "show_signature": False,
}

html_theme = "furo"
html_title = f"mcf {version}"
html_show_copyright = False
html_static_path = ["_static"]
html_css_files = ["print.css"]


def leave_out(app: Any, what: str, name: str, member: Any, skip: bool, options: Any) -> bool | None:
    """A class shows the methods that users call, which have numpydoc sections; scikit-learn documents its own."""
    function = inspect.unwrap(getattr(member, "__func__", member))
    ours = (getattr(function, "__module__", None) or "").startswith("mcf_cli")
    sections = inspect.getdoc(member) or ""
    return None if ours and "\nParameters\n" in sections else True


def setup(app: Any) -> None:
    app.connect("autodoc-skip-member", leave_out)
