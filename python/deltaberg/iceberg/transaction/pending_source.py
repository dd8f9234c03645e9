"""The rows of a table as a transaction leaves it, before any snapshot has its files."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.expressions.compute.bound import Bound
from deltaberg.expressions.tree.tree import TRUE
from deltaberg.iceberg.deletes.delete_files import DeleteFiles
from deltaberg.iceberg.manifests.fields import MANIFESTS
from deltaberg.iceberg.manifests.metrics import Metrics
from deltaberg.iceberg.manifests.reader import Entries
from deltaberg.iceberg.manifests.write_manifest import ManifestHeader, encode_manifest, manifest_row
from deltaberg.iceberg.scan.file_table import FileRows
from deltaberg.iceberg.scan.source import IcebergSource
from deltaberg.iceberg.transaction.pending import PendingFiles
from deltaberg.schema.arrow import as_array, with_columns
from deltaberg.table.read.source import FileSelection

__all__ = ["PendingSource"]


class PendingSource(IcebergSource):
    """The rows of a snapshot with what a transaction has added, and without what it has removed.

    Manifests of the added files are made in memory, and follow those of the snapshot, so that its files keep their
    numbers. Rows of added files have no ids and no sequence numbers before the commit; they are null here.

    Parameters
    ----------
    base
        The snapshot that the transaction is planned on.
    pending
        What the transaction adds and removes.
    snapshot_id
        The snapshot that it will add.
    """

    def __init__(self, base: IcebergSource, pending: PendingFiles, snapshot_id: int) -> None:
        place = (base.store, base.resolver, base.table, base.metadata_file)
        super().__init__(base.metadata, base.snapshot, base.schema, *place)
        self._base = base
        self._pending = pending
        self._removed = pa.array(sorted(pending.removed), pa.string())
        self._added = pa.array(sorted(pending.paths), pa.string())
        metadata = base.metadata
        key = metadata.format_version, metadata.current_schema_id
        sequence = metadata.last_sequence_number + 1
        rows, contents = [], {}
        for number, files in enumerate(pending.added):
            header = ManifestHeader.of(metadata, files.spec, files.partition, files.content)
            path = f"pending-{number}"
            entries = with_columns(files.entries, snapshot_id=snapshot_id)
            if key not in files.manifests:
                files.manifests[key] = encode_manifest(entries, header)
            contents[path] = files.manifests[key]
            rows.append(
                manifest_row(
                    entries, header, path, len(contents[path]), snapshot_id=snapshot_id, sequence_number=sequence
                )
            )
        self._rows_added = rows
        self.reader = replace(base.reader, known=contents)
        self._rows = FileRows(self.reader, base.schema)
        self._metrics = Metrics(self.reader)

    def __reduce__(self) -> tuple[type[IcebergSource], tuple[Any, ...]]:
        raise TypeError("what a transaction has not committed cannot be read elsewhere")

    @cached_property
    def manifests(self) -> pa.Table:
        """The manifests of the snapshot and of the transaction, each with its ``number``."""
        known = self._base.manifests
        added = pa.Table.from_pylist(self._rows_added, MANIFESTS).cast(known.drop_columns(["number"]).schema)
        numbers = pa.array(range(len(known), len(known) + len(added)), pa.int32())
        return pa.concat_tables([known, added.append_column("number", numbers)])

    @cached_property
    def deletes(self) -> DeleteFiles:
        """The delete files of the snapshot and of the transaction."""
        files = super().deletes
        gone = self._pending.removed_deletes
        kept = []
        for entries in files.entries:
            table = entries.table
            keys = zip(table["file_path"].to_pylist(), table["content_offset"].to_pylist(), strict=True)
            stays = pa.array([key not in gone for key in keys], pa.bool_())
            kept.append(entries.filter(stays))
        return replace(files, entries=kept)

    def select_files(self, condition: Bound) -> FileSelection:
        """Return the data files whose partitions can hold a matching row, with what deletes their rows."""
        found = super().select_files(condition)
        kept = pc.invert(pc.is_in(as_array(found.files.column("path")), value_set=self._removed))
        proven = None if found.proven is None else found.proven.filter(kept)
        return replace(found, files=found.files.filter(kept), proven=proven)

    def file_table(self, entries: list[Entries], condition: Bound = TRUE) -> pa.Table:  # type: ignore[override]
        """Return the file table of data files, with what can delete rows that match a condition."""
        files = super().file_table(entries, condition)
        is_new = pc.is_in(as_array(files.column("path")), value_set=self._added)
        known = {name: as_array(files.column(name)) for name in ("base_row_id", "row_commit_version")}
        return with_columns(files, **{name: pc.if_else(is_new, None, known[name]) for name in known})
