"""Merging manifests by size and count, and splitting large ones (Iceberg spec, "Manifests", "Snapshots")."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.iceberg.manifests.fields import ADDED, DELETED, EXISTING
from deltaberg.iceberg.manifests.write_manifest import ManifestHeader, encode_manifest
from deltaberg.pruning.evaluate import keep_rows
from deltaberg.schema.arrow import as_array
from deltaberg.table.property_values import number_of

__all__ = ["MergePolicy", "merge_rows", "merged_entries", "parts_of_size", "plan_merges"]

#: So many entries tell how many bytes an entry takes.
_SAMPLE = 1000
_Row = Mapping[str, Any]


@dataclass(frozen=True)
class MergePolicy:
    """When manifests are merged.

    Parameters
    ----------
    enabled
        Whether a commit merges manifests (``commit.manifest-merge.enabled``).
    target_size
        The bytes that a merged manifest should have (``commit.manifest.target-size-bytes``).
    min_count
        How many manifests accumulate before they are merged (``commit.manifest.min-count-to-merge``).
    """

    enabled: bool = True
    target_size: int = 8 << 20
    min_count: int = 100

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> MergePolicy:
        """Return the policy of a table with these properties.

        Raises
        ------
        InvalidArgumentError
            If a property is not a positive number.
        """
        return cls(
            properties.get("commit.manifest-merge.enabled", "true").strip().lower() == "true",
            number_of(properties, "commit.manifest.target-size-bytes", cls.target_size),
            number_of(properties, "commit.manifest.min-count-to-merge", cls.min_count),
        )


def plan_merges(rows: Sequence[_Row], policy: MergePolicy) -> list[list[int]]:
    """Return which manifests of a snapshot are to be merged, as lists of the indexes of two or more.

    Only manifests of one spec and one content go together, neighbours first, up to the target size. The newest group
    of them waits until it has the least count, so that small commits do not rewrite the same entries again and again.
    New manifests of the commit itself, whose ``sequence_number`` is not known yet, are left alone: a retry keeps them.

    Parameters
    ----------
    rows
        The rows of the manifest list, the newest first.
    policy
        Size and count.
    """
    if not policy.enabled:
        return []
    kinds: dict[tuple[int, int], list[int]] = {}
    for index, row in enumerate(rows):
        if row["sequence_number"] is not None and not row["key_metadata"]:
            kinds.setdefault((row["partition_spec_id"], row["content"]), []).append(index)
    merges: list[list[int]] = []
    for indexes in kinds.values():
        groups: list[list[int]] = []
        size = 0
        # From the oldest on, so that what is left over is the newest.
        for index in reversed(indexes):
            length = rows[index]["manifest_length"]
            if not groups or size + length > policy.target_size:
                groups.append([])
                size = 0
            groups[-1].insert(0, index)
            size += length
        newest = groups[-1:]
        merges += [group for group in groups[:-1] if len(group) > 1]
        merges += [group for group in newest if len(group) >= max(policy.min_count, 2)]
    return sorted(merges)


def merge_rows(
    rows: Sequence[_Row],
    policy: MergePolicy,
    merge: Callable[[Sequence[_Row]], _Row | None],
) -> list[_Row]:
    """Return the manifests of a snapshot after merging, each merged one in the place of the newest of its parts.

    Parameters
    ----------
    rows
        The rows of the manifest list, the newest first.
    policy
        Size and count.
    merge
        Writes one manifest with the entries of several (`merged_entries`), and returns its row; None if they hold no
        entry that has to be kept.
    """
    places: dict[int, _Row | None] = {}
    for group in plan_merges(rows, policy):
        places.update(dict.fromkeys(group))
        places[group[0]] = merge([rows[index] for index in group])
    kept = [places.get(index, row) for index, row in enumerate(rows)]
    return [row for row in kept if row is not None]


def merged_entries(parts: Sequence[pa.Table], snapshot_id: int) -> pa.Table:
    """Return the entries of several manifests of one spec as a manifest of a new snapshot holds them.

    Files that older snapshots added become existing, with the snapshot ids, sequence numbers and first row ids that
    they had. Files that older snapshots deleted are left out, and never become existing again. What the snapshot itself
    added or deleted stays so.

    Parameters
    ----------
    parts
        Entries as `read_manifest` returns them for `WHOLE_ENTRIES`: with their inherited values.
    snapshot_id
        The new snapshot.
    """
    entries = pa.concat_tables(parts)
    status = as_array(entries.column("status"))
    own = pc.equal(as_array(entries.column("snapshot_id")), snapshot_id).fill_null(False)
    kept = pc.or_(pc.not_equal(status, DELETED), own)
    becomes = pc.if_else(pc.and_(pc.equal(status, ADDED), pc.invert(own)), pa.scalar(EXISTING, pa.int32()), status)
    entries = entries.set_column(entries.schema.get_field_index("status"), "status", becomes)
    # Usually all entries stay, and filtering would copy their metrics.
    return keep_rows(entries, kept)


def parts_of_size(
    entries: pa.Table, header: ManifestHeader, target_size: int, codec: str = "deflate", level: int | None = None
) -> list[pa.Table]:
    """Split entries so that each part makes a manifest of about the target size.

    Parameters
    ----------
    entries, header, codec, level
        What `encode_manifest` takes.
    target_size
        The bytes that a manifest should have.
    """
    if len(entries) <= _SAMPLE:
        return [entries]
    sample = len(encode_manifest(entries.slice(0, _SAMPLE), header, codec, level))
    most = max(_SAMPLE, target_size * _SAMPLE // sample)
    count = -(-len(entries) // most)
    size = -(-len(entries) // count)
    return [entries.slice(first, size) for first in range(0, len(entries), size)]
