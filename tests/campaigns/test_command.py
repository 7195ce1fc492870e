"""Generated command lines: exit code 0, 2, 3 or 130, never a traceback, and JSON output is valid.

``MANIHASH_CASES=2000 python -m pytest tests/campaigns/test_command.py`` runs more cases than ``make fuzz``.
The seed of a case is its number, from MANIHASH_FIRST on.
"""

import json
import os
import random
import urllib.error
import urllib.request
import webbrowser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from command import invoke
from sklearn.datasets import load_digits

from manihash.cli._app import app

CASES = int(os.environ.get("MANIHASH_CASES", "80"))
FIRST = int(os.environ.get("MANIHASH_FIRST", "0"))
VALID = ["X.npy", "X.csv", "codes.npy", "codes.mhx", "m.mhash", "imh.mhash", "y.npy", "y.csv", "ids.npy"]
INVALID = ["zero.npy", "nan.npy", "empty.npy", "cut.npy", "text.csv", "none.npy", "folder", "X.xyz", "", "-"]
FILES = [*VALID, *INVALID, "X.npz:X", "X.npz:no", "é.npy", "line\nbreak.npy", "images.npy", "t.txt"]
NUMBERS = ["8", "0", "1", "-1", "12", "500", "abc", "", "1e9", "2,8", "nan", "99999999999999999999", "0.5"]
RECIPES = ["lsh", "itq", "pcah", "sign", "sh", "LSH", "nope", "lsh,itq", "", "ldahash", "imh-pca"]
SETTINGS = ["center=False", "center=1", "n_iter=abc", "n_iter=3", "x", "=", "n_bits=3", "normalize=None"]
SETTINGS += ["n_iter=(1,2)", "base__size=10"]
OUTPUTS = ["o.npy", "o.npz", "o.mhx", "o.mhash", "o.csv", "o.faiss", "o.onnx", "o.html", "X.npy", "folder"]
OUTPUTS += ["no/such/o.npy", "x" * 251, "y" * 247 + ".npy", "new/", "/dev/null", "a\x01b.npy"]
STORES = [
    "o.faiss",
    *OUTPUTS,
    "faiss",
    "postgres://u:hunter2@127.0.0.1:1/db",
    "milvus://127.0.0.1:1",
    "sqlite://x",
]
DATA = ["digits", "nope", "mnist", "DIGITS", "", "digits,nope"]
DASK = ["0", "-1", "abc", "", "tcp://127.0.0.1:1", "tcp://", "1.5"]
# What an option is given: the first value in half of the cases, otherwise any of them.
CHOICES = {
    "--recipe": RECIPES,
    "--methods": RECIPES,
    "--set": SETTINGS,
    "--data": DATA,
    "--to": STORES,
    "--store": STORES,
    "--dask": DASK,
    "--device": ["cpu", "cuda", "cuda:9", "abc", "", "tpu"],
    "--precision": ["filtered", "tf32", "float32", "half", ""],
    "--goal": ["auto", "ranking", "look-up", "nope"],
    "--only": ["fig1", "fig1,tab2", "nope", ""],
    "--results": ["results", "folder", "X.npy"],
    "--host": ["127.0.0.1", "0.0.0.0", "nowhere.invalid", ""],
    "--port": ["0", "99999", "abc"],
    "--jobs": ["1", "0", "abc"],
    "--bits": ["12", *NUMBERS],
    "--sample": ["X.npy", "50", "nan.npy", *NUMBERS],
    "--out": OUTPUTS,
    "--export": ["o.html", *OUTPUTS],
    "--labels": ["y.npy", *FILES],
    "--ids": ["ids.npy", *FILES],
    "--remove": ["ids.npy", *FILES],
    "--model": ["m.mhash", *FILES],
    "--compare": ["m.mhash", *FILES],
    "--codes": ["codes.npy", *FILES],
    "--add": ["codes.npy", *FILES],
    "--images": ["images.npy", *FILES],
    "--image-dir": ["folder", *FILES],
    "--texts": ["t.txt", *FILES],
    **{key: ["X.npy", *FILES] for key in ("--vectors", "--train", "--test", "--rerank")},
    **{key: ["t.txt", *FILES] for key in ("--filter", "--api-key-file")},
}
OUT = {"index": "o.mhx", "onnx": "o.onnx", "search": "o.npz"} | dict.fromkeys(
    ("fit", "update", "refit"), "o.mhash"
)
USUAL = {
    **{key: ["X.npy"] for key in ("choose", "report", "explore")},
    "fit": ["X.npy", "--recipe=lsh", "--bits=12"],
    "evaluate": ["--vectors=X.npy", "--labels=y.npy", "--recipe=lsh", "--bits=12", "--queries=9"],
    "index": ["codes.npy", "--bits=12"],
    "export": ["codes.npy", "--bits=12"],
    "info": ["m.mhash"],
    "paper": ["--quick", "--no-run"],
    **{key: ["m.mhash", "X.npy"] for key in ("encode", "drift")},
    **{key: [] for key in ("demo", "data list")},
    "search": ["m.mhash", "codes.npy", "X.npy"],
    **{key: ["imh.mhash", "X.npy"] for key in ("update", "refit")},
    "onnx": ["m.mhash"],
    "serve": ["m.mhash", "codes.mhx"],
    "data get": ["digits"],
    "data gist": ["images.npy"],
}


