"""Entries of manifests as rows of the file table of a scan, with the columns that have one value in each file."""

from __future__ import annotations

from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.files.read.task import constant_column
from deltaberg.iceberg.manifests.metrics import entry_numbers
from deltaberg.iceberg.manifests.reader import Entries, ManifestReader
from deltaberg.iceberg.partition.structs import identity_sources, union_struct, union_values
from deltaberg.kernels import plain_values as pv
from deltaberg.kernels.results import empty_structs
from deltaberg.schema.arrow import arrow_schema, arrow_type, as_array
from deltaberg.schema.types import Field, Primitive, Struct
from deltaberg.table.read.source import FILE_NUMBER

__all__ = ["FURTHER_FIELDS", "FileRows"]

#: The metadata columns ("Reserved Field IDs") that have one value in each file.
_FILE = Field("_file", Primitive("string"), nullable=False, id=2147483646)
_SPEC_ID = Field("_spec_id", Primitive("integer"), nullable=False, id=2147483643)
_PARTITION = "_partition"
_PARTITION_ID = 2147483642
#: The fields of data files that a scan needs beside those that are always read.
FURTHER_FIELDS = ("first_row_id",)


class FileRows:
    """Builds file-table rows (`ScanSource`) from manifest entries.

    Parameters
    ----------
    reader
        The reader that produced the entries.
    schema
        The columns of the scan.
    """

    def __init__(self, reader: ManifestReader, schema: Struct) -> None:
        self._reader = reader
        self._schema = schema

    @cached_property
    def partition(self) -> Struct:
        """The partition fields of all specs."""
        return union_struct(list(self._reader.specs.values()), self._reader.schemas)

    @cached_property
    def identities(self) -> tuple[Field, ...]:
        """The columns that some spec partitions by identity."""
        found = identity_sources(list(self._reader.specs.values()), self._schema)
        return tuple({child.name: child for child in found.values()}.values())

    @cached_property
    def origin(self) -> tuple[Field, ...]:
        """The metadata columns that say which file a row is from, unless the table has columns of these names."""
        partition = (Field(_PARTITION, self.partition, id=_PARTITION_ID),) if self.partition else ()
        return tuple(child for child in (_FILE, _SPEC_ID, *partition) if self._schema.get(child.name) is None)

    @cached_property
    def constants(self) -> Struct:
        """The columns that some spec partitions by identity, and those that say which file a row is from."""
        return Struct((*self.identities, *self.origin))

    @cached_property
    def _fields(self) -> pa.Schema:
        """The columns of `rows`."""
        constants = {constant_column(child.name): child.type for child in arrow_schema(self.constants)}
        # What the scan itself goes by is there, whatever the columns of the table are called.
        constants[self._column_of(_SPEC_ID.name)] = pa.int32()
        if self.partition:
            constants[self._column_of(_PARTITION)] = arrow_type(self.partition)
        return pa.schema(
            [
                pa.field(FILE_NUMBER, pa.int64()),
                *(pa.field(name, pa.string()) for name in ("path", "format")),
                *(pa.field(name, pa.int64()) for name in ("size", "modified", "record_count")),
                pa.field("only_in_vector", pa.null()),
                *(pa.field(name, pa.int64()) for name in ("base_row_id", "row_commit_version")),
                *(pa.field(name, kind) for name, kind in constants.items()),
            ]
        )

    def _column_of(self, name: str) -> str:
        """Return the column of a metadata column: one of its own if the table has a column of this name."""
        return name if self._schema.get(name) is not None else constant_column(name)

    def rows(self, entries: Entries) -> pa.Table:
        """Return the rows of the entries of one spec, without what deletes their rows."""
        table = entries.table
        rows = len(table)
        own = as_array(table.column("partition"))
        columns: dict[str, pa.Array] = {
            FILE_NUMBER: entry_numbers(table),
            "path": table.column("file_path"),
            "format": table.column("file_format"),
            "size": table.column("file_size_in_bytes"),
            "modified": pa.nulls(rows, pa.int64()),
            "record_count": table.column("record_count"),
            "only_in_vector": pa.nulls(rows),
            "base_row_id": table.column("first_row_id"),
            "row_commit_version": table.column("sequence_number"),
            constant_column(_FILE.name): table.column("file_path"),
            self._column_of(_SPEC_ID.name): pa.repeat(pv.scalar(entries.spec.spec_id, pa.int32()), rows),
        }
        if self.partition:
            columns[self._column_of(_PARTITION)] = union_values(own, entries.partition, self.partition)
        identities = identity_sources([entries.spec], self._schema)
        places = {child.id: number for number, child in enumerate(entries.partition)}
        values = {child.name: pc.struct_field(own, places[field]) for field, child in identities.items()}
        for child in self.identities:
            target = arrow_type(child.type)
            value = values.get(child.name)
            columns[constant_column(child.name)] = pa.nulls(rows, target) if value is None else value.cast(target)
        return pa.table([columns[name] for name in self._fields.names], schema=self._fields)

    def no_rows(self) -> pa.Table:
        """Return the columns of `rows`, without any row."""
        return self._fields.empty_table()

    def partition_values(self, files: pa.Table) -> pa.StructArray:
        """Return the partition values of rows of a file table, with the fields of all specs."""
        if not self.partition:
            return empty_structs(len(files))
        return as_array(files.column(self._column_of(_PARTITION)))

    def spec_ids(self, files: pa.Table) -> list[int]:
        """Return the ids of the specs of rows of a file table."""
        found: list[int] = files.column(self._column_of(_SPEC_ID.name)).to_pylist()
        return found
