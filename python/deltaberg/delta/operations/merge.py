"""Merging rows into a table: updating and deleting rows that match, and inserting those that do not."""

from __future__ import annotations

import datetime as dt
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pyarrow as pa

from deltaberg.delta.operations.row_changes import RowChanges, check_changeable, scan_to_change
from deltaberg.delta.operations.rows import RowOptions
from deltaberg.delta.operations.rules import empty_as_null, record_marks, rules_of
from deltaberg.delta.operations.write import merge_columns
from deltaberg.delta.schema.enforce import TableRules
from deltaberg.delta.schema.writer_rules import identity_columns
from deltaberg.delta.transaction.commit_info import Provenance
from deltaberg.delta.transaction.transaction import Transaction
from deltaberg.errors import InvalidArgumentError, SchemaError
from deltaberg.expressions import TRUE, Expression, Relation, Value, all_of, as_value, value_filter
from deltaberg.expressions.values.tree import Call, ColumnValue
from deltaberg.schema import (
    ColumnName,
    DataType,
    Field,
    List,
    Map,
    Primitive,
    Struct,
    find_column,
    join_name,
    split_name,
)
from deltaberg.schema.conform import ConformOptions
from deltaberg.table.arguments import checked_choice, checked_number, checked_text
from deltaberg.table.join import JoinMemory, StoredRows
from deltaberg.table.read.bound import BoundScan
from deltaberg.table.rewrite.bound_clauses import BoundClause, MergeScope, bind_clause, clause_values
from deltaberg.table.rewrite.clauses import MATCHED, NOT_MATCHED, NOT_MATCHED_BY_SOURCE, MergeClause
from deltaberg.table.rewrite.key_test import key_test
from deltaberg.table.rewrite.merge import MergePlan, RowMerge
from deltaberg.table.rewrite.merge_source import MergeSource, source_filter
from deltaberg.table.write import RowRules

__all__ = ["MergeOptions", "merge_rows", "upsert_rows"]

#: Bytes of rows and keys in memory, unless the caller says otherwise.
_MEMORY = 512 << 20
_WITH_ZONE, _WITHOUT_ZONE = Primitive("timestamp"), Primitive("timestamp_ntz")
_KINDS = {
    "matchedPredicates": MATCHED,
    "notMatchedPredicates": NOT_MATCHED,
    "notMatchedBySourcePredicates": NOT_MATCHED_BY_SOURCE,
}


@dataclass(frozen=True)
class MergeOptions:
    """How a merge is carried out.

    Parameters
    ----------
    rows
        How rows are written.
    source_alias, target_alias
        What the source and the table are called in conditions and values.
    strategy
        ``merge-on-read`` or ``copy-on-write``; None for what the table says.
    memory
        Bytes of rows and keys that are held in memory, approximately; None for the default.

    Raises
    ------
    InvalidArgumentError
        An option is not valid.
    """

    rows: RowOptions = field(default_factory=RowOptions)
    source_alias: str = "source"
    target_alias: str = "target"
    strategy: str | None = None
    memory: int | None = None

    def __post_init__(self) -> None:
        for name in ("source_alias", "target_alias"):
            checked_text(name, getattr(self, name), "pass a name")
        if self.source_alias.lower() == self.target_alias.lower():
            raise InvalidArgumentError("the table and the source have one alias", hint="pass another source_alias")
        if self.rows.schema_mode == "overwrite":
            raise InvalidArgumentError(
                'schema_mode is "overwrite", which would leave the rows of the table without their columns',
                hint='pass schema_mode="merge" to add columns',
            )
        if self.memory is not None:
            checked_number("memory", self.memory, 1, "pass a number of bytes, or leave it out")

    @property
    def evolves(self) -> bool:
        """Whether columns of the source that the table lacks are added."""
        return self.rows.schema_mode == "merge"


