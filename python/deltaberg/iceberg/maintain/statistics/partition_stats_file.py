"""Files of partition statistics: writing and reading them (Iceberg spec, "Partition Statistics")."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as pt

from deltaberg.errors import CorruptDataFileError, first_line
from deltaberg.iceberg.maintain.statistics.partition_sums import partition_columns
from deltaberg.iceberg.scan.source import IcebergSource
from deltaberg.schema.arrow import as_array
from deltaberg.schema.name_mapping import FIELD_ID
from deltaberg.storage.base import Storage

__all__ = ["read_partition_stats", "write_partition_stats"]


def write_partition_stats(store: Storage, path: str, table: pa.Table) -> dict[str, int]:
    """Write statistics as a new Parquet file, and return what its entry in the metadata says of it.

    Raises
    ------
    StorageError
        The store failed.
    """
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd", store_schema=False)
    data = buffer.getvalue()
    store.put(path, data)
    return {"file-size-in-bytes": len(data)}


def read_partition_stats(source: IcebergSource, path: str) -> pa.Table | None:
    """Return the statistics in a file, in the columns that a file of ours has; None if it is of another format.

    Columns are found by their field ids.

    Raises
    ------
    DataFileNotFoundError
        The file is not there.
    CorruptDataFileError
        It cannot be decoded, lacks a column that is required, or has one of a wrong type.
    """
    if not path.endswith(".parquet"):
        return None
    try:
        stored = pq.read_table(pa.BufferReader(source.reader.fetch(path)))
    except (pa.ArrowException, OSError) as error:
        raise CorruptDataFileError(f"a file of statistics cannot be decoded: {first_line(error)}", file=path) from None
    places = {_number(field): at for at, field in enumerate(stored.schema)}
    columns = []
    for field in partition_columns(source):
        at = places.get(_number(field))
        if at is None and not field.nullable and field.name != "dv_count":
            raise CorruptDataFileError(f"a file of statistics has no column {field.name}", file=path)
        own = pa.nulls(len(stored), field.type) if at is None else as_array(stored.column(at))
        try:
            columns.append(_in_union(own, field.type) if field.name == "partition" else own.cast(field.type))
        except (pa.ArrowException, TypeError) as error:
            text = f"the column {field.name} of a file of statistics has a wrong type: {first_line(error)}"
            raise CorruptDataFileError(text, file=path) from None
    return pa.table(columns, names=partition_columns(source).names)


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
