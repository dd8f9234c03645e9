"""Manifest lists: the manifests of a snapshot, a row a manifest (Iceberg spec, "Manifest Lists")."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import CorruptMetadataError
from deltaberg.files.avro import AvroFile
from deltaberg.schema import FIELD_ID

__all__ = ["MANIFESTS", "describe_manifests", "numbered", "read_manifest_list"]


def numbered(name: str, number: int, type: pa.DataType, required: bool = False) -> pa.Field:
    """Give an Arrow field with its field id."""
    return pa.field(name, type, nullable=not required, metadata={FIELD_ID: str(number)})


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
#: What a list of version 1 does not say.
_DEFAULTS = {"content": 0, "sequence_number": 0, "min_sequence_number": 0}


def read_manifest_list(data: bytes) -> pa.Table:
    """Give the manifests of a list, as `MANIFESTS` describes them.

    Raises
    ------
    CorruptAvroError, CorruptMetadataError
        Where the list cannot be decoded, or says what it must not.
    """
    table = AvroFile(data).read_by_id(MANIFESTS)
    for name, value in _DEFAULTS.items():
        index = table.schema.get_field_index(name)
        table = table.set_column(index, MANIFESTS.field(name), table.column(name).fill_null(value))
    known = pc.is_in(table.column("content"), value_set=pa.array([0, 1], pa.int32()))
    if not pc.all(known, min_count=0).as_py():
        raise CorruptMetadataError("a manifest holds neither data files nor delete files (content is not 0 or 1)")
    return table.combine_chunks()


def describe_manifests(manifests: Iterable[tuple[str, bytes]], snapshot_id: int | None) -> pa.Table:
    """Describe manifests that no list describes, as in version 1, by their headers.

    Parameters
    ----------
    manifests
        Paths, and the bytes that are there.
    """
    rows = []
    for path, data in manifests:
        header = AvroFile(data).metadata
        spec = header.get("partition-spec-id", b"0").decode(errors="replace")
        if not (spec.isascii() and spec.isdigit()):
            raise CorruptMetadataError(f"the partition-spec-id of a manifest is {spec!r}", file=path)
        rows.append(
            {
                "manifest_path": path,
                "manifest_length": len(data),
                "partition_spec_id": int(spec),
                "added_snapshot_id": snapshot_id,
                "content": int(header.get("content") == b"deletes"),
                "sequence_number": 0,
                "min_sequence_number": 0,
            }
        )
    return pa.Table.from_pylist(rows, MANIFESTS)
