"""Computing how many distinct values columns of a snapshot have (Iceberg spec, "Table Statistics")."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from deltaberg.errors import CorruptMetadataError, DataFileNotFoundError
from deltaberg.iceberg.deletes.puffin import Blob, PuffinFile
from deltaberg.iceberg.deletes.write_puffin import write_puffin
from deltaberg.iceberg.maintain.statistics.named_file import Namer, StatsKind, StatsRequest, of_snapshot
from deltaberg.iceberg.maintain.statistics.sketches import Path, chosen_columns, estimate, sketch_columns
from deltaberg.iceberg.metadata.statistics_files import known_file
from deltaberg.iceberg.scan.source import IcebergSource
from deltaberg.iceberg.updates.updates import SetStatistics
from deltaberg.schema.columns import ColumnNames, join_name
from deltaberg.storage.base import Storage
from deltaberg.table.change.changed_rows import RowTasks
from deltaberg.table.commit.commit import CommitResult
from deltaberg.table.removal import FileKind
from deltaberg.table.rows.progress import summed

__all__ = ["TableStatsResult", "compute_table_stats"]

_KIND = StatsKind(
    "statistics",
    "compute table statistics",
    SetStatistics,
    FileKind("a file of statistics", re.compile(r".*[0-9]+-[0-9a-f-]{36}\.stats")),
)
#: The type of a blob with a sketch, and the property with the number that the sketch estimates.
_SKETCH, _NDV = "apache-datasketches-theta-v1", "ndv"
_CODEC = "zstd"
#: More distinct values than any table has rows: no number of more digits is taken from a file.
_COUNT = re.compile("[0-9]{1,19}")


@dataclass(frozen=True)
class TableStatsResult:
    """The statistics of columns of a snapshot.

    Parameters
    ----------
    snapshot_id
        The snapshot.
    path, bytes
        The file, as the metadata names it, and its size.
    ndv
        How many distinct values each of the columns has, approximately: exact up to 4,096 values, unless hashes meet.
    commit
        The commit that names the file; None where the table had one with these columns already.
    """

    snapshot_id: int
    path: str
    bytes: int
    ndv: dict[str, int]
    commit: CommitResult | None = field(default=None, compare=False)


def compute_table_stats(
    request: StatsRequest, columns: ColumnNames | None, tasks: RowTasks | None
) -> TableStatsResult | None:
    """Compute the statistics of columns, unless the table has them; None if the table has no snapshot.

    Parameters
    ----------
    request
        The snapshot.
    columns
        The names of the columns; None for all whose values have a single-value form.
    tasks
        What reads large tables; None for this machine.

    Raises
    ------
    VersionNotFoundError
        See `of_snapshot`.
    ColumnNotFoundError, InvalidArgumentError
        See `chosen_columns`.
    CommitConflictError, CommitUnknownError
        See `Namer.name`.
    """
    made_here: dict[tuple[int, int], bytes] = {}

    def compute(source: IcebergSource, namer: Namer) -> TableStatsResult:
        paths = chosen_columns(source, columns)
        number = namer.snapshot.snapshot_id
        file = known_file(source.metadata, _KIND.name, number)
        puffin = None if file is None else _opened(source, *file)
        before = () if puffin is None else puffin.blobs
        counts = {blob.fields[0]: int(blob.properties[_NDV]) for blob in before if _is_sketch_of(blob, number)}
        missing = {field_id: path for field_id, path in paths.items() if field_id not in counts}
        if file is not None and not missing:
            return TableStatsResult(number, *file, _by_name(paths, counts))
        unread = {field_id: path for field_id, path in missing.items() if (number, field_id) not in made_here}
        if unread:
            found = sketch_columns(source, unread, tasks, lambda rows: total.add(rows=rows))
            made_here.update({(number, field_id): sketch for field_id, sketch in found.items()})
        sketches = {field_id: made_here[number, field_id] for field_id in missing}
        counts |= {field_id: estimate(sketch) for field_id, sketch in sketches.items()}
        sequence = (number, namer.snapshot.sequence_number)

        def blobs() -> Iterator[tuple[Blob, bytes]]:
            for blob in before:
                is_replaced = blob.type == _SKETCH and len(blob.fields) == 1 and blob.fields[0] in missing
                if puffin is not None and not is_replaced:
                    yield blob, puffin.stored(blob)
            for field_id, sketch in sketches.items():
                facts = {_NDV: str(counts[field_id])}
                blob = Blob(_SKETCH, (field_id,), *sequence, 0, 0, _CODEC, properties=facts)
                yield blob, pa.compress(sketch, _CODEC, asbytes=True)

        name = f"{number}-{uuid.uuid4()}.stats"
        entry, made = namer.name(_KIND, name, lambda store, path: _write(store, path, blobs()))
        named = (entry["statistics-path"], entry["file-size-in-bytes"])
        return TableStatsResult(number, *named, _by_name(paths, counts), made)

    with summed(request.options.progress) as total:
        return of_snapshot(request, compute)


def _by_name(paths: Mapping[int, Path], counts: Mapping[int, int]) -> dict[str, int]:
    return {join_name([child.name for child in path]): counts[field_id] for field_id, path in paths.items()}


def _is_sketch_of(blob: Blob, snapshot_id: int) -> bool:
    is_one = blob.type == _SKETCH and len(blob.fields) == 1 and blob.snapshot_id == snapshot_id
    return is_one and _COUNT.fullmatch(blob.properties.get(_NDV, "")) is not None


def _opened(source: IcebergSource, path: str, size: int) -> PuffinFile | None:
    """Return the file that the table names; None if it is lost or damaged, so that all is computed anew."""
    try:
        puffin = PuffinFile(source.resolver.resolve(path), source.store, size)
    except (DataFileNotFoundError, CorruptMetadataError):
        return None
    # Blobs that overlap could be copied to a file of any size.
    return puffin if sum(blob.length for blob in puffin.blobs) <= size else None


def _write(store: Storage, path: str, blobs: Iterator[tuple[Blob, bytes]]) -> dict[str, Any]:
    """Write a new file, and return what its entry in the metadata says of it."""
    done = write_puffin(store, path, blobs)
    return {
        "file-size-in-bytes": done.size,
        "file-footer-size-in-bytes": done.footer_size,
        "blob-metadata": [
            {
                "type": blob.type,
                "snapshot-id": blob.snapshot_id,
                "sequence-number": blob.sequence_number,
                "fields": list(blob.fields),
                "properties": dict(blob.properties),
            }
            for blob in done.blobs
        ],
    }