def commands() -> dict[str, Any]:
    """Every command by its name; those of a group as "group name"."""
    found = {}
    for name, command in typer.main.get_command(app).commands.items():
        inner = getattr(command, "commands", None)
        found |= {f"{name} {k}": v for k, v in inner.items()} if inner else {name: command}
    return found


COMMANDS = commands()


def prepare() -> None:
    """Write valid and invalid files to the current folder."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 12)).astype(np.float32)
    for name in ("X.npy", "é.npy", "line\nbreak.npy"):
        np.save(name, X)
    np.savetxt("X.csv", X, delimiter=",")
    np.savez("X.npz", X=X, y=np.arange(60))
    np.save("y.npy", np.arange(60) % 3)
    np.save("images.npy", rng.integers(0, 256, (60, 8, 8), np.uint8))
    Path("t.txt").write_text("a text\n" * 60)
    Path("y.csv").write_text("\n".join(str(i % 3) for i in range(60)) + "\n\n")
    np.save("ids.npy", np.arange(60))
    np.save("zero.npy", np.uint8(3))
    np.save("nan.npy", np.where(np.arange(12) == 3, np.nan, X))
    np.save("empty.npy", X[:0])
    Path("cut.npy").write_bytes(Path("X.npy").read_bytes()[:200])
    Path("text.csv").write_text("a,b\nc,d\n")
    Path("folder").mkdir(exist_ok=True)
    few = "--set base__size=15 --set embedding__n_iter=20 --set embedding__perplexity=3"
    for line in (
        "fit X.npy --recipe lsh --bits 12 -o m.mhash",
        f"fit X.npy --recipe imh-tsne --bits 12 {few} -o imh.mhash",
        "encode m.mhash X.npy -o codes.npy",
        "index codes.npy --bits 12 -o codes.mhx",
    ):
        assert invoke(line.split()).exit_code == 0


def command_line(rng: random.Random) -> list[str]:
    """Return a random command line, with the options that the command has."""
    name = rng.choice([name for name in COMMANDS if name != "demo" or rng.random() < 0.1])  # it takes seconds
    wrong = DATA if name == "data get" else FILES
    args = name.split()
    args += [rng.choice(wrong) if rng.random() < 0.15 else file for file in USUAL.get(name, ["codes.npy"])]
    options = [param for param in COMMANDS[name].params if param.param_type_name == "option"]
    for option in options:
        text = max(option.opts, key=len)
        needed = option.required or text == "--export"  # without it, a page is served
        if option.is_flag:
            args += [text] if rng.random() < (0.4 if text == "--json" else 0.08) else []
        elif needed or rng.random() < (0.3 if len(options) < 9 else 0.15):
            args += [text, value_of(rng, name, text)]
    return [*args, "--nope"] if rng.random() < 0.01 else args


def value_of(rng: random.Random, name: str, option: str) -> str:
    """A value of an option, a valid one in half of the cases."""
    values = CHOICES.get(option, NUMBERS)
    if rng.random() < 0.5:
        return OUT.get(name, values[0]) if option == "--out" else values[0]
    return rng.choice(values)


def no_network(*args: object, **options: object) -> None:
    """Fail as a download does without a network."""
    raise urllib.error.URLError("no network")


@pytest.fixture
def offline(monkeypatch, empty_home):
    """No downloads, no data but few digits, no browser, and servers that end at once."""
    pytest.importorskip("uvicorn")
    monkeypatch.setattr(urllib.request, "urlopen", no_network)
    digits = [part[:300] for part in load_digits(return_X_y=True)]
    monkeypatch.setattr("sklearn.datasets.load_digits", lambda **options: digits)
    monkeypatch.setattr(webbrowser, "open", lambda *args: True)
    monkeypatch.setattr(typer, "launch", lambda *args: 0)
    monkeypatch.setattr("manihash.web.server._Server.run", lambda *args: None)


@pytest.mark.usefixtures("offline")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(FIRST, FIRST + CASES, 20))
def test_command_lines_end_with_a_message_or_a_result(tmp_path, monkeypatch, seed):
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    prepare()
    for case in range(seed, min(seed + 20, FIRST + CASES)):
        args = command_line(random.Random(case))
        if not Path("X.npy").exists():
            prepare()
        result = invoke(args)
        assert result.exit_code in (0, 2, 3, 130), (args, result.exception, result.output)
        assert "Traceback" not in result.output, args
        assert "hunter2" not in result.output, args
        if "--json" in args and result.stdout.strip():
            json.loads(result.stdout)
