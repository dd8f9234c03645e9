"""Appending rows to a table, and replacing all of its rows or those of some partitions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.actions.domains import CLUSTERING_DOMAIN, clustering_columns, clustering_text
from deltaberg.delta.alter.alter_columns import WIDENING, widen_field
from deltaberg.delta.alter.alter_rules import refuse_referenced
from deltaberg.delta.change.replace import replace_rows, total_rows
from deltaberg.delta.data.partition_values import partition_value_texts, read_partition_values
from deltaberg.delta.properties.protocols import features_of_schema, raised_protocol
from deltaberg.delta.rows.row_rules import record_marks, rules_of
from deltaberg.delta.rows.row_spec import RowOptions, row_spec
from deltaberg.delta.schema.enforce import columns_of
from deltaberg.delta.schema.evolve import merged_schema, wider_columns
from deltaberg.delta.schema.new_columns import MAX_COLUMN_ID, ColumnNumbers, check_columns, partition_names
from deltaberg.delta.schema.schema_json import SchemaDocument, schema_to_json
from deltaberg.delta.schema.writer_rules import check_constraints
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.delta.transaction.transaction import Transaction
from deltaberg.delta.transaction.writable import check_changeable
from deltaberg.errors import (
    ConstraintViolationError,
    InvalidArgumentError,
    SchemaError,
    UnsupportedFeatureError,
)
from deltaberg.expressions.compute.bound import Bound, bound_paths
from deltaberg.expressions.compute.evaluate import evaluate
from deltaberg.expressions.derive.derive import bind
from deltaberg.expressions.given.given import all_of, any_of, col
from deltaberg.expressions.tree.tree import Value
from deltaberg.schema.arrow import as_array
from deltaberg.schema.columns import ColumnName, find_column
from deltaberg.schema.from_arrow import table_schema
from deltaberg.schema.types import Field, Struct
from deltaberg.table.change.conditions import row_condition
from deltaberg.table.transaction.operation import Operation
from deltaberg.table.transaction.operations import Overwritten
from deltaberg.table.write.sources import Rows, open_rows

__all__ = ["append_rows", "check_partitioning", "merge_columns", "overwrite_rows", "write_parameters"]

#: The most partitions that a commit names one by one as what it has read.
_NAMED_PARTITIONS = 200


_Names = ColumnName | Sequence[ColumnName] | None


def append_rows(transaction: Transaction, made: Operation, data: Any, options: RowOptions) -> None:
    """Write rows to new files that a transaction adds.

    Raises
    ------
    SchemaError
        The rows do not fit the columns of the table.
    InvalidArgumentError
        The data holds no rows of any kind.
    """
    rows = open_rows(data, transaction.progress)
    if options.schema_mode == "merge":
        merge_columns(transaction, table_schema(rows.schema))
    made.parameters.update(write_parameters(transaction.snapshot, "Append"))
    written = _write(transaction, rows, options)
    made.rows.inserted = total_rows(written)
    transaction.add_files(written)


def overwrite_rows(
    transaction: Transaction, made: Operation, data: Any, options: RowOptions, which: Overwritten
) -> None:
    """Replace rows of a table by others. If a condition is a filter on partition columns, no data is read.

    Raises
    ------
    ConstraintViolationError
        A new row does not match the condition, or the table only grows.
    SchemaError
        The rows do not fit the columns of the table.
    """
    before, timezone = transaction.snapshot, transaction.timezone
    if len(before.live.table):
        # The commit would refuse it too, but only after all rows were written.
        check_changeable(before)
    condition = row_condition(before.schema, which.where, timezone)
    bound = None if condition is None else bind(condition, before.schema, timezone)
    # A table without partitions is one partition.
    dynamic = which.dynamic and bool(before.partition_fields)
    if condition is not None and bound is not None and not _is_on_partitions(before, bound):
        rows = open_rows(data, transaction.progress)
        if options.schema_mode == "merge":
            merge_columns(transaction, table_schema(rows.schema))
        made.parameters.update(write_parameters(transaction.snapshot, "Overwrite", where=condition))
        replace_rows(
            transaction, made, condition, lambda: _write(transaction, rows, options), options, check=which.check
        )
        return
    old = before.live.table
    if bound is not None:
        values = read_partition_values(old, before.partition_fields, timezone)
        old = old.filter(_matches(bound, values, before, len(old)))
    rows = open_rows(data, transaction.progress)
    if options.schema_mode == "merge":
        merge_columns(transaction, table_schema(rows.schema))
    elif options.schema_mode == "overwrite":
        _replace_schema(transaction, rows.schema, which.partition_by)
    made.parameters.update(write_parameters(transaction.snapshot, "Overwrite", where=condition, dynamic=dynamic))
    if not dynamic:
        transaction.read(condition)
        transaction.remove_files(old)
        made.rows.deleted = _live_rows(old)
    written = _write(transaction, rows, options)
    made.rows.inserted = total_rows(written)
    if bound is not None and which.check:
        _check_where(written, bound, condition, before)
    if dynamic and len(written):
        made.rows.deleted = _live_rows(_replace_partitions(transaction, before, written, timezone))
    transaction.add_files(written)


def _write(transaction: Transaction, rows: Rows, options: RowOptions) -> pa.Table:
    """Write rows to new files, which are deleted if the transaction does not commit; return a row for each."""
    table = transaction.snapshot
    rules = rules_of(table, options.timezone or transaction.timezone)
    rules.check_given(rows.schema.names)
    spec = replace(row_spec(table, options), rules=rules.rows)
    road = rows.road(spec, table.log.root)
    counted = rules.counted(rows.schema.names)
    if counted and road.name != "local":
        raise UnsupportedFeatureError(
            f"several tasks of Spark cannot count the values of the identity column {counted[0]}",
            hint="write the rows from this process: pass frame.toArrow()",
            table=str(table.log.root),
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
        raise InvalidArgumentError(
            f"the table is partitioned by {', '.join(known) or 'nothing'}, not by {', '.join(wanted) or 'nothing'}",
            hint='leave out ⟪partition_by⟫, or overwrite the table with ⟪schema_mode="overwrite"⟫',
            table=str(table.log.root),
        )


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


def merge_columns(transaction: Transaction, found: Struct) -> None:
    """Add the columns of rows, and fields of their structs, that the table of a transaction lacks.

    If type widening is enabled, columns become as wide as those of the rows, unless a rule of the table names them.
    """
    table = transaction.snapshot
    numbers = ColumnNumbers.of(table.mapping_mode, table.metadata.configuration)
    old = table.metadata.schema_string or ""
    text = merged_schema(old, table.schema, found, numbers)
    if WIDENING & table.active_features:
        text = _widened(table, text, found)
    if text != old:
        _set_schema(transaction, {"schemaString": text}, found, numbers)


def _widened(table: Snapshot, text: str, found: Struct) -> str:
    document = SchemaDocument(text)
    for path, wanted in wider_columns(table.schema, found):
        try:
            refuse_referenced(table, find_column(table.schema, path[:1]), "widened")
        except SchemaError:
            # Values that fit are still taken, and others refused by name.
            continue
        widen_field(document, table.schema, path, wanted)
    return document.to_json()


def _replace_schema(transaction: Transaction, found: pa.Schema, partition_by: _Names) -> None:
    """Replace the columns of the table by those of rows."""
    table = transaction.snapshot
    numbers = ColumnNumbers.of(table.mapping_mode, table.metadata.configuration)
    schema = table_schema(found)
    if numbers is not None:
        schema = Struct(tuple(numbers.assign(child) for child in schema))
    check_columns(schema, mapped=numbers is not None)
    _check_constraints(table, schema)
    names = table.metadata.partition_columns if partition_by is None else partition_by
    members = {"schemaString": schema_to_json(schema), "partitionColumns": partition_names(schema, names)}
    if CLUSTERING_DOMAIN in table.domains:
        _replace_clustering(transaction, table, schema)
    _set_schema(transaction, members, schema, numbers)


def _check_constraints(table: Snapshot, schema: Struct) -> None:
    """Refuse new columns that lack one of a CHECK constraint, which stays."""
    kept = {child.name.lower() for child in schema}
    for rule, path in columns_of(table.schema, check_constraints(table.metadata.configuration)):
        if path[0].lower() not in kept:
            raise SchemaError(
                f"the rows lack the column {path[0]}, which the CHECK constraint {rule} names",
                hint=f"drop it first: ⟪alter().drop_constraint({rule!r}).commit()⟫",
                table=str(table.log.root),
                column=path[0],
            )


def _replace_clustering(transaction: Transaction, table: Snapshot, schema: Struct) -> None:
    """Let a clustered table be clustered by the columns of the same names."""
    paths = [_renamed(table.schema, schema, path) for path in clustering_columns(table.domains)]
    text = clustering_text(paths)
    if text != table.domains[CLUSTERING_DOMAIN]:
        transaction.set_domain(CLUSTERING_DOMAIN, text, system=True)


def _renamed(old: Struct, new: Struct, path: Sequence[str]) -> list[str]:
    """Return a path of physical names in other columns of the same names."""
    found = []
    for physical in path:
        name = next((field.name for field in old if field.physical_name == physical), physical)
        before, after = old.get(name), new.get(name)
        if after is None:
            raise SchemaError(f"the rows lack the column {name}, by which the table is clustered", column=name)
        found.append(after.physical_name)
        old = before.type if before is not None and isinstance(before.type, Struct) else Struct()
        new = after.type if isinstance(after.type, Struct) else Struct()
    return found


def _set_schema(
    transaction: Transaction, members: dict[str, Any], added: Struct, numbers: ColumnNumbers | None
) -> None:
    table = transaction.snapshot
    protocol = raised_protocol(features_of_schema(added), table.protocol)
    metadata = table.metadata.with_members(members)
    if numbers is not None:
        metadata = metadata.with_properties({MAX_COLUMN_ID: str(numbers.highest)})
    if protocol is not table.protocol:
        transaction.set_protocol(protocol)
    transaction.set_metadata(metadata)


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


def _check_where(written: pa.Table, bound: Bound, condition: Any, table: Snapshot) -> None:
    """Refuse files whose partition values do not match the filter by which rows are replaced."""
    outside = written.filter(pc.invert(_matches(bound, _partition_arrays(written), table, len(written))))
    if len(outside):
        values = outside.column("partition")[0].as_py()
        place = f" is in the partition {values}, which" if values else ""
        raise ConstraintViolationError(
            f"a new row{place} does not match {condition}",
            hint="write only rows that match it⟪, or call overwrite() of the table with check=False⟫",
            table=str(table.log.root),
        )


def _partition_arrays(written: pa.Table) -> list[pa.Array]:
    structs = as_array(written.column("partition"))
    return [pc.struct_field(structs, index) for index in range(structs.type.num_fields)]


def _live_rows(files: pa.Table) -> int | None:
    """Return the number of rows of live files that are not deleted; None if a file does not tell."""
    hidden = pc.fill_null(pc.struct_field(files.column("deletionVector"), "cardinality"), 0)
    rows: int | None = pc.sum(pc.subtract(files.column("numRecords"), hidden), skip_nulls=False, min_count=0).as_py()
    return rows


def _replace_partitions(transaction: Transaction, before: Snapshot, written: pa.Table, timezone: str) -> pa.Table:
    """Remove the files of the partitions that written files are in, and return them."""
    fields = before.partition_fields
    new = as_array(written.column("partition")).flatten()
    old = before.live.table
    known, wanted = (
        partition_value_texts(
            pa.StructArray.from_arrays(list(map(_one_zero, values)), names=[field.name for field in fields]), fields
        )
        for values in (read_partition_values(old, fields, timezone), new)
    )
    mask = pc.is_in(known, value_set=pc.unique(wanted))
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
