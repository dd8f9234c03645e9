"""Files of partition statistics: writing and reading them (Iceberg spec, "Partition Statistics").

The sums of a file need not be those of the manifests: iceberg-spark takes the removal of a file for an update of its
partition, and any file may be damaged. So a file whose sums were made of manifests is named after a hash of its bytes.
"""

from __future__ import annotations

import io
import uuid
from hashlib import sha256
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as pt

from deltaberg.errors import CorruptDataFileError, DeltabergError, first_line
from deltaberg.iceberg.manifests.fields import numbered
from deltaberg.iceberg.manifests.reader import ManifestReader
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.metadata.snapshots import Snapshot
from deltaberg.iceberg.metadata.statistics_files import known_file
from deltaberg.iceberg.metadata.versions import VECTORS_SINCE
from deltaberg.schema.arrow import arrow_type, as_array, with_columns
from deltaberg.schema.name_mapping import FIELD_ID
from deltaberg.schema.types import Struct
from deltaberg.storage.base import Storage

__all__ = [
    "PARTITION_COUNTS",
    "UPDATED",
    "NewPartitionStats",
    "is_exact",
    "partition_stats_columns",
    "read_exact_stats",
    "read_partition_stats",
]

PARTITION_COUNTS = {
    "data_record_count": (3, pa.int64()),
    "data_file_count": (4, pa.int32()),
    "total_data_file_size_in_bytes": (5, pa.int64()),
    "position_delete_record_count": (6, pa.int64()),
    "position_delete_file_count": (7, pa.int32()),
    "equality_delete_record_count": (8, pa.int64()),
    "equality_delete_file_count": (9, pa.int32()),
    "dv_count": (13, pa.int32()),
}
#: Fields that version 2 need not have.
_SINCE_3 = {name for name in PARTITION_COUNTS if not name.startswith(("data_", "total_"))}
UPDATED = ("last_updated_at", "last_updated_snapshot_id")


def partition_stats_columns(partition: Struct, metadata: TableMetadata) -> pa.Schema:
    """Return the columns of a file of statistics, with the ids and names of the specification.

    How many rows a partition has without the deleted ones (``total_record_count``) is not known without reading them.

    Parameters
    ----------
    partition
        The partition fields of all specs.
    metadata
        The metadata of the table.
    """
    is_new = metadata.format_version >= VECTORS_SINCE
    values = pa.struct([numbered(child.name, child.id or 0, arrow_type(child.type)) for child in partition])
    fields = [numbered("partition", 1, values, required=True), numbered("spec_id", 2, pa.int32(), required=True)]
    for name, (number, kind) in PARTITION_COUNTS.items():
        if name == "dv_count":
            fields.append(numbered("total_record_count", 10, pa.int64()))
            fields += [numbered(one, 11 + at, pa.int64()) for at, one in enumerate(UPDATED)]
        if is_new or name != "dv_count":
            fields.append(numbered(name, number, kind, required=is_new or name not in _SINCE_3))
    return pa.schema(fields)


class NewPartitionStats(NamedTuple):
    """A file of statistics that is about to be written."""

    name: str
    data: bytes

    @classmethod
    def of(cls, table: pa.Table, snapshot_id: int, *, exact: bool) -> NewPartitionStats:
        """Return the file of statistics of a snapshot.

        Parameters
        ----------
        exact
            Whether the sums are those of the manifests.
        """
        buffer = io.BytesIO()
        # No two files may have one name: the one that was not named by a commit is deleted.
        salted = table.replace_schema_metadata({"deltaberg.file": str(uuid.uuid4())})
        pq.write_table(salted, buffer, compression="zstd", store_schema=False)
        data = buffer.getvalue()
        return cls(_exact_name(snapshot_id, data) if exact else _name(snapshot_id, uuid.uuid4()), data)

    def write(self, store: Storage, path: str) -> dict[str, int]:
        """Write the file, and return what its entry in the metadata says of it.

        Raises
        ------
        StorageError
            The store failed.
        """
        store.put(path, self.data)
        return {"file-size-in-bytes": len(self.data)}


def _name(snapshot_id: int, number: uuid.UUID) -> str:
    return f"partition-stats-{snapshot_id}-{number}.parquet"


