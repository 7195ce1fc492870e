"""The catalog of datasets: what they are, where their files come from, how they are read."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from manihash.datasets import sources
from manihash.datasets.locations import PublishedFile, find
from manihash.datasets.sources import SplitSet, UnsplitSet


@dataclass(frozen=True)
class Entry:
    """One dataset of the catalog.

    ``n_queries`` is the default number of queries to draw from a dataset without queries of its own.
    ``made`` is the file in the cache that exists after unpacking the archive or computing the descriptors.
    """

    name: str
    description: str
    is_papers_own: bool
    read: Callable[[Sequence[PublishedFile]], UnsplitSet | SplitSet]
    files: tuple[PublishedFile, ...] = ()
    n_queries: int | None = None
    image_shape: tuple[int, ...] | None = None
    made: str | None = None

    @property
    def is_here(self) -> bool:
        """Whether its files are on this machine; they are neither read nor downloaded."""
        first_suffices = bool(self.files) and not self.files[0].urls
        needed = self.files[:1] if first_suffices else self.files
        return all(find(file.path) for file in needed) or bool(self.made and find(self.made))

    @property
    def is_public(self) -> bool:
        """Whether all its files can be downloaded, or come with scikit-learn."""
        return not self.files or bool(self.files[-1].urls)


_MNIST_SERVERS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)
_TEXMEX_SERVER = "ftp://ftp.irisa.fr/local/texmex/corpus/"


def _mnist_file(name: str, sha256: str) -> PublishedFile:
    """A file of MNIST, which two servers have."""
    return PublishedFile(f"mnist/{name}", sha256, tuple(server + name for server in _MNIST_SERVERS))


def _texmex_file(name: str, sha256: str) -> PublishedFile:
    """An archive of corpus-texmex."""
    return PublishedFile(name, sha256, (_TEXMEX_SERVER + name,))


_ENTRIES = (
    Entry(
        "digits",
        "8 x 8 images of digits, 1,797 x 64 bytes from 0 to 16, 10 classes; comes with scikit-learn",
        False,
        sources.digits,
        n_queries=200,
        image_shape=(8, 8),
    ),
    Entry(
        "mnist",
        "MNIST, 28 x 28 images of handwritten digits, 70,000 x 784 bytes, 10 classes",
        True,
        sources.mnist,
        (
            _mnist_file(
                "train-images-idx3-ubyte.gz",
                "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            ),
            _mnist_file(
                "train-labels-idx1-ubyte.gz",
                "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            ),
            _mnist_file(
                "t10k-images-idx3-ubyte.gz",
                "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            ),
            _mnist_file(
                "t10k-labels-idx1-ubyte.gz",
                "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
            ),
        ),
        n_queries=1000,
        image_shape=(28, 28),
    ),
    Entry(
        "cifar10-gist",
        "512-D gray GIST of the 60,000 images of CIFAR-10, 10 classes; the paper's images and kind of "
        "feature, not its lost feature file",
        False,
        sources.cifar10_gist,
        (
            PublishedFile(
                "cifar10-gist/cifar10_gist512.npz",
                "f2dfd2527119d3d6ed5d52dc3b2053a86e2acd37290d0cba1d2b94eb44a8287f",
            ),
            PublishedFile(
                "cifar-10-binary.tar.gz",
                "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
                ("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",),
            ),
        ),
        n_queries=1000,
        made=sources.COMPUTED_GIST,
    ),
    Entry(
        "sift1m",
        "SIFT1M of corpus-texmex, 1,000,000 + 10,000 SIFT descriptors, 128-D, with the 100 nearest",
        True,
        sources.texmex,
        (_texmex_file("sift.tar.gz", "92f1270c5e3a0cb46b89983e72b0511e4df065c31a9fa0276d8c9b1fca5bc81a"),),
        made="sift/sift_base.fvecs",
    ),
    Entry(
        "gist1m",
        "GIST1M of corpus-texmex, 1,000,000 + 1,000 GIST descriptors, 960-D, with the 100 nearest",
        True,
        sources.texmex,
        (_texmex_file("gist.tar.gz", "01469a7f1c3768853525e543d537e2dfa1adece927616405e360952e3f67df73"),),
        made="gist/gist_base.fvecs",
    ),
    Entry(
        "photo-sift1m",
        "SIFT descriptors of 1,500 photographs, 1,000,000 + 10,000 x 128 bytes; stands in for SIFT1M: other "
        "photographs, other detector",
        False,
        sources.vectors,
        (
            PublishedFile(
                "photo-sift1m/sift_photo1m.npz",
                "cb1a390055a01a3cceb83c5773bf73dfb73c81fc72a07688ae7639e19f9e5946",
            ),
        ),
    ),
    Entry(
        "tiny-gist960",
        "color GIST of Tiny ImageNet, 20,000 + 1,000 x 960 bytes (value = byte / 255), 200 classes; stands "
        "in for GIST1M: other images, 1/50 of its size",
        False,
        sources.vectors,
        (
            PublishedFile(
                "tiny-gist960/gist960_tinyimagenet20k.npz",
                "b8be6b9e8ee5e54c3732c2c62bfd61826fff0acc01be81b586c86a9c64fdf1a5",
            ),
        ),
    ),
    Entry(
        "bigann10k",
        "10,000 descriptors of BIGANN, the set SIFT1M comes from, 128 bytes, with 100 queries that are also "
        "in the base, and the 100 nearest of each",
        False,
        sources.vectors,
        (
            PublishedFile(
                "bigann10k/bigann10k.npz", "b58d06ff1021a7bdd3b9c285749fd81fe163f2e787d99e675d7f277bf88db4e7"
            ),
        ),
    ),
)
CATALOG = {entry.name: entry for entry in _ENTRIES}


def dataset_names() -> list[str]:
    """The names of the datasets that ``load_dataset`` knows."""
    return list(CATALOG)
