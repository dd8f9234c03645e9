"""Types at the border of the kernels that are more than an array: what they take and what they return."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

__all__ = [
    "ADDED_FILES",
    "DELETION_VECTOR",
    "REMOVED_FILES",
    "STATS_PLACE",
    "AvroNode",
    "Replay",
    "empty_batch",
    "empty_structs",
]

_STRING_MAP = pa.map_(pa.string(), pa.string())
#: The descriptor of a deletion vector (Delta protocol, "Deletion Vector Descriptor Schema").
DELETION_VECTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)
#: Where the text of a file's statistics is in the bytes of its commit.
STATS_PLACE = pa.struct([("offset", pa.int64()), ("length", pa.int32())])
#: The columns of `Replay.adds`.
ADDED_FILES = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        ("partitionValues", _STRING_MAP),
        ("size", pa.int64()),
        ("modificationTime", pa.int64()),
        ("dataChange", pa.bool_()),
        ("stats", STATS_PLACE),
        ("numRecords", pa.int64()),
        ("tags", _STRING_MAP),
        ("deletionVector", DELETION_VECTOR),
        ("baseRowId", pa.int64()),
        ("defaultRowCommitVersion", pa.int64()),
        ("clusteringProvider", pa.string()),
        ("version", pa.int64()),
    ]
)
#: The columns of `Replay.removes`.
REMOVED_FILES = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        ("deletionTimestamp", pa.int64()),
        ("dataChange", pa.bool_()),
        ("extendedFileMetadata", pa.bool_()),
        ("partitionValues", _STRING_MAP),
        ("size", pa.int64()),
        ("tags", _STRING_MAP),
        ("deletionVector", DELETION_VECTOR),
        ("baseRowId", pa.int64()),
        ("defaultRowCommitVersion", pa.int64()),
        ("version", pa.int64()),
        ("pathAdded", pa.bool_()),
    ]
)
#: A type of an Avro writer's schema: kind, size, slot, children, keys. ``rust/core/src/avro/plan.rs`` explains them.
AvroNode = tuple[str, int, "int | None", "Sequence[AvroNode]", "Sequence[int] | None"]


def empty_structs(rows: int) -> pa.StructArray:
    """Return structs without fields, none of which is null."""
    return pa.Array.from_buffers(pa.struct([]), rows, [None], children=[])


def empty_batch(rows: int) -> pa.RecordBatch:
    """Return a batch that has rows but no columns."""
    return pa.RecordBatch.from_struct_array(empty_structs(rows))


class Replay(NamedTuple):
    """The state that a run of Delta commits leaves behind (Delta protocol, "Action Reconciliation").

    Attributes
    ----------
    adds, removes
        The live files and the tombstones, with the columns of the protocol's actions, and ``version``: the commit that
        holds the action. ``adds.stats`` is the place (offset, length) of the statistics' text in the bytes of that
        commit; `parse_log_stats` reads it. ``adds.numRecords`` is their record count. ``removes.pathAdded`` is true if
        an older commit of the run adds the path and no newer action names it.
    transactions, domains
        The newest ``txn`` of each application and the newest ``domainMetadata`` of each domain.
    protocol, metadata
        The version and the JSON text of the newest ``protocol`` and ``metaData``, or None if the run has none.
    """

    adds: pa.Table
    removes: pa.Table
    transactions: pa.RecordBatch
    domains: pa.RecordBatch
    protocol: tuple[int, str] | None
    metadata: tuple[int, str] | None
