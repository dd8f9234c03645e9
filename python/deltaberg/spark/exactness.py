"""Whether Spark's own Parquet reader gives the very rows that ours gives, file by file.

What decides is in the footer of each file, which is read here: the names and ids of its columns, their types, and which
calendar its writer used.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
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
#: The first versions of Spark without that calendar; it compares them as texts.
_FIRST_PROLEPTIC, _FIRST_PROLEPTIC_INT96 = "3.0.0", "3.1.0"
#: Spark can be told to shift INT96 of other writers than its own by the zone of the session.
_PARQUET_JAVA = "parquet-mr"
#: Beyond this precision a decimal is no number of 64 bits; below it Spark reads only that many bytes of one.
_LONG_DIGITS, _LONG_BYTES = 18, 8
_CODECS = frozenset({"UNCOMPRESSED", "SNAPPY", "GZIP", "ZSTD", "LZ4"})
#: Spark 4.1 misreads texts with nulls among them where they are encoded as differences.
_ENCODINGS = frozenset({"PLAIN", "RLE", "PLAIN_DICTIONARY", "RLE_DICTIONARY", "BIT_PACKED"})
_LIST_LEVELS = ("list.element", "list.item", "bag.array_element")
_MAP_LEVELS = ("key_value", "entries")


class FileFit(NamedTuple):
    """What the footer of a file says: its rows, and why Spark must not read it, if anything does.

    ``fields`` are the wanted ones by the names that they have in the file, at any depth.
    """

    rows: int
    misfit: str | None
    fields: tuple[Field, ...] = ()


def fit_files(
    locations: Sequence[str], sizes: Sequence[int], store: StoreSpec, wanted: Sequence[Field], layout: FileLayout
) -> list[FileFit]:
    """Read the footers of files, and say of each whether Spark reads the wanted columns of it as we do.

    Parameters
    ----------
    wanted
        Top-level fields, perhaps with a part of their nested fields.
    """
    known: _Judges = {}

    def fit(location: str, size: int) -> FileFit:
        try:
            place = parse_location(location)
            source = ParquetSource(store.open(place).open(place.path, size))
            try:
                judge = _judge(source, wanted, layout, known)
                groups = [source.metadata.row_group(number) for number in range(source.metadata.num_row_groups)]
                counts = [group.num_rows for group in groups]
                misfit = judge.misfit
                if min(counts, default=0) < 0 or sum(counts) != source.metadata.num_rows:
                    misfit = "its footer contradicts itself about its rows"
                misfit = misfit or _encoding(groups, judge.leaves) or _calendar(source, judge)
                return FileFit(sum(counts), misfit, judge.fields)
            finally:
                source.close()
        except (DeltabergError, pa.ArrowException, OSError, ValueError, LookupError, ArithmeticError) as error:
            # Who reads the file will say so.
            return FileFit(0, f"it cannot be opened: {type(error).__name__}")

    with ThreadPoolExecutor(_THREADS, thread_name_prefix="deltaberg-footers") as pool:
        return list(pool.map(fit, locations, sizes))


def _judge(source: ParquetSource, wanted: Sequence[Field], layout: FileLayout, known: _Judges) -> _Judge:
    """Judge the columns of a file; most files have those of another one."""
    if layout.by_id:
        source.schema_with(layout.name_mapping)
    # What a file says of itself may differ from file to file, as the row numbers of pandas.
    schema = source.schema.remove_metadata()
    alike = known.setdefault(schema.serialize().to_pybytes(), [])
    found = next((judge for judge in alike if judge.is_of(source)), None)
    if found is None:
        found = _Judge(schema, source.metadata.schema, wanted, layout.by_id)
        alike.append(found)
    return found


def _encoding(groups: Sequence[pq.RowGroupMetaData], leaves: Sequence[int]) -> str | None:
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
    version = metadata.get(_SPARK_VERSION)
    first = _FIRST_PROLEPTIC_INT96 if judge.has_int96 else _FIRST_PROLEPTIC
    is_old = version is not None and version.decode(errors="replace") < first
    return "its days count by the calendar before 1582" if is_old or any(k in metadata for k in _LEGACY_KEYS) else None


class _MisfitError(Exception):
    """Why Spark must not read a file."""


#: Those of each Arrow schema.
_Judges = dict[bytes, "list[_Judge]"]


class _Judge:
    """Walks through wanted fields and those of a file, and finds the first reason against Spark's reader."""

    def __init__(self, schema: pa.Schema, leaves: pq.ParquetSchema, wanted: Sequence[Field], by_id: bool) -> None:
        self._schema = schema
        self._leaves = leaves
        self._by_id = by_id
        self.leaves: list[int] = []
        self.has_instants = False
        self.has_int96 = False
        self.fields: tuple[Field, ...] = ()
        self.misfit: str | None = None
        try:
            self.fields = self._columns(wanted)
        except _MisfitError as misfit:
            self.misfit = str(misfit)

    def is_of(self, source: ParquetSource) -> bool:
        """Say whether a file of the same Arrow schema has the same Parquet columns."""
        return bool(self._leaves.equals(source.metadata.schema))

    def _columns(self, wanted: Sequence[Field]) -> tuple[Field, ...]:
        if self._by_id and wanted and not has_ids(self._schema):
            raise _MisfitError("it has no field ids")
        children = Children(self._schema, self._by_id)
        return self._struct(wanted, children, leaf_offsets(children.fields, 0), "")

    def _struct(
        self, wanted: Sequence[Field], children: Children, offsets: Sequence[int], path: str
    ) -> tuple[Field, ...]:
        names = Counter(child.name.lower() for child in children.fields)
        made = []
        for number, want in enumerate(wanted):
            index = children.find(want)
            if index is None:
                if path:
                    # Spark may take a struct of nothing but such fields for null.
                    raise _MisfitError(f"the field {path}{want.name} is younger than the file")
                if want.default is not None:
                    raise _MisfitError(f"the column {want.name} is younger than the file, and has a default")
                # What has its name in the file is another column.
                taken = names[want.physical_name.lower()] > 0
                made.append(replace(want, physical_name=_absent(names, number)) if taken else want)
                continue
            child = children.fields[index]
            if names[child.name.lower()] > 1:
                raise _MisfitError(f"columns of it have the name {child.name} but for the case of letters")
            kind = self._value(want.type, child.type, offsets[index], f"{path}{child.name}")
            made.append(replace(want, physical_name=child.name, type=kind))
        return tuple(made)

    def _value(self, want: DataType, found: pa.DataType, leaf: int, path: str) -> DataType:
        if isinstance(want, Struct) and pt.is_struct(found):
            children = Children(found, self._by_id)
            return Struct(self._struct(tuple(want), children, leaf_offsets(children.fields, leaf), f"{path}."))
        if isinstance(want, List) and (pt.is_list(found) or pt.is_large_list(found)):
            inside = self._level(leaf, path, _LIST_LEVELS)
            return List(replace(want.element, type=self._value(want.element.type, found.value_type, leaf, inside)))
        if isinstance(want, Map) and pt.is_map(found):
            inside = self._level(leaf, path, _MAP_LEVELS)
            key = self._value(want.key.type, found.key_type, leaf, f"{inside}.key")
            values = leaf + leaf_count(found.key_type)
            value = self._value(want.value.type, found.item_type, values, f"{inside}.value")
            return Map(replace(want.key, type=key), replace(want.value, type=value))
        self._leaf(want, found, leaf, path)
        return want

    def _level(self, leaf: int, path: str, levels: Sequence[str]) -> str:
        known = f"{self._leaves.column(leaf).path}."
        level = next((level for level in levels if known.startswith(f"{path}.{level}.")), None)
        if level is None:
            raise _MisfitError(f"the column {path} is laid out in an old way")
        return f"{path}.{level}"

    def _leaf(self, want: DataType, found: pa.DataType, leaf: int, path: str) -> None:
        is_plain = isinstance(want, Decimal) or (isinstance(want, Primitive) and want.name in _PLAIN)
        if not is_plain or pt.is_nested(found) or isinstance(found, pa.BaseExtensionType):
            raise _MisfitError(f"the column {path} is of type {want}")
        column = self._leaves.column(leaf)
        self.leaves.append(leaf)
        if column.path != path:
            raise _MisfitError(f"the column {path} is laid out in an old way")
        self.has_instants |= want in (Primitive("date"), Primitive("timestamp"), Primitive("timestamp_ntz"))
        if column.physical_type == "INT96":
            self.has_int96 = True
            if want != Primitive("timestamp"):
                raise _MisfitError(f"the column {path} is of type {want}, INT96 in it")
        elif isinstance(want, Decimal) and not _is_read_whole(column, want):
            raise _MisfitError(f"the column {path} is of type {want}, in more bytes of it than Spark reads")
        elif _stored(column, found) != arrow_type(want):
            raise _MisfitError(f"the column {path} is of type {want}, {found} in it")


def _absent(names: Counter[str], number: int) -> str:
    """Give a name that no column of a file has."""
    name = f"absent{number}"
    while names[name]:
        name = f"_{name}"
    return name


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
