"""How the site is built: `sphinx-build -W -b html docs docs/_build/html`."""

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))
os.environ.setdefault("OMP_NUM_THREADS", "1")

from dpsco._version import __version__  # noqa: E402

project = "dpsco"
author = "The dpsco developers"
copyright = "the dpsco developers"
version = release = __version__
language = "en_GB"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_gallery.gen_gallery",
    "sphinx_copybutton",
    "dpsco_docs",
    "dpsco_show",
]
exclude_patterns = ["_build", "gallery"]
source_suffix = {".rst": "restructuredtext", ".md": "markdown"}
default_role = "py:obj"
suppress_warnings = ["config.cache"]  # the gallery's settings hold functions

myst_heading_anchors = 3
myst_enable_extensions = ["dollarmath"]
myst_dmath_allow_space = False  # a dollar sign in a sentence is one
myst_dmath_allow_digits = False
html_math_renderer = "mathml"
strip_signature_backslash = True  # an attribute `coef_` is called that
copybutton_selector = ", ".join(
    f"div.highlight-{language} pre" for language in ("python", "default", "sh", "console", "json")
)
copybutton_exclude = ".linenos, .gp, .go"  # prompts, and what a console prints
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_class_signature = "mixed"
python_maximum_signature_line_length = 80
python_use_unqualified_type_names = True
napoleon_google_docstring = True
napoleon_numpy_docstring = True  # estimators, as in scikit-learn
add_module_names = True
toc_object_entries_show_parents = "hide"

sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "examples",
    "filename_pattern": r"plot_",
    "within_subsection_order": "FileNameSortKey",
    "reset_modules": ("dpsco_docs.plot_style",),
    "abort_on_example_error": True,
    "show_memory": False,
    "parallel": 2,
    "write_computation_times": False,
    "min_reported_time": 60,
    "remove_config_comments": True,
    "download_all_examples": False,
    "show_signature": False,
    "plot_gallery": "True",
}

html_theme = "pydata_sphinx_theme"
html_title = "dpsco"
html_static_path = ["_static"]
html_css_files = ["dpsco.css"]
html_show_sourcelink = False
html_sidebars = {"start": []}
html_copy_source = False
html_context = {"default_mode": "auto"}
html_theme_options = {
    "logo": {"text": "dpsco"},
    "navbar_align": "left",
    "show_toc_level": 2,
    "header_links_before_dropdown": 6,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_prev_next": False,
    "collapse_navigation": False,
}
