"""manihash bridge: a model for the vectors of a new embedding model whose codes belong to the old index."""

from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from manihash.cli import _inputs, _options
from manihash.cli._output import key_values, print_json, print_result, progress_shown, written_file

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from manihash.hashers import BridgedHasher
    from manihash.maintenance import BridgeQuality

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
    rows: Annotated[
        str | None,
        typer.Option(
            "--rows",
            metavar="ALL_OLD",
            help="File of further old vectors, for example all stored ones: the loss is measured among them. "
            "Use it if there are fewer than 1,000 pairs.",
            show_default=False,
        ),
    ] = None,
    kind: Annotated[
        str, typer.Option("--kind", help=f"Kind of the map: {', '.join(_KINDS)}; auto tries all of them.")
    ] = "auto",
    least: Annotated[
        float,
        typer.Option(
            "--min-share",
            help="Write nothing if the bridge keeps less than this share of the recall@10, or if the share "
            "is uncertain; 0 to write it in any case.",
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
    of the same items by both embedding models, usually 1,000 to 10,000.
    The numbers of columns may differ. BRIDGED maps a new vector and encodes it
    with MODEL, so its codes belong to the index of MODEL. encode, search, serve,
    index --add, onnx and drift accept it, and MODEL stays valid for old vectors.

    What the bridge is expected to lose is measured on pairs that the map was not
    learned from, and shown: the recall@10 of new vectors on old codes, as a
    share of that of the old vectors of the same items. Among few old vectors
    the nearest ten are easy to find: with fewer than 1,000 pairs, give --rows.
    If the share is below --min-share or uncertain, nothing is written and the
    exit code is 3.

    Examples:

      manihash bridge model.mhash --new new_vectors.npy --old old_vectors.npy
      manihash bridge model.mhash --new new_vectors.npy --old old_vectors.npy -o bridged.mhash
      manihash bridge model.mhash --new new.npy --old old.npy --rows all_old.npy -o bridged.mhash
      manihash search bridged.mhash codes.mhx new_queries.npy -k 10
      manihash encode bridged.mhash new_rows.npy -o new_codes.npy
      manihash index codes.mhx --add new_codes.npy --model bridged.mhash
    """
    from manihash.checks import positive_number

    if kind not in _KINDS:
        raise typer.BadParameter(f"got --kind {kind}: expected one of {', '.join(_KINDS)}")
    if positive_number(least, "--min-share", zero=True) > 1:
        raise typer.BadParameter(f"got --min-share {least}: expected a share from 0 to 1")
    files = [new, old] if rows is None else [new, old, rows]
    _inputs.check_inputs(*files, model=model)
    earlier = False if out is None else _inputs.check_model_output(out, model, *files)
    start = perf_counter()
    hasher = _inputs.load_hasher(model)
    with progress_shown(quiet) as bar:
        bar.start("reading vectors")
        X_new, X_old = _inputs.read_vectors(new), _inputs.read_vectors(old)
        reference = None if rows is None else _inputs.read_vectors(rows)
        _check_widths(hasher.n_features_in_, {"--old": X_old, "--rows": reference}, X_new)
        bar.start("comparing maps on held-out pairs")
        bridged = hasher.bridge(X_new, X_old, kind=kind, reference=reference, random_state=seed)
    quality = bridged.quality
    refusal = _refusal(quality, least)
    refused = out is not None and refusal is not None
    result = {
        "model": str(model),
        "bridged": None if out is None or refused else str(out),
        "id": bridged.lineage_["id"],
        "parent": bridged.lineage_["parent"],
        **asdict(quality),
        "poor": quality.poor,
        "verdict": quality.verdict,
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
        print_result(key_values({"model": _written(out, bridged, earlier) if refusal is None else refusal}))
    if refused:
        raise typer.Exit(REFUSED)


def _check_widths(width: int, old: "dict[str, NDArray[Any] | None]", X_new: "NDArray[Any]") -> None:
    """Raise if old vectors, by the names of their options, are not of the model's width."""
    for option, X in old.items():
        if X is None or X.shape[1] == width:
            continue
        swapped = option == "--old" and X_new.shape[1] == width
        raise ValueError(
            f"{option} has vectors of {X.shape[1]:,} columns, --new has {X_new.shape[1]:,}, and the model "
            f"was fitted to {width:,}: "
            + ("are --old and --new swapped?" if swapped else f"give old vectors of {width:,} columns")
        )


def _as_text(result: dict[str, Any], quality: "BridgeQuality") -> dict[str, str]:
    """Return the choice and its expected loss."""
    low, high = quality.interval
    others = ", ".join(f"{name} {share:.1%}" for name, share in quality.shares.items())
    lines = {
        "pairs": f"{quality.n_pairs:,}, from {result['width']:,} to {result['old_width']:,} columns",
        "map": f"{quality.kind}; share kept by each kind: {others}",
        "share kept": f"{quality.share:.1%} of the recall@10 of old vectors (95 % interval {low:.1%} to "
        f"{high:.1%}), {quality.recall:.3f} instead of {quality.old_recall:.3f} among "
        f"{quality.n_ranked:,} old vectors; cross-validation, {quality.n_queries:,} held-out pairs",
        "bits as before": f"{quality.same_bits:.1%}, {quality.chance_bits:.1%} by chance",
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


def _refusal(quality: "BridgeQuality", least: float) -> str | None:
    """Return why the bridge is not written, None if it is."""
    if quality.share < least:
        return f"not written, because the share is below {least:.0%}: see the verdict, or lower --min-share"
    if least and quality.verdict == "uncertain":
        return (
            "not written, because the share is uncertain: give all old vectors by --rows, give more pairs, "
            "or use --min-share 0"
        )
    if least and quality.verdict == "unrelated":
        return (
            "not written, because new and old vectors seem unrelated: see the verdict, or use --min-share 0"
        )
    return None
