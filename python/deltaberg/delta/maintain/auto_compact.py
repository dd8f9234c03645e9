"""Auto compaction of Delta tables, which the property ``delta.autoOptimize.autoCompact`` asks for.

Files are chosen as by delta-spark, so that neither finds more to do after the other.
"""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.actions.domains import clustering_columns
from deltaberg.delta.data.partition_values import partition_value_texts, read_partition_values
from deltaberg.delta.properties.auto_optimize import compacts_itself
from deltaberg.delta.rows.row_spec import RowOptions, row_spec
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.delta.transaction.transaction import Transaction
from deltaberg.schema.arrow import as_array
from deltaberg.table.maintain.auto_compact import LeftFiles, are_many, compact_left_files

__all__ = ["compact_after"]


def compact_after(transaction: Transaction, added: Collection[str], *, seconds: float | None = None) -> list[str]:
    """Put small files together in the partitions to which a transaction has added files, if its table asks for it.

    Parameters
    ----------
    transaction
        The transaction, which is committed.
    added
        The files that were written for it, by their recorded paths.
    seconds
        No group of files but the first is begun after so many; None for a minute.

    Returns
    -------
    list
        A sentence for each part that failed.
    """
    if not added or not compacts_itself(transaction.snapshot.metadata.configuration):
        return []
    from deltaberg.delta.maintain.compact import DeltaRewrite

    def look() -> tuple[LeftFiles, int]:
        target = row_spec(transaction.snapshot, RowOptions()).target_size
        return _left_files(transaction.snapshot, added, target // 2, transaction.timezone), target

    return compact_left_files(look, transaction.following, transaction.refresh, DeltaRewrite, seconds=seconds)


def _left_files(snapshot: Snapshot, added: Collection[str], size: int, timezone: str) -> LeftFiles:
    """Return the live files with fewer bytes that may be put together; none of them if they are few."""
    live = snapshot.live.table
    small = pc.less(live.column("size"), size)
    if clustering_columns(snapshot.domains):
        # What was clustered stays where it is: a small file may be a part of a large cube.
        small = pc.and_(small, pc.is_null(live.column("clusteringProvider")))
    numbers = pc.indices_nonzero(small).cast(pa.int64())
    # Texts of partition values are made for none where no partition can have enough files.
    files = live.take(numbers if are_many(len(numbers)) else numbers.slice(0, 0))
    fields = snapshot.partition_fields
    names = [field.name for field in fields]
    values = (
        pa.StructArray.from_arrays(read_partition_values(files, fields, timezone), names)
        if fields
        else files.column("path")
    )
    are_new = pc.is_in(as_array(files.column("path")), value_set=pa.array(sorted(added), pa.string()))
    partitions = as_array(partition_value_texts(values, fields))
    return LeftFiles(numbers.slice(0, len(files)), as_array(files.column("size")), partitions, are_new)
