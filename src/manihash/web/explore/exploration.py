"""Everything that the page shows, prepared once: rows, map, and the codes of one or two models."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manihash.code_layout import CodeLayout
from manihash.hashers._hasher import Hasher
from manihash.pages import pictures
from manihash.pages.pictures import Image
from manihash.pages.thumbnails import ArrayImages, is_pixels
from manihash.types import Codes, Floats, Ids
from manihash.web.explore.coded import ROWS_SHOWN, CodedRows, coded_rows
from manihash.web.explore.plane import Plane, fit_plane
from manihash.web.explore.rows import ExploredRows

_MEAN_ROWS = 400  # pictures of which a mean is taken
_GROUPS_SHOWN = 30
_GROUP_ROWS = 300  # of a group that can be marked on the map
_GROUPS_MEASURED = 2000  # groups whose vectors are compared
COSINES = (0.999, 0.99, 0.98, 0.95)  # least cosines of near-duplicates


@dataclass(frozen=True, eq=False)
class Exploration:
    """Rows with their map and codes."""

    rows: ExploredRows
    models: tuple[CodedRows, ...]
    plane: Plane
    steps: NDArray[np.uint16]  # (n, 2), places on the map
    held_out: Ids | None = None  # rows that the first model was not fitted to

    def computed_now(self) -> None:
        """Compute what the first picture and the first query need, so that nobody waits for it later."""
        _ = self.summary, self.arrays, self.rows.in_memory

    @cached_property
    def takes_images(self) -> bool:
        """Whether an uploaded image can be a query: the vectors are the pixels of the images."""
        drawn, n = self.rows.pictures, len(self.rows)
        sample = sorted({0, n // 3, n // 2, n - 1})
        return isinstance(drawn, ArrayImages) and is_pixels(drawn, self.rows.X, sample)

    @cached_property
    def summary(self) -> dict[str, Any]:
        """What the page needs first, besides the arrays."""
        rows = self.rows
        first = rows.pictures.pixels(0)
        labels = rows.labels
        return {
            "title": rows.name,
            "rows": len(rows),
            "width": rows.width,
            "kind": rows.kind,
            "coarse": pictures.is_coarse(first),
            "labels": None if labels is None else {"names": labels.names, "counts": labels.counts.tolist()},
            "takes_images": self.takes_images,
            "cosines": COSINES,
            "models": [self._model(model) for model in self.models],
        }

    @cached_property
    def arrays(self) -> dict[str, bytes]:
        """The arrays of the page as bytes, little-endian, row by row."""
        arrays: dict[str, Any] = {"places": self.steps.astype("<u2")}
        if self.rows.labels is not None:
            arrays["labels"] = self.rows.labels.numbers.astype("<u2")
        for number, model in enumerate(self.models):
            arrays[f"codes-{number}"] = model.codes
            arrays[f"buckets-{number}"] = model.bucket_sizes.astype("<u4")
            if model.layout.codebooks is not None:
                arrays[f"codebooks-{number}"] = model.layout.codebooks.astype("<f4")
        return {name: array.tobytes() for name, array in arrays.items()}

    def _model(self, model: CodedRows) -> dict[str, Any]:
        layout = model.layout
        buckets = [
            {"code": bucket.code.tobytes().hex(), "size": len(bucket.ids), **self._members(bucket.ids)}
            for bucket in model.largest_buckets()
        ]
        return {
            "name": model.name,
            "method": type(model.hasher).__name__,
            "n_bits": model.n_bits,
            "n_bytes": model.codes.shape[1],
            "look_up_bits": layout.look_up_bits if layout.has_two_parts else None,
            "weight": float(layout.weight) if layout.has_two_parts else None,
            "bits_per_field": layout.bits_per_field or None,
            "field_shape": None if layout.codebooks is None else layout.codebooks.shape,
            "scale": float(layout.scale) if layout.has_two_parts else 1.0,
            "parts": _parts(layout),
            "can_look_up": layout.look_up_bits > 0,
            "doubts": model.doubts,
            "stats": asdict(model.stats),
            "ones": model.ones.tolist(),
            "buckets": buckets,
        }

    def _members(self, ids: Ids, most: int = ROWS_SHOWN) -> dict[str, Any]:
        """The first of some rows, and the labels of all of them."""
        labels = self.rows.labels
        return {"ids": ids[:most].tolist(), "labels": None if labels is None else labels.shares(ids)}

    def bit(self, model: CodedRows, bit: int) -> dict[str, Any]:
        """What a bit separates: either side's number of rows, labels and most typical rows."""
        labels = self.rows.labels
        return {
            "bit": bit,
            "sides": [
                {
                    "count": side.count,
                    "ids": side.ids.tolist(),
                    "labels": None if labels is None else labels.shares(side.sampled),
                    "has_mean": self.mean_picture(side.sampled[:1]) is not None,
                }
                for side in model.sides(bit)
            ],
        }

    def bit_mean(self, model: CodedRows, bit: int, side: int) -> Image | None:
        """The mean picture of the rows on one side of a bit."""
        return self.mean_picture(model.sides(bit)[side].sampled)

    def mean_picture(self, ids: Ids) -> Image | None:
        """The mean of the pictures of rows; None for no rows, texts, and pictures of different shapes."""
        if not len(ids) or self.rows.kind == "text":
            return None
        some = ids[np.linspace(0, len(ids) - 1, min(_MEAN_ROWS, len(ids))).astype(np.int64)]
        drawn = [self.rows.pictures.pixels(int(i)) for i in some]
        if len({each.shape for each in drawn}) > 1:
            return None
        return np.round(np.stack(drawn).mean(axis=0, keepdims=True)).astype(np.uint8)[0]

    def duplicates(self, model: CodedRows, cosine: float) -> dict[str, Any]:
        """Groups of rows with nearly equal vectors, found by codes; those with the nearest vectors first."""
        found = model.duplicates(cosine)
        groups, apart = list(found)[:_GROUPS_MEASURED], []
        for ids in groups:
            vectors = self.rows.vectors(ids[:ROWS_SHOWN]).astype(np.float64)
            apart.append(float(np.sqrt(np.square(vectors - vectors[0]).sum(axis=1)).max()))
        order = sorted(range(len(groups)), key=lambda i: (apart[i], int(groups[i][0])))
        return {
            "cosine": cosine,
            "radius": found.radius,
            "groups": len(found),
            "rows": len(found.ids),
            "shown": [
                {"size": len(groups[i]), **self._members(groups[i], _GROUP_ROWS), "apart": apart[i]}
                for i in order[:_GROUPS_SHOWN]
            ],
        }

    def query(self, vector: Floats, k: int) -> dict[str, Any]:
        """A new vector: its place on the map, its codes, and the nearest rows by their vectors."""
        ids, distances = self.rows.nearest(vector, k)
        return {
            "place": self.plane.places(vector[None])[0].tolist(),
            "codes": [model.encode(vector).tobytes().hex() for model in self.models],
            "tables": self.tables(vector),
            "nearest": {"ids": ids.tolist(), "distances": distances.tolist()},
        }

    def tables(self, vector: Floats) -> list[list[float] | None]:
        """For each model, what ranks its codes for a vector; None for codes of signs."""
        return [model.tables(vector) for model in self.models]

    def image_query(self, image: Image) -> Floats:
        """The vector of an uploaded image."""
        drawn = self.rows.pictures
        if not self.takes_images or not isinstance(drawn, ArrayImages):
            raise ValueError(
                "an image cannot be turned into a vector: the vectors of these rows are not the pixels of "
                "their images. Give the vector of the image instead"
            )
        return drawn.vector(image)


