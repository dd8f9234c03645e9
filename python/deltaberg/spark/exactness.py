"""Whether Spark's own Parquet reader gives the very rows that ours gives, file by file.

What decides is in the footer of each file, which is read here: the names and ids of its columns, their types, and which
calendar its writer used.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from deltaberg.errors import DeltabergError
from deltaberg.files import FileLayout
from deltaberg.files.parquet import ParquetSource
from deltaberg.schema import DataType, Decimal, Field, List, Map, Primitive, Struct, arrow_type
from deltaberg.schema.projection import Children, has_ids, leaf_count, leaf_offsets
from deltaberg.storage import StoreSpec, parse_location

__all__ = ["FileFit", "fit_files"]

#: Footers that are read at a time.
_THREADS = 16
#: Types whose values Spark's reader gives as they are.
_PLAIN = frozenset(
    {"boolean", "byte", "short", "integer", "long", "float", "double", "string", "binary", "date"}
    | {"timestamp", "timestamp_ntz"}
)
#: Layouts of text and bytes that files remember of their writer; in the file they are the same.
_ALIASES = {
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
}
#: What the metadata of a file says where its writer counted days by the calendar before 1582.
_LEGACY_KEYS = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
_SPARK_VERSION = b"org.apache.spark.version"
_FIRST_PROLEPTIC, _FIRST_PROLEPTIC_INT96 = (3, 0), (3, 1)
#: Spark can be told to shift INT96 of other writers than its own by the zone of the session.
_PARQUET_JAVA = "parquet-mr"
#: Beyond this precision a decimal is no number of 64 bits; below it Spark reads only that many bytes of one.
_LONG_DIGITS, _LONG_BYTES = 18, 8
_CODECS = frozenset({"UNCOMPRESSED", "SNAPPY", "GZIP", "ZSTD", "LZ4"})
#: Spark 4.1 misreads texts with nulls among them where they are encoded as differences.
_ENCODINGS = frozenset({"PLAIN", "RLE", "PLAIN_DICTIONARY", "RLE_DICTIONARY", "BIT_PACKED"})
_LIST_LEVELS = ("list.element", "list.item", "bag.array_element")
_MAP_LEVELS = ("key_value", "entries")


class FileFit:
    """What the footer of a file says: its rows, and why Spark must not read it, if anything does."""

    def __init__(self, rows: int, misfit: str | None) -> None:
        self.rows = rows
        self.misfit = misfit


def fit_files(
    locations: Sequence[str], sizes: Sequence[int], store: StoreSpec, wanted: Sequence[Field], layout: FileLayout
) -> list[FileFit]:
    """Read the footers of files, and say of each whether Spark reads the wanted columns of it as we do.

    Parameters
    ----------
    wanted
        Top-level fields, perhaps with a part of their nested fields.
    """

    def fit(location: str, size: int) -> FileFit:
        try:
            place = parse_location(location)
            source = ParquetSource(store.open(place).open(place.path, size))
            try:
                return _fit(source, wanted, layout)
            finally:
                source.close()
        except (DeltabergError, pa.ArrowException, OSError) as error:
            # Who reads the file will say so.
            return FileFit(0, f"it cannot be opened: {type(error).__name__}")

    with ThreadPoolExecutor(_THREADS, thread_name_prefix="deltaberg-footers") as pool:
        return list(pool.map(fit, locations, sizes))


def _fit(source: ParquetSource, wanted: Sequence[Field], layout: FileLayout) -> FileFit:
    if layout.by_id:
        source.schema_with(layout.name_mapping)
        if wanted and not has_ids(source.schema):
            return FileFit(0, "it has no field ids")
    judge = _Judge(source, layout.by_id)
    children = Children(source.schema, layout.by_id)
    misfit = judge.struct(wanted, children, leaf_offsets(children.fields, 0), "", is_root=True)
    misfit = misfit or _encoding(source, judge.leaves) or _calendar(source, judge)
    return FileFit(source.metadata.num_rows, misfit)


def _encoding(source: ParquetSource, leaves: Sequence[int]) -> str | None:
    groups = (source.metadata.row_group(number) for number in range(source.metadata.num_row_groups))
    chunks = [group.column(leaf) for group in groups for leaf in leaves]
    foreign = {encoding for chunk in chunks for encoding in chunk.encodings} - _ENCODINGS
    foreign |= {chunk.compression for chunk in chunks} - _CODECS
    return f"it is encoded by {', '.join(sorted(foreign))}" if foreign else None


def _calendar(source: ParquetSource, judge: _Judge) -> str | None:
    """Say whether Spark reads instants of a file as another writer's than we do."""
    if not judge.has_instants:
        return None
    if judge.has_int96 and _PARQUET_JAVA not in (source.metadata.created_by or ""):
        return "it has INT96 of another writer than Spark's"
    metadata = source.metadata.metadata or {}
    parts = metadata.get(_SPARK_VERSION, b"").decode(errors="replace").split(".")[:2]
    version = tuple(int(part) for part in parts if part.isdigit())
    first = _FIRST_PROLEPTIC_INT96 if judge.has_int96 else _FIRST_PROLEPTIC
    is_old = bool(version) and version < first
    return "its days count by the calendar before 1582" if is_old or any(k in metadata for k in _LEGACY_KEYS) else None


