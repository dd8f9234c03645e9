"""The native road: Spark's own Parquet reader over the planned files, joined with what the format says of each file.

What a format adds to a file (deleted rows, partition values) is a row of a small DataFrame that is broadcast, found by
a hash of the file's name. Deleted rows are 64-bit words, of which the row's bit is tested. The files are read with a
schema that is given, and with every setting that could change rows; a row of a file that the plan does not know fails
the query.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from deltaberg.errors import SchemaError
from deltaberg.files import (
    ROW_IDS,
    ROW_INDEXES,
    FileTask,
    RowSelection,
    constant_column,
    materialized_fields,
    tasks_of,
)
from deltaberg.schema import DataType, Field, List, Map, Primitive, Struct
from deltaberg.spark.computed import computed_parts, file_values
from deltaberg.spark.conditions import spark_condition
from deltaberg.spark.hashes import xxhash64
from deltaberg.spark.types import for_spark, spark_schema, spark_type
from deltaberg.storage import Location, parse_location
from deltaberg.table import Scan

__all__ = ["NativeFiles", "encoded", "keys_of", "native_frame", "read_files", "spelled", "vector_words"]

#: What a file's rows must never depend on: settings of the session are overridden for this read alone.
_OPTIONS = {
    "__globPaths__": "false",
    "recursiveFileLookup": "true",
    "mergeSchema": "false",
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
}
#: What no URI holds as it is, and Spark encodes: not letters beyond ASCII.
_ENCODED = re.compile(r"[^A-Za-z0-9/_\-!.~'()*,;:$&+=@\x80-\U0010ffff]")
#: Deletion vectors that are asked for at a time.
_REQUESTS = 16
_WORD = 64
_WORD_BITS = 6
_LOST = "deltaberg: Spark read a row of a file that the plan does not know: "


class NativeFiles(NamedTuple):
    """Files for Spark to read: a task for each, the fields to read of them, and their deleted rows as words.

    ``by`` and ``keys`` are what `keys_of` gave; the fields have the names that they have in the files.
    """

    tasks: pa.RecordBatch
    by: str
    keys: list[list[int]]
    fields: tuple[Field, ...]
    words: pa.ListArray


def vector_words(scan: Scan, tasks: pa.RecordBatch, rows: Sequence[int]) -> pa.ListArray:
    """Give the deleted rows of files as 64-bit words, a bit for each row; null where none is deleted."""
    layout, store = scan.read_spec.layout, scan.source.store

    def of_file(task: FileTask, count: int) -> pa.Array | None:
        keep = RowSelection(task, store, layout.resolver).mask(0, count)
        return None if keep is None else _words(pc.invert(keep))

    with ThreadPoolExecutor(_REQUESTS, thread_name_prefix="deltaberg-vectors") as pool:
        words = list(pool.map(of_file, tasks_of(tasks), rows))
    lengths = pa.array([0, *(0 if found is None else len(found) for found in words)], pa.int32())
    values = pa.concat_arrays([pa.array([], pa.int64()), *(found for found in words if found is not None)])
    is_null = pa.array([found is None for found in words], pa.bool_())
    return pa.ListArray.from_arrays(pc.cumulative_sum(lengths), values, mask=is_null)


def _words(deleted: pa.BooleanArray) -> pa.Array:
    count = -(-len(deleted) // _WORD)
    data = deleted.buffers()[1].to_pybytes()[: -(-len(deleted) // 8)]
    return pa.Array.from_buffers(pa.int64(), count, [None, pa.py_buffer(data.ljust(8 * count, b"\0"))])


def read_files(spark: SparkSession, paths: Sequence[str], fields: Sequence[Field]) -> DataFrame:
    """Open files with the physical names and the types of fields; Spark looks for each file now."""
    reader = spark.read.schema(spark_schema(Struct(tuple(map(_physical, fields)))))
    for name, value in _OPTIONS.items():
        reader = reader.option(name, value)
    frame = reader.parquet(*paths)
    # A session of Spark Connect looks only when it is asked for something.
    _ = frame.schema
    return frame


def native_frame(scan: Scan, spark: SparkSession, rows: DataFrame, files: NativeFiles) -> DataFrame:
    """Give the wanted rows and columns out of what Spark reads of the files."""
    columns = _Columns(scan, files)
    if columns.constants or columns.values or files.words.null_count < len(files.words):
        rows = _joined(spark, rows, files, columns)
    if pc.any(files.tasks.column("filtered"), min_count=0).as_py():
        rows = rows.filter(spark_condition(scan.read_spec.residual, columns.of))
    return rows.select(*map(columns.output, scan.output))


class _Columns:
    """The Spark columns of table fields, in the join of rows and files."""

    def __init__(self, scan: Scan, files: NativeFiles) -> None:
        prefix = "__file_"
        while any(field.physical_name.lower().startswith(prefix) for field in files.fields):
            prefix = f"_{prefix}"
        self.hash, self.key, self.words = f"{prefix}hash", f"{prefix}key", f"{prefix}words"
        constants = scan.read_spec.constants
        self.constants = {child.name: (f"{prefix}{number}", child) for number, child in enumerate(constants)}
        #: What computed columns need of each file.
        values = file_values(computed_parts(scan), files.tasks)
        self.values = {name: (f"{prefix}of_{name}", *found) for name, found in values.items()}
        self._layout = scan.source.layout
        self._read = {field.name: field for field in files.fields}
        #: What tells the files apart. To ask for more of the metadata costs time for each row.
        self._by = sf.col(f"_metadata.{files.by}")

    def of(self, path: Sequence[Field]) -> Column:
        """Give the column of a path."""
        first, *rest = path
        if first.name in self._layout.computed:
            return self._computed(first, rest)
        if first.name not in self.constants:
            return self._from_file(first, rest)
        name, child = self.constants[first.name]
        found = self.known(sf.col(name), spark_type(child.type))
        if first.name in self._layout.stored and first.name in self._read:
            # A file holds it itself where no value of it is known.
            found = sf.coalesce(found, self._from_file(first, []))
        for inner in rest:
            found = found.getField(inner.name)
        return found

    def _computed(self, first: Field, rest: Sequence[Field]) -> Column:
        if rest or not isinstance(first.type, Struct):
            return self._part(rest[0] if rest else first)
        return _nullable(sf.struct(*(self._part(part).alias(part.name) for part in first.type)))

    def _part(self, part: Field) -> Column:
        row = _nullable(sf.col("_metadata.row_index"))
        if part.name in ROW_INDEXES:
            return row
        name, child, _ = self.values[part.name]
        found = self.known(sf.col(name), spark_type(child.type))
        if part.name in ROW_IDS:
            found += row
        stored = materialized_fields([part], self._layout)
        return sf.coalesce(*(self._from_file(column, []) for column in stored.values()), found)

    def _from_file(self, first: Field, rest: Sequence[Field]) -> Column:
        field = self._read[first.name]
        found, kind = sf.col(_quoted(field.physical_name)), field.type
        for child in rest:
            inner = kind.get(child.name) if isinstance(kind, Struct) else None
            if inner is None:
                raise SchemaError(f"{field.name} has no field {child.name}")
            found, kind = found.getField(inner.physical_name), inner.type
        return found

    def known(self, value: Column, kind: st.DataType) -> Column:
        """Give a value that belongs to a file; for a file that the plan does not know it fails.

        Every use of the file's side of the join goes through here: a plain condition on that side would let Spark make
        an inner join of it, which drops rows without a word.
        """
        lost = sf.raise_error(sf.concat(sf.lit(_LOST), self._by))
        return sf.when(sf.col(self.key).isNull(), lost.cast(kind)).otherwise(value)

    def output(self, child: Field) -> Column:
        """Give a wanted column under its own name, and those of the fields in it."""
        found = self.of([child])
        if child.name not in self.constants and child.name not in self._layout.computed:
            wanted = spark_type(child.type)
            if spark_type(_physical_type(self._read[child.name].type)) != wanted:
                found = found.cast(wanted)
        return found.alias(child.name)


def _joined(spark: SparkSession, rows: DataFrame, files: NativeFiles, columns: _Columns) -> DataFrame:
    """Join rows with what is known of their files, and leave the deleted ones out."""
    place = pa.array([number for number, found in enumerate(files.keys) for _ in found], pa.int64())
    known = {columns.key: pa.array([key for found in files.keys for key in found], pa.int64())}
    fields = [Field(columns.key, Primitive("long"))]
    for name, child in columns.constants.values():
        known[name] = for_spark(files.tasks.column(constant_column(child.name)).take(place), child.type)
        fields.append(Field(name, child.type))
    for name, child, values in columns.values.values():
        known[name] = values.take(place)
        fields.append(Field(name, child.type))
    has_deletes = files.words.null_count < len(files.words)
    if has_deletes:
        known[columns.words] = files.words.take(place)
        fields.append(Field(columns.words, List(Field("element", Primitive("long")))))
    table = spark.createDataFrame(pa.table(known), spark_schema(Struct(tuple(fields))))
    # As a column, for the join of Spark 4.0 takes no condition on the metadata of files.
    rows = rows.withColumn(columns.hash, sf.xxhash64(f"_metadata.{files.by}"))
    joined = rows.join(sf.broadcast(table), sf.col(columns.hash) == sf.col(columns.key), "left")
    return joined.filter(columns.known(_kept(columns.words) if has_deletes else sf.lit(True), st.BooleanType()))


def _nullable(found: Column) -> Column:
    """Give a column that may be null for all that Spark knows, as those of the other road are."""
    return sf.when(found.isNotNull(), found)


def _kept(words: str) -> Column:
    """Say whether a row's bit is not set; rows beyond the last word are kept."""
    row = sf.col("_metadata.row_index")
    word = sf.get(sf.col(words), sf.shiftright(row, _WORD_BITS).cast("int"))
    bit = sf.getbit(word, row.bitwiseAND(_WORD - 1).cast("int"))
    return sf.coalesce(bit, sf.lit(0)) == 0


