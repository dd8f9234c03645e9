"""Whether Spark's Parquet reader gives exactly the rows that ours gives, file by file.

The footer of each file decides: the names and ids of its columns, their types and encodings, and the calendar that its
writer used.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt

from deltaberg.errors import DeltabergError
from deltaberg.files.formats.layout import FileLayout
from deltaberg.files.formats.parquet import ParquetSource
from deltaberg.schema.arrow import arrow_type
from deltaberg.schema.projection import Children, has_ids, leaf_count, leaf_offsets
from deltaberg.schema.types import DataType, Decimal, Field, List, Map, Primitive, Struct
from deltaberg.storage.location import parse_location
from deltaberg.storage.stores import StoreSpec
from deltaberg.workers import map_in_order

__all__ = ["FooterVerdict", "judge_footers"]

#: Footers that are read at a time.
_THREADS = 16
#: Types whose values Spark's reader gives unchanged.
_PLAIN = frozenset(
    {"boolean", "byte", "short", "integer", "long", "float", "double", "string", "binary", "date"}
    | {"timestamp", "timestamp_ntz"}
)
#: Arrow layouts of text and bytes that a writer notes in a file; in the file itself they are the same.
_ALIASES = {
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
}
#: Keys in the metadata of a file whose writer counted days by the hybrid Julian calendar.
_LEGACY_KEYS = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
_SPARK_VERSION = b"org.apache.spark.version"
#: The first versions of Spark that write the proleptic Gregorian calendar. Spark compares versions as text.
_FIRST_PROLEPTIC, _FIRST_PROLEPTIC_INT96 = "3.0.0", "3.1.0"
#: INT96 timestamps of any other writer may be shifted by the time zone of the session, by a setting of Spark.
_PARQUET_JAVA = "parquet-mr"
#: Up to this precision a decimal fits into 64 bits, and Spark reads only that many bytes of it.
_LONG_DIGITS, _LONG_BYTES = 18, 8
_CODECS = frozenset({"UNCOMPRESSED", "SNAPPY", "GZIP", "ZSTD", "LZ4"})
#: Spark 4.1 misreads columns of text that have nulls and one of the delta encodings.
_ENCODINGS = frozenset({"PLAIN", "RLE", "PLAIN_DICTIONARY", "RLE_DICTIONARY", "BIT_PACKED"})
_LIST_LEVELS = ("list.element", "list.item", "bag.array_element")
_MAP_LEVELS = ("key_value", "entries")
_ADDED = "was added after the file was written"


class FooterVerdict(NamedTuple):
    """The facts in the footer of a file: how many rows it has, and why Spark must not read it (None if it may).

    ``fields`` are the wanted fields, with the physical names that they have in the file, at any depth.
    """

    rows: int
    why_not: str | None
    fields: tuple[Field, ...] = ()


def judge_footers(
    locations: Sequence[str], sizes: Sequence[int], store: StoreSpec, columns: Sequence[Field], layout: FileLayout
) -> list[FooterVerdict]:
    """Read the footers of files, and return for each whether Spark reads the wanted columns of the file as we do.

    Parameters
    ----------
    columns
        Top-level fields; a struct may have only some of its fields.
    """
    judges: _Judges = {}

    def judged(file: tuple[str, int]) -> FooterVerdict:
        location, size = file
        try:
            place = parse_location(location)
            source = ParquetSource(store.open(place).open(place.path, size))
            try:
                judge = _judge(source, columns, layout, judges)
                groups = [source.metadata.row_group(number) for number in range(source.metadata.num_row_groups)]
                counts = [group.num_rows for group in groups]
                why_not = judge.why_not
                if min(counts, default=0) < 0 or sum(counts) != source.metadata.num_rows:
                    why_not = "its footer contradicts itself about the number of rows"
                why_not = why_not or _why_not_encoding(groups, judge.leaves) or _why_not_calendar(source, judge)
                return FooterVerdict(sum(counts), why_not, judge.fields)
            finally:
                source.close()
        except (DeltabergError, pa.ArrowException, OSError, ValueError, LookupError, ArithmeticError) as error:
            # The arrow road names the error when it reads the file.
            return FooterVerdict(0, f"it cannot be opened: {type(error).__name__}")

    return map_in_order(_THREADS, judged, zip(locations, sizes, strict=True))


def _judge(source: ParquetSource, columns: Sequence[Field], layout: FileLayout, judges: _Judges) -> _Judge:
    """Judge the columns of a file; most files have the same columns as another one."""
    if layout.by_id:
        source.schema_with(layout.name_mapping)
    # Metadata may differ from file to file, such as the row numbers that pandas notes, and does not matter here.
    schema = source.schema.remove_metadata()
    alike = judges.setdefault(schema.serialize().to_pybytes(), [])
    found = next((judge for judge in alike if judge.has_columns_of(source)), None)
    if found is None:
        found = _Judge(schema, source.metadata.schema, columns, layout.by_id)
        alike.append(found)
    return found


def _why_not_encoding(groups: Sequence[pq.RowGroupMetaData], leaves: Sequence[int]) -> str | None:
    chunks = [group.column(leaf) for group in groups for leaf in leaves]
    foreign = {encoding for chunk in chunks for encoding in chunk.encodings} - _ENCODINGS
    foreign |= {chunk.compression for chunk in chunks} - _CODECS
    return f"it is encoded by {', '.join(sorted(foreign))}" if foreign else None


def _why_not_calendar(source: ParquetSource, judge: _Judge) -> str | None:
    """Return why Spark takes the dates and timestamps of a file for others than we do; None if it does not."""
    if not judge.has_instants:
        return None
    if judge.has_int96 and _PARQUET_JAVA not in (source.metadata.created_by or ""):
        return "it has INT96 timestamps of a writer other than Spark"
    metadata = source.metadata.metadata or {}
    version = metadata.get(_SPARK_VERSION)
    first = _FIRST_PROLEPTIC_INT96 if judge.has_int96 else _FIRST_PROLEPTIC
    is_old = version is not None and version.decode(errors="replace") < first
    is_hybrid = is_old or any(key in metadata for key in _LEGACY_KEYS)
    return "its dates may be of the hybrid Julian calendar" if is_hybrid else None


class _RefusedError(Exception):
    """Why Spark must not read a file."""


#: The judges of each Arrow schema; files of one schema may differ in their Parquet columns.
_Judges = dict[bytes, "list[_Judge]"]


class _Judge:
    """Finds the columns of a file for the wanted fields, and the first reason against Spark's reader."""

    def __init__(self, schema: pa.Schema, leaves: pq.ParquetSchema, columns: Sequence[Field], by_id: bool) -> None:
        self._schema = schema
        self._leaves = leaves
        self._by_id = by_id
        self.leaves: list[int] = []
        self.has_instants = False
        self.has_int96 = False
        self.fields: tuple[Field, ...] = ()
        self.why_not: str | None = None
        try:
            self.fields = self._columns(columns)
        except _RefusedError as error:
            self.why_not = str(error)

    def has_columns_of(self, source: ParquetSource) -> bool:
        """Return whether a file with the same Arrow schema also has the same Parquet columns."""
        return bool(self._leaves.equals(source.metadata.schema))

    def _columns(self, wanted: Sequence[Field]) -> tuple[Field, ...]:
        if self._by_id and wanted and not has_ids(self._schema):
            raise _RefusedError("it has no field ids")
        children = Children(self._schema, self._by_id)
        return self._struct(wanted, children, leaf_offsets(children.fields, 0), "")

    def _struct(
        self, wanted: Sequence[Field], children: Children, offsets: Sequence[int], path: str
    ) -> tuple[Field, ...]:
        names = Counter(child.name.lower() for child in children.fields)
        fields = []
        for number, want in enumerate(wanted):
            index = children.find(want)
            if index is None:
                if path:
                    # Spark may take a struct that has only such fields for null.
                    raise _RefusedError(f"the field {path}{want.name} {_ADDED}")
                if want.default is not None:
                    raise _RefusedError(f"the column {want.name} {_ADDED}, and has a default")
                # A column of this name in the file is another column.
                taken = names[want.physical_name.lower()] > 0
                fields.append(replace(want, physical_name=_absent(names, number)) if taken else want)
                continue
            child = children.fields[index]
            if names[child.name.lower()] > 1:
                raise _RefusedError(f"several of its columns have the name {child.name}, if case is ignored")
            kind = self._value(want.type, child.type, offsets[index], f"{path}{child.name}")
            fields.append(replace(want, physical_name=child.name, type=kind))
        return tuple(fields)

    def _value(self, want: DataType, stored: pa.DataType, leaf: int, path: str) -> DataType:
        if isinstance(want, Struct) and pt.is_struct(stored):
            children = Children(stored, self._by_id)
            return Struct(self._struct(tuple(want), children, leaf_offsets(children.fields, leaf), f"{path}."))
        if isinstance(want, List) and (pt.is_list(stored) or pt.is_large_list(stored)):
            inside = self._level(leaf, path, _LIST_LEVELS)
            return List(replace(want.element, type=self._value(want.element.type, stored.value_type, leaf, inside)))
        if isinstance(want, Map) and pt.is_map(stored):
            inside = self._level(leaf, path, _MAP_LEVELS)
            key = self._value(want.key.type, stored.key_type, leaf, f"{inside}.key")
            values = leaf + leaf_count(stored.key_type)
            value = self._value(want.value.type, stored.item_type, values, f"{inside}.value")
            return Map(replace(want.key, type=key), replace(want.value, type=value))
        self._leaf(want, stored, leaf, path)
        return want

    def _level(self, leaf: int, path: str, levels: Sequence[str]) -> str:
        known = f"{self._leaves.column(leaf).path}."
        level = next((level for level in levels if known.startswith(f"{path}.{level}.")), None)
        if level is None:
            raise _RefusedError(f"the column {path} has an old layout")
        return f"{path}.{level}"

    def _leaf(self, want: DataType, stored: pa.DataType, leaf: int, path: str) -> None:
        is_plain = isinstance(want, Decimal) or (isinstance(want, Primitive) and want.name in _PLAIN)
        if not is_plain or pt.is_nested(stored) or isinstance(stored, pa.BaseExtensionType):
            raise _RefusedError(f"the column {path} is of type {want}")
        column = self._leaves.column(leaf)
        self.leaves.append(leaf)
        if column.path != path:
            raise _RefusedError(f"the column {path} has an old layout")
        self.has_instants |= want in (Primitive("date"), Primitive("timestamp"), Primitive("timestamp_ntz"))
        if column.physical_type == "INT96":
            self.has_int96 = True
            if want != Primitive("timestamp"):
                raise _RefusedError(f"the column {path} is of type {want}, but INT96 in the file")
        elif isinstance(want, Decimal) and not _is_read_whole(column, want):
            raise _RefusedError(f"the column {path} is of type {want}, in more bytes than Spark reads")
        elif _stored(column, stored) != arrow_type(want):
            raise _RefusedError(f"the column {path} is of type {want}, but {stored} in the file")


def _absent(names: Counter[str], number: int) -> str:
    """Return a name that no column of a file has."""
    name = f"absent{number}"
    while names[name]:
        name = f"_{name}"
    return name


def _is_read_whole(column: Any, want: Decimal) -> bool:
    fixed = column.physical_type == "FIXED_LEN_BYTE_ARRAY"
    if want.precision > _LONG_DIGITS:
        return True
    return column.physical_type != "BYTE_ARRAY" and not (fixed and column.length > _LONG_BYTES)


def _stored(column: Any, stored: pa.DataType) -> pa.DataType:
    """Return the type of the values in a file, without the Arrow layout that its writer noted."""
    if pt.is_dictionary(stored):
        stored = stored.value_type
    if pt.is_timestamp(stored):
        # The zone is one that the writer noted; the values are in UTC.
        logical = json.loads(column.logical_type.to_json())
        return pa.timestamp(stored.unit, "UTC" if logical.get("isAdjustedToUTC") else None)
    return _ALIASES.get(stored, stored)