class _Judge:
    """Walks through wanted fields and those of a file; each method gives the first reason against Spark's reader."""

    def __init__(self, source: ParquetSource, by_id: bool) -> None:
        self._leaves = source.metadata.schema
        self._by_id = by_id
        self.leaves: list[int] = []
        self.has_instants = False
        self.has_int96 = False

    def struct(
        self, wanted: Sequence[Field], children: Children, offsets: Sequence[int], path: str, is_root: bool = False
    ) -> str | None:
        names = Counter(child.name.lower() for child in children.fields)
        for want in wanted:
            index = children.find(want)
            same = names[want.physical_name.lower()]
            if index is None:
                if not is_root:
                    # Spark may take a struct of nothing but such fields for null.
                    return f"the field {path}{want.name} is younger than the file"
                if same:
                    return f"a column of it has the name {want.physical_name} and another id"
                if want.default is not None:
                    return f"the column {want.name} is younger than the file, and has a default"
                continue
            child = children.fields[index]
            if child.name != want.physical_name:
                return f"the column {want.name} is named {child.name} in it"
            if same > 1:
                return f"columns of it have the name {want.name} but for the case of letters"
            misfit = self.value(want.type, child.type, offsets[index], f"{path}{child.name}")
            if misfit is not None:
                return misfit
        return None

    def value(self, want: DataType, found: pa.DataType, leaf: int, path: str) -> str | None:
        if isinstance(want, Struct) and pt.is_struct(found):
            children = Children(found, self._by_id)
            return self.struct(tuple(want), children, leaf_offsets(children.fields, leaf), f"{path}.")
        if isinstance(want, List) and (pt.is_list(found) or pt.is_large_list(found)):
            level = self._level(leaf, path, _LIST_LEVELS)
            if level is None:
                return f"the list {path} is laid out in an old way"
            return self.value(want.element.type, found.value_type, leaf, f"{path}.{level}")
        if isinstance(want, Map) and pt.is_map(found):
            level = self._level(leaf, path, _MAP_LEVELS)
            if level is None:
                return f"the map {path} is laid out in an old way"
            misfit = self.value(want.key.type, found.key_type, leaf, f"{path}.{level}.key")
            values = leaf + leaf_count(found.key_type)
            return misfit or self.value(want.value.type, found.item_type, values, f"{path}.{level}.value")
        return self._leaf(want, found, leaf, path)

    def _level(self, leaf: int, path: str, levels: Sequence[str]) -> str | None:
        known = self._leaves.column(leaf).path
        return next((level for level in levels if f"{known}.".startswith(f"{path}.{level}.")), None)

    def _leaf(self, want: DataType, found: pa.DataType, leaf: int, path: str) -> str | None:
        is_plain = isinstance(want, Decimal) or (isinstance(want, Primitive) and want.name in _PLAIN)
        if not is_plain or pt.is_nested(found) or isinstance(found, pa.BaseExtensionType):
            return f"the column {path} is of type {want}"
        column = self._leaves.column(leaf)
        self.leaves.append(leaf)
        if column.path != path:
            return f"the column {path} is laid out in an old way"
        self.has_instants |= want in (Primitive("date"), Primitive("timestamp"), Primitive("timestamp_ntz"))
        if column.physical_type == "INT96":
            self.has_int96 = True
            return None if want == Primitive("timestamp") else f"the column {path} is of type {want}, INT96 in it"
        if isinstance(want, Decimal) and not _is_read_whole(column, want):
            return f"the column {path} is of type {want}, in more bytes of it than Spark reads"
        if _stored(column, found) != arrow_type(want):
            return f"the column {path} is of type {want}, {found} in it"
        return None


def _is_read_whole(column: Any, want: Decimal) -> bool:
    fixed = column.physical_type == "FIXED_LEN_BYTE_ARRAY"
    if want.precision > _LONG_DIGITS:
        return True
    return column.physical_type != "BYTE_ARRAY" and not (fixed and column.length > _LONG_BYTES)


def _stored(column: Any, found: pa.DataType) -> pa.DataType:
    """Give the type of values as the file has them, without what its writer noted beside."""
    if pt.is_dictionary(found):
        found = found.value_type
    if pt.is_timestamp(found):
        # A zone of the writer's may stand for UTC.
        logical = json.loads(column.logical_type.to_json())
        return pa.timestamp(found.unit, "UTC" if logical.get("isAdjustedToUTC") else None)
    return _ALIASES.get(found, found)
