"""Links that work on GitHub but not on the site: to pages at the top of the repository, and to folders."""

import re
from pathlib import Path

from sphinx.application import Sphinx

DOCS = Path(__file__).parents[1]
PAGES = {
    DOCS.parent / f"{name.upper()}.md": f"/{name}.md" for name in ("changelog", "contributing", "security")
}


def rewrite(app: Sphinx, docname: str, source: list[str]) -> None:
    """Let such links lead to the site's own copy of a page; the name of a folder becomes plain text."""
    folder = Path(app.env.doc2path(docname)).parent

    def changed(match: re.Match[str]) -> str:
        text, target = match.groups()
        path = (folder / target).resolve()
        if path in PAGES:
            return f"[{text}]({PAGES[path]})"
        return text if path.is_dir() else match[0]

    source[0] = re.sub(r"\[([^\]\n]+)\]\((?![a-z]+:|#)([^)#\s]+)\)", changed, source[0])


def setup(app: Sphinx) -> dict[str, bool]:
    """Rewrite the links of each page before it is parsed."""
    app.connect("source-read", rewrite)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
