"""Deletion vector descriptors: where the bitmaps are (Delta protocol, "Deletion Vectors")."""

from __future__ import annotations

import uuid
from typing import Any

import pyarrow as pa

from deltaberg import kernels
from deltaberg.errors import CorruptDeletionVectorError, DeltabergError
from deltaberg.files import BITMAP
from deltaberg.storage import PathResolver

__all__ = ["locate_vectors", "unique_id"]

_UUID_CHARACTERS = 20


def unique_id(descriptor: dict[str, Any] | None) -> str | None:
    """Give the unique id of a deletion vector; None without one.

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


def locate_vectors(descriptors: pa.StructArray, resolver: PathResolver) -> pa.StructArray:
    """Give bitmaps (`BITMAP`) for descriptors of the log."""
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
    found = seen.get((kind, path))
    if found is None:
        try:
            found = _source(kind, path, resolver)
        except DeltabergError as error:
            raise error.with_context(deletion_vector=f"{kind}{path}"[:120]) from None
        if kind != "i":
            seen[kind, path] = found
    location, inline = found
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
    raise CorruptDeletionVectorError(f"the deletion vector storage type {kind!r} is unknown; u, i and p are known")


def _relative_path(text: str) -> str:
    """Give the file of a vector stored beside the table: a prefix, if any, is a directory."""
    prefix, encoded = text[:-_UUID_CHARACTERS], text[-_UUID_CHARACTERS:]
    if len(encoded) < _UUID_CHARACTERS:
        raise CorruptDeletionVectorError(f"{text!r} is too short for the UUID of a deletion vector file")
    if ".." in prefix.split("/"):
        raise CorruptDeletionVectorError(f"the prefix {prefix!r} of a deletion vector climbs out of the table")
    identity = uuid.UUID(bytes=kernels.z85_decode(encoded))
    name = f"deletion_vector_{identity}.bin"
    return f"{prefix}/{name}" if prefix else name
