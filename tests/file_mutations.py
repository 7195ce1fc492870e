"""Mutated files of every format that manihash reads, and a process that reads them with little memory.

``python file_mutations.py FOLDER START STOP`` runs the cases START to STOP. It prints the number of a case
before it reads the file, so that the parent process knows which case ended the process.
"""

import struct
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from manihash import HammingIndex, load, open_store, open_vectors, recipe
from manihash.errors import DataFileError, ModelFileError
from manihash.files.formats import read, write
from manihash.files.model_format import read_document, write_document
from manihash.hashers import ITQ, SH
from manihash.search import DamagedIndexError
from manihash.stores import StoreError

# What a clean refusal of a damaged file is. ValueError and KeyError are not: they come from the depths.
REFUSALS = (DataFileError, ModelFileError, DamagedIndexError, StoreError)
MORE_MEMORY = 256 * 2**20  # bytes beyond those of the process after its imports; the files have about 10 kB
MODELS = {
    "imh": lambda: recipe("imh-tsne", n_bits=16, base__size=40, random_state=0),
    "large": lambda: recipe("imh-large", n_bits=12, base__base__size=40, random_state=0),
    "agh": lambda: recipe("agh", n_bits=8, base__size=40, random_state=0),
    "itq": lambda: ITQ(n_bits=8, random_state=0),
    "sh": lambda: SH(n_bits=8),
    "sph": lambda: recipe("sph", n_bits=8, random_state=0),
    "klsh": lambda: recipe("klsh", n_bits=8, random_state=0),
}