def _exact_name(snapshot_id: int, data: bytes) -> str:
    return _name(snapshot_id, uuid.uuid5(uuid.NAMESPACE_OID, sha256(data).hexdigest()))


def is_exact(path: str, snapshot_id: int, data: bytes) -> bool:
    """Return whether a file has the sums of the manifests of a snapshot, as its name tells."""
    return path.rpartition("/")[2] == _exact_name(snapshot_id, data)


def read_exact_stats(
    reader: ManifestReader, partition: Struct, metadata: TableMetadata, snapshot: Snapshot | None
) -> pa.Table | None:
    """Return the statistics of a snapshot as its manifests would tell them now; None if no file is known to do that.

    The file of others, one that is lost or damaged, and one that names a snapshot that has expired where an older one
    may have added files to the partition, too, are of no use.
    """
    named = None if snapshot is None else known_file(metadata, "partition statistics", snapshot.snapshot_id)
    if snapshot is None or named is None:
        return None
    path, size = named
    try:
        data = reader.fetch(path)
        if len(data) != size or not is_exact(path, snapshot.snapshot_id, data):
            return None
        return _with_known_snapshots(read_partition_stats(data, path, partition, metadata), metadata)
    except (DeltabergError, ValueError):
        return None


def _with_known_snapshots(stats: pa.Table, metadata: TableMetadata) -> pa.Table | None:
    """Return statistics without the snapshots that have expired; None if another one may be the last update."""
    snapshots = list(metadata.snapshots.values())
    times = pa.array([one.timestamp_ms for one in snapshots], pa.int64())
    ids = pa.array([one.snapshot_id for one in snapshots], pa.int64())
    place = pc.index_in(as_array(stats.column("last_updated_snapshot_id")), value_set=ids)
    gone = stats.filter(pc.and_(place.is_null(), stats.column("last_updated_snapshot_id").is_valid()))
    latest = pc.max(gone.column("last_updated_at")).as_py()
    if latest is not None and latest >= pc.min(times).as_py():
        return None
    return with_columns(stats, last_updated_at=times.take(place), last_updated_snapshot_id=ids.take(place))


def read_partition_stats(data: bytes, path: str, partition: Struct, metadata: TableMetadata) -> pa.Table:
    """Return the statistics in a Parquet file, in the columns that a file of ours has.

    Columns are found by their field ids.

    Parameters
    ----------
    data, path
        The bytes of the file, and where it is.
    partition, metadata
        As for `partition_stats_columns`.

    Raises
    ------
    CorruptDataFileError
        It cannot be decoded, lacks a column that is required, or has one of a wrong type.
    """
    try:
        stored = pq.read_table(pa.BufferReader(data))
    except (pa.ArrowException, OSError) as error:
        raise CorruptDataFileError(f"a file of statistics cannot be decoded: {first_line(error)}", file=path) from None
    places = {_number(field): at for at, field in enumerate(stored.schema)}
    schema, columns = partition_stats_columns(partition, metadata), []
    for field in schema:
        at = places.get(_number(field))
        if at is None and not field.nullable and field.name != "dv_count":
            raise CorruptDataFileError(f"a file of statistics has no column {field.name}", file=path)
        own = pa.nulls(len(stored), field.type) if at is None else as_array(stored.column(at))
        try:
            columns.append(_in_union(own, field.type) if field.name == "partition" else own.cast(field.type))
        except (pa.ArrowException, TypeError) as error:
            text = f"the column {field.name} of a file of statistics has a wrong type: {first_line(error)}"
            raise CorruptDataFileError(text, file=path) from None
    return pa.table(columns, names=schema.names)


def _number(field: pa.Field) -> bytes:
    found: bytes = (field.metadata or {}).get(FIELD_ID, b"")
    return found


def _in_union(own: pa.StructArray, kind: pa.DataType) -> pa.StructArray:
    """Return partition values with the fields that the specs of the table have by now."""
    if not pt.is_struct(own.type):
        raise TypeError(f"{own.type} is no struct")
    places = {_number(child): at for at, child in enumerate(own.type)}
    children = []
    for child in kind:
        at = places.get(_number(child))
        values = pa.nulls(len(own), child.type) if at is None else pc.struct_field(own, [at])
        children.append(values.cast(child.type))
    return pa.StructArray.from_arrays(children, fields=list(kind))
