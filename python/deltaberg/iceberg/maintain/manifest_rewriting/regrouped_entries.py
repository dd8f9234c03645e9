"""The entries of manifests, sorted by partition, in new manifests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from deltaberg.errors import ConcurrentDeleteReadError, CorruptMetadataError
from deltaberg.iceberg.maintain.manifest_rewriting.manifest_plan import ManifestGroup
from deltaberg.iceberg.manifests.entries import entry_columns
from deltaberg.iceberg.manifests.fields import WHOLE_ENTRIES
from deltaberg.iceberg.manifests.merge import merged_entries
from deltaberg.iceberg.manifests.write_manifest import ManifestHeader
from deltaberg.iceberg.partition.structs import partition_struct
from deltaberg.iceberg.scan.source import IcebergSource
from deltaberg.iceberg.transaction.conflict import conflict
from deltaberg.iceberg.transaction.pending import ManifestRow, Regrouped, WriteManifest
from deltaberg.table.rows.progress import Told
from deltaberg.table.sort.external_sort import sort_batches
from deltaberg.table.sort.order import OrderTerm

__all__ = ["RegroupedManifests"]

#: Bytes of manifests and entries that are decoded at a time: a few bytes can stand for many entries.
_DECODED, _DECODED_ENTRIES = 8 << 20, 50_000
#: Bytes of entries in memory while they are sorted.
_SORTED = 128 << 20
#: Entries of a batch, which is small beside that memory whatever metrics they have.
_BATCH = 1000
_LIVE = ("added", "existing")


class RegroupedManifests:
    """Puts the entries of groups of manifests into new ones, once for all attempts of a commit.

    Entries are written anew if the version of the format has changed meanwhile, or the ids that the list gives to rows:
    entries hold both. All other manifests stay, those that others have added meanwhile, too.

    Parameters
    ----------
    groups
        What is rewritten.
    snapshot_id
        The snapshot that is made.
    told
        What is told how many manifests are read.
    """

    def __init__(self, groups: Sequence[ManifestGroup], snapshot_id: int, told: Told) -> None:
        self._groups = groups
        self._snapshot_id = snapshot_id
        self._told = told
        self._written: list[list[ManifestRow]] = []
        self._written_of: object = None
        #: How many manifests took the place of others in the last attempt.
        self.added = 0

    def regroup(self, source: IcebergSource, rows: Sequence[ManifestRow], write: WriteManifest) -> Regrouped:
        """Return the manifests of a snapshot after the rewrite.

        Raises
        ------
        ConcurrentDeleteReadError
            One of the manifests is not in the snapshot any more.
        CorruptMetadataError
            The manifests do not hold as many files and rows as the list says. Nothing is committed.
        """
        listed = {row["manifest_path"]: row for row in rows}
        gone = [
            row["manifest_path"] for group in self._groups for row in group.rows if row["manifest_path"] not in listed
        ]
        if gone:
            what = f"another commit replaced {len(gone)} manifests that are to be rewritten"
            raise conflict(ConcurrentDeleteReadError, what, gone[0])
        inputs = [[listed[row["manifest_path"]] for row in group.rows] for group in self._groups]
        made_of = source.metadata.format_version, [[row["first_row_id"] for row in group] for group in inputs]
        if made_of != self._written_of:
            self._written = [
                list(_write_group(source, group, own, self._snapshot_id, write, self._told))
                for group, own in zip(self._groups, inputs, strict=True)
            ]
            self._written_of = made_of
        # New manifests stand where the newest of theirs stood.
        places: dict[str, Sequence[ManifestRow]] = {}
        for own, manifests in zip(inputs, self._written, strict=True):
            places |= {row["manifest_path"]: manifests if row is own[0] else () for row in own}
        replaced, self.added = len(places), sum(map(len, self._written))
        summary = {
            "manifests-created": str(self.added),
            "manifests-kept": str(len(rows) - replaced),
            "manifests-replaced": str(replaced),
            "entries-processed": str(sum(_live_files(manifests) for manifests in self._written)),
        }
        return Regrouped([one for row in rows for one in places.get(row["manifest_path"], (row,))], summary)


def _write_group(
    source: IcebergSource,
    group: ManifestGroup,
    rows: Sequence[ManifestRow],
    snapshot_id: int,
    write: WriteManifest,
    told: Told,
) -> Iterator[ManifestRow]:
    """Write the manifests of a group, and yield their rows; memory does not depend on how many entries there are."""
    spec = source.reader.spec_of(rows[0]["partition_spec_id"])
    partition = partition_struct(spec, source.reader.schemas)
    header = ManifestHeader.of(source.metadata, spec, partition, rows[0]["content"])
    most = -(-group.entries // group.count)
    tally = _Found()
    manifests: list[ManifestRow] = []
    for entries in _divided(_sorted(tally.counted(_live_entries(source, rows, snapshot_id, told))), most):
        manifests.append(write(header, entries))
        yield manifests[-1]
    _check(tally, rows, manifests)


class _Found:
    """How many files and rows were read."""

    def __init__(self) -> None:
        self.files = 0
        self.rows = 0

    def counted(self, tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """Count entries as they pass."""
        for table in tables:
            self.files += len(table)
            self.rows += pc.sum(table.column("record_count")).as_py() or 0
            yield table


def _live_entries(
    source: IcebergSource, rows: Sequence[ManifestRow], snapshot_id: int, told: Told
) -> Iterator[pa.Table]:
    """Yield the live entries of manifests as the new snapshot holds them, some manifests at a time."""
    for part in _parts(rows):
        (found,) = source.reader.read([{**row, "number": at} for at, row in enumerate(part)], WHOLE_ENTRIES)
        told(len(part))
        yield merged_entries([found.table.select(entry_columns(found.partition).names)], snapshot_id)


def _parts(rows: Sequence[ManifestRow]) -> Iterator[list[ManifestRow]]:
    part: list[ManifestRow] = []
    size = count = 0
    for row in rows:
        entries = sum(row[f"{state}_files_count"] or 0 for state in (*_LIVE, "deleted"))
        if part and (size + row["manifest_length"] > _DECODED or count + entries > _DECODED_ENTRIES):
            yield part
            part, size, count = [], 0, 0
        part.append(row)
        size, count = size + row["manifest_length"], count + entries
    yield part


def _sorted(tables: Iterator[pa.Table]) -> Iterator[pa.RecordBatch]:
    """Yield entries in the order of their partitions; those of one partition stay in their order."""
    first = next(tables)
    batches = (batch for table in _with(first, tables) for batch in table.to_batches(_BATCH))
    values = first.schema.field("partition").type
    terms = [OrderTerm(("partition", child.name)) for child in values if not pt.is_null(child.type)]
    if not terms:
        return batches
    return sort_batches(batches, first.schema, terms, memory=_SORTED)


def _with(first: pa.Table, others: Iterator[pa.Table]) -> Iterator[pa.Table]:
    yield first
    yield from others


def _divided(batches: Iterator[pa.RecordBatch], most: int) -> Iterator[pa.Table]:
    """Yield tables of so many entries each; the last one has what is left."""
    held: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        rest = batch
        while count + rest.num_rows >= most:
            held.append(rest.slice(0, most - count))
            rest = rest.slice(most - count)
            yield pa.Table.from_batches(held)
            held, count = [], 0
        if rest.num_rows:
            held.append(rest)
            count += rest.num_rows
    if held:
        yield pa.Table.from_batches(held)


def _live_files(rows: Sequence[ManifestRow]) -> int:
    return sum(row[f"{state}_files_count"] for row in rows for state in _LIVE)


def _check(found: _Found, rows: Sequence[ManifestRow], made: Sequence[ManifestRow]) -> None:
    """Refuse a rewrite after which there are other files or rows than before."""
    for what, read in (("files", found.files), ("rows", found.rows)):
        names = [f"{state}_{what}_count" for state in _LIVE]
        written = sum(row[name] for row in made for name in names)
        listed = [row[name] for row in rows for name in names]
        expected = read if None in listed else sum(listed)
        if not written == read == expected:
            raise CorruptMetadataError(
                f"manifests hold {read} live {what}, of which the manifest list counts {expected}, and {written} were "
                "written; nothing was committed",
                hint="read the table with ⟪validate=True⟫",
            )
