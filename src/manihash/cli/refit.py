"""manihash refit: train a model anew on all vectors, so that most bits stay."""

from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from manihash.cli import _inputs, _options
from manihash.cli._indexes import (
    check_made_by,
    check_replaced,
    is_index,
    rewritten_index,
    row_ids,
    rows_of_index,
)
from manihash.cli._output import key_values, print_json, print_result, progress_shown, written_file

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from manihash import Hasher


def refit(
    model: _options.Model,
    vectors: Annotated[
        str, typer.Argument(metavar="VECTORS", help="File of all vectors, the old ones first.")
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="MODEL2", help="File of the refitted model to write.")
    ],
    codes: Annotated[
        str | None,
        typer.Option(
            "--codes",
            metavar="CODES",
            help=f"Old codes of VECTORS, or of their first rows, an npy file or an index file "
            f"(*{_options.INDEX_SUFFIX}): they are replaced by the codes of all VECTORS.",
            show_default=False,
        ),
    ] = None,
    ids: _options.Ids = None,
    seed: Annotated[
        int | None,
        typer.Option("--seed", help="Seed of the random numbers.", show_default="that of the model"),
    ] = None,
    as_json: _options.Json = False,
    quiet: _options.Quiet = False,
) -> None:
    """Train a model anew on all vectors; most bits stay as they are.

    The base points are chosen anew. The embedding starts from the old values of
    the vectors and is aligned to them. Use it if drift advises a refit, or if
    many vectors were added by update.

    A refitted model does not accept old codes. With --codes, they are replaced
    by the codes of all VECTORS, and new rows are added; an index that holds its
    model, as manihash build writes it, gets the refitted model, too. If rows
    were removed from the index, or it has ids of its own, give the ids of VECTORS
    with --ids. Without --codes, encode all vectors again, and build a new index.
    Recipes whose bits cannot be aligned, such as agh, end with an error: fit a
    new model then. MODEL itself is not changed. MODEL2 is written atomically,
    when it is complete.

    Examples:

      manihash refit model.mhash all.npy -o model2.mhash
      manihash refit items.mhx all.npy -o model2.mhash --codes items.mhx
      manihash encode model2.mhash all.npy -o codes2.npy
    """
    if ids is not None and (codes is None or not is_index(codes)):
        raise typer.BadParameter("--ids are the ids of VECTORS in an index file: give --codes INDEX")
    _inputs.check_inputs(vectors, codes, ids, model=model)
    earlier = _inputs.check_model_output(out, model, vectors, codes, ids)
    if codes is not None:
        check_replaced(codes)
        holds_model = is_index(codes) and Path(codes).samefile(model)
        _inputs.check_output(codes, None if holds_model else model, vectors, ids)
    start = perf_counter()
    before, hasher = _inputs.load_hasher(model), _inputs.load_hasher(model)
    if seed is not None and "random_state" in hasher.get_params():
        hasher.set_params(random_state=seed)
    with progress_shown(quiet) as bar:
        bar.start("reading vectors")
        with _inputs.opened(vectors, None) as X:
            if codes is not None:
                _rows_of(codes, ids, X.shape[0])  # raises before the long work
            bar.start("refitting the model")
            found = hasher.refit(X)
            hasher.save(out)
            replaced = None
            if codes is not None:
                bar.start(f"replacing codes in {codes}")
                replaced = _replace(codes, before, hasher, X, ids)
    result = {
        "model": str(out),
        "parent": hasher.lineage_["parent"],
        "id": hasher.lineage_["id"],
        "rows": found.n_rows,
        "bits": hasher.n_bits_,
        "changed_bits": found.changed_bits,
        "changed_codes": found.changed_codes,
        "replaced": {} if replaced is None else {codes: replaced},
        "replaces_file": earlier,
        "file_bytes": out.stat().st_size,
        "seconds": round(perf_counter() - start, 3),
    }
    print_json(result) if as_json else print_result(key_values(_as_text(result, vectors)))


def _rows_of(codes: str, ids: str | None, n: int) -> "NDArray[Any]":
    """Return the row of the vectors (n, d) of each code of a file; raise if a code has no vector."""
    import numpy as np

    if is_index(codes):
        return rows_of_index(codes, ids, n)
    held = len(_inputs.read_codes(codes))
    if held > n:
        raise ValueError(
            f"{codes} holds {held:,} codes, but there are {n:,} vectors: give all vectors, in the order of "
            "the codes"
        )
    return np.arange(held)


def _replace(codes: str, before: "Hasher", after: "Hasher", X: Any, ids: str | None) -> dict[str, int]:
    """Make a file hold the codes of all rows of X, and return how many it had and how many were added."""
    import numpy as np

    from manihash.files.atomic import atomic_write
    from manihash.maintenance.stored_codes import check_codes_of, replace_index

    n = X.shape[0]
    if is_index(codes):
        with rewritten_index(codes, Path(codes), with_model=True) as index:
            check_made_by(codes, index, before, after)
            check_codes_of(index.codes, _rows_of(codes, ids, n), X, before, after, codes)
            added = replace_index(index, after, X, row_ids(ids, n))
        return {"replaced": n - added, "added": added}
    stored = _inputs.read_codes(codes)
    check_codes_of(stored, _rows_of(codes, None, n), X, before, after, codes)
    with atomic_write(codes) as part, open(part, "wb") as file:
        np.save(file, np.concatenate(list(after.encode_blocks(X))))
    return {"replaced": len(stored), "added": n - len(stored)}


def _as_text(result: dict[str, Any], vectors: str) -> dict[str, str]:
    old = (
        f"not accepted by the refitted model; encode all vectors again: manihash encode {result['model']} "
        f"{vectors} -o codes.npy"
    )
    for name, counts in result["replaced"].items():
        old = f"{counts['replaced']:,} replaced in {name}, {counts['added']:,} added"
    return {
        "model": written_file(result["model"], result["file_bytes"], replaced=result["replaces_file"])
        + f", id {result['id']}",
        "refitted from": f"the model with id {result['parent']}",
        "learned from": f"{result['rows']:,} vectors in {result['seconds']:.2f} s",
        "bits that change": f"{result['changed_bits']:.2%} (about half after a new fit)",
        "codes that change": f"{result['changed_codes']:.2%} (at least one bit differs)",
        "old codes": old,
    }
