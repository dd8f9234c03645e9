"""Schema changes of a write: the columns of its rows are merged into those of the table, or replace them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from deltaberg.delta.actions.domains import CLUSTERING_DOMAIN, clustering_columns, clustering_text
from deltaberg.delta.alter.alter_columns import WIDENING, widen_field
from deltaberg.delta.alter.alter_rules import refuse_referenced
from deltaberg.delta.properties.protocols import features_of_schema, raised_protocol
from deltaberg.delta.schema.enforce import columns_of
from deltaberg.delta.schema.evolve import merged_schema, wider_columns
from deltaberg.delta.schema.new_columns import MAX_COLUMN_ID, ColumnNumbers, check_columns, partition_names
from deltaberg.delta.schema.schema_json import SchemaDocument, schema_to_json
from deltaberg.delta.schema.writer_rules import check_constraints
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.delta.transaction.transaction import Transaction
from deltaberg.errors import SchemaError
from deltaberg.hints import verbatim
from deltaberg.schema.columns import ColumnNames, find_column
from deltaberg.schema.from_arrow import table_schema
from deltaberg.schema.types import Struct
from deltaberg.schema.void_columns import warn_of_void

__all__ = ["merge_columns", "replace_schema"]


def merge_columns(transaction: Transaction, rows: Struct) -> None:
    """Add the columns of rows, and fields of their structs, that the table of a transaction lacks.

    If type widening is enabled, columns become as wide as those of the rows, unless a rule of the table names them.
    """
    table = transaction.snapshot
    numbers = ColumnNumbers.of(table.mapping_mode, table.metadata.configuration)
    old = table.metadata.schema_string or ""
    text = merged_schema(old, table.schema, rows, numbers)
    if WIDENING & table.active_features:
        text = _widened(table, text, rows)
    if text != old:
        before = table.schema
        _set_schema(transaction, {"schemaString": text}, rows, numbers)
        warn_of_void(transaction.snapshot.schema, before)


def _widened(table: Snapshot, text: str, rows: Struct) -> str:
    document = SchemaDocument(text)
    for path, wider in wider_columns(table.schema, rows):
        try:
            refuse_referenced(table, find_column(table.schema, path[:1]), "widened")
        except SchemaError:
            # Values that fit are still taken, and others refused by name.
            continue
        widen_field(document, table.schema, path, wider)
    return document.to_json()


def replace_schema(transaction: Transaction, rows_schema: pa.Schema, partition_by: ColumnNames | None) -> None:
    """Replace the columns of the table by those of rows."""
    table = transaction.snapshot
    numbers = ColumnNumbers.of(table.mapping_mode, table.metadata.configuration)
    schema = table_schema(rows_schema)
    if numbers is not None:
        schema = Struct(tuple(numbers.assign(child) for child in schema))
    check_columns(schema, mapped=numbers is not None)
    _check_constraints(table, schema)
    names = table.metadata.partition_columns if partition_by is None else partition_by
    members = {"schemaString": schema_to_json(schema), "partitionColumns": partition_names(schema, names)}
    if CLUSTERING_DOMAIN in table.domains:
        _replace_clustering(transaction, table, schema)
    _set_schema(transaction, members, schema, numbers)
    warn_of_void(schema, table.schema)


def _check_constraints(table: Snapshot, schema: Struct) -> None:
    """Refuse new columns that lack one of a CHECK constraint, which stays."""
    kept = {child.name.lower() for child in schema}
    for rule, path in columns_of(table.schema, check_constraints(table.metadata.configuration)):
        if path[0].lower() not in kept:
            raise SchemaError(
                f"the rows lack the column {path[0]}, which the CHECK constraint {rule} names",
                hint=f"drop it first: ⟪alter().drop_constraint({verbatim(repr(rule))}).commit()⟫",
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
    physical_names = []
    for physical in path:
        name = next((field.name for field in old if field.physical_name == physical), physical)
        before, after = old.get(name), new.get(name)
        if after is None:
            raise SchemaError(f"the rows lack the column {name}, by which the table is clustered", column=name)
        physical_names.append(after.physical_name)
        old = before.type if before is not None and isinstance(before.type, Struct) else Struct()
        new = after.type if isinstance(after.type, Struct) else Struct()
    return physical_names


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
