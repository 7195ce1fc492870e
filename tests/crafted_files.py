"""Zip bombs and odd Parquet and HDF5 files, and a process that reads them with little memory.

``python crafted_files.py FOLDER START STOP`` runs the cases START to STOP. It prints the number of a case
before it reads the file, so that the parent process knows which case ended the process.
"""

import io
import shutil
import sys
import zipfile
from pathlib import Path

import numpy as np

from manihash import open_vectors
from manihash.errors import DataFileError
from manihash.files.formats import read

MORE_MEMORY = 256 * 2**20  # bytes beyond those of the process after its imports
REFUSED = "refused"  # without an attempt to allocate what the file claims
HUGE = [10**7, 2**31, 10**10, 2**40, 2**62]
TYPES = ["f4", "f8", "f2", ">f4", ">i8", "u1", "i2", "i8", "?"]


def pick(rng, *values):
    """One of the values."""
    return values[rng.integers(len(values))]


def some_rows(rng, kind=None):
    """An array (n, d) of a random type."""
    kind = np.dtype(kind or pick(rng, *TYPES))
    return (4 * rng.normal(size=(int(rng.integers(1, 40)), int(rng.integers(1, 7))))).astype(kind)


def npy_header(shape, kind):
    """The start of an npy file that claims a shape."""
    text = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        text, {"descr": np.dtype(kind).str, "fortran_order": False, "shape": tuple(shape)}
    )
    return text.getvalue()


def write_npz(path, rng):
    """An npz file: a bomb of zeros, a header that claims too much, a wrong size in the directory."""
    compression = pick(rng, zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED, zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2)
    X = some_rows(rng)
    kind, n, d = pick(rng, "bomb", "claim", "fewer", "plain", "objects", "many", "nested"), *X.shape
    if kind == "bomb":
        shutil.copy(path.with_name("bomb.npz"), path)
        return None
    with zipfile.ZipFile(path, "w", compression) as archive:
        if kind == "claim":
            shape = (int(pick(rng, *HUGE)), int(pick(rng, 1, d, 10**6)))
            archive.writestr("X.npy", npy_header(shape, X.dtype) + X.tobytes())
            return REFUSED
        if kind == "fewer":
            archive.writestr("X.npy", npy_header((n, d), X.dtype) + X.tobytes() + bytes(100))
            return X
        if kind == "objects":
            content = io.BytesIO()
            np.save(content, np.array([{}, [1]], object), allow_pickle=True)
            archive.writestr("X.npy", content.getvalue())
            return None
        if kind == "nested":
            archive.writestr("X.npy", b"PK\x05\x06" + bytes(18))
            return None
        names = ["X"] if kind == "plain" else ["X", "X", "../X", "a/b"][: int(rng.integers(2, 5))]
        for name in names:
            archive.writestr(f"{name}.npy", npy_header(X.shape, X.dtype) + X.tobytes())
    return X if kind == "plain" else None


def write_sparse(path, rng):
    """A file of ``scipy.sparse.save_npz`` whose shape or indices are wrong."""
    n, d = (int(pick(rng, 5, *HUGE)) for _ in range(2))
    indices = rng.integers(-1 if rng.random() < 0.3 else 0, 8, size=4)
    indptr = pick(rng, np.arange(5), np.array([0, 9]), np.zeros(int(rng.integers(1, 9)), int), np.arange(6))
    values = {"data": np.ones(4), "indices": indices, "indptr": indptr, "shape": np.array([n, d])}
    np.savez_compressed(path, **values, format=pick(rng, b"csr", b"csc", b"coo", b"bsr", b"xyz"))