def _parts(layout: CodeLayout) -> list[dict[str, Any]]:
    """The parts of a code: the bit behind the last of each, its bits per field (1 for signs), and a name."""
    if layout.is_hamming:
        return [{"end": layout.n_bits, "step": 1, "name": f"{layout.n_bits} bits"}]
    second = f"{layout.second_bits} bits for the order"
    if layout.has_fields:
        n = layout.second_bits // layout.bits_per_field
        second = f"{n} numbers of {layout.bits_per_field} bits"
    parts = [{"end": layout.n_bits, "step": layout.bits_per_field or 1, "name": second}]
    if layout.look_up_bits:
        parts.insert(
            0, {"end": layout.look_up_bits, "step": 1, "name": f"{layout.look_up_bits} bits for look-up"}
        )
    return parts


def prepare(
    rows: ExploredRows,
    hashers: Sequence[tuple[str, Hasher] | tuple[str, Hasher, Codes]],
    *,
    seed: int,
    held_out: Ids | None = None,
) -> Exploration:
    """Encode all rows with each model and draw the map; codes that an index stores are checked and shown."""
    models = tuple(coded_rows(name, hasher, rows, *stored) for name, hasher, *stored in hashers)
    normalize = bool(getattr(models[0].hasher, "normalize", False))
    plane, steps = fit_plane(rows.X, normalize=normalize, seed=seed)
    exploration = Exploration(rows, models, plane, steps, held_out)
    exploration.computed_now()
    return exploration
