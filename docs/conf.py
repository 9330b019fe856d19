"""Sphinx configuration of skdp's documentation."""

import re
from itertools import pairwise

from numpydoc.docscrape import NumpyDocString

import skdp

project = "skdp"
author = "The skdp developers"
copyright = "2026, The skdp developers"
version = release = skdp.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "generated/*.txt"]
default_role = None
nitpicky = False

autosummary_generate = True
autosummary_imported_members = False
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the numpydoc sections already say it

# The class template lists the members; numpydoc would list them a second time.
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

html_theme = "pydata_sphinx_theme"
html_title = "skdp"
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["custom.css"]
html_theme_options = {
    "navigation_with_keys": False,
    "show_prev_next": True,
    "footer_start": ["copyright"],
    "footer_end": [],
}

# Otherwise numpydoc warns of an unknown section.
NumpyDocString.sections["Guarantee"] = []

_UNDERLINE = re.compile(r"-{3,}\s*$")


def _section_starts(lines: list[str]) -> list[int]:
    """Line numbers of the numpydoc section titles of a docstring."""
    return [
        i
        for i, (title, below) in enumerate(pairwise(lines))
        if title.strip() and _UNDERLINE.match(below)
    ]


def _promote_guarantee(app, what, name, obj, options, lines: list[str]) -> None:
    """Show the section "Guarantee" as a box at the end of the extended summary.

    numpydoc renders only the sections of its own list.
    """
    starts = _section_starts(lines)
    for start, end in pairwise([*starts, len(lines)]):
        if lines[start].strip() == "Guarantee":
            body = lines[start + 2 : end]
            box = [".. admonition:: Guarantee", ""]
            box += ["   " + line if line.strip() else "" for line in body]
            del lines[start:end]
            lines[starts[0] : starts[0]] = [*box, ""]
            return


_SKLEARN_LINK = re.compile(r":(?:ref|term):`([^`<]*?)\s*(?:<[^`>]*>)?`")


def _unlink_sklearn(app, what, name, obj, options, lines: list[str]) -> None:
    """Turn links of inherited docstrings, into scikit-learn's docs, into text."""
    text = "\n".join(lines)
    if ":ref:" in text or ":term:" in text:
        lines[:] = _SKLEARN_LINK.sub(r"\1", text).split("\n")


def setup(app) -> None:
    """Run before numpydoc, whose listener has the default priority of 500."""
    app.connect("autodoc-process-docstring", _unlink_sklearn, priority=50)
    app.connect("autodoc-process-docstring", _promote_guarantee, priority=100)
