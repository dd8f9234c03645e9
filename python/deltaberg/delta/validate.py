"""All violations of the protocol that a reader can see in a snapshot and its log (``validate=True``)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.actions.member_types import check_members
from deltaberg.delta.checkpoint.read import Checkpoint
from deltaberg.delta.data.deletion_vectors import locate_vectors, unique_id
from deltaberg.delta.features import feature_violations, supports
from deltaberg.delta.log.directory import LogEntry
from deltaberg.delta.log.version_checksum import checksum_name
from deltaberg.delta.snapshot.checksums import wrong_facts
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.errors import CorruptLogError, DeltabergError, SpecViolationError
from deltaberg.files.read.bitmaps import load_bitmap
from deltaberg.files.read.task import BitmapRef
from deltaberg.lossless_json import read_json
from deltaberg.schema.arrow import as_array
from deltaberg.schema.types import Struct, fields_inside
from deltaberg.storage.location import PathResolver

__all__ = ["validate_table"]

_MOST_SHOWN = 20
#: The required fields of metaData.
_METADATA = ("id", "format", "schemaString", "partitionColumns", "configuration")


def validate_table(snapshot: Snapshot, resolver: PathResolver) -> None:
    """Check a snapshot and the log entries that it was read from.

    Raises
    ------
    SpecViolationError
        If there are violations; ``context["violations"]`` lists all of them.
    """
    violations = list(_violations(snapshot, resolver))
    if violations:
        shown = "; ".join(violations[:_MOST_SHOWN]) + ("; ..." if len(violations) > _MOST_SHOWN else "")
        error = SpecViolationError(
            f"{len(violations)} violations of the Delta protocol: {shown}",
            table=str(snapshot.log.root),
            version=snapshot.version,
        )
        error.context["violations"] = violations
        raise error


def _violations(snapshot: Snapshot, resolver: PathResolver) -> Iterator[str]:
    yield from feature_violations(snapshot.protocol)
    yield from _of_checkpoint(snapshot)
    for entry in snapshot.segment.commits:
        if entry.file.kind == "commit":
            yield from _of_commit(snapshot, entry)
    yield from _of_names(snapshot.schema)
    yield from _of_checksum(snapshot)
    yield from _of_partition_values(snapshot)
    yield from _of_vectors(snapshot, resolver)


def _of_names(schema: Struct) -> Iterator[str]:
    """Report names in one struct that differ only in case."""
    names = Counter((*path[:-1], field.name.lower()) for path, field in fields_inside(schema))
    for path, count in names.items():
        if count > 1:
            yield f"{count} columns are named {'.'.join(path)}, ignoring case"


def _of_checkpoint(snapshot: Snapshot) -> Iterator[str]:
    entries = snapshot.segment.checkpoint
    if not entries:
        return
    checkpoint = Checkpoint(snapshot.log, entries)
    version, recorded, crowded = checkpoint.version, checkpoint.recorded_version, checkpoint.crowded_rows()
    if crowded:
        yield f"the checkpoint of version {version} has {crowded} rows with more than one action"
    feature = supports(snapshot.protocol, "v2Checkpoint")
    if feature and entries[0].file.kind == "multipart":
        yield f"the checkpoint of version {version} is in parts, which the feature v2Checkpoint forbids"
    if recorded is not None and not feature:
        yield f"the checkpoint of version {version} follows V2, but the protocol does not list the feature v2Checkpoint"
    if recorded not in (None, version):
        yield f"the checkpoint of version {version} says that it is of version {recorded}"


def _of_commit(snapshot: Snapshot, entry: LogEntry) -> Iterator[str]:
    version, lines = entry.file.version, _lines(snapshot.log.read(entry))
    for number, members in lines.items():
        if len(members) != 1:
            yield f"version {version}, line {number} holds {len(members)} actions"
    actions: list[tuple[str, dict[str, Any]]] = [
        (name, fields) for members in lines.values() for name, fields in members.items() if isinstance(fields, dict)
    ]
    yield from _of_counts(version, Counter(name for name, _ in actions))
    for name, key in (("txn", "appId"), ("domainMetadata", "domain")):
        values = Counter(fields.get(key) for kind, fields in actions if kind == name)
        for value in (value for value, count in values.items() if count > 1):
            yield f"version {version} has {values[value]} {name} actions for {value!r}"
    for name in (
        name for kind, fields in actions if kind == "metaData" for name in _METADATA if fields.get(name) is None
    ):
        yield f"version {version} has a metaData action without {name}"
    for name in ("add", "remove"):
        yield from _of_file_actions(version, name, [fields for kind, fields in actions if kind == name])
    if any(fields.get("dataChange") is not False for kind, fields in actions if kind == "cdc"):
        yield f"version {version} has a cdc action whose dataChange is not false"


def _lines(data: bytes) -> dict[int, dict[str, Any]]:
    """Return the lines of a log entry that are not empty, by their numbers."""
    lines = {number: read_json(line, plain=True) for number, line in enumerate(data.split(b"\n"), 1) if line.strip()}
    for number, members in lines.items():
        for name, fields in members.items():
            if fields is not None:
                check_members(name, fields, number)
    return lines


def _of_counts(version: int, counts: Counter[str]) -> Iterator[str]:
    for name in ("protocol", "metaData"):
        if version == 0 and not counts[name]:
            yield f"version 0 has no {name} action"
        if counts[name] > 1:
            yield f"version {version} has {counts[name]} {name} actions"
    for name in ("sidecar", "checkpointMetadata"):
        if counts[name]:
            yield f"version {version} has a {name} action, which belongs in checkpoints"


def _of_file_actions(version: int, name: str, actions: list[dict[str, Any]]) -> Iterator[str]:
    for path, count in Counter(fields.get("path") for fields in actions).items():
        if count > 1:
            vectors = {unique_id(fields.get("deletionVector")) for fields in actions if fields.get("path") == path}
            how = "with different deletion vectors" if len(vectors) > 1 else "as the same logical file"
            yield f"version {version} has {count} {name} actions for {path!r}, {how}"


def _of_checksum(snapshot: Snapshot) -> Iterator[str]:
    name = checksum_name(snapshot.version)
    try:
        for fact, recorded, found in wrong_facts(snapshot):
            yield f"{name} says that {fact} is {recorded}, but the log says {found}"
    except CorruptLogError as error:
        yield error.message


def _of_partition_values(snapshot: Snapshot) -> Iterator[str]:
    names = {field.physical_name for field in snapshot.partition_fields}
    live = snapshot.live.table
    for path, values in zip(live.column("path").to_pylist(), live.column("partitionValues").to_pylist(), strict=True):
        keys = {key for key, _ in values or ()}
        if keys != names:
            yield f"{path!r} has partition values for {sorted(keys)}, but the table is partitioned by {sorted(names)}"


def _of_vectors(snapshot: Snapshot, resolver: PathResolver) -> Iterator[str]:
    has_vector = pc.is_valid(snapshot.live.table.column("deletionVector"))
    live = snapshot.live.table.filter(has_vector)
    if not len(live):
        return
    if not supports(snapshot.protocol, "deletionVectors"):
        yield "there are deletion vectors, but the protocol does not list the feature deletionVectors"
    rows = pc.indices_nonzero(has_vector).cast(pa.int64())
    counts = snapshot.live.statistics(rows, ()).record_count
    paths = live.column("path").to_pylist()
    for path, count in zip(paths, counts.to_pylist(), strict=True):
        if count is None:
            yield f"{path!r} has a deletion vector but no numRecords"
    vectors = locate_vectors(as_array(live.column("deletionVector")), resolver)
    for path, row in zip(paths, vectors.to_pylist(), strict=True):
        try:
            load_bitmap(BitmapRef(**row), snapshot.log.store, check_cardinality=True)
        except DeltabergError as error:
            yield f"the deletion vector of {path!r}: {error.message}"
