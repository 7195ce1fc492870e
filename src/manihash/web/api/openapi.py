"""The description of the search API: an OpenAPI document, and the page that shows it."""

from importlib import resources
from typing import Any

import msgspec

from manihash import __version__
from manihash.codes import n_bytes
from manihash.pages import page
from manihash.search.ids import MAX_BYTES
from manihash.web.api.bodies import JSON, NPY, RAW
from manihash.web.api.messages import (
    AddRequest,
    DeleteRequest,
    EncodeRequest,
    SearchOptions,
    SearchRequest,
    UpdateRequest,
)
from manihash.web.api.service import Service

PAGE_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'self'; connect-src 'self'; img-src blob:; "
    "frame-ancestors 'none'"
)
_REQUESTS = [EncodeRequest, SearchRequest, AddRequest, UpdateRequest, DeleteRequest]
_REFERENCE = "#/components/schemas/{name}"
_NUMBERS = {"type": "array", "items": {"type": "number"}}

_FACTS = ["version", "model", "index", "rerank", "labels", "images", "texts", "writable", "limits"]
_STATUSES = {
    400: "The request is not valid.",
    401: "The key is missing or wrong.",
    403: "The server does not change rows.",
    404: "An id is not in the index.",
    409: "An id is already in the index.",
    413: "The body is too large.",
    415: "The body has another type.",
    421: "The host name is not allowed.",
    500: "Internal error.",
    503: "The server is busy.",
    507: "The change could not be stored.",
}


def _answers(ids: dict[str, Any]) -> dict[str, Any]:
    """The schemas of answers, given that of ids."""
    listed = {"type": "array", "items": ids}
    return {
        "Error": {
            "type": "object",
            "required": ["error"],
            "properties": {"error": {"type": "string", "description": "What is wrong."}},
        },
        "Codes": {
            "type": "object",
            "required": ["codes", "n_bits"],
            "properties": {
                "codes": {"type": "array", "items": {"type": "string"}},
                "n_bits": {"type": "integer"},
            },
        },
        "Answers": {
            "type": "object",
            "description": "One list per query, nearest first, ties by id.",
            "required": ["ids", "distances", "ranked_by"],
            "properties": {
                "ids": {"type": "array", "items": listed},
                "distances": {"type": "array", "items": _NUMBERS},
                "ranked_by": {"type": "string", "description": "Kind of the distances."},
                "labels": {
                    "type": "array",
                    "items": {"type": "array", "items": {"type": ["string", "number", "null"]}},
                    "description": "Labels of the rows if the server has any; null for none.",
                },
                "texts": {
                    "type": "array",
                    "items": {"type": "array", "items": {"type": ["string", "null"]}},
                    "description": "Texts of the rows if the server has any; null for none.",
                },
            },
        },
        "Changed": {
            "type": "object",
            "required": ["ids", "rows"],
            "properties": {
                "ids": listed,
                "rows": {"type": "integer", "description": "Rows of the index now."},
            },
        },
        "Info": {"type": "object", "required": _FACTS},
        "Health": {"type": "object", "required": ["status"], "properties": {"status": {"const": "ok"}}},
    }


def document(service: Service, *, needs_key: bool) -> dict[str, Any]:
    """The OpenAPI 3.1 document of a service, with its own limits."""
    ids = _id_schema(service)
    _, schemas = msgspec.json.schema_components(_REQUESTS, ref_template=_REFERENCE)
    for schema in schemas.values():
        _add_limits(schema["properties"], service)
    examples = _examples(service, needs_key=needs_key)
    found: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "manihash", "version": __version__, "description": _summary(service)},
        "paths": {
            "/v1/encode": {"post": _post("Encode vectors", "EncodeRequest", "Codes", binary=True)},
            "/v1/search": {"post": _search()},
            "/v1/rows": {
                "post": _post("Add rows", "AddRequest", "Changed", 403, 409, 507, binary=True),
                "put": _post("Replace the vectors of rows", "UpdateRequest", "Changed", 403, 404, 507),
            },
            "/v1/rows/delete": {"post": _post("Delete rows", "DeleteRequest", "Changed", 403, 404, 507)},
            "/v1/info": {"get": _get("Describe model, index and limits", JSON, "Info")},
            "/v1/images/{id}": {"get": _image(ids)},
            "/metrics": {"get": _get("Counters in the text format of Prometheus", "text/plain")},
            "/healthz": {"get": _get("Tell that the server is up", JSON, "Health", public=True)},
        },
        "components": {"schemas": {**schemas, **_answers(ids)}},
    }
    for path, named in examples.items():
        method, _, address = path.partition(" ")
        content = found["paths"][address][method]["requestBody"]["content"]
        content[JSON]["examples"] = {name: {"value": value} for name, value in named.items()}
    if needs_key:
        found["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        found["security"] = [{"key": []}]
    return found


def documentation_page(document: dict[str, Any], service: Service) -> str:
    """The document as an HTML page that needs nothing from other hosts."""
    return page.render(
        "manihash.web.api",
        "api.html",
        document=document,
        ref=_referenced(document),
        has_radius=bool(service.index.layout.look_up_bits),
        radius=_radius(service),
        first_id=_some_ids(service, needs_key="security" in document)[0],
    )


def page_script() -> str:
    """The script of the page."""
    return resources.files("manihash.web.api").joinpath("templates/page.js").read_text("utf-8")


def _radius(service: Service) -> str:
    """What a radius means for the codes of this server."""
    layout = service.index.layout
    if not layout.look_up_bits:
        return "These codes are numbers of centers of a product quantizer: they have no radius."
    text = "asks for all rows whose codes differ from that of the query in at most so many of their"
    if layout.has_two_parts:
        text += (
            f" first {layout.look_up_bits} bits, the part of the {layout.n_bits} bits for look-up, in the "
            "order of the whole code"
        )
    else:
        text += f" {layout.n_bits} bits"
    return f"{text}. 0 finds rows with the same bits; each step finds more rows, also less similar ones."


def _some_ids(service: Service, *, needs_key: bool) -> list[Any]:
    """Two ids of the index; made-up ones if a key is needed, as the documentation is shown without one."""
    ids = [] if needs_key else service.index.ids[:2].tolist()
    return ids if len(ids) == 2 else ["a", "b"] if service.index.id_type is str else [0, 1]


def _examples(service: Service, *, needs_key: bool) -> dict[str, dict[str, Any]]:
    """Bodies of requests by method and path, and by name; vectors have the length that the model expects."""
    row = [round((i * 7 % 10) / 10, 1) for i in range(service.width)]
    vectors, ids = {"vectors": [row]}, _some_ids(service, needs_key=needs_key)
    searches = {
        "nearest rows": vectors | {"k": 3},
        "within a radius": vectors | {"radius": 2},
        "by code": vectors | {"k": 3, "symmetric": True},
        "among some rows": vectors | {"k": 2, "filter": ids},
    }
    if not service.index.layout.look_up_bits:
        del searches["within a radius"]
    if service.attachments.vectors is not None:
        searches["re-ranked by vectors"] = vectors | {"k": 3, "rerank": True}
    new = {"ids": ["new row"]} if service.index.id_type is str else {}
    return {
        "post /v1/encode": {"one vector": vectors},
        "post /v1/search": searches,
        "post /v1/rows": {
            "one row": vectors | new,
            "with label and text": vectors | new | {"labels": ["cat"], "texts": ["a cat on a mat"]},
        },
        "put /v1/rows": {"one row": vectors | {"ids": ids[:1]}},
        "post /v1/rows/delete": {"one row": {"ids": ids[:1]}},
    }


def _referenced(document: dict[str, Any]) -> Any:
    return lambda schema: document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]


