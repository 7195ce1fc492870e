"""The requests of the search API: their fields, types and the limits on them."""

import re
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated, Any, Literal, TypeVar

import msgspec
import numpy as np
from msgspec import UNSET, Meta, UnsetType

from manihash.code_layout import CodeLayout
from manihash.search.ids import check_texts, string_array
from manihash.types import Ids
from manihash.web.application import RequestError

DEFAULT_K = 10

Rows = Annotated[list[list[float]], Meta(min_length=1, description="Vectors, one list of numbers per row.")]
HexCodes = Annotated[
    list[str], Meta(min_length=1, description="Packed codes, each as a string of hexadecimal digits.")
]
Id = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | Annotated[str, Meta(min_length=1)]
Label = str | Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | float
NumberType = Annotated[
    Literal["float32", "float64"],
    Meta(description="Type that the numbers of a JSON body are converted to before they are encoded."),
]


@dataclass(frozen=True)
class Limits:
    """What one request may ask for, and how many may wait."""

    body_bytes: int = 2**24
    rows: int = 1000
    k: int = 1000
    radius: int = 16
    answers: int = 2**20
    seconds: float = 30.0
    waiting: int = 1024


class EncodeRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Vectors to encode."""

    vectors: Rows
    dtype: NumberType = "float32"


class SearchOptions(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What to search for; the query parameters of a binary request."""

    k: (
        Annotated[int, Meta(ge=1, description=f"Rows per query; {DEFAULT_K} unless a radius is given.")]
        | UnsetType
    ) = UNSET
    radius: (
        Annotated[
            int,
            Meta(
                ge=0,
                description="Return all rows whose codes differ from that of the query in at most so many "
                "bits; for codes of two parts, the bits of the first part. 0 finds rows with the same code.",
            ),
        ]
        | UnsetType
    ) = UNSET
    filter: Annotated[list[Id], Meta(description="Search only the rows with these ids.")] | UnsetType = UNSET
    symmetric: Annotated[
        bool,
        Meta(
            description="Round vectors to codes first, and rank by the distance of codes: Hamming, if they "
            "are signs. By default the real values of a vector are compared with the codes. A query given as "
            "a code has no real values."
        ),
    ] = False
    weight: (
        Annotated[
            float,
            Meta(
                ge=0,
                le=1e30,
                description="Weight of the second part of codes of two parts; that of the index by default.",
            ),
        ]
        | UnsetType
    ) = UNSET
    rerank: Annotated[
        bool, Meta(description="Rank a longer list by the Euclidean distance of the original vectors.")
    ] = False
    rescore: Annotated[
        bool, Meta(description="The former name of rerank.", extra_json_schema={"deprecated": True})
    ] = False
    candidates: (
        Annotated[int, Meta(ge=1, description="Rows per query to re-rank; 10 times k by default.")]
        | UnsetType
    ) = UNSET
    shortlist: (
        Annotated[
            int,
            Meta(ge=1, description="The former name of candidates.", extra_json_schema={"deprecated": True}),
        ]
        | UnsetType
    ) = UNSET

    def __post_init__(self) -> None:
        self.rerank = self.rerank or self.rescore
        if self.candidates is UNSET:
            self.candidates = self.shortlist

    def check(self, limits: Limits, layout: CodeLayout, *, by_code: bool) -> None:
        """Raise unless the options can be combined, suit the codes and are within the limits."""
        if self.k is not UNSET and self.radius is not UNSET:
            raise RequestError(400, "got both k and radius: give one of the two")
        if self.radius is not UNSET and self.rerank:
            raise RequestError(400, "radius is a Hamming distance: omit rerank, or give k")
        if by_code and self.rerank:
            raise RequestError(400, "rerank needs the vectors of the queries: give vectors")
        if self.candidates is not UNSET and not self.rerank:
            raise RequestError(400, "candidates is the number of rows to re-rank: give rerank, too")
        if self.radius is not UNSET and not layout.look_up_bits:
            raise RequestError(400, "codes of a product quantizer have no Hamming radius: give k")
        if self.weight is not UNSET:
            if not layout.has_two_parts:
                raise RequestError(400, "weight is that of a second part, but the codes have one part")
            try:
                layout.with_weight(self.weight)
            except ValueError as error:
                raise RequestError(400, str(error)) from error
        for name, largest in (("k", limits.k), ("radius", limits.radius), ("candidates", 10 * limits.k)):
            value = getattr(self, name)
            if value is not UNSET and value > largest:
                raise RequestError(400, f"{name} is {value}: this server allows at most {largest}")


