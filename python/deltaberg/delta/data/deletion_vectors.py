"""Deletion vector descriptors: where the bitmaps are (Delta protocol, "Deletion Vectors")."""

from __future__ import annotations

import uuid
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg import kernels
from deltaberg.errors import CorruptDeletionVectorError, in_context
from deltaberg.files.read.task import BITMAP
from deltaberg.storage.location import PathResolver

__all__ = ["locate_vectors", "unique_id", "unique_ids"]

_UUID_CHARACTERS = 20


def unique_id(descriptor: dict[str, Any] | None) -> str | None:
    """Return the unique id of a deletion vector; None if there is no vector.

    Examples
    --------
    >>> unique_id({"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 4})
    'uab^-aqEH.-t@S}K{vb[*k^@4'
    """
    if descriptor is None:
        return None
    offset = descriptor.get("offset")
    at = "" if offset is None else f"@{offset}"
    return f"{descriptor['storageType']}{descriptor['pathOrInlineDv']}{at}"


def unique_ids(descriptors: pa.StructArray) -> pa.StringArray:
    """Return the unique ids of deletion vectors; null where there is no vector.

    Examples
    --------
    >>> from deltaberg.kernels.results import DELETION_VECTOR
    >>> found = pa.array([{"storageType": "u", "pathOrInlineDv": "ab", "offset": 4}, None], DELETION_VECTOR)
    >>> unique_ids(found).to_pylist()
    ['uab@4', None]
    """
    kind, path, offset = (pc.struct_field(descriptors, name) for name in ("storageType", "pathOrInlineDv", "offset"))
    at = pc.binary_join_element_wise(pa.scalar("@"), offset.cast(pa.string()), "").fill_null("")
    return pc.binary_join_element_wise(kind, path, at, "")


def locate_vectors(descriptors: pa.StructArray, resolver: PathResolver) -> pa.StructArray:
    """Return where the bitmaps of descriptors are, as `BITMAP` describes them.

    Raises
    ------
    CorruptDeletionVectorError
        If a descriptor is incomplete, or names no place.
    UnsafePathError
        If a path leads out of the table.
    """
    if descriptors.null_count == len(descriptors):
        return pa.nulls(len(descriptors), BITMAP)
    seen: dict[tuple[str, str], tuple[str | None, bytes | None]] = {}
    rows = [
        None if descriptor is None else _bitmap(descriptor, resolver, seen) for descriptor in descriptors.to_pylist()
    ]
    return pa.array(rows, BITMAP)


def _bitmap(
    descriptor: dict[str, Any], resolver: PathResolver, seen: dict[tuple[str, str], tuple[str | None, bytes | None]]
) -> dict[str, Any]:
    kind, path = descriptor["storageType"], descriptor["pathOrInlineDv"]
    if not isinstance(kind, str) or not isinstance(path, str) or descriptor["sizeInBytes"] is None:
        raise CorruptDeletionVectorError("a deletion vector descriptor lacks a required field")
    located = seen.get((kind, path))
    if located is None:
        with in_context(deletion_vector=f"{kind}{path}"[:120]):
            located = _source(kind, path, resolver)
        if kind != "i":
            seen[kind, path] = located
    location, inline = located
    return {
        "location": location,
        "offset": None if inline is not None else descriptor["offset"] or 0,
        "size": descriptor["sizeInBytes"],
        "framing": "delta-inline" if inline is not None else "delta-file",
        "inline": inline,
        "cardinality": descriptor["cardinality"],
    }


def _source(kind: str, path: str, resolver: PathResolver) -> tuple[str | None, bytes | None]:
    if kind == "i":
        return None, kernels.z85_decode(path)
    if kind == "p":
        return str(resolver.resolve(path)), None
    if kind == "u":
        return str(resolver.root.join(_relative_path(path))), None
    raise CorruptDeletionVectorError(f"the deletion vector storage type {kind!r} is unknown; it must be u, i or p")


def _relative_path(text: str) -> str:
    """Return the file of a vector that is stored in the table; a prefix, if there is one, is a directory."""
    prefix, encoded = text[:-_UUID_CHARACTERS], text[-_UUID_CHARACTERS:]
    if len(encoded) < _UUID_CHARACTERS:
        raise CorruptDeletionVectorError(f"{text!r} is too short to hold the UUID of a deletion vector file")
    if ".." in prefix.split("/"):
        raise CorruptDeletionVectorError(f"the prefix {prefix!r} of a deletion vector leads out of the table")
    identity = uuid.UUID(bytes=kernels.z85_decode(encoded))
    name = f"deletion_vector_{identity}.bin"
    return f"{prefix}/{name}" if prefix else name
