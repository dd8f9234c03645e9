"""Compaction of Iceberg tables: what a commit of it records."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import cached_property

import pyarrow as pa

from deltaberg.files.read.task import constant_column
from deltaberg.iceberg.change.moved_rows import MovedRows
from deltaberg.iceberg.change.row_ids import RowIds
from deltaberg.iceberg.manifests.metrics import manifests_of
from deltaberg.iceberg.partition.structs import partition_keys
from deltaberg.iceberg.rows.row_spec import row_spec
from deltaberg.iceberg.scan.source import IcebergSource
from deltaberg.iceberg.transaction.transaction import Transaction
from deltaberg.table.change.changed_rows import NewFiles
from deltaberg.table.maintain.compact import MovedFiles, Rewrite
from deltaberg.table.maintain.row_trail import RowTrail
from deltaberg.table.read.plan import file_numbers
from deltaberg.table.transaction.operation import Operation

__all__ = ["IcebergRewrite"]


class IcebergRewrite(Rewrite[Transaction]):
    """What an Iceberg table does for one commit of a compaction."""

    age = ("row_commit_version", "path")

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
    def new_files(self) -> NewFiles:
        """The files that rows move to, in the newest partitioning."""
        return self._moved.new_files(self.transaction)

    def partitions(self, files: pa.Table) -> Sequence[Hashable]:
        """Return the partitions, each with the id of its spec.

        Rows of files of different specs are not put together, since they may go to different partitions.
        """
        keys = partition_keys(self.source.partition_values(files), self.source.partition)
        return list(zip(files.column(constant_column("_spec_id")).to_pylist(), keys, strict=True))

    @property
    def follows_deletes(self) -> bool:
        """Whether rows may be deleted meanwhile."""
        return False

    def record(self, made: Operation, moved: Sequence[MovedFiles], trail: RowTrail | None) -> None:
        """Have the transaction replace files by new ones."""
        transaction = self.transaction
        old = pa.concat_tables([one.old for one in moved])
        paths: list[str] = old.column("path").to_pylist()
        transaction.add_entries(self._moved.entries(pa.concat_tables([one.new for one in moved])))
        transaction.pending.keeps_rows = True
        transaction.claims.moved.update(paths)
        transaction.remove_files(paths, manifests_of(self.source.manifests, file_numbers(old)))
