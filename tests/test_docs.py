"""Links, commands, options, modules, files and make targets that README and docs name exist."""

import ast
import importlib
import re
import shlex
from pathlib import Path
from textwrap import dedent

import pytest
import typer
from doc_pages import PAGES, ROOT, blocks, inline_code, prose

import manihash
from manihash.cli._app import app

PACKAGE = Path(manihash.__file__).parent
TOP_MODULES = {path.stem for path in PACKAGE.iterdir() if not path.name.startswith("_")}
FILE_ENDINGS = (".py", ".json", ".npy", ".mhx", ".faiss", ".lance", ".part", ".journal", ".db", ".sqlite")
FILE_ENDINGS += (".duckdb", ".parquet", ".usearch")
OPTIONS_OF_OTHER_COMMANDS = {"--no-deps", "--nworkers", "--nthreads"}  # of pip and dask worker

pytestmark = [
    pytest.mark.skipif(not PAGES, reason="the documentation is not part of this installation"),
    pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT))),
]


def anchors(path):
    """The anchors that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", prose(path.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def commands():
    """The options of every command by its name, such as ``data get``."""
    found = {}
    waiting = [("", typer.main.get_command(app))]
    while waiting:
        name, command = waiting.pop()
        if hasattr(command, "commands"):
            waiting += [(f"{name} {key}".strip(), value) for key, value in command.commands.items()]
        else:
            options = [param.opts + param.secondary_opts for param in command.params]
            found[name] = set().union({"--help", "-h"}, *options)
    return found


COMMANDS = commands()


def called(line):
    """The command that a line ``manihash COMMAND ...`` calls, and the options it names."""
    words = shlex.split(line.replace("…", " ").replace("'", ""), comments=True)
    words = words[words.index("manihash") + 1 :]
    name = next((name for name in (" ".join(words[:2]), words[0]) if name in COMMANDS), words[0])
    return name, {word.split("=")[0] for word in words if re.fullmatch(r"--?[a-z][\w-]*(=.*)?", word)}


def test_links_lead_to_files_and_headings_that_exist(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{target} is missing"
        assert not anchor or anchor in anchors(file), f"{path} has no heading for #{anchor}"


def test_commands_have_the_options_that_are_named(page):
    text = page.read_text(encoding="utf-8")
    lines = [line for block in blocks(text, "", "bash", "sh") for line in block.splitlines()]
    lines += inline_code(text)
    for line in lines:
        if re.match(r"(\.venv/bin/)?manihash [a-z]", line):
            name, options = called(line)
            assert name in COMMANDS, line
            assert options <= COMMANDS[name], line


def test_command_lines_are_parsed(page):
    for block in blocks(page.read_text(encoding="utf-8"), "bash", "sh"):
        for line in block.replace("\\\n", " ").splitlines():
            if line.startswith("manihash ") and "…" not in line:
                parse(shlex.split(line, comments=True)[1:])


def parse(words):
    """Parse a command line as the command does, without running it."""
    command = typer.main.get_command(app)
    while hasattr(command, "commands"):
        command, words = command.commands[words[0]], words[1:]
    command.make_context(command.name, list(words))


def test_options_that_are_named_alone_exist(page):
    known = set().union(*COMMANDS.values()) | OPTIONS_OF_OTHER_COMMANDS
    for code in inline_code(page.read_text(encoding="utf-8")):
        assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", code)) <= known, code


def test_python_examples_import_what_exists(page):
    for block in blocks(page.read_text(encoding="utf-8"), "python"):
        if block.startswith(">>>"):
            continue
        for node in ast.walk(ast.parse(dedent(block))):
            if isinstance(node, ast.ImportFrom) and node.module.partition(".")[0] == "manihash":
                module = importlib.import_module(node.module)
                assert [a.name for a in node.names if not hasattr(module, a.name)] == []


def test_modules_and_files_that_are_named_exist(page):
    for code in inline_code(page.read_text(encoding="utf-8")):
        word = code.split("(")[0]
        dotted = re.fullmatch(r"[a-z_]+(\.\w+)+", code) and not word.endswith(FILE_ENDINGS)
        if dotted and word.partition(".")[0] in TOP_MODULES | {"manihash"}:
            assert resolves(word), word
        if re.fullmatch(r"(src|tests|docs|benchmarks)/[\w./-]*\w", word):
            assert (ROOT / word).exists(), word
        elif re.fullmatch(r"[a-z_]+(/[\w]+)*(/|\.py)", word) and word.split("/")[0] in TOP_MODULES:
            assert (PACKAGE / word).exists(), word


def resolves(name):
    """Whether a dotted name leads to a module of manihash or to something in one."""
    parts = name.removeprefix("manihash.").split(".")
    for n in range(len(parts), -1, -1):
        try:
            value = importlib.import_module(".".join(["manihash", *parts[:n]]))
        except ModuleNotFoundError:
            continue
        for part in parts[n:]:
            if not hasattr(value, part):
                return False
            value = getattr(value, part)
        return True
    return False


def test_make_targets_that_are_named_exist(page):
    text = page.read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    code = "\n".join([*inline_code(text), *blocks(text, "", "bash", "sh")])
    assert set(re.findall(r"^make ([a-z-]+)", code, re.MULTILINE)) <= targets
