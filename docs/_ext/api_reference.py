"""Writes one page per subject of the API reference, so that each public name is listed and has a page."""

import inspect
import re
import textwrap
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.config import Config

import manihash
from manihash.hashers.recipe_table import RECIPES

FOLDER = Path(__file__).parents[1] / "api"

# file, title, text, public modules, and the folders or modules in which the names of `manihash` are defined
SUBJECTS = [
    (
        "models",
        "Recipes, models and IMH",
        "``recipe`` makes a hasher by name, ``load`` reads one. Every hasher has the methods of ``Hasher``.",
        ["rotation"],
        [
            "hashers.recipes",
            "hashers._hasher",
            "hashers.imh",
            "hashers.hybrid",
            "opening",
            "induction",
        ],
    ),
    (
        "methods",
        "Other methods",
        "The methods that the paper compares with or cites. Each has a page under :doc:`/methods/index`.",
        ["hashers"],
        ["hashers"],
    ),
    (
        "base-sets",
        "Base sets",
        "The base points of ``IMH``, ``AGH`` and ``InductiveEmbedding``, and the search for the nearest.",
        ["base"],
        ["base"],
    ),
    (
        "embeddings",
        "Embeddings",
        "Embeddings of the base set. Any object with ``fit_transform`` can take their place.",
        ["embeddings"],
        ["embeddings"],
    ),
    (
        "search",
        "Search",
        "Exact search in codes: the nearest rows, all rows within a radius, and near-duplicates.",
        ["search"],
        ["search", "code_layout"],
    ),
    (
        "stores",
        "Databases",
        "Codes in DuckDB, SQLite, PostgreSQL, ClickHouse and other databases.",
        ["stores"],
        ["stores"],
    ),
    (
        "evaluation",
        "Evaluation",
        "Ground truth and metrics of codes.",
        ["evaluation"],
        ["evaluation"],
    ),
    (
        "advice",
        "Choosing, drift and updates",
        "Which method suits the data, and whether a model still does.",
        ["advice", "maintenance"],
        ["advice", "maintenance"],
    ),
    (
        "notebook",
        "Pages in notebooks",
        "The page to explore codes and the report, in notebooks and in the browser.",
        ["notebook"],
        ["notebook"],
    ),
    (
        "data",
        "Codes, files and datasets",
        "Packed bits and their forms in other tools, vectors on disk, datasets, and exported models.",
        ["codes", "datasets", "export"],
        ["codes", "datasets", "files", "export"],
    ),
    (
        "devices",
        "GPU and large data",
        "How rows reach a GPU, and with which precision it computes.",
        [],
        ["rows", "compute"],
    ),
    (
        "errors",
        "Errors",
        "The exceptions for invalid rows, files and stores. ``ManihashError`` is the root of all of them.",
        ["errors"],
        [],
    ),
]


def subjects() -> dict[str, list[str]]:
    """The dotted names that each page lists, by the page's file; a name without a subject is an error."""
    pages: dict[str, list[str]] = {file: [] for file, *_ in SUBJECTS}
    for name in manihash.__all__:
        pages[_subject(name)].append(f"manihash.{name}")
    for file, _, _, modules, _ in SUBJECTS:
        pages[file] += [name for module in modules for name in _names_of(module)]
    return pages


def _subject(name: str) -> str:
    """The page of a public name: the one whose home is the longest prefix of the defining module."""
    value = getattr(manihash, name)
    if inspect.isclass(value) and issubclass(value, Exception):
        return "errors"
    module = value.__module__.removeprefix("manihash.")
    fitting = [(len(home), file) for file, *_, homes in SUBJECTS for home in homes if _inside(module, home)]
    if not fitting:
        raise LookupError(f"manihash.{name} is defined in {module}: add that to SUBJECTS in {__file__}")
    return max(fitting)[1]


def _inside(module: str, home: str) -> bool:
    return module == home or module.startswith(home + ".")


def _names_of(module: str) -> list[str]:
    """The public names of a submodule that `manihash` itself does not have."""
    try:
        found = import_module(f"manihash.{module}")
    except ModuleNotFoundError:
        return []
    names = getattr(found, "__all__", None)
    if names is None:
        functions = inspect.getmembers(found, inspect.isfunction)
        names = [name for name, value in functions if value.__module__ == found.__name__ and name[0] != "_"]
    return [f"manihash.{module}.{name}" for name in names if name not in manihash.__all__]


