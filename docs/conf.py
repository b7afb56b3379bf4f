"""How the documentation is built: `make docs`."""

import os
import sys
import warnings
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_extensions"))
os.environ.setdefault("MPLBACKEND", "agg")

import genelin  # noqa: E402

project = "genelin"
author = "the genelin developers"
version = release = genelin.__version__
html_title = f"genelin {version}"
copyright = f"2026, {author}"  # noqa: A001 - Sphinx's name for it

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "prose",
    "mathml",
    "myst_parser",
    "sphinx_copybutton",
    "commands",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "gallery/*.ipynb", "gallery/*.py"]
templates_path = ["_templates"]
html_static_path = ["_static"]
html_css_files = ["genelin.css"]

# Pages load nothing from elsewhere: formulas are MathML, fonts those of the reader.
html_theme = "furo"
html_math_renderer = "mathml"
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b5394", "color-brand-content": "#0b5394"},
    "dark_css_variables": {"color-brand-primary": "#8ab8e6", "color-brand-content": "#8ab8e6"},
}
smartquotes = False
pygments_style = "friendly"
pygments_dark_style = "monokai"

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# Docstrings: `name` is a link where it can be one, and code where it cannot.
default_role = "py:obj"
nitpicky = True
nitpick_ignore_regex = [("py:obj", ".*"), ("py:class", r"numpy\..*")]
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autosummary_generate = True
autosummary_ignore_module_all = False
autosummary_imported_members = True

# The gallery runs every example; one that fails ends the build.
sphinx_gallery_conf = {
    "examples_dirs": ["../examples"],
    "gallery_dirs": ["gallery"],
    "filename_pattern": r"\.py$",
    "abort_on_example_error": True,
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 10_000,
    "remove_config_comments": True,
    "reset_argv": lambda conf, variables: _arguments(Path(variables["src_file"]).stem),
    "write_computation_times": False,
}
suppress_warnings = ["config.cache"]  # a function in the settings above


def _arguments(example: str) -> list[str]:
    """What an example is called with: pictures go to the folder of the build."""
    picture = HERE / "_build" / "demo_digits.png"
    return ["--output", str(picture)] if example == "demo_digits" else []


warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")