def write_originals(folder: Path) -> None:
    """Write one valid file of each kind."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 9)).astype(np.float32)
    optional = [name for name, module in (("h5", "h5py"), ("parquet", "pyarrow")) if find_spec(module)]
    for extension in ("npy", "npz", "fvecs", "idx", "idx.gz", "csv", *optional):
        write(folder / f"rows.{extension}", X)
    write(folder / "rows.bvecs", (10 * X).astype(np.uint8))
    _write_sparse(folder / "sparse.npz", X)
    for name, make in MODELS.items():
        make().fit(X).save(folder / f"{name}.mhash")
    codes = rng.integers(0, 256, (200, 4), np.uint8)
    codes[:50] = codes[50]
    HammingIndex(codes, 30 + 2, ids=np.arange(5, 205)).save(folder / "codes.mhx")
    write(folder / "codes.npy", codes)
    _write_faiss(folder / "codes.faiss", codes)


def _write_sparse(path: Path, X: np.ndarray) -> None:
    import scipy.sparse as sp

    sp.save_npz(path, sp.csr_matrix(np.where(X > 0.5, X, 0)))


def _write_faiss(path: Path, codes: np.ndarray) -> None:
    from manihash import create_store

    with create_store(str(path), n_bits=32) as store:
        store.add(codes, ids=np.arange(len(codes)))


def mutated(content: bytes, rng: np.random.Generator) -> bytes:
    """The content with a random change: flipped bits, a cut, a huge number, moved or repeated bytes."""
    data = bytearray(content)
    # Half of the changes are in the header and the other half anywhere, the end included (zip directories).
    span = len(data) if rng.random() < 0.5 else min(len(data), 256)
    at = int(rng.integers(span)) if rng.random() < 0.8 else len(data) - 1 - int(rng.integers(span))
    match int(rng.integers(7)):
        case 0:
            for _ in range(int(rng.integers(1, 9))):
                place = (at + int(rng.integers(16))) % len(data)
                data[place] ^= 1 << int(rng.integers(8))
        case 1:
            del data[at:]
        case 2:
            del data[at : at + int(rng.integers(1, 64))]
        case 3:
            data[at:at] = rng.bytes(int(rng.integers(1, 64)))
        case 4:
            huge = int(rng.choice([2**31 - 1, 2**32 - 1, 2**40, 2**62, 2**63 - 1, -1, 0, 10**9]))
            width = int(rng.choice([2, 4, 8]))
            order = "<" if rng.random() < 0.7 else ">"
            number = struct.pack(f"{order}Q", huge % 2**64)
            data[at : at + width] = number[:width] if order == "<" else number[-width:]
        case 5:
            other = int(rng.integers(len(data)))
            size = int(rng.integers(1, 64))
            data[at : at + size] = data[other : other + size]
        case 6:
            digit = [i for i, byte in enumerate(data[:512]) if 48 <= byte < 58]
            for place in rng.choice(digit, min(3, len(digit))) if digit else ():
                data[int(place)] = 48 + int(rng.integers(10))
    return bytes(data)


def resealed(source: Path, target: Path, rng: np.random.Generator) -> None:
    """Write a model file whose checksum is right and whose arrays or parameters are changed."""
    document, arrays = read_document(source)
    name = str(rng.choice(sorted(arrays)))
    array = arrays[name]
    match int(rng.integers(7)):
        case 0:
            other = str(rng.choice(sorted(arrays)))
            arrays[name], arrays[other] = arrays[other], arrays[name]
        case 1:
            arrays[name] = array[: int(rng.integers(len(array) + 1))] if array.ndim else array
        case 2:
            arrays[name] = array.astype(rng.choice(["i8", "f8", "u1", "f2", "i4"]))
        case 3:
            arrays[name] = array.reshape(-1) if rng.random() < 0.5 else array[None]
        case 4:
            flat = array.copy().reshape(-1)
            if flat.size:
                flat[int(rng.integers(flat.size))] = (
                    rng.choice([0, -1, 2**30]) if flat.dtype.kind in "iu" else np.nan
                )
            arrays[name] = flat.reshape(array.shape)
        case 5:
            del arrays[name]
        case 6:
            place = document["params"] if rng.random() < 0.5 else document["fitted"]
            values = place.get("dict", place)
            key = str(rng.choice(sorted(values)))
            values[key] = [0, -1, 10**9, "x", None, 1.5, True, {"list": []}][int(rng.integers(8))]
    write_document(target, document, arrays)


def read_back(path: Path) -> None:
    """Read a file and use what it holds, as a user would."""
    match path.suffix:
        case ".mhash":
            model = load(path)
            rows = np.random.default_rng(1).normal(size=(3, model.n_features_in_))
            assert model.encode(rows.astype(np.float32)).shape == (3, -(-model.n_bits_ // 8))
        case ".mhx":
            index = HammingIndex.load(path)
            queries = np.zeros((2, -(-index.n_bits // 8)), np.uint8)
            index.search(queries, 3)
            index.within(queries, 2)
            index.verify()
        case ".faiss":
            with open_store(str(path)) as store:
                store.search(np.zeros((1, -(-store.n_bits // 8)), np.uint8), 3)
        case _:
            if not path.name.startswith(("sparse", "case.sparse")):
                read(path)
            _ = open_vectors(path)[:5]


def run_case(folder: Path, number: int) -> str | None:
    """Run one case; return what is wrong, or None."""
    rng = np.random.default_rng(number)
    originals = sorted(path for path in folder.iterdir() if not path.name.startswith("case"))
    source = originals[number % len(originals)]
    target = folder / f"case.{source.name}"
    if source.suffix == ".mhash" and rng.random() < 0.7:
        resealed(source, target, rng)
    else:
        target.write_bytes(mutated(source.read_bytes(), rng))
    try:
        read_back(target)
    except REFUSALS:
        return None
    except MemoryError as error:  # pyarrow allocates what a damaged Parquet file demands
        return None if source.suffix == ".parquet" else f"{source.name}: {error}"
    except Exception as error:
        return f"{source.name}: {type(error).__name__}: {error}"
    finally:
        target.unlink(missing_ok=True)
    return None


def main() -> None:
    """Run the cases of the command line with limited memory."""
    import resource

    folder, start, stop = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    for path in folder.iterdir():  # what reading needs is imported before the memory is limited
        read_back(path)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MORE_MEMORY, used + MORE_MEMORY))
    for number in range(start, stop):
        print("case", number, flush=True)
        if fault := run_case(folder, number):
            print("fault", number, fault, flush=True)


if __name__ == "__main__":
    main()