def merge_rows(
    transaction: Transaction, data: Any, on: Any, clauses: Sequence[MergeClause], options: MergeOptions
) -> None:
    """Merge rows into a table, as a part of a transaction.

    Parameters
    ----------
    data
        The source: an Arrow table or stream, a data frame, a scan or a table.
    on
        Which rows match: SQL text, or another condition.
    clauses
        What becomes of them.

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
    with transaction.operation("MERGE") as made:
        if not transaction.is_done:
            merge = _Merge(transaction, data, options)
            if options.evolves:
                merge.add_columns(clauses)
            merge.run(made, on, clauses)


def upsert_rows(
    transaction: Transaction,
    data: Any,
    keys: ColumnName | Sequence[ColumnName],
    options: MergeOptions,
    *,
    when_matched: str = "update",
    when_not_matched: str = "insert",
) -> None:
    """Update the rows of a table that have the keys of new rows, and insert the others, as a part of a transaction.

    Parameters
    ----------
    data
        The new rows. Columns of the table that they lack keep their values. In inserted rows they are filled as in rows
        that are appended.
    keys
        The columns whose values identify a row.
    when_matched
        ``update`` or ``ignore``.
    when_not_matched
        ``insert`` or ``ignore``.

    Raises
    ------
    InvalidArgumentError
        There are no keys, or nothing is to be done.
    SchemaError
        A value of a new row cannot be stored exactly in its column, whether or not it is a key.
    ConstraintViolationError
        A key of a new row is null, or is that of another new row; or a new row violates a rule of the table.
    """
    checked_choice("when_matched", when_matched, ("update", "ignore"), "leave it out to update")
    checked_choice("when_not_matched", when_not_matched, ("insert", "ignore"), "leave it out to insert")
    names = [keys] if isinstance(keys, (str, tuple)) else list(keys)
    if not names:
        raise InvalidArgumentError("an upsert needs keys", hint="name the columns that identify a row")
    if (when_matched, when_not_matched) == ("ignore", "ignore"):
        raise InvalidArgumentError("all rows are ignored", hint="leave out when_matched or when_not_matched")
    with transaction.operation("MERGE") as made:
        if transaction.is_done:
            return
        merge = _Merge(transaction, data, options)
        if options.evolves:
            merge_columns(transaction, merge.source.columns)
        if when_matched == "update":
            for child in merge.source.columns:
                _check_fields(child.type, find_column(transaction.snapshot.schema, (child.name,))[0])
        # Keys are compared and counted as the table would hold them: 1.5 is no key of integers.
        merge.source.conform(transaction.snapshot.schema, empty_as_null(transaction.snapshot))
        known = merge.source.columns
        found = [find_column(known, name)[0].name for name in names]
        equal: list[Value] = [
            Call("=", (ColumnValue((options.target_alias, name)), ColumnValue((options.source_alias, name))))
            for name in found
        ]
        on = equal[0]
        for other in equal[1:]:
            on = Call("and", (on, other))
        values = {name: ColumnValue((options.source_alias, name)) for name in known.names}
        clauses = []
        if when_matched == "update":
            # Integers that match are equal, so that these keys need not be set, which identity columns may refuse.
            identities = identity_columns(transaction.snapshot.schema)
            kept = {name for name in found if name in identities}
            new: dict[ColumnName, Any] = {(name,): value for name, value in values.items() if name not in kept}
            clauses.append(MergeClause(MATCHED, "update", None, new))
        if when_not_matched == "insert":
            clauses.append(MergeClause(NOT_MATCHED, "insert", None, {(name,): value for name, value in values.items()}))
        merge.run(made, on, clauses, found)


class _Merge:
    def __init__(self, transaction: Transaction, data: Any, options: MergeOptions) -> None:
        self._begun = time.monotonic()
        self._transaction = transaction
        self._options = options
        rows = options.rows
        self.source = MergeSource(data, ConformOptions(rows.timezone, rows.allow_truncation))

    def run(self, made: Provenance, on: Any, clauses: Sequence[MergeClause], keys: Sequence[str] = ()) -> None:
        """Merge; ``keys`` are columns of the source without nulls, whose values identify a row."""
        transaction, options = self._transaction, self._options
        table = transaction.snapshot
        now = dt.datetime.now(dt.timezone.utc)
        scope = MergeScope(
            Relation(options.target_alias, table.schema),
            Relation(options.source_alias, self.source.columns),
            options.rows.timezone or transaction.timezone,
            now,
        )
        condition = scope.condition(on)
        # Rows that only go need no rules, so that rules that cannot be evaluated do not matter.
        has_rows = any(clause.action != "delete" for clause in clauses)
        rules = rules_of(table, scope.timezone, now) if has_rows else TableRules(RowRules(table.schema))
        bound = tuple(_bound(clause, scope, rules, options) for clause in clauses)
        plan = MergePlan(scope.target, scope.source, condition, bound, bool(keys))
        memory = JoinMemory(options.memory or _MEMORY)
        made.parameters.update(_parameters(plan))
        log = table.log
        with self.source.store(plan.source_columns, memory, keys, log.store, log.root) as source:
            stored = time.monotonic()
            # Rows that match nothing can be anywhere.
            wanted = TRUE if plan.of(NOT_MATCHED_BY_SOURCE) else _filter(plan, source_filter(plan, source))
            transaction.read(None if wanted == TRUE else wanted)
            scan = scan_to_change(transaction, None if wanted == TRUE else wanted, scope.timezone)
            changes = RowChanges(transaction, options.rows, options.strategy)
            with RowMerge(plan, source, scan, memory, _reader(transaction, plan, source)) as merge:
                matched = merge.find()
                found = time.monotonic()
                if not matched.is_empty:
                    check_changeable(table)
                updates = any(clause.clause.action == "update" for clause in plan.clauses)
                inserts = bool(plan.of(NOT_MATCHED))

                def inserted() -> Iterator[pa.RecordBatch]:
                    # The rows come in the same order each time, so they get the same identity values.
                    rules.restart()
                    yield from merge.inserted()

                changes.apply(matched, merge.change if updates else None, inserted if inserts else None)
                record_marks(transaction, rules)
                counts = merge.counts
        ended = time.monotonic()
        own = changes.metrics
        made.metrics.update(
            {
                "numSourceRows": source.count,
                "numTargetRowsInserted": changes.inserted_rows,
                "numTargetRowsUpdated": counts.matched_updated + counts.unmatched_updated,
                "numTargetRowsDeleted": counts.matched_deleted + counts.unmatched_deleted,
                "numTargetRowsMatchedUpdated": counts.matched_updated,
                "numTargetRowsMatchedDeleted": counts.matched_deleted,
                "numTargetRowsNotMatchedBySourceUpdated": counts.unmatched_updated,
                "numTargetRowsNotMatchedBySourceDeleted": counts.unmatched_deleted,
                "numTargetRowsCopied": own["numCopiedRows"],
                "numOutputRows": own["numCopiedRows"] + changes.inserted_rows + changes.updated_rows,
                "numTargetFilesAdded": own["numAddedFiles"],
                "numTargetFilesRemoved": own["numRemovedFiles"],
                "numTargetBytesAdded": own["numAddedBytes"],
                "numTargetBytesRemoved": own["numRemovedBytes"],
                "numTargetDeletionVectorsAdded": own["numDeletionVectorsAdded"],
                "numTargetDeletionVectorsRemoved": own["numDeletionVectorsRemoved"],
                "numTargetDeletionVectorsUpdated": own["numDeletionVectorsUpdated"],
                "numTargetChangeFilesAdded": own["numAddedChangeFiles"],
                "materializeSourceTimeMs": _millis(self._begun, stored),
                "scanTimeMs": _millis(stored, found),
                "rewriteTimeMs": _millis(found, ended),
                "executionTimeMs": _millis(self._begun, ended),
            }
        )

    def add_columns(self, clauses: Sequence[MergeClause]) -> None:
        """Add columns of the source that the table lacks, and that clauses take as they are or assign."""
        known = self.source.columns
        excluded = {name.lower() for clause in clauses for name in clause.excluded}
        if any(clause.values is None and clause.action != "delete" for clause in clauses):
            wanted = Struct(tuple(child for child in known if child.name.lower() not in excluded))
        else:
            names = [name for clause in clauses for name in clause.values or ()]
            alias = self._options.target_alias.lower()
            paths: list[tuple[str, ...]] = []
            for name in names:
                # A text may be the name of a column with dots in it, and may begin with the alias of the table.
                given = [(name,), split_name(name)] if isinstance(name, str) else [tuple(name)]
                paths += given
                paths += [path[1:] for path in given if len(path) > 1 and path[0].lower() == alias]
            wanted = _chosen(known, paths)
        merge_columns(self._transaction, wanted)


def _chosen(known: Struct, paths: Sequence[tuple[str, ...]]) -> Struct:
    """Return the columns, and fields of structs, that paths lead to, without the other fields of these structs."""
    found = []
    for child in known:
        inside = [path[1:] for path in paths if path[0].lower() == child.name.lower()]
        if () in inside:
            found.append(child)
        elif inside and isinstance(child.type, Struct):
            found.append(replace(child, type=_chosen(child.type, inside)))
    return Struct(tuple(found))


def _bound(clause: MergeClause, scope: MergeScope, rules: TableRules, options: MergeOptions) -> BoundClause:
    """Bind a clause, and have its rows filled and checked."""
    if clause.action == "delete":
        return bind_clause(clause, scope, None)
    is_insert = clause.action == "insert"
    optional = rules.rows.filled if is_insert else rules.computed
    values = clause_values(clause, scope, lenient=options.evolves, optional=optional)
    defaulted = rules.defaulted(values, scope.source.columns)
    bound = bind_clause(clause, scope, rules.with_defaults(values, scope.source.columns))
    if bound.assignments is None:
        raise AssertionError("a clause that does not delete has values")
    if options.rows.timezone is None:
        _check_zones(bound, values, scope)
    assigned = bound.assignments.columns
    if is_insert:
        # What is generated for each row has no other default value.
        given = assigned - (defaulted & rules.computed)
        rules.check_given(given)
    else:
        rules.check_given(assigned)
        given = rules.given_to_update(assigned - defaulted)
    return replace(bound, rules=rules.rows, given=given)


def _check_zones(bound: BoundClause, values: Mapping[ColumnName, Any], scope: MergeScope) -> None:
    """Refuse columns of the source as they are whose timestamps have no zone, and the table's have one."""
    number = {MATCHED: 1, NOT_MATCHED: 0}.get(bound.clause.when)
    new = {} if bound.assignments is None else bound.assignments.values
    columns = {child.name.lower(): child.type for child in scope.source.columns}
    for (path, value), given in zip(new.items(), values.values(), strict=True):
        wanted = find_column(scope.target.columns, path)[-1].type
        if bound.clause.values is None:
            found = columns[path[0].lower()]
        elif not value.paths or value.paths[0][0] != number or not isinstance(as_value(given), ColumnValue):
            continue
        else:
            found = value.paths[0][1][-1].type
        if _lacks_zone(found, wanted):
            raise SchemaError(
                f"{found} cannot be written to a column of the type {wanted}",
                hint="pass timezone= to say in which zone these timestamps are",
                column=join_name(path),
            )


