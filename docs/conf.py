"""Settings of the documentation site; `make docs` builds it without a network."""

import logging
import os
import subprocess
import sys
import warnings
from pathlib import Path

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS / "_ext"))

import manihash  # noqa: E402

project = "manihash"
author = "the manihash developers"
project_copyright = "2026, the manihash developers"
version = release = manihash.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_design",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "mathml",
    "figures",
    "api_reference",
    "repository_links",
]
exclude_patterns = ["_ext", "_templates", "results", "gallery/*.ipynb", "gallery/*.py"]
templates_path = ["_templates"]
highlight_language = "none"
nitpicky = True

# Markdown: the anchors that GitHub gives to headings, $formulas$, and ::: for cards and tabs.
myst_enable_extensions = ["colon_fence", "dollarmath", "deflist"]
myst_heading_anchors = 4
myst_dmath_double_inline = True
html_math_renderer = "mathml"  # no JavaScript, so no host that serves it

# API reference: signatures without types, because numpydoc lists the types.
autosummary_ignore_module_all = False
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

sphinx_gallery_conf = {
    "examples_dirs": str(DOCS.parent / "examples"),
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "ignore_pattern": r"^(?!.*plot_)",  # other programs in the folder of examples
    "within_subsection_order": "FileNameSortKey",
    "remove_config_comments": True,
    "download_all_examples": False,
    "show_signature": False,
    "min_reported_time": 36_000,  # times of a shared machine mean little
    "doc_module": ("manihash",),
    "backreferences_dir": "gallery/backreferences",
    "default_thumb_file": str(DOCS / "images" / "logo.png"),
    "write_computation_times": False,  # its page loads scripts from other hosts
}
logging.getLogger("manihash").setLevel(logging.ERROR)
warnings.filterwarnings("ignore", message="n_jobs value", module="umap")

html_theme = "pydata_sphinx_theme"
html_title = "manihash"
html_static_path = ["_static"]
html_css_files = ["manihash.css"]
html_favicon = "images/logo.png"
html_show_sourcelink = False
html_copy_source = False
html_sidebars = {"index": [], "gallery/index": [], "changelog": []}
html_context = {"default_mode": "auto"}
html_theme_options = {
    "logo": {"text": "manihash", "image_light": "images/logo.png", "image_dark": "images/logo.png"},
    "header_links_before_dropdown": 8,
    "navbar_align": "left",
    "navigation_with_keys": False,
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_toc_level": 2,
    "pygments_light_style": "tango",
    "pygments_dark_style": "monokai",
    "search_bar_text": "Search",
}

# The address of the repository, if this checkout or MANIHASH_REPOSITORY knows one that a browser can open.
repository = os.environ.get("MANIHASH_REPOSITORY", "")
if not repository:
    asked = subprocess.run(
        ["git", "-C", str(DOCS), "remote", "get-url", "origin"], capture_output=True, text=True, check=False
    )
    repository = asked.stdout.strip().removesuffix(".git") if asked.stdout.startswith("https://") else ""
if repository and "@" not in repository:
    link = {"name": "Repository", "url": repository, "icon": "fa-solid fa-code-branch"}
    html_theme_options["icon_links"] = [link]

# SQL with parameters such as $query and {query:UInt64} is shown as it is typed.
suppress_warnings = ["misc.highlighting_failure"]
