"""Check that a version can be released, and list all problems with what to do: ``make release-check``.

Quick checks: no table is older than the code, of uncommitted code, or without a measurement; version,
changelog and citation agree; everything is committed. The others build sdist and wheel and try both in empty
environments with the newest and the oldest supported versions, and run checks, tests, demo and documentation
in a fresh clone. ``--quick`` leaves these out. The exit status is 1 if there is a problem.
"""

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path += [str(ROOT / "docs" / "_ext"), str(ROOT / "benchmarks")]

import figures  # noqa: E402
from _results import BENCHMARKS, is_older, reasons  # noqa: E402


@dataclass(frozen=True)
class Problem:
    """What is wrong, and what to do."""

    text: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.text}\n    to do: {self.remedy}"


def tables() -> Iterator[Problem]:
    """Tables that are older than the code, of uncommitted code, or not measured."""
    for page in figures.pages():
        name = page.relative_to(ROOT).as_posix()
        for _, kind, asked, _, _ in figures.REGION.findall(page.read_text("utf-8")):
            words = shlex.split(asked)
            if kind == "table":
                lines, sources = figures.lines_and_sources(*words)
            else:
                source = figures.Source(words[0])
                for part in source.seeds(words[1]):
                    source[part]
                lines, sources = [], [source]
            where = f"{name}, {kind} {asked!r}"
            if any(line.startswith("Not measured yet") for line in lines):
                command = lines[0].partition("`")[2].partition("`")[0]
                yield Problem(f"{where}: not measured", f"{command}, then make figures")
            for source in sources:
                yield from parts(where, source.name, source.used)


def parts(where: str, file: str, used: dict[str, dict]) -> Iterator[Problem]:
    """Problems of the results of one table."""
    if file not in BENCHMARKS:
        yield Problem(f"{where}: no command repeats {file}.json", "add it to BENCHMARKS, or remove the table")
        return
    again = f"{BENCHMARKS[file].command}, then make figures"
    older = [part for part, entry in used.items() if is_older(entry)]
    if older:
        why = reasons(used[older[0]], any_versions=True)
        more = f" and {len(why) - 1} more" if len(why) > 1 else ""
        text = f"{where}: {len(older)} of {len(used)} results of {file}.json are older than the code"
        yield Problem(f"{text}, such as {older[0]!r}: {why[0]}{more}", again)
    dirty = [part for part, entry in used.items() if not re.fullmatch(r"[0-9a-f]{7,40}", entry["commit"])]
    if dirty:
        commit = used[dirty[0]]["commit"]
        text = f"{where}: {len(dirty)} of {len(used)} results of {file}.json are of uncommitted code"
        yield Problem(f"{text}, such as {dirty[0]!r} ({commit})", f"commit the code, then {again}")


def version() -> str:
    """The version of the package."""
    return str(tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"])


def agreement(root: Path = ROOT) -> Iterator[Problem]:
    """Version, changelog and citation agree."""
    wanted = str(tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]["version"])
    code = (root / "src" / "manihash" / "__init__.py").read_text("utf-8")
    found = re.search(r'^__version__ = "(.+)"$', code, re.MULTILINE)
    if found is None or found[1] != wanted:
        own = found[1] if found else "no version"
        yield Problem(f"src/manihash/__init__.py has {own}, pyproject.toml {wanted}", "make both equal")
    heading = next(
        iter(re.findall(r"^## (.+)$", (root / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)), ""
    )
    if not re.fullmatch(rf"{re.escape(wanted)} \(20\d\d-\d\d-\d\d\)", heading):
        remedy = f'write "## {wanted} (date of the release)", and below it what changed for users'
        yield Problem(f'the first heading of CHANGELOG.md is "{heading}"', remedy)
    citation = re.search(
        r"^version: *\"?([^\"\n]+)", (root / "CITATION.cff").read_text("utf-8"), re.MULTILINE
    )
    if citation is None or citation[1].strip() != wanted:
        own = citation[1] if citation else "no version"
        yield Problem(f"CITATION.cff has {own}, pyproject.toml {wanted}", f'write "version: {wanted}"')


def committed() -> Iterator[Problem]:
    """Nothing is left to commit, and the tag of the version is not taken."""
    if said("git", "status", "--porcelain"):
        yield Problem("some changes are not committed", "git status, then commit or remove them")
    tagged = said("git", "rev-list", "-n1", f"v{version()}")
    if tagged and tagged != said("git", "rev-parse", "HEAD"):
        yield Problem(f"the tag v{version()} is another commit", "raise the version")


def said(*command: str) -> str:
    """What a command prints; "" if it fails."""
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return "" if done.returncode else done.stdout.strip()


def ran(title: str, command: str, remedy: str, folder: Path = ROOT, **env: str) -> Iterator[Problem]:
    """Run a command and report the end of what it prints if it fails."""
    print(f"== {title}: {command}", flush=True)
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=os.environ | env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        last = "\n".join(f"      {line}" for line in done.stdout.splitlines()[-12:])
        yield Problem(f"{title} fails:\n{last}", f"{remedy}; {command} repeats it")


def packages() -> Iterator[Problem]:
    """sdist and wheel, in empty environments with the newest and with the oldest versions."""
    failed = list(ran("build of sdist and wheel", "make dist", "correct the packaging"))
    yield from failed
    if failed:
        return
    oldest = str(ROOT / "tests" / "oldest-versions.txt")
    for file in ("dist/*.whl", "dist/*.tar.gz"):
        for kind, env in (("newest", {}), ("oldest", {"PIP_CONSTRAINT": oldest})):
            remedy = f"support the {kind} versions, or change those that pyproject.toml allows"
            yield from ran(f"{file} with the {kind} versions", f".ci/try-wheel {file}", remedy, **env)


def clone() -> Iterator[Problem]:
    """Checks, tests, demo and documentation in a fresh clone."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "manihash"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder)], check=True)
        for target, remedy in (
            ("check", "correct what the linters report"),
            ("test", "correct the tests"),
            ("demo", "correct the demo"),
            ("docs", "correct the warnings of the documentation"),
        ):
            yield from ran(f"make {target} in a fresh clone", f"make {target}", remedy, folder)


QUICK: tuple[Callable[[], Iterator[Problem]], ...] = (tables, agreement, committed)
SLOW: tuple[Callable[[], Iterator[Problem]], ...] = (packages, clone)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="build and run nothing")
    options = parser.parse_args()
    checks = QUICK if options.quick else (*QUICK, *SLOW)
    problems = list(dict.fromkeys(problem for check in checks for problem in check()))
    for number, problem in enumerate(problems, 1):
        print(f"{number}. {problem}")
    print(f"{len(problems)} problems" if problems else f"version {version()} can be released")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
