"""HTML pages from jinja2 templates, each one file without outside resources: images are data URIs.

All values are escaped. ``templates/page.html`` is the frame of every page, ``templates/macros.html`` has the
building blocks, and each page has its own template in the package that makes it.
"""

import os
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any

from manihash.checks import extra
from manihash.files.atomic import atomic_write
from manihash.pages import pictures


def render(
    package: str, template: str, filters: Mapping[str, Callable[..., Any]] | None = None, **values: Any
) -> str:
    """The page that a template of the package makes of the values; the template can use the filters."""
    return str(environment(package, filters).get_template(template).render(values))


def write(path: str | os.PathLike[str], html: str) -> None:
    """Write the page atomically."""
    with atomic_write(path) as part:
        part.write_text(html, "utf-8")


def environment(package: str, filters: Mapping[str, Callable[..., Any]] | None = None) -> Any:
    """The jinja2 environment with the templates of the package and those of all pages."""
    jinja2 = extra("jinja2", "plot")
    folders = [jinja2.PackageLoader(name, "templates") for name in (package, "manihash.pages")]
    made = jinja2.Environment(
        loader=jinja2.ChoiceLoader(folders),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(filters or {})
    made.filters["svg_uri"] = lambda svg: _data_uri("svg+xml", svg)
    made.filters["png_uri"] = lambda pixels: _data_uri("png", pictures.png(pixels))
    made.tests["coarse"] = pictures.is_coarse
    return made


def _data_uri(kind: str, content: bytes) -> str:
    return f"data:image/{kind};base64,{b64encode(content).decode()}"