def page(title: str, text: str, names: list[str]) -> str:
    """The source of a page: its title, its text, and a table of names that lead to their own pages."""
    rows = "\n".join(f"   {name}" for name in names)
    mark = "=" * len(title)
    return f"{mark}\n{title}\n{mark}\n\n{text}\n\n.. autosummary::\n   :toctree: generated\n\n{rows}\n"


def write_pages(_app: Sphinx, config: Config) -> None:
    """Write the pages; a page that did not change keeps its time stamp, so that it is not built again."""
    listed = subjects()
    config.autosummary_generate = [f"api/{file}.rst" for file, names in listed.items() if names]
    for file, title, text, *_ in SUBJECTS:
        source = page(title, text, listed[file])
        path = FOLDER / f"{file}.rst"
        if listed[file] and (not path.exists() or path.read_text("utf-8") != source):
            path.write_text(source, "utf-8")


def of_another_package(_app: Sphinx, _what: str, _name: str, member: object, *_: object) -> bool | None:
    """Leave out the methods that scikit-learn and Python define; None keeps what autodoc decided."""
    function = getattr(member, "fget", None) or getattr(member, "__func__", member)
    module = getattr(function, "__module__", None) or getattr(function, "__objclass__", type(None)).__module__
    return None if module.startswith("manihash") else True


def escape_formulas(
    _app: Sphinx, _what: str, _name: str, _obj: object, _options: object, lines: list[str]
) -> None:
    """Escape |x| and names_ outside of code: lengths and attributes for us, references in rst."""
    in_example = False
    for number, line in enumerate(lines):
        in_example = bool(line.strip()) and (in_example or line.lstrip().startswith(">>>"))
        if not in_example and not line.startswith(".. "):
            parts = line.split("``")
            parts[::2] = [re.sub(r"\||(?<=\w)_(?!\w)", r"\\\g<0>", part) for part in parts[::2]]
            lines[number] = "``".join(parts)


def list_recipes(
    _app: Sphinx, _what: str, name: str, _obj: object, _options: object, lines: list[str]
) -> None:
    """Add the recipes and the options of every class to the notes of ``recipe``, from the registry."""
    if name == "manihash.recipe":
        place = lines.index(".. rubric:: Examples")
        listed = ["The recipes, and what they build:", "", *_recipes(), "", "The options of every class:", ""]
        text = [f"    {line}".rstrip() for line in [*listed, *_options_of_classes()]]
        lines[place:place] = [".. rubric:: Notes", "", "::", "", *text, ""]


def _recipes() -> list[str]:
    """A line per recipe with the hasher that it builds, and one with what it is for."""
    found = []
    for name, method in RECIPES.items():
        built = " ".join(repr(method.make()).split())
        found += textwrap.wrap(f"{name} : {built}", 100, subsequent_indent=8 * " ", break_on_hyphens=False)
        found += textwrap.wrap(f"    {method.about}.", 100)
    return found


def _options_of_classes() -> list[str]:
    """The options of every class that recipes build, with the prefixes of parts."""
    found: dict[tuple[str, str], list[str]] = {}
    for method in RECIPES.values():
        for prefix, part in _parts(method.make(), ""):
            elsewhere = {"n_bits", "random_state"} | (
                {"n_components"} if prefix.endswith("embedding__") else set()
            )
            options = [option for option in part.get_params(deep=False) if option not in elsewhere]
            found.setdefault((prefix, type(part).__name__), options)
    texts = [
        f"{name}: {', '.join(prefix + option for option in options) or 'none'}"
        for (prefix, name), options in sorted(found.items())
    ]
    return [line for text in texts for line in textwrap.wrap(text, 100, subsequent_indent="    ")]


def _parts(estimator: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    """An estimator and all its parts with the prefixes of their options."""
    yield prefix, estimator
    for name, value in estimator.get_params(deep=False).items():
        if hasattr(value, "get_params"):
            yield from _parts(value, f"{prefix}{name}__")


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the pages before Sphinx collects the files."""
    app.connect("config-inited", write_pages)
    app.connect("autodoc-skip-member", of_another_package)
    app.connect("autodoc-process-docstring", escape_formulas, priority=900)
    app.connect("autodoc-process-docstring", list_recipes, priority=901)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
