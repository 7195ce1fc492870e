"""
Search texts by meaning
=======================

Texts become vectors (here by TF-IDF and a truncated SVD), and vectors become codes. The texts are the
docstrings of Python's standard library, so nothing is downloaded. With embeddings of a language model, only
the first step changes.
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

from manihash import HammingIndex, recipe
from manihash.evaluation import nearest_euclidean, recall_at_k
from manihash.search import Rescore

# %%
# Collect the docstrings of functions and classes of some packages.

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
                if callable(item) and isinstance(doc, str) and len(doc) > 60:
                    texts.setdefault(doc, f"{package}: {label}")
labels, texts = list(texts.values()), list(texts)
print(f"{len(texts)} texts")

# %%
# Vectors of 64 numbers and unit length, then codes of 64 bits. Nearest texts matter here, not large
# classes, so the recipe is ``itq``.

vectorizer = make_pipeline(
    TfidfVectorizer(stop_words="english", sublinear_tf=True), TruncatedSVD(64, random_state=0), Normalizer()
)
X = vectorizer.fit_transform(texts)
hasher = recipe("itq", n_bits=64, random_state=0).fit(X)
index = HammingIndex(hasher.encode(X), n_bits=64)

# %%
# Ask. The 50 rows with the nearest codes are ranked again by their vectors.

questions = ["read a file line by line", "wait until a thread has finished", "compress files into an archive"]
Q = vectorizer.transform(questions)
_, ids = index.search(hasher.encode(Q), k=4, rescore=Rescore(Q, X, shortlist=50))
for question, answers in zip(questions, ids, strict=True):
    print(f"\n{question}")
    for answer in answers:
        print(f"    {labels[answer]}: {' '.join(texts[answer].split())[:70]}")

# %%
# Do codes keep the neighborhoods? The recall of the true ten nearest texts, by code length, with and
# without ranking the best 50 again.

sample = np.random.default_rng(0).choice(len(X), 200, replace=False)
nearest = nearest_euclidean(X[sample], X, k=10)
lengths, plain, reranked = [16, 32, 48, 64], [], []
for n_bits in lengths:
    hasher = recipe("itq", n_bits=n_bits, random_state=0).fit(X)
    index = HammingIndex(hasher.encode(X), n_bits)
    for results, options in [(plain, {}), (reranked, {"rescore": Rescore(X[sample], X, shortlist=50)})]:
        _, ids = index.search(hasher.encode(X[sample]), k=10, **options)
        results.append(recall_at_k(ids, nearest).mean())
fig, axis = plt.subplots(figsize=(6, 3.5))
axis.plot(lengths, reranked, "o-", label="best 50 ranked again by the vectors")
axis.plot(lengths, plain, "s-", label="ranked by the codes")
axis.set(xlabel="bits", ylabel="recall of the ten nearest", xticks=lengths, ylim=(0, 1))
axis.legend()
plt.show()
