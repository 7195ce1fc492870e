"""The pages of the documentation and the code blocks in them, for the tests of the documentation."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
FENCE = re.compile(r"^(?:<!-- not run: (.+) -->\n)?```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(text, *languages):
    """The contents of the fenced code blocks in the given languages."""
    return [content for _, language, content in FENCE.findall(text) if language in languages]


def runnable_blocks(text):
    """Language and contents of the Python and shell blocks; ``<!-- not run: reason -->`` excludes a block."""
    found = FENCE.findall(text)
    return [
        (language, content) for no, language, content in found if language in ("python", "bash") and not no
    ]


def prose(text):
    """The page without its fenced code blocks."""
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


def inline_code(text):
    """The contents of `single backticks` outside of code blocks."""
    return re.findall(r"`([^`\n]+)`", prose(text))
