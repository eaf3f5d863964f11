"""The site of docs/: `make docs` builds it, strictly, into site/."""

from __future__ import annotations

import sys
from pathlib import Path

from holdfast import __version__

sys.path.insert(0, str(Path(__file__).parent))

project = "Holdfast"
author = "The Holdfast authors"
version = release = __version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "building.insertions",
    "building.offline",
]
exclude_patterns = ["building"]

# GitHub's anchors, so that links hold there and here.
myst_heading_anchors = 4
myst_enable_extensions = ["deflist", "fieldlist"]

# Docstrings have code in single backticks, as Markdown does.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_default_options = {"members": True, "undoc-members": False}
python_maximum_signature_line_length = 88
add_module_names = False

html_theme = "pydata_sphinx_theme"
html_title = "Holdfast"
html_static_path = ["static"]
html_css_files = ["holdfast.css"]
html_favicon = "pictures/mark.svg"
html_context = {"default_mode": "auto"}
html_copy_source = False
html_show_sourcelink = False
html_sidebars = {"index": []}
html_theme_options = {
    "logo": {
        "text": "Holdfast",
        "image_light": "pictures/mark.svg",
        "image_dark": "pictures/mark.svg",
    },
    "navbar_align": "left",
    "header_links_before_dropdown": 7,
    "show_prev_next": True,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
copyright = "the Holdfast authors; Apache License 2.0"
