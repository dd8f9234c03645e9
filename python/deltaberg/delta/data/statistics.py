"""Statistics of live files, for the columns that a filter names (Delta protocol, "Per-file Statistics").

Statistics are hints: whatever cannot be read or understood counts as unknown. Bounds are widened by what writers may
have cut off, so that they hold for every row.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from deltaberg import kernels
from deltaberg.delta.checkpoint.parquet_part import CheckpointPart
from deltaberg.delta.log.entries import LogBytes
from deltaberg.delta.schema.schema import primitive_name
from deltaberg.delta.schema.type_changes import recorded_changes
from deltaberg.errors import CorruptCheckpointError
from deltaberg.kernels.decimals import exact_decimal
from deltaberg.pruning.stats import ColumnStats, FileStats, stats_key
from deltaberg.schema.arrow import arrow_type, as_array
from deltaberg.schema.convert import convert_leaf
from deltaberg.schema.types import DataType, Decimal, Field, Primitive, Struct

__all__ = ["parsed_columns", "read_statistics"]

#: Writers truncate timestamps to milliseconds, so a value may lie this far above the recorded maximum.
_CUT_MICROS = 999
#: Decimal digits that a double keeps. Some writers convert decimals to doubles before they record them, in JSON and in
#: the checkpoints made from it; the error is less than one unit of the last of these digits.
_DOUBLE_DIGITS = 15

#: Types whose bounds are recorded exactly. Writers truncate texts and timestamps, and NaN is not a bound.
_EXACT = {Primitive(name) for name in ("byte", "short", "integer", "long", "date")}

_INSTANT = pa.timestamp("us")

_Leaf = tuple[tuple[str, ...], str | None]


def read_statistics(
    files: pa.Table, parts: Sequence[CheckpointPart], log: LogBytes, columns: Sequence[tuple[Field, ...]]
) -> FileStats:
    """Read statistics of live files.

    Parameters
    ----------
    files
        Rows of the live files in their order: files from commits first, then those of each part of a checkpoint.
    parts
        The parts of the checkpoint that ``files.part`` numbers.
    log
        The log entries that ``files.version`` names.
    columns
        Paths of fields from the root of the schema. Without any only record counts are read.
    """
    paths = list(dict.fromkeys(columns))
    leaves: list[_Leaf] = [(stats_key(path), primitive_name(path[-1].type)) for path in paths]
    tables = []
    in_log = pc.is_null(files.column("part"))
    from_log = files.filter(in_log)
    if len(from_log):
        tables.append(_from_log(from_log, log, leaves))
    rest = files.filter(pc.invert(in_log))
    for number in pc.unique(rest.column("part")).to_pylist():
        rows = rest.filter(pc.equal(rest.column("part"), number))
        tables.append(_from_part(parts[number], as_array(rows.column("index")), paths, leaves))
    if not tables:
        return FileStats.unknown(0)
    found = pa.concat_tables(tables, promote_options="default").combine_chunks()
    return _file_stats(found, paths, pc.is_null(as_array(files.column("deletionVector"))))


def _from_log(files: pa.Table, log: LogBytes, leaves: Sequence[_Leaf]) -> pa.Table:
    if not leaves:
        # The replay read them.
        return files.select(["numRecords"])
    versions = as_array(files.column("version"))
    places = as_array(files.column("stats"))
    runs = pc.run_end_encode(versions).values.to_pylist()
    return kernels.parse_log_stats(versions, places, log.again(runs), leaves)


def _from_part(
    part: CheckpointPart, rows: pa.Int64Array, paths: Sequence[tuple[Field, ...]], leaves: Sequence[_Leaf]
) -> pa.Table:
    # The columns that planning needs were read before: a part that is damaged or gone by now only costs statistics.
    with contextlib.suppress(CorruptCheckpointError):
        if part.has_add_column("stats_parsed"):
            return parsed_columns(part, rows, paths)
        if part.has_add_column("stats"):
            texts = part.add_column(Field("stats", Primitive("string")), rows)
            tables = [kernels.parse_stats(batch, leaves) for batch in texts]
            return pa.concat_tables(tables) if tables else _unknown(len(rows))
    return _unknown(len(rows))


def _unknown(rows: int) -> pa.Table:
    return pa.table({"numRecords": pa.nulls(rows, pa.int64()), "tightBounds": pa.nulls(rows, pa.bool_())})


def parsed_columns(part: CheckpointPart, rows: pa.Int64Array, paths: Sequence[tuple[Field, ...]]) -> pa.Table:
    """Read columns of ``stats_parsed``, named as `kernels.parse_stats` names those that it finds.

    A column that is damaged, or whose type does not fit the table's, is unknown.

    Parameters
    ----------
    rows
        The numbers of the live files in the part, ascending.
    paths
        The columns of the table, as paths of fields from the root of the schema.
    """
    counts = _parsed_column(part, rows, ("numRecords",), Primitive("long"))
    columns = {
        "numRecords": pa.nulls(len(rows), pa.int64()) if counts is None else counts,
        "tightBounds": _parsed_column(part, rows, ("tightBounds",), Primitive("boolean")),
    }
    for index, path in enumerate(paths):
        names = stats_key(path)
        if primitive_name(path[-1].type) is not None:
            columns[f"min.{index}"] = _parsed_column(part, rows, ("minValues", *names), path[-1].type)
            columns[f"max.{index}"] = _parsed_column(part, rows, ("maxValues", *names), path[-1].type)
        columns[f"nullCount.{index}"] = _parsed_column(part, rows, ("nullCount", *names), Primitive("long"))
    return pa.table({name: column for name, column in columns.items() if column is not None})


def _parsed_column(
    part: CheckpointPart, rows: pa.Int64Array, names: tuple[str, ...], leaf_type: DataType
) -> pa.ChunkedArray | None:
    if not part.has_add_column("stats_parsed", *names):
        return None
    field = Field(names[-1], leaf_type)
    for name in reversed(names[:-1]):
        field = Field(name, Struct((field,)))
    chunks = []
    try:
        for batch in part.add_column(Field("stats_parsed", Struct((field,))), rows):
            column = batch
            for name in names:
                column = pc.struct_field(column, column.type.get_field_index(name))
            chunks.append(column)
    except CorruptCheckpointError:
        return None
    if leaf_type == Primitive("timestamp"):
        # Like the bounds that kernels parse from text: instants in UTC, in a type without a zone.
        return pa.chunked_array([chunk.view(_INSTANT) for chunk in chunks], _INSTANT)
    return pa.chunked_array(chunks, arrow_type(leaf_type))


def _file_stats(parsed: pa.Table, paths: Sequence[tuple[Field, ...]], undeleted: pa.BooleanArray) -> FileStats:
    def column(name: str) -> pa.Array | None:
        return as_array(parsed.column(name)) if name in parsed.schema.names else None

    stats = {}
    recorded = column("tightBounds")
    tight = undeleted if recorded is None else pc.coalesce(recorded, undeleted)
    for index, path in enumerate(paths):
        target = path[-1].type
        was_float = any(old == "float" for old, _ in recorded_changes(path[-1]))
        stats[stats_key(path)] = ColumnStats(
            _bound(column(f"min.{index}"), target, upper=False, was_float=was_float),
            _bound(column(f"max.{index}"), target, upper=True, was_float=was_float),
            column(f"nullCount.{index}"),
            tight if target in _EXACT else None,
        )
    counts = column("numRecords")
    return FileStats(len(parsed), pa.nulls(len(parsed), pa.int64()) if counts is None else counts, stats)


def _bound(bound: pa.Array | None, column_type: DataType, upper: bool, *, was_float: bool) -> pa.Array | None:
    """Convert bounds to the column's Arrow type, and widen them by what a writer may have cut off."""
    if bound is None or pt.is_null(bound.type):
        return None
    target = arrow_type(column_type)
    if pt.is_timestamp(target):
        micros = bound.view(pa.int64())
        if upper:
            limit = pa.scalar((1 << 63) - 1 - _CUT_MICROS, pa.int64())
            micros = pc.add(pc.min_element_wise(micros, limit, skip_nulls=False), _CUT_MICROS)
        return micros.view(target)
    converted = bound if bound.type == target else convert_leaf(bound, column_type)
    if was_float and pt.is_float64(target):
        # Files from before have bounds as the shortest text of a float, which as a double is another number.
        both = (converted, converted.cast(pa.float32(), safe=False).cast(pa.float64()))
        return (pc.max_element_wise if upper else pc.min_element_wise)(*both, skip_nulls=False)
    return _not_rounded(converted, upper) if isinstance(column_type, Decimal) else converted


def _not_rounded(bound: pa.Array, upper: bool) -> pa.Array:
    """Widen decimal bounds by the error that a conversion to double may have made."""
    kind = bound.type
    if kind.precision <= _DOUBLE_DIGITS:
        return bound
    wide = pa.decimal256(kind.precision, kind.scale)
    values = bound.cast(wide)
    share = pa.scalar(exact_decimal(1, _DOUBLE_DIGITS), pa.decimal256(_DOUBLE_DIGITS, _DOUBLE_DIGITS))
    # This is zero where a double keeps all digits.
    slack = pc.round(pc.multiply(pc.abs(values), share), kind.scale, "towards_zero")
    most = exact_decimal(10**kind.precision - 1, kind.scale)
    if upper:
        moved = pc.add(values, slack)
        inside = pc.min_element_wise(moved, pa.scalar(most, wide).cast(moved.type), skip_nulls=False)
    else:
        moved = pc.subtract(values, slack)
        inside = pc.max_element_wise(moved, pa.scalar(most.copy_negate(), wide).cast(moved.type), skip_nulls=False)
    return inside.cast(kind)
