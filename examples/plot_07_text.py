"""
Search texts by meaning
=======================

Texts become vectors, and vectors become codes of 8 bytes. The texts are the docstrings of Python's standard
library, so nothing is downloaded, and anyone can judge the answers. Their vectors are made by TF-IDF and a
truncated SVD; with embeddings of a language model, only this step changes.
"""

import importlib
import inspect
import pkgutil

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from manihash import recipe
from manihash.evaluation import nearest_euclidean, recall_at_k

# %%
# Collect the docstrings of public functions and classes of some packages.

PACKAGES = [
    "asyncio",
    "collections",
    "concurrent.futures",
    "csv",
    "datetime",
    "email",
    "http",
    "json",
    "logging",
]
PACKAGES += ["math", "multiprocessing", "os", "pathlib", "random", "re", "shutil", "socket", "sqlite3", "ssl"]
PACKAGES += ["statistics", "tarfile", "threading", "unittest", "urllib", "xml", "zipfile"]


def modules(name):
    """A package and its modules, without those that do something when imported."""
    package = importlib.import_module(name)
    yield package
    for found in pkgutil.iter_modules(getattr(package, "__path__", []), name + "."):
        if not found.name.endswith("__main__"):
            try:
                yield importlib.import_module(found.name)
            except ImportError:  # parts for other operating systems
                continue


texts = {}
for package in PACKAGES:
    for module in modules(package):
        for name, value in vars(module).items():
            members = vars(value).items() if inspect.isclass(value) else ()
            for label, item in [(name, value), *((f"{name}.{key}", member) for key, member in members)]:
                doc = getattr(item, "__doc__", None)
                public = not any(part.startswith("_") for part in label.split("."))
                if public and callable(item) and isinstance(doc, str) and len(doc) > 60:
                    texts.setdefault(doc, f"{getattr(item, '__module__', None) or package}: {label}")
labels, texts = list(texts.values()), list(texts)
print(f"{len(texts)} texts")

# %%
# Vectors of 128 numbers and unit length, 512 bytes each. The index has 8 bytes per text: the nearest texts
# matter here, not large classes, so the recipe is a product quantizer.

vectorizer = make_pipeline(
    TfidfVectorizer(stop_words="english", sublinear_tf=True, ngram_range=(1, 2), min_df=2),
    TruncatedSVD(128, random_state=0),
    Normalizer(),
)
X = vectorizer.fit_transform(texts).astype(np.float32)
index = recipe("pq", n_bits=64, random_state=0).fit(X).index(X)
print(f"vectors: {X.nbytes / 1e6:.2f} MB, codes: {index.codes.nbytes / 1e6:.2f} MB")

# %%
# Ask in plain words. On the left are the answers of all vectors, on the right those of the codes alone, and a
# plus sign marks the answers that both have. The vectors decide what is near: an answer that misses the
# question on both sides is a fault of the vectors, not of the codes.

questions = [
    "create a zip or tar archive",
    "parse a date from a string",
    "replace parts of a string that match a pattern",
    "remove the directory and its files",
]
Q = vectorizer.transform(questions).astype(np.float32)
exact = nearest_euclidean(Q, X, k=5)
_, found = index.search(Q, k=5)
for question, true, by_code in zip(questions, exact, found, strict=True):
    print(f"\n{question}")
    for left, right in zip(true, by_code, strict=True):
        mark = "+" if right in true else " "
        print(f"    {labels[left]:<42.42} {mark} {labels[right]:<42.42}")

# %%
# How much do codes lose? The recall of the ten nearest texts of 300 texts by code length. Ranking 50
# candidates by their vectors recovers most of it, and reads 50 vectors instead of all.

sample = np.random.default_rng(0).choice(len(X), 300, replace=False)
nearest = nearest_euclidean(X[sample], X, k=10)
lengths = [32, 64, 128, 256]
curves = {}
for name in ("pq", "itq"):
    plain, reranked = [], []
    for n_bits in lengths:
        if name == "itq" and n_bits > X.shape[1]:
            continue  # it has at most as many bits as columns
        coded = recipe(name, n_bits=n_bits, random_state=0).fit(X).index(X)
        plain.append(recall_at_k(coded.search(X[sample], k=10)[1], nearest).mean())
        _, ids = coded.search(X[sample], k=10, rerank=X, candidates=50)
        reranked.append(recall_at_k(ids, nearest).mean())
    curves[name] = plain, reranked
fig, axis = plt.subplots(figsize=(6, 3.5))
for color, (name, (plain, reranked)) in zip(("tab:blue", "tab:orange"), curves.items(), strict=True):
    axis.plot(lengths[: len(plain)], reranked, "o-", color=color, label=f"{name}, 50 ranked by the vectors")
    axis.plot(lengths[: len(plain)], plain, "s--", color=color, label=f"{name}, codes alone")
axis.set(xlabel="bits per text", ylabel="recall of the ten nearest", xticks=lengths, ylim=(0, 1.02))
axis.legend()
plt.show()
