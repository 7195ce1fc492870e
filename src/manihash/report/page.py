"""A page of HTML in one file: no outside resource, images as data URIs, all text escaped.

Markup is of the type ``Html``; anything else handed to these functions is text and is escaped.
"""

import os
from base64 import b64encode
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files

from manihash.files.atomic import atomic_write


class Html(str):
    """Markup, as it stands in a page."""

    __slots__ = ()


def markup(*parts: str) -> Html:
    """The parts in a row: markup as it is, text escaped."""
    return Html("".join(part if isinstance(part, Html) else escape(part) for part in parts))


def tag(name: str, *parts: str, **attributes: str) -> Html:
    """An element with its content; ``class_`` stands for class and ``aria_label`` for aria-label."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(value)}"' for key, value in attributes.items()
    )
    return Html(f"<{name}{written}>{markup(*parts)}</{name}>")


def image(kind: str, content: bytes, alt: str, **attributes: str) -> Html:
    """An image held in the page itself; ``kind`` is png or svg+xml."""
    source = f"data:image/{kind};base64,{b64encode(content).decode()}"
    return Html(tag("img", src=source, alt=alt, **attributes).removesuffix("</img>"))


def table(head: Sequence[str], rows: Iterable[Sequence[str]], caption: str) -> Html:
    """A table whose first column names the rows; wider than the screen, it scrolls by itself."""
    top = tag("tr", *(tag("th", cell, scope="col") for cell in head))
    body = (
        tag("tr", tag("th", name, scope="row"), *(tag("td", cell) for cell in cells)) for name, *cells in rows
    )
    whole = tag("table", tag("caption", caption), tag("thead", top), tag("tbody", *body))
    return tag("div", whole, class_="scroll", tabindex="0", role="region", aria_label=caption)


def figure(content: str, caption: str) -> Html:
    """Something to look at with the sentence that explains it."""
    return tag("figure", content, tag("figcaption", caption))


def side_by_side(*parts: str) -> Html:
    """Parts beside each other where there is room, below each other where there is none."""
    return tag("div", *parts, class_="side-by-side")


def paragraph(*parts: str, class_: str = "text") -> Html:
    """A paragraph of text."""
    return tag("p", *parts, class_=class_)


def code(text: str) -> Html:
    """Lines of code."""
    return tag("pre", tag("code", text), tabindex="0")


class Page:
    """A title, a lead of one or two sentences, and sections that can be linked to by their id.

    ``style`` is CSS that is added to that of all pages.
    """

    def __init__(self, title: str, lead: str, style: str = "") -> None:
        self.title, self.lead, self.style = title, lead, style
        self._sections: dict[str, tuple[str, str, Html]] = {}

    def section(self, id: str, title: str, *parts: str, link: str = "") -> None:
        """Add a section; ids differ, so that each can be linked to, under ``link`` or else its title."""
        if not id or id in self._sections:
            raise ValueError(f"a section needs an id of its own, and {id!r} is empty or taken")
        self._sections[id] = title, link or title, markup(*parts)

    def html(self) -> str:
        """The page as one document."""
        links = (tag("a", link, href=f"#{id}") for id, (_, link, _) in self._sections.items())
        style = files(__package__).joinpath("page.css").read_text("utf-8") + self.style
        head = (
            Html('<meta charset="utf-8">'),
            Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
            tag("title", self.title),
            Html(f"<style>{style}</style>"),
        )
        sections = (
            tag("section", tag("h2", title), content, id=id)
            for id, (title, _, content) in self._sections.items()
        )
        body = tag(
            "main",
            tag("header", tag("h1", self.title), paragraph(self.lead, class_="lead")),
            tag("nav", *links, aria_label="Sections"),
            *sections,
        )
        return f"<!doctype html>\n{tag('html', tag('head', *head), tag('body', body), lang='en')}\n"

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the page, whole or not at all."""
        text = self.html()
        with atomic_write(path) as part:
            part.write_text(text, "utf-8")