class SearchRequest(SearchOptions, forbid_unknown_fields=True, kw_only=True):
    """Queries, as vectors or as codes, and what to search for."""

    vectors: Rows | UnsetType = UNSET
    codes: HexCodes | UnsetType = UNSET
    dtype: NumberType = "float32"


class RowsRequest(EncodeRequest, forbid_unknown_fields=True, kw_only=True):
    """Vectors of rows, and what else belongs to the rows."""

    labels: Annotated[list[Label | None], Meta(description="A label per row; null for none.")] | UnsetType = (
        UNSET
    )
    images: (
        Annotated[
            list[str | None],
            Meta(description="A PNG or JPEG file per row, in base64, stored as a thumbnail; null for none."),
        ]
        | UnsetType
    ) = UNSET
    texts: Annotated[list[str | None], Meta(description="A text per row; null for none.")] | UnsetType = UNSET


class AddRequest(RowsRequest, forbid_unknown_fields=True, kw_only=True):
    """New rows."""

    ids: (
        Annotated[list[Id], Meta(description="Ids of the rows; the next free ids by default.")] | UnsetType
    ) = UNSET


class UpdateRequest(RowsRequest, forbid_unknown_fields=True, kw_only=True):
    """New vectors of rows; labels, images and texts that are not given stay as they are."""

    ids: Annotated[list[Id], Meta(description="Ids of rows of the index, one per vector.")]


class DeleteRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Rows to delete."""

    ids: Annotated[list[Id], Meta(min_length=1, description="Ids of rows of the index.")]


T = TypeVar("T", bound=msgspec.Struct)

_INTEGER = re.compile(r"-?[0-9]{1,19}", re.ASCII)
_FLAT = re.compile(r"Expected `array`, got `(?:float|int)` - at `\$\.vectors\[")
_UNKNOWN = re.compile(r"unknown field `(.{1,40})`")
_NOT_FINITE = re.compile(rb"[\[,:\s]-?(NaN|Infinity)\s*[\],}]")  # as Python's json module writes them


def parsed(body: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    """The request in a JSON body; a ``RequestError`` says what is wrong with it, and where."""
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        reason = _reason(error, decoder.type)
        if _NOT_FINITE.search(body):
            reason = "NaN and Infinity are not JSON, and vectors must have finite numbers"
        raise RequestError(400, f"the body is not a valid JSON request: {reason}") from error


def from_query(parameters: dict[str, str], kind: type[T], id_type: type) -> T:
    """The request in the query parameters of an address; ids are separated by commas."""
    given: dict[str, Any] = dict(parameters)
    if "filter" in given:
        given["filter"] = [id_of_text(text, id_type) for text in given["filter"].split(",")]
    try:
        return msgspec.convert(given, kind, strict=False)
    except (msgspec.ValidationError, UnicodeDecodeError) as error:
        raise RequestError(400, f"the query parameters are not valid: {_reason(error, kind)}") from error


def id_of_text(text: str, id_type: type) -> int | str:
    """An id in an address, as an integer if it can be one of the index."""
    is_integer = id_type is int and _INTEGER.fullmatch(text) and -(2**63) <= int(text) < 2**63
    return int(text) if is_integer else text


def id_array(ids: list[int | str], id_type: type) -> Ids:
    """Ids of a request as an array; raise unless they have the type of the ids of the index."""
    wrong = next((value for value in ids if type(value) is not id_type), None)
    if wrong is not None:
        kind = "strings" if id_type is str else "integers"
        raise RequestError(400, f"got id {wrong!r:.40}: the ids of this index are {kind}")
    if id_type is int:
        return np.array(ids, np.int64)
    names: list[str] = ids  # type: ignore[assignment]
    try:
        check_texts(names)
    except ValueError as error:
        raise RequestError(400, str(error)) from error
    return string_array(names)


def _reason(error: Exception, kind: type) -> str:
    """What is wrong with a request of a kind, and how to correct the usual mistakes."""
    if isinstance(error, UnicodeDecodeError):
        return "it is not UTF-8"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    reason = str(error)
    if _FLAT.search(reason):
        return f'{reason}. A vector is one row of a list: nest it, as in {{"vectors": [[0.1, 0.2]]}}'
    if (unknown := _UNKNOWN.search(reason)) is None:
        return reason
    names = [field.name for field in msgspec.structs.fields(kind)]
    near = get_close_matches(unknown[1].lower(), names, 1)
    return f"{reason}: " + (f"did you mean `{near[0]}`?" if near else f"expected {', '.join(names)}")
