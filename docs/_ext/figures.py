"""Write the tables and numbers of the pages from docs/results: ``make figures``.

A table stands between two comments, a number inside a sentence does too::

    <!-- table: seeds -->
    …
    <!-- end -->
    … a MAP of <!-- value: seeds "imh-tsne, 64 bits" MAP -->0.746<!-- end --> …

The functions of ``tables_of_quality`` and ``tables_of_systems`` return the tables. A line below each table
says where and when it was measured, and whether the measured code has changed since then.
"""

import re
import shlex
import statistics
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path += [str(ROOT / "benchmarks"), str(Path(__file__).parent)]

from _results import BENCHMARKS, FOLDER, held, is_older  # noqa: E402

REGION = re.compile(r"(<!-- (table|value): (.+?) -->)(.*?)(<!-- end -->)", re.DOTALL)
FORM = re.compile(r"(.+?)(?::(,|\.\d+f))?")  # a key, and the format of its value
OLDER = re.compile(r" The code( of \d+ of \d+ parts)? has changed since then\.")


class Source:
    """The parts of one file of results; remembers which of them a table used."""

    def __init__(self, name: str) -> None:
        self.name, self.parts = name, held(name)
        self.used: dict[str, dict[str, Any]] = {}

    def __getitem__(self, part: str) -> Any:
        if part not in self.parts:
            raise KeyError(
                f"docs/results/{self.name}.json has no part {part!r}: it has {', '.join(self.parts)}"
            )
        self.used[part] = self.parts[part]
        return self.parts[part]["results"]

    def seeds(self, part: str) -> list[str]:
        """The parts of all seeds of a fit, or the part itself if it has none."""
        return [name for name in self.parts if re.fullmatch(re.escape(part) + r", seed \d", name)] or [part]

    def get(self, part: str) -> Any:
        """The results of a part, None if it was not measured."""
        return self[part] if part in self.parts else None

    def origin(self, page: Path, short: bool = False) -> str:
        """The date, machine, commit, file and command of the used parts; if short, date and file."""
        days = sorted({part["date"][:10] for part in self.used.values()})
        machines = dict.fromkeys(_machine(part["machine"]) for part in self.used.values())
        commits = dict.fromkeys(part["commit"] for part in self.used.values())
        file = _relative(FOLDER / f"{self.name}.json", page.parent)
        command = BENCHMARKS[self.name].command
        dates = " to ".join(dict.fromkeys([days[0], days[-1]]))
        if short:
            return f"{dates}, [{self.name}]({file}).{self._older()}"
        about = [dates, " / ".join(machines), f"commit{'s' * (len(commits) > 1)} {', '.join(commits)}"]
        about += [f"[results]({file})", f"`{command}`"]
        return ", ".join(about) + "." + self._older()

    def _older(self) -> str:
        """A mark if the code has changed since some of the parts were measured."""
        older = sum(is_older(part) for part in self.used.values())
        some = f" of {older} of {len(self.used)} parts" if older < len(self.used) else ""
        return f" The code{some} has changed since then." if older else ""


def _machine(about: dict[str, str]) -> str:
    if "card" in about:
        return f"{about['card']}, torch {about['torch']}"
    name = re.sub(r"\((R|TM)\)| (Processor|CPU)\b", "", about["processor"])
    cores = f"{about['cores']} cores" if "cores" in about else ""
    threads = f"{about['threads']} thread{'s' * (about['threads'] != '1')}" if "threads" in about else ""
    return " ".join(filter(None, [name, about.get("instructions", ""), threads or cores]))


def _relative(path: Path, folder: Path) -> str:
    up = 0
    while not path.is_relative_to(folder):
        folder, up = folder.parent, up + 1
    return "../" * up + path.relative_to(folder).as_posix()


def table(page: Path, name: str, *arguments: str) -> str:
    """A table with the line about its origin."""
    lines, used = lines_and_sources(name, *arguments)
    origins = " ".join(source.origin(page, short=len(used) > 1) for source in used)
    return "\n" + "\n".join(lines) + (f"\n\n*Measured {origins}*\n" if origins else "\n")


def lines_and_sources(name: str, *arguments: str) -> tuple[list[str], list[Source]]:
    """The lines of a table, and the results that it used."""
    import tables_of_methods
    import tables_of_quality
    import tables_of_systems

    tables = vars(tables_of_quality) | vars(tables_of_systems) | vars(tables_of_methods)
    sources: dict[str, Source] = {}
    lines = tables[name](lambda file: sources.setdefault(file, Source(file)), *arguments)
    return lines, [source for source in sources.values() if source.used]


def value(page: Path, file: str, part: str, *keys: str) -> str:
    """One number; of a list, or of all seeds of a part, the mean.

    The last key may end with a format, such as ``MAP:.2f``.
    """
    last, form = FORM.fullmatch(keys[-1]).groups()  # type: ignore[union-attr]
    source = Source(file)
    values = []
    for name in source.seeds(part):
        found = source[name]
        for key in (*keys[:-1], last):
            found = found[key]
        values += found if isinstance(found, list) else [found]
    mean = statistics.mean(values) if len(values) > 1 else values[0]
    return format(mean, form or (".3f" if isinstance(mean, float) else ","))


def written(text: str, page: Path) -> str:
    """The page with all its tables and numbers."""

    def region(match: re.Match[str]) -> str:
        start, kind, asked, _, end = match.groups()
        make = {"table": table, "value": value}[kind]
        return start + make(page, *shlex.split(asked)) + end

    return REGION.sub(region, text)


def without_marks(text: str) -> str:
    """The page without the marks of older results: they depend on the code and not on the results."""
    return OLDER.sub("", text)


def pages() -> list[Path]:
    """The pages that have tables or numbers from results."""
    found = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [page for page in found if REGION.search(page.read_text("utf-8"))]


def setup(app: Any) -> dict[str, bool]:
    """Write the regions again when the site is built, so that the marks are those of the present code."""

    def rewrite(app: Any, docname: str, source: list[str]) -> None:
        source[0] = written(source[0], Path(app.env.doc2path(docname)))

    app.connect("source-read", rewrite)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def main() -> None:
    for page in pages():
        text = page.read_text("utf-8")
        new = written(text, page)
        if new != text:
            page.write_text(new, "utf-8")
            print(f"written: {page.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