def _lacks_zone(found: DataType, wanted: DataType) -> bool:
    if isinstance(found, Struct) and isinstance(wanted, Struct):
        known = {child.name.lower(): child.type for child in found}
        return any(_lacks_zone(known.get(child.name.lower(), child.type), child.type) for child in wanted)
    if isinstance(found, List) and isinstance(wanted, List):
        return _lacks_zone(found.element.type, wanted.element.type)
    if isinstance(found, Map) and isinstance(wanted, Map):
        pairs = ((found.key, wanted.key), (found.value, wanted.value))
        return any(_lacks_zone(one.type, other.type) for one, other in pairs)
    return found == _WITHOUT_ZONE and wanted == _WITH_ZONE


def _check_fields(found: DataType, column: Field) -> None:
    """Refuse structs without all fields of the column: an update would make the others null."""
    lacking = _lacking_field(found, column.type)
    if lacking is not None:
        raise SchemaError(
            f"the structs of the rows lack the field {join_name(lacking)}, whose value an update would lose",
            hint='give the whole structs, or insert only new rows by when_matched="ignore"',
            column=join_name((column.name, *lacking)),
        )


def _lacking_field(found: DataType, wanted: DataType) -> tuple[str, ...] | None:
    pairs: list[tuple[str, DataType | None, DataType]] = []
    if isinstance(found, Struct) and isinstance(wanted, Struct):
        known = {child.name.lower(): child.type for child in found}
        pairs = [(child.name, known.get(child.name.lower()), child.type) for child in wanted]
    elif isinstance(found, List) and isinstance(wanted, List):
        pairs = [("element", found.element.type, wanted.element.type)]
    elif isinstance(found, Map) and isinstance(wanted, Map):
        pairs = [("key", found.key.type, wanted.key.type), ("value", found.value.type, wanted.value.type)]
    for name, given, kind in pairs:
        rest = () if given is None else _lacking_field(given, kind)
        if rest is not None:
            return (name, *rest)
    return None


def _reader(
    transaction: Transaction, plan: MergePlan, source: StoredRows
) -> Callable[[BoundScan], Iterator[pa.RecordBatch]] | None:
    """Return what reads the rows of the table that can match; None for this machine."""
    search = transaction.search
    test = None if search is None or plan.of(NOT_MATCHED_BY_SOURCE) else key_test(plan, source)
    return None if search is None or test is None else partial(search.read, test=test)


def _filter(plan: MergePlan, of_keys: Expression) -> Expression:
    own = value_filter(plan.condition)
    return all_of([part for part in (own, of_keys) if part != TRUE])


def _parameters(plan: MergePlan) -> dict[str, str]:
    """Return the parameters as delta-spark records them."""
    parameters = {"predicate": json.dumps([plan.condition.sql], ensure_ascii=False)}
    for name, kind in _KINDS.items():
        shown = []
        for clause in plan.of(kind):
            condition = {} if clause.condition is None else {"predicate": clause.condition.sql}
            shown.append({**condition, "actionType": clause.clause.action})
        parameters[name] = json.dumps(shown, ensure_ascii=False)
    return parameters


def _millis(begun: float, ended: float) -> int:
    return int((ended - begun) * 1000)