def _summary(service: Service) -> str:
    model = service.hasher
    return f"Codes of {model.n_bits_} bits of vectors with {service.width} numbers ({type(model).__name__})."


def _id_schema(service: Service) -> dict[str, Any]:
    """The schema of the ids of the index."""
    if service.index.id_type is str:
        return {"type": "string", "minLength": 1, "maxLength": MAX_BYTES}
    return {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1}


def _add_limits(properties: dict[str, Any], service: Service) -> None:
    """Add the limits of this server to the properties of a request."""
    limits, width = service.limits, service.width
    digits = 2 * n_bytes(service.hasher.n_bits_)
    most = 10 * limits.k
    largest = {"k": limits.k, "radius": limits.radius, "candidates": most, "shortlist": most}
    layout = service.index.layout
    for name, possible in (("radius", layout.look_up_bits > 0), ("weight", layout.has_two_parts)):
        if not possible:
            properties.pop(name, None)
    for name, schema in properties.items():
        if name in largest:
            schema["maximum"] = largest[name]
        if name in ("vectors", "codes"):
            schema["maxItems"] = limits.rows
        if name in ("ids", "filter"):
            schema["items"] = _id_schema(service)
    if "vectors" in properties:
        properties["vectors"]["items"] |= {"minItems": width, "maxItems": width}
    if "codes" in properties:
        properties["codes"]["items"]["pattern"] = f"^[0-9a-fA-F]{{{digits}}}$"


def _reference(name: str) -> dict[str, str]:
    return {"$ref": _REFERENCE.format(name=name)}


def _errors(*statuses: int) -> dict[str, Any]:
    content = {JSON: {"schema": _reference("Error")}}
    return {str(status): {"description": _STATUSES[status], "content": content} for status in statuses}


def _get(summary: str, kind: str, answer: str | None = None, *, public: bool = False) -> dict[str, Any]:
    schema = {"type": "string"} if answer is None else _reference(answer)
    responses = {"200": {"description": "The answer.", "content": {kind: {"schema": schema}}}}
    if public:
        return {"summary": summary, "responses": responses | _errors(421), "security": []}
    return {"summary": summary, "responses": responses | _errors(401, 421, 503)}


def _post(summary: str, request: str, answer: str, *statuses: int, binary: bool = False) -> dict[str, Any]:
    """An operation with a JSON body or, if it has a binary form, a body of numbers, too."""
    content: dict[str, Any] = {JSON: {"schema": _reference(request)}}
    if binary:
        content |= {NPY: {}, RAW: {}}
    answers: dict[str, Any] = {JSON: {"schema": _reference(answer)}}
    if answer != "Changed":
        answers |= {NPY: {}, RAW: {}}
    errors = _errors(*sorted({400, 401, 413, 415, 421, 500, 503, *statuses}))
    return {
        "summary": summary,
        "requestBody": {"required": True, "content": content},
        "responses": {"200": {"description": "The answer.", "content": answers}} | errors,
    }


def _image(ids: dict[str, Any]) -> dict[str, Any]:
    """The operation that returns the picture of a row."""
    operation = _get("Show the picture of a row", "image/png")
    operation["responses"] |= _errors(400, 404)
    parameter = {"name": "id", "in": "path", "required": True, "schema": ids}
    return operation | {"parameters": [parameter]}


def _search() -> dict[str, Any]:
    """The operation that searches; the options of a binary body are query parameters."""
    operation = _post("Find the rows near vectors or codes", "SearchRequest", "Answers", 404, binary=True)
    (_,), options = msgspec.json.schema_components([SearchOptions])
    names = options["SearchOptions"]["properties"]
    text = "Query parameters of a request with a binary body: " + ", ".join(names) + "."
    return operation | {"description": text}
