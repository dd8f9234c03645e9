"""Manifest lists: the manifests of a snapshot, one row for each (Iceberg spec, "Manifest Lists")."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import CorruptMetadataError
from deltaberg.files.avro.container import AvroFile
from deltaberg.iceberg.manifests.fields import MANIFESTS
from deltaberg.kernels import plain_values as pv

__all__ = ["describe_manifests", "read_manifest_list"]

#: What a list of version 1 does not say; each is 0 then.
_ZERO_BY_DEFAULT = ("content", "sequence_number", "min_sequence_number")


def read_manifest_list(data: bytes) -> pa.Table:
    """Return the manifests of a list, with the columns of `MANIFESTS`.

    Raises
    ------
    CorruptAvroError, CorruptMetadataError
        If the list cannot be decoded, or says what no list may say.
    """
    table = AvroFile(data).read_by_id(MANIFESTS)
    for name in _ZERO_BY_DEFAULT:
        column = table.column(name).fill_null(pv.scalar(0, MANIFESTS.field(name).type))
        table = table.set_column(table.schema.get_field_index(name), MANIFESTS.field(name), column)
    known = pc.is_in(table.column("content"), value_set=pv.array([0, 1], pa.int32()))
    if not pc.all(known, min_count=0).as_py():
        raise CorruptMetadataError("a manifest holds neither data files nor delete files (content is not 0 or 1)")
    return table.combine_chunks()


def describe_manifests(manifests: Iterable[tuple[str, bytes]], snapshot_id: int | None) -> pa.Table:
    """Return what the headers of manifests say, with the columns of `MANIFESTS`.

    In version 1, a snapshot can name its manifests itself, without a manifest list.

    Parameters
    ----------
    manifests
        The paths and the bytes of manifests.
    snapshot_id
        The snapshot that names them.
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
