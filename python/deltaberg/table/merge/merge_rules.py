"""Clauses of a merge with the constraints and default values of the table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from deltaberg.errors import SchemaError
from deltaberg.expressions.build.filters import as_value
from deltaberg.expressions.tree.tree import ColumnValue
from deltaberg.schema.columns import ColumnName, find_column, join_name, paired_fields
from deltaberg.schema.types import DataType, Field, List, Map, Primitive, Struct, shown_type
from deltaberg.table.merge.bound_clauses import BoundClause, MergeScope, bind_clause, clause_values
from deltaberg.table.merge.clauses import MATCHED, NOT_MATCHED, MergeClause
from deltaberg.table.merge.merge_options import MergeOptions
from deltaberg.table.rows.table_rules import TableRules

__all__ = ["bind_with_rules", "check_fields"]

_WITH_ZONE, _WITHOUT_ZONE = Primitive("timestamp"), Primitive("timestamp_ntz")


def bind_with_rules(clause: MergeClause, scope: MergeScope, rules: TableRules, options: MergeOptions) -> BoundClause:
    """Bind a clause, and have its rows filled and checked.

    Raises
    ------
    SchemaError
        The source has timestamps without a zone for a column of the type ``timestamp``, and no zone was given.
    ExpressionError, ColumnNotFoundError
        A condition or a value is not valid.
    """
    if clause.action == "delete":
        return bind_clause(clause, scope, None)
    is_insert = clause.action == "insert"
    optional = rules.rows.filled if is_insert else rules.computed
    values = clause_values(clause, scope, lenient=options.evolves, optional=optional)
    defaulted = rules.defaulted(values, scope.source.columns)
    completes = options.evolves and clause.values is None
    bound = bind_clause(clause, scope, rules.with_defaults(values, scope.source.columns), completes=completes)
    if bound.assignments is None:
        raise AssertionError("a clause that does not delete has values")
    if options.rows.timezone is None:
        _check_zones(bound, values, scope)
    assigned = bound.assignments.columns
    if is_insert:
        # What is generated for each row has no other default value.
        given_columns = assigned - (defaulted & rules.computed)
        rules.check_given(given_columns)
    else:
        rules.check_given(assigned)
        given_columns = rules.given_to_update(assigned - defaulted)
    return replace(bound, rules=rules.rows, given=given_columns)


def _check_zones(bound: BoundClause, values: Mapping[ColumnName, Any], scope: MergeScope) -> None:
    """Refuse columns of the source as they are whose timestamps have no zone, and the table's have one."""
    number = {MATCHED: 1, NOT_MATCHED: 0}.get(bound.clause.when)
    new = {} if bound.assignments is None else bound.assignments.values
    columns = paired_fields(scope.target.columns, scope.source.columns)
    for (path, value), given in zip(new.items(), values.values(), strict=True):
        column_type = find_column(scope.target.columns, path)[-1].type
        if bound.clause.values is None:
            source_type = columns[path[0]].type
        elif not value.paths or value.paths[0][0] != number or not isinstance(as_value(given), ColumnValue):
            continue
        else:
            source_type = value.paths[0][1][-1].type
        if _lacks_zone(source_type, column_type):
            raise SchemaError(
                f"{shown_type(source_type)} cannot be written to a column of the type {shown_type(column_type)}",
                hint="use ⟪timezone⟫ to say in which zone these timestamps are",
                column=join_name(path),
            )


def _lacks_zone(source_type: DataType, column_type: DataType) -> bool:
    if isinstance(source_type, Struct) and isinstance(column_type, Struct):
        known = paired_fields(column_type, source_type)
        return any(_lacks_zone(known[child.name].type, child.type) for child in column_type if child.name in known)
    if isinstance(source_type, List) and isinstance(column_type, List):
        return _lacks_zone(source_type.element.type, column_type.element.type)
    if isinstance(source_type, Map) and isinstance(column_type, Map):
        pairs = ((source_type.key, column_type.key), (source_type.value, column_type.value))
        return any(_lacks_zone(one.type, other.type) for one, other in pairs)
    return source_type == _WITHOUT_ZONE and column_type == _WITH_ZONE


def check_fields(source_type: DataType, column: Field) -> None:
    """Refuse structs that cannot be updated by the fields that they have.

    Those inside lists and maps replace what is there, and must be whole. Others may lack fields that may be null.

    Raises
    ------
    SchemaError
        A field is missing.
    """
    lacking = _lacking_field(source_type, column.type, inside=False)
    if lacking is not None:
        raise SchemaError(
            f"the structs of the rows lack the field {join_name(lacking)}, whose value an update would lose",
            hint='give the whole structs, or insert only new rows by ⟪when_matched="ignore"⟫',
            column=join_name((column.name, *lacking)),
        )


def _lacking_field(source_type: DataType, column_type: DataType, inside: bool) -> tuple[str, ...] | None:
    pairs: list[tuple[str, DataType | None, DataType]] = []
    if isinstance(source_type, Struct) and isinstance(column_type, Struct):
        known = {name: child.type for name, child in paired_fields(column_type, source_type).items()}
        needed = [child for child in column_type if inside or not child.nullable or child.name in known]
        pairs = [(child.name, known.get(child.name), child.type) for child in needed]
    elif isinstance(source_type, List) and isinstance(column_type, List):
        inside, pairs = True, [("element", source_type.element.type, column_type.element.type)]
    elif isinstance(source_type, Map) and isinstance(column_type, Map):
        keys, values = (source_type.key.type, column_type.key.type), (source_type.value.type, column_type.value.type)
        inside, pairs = True, [("key", *keys), ("value", *values)]
    for name, given, kind in pairs:
        rest = () if given is None else _lacking_field(given, kind, inside)
        if rest is not None:
            return (name, *rest)
    return None
