"""Changes of a table for which all of its files are written anew, in the version that makes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from deltaberg.delta.actions.table_actions import Metadata
from deltaberg.delta.features import MAPPING_MODE, supports
from deltaberg.delta.rows.row_ids import PendingSource, RowIds
from deltaberg.delta.rows.row_spec import RowOptions, row_spec
from deltaberg.delta.schema.column_mapping import COLUMN_ID, NESTED_IDS, PHYSICAL_NAME
from deltaberg.delta.schema.schema_json import SchemaDocument, all_fields
from deltaberg.delta.transaction.transaction import Transaction
from deltaberg.errors import SchemaError
from deltaberg.expressions.tree.tree import TRUE
from deltaberg.table.change.changed_rows import NewFiles
from deltaberg.table.change.matched_rows import scan_of_whole_files
from deltaberg.table.read.scan_options import ScanOptions
from deltaberg.table.write.sources import WriteRoad

__all__ = ["rebuild_files", "without_mapping"]

_OF_MAPPING = (COLUMN_ID, NESTED_IDS, PHYSICAL_NAME)


def without_mapping(metadata: Metadata) -> Metadata:
    """Return metadata whose columns have the same names in files as in the table.

    The highest id stays: where the mapping begins again, or an older version returns, no id is given twice.
    """
    document = SchemaDocument(metadata.schema_string or "")
    for field in all_fields(document.fields()):
        found: dict[str, Any] = field.get("metadata") or {}
        field["metadata"] = {name: value for name, value in found.items() if name not in _OF_MAPPING}
    changed = metadata.with_members({"schemaString": document.to_json()})
    return changed.with_properties({MAPPING_MODE: "none"})


def rebuild_files(transaction: Transaction, metadata: Metadata) -> int:
    """Change the metadata of a table, and write all of its rows to files that fit it. Return how many these are.

    No row changes. Another commit that changes rows meanwhile is a conflict.

    Raises
    ------
    SchemaError
        A new partition column has an empty text, which no directory can stand for: it would become null.
    """
    transaction.read()
    before = transaction.snapshot
    source = PendingSource(before, transaction.timezone, transaction.paths_without_row_ids)
    old_ids = RowIds(before)
    transaction.set_metadata(metadata)
    after, log = transaction.snapshot, before.log
    kept = RowIds(after)
    old = {field.name for field in before.partition_fields}
    new = [field.name for field in after.partition_fields if field.name not in old]

    def note(files: pa.Table, road: WriteRoad) -> None:
        transaction.note_written(files.column("path").to_pylist(), road)

    def rows() -> Iterator[pa.RecordBatch]:
        files = source.select_files(TRUE).files
        bound = scan_of_whole_files(source, files, old_ids.columns, ScanOptions(timezone=transaction.timezone))
        for batch in bound.batches():
            _check_empty(batch, new)
            yield kept.flat(batch)

    spec = row_spec(after, RowOptions()).for_kept_rows(kept.stored)
    written = NewFiles(spec, log.store, log.root, note, transaction.progress).write(rows())
    transaction.remove_files(before.live.table, data_change=False)
    transaction.add_files(written, data_change=False)
    if supports(after.protocol, "rowTracking") and not kept.are_kept:
        transaction.lose_row_ids()
    return int(pc.sum(written.column("record_count")).as_py() or 0)


def _check_empty(batch: pa.RecordBatch, names: Sequence[str]) -> None:
    for name in names:
        values = batch.column(name)
        is_text = any(of(values.type) for of in (pt.is_string, pt.is_large_string, pt.is_binary, pt.is_large_binary))
        empty = pc.equal(pc.binary_length(values), 0).true_count if is_text else 0
        if empty:
            raise SchemaError(
                f"a table cannot be partitioned by empty texts, which would become null; {empty} rows or more have one",
                hint="set them to null or to another text first, or choose other columns",
                column=name,
            )