def write_parquet(path, rng):
    """A Parquet file of odd types; its expected rows, None if it must not be read as they are."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    X = some_rows(rng, pick(rng, "f4", "f8", "i2", "i8", "u1"))
    n, d = X.shape
    lists = {
        "list": lambda: pa.array(X.tolist(), pa.list_(pa.from_numpy_dtype(X.dtype))),
        "large list": lambda: pa.array(X.tolist(), pa.large_list(pa.from_numpy_dtype(X.dtype))),
        "fixed list": lambda: pa.array(X.tolist(), pa.list_(pa.from_numpy_dtype(X.dtype), d)),
    }
    odd = {
        "null row": lambda: pa.array([None, *X.tolist()], pa.list_(pa.float64())),
        "null value": lambda: pa.array([[None] * d, *X.tolist()], pa.list_(pa.float64())),
        "ragged": lambda: pa.array([[1.0] * (d + 1), *X.tolist()], pa.list_(pa.float64())),
        "empty lists": lambda: pa.array([[]] * n, pa.list_(pa.float64())),
        "nested": lambda: pa.array([[row] for row in X.tolist()]),
        "text": lambda: pa.array(["1,2"] * n),
        "struct": lambda: pa.array([{"a": 1.0}] * n),
        "map": lambda: pa.array([[("a", 1.0)]] * n, pa.map_(pa.string(), pa.float64())),
        "decimal": lambda: pa.array([[1]] * n, pa.list_(pa.int64())).cast(pa.list_(pa.decimal128(25, 2))),
        "time": lambda: pa.array(np.zeros(n, "M8[ns]")),
        "dictionary": lambda: pa.array(["a"] * n).dictionary_encode(),
        "nothing": lambda: pa.nulls(n),
        "bytes": lambda: pa.array([bytes(4)] * n, pa.binary(4)),
    }
    kind = pick(rng, *lists, *odd, "bomb", "no rows", "no columns", "same names")
    options = {"compression": pick(rng, "snappy", "zstd", "gzip", "none"), "row_group_size": 7}
    options["use_dictionary"] = bool(rng.integers(2))
    if kind == "bomb":
        shutil.copy(path.with_name("bomb.parquet"), path)
        return np.zeros((10, 64), np.float32)
    if kind in lists:
        pq.write_table(pa.table({"X": lists[kind]()}), path, **options)
        return X
    if kind == "no rows":
        pq.write_table(pa.table({"X": lists["list"]()})[:0], path, **options)
    elif kind == "no columns":
        pq.write_table(pa.table({}), path)
    elif kind == "same names":
        column = pa.array(X[:, 0])
        pq.write_table(pa.Table.from_arrays([column, column], names=["a", "a"]), path)
    else:
        pq.write_table(pa.table({"X": odd[kind]()}), path, **options)
    return None


def write_hdf5(path, rng):
    """An HDF5 file of odd types; its expected rows, None if it must not be read as they are."""
    import h5py

    X = some_rows(rng)
    kind = pick(
        rng, "plain", "chunks", "bomb", "scalar", "empty", "text", "compound", "vlen", "complex", "reference",
        "group", "soft link", "external link", "virtual", "three axes", "enum", "null", "one axis",
        "unlimited",
    )  # fmt: skip
    with h5py.File(path, "w") as file:
        if kind == "plain":
            file["train"] = X
        elif kind == "chunks":
            filters = pick(
                rng, {"compression": "gzip"}, {"shuffle": True}, {"fletcher32": True}, {"compression": "lzf"}
            )
            file.create_dataset("train", data=X, chunks=(1, X.shape[1]), **filters)
        elif kind == "unlimited":
            file.create_dataset("train", data=X, maxshape=(None, X.shape[1]))
        elif kind == "three axes":
            file["train"] = X[:, :, None]
        elif kind == "bomb":
            shape = int(pick(rng, *HUGE[:4])), int(pick(rng, 8, 1000))
            file.create_dataset("train", shape, "f4", chunks=(100, 8))
        else:
            write_refused(h5py, file, kind, X)
    return X if kind in ("plain", "chunks", "three axes", "unlimited") else None


def write_refused(h5py, file, kind, X):
    """Write a dataset that holds no vectors."""
    match kind:
        case "scalar":
            file["train"] = 3.0
        case "empty":
            file["train"] = np.empty((0, 4))
        case "text":
            file["train"] = ["a", "b"]
        case "compound":
            file["train"] = np.zeros((3, 2), [("a", "f4"), ("b", "i4")])
        case "vlen":
            held = file.create_dataset("train", (3,), h5py.vlen_dtype(np.float32))
            held[0] = [1, 2]
        case "complex":
            file["train"] = np.ones((3, 2), complex)
        case "reference":
            file["train"] = np.array([[file.ref]], h5py.ref_dtype)
        case "group":
            file.create_group("train")["X"] = X
        case "soft link":
            file["train"] = h5py.SoftLink("/nowhere")
        case "external link":
            file["train"] = h5py.ExternalLink("/etc/passwd", "/X")
        case "virtual":
            layout = h5py.VirtualLayout((3, 2), "f4")
            layout[:] = h5py.VirtualSource("/nowhere.h5", "X", (3, 2))
            file.create_virtual_dataset("train", layout)
        case "enum":
            file.create_dataset("train", (3, 2), h5py.enum_dtype({"a": 0, "b": 1}, "i1"))
        case "null":
            file["train"] = h5py.Empty("f4")
        case "one axis":
            file["train"] = X[:, 0]


def write_bombs(folder):
    """Small files of 320 MB of zeros: more than the process may use."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with (
        zipfile.ZipFile(folder / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("X.npy", "w") as file,
    ):
        file.write(npy_header((1_250_000, 64), "f4"))
        for _ in range(320):
            file.write(bytes(10**6))
    zeros = pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(64 * 10_000, np.float32)), 64)
    table = pa.table({"X": zeros})
    with pq.ParquetWriter(folder / "bomb.parquet", table.schema, compression="zstd") as file:
        for _ in range(125):
            file.write_table(table)


