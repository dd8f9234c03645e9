"""Footers of Parquet files: the rows of a file, its columns as table types, and statistics that can be trusted.

Footers are read of files that other libraries wrote. What they say of a column is left out where it may be wrong:

- a bound that is NaN is not a bound, since other values were compared with it;
- how many values are NaN is never known, since writers leave them out of bounds in silence;
- a bound of the whole file needs one of every row group that has values;
- days and instants of a file that counted them by the hybrid Julian calendar have no bounds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from deltaberg.errors import CorruptDataFileError, DeltabergError, SchemaError, first_line
from deltaberg.files.formats.parquet import ParquetSource
from deltaberg.pruning.stats import ColumnStats
from deltaberg.schema.columns import join_name
from deltaberg.schema.from_arrow import OwnTypes, table_schema
from deltaberg.schema.name_mapping import has_field_ids
from deltaberg.schema.types import Field, List, Map, Primitive, Struct
from deltaberg.storage.base import ObjectMeta, Storage
from deltaberg.workers import map_in_order

__all__ = ["Footer", "LeafBounds", "count_rows", "read_footer", "read_footers"]

#: Footers that are read at a time.
_THREADS = 16

#: Keys in the metadata of a file whose writer may have counted days by the hybrid Julian calendar.
_LEGACY_KEYS = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
_SPARK_VERSION = b"org.apache.spark.version"
_FIRST_PROLEPTIC = b"3.0.0"
#: The version of parquet-java of which a test has seen NaN in the bounds of every column that holds one.
_SHOWS_NAN = re.compile(r"parquet-mr version 1\.16\.")
_TEMPORAL = (Primitive("date"), Primitive("timestamp"), Primitive("timestamp_ntz"))
_INSTANT = pa.timestamp("us", "UTC")

#: Where a whole file begins and ends.
_WHOLE = (0, (1 << 63) - 1)

_T = TypeVar("_T")
_Names = tuple[str, ...]
#: Leaf types that tables cannot hold as they are, and what they are called.
_REFUSED: tuple[tuple[Callable[[pa.DataType], bool], str], ...] = (
    (lambda kind: pt.is_timestamp(kind) and kind.unit == "ns", "a timestamp in nanoseconds"),
    (lambda kind: kind == pa.uint64(), "an unsigned integer of 64 bits"),
    (pt.is_time, "a time of day"),
    (pt.is_duration, "a duration"),
    (pt.is_float16, "a floating point number of 16 bits"),
    (pt.is_null, "a column of nulls that has no type"),
    (lambda kind: pt.is_decimal(kind) and kind.precision > 38, "a decimal of more than 38 digits"),
    (lambda kind: isinstance(kind, pa.BaseExtensionType), "an extension type"),
)


@dataclass(frozen=True)
class LeafBounds:
    """Statistics of a column in a file; None stands for unknown."""

    lower: pa.Scalar | None = None
    upper: pa.Scalar | None = None
    null_count: int | None = None


@dataclass(frozen=True)
class Footer:
    """The contents of a footer.

    Parameters
    ----------
    rows
        The number of rows.
    columns
        The columns as table types.
    schema
        The columns as Arrow types, in which timestamps of INT96 are instants.
    leaves
        Statistics by the names from the root to a column, for those outside of lists and maps.
    has_ids
        Whether a column has a field id.
    shows_nan
        Whether a floating point number that is NaN would show in the bounds. The version of parquet-java that is
        named here takes NaN for the greatest number, so that bounds without NaN are those of a column without NaN.
    split_offsets
        Where row groups begin, in ascending order.
    column_sizes
        The compressed bytes of each Parquet column, in the order of the file.
    """

    rows: int
    columns: Struct
    schema: pa.Schema
    leaves: Mapping[_Names, LeafBounds] = field(default_factory=dict)
    has_ids: bool = False
    shows_nan: bool = False
    split_offsets: Sequence[int] = ()
    column_sizes: Sequence[int] = ()


def read_footer(storage: Storage, path: str, size: int, own: OwnTypes | None = None) -> Footer:
    """Read the footer of a Parquet file.

    Parameters
    ----------
    own
        Returns the types that only one table format has; see `table_schema`.

    Raises
    ------
    CorruptDataFileError
        The file is not a Parquet file, or its footer contradicts itself.
    SchemaError
        It has a column of a type that no table can hold.
    """
    return _of_source(storage, path, size, lambda source: _footer(source, own))


def count_rows(storage: Storage, path: str, size: int) -> int:
    """Return the number of rows of a Parquet file, whatever its columns are.

    Raises
    ------
    CorruptDataFileError
        The file is not a Parquet file, or its footer contradicts itself.
    """
    return _of_source(storage, path, size, lambda source: sum(_row_counts(source)))


def _of_source(storage: Storage, path: str, size: int, read: Callable[[ParquetSource], _T]) -> _T:
    """Open a Parquet file and read something of it."""
    try:
        source = ParquetSource(storage.open(path, size))
        try:
            return read(source)
        finally:
            source.close()
    except DeltabergError as error:
        raise error.with_context(file=path) from None
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise CorruptDataFileError(
            f"it is not a Parquet file, or damaged: {first_line(error)}",
            hint="move away files that hold no data; names that begin with _ or . are ignored",
            file=path,
        ) from error


def read_footers(
    files: Iterable[tuple[Storage, ObjectMeta]],
    own: OwnTypes | None = None,
    told: Callable[[int], object] = lambda _: None,
) -> list[Footer]:
    """Read the footers of several files, some at a time, and tell how many that are; see `read_footer`."""

    def read(file: tuple[Storage, ObjectMeta]) -> Footer:
        storage, meta = file
        footer = read_footer(storage, meta.path, meta.size, own)
        told(1)
        return footer

    return map_in_order(_THREADS, read, files)


def _footer(source: ParquetSource, own: OwnTypes | None) -> Footer:
    counts = _row_counts(source)
    groups = source.row_groups(*_WHOLE)
    described = source.metadata.schema
    physical = (described.column(number).physical_type for number in range(len(described)))
    schema = pa.schema([_checked(child, physical, (child.name,), own) for child in source.schema])
    columns = table_schema(schema, own=own)
    is_legacy = _is_legacy(source.metadata.metadata or {})
    leaves = {}
    for path in _paths(columns):
        stats = source.group_statistics(groups, path)
        hides_bounds = is_legacy and path[-1].type in _TEMPORAL
        leaves[tuple(part.name for part in path)] = _whole(stats, counts, hides_bounds=hides_bounds)
    shows_nan = _SHOWS_NAN.match(source.metadata.created_by or "") is not None
    return Footer(
        sum(counts),
        columns,
        schema,
        leaves,
        has_field_ids(source.schema),
        shows_nan,
        source.split_offsets(),
        _sizes(source),
    )


def _row_counts(source: ParquetSource) -> list[int]:
    """Return the number of rows of each row group."""
    counts = [group.rows for group in source.row_groups(*_WHOLE)]
    if min(counts, default=0) < 0 or sum(counts) != source.metadata.num_rows:
        raise CorruptDataFileError("its footer contradicts itself about the number of rows")
    return counts


def _sizes(source: ParquetSource) -> list[int]:
    sizes = [0] * len(source.metadata.schema)
    for number in range(source.metadata.num_row_groups):
        group = source.metadata.row_group(number)
        for column in range(group.num_columns):
            sizes[column] += group.column(column).total_compressed_size
    return sizes


def _checked(arrow_field: pa.Field, physical: Iterator[str], path: _Names, own: OwnTypes | None) -> pa.Field:
    """Return a field whose INT96 timestamps are instants, and refuse leaves that tables cannot hold.

    Parameters
    ----------
    physical
        The physical types of the leaves that are not looked at yet, depth first.
    """
    kind = arrow_field.type
    if pt.is_struct(kind):
        inner = [_checked(child, physical, (*path, child.name), own) for child in kind]
        return arrow_field.with_type(pa.struct(inner))
    if pt.is_map(kind):
        key = _checked(kind.key_field, physical, (*path, "key"), own)
        return arrow_field.with_type(pa.map_(key, _checked(kind.item_field, physical, (*path, "value"), own)))
    if pt.is_nested(kind):
        return arrow_field.with_type(pa.list_(_checked(kind.value_field, physical, (*path, "element"), own)))
    stored = next(physical)
    plain = kind.value_type if pt.is_dictionary(kind) else kind
    reason = next((reason for refused, reason in _REFUSED if refused(plain)), None)
    if stored == "INT96":
        return arrow_field.with_type(_INSTANT)
    if reason is not None and (own is None or own(plain) is None):
        raise SchemaError(
            f"the file holds {reason} ({kind}), which tables cannot hold",
            hint="rewrite the files with another type",
            column=join_name(path),
        )
    return arrow_field


def _is_legacy(metadata: Mapping[bytes, bytes]) -> bool:
    """Return whether dates and timestamps of a file may be counted by another calendar than that of tables."""
    if any(key in metadata for key in _LEGACY_KEYS):
        return True
    return metadata.get(_SPARK_VERSION, _FIRST_PROLEPTIC) < _FIRST_PROLEPTIC


def _paths(struct: Struct, above: tuple[Field, ...] = ()) -> Iterator[tuple[Field, ...]]:
    """Return the path of fields to each column that is in no list or map."""
    for child in struct:
        if isinstance(child.type, Struct):
            yield from _paths(child.type, (*above, child))
        elif not isinstance(child.type, (List, Map)):
            yield (*above, child)


def _whole(stats: ColumnStats, counts: list[int], *, hides_bounds: bool) -> LeafBounds:
    """Return the statistics of a file from those of its row groups."""
    nulls = [None] * len(counts) if stats.null_count is None else stats.null_count.to_pylist()
    null_count = None if None in nulls else sum(nulls)
    if hides_bounds or stats.lower is None or stats.upper is None:
        return LeafBounds(null_count=null_count)
    has_values = pa.array([count > 0 and count != null for count, null in zip(counts, nulls, strict=True)], pa.bool_())
    lower, upper = stats.lower.filter(has_values), stats.upper.filter(has_values)
    if not len(lower) or lower.null_count or upper.null_count:
        return LeafBounds(null_count=null_count)
    if pt.is_floating(lower.type) and (pc.any(pc.is_nan(lower)).as_py() or pc.any(pc.is_nan(upper)).as_py()):
        return LeafBounds(null_count=null_count)
    least, greatest = pc.min(lower), pc.max(upper)
    if pt.is_floating(lower.type):
        least, greatest = _signed(least, -0.0), _signed(greatest, 0.0)
    if pc.less(greatest, least).as_py():
        return LeafBounds(null_count=null_count)
    return LeafBounds(least, greatest, null_count)


def _signed(bound: pa.Scalar, zero: float) -> pa.Scalar:
    """Return a bound that also holds for the other zero."""
    return pa.scalar(zero, bound.type) if bound.as_py() == 0 else bound
