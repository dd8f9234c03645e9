"""Compaction of Iceberg tables: what a commit of it records."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import UnsupportedFeatureError
from deltaberg.files.read.metadata import LINEAGE_COLUMNS
from deltaberg.iceberg.change.moved_rows import MovedRows
from deltaberg.iceberg.change.row_ids import RowIds
from deltaberg.iceberg.create.create import sort_field
from deltaberg.iceberg.maintain.rebase import DeleteRebase
from deltaberg.iceberg.manifests.fields import POSITION_DELETES
from deltaberg.iceberg.manifests.metrics import manifests_of
from deltaberg.iceberg.metadata.specs import check_known_spec
from deltaberg.iceberg.metadata.versions import ROW_DELETES_SINCE
from deltaberg.iceberg.partition.sorting import RowSorter
from deltaberg.iceberg.partition.structs import partition_keys
from deltaberg.iceberg.rows.row_spec import has_bounds, own_sorter, row_spec
from deltaberg.iceberg.scan.source import IcebergSource
from deltaberg.iceberg.transaction.conflict import PlannedSnapshotExpiredError
from deltaberg.iceberg.transaction.transaction import Transaction
from deltaberg.schema.arrow import as_array, with_columns
from deltaberg.schema.columns import ColumnName
from deltaberg.schema.types import Field, Struct
from deltaberg.table.change.changed_rows import NewFiles
from deltaberg.table.maintain.compact import Compaction, MovedFiles, Rewrite, compact_table
from deltaberg.table.maintain.compact_result import CompactResult
from deltaberg.table.maintain.packing import PackedFile
from deltaberg.table.maintain.row_order import BoundOrder, RowOrder
from deltaberg.table.maintain.row_trail import RowTrail
from deltaberg.table.read.plan import Plan, file_numbers
from deltaberg.table.sort.order import OrderTerm
from deltaberg.table.transaction.operation import Operation

__all__ = ["IcebergRewrite", "compact_iceberg"]

#: Files of more than so many times the target size are divided, as iceberg-spark does it.
_DIVIDED_FROM = 1.8


def compact_iceberg(
    begin: Callable[[], Transaction], newest: Callable[[], object], compaction: Compaction
) -> CompactResult:
    """Write files anew, as `compact_table` does. A purge divides none."""
    if compaction.purge is None:
        compaction = replace(compaction, packing=replace(compaction.packing, divided_from=_DIVIDED_FROM))
    return compact_table(begin, newest, compaction, IcebergRewrite)


class IcebergRewrite(Rewrite[Transaction]):
    """The part of an Iceberg table in one commit of a compaction."""

    age = ("row_commit_version", "path")
    forgotten = (*Rewrite.forgotten, PlannedSnapshotExpiredError)
    counts_rows = True

    @cached_property
    def source(self) -> IcebergSource:
        """The rows of the snapshot."""
        return self.transaction.source

    @property
    def target_size(self) -> int:
        """Bytes of a new file, as the request or the property ``write.target-file-size-bytes`` says."""
        return row_spec(self.transaction.metadata, self.compaction.rows).target_size

    @cached_property
    def _moved(self) -> MovedRows:
        return MovedRows(self.transaction, self.compaction.rows, self.source)

    @property
    def identity(self) -> RowIds:
        """The columns of rows that move."""
        return self._moved.ids

    @property
    def stored(self) -> Struct:
        """The columns of the table, and those of the ids of rows."""
        return Struct((*self.source.schema, *LINEAGE_COLUMNS))

    @property
    def new_files(self) -> NewFiles:
        """The files that rows move to, in the newest partitioning."""
        return self._moved.new_files(self.transaction)

    def partitions(self, files: pa.Table) -> Sequence[Hashable]:
        """Return the partitions, each with the id of its spec.

        Rows of files of different specs are not put together, since they may go to different partitions.
        """
        keys = partition_keys(self.source.partition_values(files), self.source.partition)
        return list(zip(self.source.spec_ids(files), keys, strict=True))

    def choose(self, files: pa.Table, packed: list[PackedFile]) -> list[PackedFile]:
        """Return the files of the spec that is asked for; all of them if it is not.

        Raises
        ------
        InvalidArgumentError
            The table has no such spec.
        """
        spec_id = self.compaction.spec_id
        check_known_spec(self.transaction.metadata.specs, spec_id)
        if spec_id is None:
            return packed
        ids = self.source.spec_ids(files)
        return [file for file in packed if ids[file.row] == spec_id]

    def deleted_shares(self, plan: Plan) -> pa.Array:
        """Return the share of the rows of each file that are deleted, as far as metadata tells.

        A position delete file that is about one data file has counted its rows; others say nothing of a single file.
        """
        shares = super().deleted_shares(plan)
        if not len(self.source.deletes):
            return shares
        lists = as_array(plan.files.column("delete_files"))
        table, only = self.source.deletes.table, self.source.deletes.only_paths
        named = pc.coalesce(as_array(table.column("referenced_data_file")), only)
        is_position = pc.equal(table.column("content"), POSITION_DELETES)
        paths = pc.if_else(is_position, named, pa.scalar(None, pa.string())).to_pylist()
        counts = table.column("record_count").to_pylist()
        divided = [
            sum(counts[number] for number in found)
            if found and all(paths[number] == path for number in found)
            else None
            for found, path in zip(lists.to_pylist(), plan.files.column("path").to_pylist(), strict=True)
        ]
        rows = pc.max_element_wise(plan.record_counts.cast(pa.float64()), 1.0, skip_nulls=False)
        return pc.coalesce(pc.divide(pa.array(divided, pa.float64()), rows), shares)

    @property
    def follows_deletes(self) -> bool:
        """Whether rows may be deleted meanwhile."""
        return self.transaction.metadata.format_version >= ROW_DELETES_SINCE

    @property
    def wanted_order(self) -> RowOrder | None:
        """The order that the request asks for."""
        if self.compaction.cluster:
            raise UnsupportedFeatureError(
                "Iceberg tables have no clustering columns",
                hint="pass ⟪hilbert_by⟫, ⟪z_order_by⟫ or ⟪sort_by⟫ with the columns",
                feature="clustering",
            )
        return self.compaction.order

    def has_statistics(self, path: tuple[Field, ...]) -> bool:
        """Return whether bounds of a column are recorded."""
        return has_bounds(self.transaction.metadata, path[-1])

    def order_terms(self, names: Sequence[ColumnName]) -> tuple[OrderTerm, ...]:
        """Return what rows are ordered by: columns, or transforms of them."""
        schema = self.source.schema
        return RowSorter(schema, tuple(sort_field(schema, name) for name in names)).terms

    @property
    def _sort_order_id(self) -> int | None:
        """The id of the order of new files, which the table knows; None for the order that writers follow."""
        order = self.order
        if order is None:
            return None
        own = own_sorter(self.transaction.metadata)
        follows = own is not None and order == BoundOrder(own.terms)
        return self.transaction.metadata.default_sort_order_id if follows else 0

    def record(self, made: Operation, moved: Sequence[MovedFiles], trail: RowTrail | None) -> None:
        """Have the transaction replace files by new ones.

        These have the sequence number of the snapshot that was read, so that keys that others delete meanwhile are
        deleted from them.
        """
        transaction, planned = self.transaction, self.transaction.planned
        old = pa.concat_tables([one.old for one in moved])
        paths: list[str] = old.column("path").to_pylist()
        added = self._moved.entries(pa.concat_tables([one.new for one in moved]), self._sort_order_id)
        if trail is not None and planned is not None:
            added = replace(added, entries=with_columns(added.entries, sequence_number=planned.sequence_number))
            location = self._moved.location
            transaction.claims.rebase = DeleteRebase(transaction, self.source, old, added, location, trail)
        else:
            transaction.claims.moved.update(paths)
        transaction.add_entries(added)
        transaction.pending.keeps_rows = True
        transaction.remove_files(paths, manifests_of(self.source.manifests, file_numbers(old)))
