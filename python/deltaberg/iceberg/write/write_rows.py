"""Appending rows to a table, and replacing rows by others."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Sequence
from collections.abc import Set as AbstractSet

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import UnsupportedFeatureError
from deltaberg.expressions.derive.derive import bind
from deltaberg.expressions.tree.tree import TRUE, Value
from deltaberg.iceberg.alter.alter import Alteration
from deltaberg.iceberg.alter.columns import merge_columns, replace_columns
from deltaberg.iceberg.change.moved_rows import MovedRows
from deltaberg.iceberg.change.row_changes import RowChanges
from deltaberg.iceberg.manifests.fields import DATA, ManifestPart
from deltaberg.iceberg.manifests.reader import Entries
from deltaberg.iceberg.metadata.specs import PartitionSpec
from deltaberg.iceberg.partition.assign import partition_rows_by
from deltaberg.iceberg.partition.structs import partition_keys
from deltaberg.iceberg.rows.row_spec import write_rows
from deltaberg.iceberg.scan.source import IcebergSource
from deltaberg.iceberg.transaction.pending import AddedFiles
from deltaberg.iceberg.transaction.transaction import Transaction
from deltaberg.schema.arrow import as_array
from deltaberg.table.change.conditions import row_condition
from deltaberg.table.change.strategies import COPY_ON_WRITE
from deltaberg.table.change.target import change_matching
from deltaberg.table.read.plan import make_plan
from deltaberg.table.read.scan_options import ScanOptions
from deltaberg.table.rows.row_options import RowOptions
from deltaberg.table.rows.row_rules import RowCheck, check_of_replaced
from deltaberg.table.transaction.operation import Operation
from deltaberg.table.transaction.operations import Overwritten
from deltaberg.table.write.partition import split_by_partition
from deltaberg.table.write.sources import Rows

__all__ = ["append_rows", "overwrite_rows"]

#: Bytes of rows that wait to be written to other files.
_MOVING = 256 << 20


def append_rows(transaction: Transaction, operation: Operation, rows: Rows, options: RowOptions) -> None:
    """Write rows to new files that a transaction adds.

    Raises
    ------
    SchemaError
        The rows do not fit the columns of the table.
    """
    _fit(transaction, rows, options)
    files = write_rows(transaction, rows, options)
    operation.rows.inserted = files.rows
    transaction.add_entries(files)


def overwrite_rows(
    transaction: Transaction, operation: Operation, rows: Rows, options: RowOptions, which: Overwritten
) -> None:
    """Replace rows of a table by others. Files in which some rows match a condition are written anew without these.

    Raises
    ------
    ConstraintViolationError
        A new row does not match the condition.
    SchemaError
        The rows do not fit the columns of the table.
    """
    dynamic, partition_by = which.dynamic, which.partition_by
    replaces = options.schema_mode == "overwrite"
    is_first = transaction.pending.is_empty
    schema, timezone = transaction.metadata.current_schema.struct, options.timezone or transaction.timezone
    condition = row_condition(schema, which.where, timezone)
    bound = None if condition is None else bind(condition, schema, timezone)
    if not dynamic:
        operation.rows.deleted, operation.rows.copied = _remove(transaction, condition, options, which.strategy)
        # Rows that others add meanwhile would have to be replaced, too, whatever deletes ask for.
        transaction.claims.conditions.append(TRUE if bound is None else bound)
    layout = Alteration(transaction, is_part=True)
    if partition_by is not None and replaces:
        # Columns that partition the table can go only after the partitioning has.
        layout.partition_by()
    _fit(transaction, rows, options)
    if partition_by and replaces:
        layout.partition_by(*partition_by)
    checks: tuple[RowCheck, ...] = ()
    if condition is not None and which.check:
        # The columns may have other types now.
        now = bind(condition, transaction.metadata.current_schema.struct, timezone)
        checks = (check_of_replaced(now, str(condition)),)
    files = write_rows(transaction, rows, options, checks)
    operation.rows.inserted = files.rows
    if dynamic and len(files.entries):
        operation.rows.deleted, operation.rows.copied = _remove_partitions(transaction, files, options)
    transaction.add_entries(files)
    # Rows of divided files are replaced by other rows of other partitions.
    transaction.pending.replaces_partitions = dynamic and is_first and not transaction.claims.moved


def _fit(transaction: Transaction, rows: Rows, options: RowOptions) -> None:
    """Change the columns of the table as the rows need it, if the caller allows it."""
    if options.schema_mode == "merge":
        merge_columns(transaction, rows.schema)
    elif options.schema_mode == "overwrite":
        replace_columns(transaction, rows.schema)


def _remove(
    transaction: Transaction, condition: Value | None, options: RowOptions, strategy: str | None
) -> tuple[int | None, int]:
    """Remove the rows that match a filter, or all rows; return how many these are, and how many are copied."""
    target = RowChanges(transaction, options, "delete", strategy or COPY_ON_WRITE)
    change_matching(target, condition)
    if condition is None:
        # What is left of delete files is about nothing.
        transaction.pending.removes_deletes = True
    return target.counts.deleted, target.counts.copied


def _remove_partitions(transaction: Transaction, files: AddedFiles, options: RowOptions) -> tuple[int | None, int]:
    """Remove the rows of the partitions that new files are in; return how many these are, and how many are copied.

    Files of other specs are removed as a whole, if their partition values prove that this is right, else read, and
    their other rows are written to new files.
    """
    new = set(files.keys)
    transaction.claims.partitions.update((files.spec.spec_id, key) for key in new)
    dropped = _drop_pending(transaction, files.spec.spec_id, new)
    source = transaction.source
    data = source.data_manifests
    chosen = _Replaced(files.spec, new, transaction.pending.removed)
    for found in source.reader.read(data.to_pylist(), ManifestPart()):
        chosen.look(found)
    copied = _move_others(transaction, files, new, chosen.divided, options) if chosen.divided else 0
    paths = [*chosen.whole, *chosen.divided]
    hidden = not transaction.pending.hidden.keys().isdisjoint(paths)
    if paths:
        held = pc.is_in(source.manifests.column("number"), value_set=pa.array(sorted(chosen.manifests), pa.int32()))
        transaction.remove_files(paths, source.manifests.filter(held))
    gone: int | None = 0
    if paths and (hidden or any(one.content != DATA for one in transaction.pending.added)):
        gone = None
    elif paths and len(data) < len(source.manifests):
        gone = _hidden_rows(source, paths)
    return (None if gone is None else dropped + chosen.rows - copied - gone), copied


def _hidden_rows(source: IcebergSource, paths: Sequence[str]) -> int | None:
    """Return how many rows of files deletion vectors hide; None where delete files apply, which are not read."""
    plan = make_plan(source, TRUE)
    chosen = plan.chosen(pc.is_in(as_array(plan.files.column("path")), value_set=pa.array(paths, pa.string())))
    hidden: int | None = pc.sum(chosen.deleted_counts, skip_nulls=False, min_count=0).as_py()
    return hidden


class _Replaced:
    """The files that hold rows of partitions: those that hold no others (``whole``), and those that may.

    Parameters
    ----------
    spec
        The spec of the partitions.
    keys
        Their values, as `partition_keys` returns them.
    gone
        The recorded paths of files that are none of the table any more.
    """

    def __init__(self, spec: PartitionSpec, keys: AbstractSet[Hashable], gone: AbstractSet[str]) -> None:
        self._spec = spec
        self._gone = gone
        self._keys = [key for key in keys if isinstance(key, tuple)]
        self.whole: list[str] = []
        self.divided: list[str] = []
        self.manifests: set[int] = set()
        #: The number of rows in all of them, deleted ones included.
        self.rows = 0

    def look(self, entries: Entries) -> None:
        """Sort the files of a manifest."""
        places = {(part.source_ids, part.transform): at for at, part in enumerate(entries.spec.fields)}
        terms = [(at, (part.source_ids, part.transform)) for at, part in enumerate(self._spec.fields)]
        terms = [(at, term) for at, term in terms if term[1] != "void"]
        shared = [(at, places[term]) for at, term in terms if term in places]
        partitions = {tuple(key[at] for at, _ in shared) for key in self._keys}
        target = self.whole if len(shared) == len(terms) else self.divided
        names = ("file_path", "manifest", "record_count")
        columns = [entries.table.column(name).to_pylist() for name in names]
        for key, path, number, rows in zip(entries.keys, *columns, strict=True):
            if path not in self._gone and isinstance(key, tuple) and tuple(key[at] for _, at in shared) in partitions:
                target.append(path)
                self.manifests.add(number)
                self.rows += rows


def _move_others(
    transaction: Transaction,
    files: AddedFiles,
    new: AbstractSet[Hashable],
    paths: Sequence[str],
    options: RowOptions,
) -> int:
    """Write the rows of files that are in none of the partitions to new files, and return how many they are."""
    metadata = transaction.metadata
    parts = partition_rows_by(files.spec, metadata.current_schema.struct)

    def others(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        for part in split_by_partition(batch, parts).parts:
            values = [pa.repeat(value, 1) for value in part.values.values()]
            own = pa.StructArray.from_arrays(values, names=list(part.values))
            if partition_keys(own, files.partition)[0] not in new:
                yield part.rows

    known = transaction.changed_source.select_files(TRUE).files
    chosen = known.filter(pc.is_in(known.column("path"), value_set=pa.array(paths, pa.string())))
    moved = MovedRows(transaction, options)
    reading = ScanOptions(timezone=transaction.timezone, memory=options.reading)
    waiting = _MOVING if options.memory is None else options.waiting
    written = moved.write(chosen, reading, others, memory=waiting, progress=transaction.progress)
    moved.note(transaction, written)
    transaction.claims.moved.update(paths)
    entries = moved.entries(written)
    transaction.add_entries(entries)
    return entries.rows


def _drop_pending(transaction: Transaction, spec_id: int, keys: Collection[Hashable]) -> int:
    """Leave out files that the transaction has added to these partitions before; return how many rows they have."""
    gone: list[str] = []
    rows = 0
    for files in (files for files in transaction.pending.added if files.content == DATA):
        if files.spec.spec_id != spec_id:
            raise UnsupportedFeatureError(
                "the transaction has added files of another partitioning before, whose partitions cannot be replaced",
                hint="commit the change of the partitioning first",
                feature="partition evolution",
            )
        paths, counts = (files.entries.column(name).to_pylist() for name in ("file_path", "record_count"))
        dropped = {path: count for path, key, count in zip(paths, files.keys, counts, strict=True) if key in keys}
        gone += dropped
        rows += sum(dropped.values())
    transaction.pending.drop_added(gone)
    return rows
