"""Declarations of the arguments and options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

INDEX_SUFFIX = ".mhx"
VECTOR_FILES = "npy, npz, fvecs, bvecs, idx, HDF5, Parquet or CSV; FILE:KEY selects an array or a column"
STORES = (
    "codes.duckdb, codes.parquet, codes.db (SQLite), codes.faiss, codes.usearch, codes.lance, "
    "postgres://user@host/database?table=NAME, clickhouse://host/database?table=NAME, "
    "qdrant://host?table=NAME, milvus://host?table=NAME, or milvus:codes.db for milvus-lite"
)

Model = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL",
        help="Model file written by [bold]manihash fit[/], or index file of [bold]manihash build[/].",
    ),
]
DEFAULT_RECIPE = "imh-hybrid"  # good for look-up and for the first answers, with and without clear clusters
Recipe = Annotated[
    str, typer.Option("--recipe", "-r", help="Method by name; [bold]manihash info[/] lists the recipes.")
]
Bits = Annotated[int, typer.Option("--bits", "-b", help="Code length in bits.")]
CodeBits = Annotated[
    int | None,
    typer.Option("--bits", "-b", help="Code length in bits.", show_default="all bits of the bytes of a code"),
]
Seed = Annotated[int, typer.Option("--seed", help="Random seed; the same seed gives the same codes.")]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Set a parameter of the recipe, or of one of its parts after two underscores; repeatable. "
        "Examples: --set n_neighbors=3 --set embedding__perplexity=30.",
        show_default=False,
    ),
]
Ids = Annotated[
    str | None,
    typer.Option(
        "--ids",
        metavar="FILE",
        help="File of distinct ids, one per code: integers, or strings such as file names in a text file "
        "(one per line), an npy file or a column of a Parquet file.",
        show_default="row numbers, from 0",
    ),
]
ModelOfCodes = Annotated[
    Path | None,
    typer.Option(
        "--model",
        metavar="MODEL",
        help="Model that made the codes. It gives the code length and the parts of the codes, which a file "
        "of codes does not say.",
        show_default=False,
    ),
]
Dask = Annotated[
    str | None,
    typer.Option(
        "--dask",
        metavar="ADDRESS|N",
        help="Compute on a Dask cluster: its address, such as tcp://host:8786, or N to start N workers on "
        "this machine. All workers must be able to read the vectors at the same path.",
        show_default=False,
    ),
]
Device = Annotated[
    str | None,
    typer.Option(
        "--device",
        metavar="DEVICE",
        help="Compute with torch on this device: cuda, cuda:1 or cpu.",
        show_default="numpy on the CPU",
    ),
]
NpzOut = Annotated[
    Path | None,
    typer.Option(
        "--out", "-o", metavar="FILE.npz", help="Write all results to this file.", show_default=False
    ),
]
OpenPage = Annotated[bool, typer.Option("--open/--no-open", help="Open the page in the web browser.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as one JSON document.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Do not show progress.")]
