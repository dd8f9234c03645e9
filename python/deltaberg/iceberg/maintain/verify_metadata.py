"""Contradictions in the metadata and manifests of an Iceberg table, found without a look at any data file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import starmap
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.iceberg.location.loaded import LoadedTable
from deltaberg.iceberg.manifests.fields import DELETED
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.metadata.snapshots import Snapshot
from deltaberg.iceberg.metadata.statistics_files import STATISTICS_MEMBERS, statistics_files
from deltaberg.iceberg.validate import count_violations, metadata_violations
from deltaberg.schema.arrow import as_array
from deltaberg.table.maintain.verifying.findings import DANGLING, VIOLATION, Finding

__all__ = ["NamedFile", "dangling_refs", "findings_in_metadata", "lineage_findings", "manifest_findings", "named_files"]

METADATA_FILE = "metadata file"


class NamedFile(NamedTuple):
    """A file that metadata or a manifest list names: what it is, its recorded path, its size, and what names it."""

    what: str
    recorded: str
    size: int | None
    named_by: str


def dangling_refs(metadata: TableMetadata) -> list[str]:
    """Return the branches and tags whose snapshot the table does not have."""
    return sorted(name for name, ref in metadata.refs.items() if ref.snapshot_id not in metadata.snapshots)


def findings_in_metadata(loaded: LoadedTable) -> Iterator[Finding]:
    """Yield what is wrong in a metadata file, and what it names that it does not have."""
    metadata, path = loaded.metadata, str(loaded.file)

    def finding(kind: str, text: str) -> Finding:
        return Finding(kind, METADATA_FILE, path, "the table", None, text)

    dangling = dangling_refs(metadata)
    for text in metadata_violations(metadata):
        # Such a name is no more than dangling: what has a snapshot can be read.
        if not any(text.startswith(f"the reference {name} names the snapshot ") for name in dangling):
            yield finding(VIOLATION, text)
    for name in dangling:
        ref = metadata.refs[name]
        yield finding(DANGLING, f"the {ref.type} {name} names the snapshot {ref.snapshot_id}, which is not there")
    for number in sorted({one.snapshot_id for one in metadata.snapshot_log} - metadata.snapshots.keys()):
        yield finding(DANGLING, f"snapshot-log names the snapshot {number}, which is not there")
    yield from starmap(finding, _in_statistics(metadata))
    yield from (finding(VIOLATION, text) for text in _id_violations(metadata))


def _in_statistics(metadata: TableMetadata) -> Iterator[tuple[str, str]]:
    """Yield what is wrong in entries of statistics: the kind of the finding, and what it says."""
    for kind, files in statistics_files(metadata).items():
        for one in files:
            for name, value in zip(STATISTICS_MEMBERS, one, strict=True):
                if value is None:
                    yield VIOLATION, f"an entry of {kind} has no {name}, or one of a wrong type"
            if one.snapshot_id is not None and one.snapshot_id not in metadata.snapshots:
                yield DANGLING, f"{kind} are of the snapshot {one.snapshot_id}, which is not there"


def _id_violations(metadata: TableMetadata) -> Iterator[str]:
    """Yield last ids that are not the last ones."""
    highest = max((field.field_id or 0 for spec in metadata.specs.values() for field in spec.fields), default=0)
    if metadata.last_partition_id is not None and metadata.last_partition_id < highest:
        yield f"last-partition-id is {metadata.last_partition_id}, but a partition field has the id {highest}"
    if metadata.next_row_id is None:
        return
    ends = ((one.first_row_id or 0) + (one.added_rows or 0) for one in metadata.snapshots.values())
    if (end := max(ends, default=0)) > metadata.next_row_id:
        yield f"next-row-id is {metadata.next_row_id}, but a snapshot has row ids up to {end - 1}"


def named_files(metadata: TableMetadata) -> Iterator[NamedFile]:
    """Yield the files that table metadata names."""
    for entry in metadata.metadata_log:
        yield NamedFile(METADATA_FILE, entry.metadata_file, None, "metadata-log")
    for one in metadata.snapshots.values():
        if one.manifest_list is not None:
            yield NamedFile("manifest list", one.manifest_list, None, f"snapshot {one.snapshot_id}")
    for kind, files in statistics_files(metadata).items():
        for file in files:
            if file.path is not None:
                named_by = "the table" if file.snapshot_id is None else f"snapshot {file.snapshot_id}"
                yield NamedFile(f"{kind} file", file.path, file.size, named_by)


def manifest_findings(row: Mapping[str, Any], entries: pa.Table, snapshot: Snapshot, path: str) -> Iterator[Finding]:
    """Yield the findings where a manifest list and a manifest disagree, or where one of them breaks the specification.

    Parameters
    ----------
    row
        The manifest in the list.
    entries
        Its entries, those of removed files as well.
    path
        Where it is.
    """
    named_by = f"snapshot {snapshot.snapshot_id}"
    texts = [*count_violations(row, entries)]
    if row["sequence_number"] is not None and row["sequence_number"] > snapshot.sequence_number:
        texts.append(
            f"its sequence number {row['sequence_number']} is above {snapshot.sequence_number} of the snapshot"
        )
    numbers = as_array(entries.column("sequence_number"))
    # Deleted entries keep the number of the file that is gone.
    live = numbers.filter(as_array(pc.not_equal(entries.column("status"), DELETED)))
    least, most = (found.as_py() for found in pc.min_max(live).values())
    if most is not None and row["sequence_number"] is not None and most > row["sequence_number"]:
        texts.append(f"an entry has the sequence number {most}, above {row['sequence_number']} of the manifest")
    if least is not None and row["min_sequence_number"] is not None and least < row["min_sequence_number"]:
        texts.append(
            f"an entry has the sequence number {least}, below min_sequence_number {row['min_sequence_number']}"
        )
    yield from (Finding(VIOLATION, "manifest", path, named_by, None, text) for text in texts)


def lineage_findings(files: pa.Table, metadata: TableMetadata, named_by: str) -> Iterator[Finding]:
    """Yield row ids that two data files have, or that are not given yet.

    Parameters
    ----------
    files
        The data files, with the columns ``location``, ``first_row_id`` and ``rows``.
    named_by
        What names them.
    """
    numbered = files.filter(as_array(files.column("first_row_id")).is_valid()).sort_by("first_row_id")
    first, rows = (as_array(numbered.column(name)) for name in ("first_row_id", "rows"))
    ends = pc.add(first, rows)
    bad = pc.indices_nonzero(pc.greater(ends.slice(0, max(len(ends) - 1, 0)), first.slice(1))).to_pylist()
    if metadata.next_row_id is not None:
        bad += pc.indices_nonzero(pc.greater(ends, metadata.next_row_id)).to_pylist()
    for number in bad:
        end, path = ends[number].as_py(), numbered.column("location")[number].as_py()
        given = f"its row ids end at {end - 1}"
        is_last = metadata.next_row_id is not None and end > metadata.next_row_id
        why = f"next-row-id is {metadata.next_row_id}" if is_last else "another data file has some of them"
        yield Finding(VIOLATION, "data file", path, named_by, None, f"{given}, but {why}")
