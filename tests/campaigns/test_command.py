"""Generated command lines: exit code 0, 2, 3 or 130, never a traceback, and JSON output is valid."""

import json
import os
import random
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from manihash.cli._app import app

CASES = int(os.environ.get("MANIHASH_CASES", "40"))
FILES = [
    "X.npy",
    "X.csv",
    "codes.npy",
    "codes.mhx",
    "m.mhash",
    "y.npy",
    "y.csv",
    "ids.npy",
    "zero.npy",
    "nan.npy",
]
FILES += [
    "empty.npy",
    "cut.npy",
    "text.csv",
    "none.npy",
    "folder",
    "X.xyz",
    "X.npz:X",
    "X.npz:no",
    "",
    "é.npy",
]
VALUES = ["0", "1", "-1", "8", "12", "500", "abc", "", "1e9", "2,8", "nan", "99999999999999999999"]
RECIPES = ["lsh", "itq", "pcah", "sign", "sh", "LSH", "nope", "lsh,itq", "", "ldahash"]
SETTINGS = [
    "center=False",
    "center=1",
    "n_iter=abc",
    "n_iter=3",
    "x",
    "=",
    "n_bits=3",
    "normalize=None",
    "n_iter=(1,2)",
]
OPTIONS = {
    "fit": ["--labels", "--recipe", "--bits", "--seed", "--set", "--data", "--out"],
    "encode": ["--out", "--precision"],
    "index": ["--out", "--bits", "--ids", "--model"],
    "search": ["-k", "--radius", "--rerank", "--filter", "--out", "--store"],
    "dedup": ["--radius", "--bits", "--ids", "--out"],
    "stats": ["--bits"],
    "export": ["--to", "--bits", "--ids", "--batch"],
    "evaluate": ["--vectors", "--train", "--test", "--labels", "--recipe", "--bits", "--queries", "--seeds"],
    "info": [],
}
FLAGS = [
    "--json",
    "--quiet",
    "--header",
    "--no-header",
    "--index-column",
    "--restart",
    "--verify",
    "--asymmetric",
]
OUTPUTS = [
    "o.npy",
    "o.npz",
    "o.mhx",
    "o.mhash",
    "o.csv",
    "o.faiss",
    "X.npy",
    "folder",
    "no/such/o.npy",
    "x" * 251,
]


def prepare() -> None:
    """Write valid and invalid files to the current folder."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 12)).astype(np.float32)
    np.save("X.npy", X)
    np.save("é.npy", X)
    np.savetxt("X.csv", X, delimiter=",")
    np.savez("X.npz", X=X, y=np.arange(60))
    np.save("y.npy", np.arange(60) % 3)
    Path("y.csv").write_text("\n".join(str(i % 3) for i in range(60)) + "\n\n")
    np.save("ids.npy", np.arange(60))
    np.save("zero.npy", np.uint8(3))
    np.save("nan.npy", np.where(np.arange(12) == 3, np.nan, X))
    np.save("empty.npy", X[:0])
    Path("cut.npy").write_bytes(Path("X.npy").read_bytes()[:200])
    Path("text.csv").write_text("a,b\nc,d\n")
    Path("folder").mkdir()
    for line in ("fit X.npy --recipe lsh --bits 12 -o m.mhash", "encode m.mhash X.npy -o codes.npy"):
        assert CliRunner().invoke(app, line.split()).exit_code == 0
    assert CliRunner().invoke(app, ["index", "codes.npy", "--bits", "12", "-o", "codes.mhx"]).exit_code == 0


def command_line(rng: random.Random) -> list[str]:
    """Return a random command line."""
    name = rng.choice(list(OPTIONS))
    args = [name]
    usual = {"encode": ["m.mhash", "X.npy"], "search": ["m.mhash", "codes.npy", "X.npy"], "fit": ["X.npy"]}
    files = usual.get(name, ["codes.npy"] if name != "evaluate" else [])
    args += [rng.choice(FILES) if rng.random() < 0.3 else file for file in files]
    for option in OPTIONS[name]:
        if rng.random() < 0.45 or option in ("--out", "--to"):
            args += [option, _value(rng, option)]
    return args + [flag for flag in FLAGS if rng.random() < (0.4 if flag == "--json" else 0.08)]


def _value(rng: random.Random, option: str) -> str:
    if option in ("--out", "--to", "--store"):
        return rng.choice(OUTPUTS)
    if option == "--recipe":
        return rng.choice(RECIPES)
    if option == "--set":
        return rng.choice(SETTINGS)
    if option == "--data":
        return rng.choice(["digits", "nope"])
    files = ("--labels", "--ids", "--model", "--rerank", "--filter", "--vectors", "--train", "--test")
    return rng.choice(FILES if option in files else VALUES)


@pytest.mark.parametrize("seed", range(0, CASES, 20))
def test_command_lines_end_with_a_message_or_a_result(tmp_path, monkeypatch, seed):
    monkeypatch.chdir(tmp_path)
    prepare()
    for case in range(seed, min(seed + 20, CASES)):
        args = command_line(random.Random(case))
        if not Path("X.npy").exists():
            prepare()
        result = CliRunner().invoke(app, args)
        assert result.exit_code in (0, 2, 3, 130), (args, result.exception, result.output)
        assert "Traceback" not in result.output, args
        if "--json" in args and result.stdout.strip():
            json.loads(result.stdout)
