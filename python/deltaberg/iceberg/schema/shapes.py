"""Columns of shapes in Parquet files: WKB that is annotated as GEOMETRY or GEOGRAPHY (Iceberg spec, Appendix A)."""

from __future__ import annotations

import json
import re
from typing import Any

import pyarrow as pa

from deltaberg.iceberg.schema.type_names import TYPE, is_shape
from deltaberg.schema.types import Field

__all__ = ["edges_of", "stored_shape"]

_PARAMETERS = re.compile(r"(geometry|geography)(?:\(\s*([^,]*?)\s*(?:,\s*([^,]*?)\s*)?\))?")
#: The reference system of Iceberg and Parquet if none is named, and the edges of a geography.
_DEFAULT_SYSTEM, _DEFAULT_EDGES = "OGC:CRS84", "spherical"


class _Shape(pa.ExtensionType):  # type: ignore[misc]  # pyarrow has no types
    """A type that pyarrow writes with its annotation, from version 21 on.

    It is not registered, so that no column is read as this type.
    """

    def __init__(self, metadata: str) -> None:
        self._metadata = metadata
        super().__init__(pa.binary(), "geoarrow.wkb")

    def __arrow_ext_serialize__(self) -> bytes:
        return self._metadata.encode()

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> Any:
        del storage_type
        return cls(serialized.decode())


def edges_of(field: Field) -> str:
    """Return between which edges a column of shapes interpolates: ``planar``, or the algorithm of a geography.

    Examples
    --------
    >>> from deltaberg.schema.types import Primitive
    >>> edges_of(Field("g", Primitive("binary"), metadata={"type": "geography(OGC:CRS84, karney)"}))
    'karney'
    """
    kind, _, edges = _parameters(field)
    return "planar" if kind == "geometry" else edges


def stored_shape(field: Field) -> pa.DataType | None:
    """Return the Arrow type as which a column of shapes is written to Parquet; None for other columns."""
    if not is_shape(field):
        return None
    kind, system, edges = _parameters(field)
    metadata = {"crs": system} if system != _DEFAULT_SYSTEM else {}
    return _Shape(json.dumps(metadata if kind == "geometry" else {**metadata, "edges": edges}))


def _parameters(field: Field) -> tuple[str, str, str]:
    matched = _PARAMETERS.fullmatch(str(field.metadata[TYPE]))
    if matched is None:
        return "geometry", _DEFAULT_SYSTEM, "unknown"
    # pyiceberg puts them in quotes.
    system, edges = ((text or "").strip("'\"") for text in matched.groups()[1:])
    return matched[1], system or _DEFAULT_SYSTEM, (edges or _DEFAULT_EDGES).lower()
