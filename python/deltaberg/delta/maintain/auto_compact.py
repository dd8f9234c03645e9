"""Auto compaction: a commit is followed by the compaction of the partitions that it has left with many small files.

The property ``delta.autoOptimize.autoCompact`` asks for it. Which files that are is as in delta-spark, so that neither
finds more to do after the other.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.actions.domains import clustering_columns
from deltaberg.delta.data.partition_values import partition_value_texts, read_partition_values
from deltaberg.delta.properties.auto_optimize import compacts_itself
from deltaberg.delta.rows.row_spec import RowOptions, row_spec
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.delta.transaction.transaction import Transaction
from deltaberg.errors import CommitUnknownError, DeltabergError
from deltaberg.schema.arrow import as_array

__all__ = ["compact_after"]

#: A partition with so many small files is compacted.
MIN_FILES = 50
#: No further group of files is begun after so many seconds, and together they have so many bytes at most.
SECONDS, MOST_BYTES = 60, 16 << 30
#: The bytes of the files of one group, which is one commit.
_GROUP = 1 << 30


def compact_after(transaction: Transaction, added: Collection[str]) -> list[str]:
    """Put small files together in the partitions to which a transaction has added files, if its table asks for it.

    The commit of the transaction stands, whatever becomes of this.

    Parameters
    ----------
    transaction
        The transaction, which is committed.
    added
        The files that were written for it, by their recorded paths.

    Returns
    -------
    list
        A sentence for each part that failed.
    """
    if not added or not compacts_itself(transaction.snapshot.metadata.configuration):
        return []
    failed = "small files were not put together"
    try:
        target = row_spec(transaction.snapshot, RowOptions()).target_size
        chosen = _small_files(transaction.snapshot, added, target // 2, transaction.timezone)
        return [f"{failed}: {_said(error)}" for error in _compact(transaction, chosen, target)] if len(chosen) else []
    except CommitUnknownError as error:
        return [f"it is not known whether small files were put together: {error.message}"]
    except Exception as error:  # noqa: BLE001 - the commit is done, and must not look as if it had failed
        return [f"{failed}: {_said(error)}"]


def _said(error: Exception) -> str:
    """Return what an error says, without its hint."""
    return error.message if isinstance(error, DeltabergError) else str(error) or type(error).__name__


def _small_files(snapshot: Snapshot, added: Collection[str], size: int, timezone: str) -> pa.Int64Array:
    """Return the numbers of the live files to put together, in the partitions of the added files.

    Parameters
    ----------
    size
        Files with fewer bytes are small.
    timezone
        The zone of partition values without one.
    """
    live = snapshot.live.table
    small = pc.less(live.column("size"), size)
    if clustering_columns(snapshot.domains):
        # What was clustered stays where it is: a small file may be a part of a large cube.
        small = pc.and_(small, pc.is_null(live.column("clusteringProvider")))
    numbers = pc.indices_nonzero(small).cast(pa.int64())
    if len(numbers) < MIN_FILES:
        return pa.array([], pa.int64())
    files = live.take(numbers)
    fields = snapshot.partition_fields
    names = [field.name for field in fields]
    values = (
        pa.StructArray.from_arrays(read_partition_values(files, fields, timezone), names)
        if fields
        else files.column("path")
    )
    partitions = as_array(partition_value_texts(values, fields))
    is_new = pc.is_in(as_array(files.column("path")), value_set=pa.array(sorted(added), pa.string()))
    counted = pc.value_counts(partitions.filter(pc.is_in(partitions, value_set=pc.unique(partitions.filter(is_new)))))
    full = counted.field("values").filter(pc.greater_equal(counted.field("counts"), MIN_FILES))
    among = pc.is_in(partitions, value_set=full)
    found, sizes = numbers.filter(among), as_array(files.column("size")).filter(among)
    return found.filter(pc.less_equal(pc.cumulative_sum(sizes), MOST_BYTES))


def _compact(transaction: Transaction, chosen: pa.Int64Array, target: int) -> list[Exception]:
    """Put files together, and return why some were not."""
    from deltaberg.delta.maintain.compact import DeltaRewrite
    from deltaberg.table.maintain.compact import Compaction, compact_table
    from deltaberg.table.maintain.packing import Packing

    packing = Packing(target, max_deleted=1, group_size=_GROUP, min_file_size=target // 2)
    compaction = Compaction(packing=packing, timezone=transaction.timezone, cluster=False, seconds=SECONDS)
    done = compact_table(transaction.following, transaction.refresh, compaction, partial(DeltaRewrite, chosen=chosen))
    return list(done.conflicts)
