"""manihash refit: train a model anew on all vectors, so that most bits stay."""

from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer

from manihash.cli import _inputs, _options
from manihash.cli._output import key_values, print_json, print_result, progress_shown, written_file


def refit(
    model: _options.Model,
    vectors: Annotated[str, typer.Argument(metavar="VECTORS", help="File of all vectors, old and new.")],
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="MODEL2", help="File of the refitted model to write.")
    ],
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

    A refitted model does not accept old codes: encode all vectors again, and
    build a new index. Recipes whose bits cannot be aligned, such as agh, end
    with an error: fit a new model then. MODEL itself is not changed. MODEL2 is
    written atomically, when it is complete.

    Examples:

      manihash refit model.mhash all.npy -o model2.mhash
      manihash refit model.mhash all.npy -o model2.mhash --json
      manihash encode model2.mhash all.npy -o codes2.npy
    """
    _inputs.check_inputs(vectors, model=model)
    earlier = _inputs.check_model_output(out, model, vectors)
    start = perf_counter()
    hasher = _inputs.load_hasher(model)
    if seed is not None and "random_state" in hasher.get_params():
        hasher.set_params(random_state=seed)
    with progress_shown(quiet) as bar:
        bar.start("reading vectors")
        with _inputs.opened(vectors, None) as X:
            bar.start("refitting the model")
            found = hasher.refit(X)
        hasher.save(out)
    result = {
        "model": str(out),
        "parent": hasher.lineage_["parent"],
        "id": hasher.lineage_["id"],
        "rows": found.n_rows,
        "bits": hasher.n_bits_,
        "changed_bits": found.changed_bits,
        "changed_codes": found.changed_codes,
        "replaces_file": earlier,
        "file_bytes": out.stat().st_size,
        "seconds": round(perf_counter() - start, 3),
    }
    print_json(result) if as_json else print_result(key_values(_as_text(result, vectors)))


def _as_text(result: dict[str, Any], vectors: str) -> dict[str, str]:
    return {
        "model": written_file(result["model"], result["file_bytes"], replaced=result["replaces_file"])
        + f", id {result['id']}",
        "refitted from": f"the model with id {result['parent']}",
        "learned from": f"{result['rows']:,} vectors in {result['seconds']:.2f} s",
        "bits that change": f"{result['changed_bits']:.2%} (about half after a new fit)",
        "codes that change": f"{result['changed_codes']:.2%} (at least one bit differs)",
        "old codes": "not accepted by the refitted model; encode all vectors again: "
        f"manihash encode {result['model']} {vectors} -o codes.npy",
    }
