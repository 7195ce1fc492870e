"""manihash index: codes as an index file, which opens at once; and the check of such a file."""

from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from manihash.cli import _inputs
from manihash.cli._output import facts, file_size, show, show_json
from manihash.cli._progress import watched

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from manihash import HammingIndex

SUFFIX = ".mhx"

CodeBits = Annotated[
    int | None,
    typer.Option("--bits", "-b", help="Length of a code; all bits of its bytes if nothing is said."),
]
Ids = Annotated[
    str | None,
    typer.Option("--ids", help="Different whole numbers, one for each code; without, the rows from 0."),
]


def index(
    codes: Annotated[
        str,
        typer.Argument(
            help="Codes that [bold]manihash encode[/] wrote, or bytes made elsewhere; with --verify an index."
        ),
    ],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help=f"The index file to write, named *{SUFFIX}.")
    ] = None,
    bits: CodeBits = None,
    ids: Ids = None,
    model: Annotated[
        Path | None,
        typer.Option(
            "--model",
            help="The model that made the codes: it gives their length, and a search by another is refused.",
            show_default=False,
        ),
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Write nothing: read every byte of an index file and check it.")
    ] = False,
    as_json: _inputs.Json = False,
    quiet: _inputs.Quiet = False,
) -> None:
    """Group codes that are equal and write them as an index file, or check such a file.

    A search opens the file at once, whatever its size: it is mapped into
    memory, and only its header, sizes and offsets are checked then. --verify
    checks the rest. A file that stands at the target is replaced when the new
    one is whole, and not before.

    Examples:

      manihash index codes.npy --model model.mhash -o codes.mhx
      manihash index phash.npy --bits 60 -o phash.mhx
      manihash index codes.mhx --verify
      manihash search model.mhash codes.mhx queries.npy -k 10
    """
    from manihash.files.atomic import sha256_of

    start = perf_counter()
    with watched(quiet) as watch:
        if verify:
            watch.begin(f"verifying {codes}")
            file, held = Path(codes), _verified(codes, out, bits, ids, model)
        else:
            watch.begin("grouping codes")
            file = _target(out, codes, ids, model)
            held = _built(codes, bits if model is None else _bits_of(model, bits), ids)
            held.made_by = None if model is None else sha256_of(model)
            held.save(file)
        told = {
            "index": str(file),
            "verified": verify,
            "rows": len(held),
            "bits": held.n_bits,
            "model_sha256": held.made_by,
            "distinct_codes": held.distinct_codes,
            "file_bytes": file.stat().st_size,
            "seconds": round(perf_counter() - start, 3),
        }
    show_json(told) if as_json else show(facts(_in_words(told)))


def open_index(path: str, bits: int | None = None) -> "HammingIndex":
    """The index in a file, mapped into memory; of a file of codes, an index of them."""
    if not is_index(path):
        return _built(path, bits, None)
    from manihash import HammingIndex

    held = HammingIndex.load(path)
    if bits is not None and bits != held.n_bits:
        raise ValueError(f"{path} holds codes of {held.n_bits} bits, and --bits {bits} came: leave it out")
    return held


def is_index(path: str) -> bool:
    """Whether a file is an index by its name."""
    return path.lower().endswith(SUFFIX)


def check_model(path: str, held: "HammingIndex", model: Path) -> None:
    """Raise if an index remembers another model, by which queries have codes that mean something else."""
    from manihash.files.atomic import sha256_of

    if held.made_by is not None and held.made_by != sha256_of(model):
        raise ValueError(
            f"{path} holds codes of another model than {model}: give the one that made them or, if it is "
            f"this one, build the index anew with --model {model}"
        )


def code_bits(codes: "NDArray[Any]", bits: int | None) -> int:
    """The length of codes (n, b) as it was given, or all bits of their bytes."""
    from manihash.checks import positive_int

    if bits is not None:
        return positive_int(bits, "--bits")
    return 8 * codes.shape[-1] if codes.ndim == 2 and codes.shape[1] else 1


def _built(codes: str, bits: int | None, ids: str | None) -> "HammingIndex":
    from manihash import HammingIndex

    rows = _inputs.read_codes(codes)
    return HammingIndex(rows, code_bits(rows, bits), None if ids is None else _inputs.read_ids(ids))


def _bits_of(model: Path, bits: int | None) -> int:
    """The length of a model's codes, which --bits may only repeat."""
    length = _inputs.load_hasher(model).n_bits
    if bits not in (None, length):
        raise ValueError(f"{model} makes codes of {length} bits, and --bits {bits} came: leave it out")
    return length


def _target(out: Path | None, *inputs: Path | str | None) -> Path:
    if out is None:
        raise typer.BadParameter("give the file to write with -o, or an index to check with --verify")
    if not is_index(str(out)):
        raise ValueError(f"{out} came as target: a name that ends in {SUFFIX} was wanted, by it it is known")
    _inputs.check_target(out, *inputs)
    return out


def _verified(
    path: str, out: Path | None, bits: int | None, ids: str | None, model: Path | None
) -> "HammingIndex":
    if any(given is not None for given in (out, ids, model)):
        raise typer.BadParameter("--verify checks a file and writes none: leave out -o, --ids and --model")
    if not is_index(path):
        raise ValueError(f"{path} came to be verified: an index file, named *{SUFFIX}, was wanted")
    held = open_index(path, bits)
    held.verify()
    return held


def _in_words(told: dict[str, Any]) -> dict[str, str]:
    each = told["rows"] / max(1, told["distinct_codes"])
    done = "every byte is as it was written" if told["verified"] else f"built in {told['seconds']:.2f} s"
    return {
        "index": f"{told['index']} ({file_size(told['file_bytes'])}), {done}",
        "rows": f"{told['rows']:,} of {told['bits']} bits",
        "distinct codes": f"{told['distinct_codes']:,} ({each:.1f} rows each)",
    }
