"""Merges and upserts as a transaction of any format carries them out."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

import pyarrow as pa

from deltaberg.choices import WhenMatched, WhenNotMatched
from deltaberg.errors import ColumnNotFoundError, DeltabergError, ExpressionError, InvalidArgumentError, SchemaError
from deltaberg.expressions.bind.bind import BoundValue, Relation
from deltaberg.expressions.build.column import all_of
from deltaberg.expressions.derive.derive import value_filter
from deltaberg.expressions.tree.tree import TRUE, Call, ColumnValue, Value
from deltaberg.schema.columns import ColumnName, field_finder, find_column, split_name
from deltaberg.schema.from_arrow import OwnTypes, table_schema
from deltaberg.schema.types import Struct
from deltaberg.table.arguments import checked_choice
from deltaberg.table.change.conditions import refuse_constant
from deltaberg.table.change.target import RowTarget
from deltaberg.table.merge.bound_clauses import MergeScope, completed_value
from deltaberg.table.merge.clauses import MATCHED, NOT_MATCHED, NOT_MATCHED_BY_SOURCE, MergeClause
from deltaberg.table.merge.common_types import common_types
from deltaberg.table.merge.join import JoinMemory
from deltaberg.table.merge.key_membership import key_test
from deltaberg.table.merge.merge import MergeCounts, MergePlan, RowMerge
from deltaberg.table.merge.merge_options import MergeOptions
from deltaberg.table.merge.merge_rules import bind_with_rules, check_fields
from deltaberg.table.merge.merge_source import MergeSource, source_filter
from deltaberg.table.rows.row_rules import RowRules
from deltaberg.table.rows.table_rules import TableRules
from deltaberg.table.write.sources import known_schema

__all__ = ["MergeOutcome", "check_merge", "check_upsert", "merge_into", "upsert_into"]

#: Bytes of rows and keys in memory, unless the caller says otherwise.
_MEMORY = 512 << 20


@dataclass(frozen=True)
class MergeOutcome:
    """The outcome of a merge.

    Parameters
    ----------
    plan
        The merge.
    source_rows
        The number of rows of the source.
    counts
        How many rows of the table clauses applied to.
    begun, stored, found, ended
        When it began, when the source was read, when the rows of the table were found, and when it was done.
    """

    plan: MergePlan
    source_rows: int
    counts: MergeCounts
    begun: float
    stored: float
    found: float
    ended: float

    @property
    def metrics(self) -> dict[str, int]:
        """The numbers of rows and the times, by the names that delta-spark gives to them."""
        counts = self.counts
        return {
            "numSourceRows": self.source_rows,
            "numTargetRowsUpdated": counts.matched_updated + counts.unmatched_updated,
            "numTargetRowsDeleted": counts.matched_deleted + counts.unmatched_deleted,
            "numTargetRowsMatchedUpdated": counts.matched_updated,
            "numTargetRowsMatchedDeleted": counts.matched_deleted,
            "numTargetRowsNotMatchedBySourceUpdated": counts.unmatched_updated,
            "numTargetRowsNotMatchedBySourceDeleted": counts.unmatched_deleted,
            "materializeSourceTimeMs": _millis(self.begun, self.stored),
            "scanTimeMs": _millis(self.stored, self.found),
            "rewriteTimeMs": _millis(self.found, self.ended),
            "executionTimeMs": _millis(self.begun, self.ended),
        }


def merge_into(
    target: RowTarget,
    data: Any,
    on: Any,
    clauses: Sequence[MergeClause],
    options: MergeOptions,
    own: OwnTypes | None = None,
) -> MergeOutcome:
    """Merge rows into a table.

    Parameters
    ----------
    data
        The source: an Arrow table or stream, a data frame, a scan or a table.
    on
        Which rows match: SQL text, or another condition.
    clauses
        What becomes of them.
    own
        Returns the types that the format of the table has, and not all formats; None if it has none.

    Raises
    ------
    ConstraintViolationError
        A row of the table matches several rows of the source, a new row violates a rule of the table, or the table only
        grows.
    SchemaError
        The source has timestamps without a zone for a column of the type ``timestamp``, and no zone was given.
    ExpressionError, ColumnNotFoundError
        A condition or a value is not valid, or cannot be evaluated exactly.
    EvaluationError
        A value cannot be computed for a row, or does not fit its column.
    """
    begun = time.monotonic()
    source = _source(data, options, own)
    if options.evolves:
        target.add_columns(_new_columns(source.columns, clauses, options))
    source.meet(target.schema)
    return _run(target, source, on, clauses, options, begun)


def upsert_into(
    target: RowTarget,
    data: Any,
    keys: Sequence[ColumnName],
    options: MergeOptions,
    *,
    when_matched: str = "update",
    when_not_matched: str = "insert",
    own: OwnTypes | None = None,
) -> MergeOutcome:
    """Update the rows of a table that have the keys of new rows, and insert the others.

    Rows that would stay as they are are left alone. The parameters are checked by `check_upsert`.

    Parameters
    ----------
    data
        The new rows. Columns of the table that they lack, and fields of structs, keep their values. In inserted rows
        they are filled as in rows that are appended.
    keys
        The columns, or fields of structs, whose values identify a row.
    when_matched
        ``update`` or ``ignore``.
    when_not_matched
        ``insert`` or ``ignore``.
    own
        Returns the types that the format of the table has, and not all formats; None if it has none.

    Raises
    ------
    ColumnNotFoundError
        The new rows lack a key.
    SchemaError
        A value of a new row cannot be stored exactly in its column, whether or not it is a key.
    ConstraintViolationError
        A key of a new row is null, or is that of another new row; or a new row violates a rule of the table.
    """
    begun = time.monotonic()
    source = _source(data, options, own)
    if options.evolves:
        target.add_columns(source.columns)
    schema = target.schema
    if when_matched == "update":
        for child in source.columns:
            check_fields(child.type, find_column(schema, (child.name,))[0])
    # Keys are compared and counted as the table would hold them: 1.5 is no key of integers.
    source.conform(schema, target.empty_as_null)
    row_columns = source.columns
    key_paths = [tuple(field.name for field in find_column(row_columns, name)) for name in keys]
    equal: list[Value] = [
        Call("=", (ColumnValue((options.target_alias, *path)), ColumnValue((options.source_alias, *path))))
        for path in key_paths
    ]
    on = equal[0]
    for other in equal[1:]:
        on = Call("and", (on, other))

    def values(*kept: str) -> dict[ColumnName, Any]:
        return {
            (child.name,): completed_value(
                child.type,
                find_column(schema, (child.name,))[0].type,
                (options.source_alias, child.name),
                (*kept, child.name) if kept else None,
            )
            for child in row_columns
        }

    clauses = []
    if when_matched == "update":
        # Integers that match are equal, so that these keys need not be set, which the table may refuse.
        kept = target.fixed.intersection(path[0] for path in key_paths if len(path) == 1)
        new = {name: value for name, value in values(options.target_alias).items() if name[0] not in kept}
        clauses.append(MergeClause(MATCHED, "update", None, new))
    if when_not_matched == "insert":
        clauses.append(MergeClause(NOT_MATCHED, "insert", None, values()))
    return _run(target, source, on, clauses, options, begun, key_paths)


def check_merge(columns: Struct, data: Any, on: Any, options: MergeOptions) -> None:
    """Refuse the condition of a merge, before anything is read, as far as the columns of its source are known.

    Parameters
    ----------
    columns
        The columns of the table.
    data, on, options
        As for `merge_into`.

    Raises
    ------
    InvalidArgumentError, ExpressionError, ColumnNotFoundError
        It is none, or does not fit the columns.
    """
    options.check_condition(on)
    known = known_schema(data)
    if known is None:
        return
    try:
        source_columns = common_types(table_schema(known), columns)
    except SchemaError:
        # Types that one format alone has are known when the merge runs.
        return
    now = dt.datetime.now(dt.timezone.utc)
    source = Relation(options.source_alias, source_columns)

    def check(schema: Struct) -> None:
        _condition(MergeScope(Relation(options.target_alias, schema), source, "UTC", now), on, options)

    try:
        check(columns)
    except DeltabergError:
        if not options.evolves:
            raise
        # The clauses decide which columns are added.
        find = field_finder(columns)
        check(Struct((*columns, *(child for child in source_columns if find(child.name) is None))))


def check_upsert(keys: Sequence[ColumnName], when_matched: str, when_not_matched: str) -> None:
    """Refuse an upsert without keys, without anything to do, or with a choice that is not known.

    Raises
    ------
    InvalidArgumentError
        There are no keys, nothing is to be done, or an argument is not valid.
    """
    checked_choice("when_matched", when_matched, get_args(WhenMatched), "leave it out to update")
    checked_choice("when_not_matched", when_not_matched, get_args(WhenNotMatched), "leave it out to insert")
    if not keys:
        raise InvalidArgumentError("an upsert needs keys", hint="name the columns that identify a row")
    if (when_matched, when_not_matched) == ("ignore", "ignore"):
        raise InvalidArgumentError("all rows are ignored", hint="leave out ⟪when_matched⟫ or ⟪when_not_matched⟫")


def _source(data: Any, options: MergeOptions, own: OwnTypes | None) -> MergeSource:
    return MergeSource(data, options.rows.conform(), own)


def _run(
    target: RowTarget,
    merge_source: MergeSource,
    on: Any,
    clauses: Sequence[MergeClause],
    options: MergeOptions,
    begun: float,
    keys: Sequence[tuple[str, ...]] = (),
) -> MergeOutcome:
    """Merge; ``keys`` are paths to columns of the source without nulls, whose values identify a row."""
    now = dt.datetime.now(dt.timezone.utc)
    scope = MergeScope(
        Relation(options.target_alias, target.schema),
        Relation(options.source_alias, merge_source.columns),
        target.timezone,
        now,
    )
    condition = _condition(scope, on, options)
    # Rows that only go need no rules, so that rules that cannot be evaluated do not matter.
    has_rows = any(clause.action != "delete" for clause in clauses)
    rules = target.rules(scope.timezone, now) if has_rows else TableRules(RowRules(target.schema))
    bound = tuple(bind_with_rules(clause, scope, rules, options) for clause in clauses)
    plan = MergePlan(scope.target, scope.source, condition, bound, bool(keys))
    memory = JoinMemory(options.rows.memory or _MEMORY)
    with merge_source.store(plan.source_columns, memory, keys, target.store, target.root) as source:
        stored = time.monotonic()
        # Rows that match nothing can be anywhere.
        wanted = TRUE if plan.of(NOT_MATCHED_BY_SOURCE) else _filter(plan, source_filter(plan, source))
        scan = target.scan(None if wanted == TRUE else wanted, scope.timezone)
        wants_others = target.tasks is None or plan.of(NOT_MATCHED_BY_SOURCE)
        test = None if wants_others else key_test(plan, source)
        with RowMerge(plan, source, scan, memory, target.tasks, test) as merge:
            matched = merge.find()
            found_at = time.monotonic()
            updates = any(clause.clause.action == "update" for clause in plan.clauses)

            def inserted() -> Iterator[pa.RecordBatch]:
                # The rows come in the same order each time, so they get the same identity values.
                rules.restart()
                yield from merge.inserted()

            inserts = bool(plan.of(NOT_MATCHED))
            target.apply(matched, merge.change if updates else None, inserted if inserts else None)
            return MergeOutcome(plan, source.count, merge.counts, begun, stored, found_at, time.monotonic())


def _condition(scope: MergeScope, on: Any, options: MergeOptions) -> BoundValue:
    """Return the condition of a merge, which says something of the rows of the table."""
    try:
        condition = scope.condition(on)
    except (ExpressionError, ColumnNotFoundError) as error:
        raise options.misunderstood(on, error) from None
    refuse_constant(on, condition)
    if condition.paths and all(relation != 0 for relation, _ in condition.paths):
        raise ExpressionError(
            f"the condition of the merge, {condition.sql}, names no column of the table, but the source alone",
            hint=f"say which rows match, such as {options.target_alias}.id = {options.source_alias}.id, and put what is"
            " about the source alone into the conditions of clauses",
        )
    return condition


def _new_columns(source_columns: Struct, clauses: Sequence[MergeClause], options: MergeOptions) -> Struct:
    """Return the columns of the source that clauses take as they are or assign, some of which the table may lack."""
    whole = [clause for clause in clauses if clause.values is None and clause.action != "delete"]
    if whole:
        find = field_finder(source_columns)
        excluded = [{child.name for name in clause.excluded if (child := find(name)) is not None} for clause in whole]
        return Struct(tuple(child for child in source_columns if not all(child.name in names for names in excluded)))
    names = [name for clause in clauses for name in clause.values or ()]
    alias = options.target_alias.lower()
    paths: list[tuple[str, ...]] = []
    for name in names:
        # A text may be the name of a column with dots in it, and may begin with the alias of the table.
        given = [(name,), split_name(name)] if isinstance(name, str) else [tuple(name)]
        paths += given
        paths += [path[1:] for path in given if len(path) > 1 and path[0].lower() == alias]
    return _chosen(source_columns, paths)


def _chosen(source_columns: Struct, paths: Sequence[tuple[str, ...]]) -> Struct:
    """Return the columns, and fields of structs, that paths lead to, without the other fields of these structs."""
    find = field_finder(source_columns)
    inside: dict[str, list[tuple[str, ...]]] = {}
    for first, *rest in paths:
        named = find(first)
        if named is not None:
            inside.setdefault(named.name, []).append(tuple(rest))
    chosen = []
    for child in source_columns:
        more = inside.get(child.name, [])
        if () in more:
            chosen.append(child)
        elif more and isinstance(child.type, Struct):
            chosen.append(replace(child, type=_chosen(child.type, more)))
    return Struct(tuple(chosen))


def _filter(plan: MergePlan, of_keys: Value) -> Value:
    own = value_filter(plan.condition)
    return all_of([part for part in (own, of_keys) if part != TRUE])


def _millis(begun: float, ended: float) -> int:
    return int((ended - begun) * 1000)
