"""manihash bridge: a model for the vectors of a new embedding model whose codes belong to the old index."""

from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from manihash.cli import _inputs, _options
from manihash.cli._output import key_values, print_json, print_result, written_file
from manihash.cli._progress import progress_shown

if TYPE_CHECKING:
    from manihash.hashers import BridgedHasher
    from manihash.living import BridgeQuality

_KINDS = ("auto", "orthogonal", "low-rank", "ridge", "residual")
REFUSED = 3
_PAIRS_NAMED = 10


def bridge(
    model: _options.Model,
    new: Annotated[
        str, typer.Option("--new", metavar="NEW", help="File of vectors of the new embedding model.")
    ],
    old: Annotated[
        str,
        typer.Option(
            "--old",
            metavar="OLD",
            help="File of vectors of the old embedding model; row i is the same item as row i of NEW.",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="BRIDGED",
            help="File of the bridged model to write. Without it, only the expected loss is shown.",
            show_default=False,
        ),
    ] = None,
    kind: Annotated[
        str, typer.Option("--kind", help=f"Kind of the map: {', '.join(_KINDS)}; auto tries all of them.")
    ] = "auto",
    least: Annotated[
        float,
        typer.Option(
            "--min-share", help="Write nothing if the bridge keeps less than this share of the recall@10."
        ),
    ] = 0.8,
    seed: Annotated[
        int | None,
        typer.Option("--seed", help="Seed of the random numbers.", show_default="derived from the model"),
    ] = None,
    as_json: _options.Json = False,
    quiet: _options.Quiet = False,
) -> None:
    """Make a model for the vectors of a new embedding model; stored codes stay as they are.

    A map from the new vectors to the old ones is learned from pairs: the vectors
    of the same items by both embedding models, usually a few hundred to 10,000.
    The numbers of columns may differ. BRIDGED maps a new vector and encodes it
    with MODEL, so its codes belong to the index of MODEL. encode, search, serve,
    index --add, onnx and drift accept it, and MODEL stays valid for old vectors.

    What the bridge is expected to lose is measured on pairs that the map was not
    learned from, and shown: the recall@10 of new vectors on old codes, as a
    share of that of the old vectors of the same items. If the share is below
    --min-share, nothing is written and the exit code is 3.

    Examples:

      manihash bridge model.mhash --new new_vectors.npy --old old_vectors.npy
      manihash bridge model.mhash --new new_vectors.npy --old old_vectors.npy -o bridged.mhash
      manihash search bridged.mhash codes.mhx new_queries.npy -k 10
      manihash encode bridged.mhash new_rows.npy -o new_codes.npy
      manihash index codes.mhx --add new_codes.npy --model bridged.mhash
    """
    from manihash.checks import positive_number

    if kind not in _KINDS:
        raise typer.BadParameter(f"got --kind {kind}: expected one of {', '.join(_KINDS)}")
    if positive_number(least, "--min-share", zero=True) > 1:
        raise typer.BadParameter(f"got --min-share {least}: expected a share from 0 to 1")
    _inputs.check_inputs(new, old, model=model)
    earlier = False if out is None else _inputs.check_output(out, model, new, old)
    start = perf_counter()
    hasher = _inputs.load_hasher(model)
    with progress_shown(quiet) as bar:
        bar.start("reading vectors")
        X_new, X_old = _inputs.read_vectors(new), _inputs.read_vectors(old)
        bar.start("comparing maps on held-out pairs")
        bridged = hasher.bridge(X_new, X_old, kind=kind, random_state=seed)
    quality = bridged.quality
    refused = out is not None and quality.share < least
    result = {
        "model": str(model),
        "bridged": None if out is None or refused else str(out),
        "id": bridged.lineage_["id"],
        "parent": bridged.lineage_["parent"],
        **asdict(quality),
        "poor": quality.poor,
        "width": bridged.n_features_in_,
        "old_width": hasher.n_features_in_,
    }
    if not as_json:
        print_result(key_values(_as_text(result, quality)))
    if out is not None and not refused:
        bridged.save(out)
        result |= {"replaces_file": earlier, "file_bytes": out.stat().st_size}
    result["seconds"] = round(perf_counter() - start, 3)
    if as_json:
        print_json(result)
    elif out is not None:
        print_result(
            key_values({"model": _written(out, bridged, earlier) if not refused else _refusal(least)})
        )
    if refused:
        raise typer.Exit(REFUSED)


def _as_text(result: dict[str, Any], quality: "BridgeQuality") -> dict[str, str]:
    """Return the choice and its expected loss."""
    low, high = quality.interval
    others = ", ".join(f"{name} {share:.1%}" for name, share in quality.shares.items())
    lines = {
        "pairs": f"{quality.n_pairs:,}, from {result['width']:,} to {result['old_width']:,} columns",
        "map": f"{quality.kind}; share kept by each kind: {others}",
        "share kept": f"{quality.share:.1%} of the recall@10 of old vectors (95 % interval {low:.1%} to "
        f"{high:.1%}), {quality.recall:.3f} instead of {quality.old_recall:.3f} on {quality.n_queries:,} "
        "held-out pairs",
        "bits as before": f"{quality.same_bits:.1%}",
        "with fewer pairs": ", ".join(f"{n:,}: {share:.1%}" for n, share in quality.curve),
    }
    if quality.wrong_pairs:
        named = ", ".join(map(str, quality.wrong_pairs[:_PAIRS_NAMED]))
        more = ", …" if len(quality.wrong_pairs) > _PAIRS_NAMED else ""
        lines["wrong pairs"] = (
            f"{len(quality.wrong_pairs):,} pairs seem to have wrong partners and are left out: {named}{more}"
        )
    return {**lines, "verdict": quality.advice}


def _written(out: Path, bridged: "BridgedHasher", earlier: bool) -> str:
    from manihash.files.lineage import model_id

    file = written_file(str(out), out.stat().st_size, replaced=earlier)
    return f"{file}, id {bridged.lineage_['id']}; its codes belong to model {model_id(bridged)}"


def _refusal(least: float) -> str:
    return f"not written, because the share is below {least:.0%}: give more pairs, or a lower --min-share"
