"""What the version checksum says of a snapshot, ``<version>.crc`` in the log (Delta protocol, "Version Checksum File").

The file is optional, and nothing that is read depends on it: a validating reader compares.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow.compute as pc

from deltaberg.delta.snapshot import Snapshot
from deltaberg.errors import ObjectNotFoundError

__all__ = ["checksum_violations"]


def checksum_violations(snapshot: Snapshot) -> Iterator[str]:
    """Give a sentence for each fact in which the snapshot differs from its checksum file."""
    name = f"{snapshot.version:020d}.crc"
    try:
        data = snapshot.log.storage.get(f"{snapshot.log.path}/{name}")
    except ObjectNotFoundError:
        return
    try:
        recorded = json.loads(data)
    except (ValueError, RecursionError):
        recorded = None
    if not isinstance(recorded, dict):
        yield f"{name} is no JSON object"
        return
    for key, found in _facts(snapshot).items():
        if recorded.get(key, found) != found:
            yield f"{name} says that {key} is {recorded[key]!r}, the log says {found!r}"


def _facts(snapshot: Snapshot) -> dict[str, Any]:
    vectors = snapshot.live.column("deletionVector")
    cardinalities = pc.struct_field(vectors.combine_chunks(), "cardinality")
    return {
        "tableSizeBytes": snapshot.size_in_bytes,
        "numFiles": snapshot.file_count,
        "numMetadata": 1,
        "numProtocol": 1,
        "numDeletedRecordsOpt": pc.sum(cardinalities).as_py() or 0,
        "numDeletionVectorsOpt": len(vectors) - vectors.null_count,
    }
