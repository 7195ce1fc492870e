"""What a user gives to the commands: files, models and targets."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from manihash import Hasher

Model = Annotated[Path, typer.Argument(help="A model file that [bold]manihash fit[/] wrote.")]
Bits = Annotated[int, typer.Option("--bits", "-b", help="Length of a code.")]
Seed = Annotated[int, typer.Option("--seed", help="The same seed gives the same codes.")]
Dask = Annotated[
    str | None,
    typer.Option(
        "--dask",
        metavar="ADDRESS|N",
        help="Work on a Dask cluster: tcp://host:8786, or a number for so many workers on this machine. "
        "Every worker must see the file of vectors, at the same path.",
    ),
]
Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON document to stdout, and nothing else there.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]

Device = Annotated[
    str | None,
    typer.Option(
        "--device", help="Compute with torch on this device: cuda, cuda:1, cpu.", show_default=False
    ),
]

FILES_HELP = (
    "npy, npz, fvecs, bvecs, idx, HDF5, Parquet or CSV; [bold]file.npz:key[/] names one array or column"
)
# Of a file, from its beginning to its end, that its fingerprint looks at.
_PIECES, _PIECE_BYTES = 64, 4096


def read_vectors(path: str) -> "NDArray[Any]":
    """The rows (n, d) of a data file; images (n, h, w) are rows of pixels."""
    from manihash import datasets

    array = datasets.read(path)
    if array.ndim < 2 or 0 in array.shape:
        raise ValueError(
            f"{path} holds an array of shape {array.shape}: one vector a row (n, d) was wanted. "
            "Reshape it, or name another file"
        )
    return array.reshape(len(array), -1)


@contextmanager
def opened(path: str, dask: str | None) -> Iterator[Any]:
    """The vectors of a file, to be visited in blocks: here, or by the workers of a Dask cluster."""
    from manihash.files import formats
    from manihash.rows import dask as dask_rows

    X = formats.open_vectors(path)
    if dask is None:
        yield X
        return
    file, key = formats.split_key(path)
    place = str(file.absolute()) + (f":{key}" if key else "")
    with dask_rows.connected(dask):
        yield dask_rows.array_of(partial(formats.read_rows, path=place), X.shape, X.dtype)


def check_device(device: str | None, dask: str | None) -> None:
    """Raise before any work is done if the device is not there, or a cluster is asked for too."""
    if device is None:
        return
    if dask is not None:
        raise typer.BadParameter(
            "--device and --dask came: the workers of a cluster compute in numpy, give one"
        )
    from manihash.compute.torch import checked_device

    checked_device(device)


def on_device(X: Any, device: str | None) -> Any:
    """The vectors, sent to a device of torch block by block if one is asked for."""
    if device is None:
        return X
    from manihash import on_device

    return on_device(X, device)


def fingerprint(path: str) -> str:
    """What tells the vectors of a file from others: its size and time, some bytes, the array's name."""
    import hashlib

    from manihash.files import formats

    file, key = formats.split_key(path)
    size, changed = file.stat().st_size, file.stat().st_mtime_ns
    digest = hashlib.sha256(f"{size} {changed} {key}".encode())
    with open(file, "rb") as content:
        for piece in range(_PIECES):
            content.seek(max(0, size - _PIECE_BYTES) * piece // (_PIECES - 1))
            digest.update(content.read(_PIECE_BYTES))
    return digest.hexdigest()


def read_labels(path: str, n_rows: int) -> "NDArray[Any]":
    """One label for each of n_rows rows: numbers, or names in a file of text or an npy file."""
    labels = _names(path, n_rows)
    if labels is None:
        from manihash import datasets

        labels = datasets.read(path)
    if labels.size != n_rows or len(labels) != n_rows:
        raise ValueError(
            f"{path} holds an array of shape {labels.shape}: one label for each of {n_rows:,} rows was wanted"
        )
    return labels.reshape(-1)


def _names(path: str, n_rows: int) -> "NDArray[Any] | None":
    """Labels that are names, one a line or an npy file of strings; None if the file holds no such thing."""
    import numpy as np

    if path.endswith(".npy") and Path(path).is_file():
        held = np.load(path, mmap_mode="r", allow_pickle=False)
        return np.asarray(held) if held.dtype.kind in "US" else None
    if path.endswith((".csv", ".txt")) and Path(path).is_file():
        lines = Path(path).read_text(encoding="utf-8-sig").splitlines()
        lines = lines[1:] if len(lines) == n_rows + 1 else lines  # a header
        return np.array([line.strip() for line in lines])
    return None


def read_ids(path: str) -> "NDArray[Any]":
    """The numbers or booleans in a file; a CSV file has them in text, which are whole numbers again here."""
    import numpy as np

    from manihash import datasets

    ids = datasets.read(path)
    if ids.ndim == 2 and 1 in ids.shape:
        ids = ids.reshape(-1)
    if ids.dtype != np.float64 or not np.isfinite(ids).all() or np.abs(ids).max(initial=0) >= 2**53:
        return ids
    whole = ids.astype(np.int64)
    return whole if np.array_equal(whole, ids) else ids


def read_codes(path: str) -> "NDArray[Any]":
    """Packed codes; a CSV file has them as numbers in text, which are bytes again here."""
    import numpy as np

    from manihash import datasets

    codes = datasets.read(path)
    as_bytes = np.clip(codes, 0, 255).astype(np.uint8) if codes.dtype == np.float64 else codes
    return as_bytes if np.array_equal(as_bytes, codes) else codes


def load_hasher(path: Path) -> "Hasher":
    """The model in a file, if it makes codes."""
    from manihash import Hasher, load

    model = load(path)
    if not isinstance(model, Hasher):
        raise ValueError(
            f"{path} holds {_a(type(model).__name__)}, which makes no codes: give a model that "
            "`manihash fit` wrote"
        )
    return model


def _a(name: str) -> str:
    return f"an {name}" if name[0] in "AEIOU" else f"a {name}"


def check_target(path: Path | str, *inputs: Path | str | None) -> None:
    """Raise before any work is done if the target cannot be written, or is one of the inputs."""
    target = Path(path)
    if target.is_dir():
        raise IsADirectoryError(f"cannot write {target}: it is a folder. Give the name of a file")
    for source in inputs:
        if source is not None and target.exists() and Path(source).exists() and target.samefile(source):
            raise ValueError(f"{target} is also the input: give another target with -o")
    try:
        with tempfile.TemporaryFile(dir=target.parent):
            pass
    except OSError as error:
        raise type(error)(
            f"cannot write {target}: {error.strerror}. Give a target in a folder that exists and that you "
            "can write to"
        ) from error
