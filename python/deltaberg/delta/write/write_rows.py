"""Appending rows to a table, and replacing all of its rows or those of some partitions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.alter.columns_of_rows import merge_columns, replace_schema
from deltaberg.delta.change.replace import replace_rows, total_rows
from deltaberg.delta.change.row_changes import rewrite_strategy
from deltaberg.delta.data.partition_values import partition_value_texts, read_partition_values
from deltaberg.delta.data.swapped_files import live_rows
from deltaberg.delta.rows.row_rules import record_marks, rules_of
from deltaberg.delta.rows.row_spec import RowOptions, row_spec
from deltaberg.delta.schema.new_columns import partition_names
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.delta.transaction.transaction import Transaction
from deltaberg.delta.transaction.writable import check_changeable
from deltaberg.errors import UnsupportedFeatureError
from deltaberg.expressions.build.column import all_of, any_of, col
from deltaberg.expressions.compute.bound import Bound, bound_paths
from deltaberg.expressions.compute.evaluate import evaluate
from deltaberg.expressions.derive.derive import bind
from deltaberg.expressions.tree.tree import Value
from deltaberg.schema.arrow import as_array
from deltaberg.schema.columns import ColumnName, ColumnNames
from deltaberg.schema.from_arrow import table_schema
from deltaberg.schema.types import Field
from deltaberg.table.change.conditions import row_condition
from deltaberg.table.open.new_table import other_partitioning
from deltaberg.table.rows.row_rules import RowCheck, check_of_replaced
from deltaberg.table.transaction.operation import Operation
from deltaberg.table.transaction.operations import Overwritten
from deltaberg.table.write.sources import Rows

__all__ = ["append_rows", "check_partitioning", "overwrite_rows", "write_parameters"]

#: The most partitions that a commit names one by one as what it has read.
_NAMED_PARTITIONS = 200


_Names = ColumnNames | None


def append_rows(transaction: Transaction, operation: Operation, rows: Rows, options: RowOptions) -> None:
    """Write rows to new files that a transaction adds.

    Raises
    ------
    SchemaError
        The rows do not fit the columns of the table.
    """
    if options.schema_mode == "merge":
        merge_columns(transaction, table_schema(rows.schema))
    operation.parameters.update(write_parameters(transaction.snapshot, "Append"))
    written = _write(transaction, rows, options)
    operation.rows.inserted = total_rows(written)
    transaction.add_files(written)


def overwrite_rows(
    transaction: Transaction, operation: Operation, rows: Rows, options: RowOptions, which: Overwritten
) -> None:
    """Replace rows of a table by others. If a condition is a filter on partition columns, no data is read.

    Raises
    ------
    InvalidArgumentError
        The strategy is not one that the table allows.
    ConstraintViolationError
        A new row does not match the condition, or the table only grows.
    SchemaError
        The rows do not fit the columns of the table.
    """
    before, timezone = transaction.snapshot, options.timezone or transaction.timezone
    if len(before.live.table):
        # The commit would refuse it too, but only after all rows were written.
        check_changeable(before)
    rewrite_strategy(before, which.strategy)
    condition = row_condition(before.schema, which.where, timezone)
    bound = None if condition is None else bind(condition, before.schema, timezone)
    # A table without partitions is one partition.
    dynamic = which.dynamic and bool(before.partition_fields)
    if condition is not None and bound is not None and not _is_on_partitions(before, bound):
        if options.schema_mode == "merge":
            merge_columns(transaction, table_schema(rows.schema))
        operation.parameters.update(write_parameters(transaction.snapshot, "Overwrite", where=condition))
        # The columns may have other types now.
        bound = bind(condition, transaction.snapshot.schema, timezone)
        checks = (check_of_replaced(bound, str(condition)),) if which.check else ()
        write = partial(_write, transaction, rows, options, checks)
        replace_rows(transaction, operation, condition, write, options, which.strategy)
        return
    old = before.live.table
    if bound is not None:
        values = read_partition_values(old, before.partition_fields, transaction.timezone)
        old = old.filter(_matches(bound, values, before, len(old)))
    if options.schema_mode == "merge":
        merge_columns(transaction, table_schema(rows.schema))
    elif options.schema_mode == "overwrite":
        replace_schema(transaction, rows.schema, which.partition_by)
    operation.parameters.update(write_parameters(transaction.snapshot, "Overwrite", where=condition, dynamic=dynamic))
    if not dynamic:
        transaction.read(condition, timezone)
        transaction.remove_files(old)
        operation.rows.deleted = live_rows(old)
    written = _write(transaction, rows, options)
    operation.rows.inserted = total_rows(written)
    if bound is not None and which.check:
        _check_where(written, bound, str(condition), before)
    if dynamic and len(written):
        operation.rows.deleted = live_rows(_replace_partitions(transaction, before, written))
    transaction.add_files(written)


def _write(transaction: Transaction, rows: Rows, options: RowOptions, checks: Sequence[RowCheck] = ()) -> pa.Table:
    """Write rows that pass some checks, too, to new files, and return a row for each.

    The files are deleted if the transaction does not commit.
    """
    table = transaction.snapshot
    rules = rules_of(table, options.timezone or transaction.timezone)
    rules.check_given(rows.schema.names)
    own = rules.rows
    spec = replace(row_spec(table, options), rules=replace(own, checks=(*own.checks, *checks)) if checks else own)
    road = rows.road(spec, table.log.root)
    counted = rules.counted(rows.schema.names)
    if counted and road.name != "local":
        raise UnsupportedFeatureError(
            f"several tasks of Spark cannot count the values of the identity column {counted[0]}",
            hint="write the rows from this process: pass frame.toArrow()",
            feature="identityColumns",
        )
    written = rows.write(spec, table.log.store, table.log.root)
    transaction.note_written(written.column("path").to_pylist(), road)
    record_marks(transaction, rules)
    return written


def check_partitioning(table: Snapshot, partition_by: Sequence[ColumnName]) -> None:
    """Refuse partition columns that are not those of the table.

    Raises
    ------
    InvalidArgumentError
        They are others.
    """
    known = [field.name for field in table.partition_fields]
    wanted = partition_names(table.schema, partition_by)
    if wanted != known:
        hint = 'leave out ⟪partition_by⟫, or overwrite the table with ⟪schema_mode="overwrite"⟫'
        raise other_partitioning(known, wanted, hint)


def write_parameters(
    table: Snapshot, mode: str, *, where: Value | None = None, dynamic: bool = False
) -> dict[str, str]:
    """Return the parameters that the history records for a write."""
    parameters = {
        "mode": mode,
        "partitionBy": json.dumps(list(table.metadata.partition_columns), ensure_ascii=False),
    }
    if where is not None:
        parameters["predicate"] = str(where)
    if dynamic:
        parameters["isDynamicPartitionOverwrite"] = "true"
    return parameters


def _is_on_partitions(table: Snapshot, bound: Bound) -> bool:
    """Return whether a condition names no other columns than partition columns."""
    names = {field.name for field in table.partition_fields}
    return {path[0].name for path in bound_paths(bound)} <= names


def _matches(bound: Bound, values: Sequence[pa.Array], table: Snapshot, files: int) -> pa.BooleanArray:
    """Return for each file whether its partition values, of which there may be none, match a filter."""
    known = {field.name: array for field, array in zip(table.partition_fields, values, strict=True)}

    def column(path: tuple[Field, ...]) -> pa.Array:
        return known[path[0].name]

    return pc.fill_null(evaluate(bound, column, files), fill_value=False)


def _check_where(written: pa.Table, bound: Bound, condition: str, table: Snapshot) -> None:
    """Refuse files whose partition values do not match the filter by which rows are replaced."""
    outside = written.filter(pc.invert(_matches(bound, _partition_arrays(written), table, len(written))))
    if len(outside):
        check, values = check_of_replaced(bound, condition), outside.column("partition")[0]
        raise check.violation([values[name] for name in check.columns])


def _partition_arrays(written: pa.Table) -> list[pa.Array]:
    structs = as_array(written.column("partition"))
    return [pc.struct_field(structs, index) for index in range(structs.type.num_fields)]


def _replace_partitions(transaction: Transaction, before: Snapshot, written: pa.Table) -> pa.Table:
    """Remove the files of the partitions that written files are in, and return them."""
    fields = before.partition_fields
    new = as_array(written.column("partition")).flatten()
    old = before.live.table
    old_texts, new_texts = (
        partition_value_texts(
            pa.StructArray.from_arrays(list(map(_one_zero, values)), names=[field.name for field in fields]), fields
        )
        for values in (read_partition_values(old, fields, transaction.timezone), new)
    )
    mask = pc.is_in(old_texts, value_set=pc.unique(new_texts))
    gone = old.filter(mask)
    transaction.read(_condition(written, fields))
    transaction.remove_files(gone)
    return gone


def _one_zero(values: pa.Array) -> pa.Array:
    """Return values in which -0.0, which equals 0.0 but has another text, is 0.0."""
    return pc.add(values, pa.scalar(0.0, values.type)) if pa.types.is_floating(values.type) else values


def _condition(written: pa.Table, fields: Sequence[Field]) -> Value | None:
    """Return a filter for the partitions of written files; None, for the whole table, if they cannot all be named."""
    try:
        partitions = {repr(row): row for row in as_array(written.column("partition")).to_pylist()}
    except (ValueError, OverflowError):
        # Python has no dates before the year 1.
        return None
    if len(partitions) > _NAMED_PARTITIONS:
        return None
    names = [field.name for field in fields]
    return any_of(all_of(_equals(name, row[name]) for name in names) for row in partitions.values())


def _equals(name: str, value: Any) -> Value:
    # An empty text is recorded as null.
    return col((name,)).is_null() if value is None or value == "" else col((name,)) == value
