"""The *native* road of writes: Spark's own Parquet writer writes the rows, which never leave the JVM.

It is taken only where the files hold exactly what our own writer would have written. The files stay where Spark has
written them, in a fresh directory below that of the table. They are listed, and their footers tell the statistics.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import fields, replace

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from deltaberg.errors import StorageError
from deltaberg.files.formats.footers import Footer, read_footers
from deltaberg.files.write.write_parquet import ParquetOptions, leaf_columns, main_codec
from deltaberg.files.write.written import WrittenFile, leaf_paths, written_rows
from deltaberg.files.write.written_footers import FooterFacts, parquet_leaves
from deltaberg.schema.arrow import arrow_type
from deltaberg.schema.file_schema import file_schema
from deltaberg.schema.from_arrow import table_schema
from deltaberg.schema.rows.matched_fields import match_fields
from deltaberg.schema.types import DataType, Decimal, Field, List, Map, Primitive, Struct
from deltaberg.spark.session import SessionFacts
from deltaberg.spark.types import physical_columns, spark_type
from deltaberg.spark.write.map_keys import has_known_keys, refused_key, refusing_repeated_keys
from deltaberg.spark.write.spark_parquet import SparkParquet, why_not_in_a_clone
from deltaberg.storage.base import ObjectMeta
from deltaberg.storage.location import Location
from deltaberg.storage.stores import StoreSpec
from deltaberg.table.removal import FileKind, delete_files, discard_files, drop_directory
from deltaberg.table.rows.row_options import WAITING
from deltaberg.table.write.footers import footer_statistics
from deltaberg.table.write.spec import WriteSpec

__all__ = ["NativeWrite", "why_not_native"]

_FIELD_ID = "parquet.field.id"
_CHAR_TYPE = "__CHAR_VARCHAR_TYPE_STRING"
#: What Spark calls the codecs that it writes as we do.
_CODECS = {"snappy": "snappy", "zstd": "zstd", "gzip": "gzip", "lz4": "lz4_raw", "none": "uncompressed"}
#: Options of files that Spark's writer knows, too.
_HONOURED = ("compression", "row_group_size", "data_page_size", "dictionary_page_size")
#: The releases of Spark whose writer is known here. Others may build its plan in another way.
_RELEASES = ((4, 0), (4, 1), (4, 3))
_ODD_TEXT = "its texts have a collation or a length"
#: Types without parameters that Spark writes as we do.
_PLAIN = frozenset(
    Primitive(name)
    for name in (
        *("boolean", "byte", "short", "integer", "long", "float", "double", "string", "binary"),
        *("date", "timestamp", "timestamp_ntz"),
    )
)
#: All that is in the directory of a write, whose name nobody else knows.
_OF_SPARK = FileKind("a file of this write", re.compile(".+", re.DOTALL))
#: The most that Spark's writer takes for the sizes of row groups and pages.
_MOST_BYTES = (1 << 31) - 1
#: Characters of a path that Hadoop may take for others.
_ODD = frozenset("*?[]{}\\:%\"'")


def why_not_native(
    frame: DataFrame, rows: pa.Schema, spec: WriteSpec, root: Location, facts: SessionFacts
) -> str | None:
    """Return why Spark's writer would not write exactly what ours does; None if it does.

    Parameters
    ----------
    frame
        The rows.
    rows
        Their columns.
    spec
        What the table asks for.
    root
        The directory of the table.
    """
    if facts.is_remote:
        return "the session is one of Spark Connect"
    if facts.release not in _RELEASES:
        return f"the writer of Spark {facts.version} is not known"
    if root.scheme != "file":
        return f"whether Hadoop finds {root.scheme}:// in the same place is not known"
    if not root.path.isascii() or not root.path.isprintable() or not _ODD.isdisjoint(root.path):
        return "Hadoop may take the path of the table for another"
    why = _why_not_the_table(spec) or _why_not_the_columns(frame.schema, table_schema(rows), spec)
    return why or why_not_in_a_clone(frame)


def _why_not_the_table(spec: WriteSpec) -> str | None:
    reasons = {
        f"the files are of the format {spec.format}": spec.format != "parquet",
        "the table is partitioned": bool(spec.partition),
        "the table has rules for its rows": bool(spec.rules),
        "the rows of a file are sorted": spec.sort is not None,
        "the table chooses the places of its files": _has_own_places(spec),
        "files are to have a certain size": spec.is_sized,
        "the memory of a write is bounded": spec.memory != WAITING,
        "the Parquet files are to be written in a way that Spark does not know": not _is_known(spec.parquet),
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def _has_own_places(spec: WriteSpec) -> bool:
    if spec.place is None or spec.partition:
        return bool(spec.random_prefix)
    return "/" in spec.place((), 0)


def _is_known(options: ParquetOptions) -> bool:
    plain = ParquetOptions()
    own = (one.name for one in fields(plain) if one.name not in _HONOURED)
    return main_codec(options) in _CODECS and (
        isinstance(options.compression, str) and all(getattr(options, name) == getattr(plain, name) for name in own)
    )


def _why_not_the_columns(frame_schema: st.StructType, rows: Struct, spec: WriteSpec) -> str | None:
    with_ids = _has_ids(spec)
    for source, child in zip(match_fields(spec.schema, rows.names, ()), spec.schema, strict=True):
        why = _why_not_the_field(child, with_ids=with_ids)
        if why is None and source is not None:
            own = rows.fields[source].type
            if not _is_same(own, child.type):
                why = f"the rows have the type {own}, and the table {child.type}"
            elif _CHAR_TYPE in frame_schema[source].metadata or _has_collation(frame_schema[source].dataType):
                why = _ODD_TEXT
        if why is not None:
            return f"column {child.name}: {why}"
    # Dots would be taken for the levels of a path.
    if any("." in name for name in _physical_names(spec.stored)) and _float_paths(spec.stored):
        return "a column has a dot in its name, so that Spark cannot be told how to encode floating point numbers"
    return None


def _why_not_the_field(field: Field, *, with_ids: bool, inside: bool = False) -> str | None:
    """Return why Spark does not write a field as we do. Elements, keys and values are ``inside``: they have no ids."""
    if not field.nullable:
        return "it must not be null"
    if _CHAR_TYPE in field.metadata:
        return _ODD_TEXT
    if (field.id is not None) != (with_ids and not inside):
        return "Spark does not give its fields the ids that the table asks for"
    kind = field.type
    if isinstance(kind, Struct):
        reasons = [_why_not_the_field(child, with_ids=with_ids) for child in kind] or ["it has no fields"]
        return next((why for why in reasons if why is not None), None)
    if isinstance(kind, List):
        return _why_not_the_field(kind.element, with_ids=with_ids, inside=True)
    if isinstance(kind, Map):
        if not has_known_keys(kind):
            return f"whether a map has one of its keys twice, which are of the type {kind.key.type}, is not known"
        parts = (replace(kind.key, nullable=True), kind.value)
        reasons = [_why_not_the_field(part, with_ids=with_ids, inside=True) for part in parts]
        return reasons[0] or reasons[1]
    if isinstance(kind, Decimal) or kind in _PLAIN:
        return None
    return f"it is of the type {kind}"


def _is_same(one: DataType, other: DataType) -> bool:
    """Return whether two types are the same, whatever may be null in them."""
    if isinstance(one, Struct) and isinstance(other, Struct):
        return one.names == other.names and all(map(_is_same, _inner(one), _inner(other)))
    if isinstance(one, List) and isinstance(other, List):
        return _is_same(one.element.type, other.element.type)
    if isinstance(one, Map) and isinstance(other, Map):
        return _is_same(one.key.type, other.key.type) and _is_same(one.value.type, other.value.type)
    return one == other


def _inner(struct: Struct) -> Iterator[DataType]:
    return (child.type for child in struct)


def _has_collation(kind: st.DataType) -> bool:
    if isinstance(kind, st.StructType):
        return any(_has_collation(child.dataType) or _CHAR_TYPE in child.metadata for child in kind)
    if isinstance(kind, st.ArrayType):
        return _has_collation(kind.elementType)
    if isinstance(kind, st.MapType):
        return _has_collation(kind.keyType) or _has_collation(kind.valueType)
    return isinstance(kind, st.StringType) and kind != st.StringType()


def _has_ids(spec: WriteSpec) -> bool:
    return any(field.id is not None for field in spec.stored)


def _physical_names(kind: DataType) -> Iterator[str]:
    if isinstance(kind, Struct):
        for child in kind:
            yield child.physical_name
            yield from _physical_names(child.type)
    elif isinstance(kind, List):
        yield from _physical_names(kind.element.type)
    elif isinstance(kind, Map):
        yield from _physical_names(kind.key.type)
        yield from _physical_names(kind.value.type)


def _float_paths(stored: Struct) -> list[str]:
    """Return the paths of the Parquet columns of floating point numbers."""
    return [path for path, kind in leaf_columns(file_schema(stored)).items() if kind in ("FLOAT", "DOUBLE")]


class NativeWrite:
    """A write by Spark's own writer, against which `why_not_native` has found no reason.

    Parameters
    ----------
    frame
        The rows, with columns named ``c0``, ``c1`` and so on.
    rows
        Their columns as the caller names them.
    spec
        What the table asks for.
    """

    def __init__(self, frame: DataFrame, rows: pa.Schema, spec: WriteSpec) -> None:
        self._spec = spec
        sources = match_fields(spec.schema, rows.names, ())
        columns = [_column(source, child) for source, child in zip(sources, spec.schema, strict=True)]
        self._parquet = SparkParquet(frame.select(*columns), with_ids=_has_ids(spec))

    def write(self, store: StoreSpec, root: Location) -> pa.Table:
        """Write the rows to a directory of their own, and return a row for each file.

        Raises
        ------
        ConstraintViolationError
            A map has a key twice.
        StorageError
            The files are not those that the tasks say they have written. After any exception, all files are deleted as
            far as the store allows it.
        """
        name = str(uuid.uuid4())
        directory = f"file://{root.join(name).path}"
        try:
            rows = self._parquet.write(directory, _options(self._spec))
            files = self._described(store, root, name, rows)
        except BaseException as error:
            with suppress(Exception):
                _discard(store, root.join(name))
            refused = refused_key(error)
            if refused is not None:
                raise refused from None
            raise
        if not files.num_rows:
            drop_directory(root.join(name))
        return files

    def _described(self, store: StoreSpec, root: Location, name: str, rows: int) -> pa.Table:
        """Describe the files with rows, and delete all others."""
        storage, place = store.open(root), root.join(name).path
        objects = {meta.path[len(place) + 1 :]: meta for meta in storage.walk(place)}
        data = sorted(path for path in objects if not path.startswith(("_", ".")))
        footers = read_footers((storage, objects[path]) for path in data)
        wanted = physical_columns(self._spec.stored)
        for path, footer in zip(data, footers, strict=True):
            if not _is_same(footer.columns, wanted):
                raise StorageError(
                    f"Spark has written other columns than the table has: {footer.columns}, and not {wanted}", path=path
                )
        written = sum(footer.rows for footer in footers)
        if written != rows:
            raise StorageError(
                f"Spark's tasks have written {rows} rows, but there are files with {written}",
                hint="executors must write to the same place that this process reads from",
                path=place,
            )
        leaves = _leaves(self._spec)
        files = [
            _written(f"{name}/{path}", objects[path], footer, leaves, self._spec)
            for path, footer in zip(data, footers, strict=True)
            if footer.rows
        ]
        kept = {file.path for file in files}
        others = (meta.path for path, meta in objects.items() if f"{name}/{path}" not in kept)
        delete_files(storage, place, others, _OF_SPARK, "a task of Spark wrote it beside what was committed").or_raise()
        return written_rows(files, self._spec.schema, footers=self._spec.footers)


def _discard(store: StoreSpec, directory: Location) -> None:
    """Delete a directory into which Spark has written for nothing."""
    storage = store.open(directory)
    discard_files(storage, directory.path, [meta.path for meta in storage.walk(directory.path)], _OF_SPARK)
    drop_directory(directory)


def _column(source: int | None, field: Field) -> Column:
    """Return a column as files are to have it: with physical names, and with ids in the metadata of fields."""
    kind = _file_type(field.type)
    if source is None:
        values = sf.lit(None).cast(kind)
    else:
        values = refusing_repeated_keys(sf.col(f"c{source}"), field)
        if isinstance(field.type, (Struct, List, Map)):
            values = values.cast(kind)
    return values.alias(field.physical_name, metadata=_metadata(field))


def _metadata(field: Field) -> dict[str, int]:
    return {} if field.id is None else {_FIELD_ID: field.id}


def _file_type(kind: DataType) -> st.DataType:
    """Return the type of Spark for a column of files."""
    if isinstance(kind, Struct):
        children = [st.StructField(one.physical_name, _file_type(one.type), True, _metadata(one)) for one in kind]
        return st.StructType(children)
    if isinstance(kind, List):
        return st.ArrayType(_file_type(kind.element.type))
    if isinstance(kind, Map):
        return st.MapType(_file_type(kind.key.type), _file_type(kind.value.type))
    return spark_type(kind)


def _options(spec: WriteSpec) -> dict[str, str]:
    own = spec.parquet
    pages = {"parquet.page.size": own.data_page_size, "parquet.dictionary.page.size": own.dictionary_page_size}
    return {
        "compression": _CODECS[main_codec(own)],
        "parquet.block.size": str(min(own.row_group_size, _MOST_BYTES)),
        **{name: str(min(size, _MOST_BYTES)) for name, size in pages.items() if size is not None},
        # A reader that looks for 0.0 in a dictionary does not find -0.0.
        **{f"parquet.enable.dictionary#{path}": "false" for path in _float_paths(spec.stored)},
    }


_Leaves = dict[int, tuple[tuple[str, ...], pa.DataType]]


def _leaves(spec: WriteSpec) -> _Leaves:
    """Return the physical names and the types of the leaves that have statistics."""
    return {
        number: (tuple(part.physical_name for part in path), arrow_type(path[-1].type))
        for number, path in leaf_paths(spec.schema).items()
        if spec.statistics is None or number in spec.statistics
    }


def _written(path: str, meta: ObjectMeta, footer: Footer, leaves: _Leaves, spec: WriteSpec) -> WrittenFile:
    taken = footer_statistics(footer, leaves, spec.cut)
    # No column is inside a list or map of which more must be known: those go by Arrow.
    stored = (leaf.number for leaves in parquet_leaves(spec.stored).values() for leaf in leaves)
    facts = FooterFacts(footer.split_offsets, dict(zip(stored, footer.column_sizes, strict=True)))
    return WrittenFile(path, meta.size, footer.rows, meta.modified, {}, *taken, facts)
