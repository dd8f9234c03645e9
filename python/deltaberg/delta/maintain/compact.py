"""Compaction of Delta tables: what a commit of it records.

Delta protocol, "Add File and Remove File": files that only rearrange rows have ``dataChange`` false.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.data.partition_values import partition_value_texts, read_partition_values
from deltaberg.delta.features import supports
from deltaberg.delta.maintain.clustering import Clustering
from deltaberg.delta.maintain.rebase import VectorRebase, metrics_of_new
from deltaberg.delta.rows.row_ids import RowIds
from deltaberg.delta.rows.row_spec import row_spec
from deltaberg.delta.scan.source import SnapshotSource
from deltaberg.delta.schema.iceberg_compat import untagged_files
from deltaberg.delta.schema.row_tracking import MATERIALIZED_ROW_COLUMNS
from deltaberg.delta.schema.type_changes import CHANGES
from deltaberg.delta.transaction.transaction import Transaction
from deltaberg.errors import UnsupportedFeatureError
from deltaberg.expressions.build.filters import as_filter
from deltaberg.files.read.metadata import METADATA
from deltaberg.schema.arrow import as_array
from deltaberg.schema.types import Field, Primitive, Struct
from deltaberg.table.change.changed_rows import NewFiles
from deltaberg.table.maintain.compact import Compaction, MovedFiles, Rewrite
from deltaberg.table.maintain.packing import PackedFile
from deltaberg.table.maintain.purge import Purge
from deltaberg.table.maintain.row_order import OrderKind, RowOrder
from deltaberg.table.maintain.row_trail import RowTrail
from deltaberg.table.read.plan import Plan, file_numbers
from deltaberg.table.transaction.operation import Operation
from deltaberg.table.write.sources import WriteRoad
from deltaberg.table.write.spec import WriteSpec

__all__ = ["DeltaRewrite"]


class DeltaRewrite(Rewrite[Transaction]):
    """The part of a Delta table in one commit of a compaction."""

    age = ("modified", "path")

    @cached_property
    def source(self) -> SnapshotSource:
        """The rows of the version."""
        return SnapshotSource(self.transaction.snapshot, self.transaction.timezone)

    @cached_property
    def _spec(self) -> WriteSpec:
        return row_spec(self.transaction.snapshot, self.compaction.rows)

    @cached_property
    def _clustering(self) -> Clustering | None:
        return Clustering.of(self.transaction.snapshot, self.compaction)

    @property
    def wanted_order(self) -> RowOrder | None:
        """The order that the request asks for, or that the table is clustered in."""
        return self.compaction.order if self._clustering is None else self._clustering.order

    def choose(self, files: pa.Table, packed: list[PackedFile]) -> list[PackedFile]:
        """Return the files that are clustered, where the table is; otherwise all."""
        if self._clustering is None:
            return packed
        live = self.transaction.snapshot.live.table.take(file_numbers(files))
        return self._clustering.choose(live, packed, self.compaction.packing)

    def stale(self, plan: Plan, purge: Purge) -> pa.BooleanArray:
        """Return which of the planned files hold what is to be purged; of compatibility their tags tell."""
        live = self.transaction.snapshot.live.table.take(file_numbers(plan.files))
        if purge == "compatibility":
            return untagged_files(live)
        stale = super().stale(plan, purge)
        return pc.or_(stale, self._have_older_texts(live)) if purge == "types" else stale

    def _have_older_texts(self, live: pa.Table) -> pa.BooleanArray:
        """Return which live files record partition values of a widened column as those of its older types.

        Readers without type widening may refuse such a text, as ``2024-01-01`` for a timestamp.
        """
        fields = [field for field in self.transaction.snapshot.partition_fields if CHANGES in field.metadata]
        if not fields:
            return pa.repeat(False, len(live))
        names = [field.name for field in fields]
        maps = as_array(live.column("partitionValues"))
        values = read_partition_values(live, fields, self.transaction.timezone)
        recorded = [pc.map_lookup(maps, pa.scalar(field.physical_name), "last") for field in fields]
        texts = [replace(field, type=Primitive("string")) for field in fields]
        return pc.not_equal(
            partition_value_texts(pa.StructArray.from_arrays(values, names), fields),
            partition_value_texts(pa.StructArray.from_arrays(recorded, names), texts),
        )

    @property
    def target_size(self) -> int:
        """Bytes of a new file, as the request or the property ``delta.targetFileSize`` says."""
        return self._spec.target_size

    @cached_property
    def identity(self) -> RowIds:
        """The columns of rows that move."""
        snapshot = self.transaction.snapshot
        ids = RowIds(snapshot)
        if "rowTracking" in snapshot.active_features and not ids.are_kept:
            raise UnsupportedFeatureError(
                "row tracking is enabled, but the table does not name the columns that keep the ids of rows that move, "
                f"or has a column {METADATA} that hides them",
                hint="disable row tracking, or enable it anew",
                feature="rowTracking",
            )
        return ids

    @property
    def stored(self) -> Struct:
        """The columns of the table, and those that its properties name for the ids of rows."""
        snapshot = self.transaction.snapshot
        names = (snapshot.metadata.configuration.get(name) for name in MATERIALIZED_ROW_COLUMNS)
        return Struct((*snapshot.schema, *(Field(name, Primitive("long")) for name in names if name)))

    @property
    def new_files(self) -> NewFiles:
        """The files that rows move to."""
        log, transaction = self.transaction.snapshot.log, self.transaction

        def note(files: pa.Table, road: WriteRoad) -> None:
            transaction.note_written(files.column("path").to_pylist(), road)

        return NewFiles(self._spec.for_kept_rows(self.identity.stored), log.store, log.root, note)

    def partitions(self, files: pa.Table) -> Sequence[Hashable]:
        """Return the partition values as the protocol spells them, however the log does."""
        fields = self.transaction.snapshot.partition_fields
        if not fields:
            return [None] * len(files)
        texts: list[str] = partition_value_texts(self.source.partition_values(files), fields).to_pylist()
        return texts

    @property
    def follows_deletes(self) -> bool:
        """Whether rows may be deleted by deletion vectors: other deletes of rows write their files anew."""
        return "deletionVectors" in self.transaction.snapshot.active_features

    def has_statistics(self, path: tuple[Field, ...]) -> bool:
        """Return whether the statistics of new files have a column."""
        return self._spec.has_statistics(path)

    def record(self, operation: Operation, moved: Sequence[MovedFiles], trail: RowTrail | None) -> None:
        """Have the transaction replace files by new ones."""
        transaction = self.transaction
        snapshot = transaction.snapshot
        numbers = pa.concat_arrays([file_numbers(one.old) for one in moved])
        old = snapshot.live.table.take(numbers)
        new = pa.concat_tables([one.new for one in moved])
        transaction.remove_files(old, data_change=False)
        for one in moved:
            marks = {} if self._clustering is None else self._clustering.marks()
            transaction.add_files(one.new, data_change=False, members=marks)
        if trail is not None:
            transaction.follow_deletes(VectorRebase(snapshot, numbers, trail, transaction.note_written))
        if supports(snapshot.protocol, "rowTracking") and not self.identity.are_kept:
            transaction.lose_row_ids()
        operation.parameters.update(_parameters(self.compaction, self._clustering))
        operation.metrics.update(_metrics(old, new))


#: The members that name the columns of an order. Only the first is known to the reference implementation.
_ORDERED_BY: dict[OrderKind, str] = {"z-order": "zOrderBy", "hilbert": "hilbertBy", "sort": "sortBy"}


def _parameters(compaction: Compaction, clustering: Clustering | None) -> Mapping[str, str]:
    where, order = compaction.where, compaction.order
    found: dict[str, list[str]] = {"predicate": [] if where is None else [str(as_filter(where))], "zOrderBy": []}
    if order is not None:
        found[_ORDERED_BY[order.kind]] = [name if isinstance(name, str) else ".".join(name) for name in order.columns]
    texts = {name: json.dumps(values, ensure_ascii=False, separators=(",", ":")) for name, values in found.items()}
    if compaction.purge:
        return {"predicate": texts["predicate"], "applyPurge": "true"}
    clustered = {"clusterBy": "[]", **({} if clustering is None else clustering.parameters)}
    return {**texts, **clustered, "auto": json.dumps(compaction.chosen is not None)}


def _metrics(old: pa.Table, written: pa.Table) -> dict[str, int]:
    """Return what the history records of a rewrite, in the words of the reference implementation."""
    return {
        "numRemovedFiles": len(old),
        "numRemovedBytes": pc.sum(old.column("size")).as_py() or 0,
        "numDeletionVectorsRemoved": len(old) - old.column("deletionVector").null_count,
        **metrics_of_new(written.column("size").to_pylist()),
    }
