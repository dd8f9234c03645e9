"""The rows that Spark reads of the planned files, joined with what the table format says of each file.

Constants, row ids and deleted rows are the columns of a small DataFrame with a row for each file, which is broadcast
and found by a hash of the file's name. A row of a file that the plan does not know fails the query.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from deltaberg.errors import SchemaError
from deltaberg.files.read.metadata import ROW_IDS, is_position, materialized_fields
from deltaberg.files.read.task import constant_column
from deltaberg.schema.types import Field, List, Primitive, Struct
from deltaberg.spark.arrays import for_spark
from deltaberg.spark.native.computed import computed_parts, file_values
from deltaberg.spark.native.deleted_words import is_kept
from deltaberg.spark.native.paddings import padded
from deltaberg.spark.native.to_spark_filters import spark_condition
from deltaberg.spark.types import physical_type, quoted_name, spark_schema, spark_type
from deltaberg.table.read.bound import BoundScan

__all__ = ["NativeFiles", "native_frame"]

_LOST = "deltaberg: Spark read a row of a file that the plan does not know: "


class NativeFiles(NamedTuple):
    """Files that Spark reads together: a task and the deleted rows for each, and the fields to read of all.

    ``by`` and ``keys`` are the result of `file_keys`, and ``words`` that of `deleted_words`. The physical names of the
    fields are those that they have in the files.
    """

    tasks: pa.RecordBatch
    by: str
    keys: list[list[int]]
    fields: tuple[Field, ...]
    words: pa.ListArray


def native_frame(scan: BoundScan, session: SparkSession, rows: DataFrame, files: NativeFiles) -> DataFrame:
    """Return the rows and columns of a scan, given the rows that Spark reads of the files."""
    columns = _Columns(scan, files)
    if columns.constants or columns.values or files.words.null_count < len(files.words):
        rows = _joined(session, rows, files, columns)
    if pc.any(files.tasks.column("filtered"), min_count=0).as_py():
        rows = rows.filter(spark_condition(scan.read_spec.residual, columns.of))
    return rows.select(*map(columns.output, scan.output))


class _Columns:
    """The Spark columns of table fields, in the join of rows and files."""

    def __init__(self, scan: BoundScan, files: NativeFiles) -> None:
        prefix = "__file_"
        while any(field.physical_name.lower().startswith(prefix) for field in files.fields):
            prefix = f"_{prefix}"
        self.hash, self.key, self.words = f"{prefix}hash", f"{prefix}key", f"{prefix}words"
        constants = scan.read_spec.constants
        self.constants = {child.name: (f"{prefix}{number}", child) for number, child in enumerate(constants)}
        #: What computed columns need to know of each file.
        values = file_values(computed_parts(scan), files.tasks, scan.layout)
        self.values = {name: (f"{prefix}of_{name}", *found) for name, found in values.items()}
        self._layout = scan.layout
        self._read = {field.name: field for field in files.fields}
        #: The field by which files are told apart. Each further field of the metadata would cost time for each row.
        self._by = sf.col(f"_metadata.{files.by}")

    def of(self, path: Sequence[Field]) -> Column:
        """Return the column for a path of fields."""
        first, *rest = path
        if first.name in self._layout.computed:
            return self._computed(first, rest)
        if first.name not in self.constants:
            return self._from_file(first, rest)
        name, child = self.constants[first.name]
        column = self.known(sf.col(name), spark_type(child.type))
        if first.name in self._layout.stored and first.name in self._read:
            # If the plan knows no value, the file holds the column itself.
            column = sf.coalesce(column, self._from_file(first, []))
        for inner in rest:
            column = column.getField(inner.name)
        return column

    def _computed(self, first: Field, rest: Sequence[Field]) -> Column:
        if rest or not isinstance(first.type, Struct):
            return self._part(rest[0] if rest else first)
        return _nullable(sf.struct(*(self._part(part).alias(part.name) for part in first.type)))

    def _part(self, part: Field) -> Column:
        row = _nullable(sf.col("_metadata.row_index"))
        if is_position(part.name, self._layout):
            return row
        name, child, _ = self.values[part.name]
        found = self.known(sf.col(name), spark_type(child.type))
        if part.name in ROW_IDS:
            found += row
        stored = materialized_fields([part], self._layout)
        return sf.coalesce(*(self._from_file(column, []) for column in stored.values()), found)

    def _from_file(self, first: Field, rest: Sequence[Field]) -> Column:
        field = self._read[first.name]
        column, kind = sf.col(quoted_name(field.physical_name)), field.type
        for child in rest:
            inner = kind.get(child.name) if isinstance(kind, Struct) else None
            if inner is None:
                raise SchemaError(f"{field.name} has no field {child.name}")
            column, kind, field = column.getField(inner.physical_name), inner.type, inner
        return padded(column, field)

    def known(self, value: Column, kind: st.DataType) -> Column:
        """Return a value from the side of the join that knows the files; it fails where the file of a row is unknown.

        Every use of that side goes through here. A plain condition on it would let Spark turn the join into an inner
        join, which drops rows silently.
        """
        lost = sf.raise_error(sf.concat(sf.lit(_LOST), self._by))
        return sf.when(sf.col(self.key).isNull(), lost.cast(kind)).otherwise(value)

    def output(self, child: Field) -> Column:
        """Return a column of the output, under the names that the table has for it and its fields."""
        column = self.of([child])
        if child.name not in self.constants and child.name not in self._layout.computed:
            wanted = spark_type(child.type)
            if spark_type(physical_type(self._read[child.name].type)) != wanted:
                column = column.cast(wanted)
        return column.alias(child.name)


def _joined(session: SparkSession, rows: DataFrame, files: NativeFiles, columns: _Columns) -> DataFrame:
    """Join rows with what is known of their files, and drop the deleted rows."""
    place = pa.array([number for number, found in enumerate(files.keys) for _ in found], pa.int64())
    file_columns = {columns.key: pa.array([key for found in files.keys for key in found], pa.int64())}
    fields = [Field(columns.key, Primitive("long"))]
    for name, child in columns.constants.values():
        file_columns[name] = for_spark(files.tasks.column(constant_column(child.name)).take(place), child.type)
        fields.append(Field(name, child.type))
    for name, child, values in columns.values.values():
        file_columns[name] = values.take(place)
        fields.append(Field(name, child.type))
    has_deletes = files.words.null_count < len(files.words)
    if has_deletes:
        file_columns[columns.words] = files.words.take(place)
        fields.append(Field(columns.words, List(Field("element", Primitive("long")))))
    table = session.createDataFrame(pa.table(file_columns), spark_schema(Struct(tuple(fields))))
    # The hash is a column because a join of Spark 4.0 takes no condition on the metadata of files.
    rows = rows.withColumn(columns.hash, sf.xxhash64(f"_metadata.{files.by}"))
    joined = rows.join(sf.broadcast(table), sf.col(columns.hash) == sf.col(columns.key), "left")
    return joined.filter(columns.known(is_kept(columns.words) if has_deletes else sf.lit(True), st.BooleanType()))


def _nullable(found: Column) -> Column:
    """Return a column that is nullable to Spark, as the columns of the arrow road are."""
    return sf.when(found.isNotNull(), found)
