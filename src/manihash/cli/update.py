"""manihash update: add base points for new vectors to a model, and replace the codes that change."""

from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from manihash.cli import _inputs, _options
from manihash.cli._indexes import check_made_by, check_replaced, is_index, rewritten_index, row_ids
from manihash.cli._output import key_values, print_json, print_result, progress_shown, written_file

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from manihash import HammingIndex, Hasher


def update(
    model: _options.Model,
    vectors: Annotated[str, typer.Argument(metavar="NEW", help="File of new vectors.")],
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="MODEL2", help="File of the updated model to write.")
    ],
    old: Annotated[
        str | None,
        typer.Option(
            "--vectors",
            metavar="OLD",
            help="File of the vectors that were encoded before. They limit and count the codes that change.",
            show_default=False,
        ),
    ] = None,
    codes: Annotated[
        str | None,
        typer.Option(
            "--codes",
            metavar="CODES",
            help=f"Codes of OLD, an npy file or an index file (*{_options.INDEX_SUFFIX}): those that "
            "change are replaced in it.",
            show_default=False,
        ),
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(
            "--store",
            metavar="STORE",
            help=f"Database with the codes of OLD, updated in the same way: {_options.STORES}.",
            show_default=False,
        ),
    ] = None,
    ids: _options.Ids = None,
    max_new_points: Annotated[
        int | None,
        typer.Option(
            "--max-new-points",
            help="Largest number of base points to add.",
            show_default="as many per row as fit",
        ),
    ] = None,
    max_changed: Annotated[
        float, typer.Option("--max-changed", help="Largest share of the old rows whose code may change.")
    ] = 0.02,
    as_json: _options.Json = False,
    quiet: _options.Quiet = False,
) -> None:
    """Add base points for new vectors to a model; nearly all old codes stay valid.

    Base points are added where the new vectors are far from the old ones, and
    embedded with the old ones fixed. With --vectors and --codes or --store,
    the codes that change are replaced. An index that holds its model, as
    manihash build writes it, gets the updated model, too. Files are replaced
    atomically. After an interruption run the same command again: the result is
    the same.

    Examples:

      manihash update model.mhash new.npy -o model2.mhash --vectors old.npy
      manihash update model.mhash new.npy -o model2.mhash --vectors old.npy --codes codes.npy
      manihash update model.mhash new.npy -o model2.mhash --vectors old.npy --codes codes.mhx
      manihash update items.mhx new.npy -o model2.mhash --vectors old.npy --codes items.mhx
    """
    if old is None and (codes is not None or store is not None):
        raise typer.BadParameter("--codes and --store need the vectors of these codes: give --vectors OLD")
    _inputs.check_inputs(vectors, old, codes, ids, model=model)
    earlier = _inputs.check_model_output(out, model, vectors, old, codes, ids)
    if codes is not None:
        check_replaced(codes)
        holds_model = store is None and is_index(codes) and Path(codes).samefile(model)
        _inputs.check_output(codes, None if holds_model else model, vectors, old, ids)
    start = perf_counter()
    before, after = _inputs.load_hasher(model), _inputs.load_hasher(model)
    with progress_shown(quiet) as bar:
        bar.start("updating the model")
        X_old = None if old is None else _inputs.read_vectors(old)
        found = after.update(
            _inputs.read_vectors(vectors), X_old, max_new_points=max_new_points, max_changed=max_changed
        )
        after.save(out)
        replaced = {}
        if codes is not None:
            bar.start(f"replacing codes in {codes}")
            replaced[codes] = _replace(codes, before, after, X_old, ids)
        if store is not None:
            bar.start("replacing codes in the store")
            replaced["store"] = _replace_in_store(store, before, after, X_old, ids)
    result = {
        "model": str(out),
        "parent": after.lineage_["parent"],
        "id": after.lineage_["id"],
        "rows": found.n_rows,
        "added": found.n_added,
        "removed": found.n_removed,
        "changed": found.changed,
        "replaced": replaced,
        "replaces_file": earlier,
        "file_bytes": out.stat().st_size,
        "seconds": round(perf_counter() - start, 3),
    }
    print_json(result) if as_json else print_result(key_values(_as_text(result)))


def _replace(codes: str, before: "Hasher", after: "Hasher", X: Any, ids: str | None) -> int:
    """Replace the codes that change in a file of codes or an index file, and return their number."""
    import numpy as np

    from manihash.files.atomic import atomic_write
    from manihash.maintenance.stored_codes import check_origin, new_codes

    if not is_index(codes):
        stored = _inputs.read_codes(codes)
        check_origin(stored, X, before, after, codes)
        rows, changed = new_codes(after, X, stored)
        if len(rows):
            whole = np.array(stored)
            whole[rows] = changed
            with atomic_write(codes) as part, open(part, "wb") as file:
                np.save(file, whole)
        return len(rows)
    with rewritten_index(codes, Path(codes), with_model=True) as index:
        return _replace_in_index(codes, index, before, after, X, row_ids(ids, len(X)))


def _replace_in_index(
    codes: str, index: "HammingIndex", before: "Hasher", after: "Hasher", X: Any, numbers: "NDArray[Any]"
) -> int:
    """Replace the codes that change in the index of a file, and return their number."""
    import numpy as np

    from manihash.maintenance.stored_codes import check_origin, update_index
    from manihash.search.ids import shown_id

    check_made_by(codes, index, before, after)
    missing = numbers[~index.contains(numbers)]
    if len(missing):
        raise ValueError(
            f"{codes} has no row with id {shown_id(missing[0])} ({len(missing):,} ids of the old vectors "
            "are missing): give the ids of the old vectors with --ids"
        )
    check_origin(index.codes[np.searchsorted(index.ids, numbers)], X, before, after, codes)
    return update_index(index, after, X, numbers)


def _replace_in_store(store: str, before: "Hasher", after: "Hasher", X: Any, ids: str | None) -> int:
    from manihash.maintenance.stored_codes import check_store, update_store
    from manihash.stores import open_store

    numbers = row_ids(ids, len(X))
    with open_store(store) as opened:
        check_store(opened, numbers, X, before, after)
        return update_store(opened, after, X, numbers)


def _as_text(result: dict[str, Any]) -> dict[str, str]:
    changed = "not known: give the old vectors with --vectors"
    if result["changed"] is not None:
        changed = f"{result['changed']:.2%} of the old rows"
    lines = {
        "model": written_file(result["model"], result["file_bytes"], replaced=result["replaces_file"])
        + f", id {result['id']}",
        "base points": f"{result['added']:,} added for {result['rows']:,} new vectors, {result['removed']:,} "
        "not added because they change too many codes",
        "codes that change": changed,
    }
    for name, count in result["replaced"].items():
        lines[f"replaced in {name}"] = f"{count:,} codes"
    return lines
