"""The code blocks of README, start and guide run, in order, on small made-up data."""

import doctest
import re
import shlex
import shutil

import numpy as np
import pytest
from doc_pages import PAGES, ROOT, runnable_blocks
from typer.testing import CliRunner

from manihash import HammingIndex, load, recipe
from manihash.cli._app import app
from manihash.datasets import write

HEAVY = pytest.mark.extra  # the pages of the guide take half a minute, and some need optional libraries
RUN = [path for path in PAGES if path == ROOT / "README.md"]
RUN += [path for path in PAGES if path.parent.name == "start"]
RUN += [
    pytest.param(path, marks=HEAVY)
    for path in PAGES
    if path.parent.name == "guide" and path.stem != "coming-from"
]
NOT_RUN = re.compile(r"://|cuda|mnist|…|manihash (paper|demo|serve|explore|choose|data (get|gist))\b")
NEEDS = {"torch": "torch", "dask": "dask", ".lance": "lancedb", "onnx": "onnxruntime", "parquet": "pyarrow"}
NEEDS |= {".duckdb": "duckdb", "usearch": "usearch", "qdrant": "qdrant_client", "apsw": "apsw"}

pytestmark = pytest.mark.skipif(not PAGES, reason="the documentation is not part of this installation")


def clusters(rng, rows, width):
    """Rows in ten clusters, and their labels."""
    y = rng.integers(10, size=rows)
    return (3 * rng.normal(size=(10, width))[y] + rng.normal(size=(rows, width))).astype(np.float32), y


def write_parquet(path, X):
    """Write rows as lists in the column ``embedding``, if pyarrow is installed."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        return
    pq.write_table(pa.table({"embedding": X.tolist()}), path)


@pytest.fixture(scope="module")
def made_up(tmp_path_factory):
    """The folder with the files, and the variables, that the pages take as given."""
    rng = np.random.default_rng(0)
    X, y = clusters(rng, 1120, 128)
    embeddings, _ = clusters(rng, 620, 256)
    hasher = recipe("imh-tsne", n_bits=64, random_state=0).fit(X[:1100])
    codes = hasher.encode(X[:1100])
    folder = tmp_path_factory.mktemp("pages")
    hasher.save(folder / "model.mhash")
    HammingIndex(codes, 64).save(folder / "codes.mhx")
    files = {"vectors": X[:1100], "queries": X[1100:], "labels": y[:1100], "codes": codes, "new": X[1050:]}
    files |= {"phash": codes, "phashes": codes, "ids": np.arange(1100)}
    files |= {"images": rng.integers(256, size=(1100, 8, 8), dtype=np.uint8)}
    files |= {"embeddings": embeddings[:600], "questions": embeddings[600:]}
    turned = X @ np.linalg.qr(rng.normal(size=(128, 128)))[0].astype(np.float32)  # a new embedding model
    files |= {"new_vectors": turned[:1000], "old_vectors": X[:1000], "all_old": X[:1100]}
    files |= {"new_queries": turned[1100:], "new_rows": turned[1100:], "new_codes": np.tile(codes[:50], 2)}
    for name, array in files.items():
        np.save(folder / f"{name}.npy", array)
    write(folder / "vectors.fvecs", X[:1100])
    write_parquet(folder / "vectors.parquet", X[:1100])
    photos = [f"photos/{i:05d}.jpg" for i in range(1100)]
    (folder / "names.txt").write_text("\n".join(photos) + "\n", encoding="utf-8")
    images = rng.integers(256, size=(3, 32, 32), dtype=np.uint8)
    names = {"X": X[:1100], "Q": X[1100:], "y": y[:1100], "codes": codes, "ids": np.arange(1100)}
    names |= {
        "vectors": X[:1100],
        "queries": X[1100:],
        "vector": X[1100],
        "images": images,
        "X_new": X[1000:1100],
        "X_old": X[:1100],
        "chosen": np.arange(1000, 1100),
        "Q_new": X[1100:],
        "new_codes": np.tile(codes[:50], 2),
        "new_vectors": X[1000:],
        "names": photos,
    }
    return folder, names


@pytest.fixture
def workplace(made_up, tmp_path, monkeypatch):
    """A copy of the folder as the current one, and the variables with a hasher of their own."""
    folder, names = made_up
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MANIHASH_CACHE", str(tmp_path / "cache"))
    return {**names, "hasher": load("model.mhash")}


def commands(block):
    """The lines of a shell block that call manihash, with continued lines joined."""
    lines = block.replace("\\\n", " ").splitlines()
    return [line for line in lines if line.startswith("manihash ") and not NOT_RUN.search(line)]


@pytest.mark.parametrize("page", RUN, ids=lambda path: str(path.relative_to(ROOT)))
def test_code_blocks_run(page, workplace):
    names = workplace
    text = page.read_text(encoding="utf-8").replace('"cuda"', '"cpu"')
    for language, block in runnable_blocks(text):
        for word, module in NEEDS.items():
            if word in block:
                pytest.importorskip(module)
        if language == "bash":
            for line in commands(block):
                result = CliRunner().invoke(app, shlex.split(line, comments=True)[1:])
                assert result.exit_code == 0, f"{line}\n{result.output}"
        elif block.startswith(">>>"):
            for example in doctest.DocTestParser().get_examples(block):
                exec(compile(example.source, str(page), "single"), names)
        else:
            exec(compile(block, str(page), "exec"), names)
