"""The fields of manifest lists and manifests, with the ids of the specification (Iceberg spec, "Manifests")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from deltaberg.schema.name_mapping import FIELD_ID

__all__ = [
    "ADDED",
    "DATA",
    "DELETED",
    "DELETES",
    "ENTRY_FIELDS",
    "EQUALITY_DELETES",
    "EXISTING",
    "FURTHER",
    "MANIFESTS",
    "METRICS",
    "POSITION_DELETES",
    "WHOLE_ENTRIES",
    "ManifestPart",
    "file_fields",
    "numbered",
]

#: Values of ``status``.
EXISTING, ADDED, DELETED = 0, 1, 2
#: Values of ``content``.
DATA, POSITION_DELETES, EQUALITY_DELETES = 0, 1, 2
#: The ``content`` of manifests of delete files of either kind, beside `DATA`.
DELETES = 1


def numbered(name: str, number: int, type: pa.DataType, required: bool = False) -> pa.Field:
    """Return an Arrow field with its field id."""
    return pa.field(name, type, nullable=not required, metadata={FIELD_ID: str(number)})


#: The fields of entries beside ``data_file``.
ENTRY_FIELDS = (
    numbered("status", 0, pa.int32(), required=True),
    numbered("snapshot_id", 1, pa.int64()),
    numbered("sequence_number", 3, pa.int64()),
    numbered("file_sequence_number", 4, pa.int64()),
)


def file_fields(partition: Sequence[pa.Field]) -> list[pa.Field]:
    """Return the fields of ``data_file`` that are always read and written, with these partition fields."""
    return [
        numbered("content", 134, pa.int32()),
        numbered("file_path", 100, pa.string(), required=True),
        numbered("file_format", 101, pa.string(), required=True),
        numbered("partition", 102, pa.struct(partition)),
        numbered("record_count", 103, pa.int64(), required=True),
        numbered("file_size_in_bytes", 104, pa.int64(), required=True),
    ]


_SUMMARY = pa.struct(
    [
        numbered("contains_null", 509, pa.bool_(), required=True),
        numbered("contains_nan", 518, pa.bool_()),
        numbered("lower_bound", 510, pa.binary()),
        numbered("upper_bound", 511, pa.binary()),
    ]
)
#: The columns of a manifest list, under their names in version 2.
MANIFESTS = pa.schema(
    [
        numbered("manifest_path", 500, pa.string(), required=True),
        numbered("manifest_length", 501, pa.int64(), required=True),
        numbered("partition_spec_id", 502, pa.int32(), required=True),
        numbered("content", 517, pa.int32()),
        numbered("sequence_number", 515, pa.int64()),
        numbered("min_sequence_number", 516, pa.int64()),
        numbered("added_snapshot_id", 503, pa.int64()),
        numbered("added_files_count", 504, pa.int32()),
        numbered("existing_files_count", 505, pa.int32()),
        numbered("deleted_files_count", 506, pa.int32()),
        numbered("added_rows_count", 512, pa.int64()),
        numbered("existing_rows_count", 513, pa.int64()),
        numbered("deleted_rows_count", 514, pa.int64()),
        numbered("partitions", 507, pa.list_(numbered("element", 508, _SUMMARY))),
        numbered("key_metadata", 519, pa.binary()),
        numbered("first_row_id", 520, pa.int64()),
    ]
)


def _map(name: str, number: int, key: int, value: int, type: pa.DataType) -> pa.Field:
    entry = pa.map_(numbered("key", key, pa.int32(), required=True), numbered("value", value, type))
    return numbered(name, number, entry)


#: Metrics of columns: maps from the ids of columns, each with the field id of the map's keys.
METRICS: Mapping[str, tuple[pa.Field, int]] = {
    "column_sizes": (_map("column_sizes", 108, 117, 118, pa.int64()), 117),
    "value_counts": (_map("value_counts", 109, 119, 120, pa.int64()), 119),
    "null_value_counts": (_map("null_value_counts", 110, 121, 122, pa.int64()), 121),
    "nan_value_counts": (_map("nan_value_counts", 137, 138, 139, pa.int64()), 138),
    "lower_bounds": (_map("lower_bounds", 125, 126, 127, pa.binary()), 126),
    "upper_bounds": (_map("upper_bounds", 128, 129, 130, pa.binary()), 129),
}
#: The fields of ``data_file`` that are read where they are asked for. Fields that the specification deprecated and
#: forbids to write (105, 106, 107 and 111) are not among them.
FURTHER: Mapping[str, pa.Field] = {
    "key_metadata": numbered("key_metadata", 131, pa.binary()),
    "split_offsets": numbered("split_offsets", 132, pa.list_(numbered("element", 133, pa.int64()))),
    "equality_ids": numbered("equality_ids", 135, pa.list_(numbered("element", 136, pa.int32()))),
    "sort_order_id": numbered("sort_order_id", 140, pa.int32()),
    "first_row_id": numbered("first_row_id", 142, pa.int64()),
    "referenced_data_file": numbered("referenced_data_file", 143, pa.string()),
    "content_offset": numbered("content_offset", 144, pa.int64()),
    "content_size_in_bytes": numbered("content_size_in_bytes", 145, pa.int64()),
}


@dataclass(frozen=True)
class ManifestPart:
    """Which part of manifests is read.

    Parameters
    ----------
    metrics
        Names among `METRICS`.
    ids
        The columns whose metrics are read; None for all columns.
    rest
        Names among `FURTHER`.
    deleted
        Whether entries of removed files are also read.
    as_stored
        Whether values are returned as the manifest holds them: the names of formats in their own case, and partition
        values whose types only the manifest knows in these types, not as text.
    """

    metrics: Sequence[str] = ()
    ids: frozenset[int] | None = None
    rest: Sequence[str] = ()
    deleted: bool = False
    as_stored: bool = False


#: All that an entry holds, so that it can be written again without loss.
WHOLE_ENTRIES = ManifestPart(tuple(METRICS), None, tuple(FURTHER), deleted=True, as_stored=True)
