"""How the pages are built: `make docs` (warnings are errors, nothing is fetched)."""

import os
import re
import warnings
from pathlib import Path

import hazeglass

HERE = Path(__file__).parent
DATA = HERE.parents[1] / "shared" / "data"
if DATA.is_dir():  # where the tests look for the paper's data sets, too
    os.environ.setdefault("HAZEGLASS_DATA", str(DATA))

TYPES = re.compile(r"float|int|bool|str|array|sequence|tuple|list|matrix|Solution|Release|\{")

project = "hazeglass"
author = "The hazeglass developers"
copyright = "the hazeglass developers"
version = release = hazeglass.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "gallery/**/*.ipynb", "gallery/**/*.py", "gallery/**/*.zip", "gallery/**/*.json"]
nitpicky = False  # types named in docstrings are words for readers, not links

# Markdown: headings are link targets, so that page.md#a-heading is checked.
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3

templates_path = ["_templates"]
autosummary_generate = True
autosummary_ignore_module_all = False
autodoc_member_order = "bysource"
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

html_theme = "pydata_sphinx_theme"
html_title = "hazeglass"
html_static_path = ["_static"]
html_css_files = ["hazeglass.css"]
html_show_sourcelink = False
# Pages without pages below them need no list of those.
ALONE = ("index", "architecture", "paper", "comparison", "datasets", "scale", "journeys", "format/*", "evidence/*")
html_sidebars = {page: [] for page in ALONE}
html_theme_options = {
    "navigation_with_keys": False,
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "navbar_align": "left",
    "header_links_before_dropdown": 5,
}

sphinx_gallery_conf = {
    "examples_dirs": ["../examples"],
    "gallery_dirs": ["gallery"],
    "filename_pattern": r"/plot_",
    "within_subsection_order": "FileNameSortKey",
    "remove_config_comments": True,
    "download_all_examples": False,
    "show_memory": False,
    "plot_gallery": "True",
    "abort_on_example_error": True,
    "show_signature": False,
    "min_reported_time": 10_000,
    "write_computation_times": False,
}

warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")


def setup(app):
    app.connect("autodoc-process-docstring", readable_docstring, priority=400)  # before numpydoc
    app.connect("source-read", without_empty_patterns)


def without_empty_patterns(app, docname, source):
    """Drop a pattern of a table of contents that names no page beyond those listed by name: Sphinx would warn."""
    folder, listed = (HERE / docname).parent, source[0].splitlines()
    kept = [line for line in listed if not line.endswith("*") or " " in line or _others(folder, line, listed)]
    source[0] = "\n".join(kept) + "\n"


def _others(folder, pattern, listed):
    pages = (path.relative_to(folder).with_suffix("").as_posix() for path in folder.glob(f"{pattern}.md"))
    return [page for page in pages if page not in listed and page != "index"]


def readable_docstring(app, what, name, obj, options, lines):
    """Let our plain docstrings keep their meaning on the page.

    |x| is a size, not a name; `name   what it is` is a list; and in `name : what it is` the part after the colon is a
    description unless it begins like a type.
    """
    lines[:] = list(_as_lists(_descriptions(line.replace("|", "\u2223") for line in lines)))


def _descriptions(lines):
    continued = False
    for line in lines:
        entry = re.fullmatch(r"(\w+) : (.*)", line)
        if entry and not TYPES.match(entry[2]):
            continued = True
            yield from (entry[1], f"    {entry[2]}")
        else:
            continued = continued and line.startswith("    ")
            yield f"    {line.strip()}" if continued else line


def _as_lists(lines):
    indent = None
    for line in lines:
        entry = re.fullmatch(r"(\w[\w, ]{,24}?)   *(\S.*)", line)
        if entry:
            indent = line.index(entry[2], len(entry[1]))
            yield from ("", entry[1], f"    {entry[2]}")
        elif indent and line.startswith(" " * indent):
            yield f"    {line.strip()}"
        else:
            if indent and line.strip():
                yield ""
            indent = None
            yield line