def keys_of(locations: Sequence[str], scheme: str) -> tuple[str, list[list[int]]] | None:
    """Give what of ``_metadata`` tells files apart by its hash, and the hashes of each file: one for each spelling.

    The name is shorter than the path, and hashed for each row; it will do where no two files share it, or its hash.
    None where the paths do not tell files apart either. ``scheme`` is how Spark spells that of the locations.
    """
    places = [parse_location(location) for location in locations]
    names = [[xxhash64(encoded(place.path.rpartition("/")[2]))] for place in places]
    if len({key for (key,) in names}) == len(names):
        return "file_name", names
    paths = []
    for place in places:
        path = encoded(spelled(place, scheme))
        # Hadoop drops an authority that is empty, and Java's URIs keep it.
        spellings = {path, path.replace("file:///", "file:/", 1)} if scheme == "file" else {path}
        paths.append(sorted(map(xxhash64, spellings)))
    different = {key for keys in paths for key in keys}
    return ("file_path", paths) if len(different) == sum(map(len, paths)) else None


def spelled(place: Location, scheme: str) -> str:
    """Spell a location for Spark."""
    return f"{scheme}://{place.authority}/{place.path.removeprefix('/')}"


def encoded(path: str) -> str:
    """Spell a path as Spark's ``_metadata`` does."""
    return _ENCODED.sub(lambda found: f"%{ord(found[0]):02X}", path)


def _physical(field: Field) -> Field:
    """Give a field as files name it, at any depth."""
    return replace(field, name=field.physical_name, type=_physical_type(field.type))


def _physical_type(kind: DataType) -> DataType:
    if isinstance(kind, Struct):
        return Struct(tuple(map(_physical, kind)))
    if isinstance(kind, List):
        return List(replace(kind.element, type=_physical_type(kind.element.type)))
    if isinstance(kind, Map):
        key, value = (replace(part, type=_physical_type(part.type)) for part in (kind.key, kind.value))
        return Map(key, value)
    return kind


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
