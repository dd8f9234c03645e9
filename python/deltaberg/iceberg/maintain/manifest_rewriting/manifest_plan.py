"""Which manifests of a snapshot are worth to be rewritten, and into how many."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.iceberg.manifests.fields import MANIFESTS, ManifestPart
from deltaberg.iceberg.manifests.merge import MergePolicy
from deltaberg.iceberg.manifests.prune import partition_stats
from deltaberg.iceberg.metadata.specs import check_known_spec
from deltaberg.iceberg.partition.structs import AS_TEXT, partition_struct
from deltaberg.iceberg.scan.source import IcebergSource
from deltaberg.iceberg.schema.value_bytes import has_value_bytes
from deltaberg.iceberg.transaction.pending import ManifestRow
from deltaberg.pruning.stats import ColumnStats
from deltaberg.table.arguments import SPEC_HINT, check_flags, checked_integer, checked_number
from deltaberg.table.sort.order import sortable

__all__ = ["ManifestGroup", "ManifestRewrite", "plan_rewrite"]

#: Manifests of this share of the target size are large enough to stay, and those up to the other are not divided: the
#: shares that the reference has for data files.
_SMALL, _LARGE = 0.75, 1.8
#: A null, or a value, which compare as they sort.
_Place: TypeAlias = "tuple[Any, ...]"
#: With so many others a manifest may share partitions. A few late files are not worth to write large manifests again.
_OVERLAPS = 2


@dataclass(frozen=True)
class ManifestRewrite:
    """The request of a rewrite of manifests.

    Parameters
    ----------
    spec_id
        The partition spec whose manifests are looked at; None for all specs.
    rewrite_all
        Whether manifests that are in order are rewritten as well.
    target_size
        The bytes of a new manifest; None for what the table says.
    min_manifests
        How many small manifests a new one stands for at least.
    dry_run
        Whether nothing is written.

    Raises
    ------
    InvalidArgumentError
        A value is not valid.
    """

    spec_id: int | None = None
    rewrite_all: bool = False
    target_size: int | None = None
    min_manifests: int = 2
    dry_run: bool = False

    def __post_init__(self) -> None:
        check_flags(self, "rewrite_all", "dry_run")
        object.__setattr__(self, "spec_id", checked_integer("spec_id", self.spec_id, SPEC_HINT))
        count = checked_number("min_manifests", self.min_manifests, 2, "pass a number of manifests")
        object.__setattr__(self, "min_manifests", count)
        if self.target_size is not None:
            size = checked_number("target_size", self.target_size, 1, "pass a number of bytes")
            object.__setattr__(self, "target_size", size)


@dataclass(frozen=True)
class ManifestGroup:
    """Manifests of one spec and one content that are rewritten together.

    Parameters
    ----------
    rows
        Their rows in the manifest list, the newest first.
    count
        How many they become.
    entries
        How many live files they have.
    """

    rows: tuple[ManifestRow, ...]
    count: int
    entries: int


def plan_rewrite(source: IcebergSource, asked: ManifestRewrite) -> list[ManifestGroup]:
    """Return the manifests of a snapshot that are to be rewritten.

    Rewritten are small ones, if that leaves fewer, those that are much too large, and those whose partitions are
    those of several others, so that a filter on partitions has to read all of them. Encrypted ones stay.

    Raises
    ------
    InvalidArgumentError
        The table has no such spec.
    """
    metadata = source.metadata
    check_known_spec(metadata.specs, asked.spec_id)
    target = asked.target_size or MergePolicy.of(metadata.properties).target_size
    listed = source.manifests
    counts = [listed.column(name) for name in ("added_files_count", "existing_files_count")]
    is_live = pc.or_(*(pc.not_equal(count, 0).fill_null(True) for count in counts))
    listed = listed.filter(pc.and_(is_live, listed.column("key_metadata").is_null()))
    kinds = listed.group_by(["partition_spec_id", "content"], use_threads=False).aggregate([]).to_pylist()
    groups = []
    for kind in sorted(kinds, key=lambda one: (one["content"], one["partition_spec_id"])):
        if asked.spec_id in (None, kind["partition_spec_id"]):
            own = pc.and_(*(pc.equal(listed.column(name), value) for name, value in kind.items()))
            groups.append(_group(source, listed.filter(own), asked, target))
    return [group for group in groups if group is not None]


def _group(source: IcebergSource, manifests: pa.Table, asked: ManifestRewrite, target: int) -> ManifestGroup | None:
    """Return which manifests of one spec and one content are rewritten; None if that is not worth it."""
    apart = _unclustered(source, manifests)
    rows: list[ManifestRow] = [
        row
        for row, is_apart in zip(manifests.select(MANIFESTS.names).to_pylist(), apart, strict=True)
        if is_apart or asked.rewrite_all or not _SMALL * target <= row["manifest_length"] <= _LARGE * target
    ]
    count = max(1, -(-sum(row["manifest_length"] for row in rows) // target))
    saves = len(rows) - count >= asked.min_manifests - 1
    # One that becomes one is the same again, whatever is asked.
    if not rows or count == len(rows) == 1 or not (asked.rewrite_all or any(apart) or saves or count > len(rows)):
        return None
    entries = _entries(source, rows)
    return ManifestGroup(tuple(rows), min(count, max(entries, 1)), entries)


def _entries(source: IcebergSource, rows: Sequence[ManifestRow]) -> int:
    """Return the number of live files, which lists of version 1 need not say."""
    counts = [row[name] for row in rows for name in ("added_files_count", "existing_files_count")]
    if None not in counts:
        return sum(counts)
    return sum(len(found.table) for row in rows for found in source.reader.read([{**row, "number": 0}], ManifestPart()))


def _unclustered(source: IcebergSource, manifests: pa.Table) -> list[bool]:
    """Return which manifests share their range of the first partition field with too many others.

    Ranges that only meet share nothing: a partition may begin in one manifest and end in the next. What a list does not
    say of a manifest is not held against it.
    """
    spec = source.reader.spec_of(manifests.column("partition_spec_id")[0].as_py())
    partition = partition_struct(spec, source.reader.schemas)
    first = partition.fields[0] if partition.fields else None
    if first is None or AS_TEXT in first.metadata or not has_value_bytes(first.type):
        return [False] * len(manifests)
    ranges = _ranges(partition_stats(manifests.combine_chunks(), partition, 0))
    bounded = [one for one in ranges if one is not None]
    starts, ends = sorted(start for start, _ in bounded), sorted(end for _, end in bounded)
    points = Counter(start for start, end in bounded if start == end)
    unclustered = []
    for one in ranges:
        others = 0
        if one is not None:
            # Those that begin before it ends, without those that end before it begins.
            others = bisect_left(starts, one[1]) - bisect_right(ends, one[0])
            others += points[one[0]] if one[0] == one[1] else -1
        unclustered.append(others > _OVERLAPS)
    return unclustered


def _ranges(stats: ColumnStats) -> list[tuple[_Place, _Place] | None]:
    """Return the least and the greatest value of each manifest, nulls before all values; None where it is not known."""
    if stats.lower is None or stats.upper is None or stats.null_count is None:
        return []
    lower, upper = (sortable(pa.chunked_array([bound])).to_pylist() for bound in (stats.lower, stats.upper))
    ranges: list[tuple[_Place, _Place] | None] = []
    for least, greatest, nulls in zip(lower, upper, stats.null_count.to_pylist(), strict=True):
        if nulls == 1:
            ranges.append(((0,), (0,)))
        elif least is None or greatest is None:
            ranges.append(None)
        else:
            ranges.append(((1, least) if nulls == 0 else (0,), (1, greatest)))
    return ranges
