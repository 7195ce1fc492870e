"""Checks the built documentation site: links, headings, other hosts, and a page for every public name.

Run by ``make docs``: ``python docs/check_site.py build/site``.
"""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

from api_reference import subjects

LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href", "image": "href"}


class Page(HTMLParser):
    """The links of a page, the files that a browser loads with it, and its anchors."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.anchors |= {value for key in ("id", "name") if (value := found.get(key))}
        if tag == "a" and found.get("href"):
            self.links.append(str(found["href"]))
        if target := found.get(LOADED.get(tag, "")):
            self.loaded.append(target)


def broken_links(site: Path, pages: dict[Path, Page]) -> list[str]:
    """The links to files and headings of the site that do not exist."""
    found = []
    for path, page in pages.items():
        for link in [*page.links, *page.loaded]:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            file = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            file = file / "index.html" if file.is_dir() else file
            anchor = unquote(parts.fragment)
            there = file.is_relative_to(site) and file.exists()
            if not there or (anchor and file in pages and anchor not in pages[file].anchors):
                found.append(f"{path.relative_to(site)}: {link} leads nowhere")
    return found


def other_hosts(site: Path, pages: dict[Path, Page]) -> list[str]:
    """The files that pages and style sheets would load from other hosts."""
    found = [
        f"{path.relative_to(site)}: loads {url}"
        for path, page in pages.items()
        for url in page.loaded
        if urlsplit(url).netloc
    ]
    for path in site.rglob("*.css"):
        urls = re.findall(r"(?:url\(|@import)\s*['\"]?((?:https?:)?//[^'\")\s]+)", path.read_text("utf-8"))
        found += [f"{path.relative_to(site)}: loads {url}" for url in urls]
    return found


def missing_names(site: Path) -> list[str]:
    """The public names without a page."""
    names = [name for listed in subjects().values() for name in listed]
    return [f"{name} has no page" for name in names if not (site / f"api/generated/{name}.html").exists()]


def main(folder: str) -> int:
    """Print what is wrong and return the exit code."""
    site = Path(folder).resolve()
    pages = {path: Page(path) for path in site.rglob("*.html") if "_static" not in path.parts}
    wrong = [*broken_links(site, pages), *other_hosts(site, pages), *missing_names(site)]
    print("\n".join([*wrong, f"{len(pages)} pages checked, {len(wrong)} problems"]))
    return 1 if wrong or not pages else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