WRITERS = {"npz": write_npz, "sparse.npz": write_sparse, "parquet": write_parquet, "h5": write_hdf5}


def run_case(folder, number):
    """Run one case; return what is wrong, or None."""
    rng = np.random.default_rng(number)
    extension = list(WRITERS)[number % len(WRITERS)]
    path = folder / f"case.{extension}"
    expected = WRITERS[extension](path, rng)
    fault = None
    try:
        rows = open_vectors(path)
        if rows.shape[1] > 10**6:  # sparse
            return None
        part = rows[: min(10, rows.shape[0])]
        part = part.toarray() if hasattr(part, "toarray") else np.asarray(part)
        if part.dtype.kind not in "fiub":
            fault = f"type {part.dtype}"
        elif isinstance(expected, np.ndarray) and not np.array_equal(part, expected[:10]):
            fault = "other numbers"
        if expected is REFUSED:
            fault = "read"
        if (
            isinstance(expected, np.ndarray)
            and extension != "sparse.npz"
            and len(expected) < 50
            and rows.shape[0] < 50
        ):
            again = read(path).reshape(len(expected), -1)
            fault = fault or (None if np.array_equal(again, expected) else "other numbers of read")
    except (DataFileError, MemoryError) as error:
        if not str(error):
            fault = "an error without a message"
        elif expected is REFUSED:
            fault = None if isinstance(error, DataFileError) else f"out of memory: {error}"
        elif expected is not None:
            fault = f"refused: {error}"
    except Exception as error:
        fault = f"{type(error).__name__}: {error}"
    path.unlink(missing_ok=True)
    return fault and f"{extension}: {fault}"


def main():
    """Run the cases of the command line with limited memory."""
    import resource

    folder, start, stop = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    write_bombs(folder)
    for number in range(40):  # what reading needs is imported before the memory is limited
        run_case(folder, number)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MORE_MEMORY, used + MORE_MEMORY))
    for number in range(start, stop):
        print("case", number, flush=True)
        if fault := run_case(folder, number):
            print("fault", number, fault, flush=True)


if __name__ == "__main__":
    main()
