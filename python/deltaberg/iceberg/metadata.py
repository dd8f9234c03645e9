"""Table metadata: everything of a table but its files (Iceberg spec, "Table Metadata")."""

from __future__ import annotations

import gzip
import io
import json
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from deltaberg.errors import CorruptMetadataError, DeltabergError, UnsupportedFeatureError, VersionNotFoundError
from deltaberg.expressions import format_instant
from deltaberg.iceberg.json_members import (
    integer,
    members,
    objects,
    optional,
    optional_integer,
    required,
    strings,
    text,
)
from deltaberg.iceberg.name_mapping import NAME_MAPPING, read_name_mapping
from deltaberg.iceberg.schema import Schema, read_schema
from deltaberg.iceberg.snapshots import LogEntry, MetadataLogEntry, Snapshot, SnapshotRef, read_ref, read_snapshot
from deltaberg.iceberg.spec import PartitionSpec, SortOrder, read_sort_order, read_spec, read_spec_fields
from deltaberg.schema import NameMapping

__all__ = ["MAIN", "TableMetadata", "read_metadata"]

#: The branch that is read where none is named.
MAIN = "main"
#: The newest format version that is understood.
NEWEST_VERSION = 3
_GZIP_MAGIC = b"\x1f\x8b"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
#: What compressed metadata may become; a few kilobytes of it can stand for gigabytes.
_MOST_BYTES = 1 << 28
_CHUNK = 1 << 20
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_WHAT = "the table metadata"

_Listed = TypeVar("_Listed")


@dataclass(frozen=True)
class TableMetadata:
    """The metadata of a table. Times are in milliseconds since 1970.

    ``statistics``, ``partition_statistics`` and ``encryption_keys`` are kept as they are; ``raw`` is the whole JSON
    object.
    """

    format_version: int
    location: str
    last_updated_ms: int
    table_uuid: str | None
    last_column_id: int | None
    last_partition_id: int | None
    last_sequence_number: int
    schemas: Mapping[int, Schema]
    current_schema_id: int
    specs: Mapping[int, PartitionSpec]
    default_spec_id: int
    sort_orders: Mapping[int, SortOrder]
    default_sort_order_id: int
    properties: Mapping[str, str]
    snapshots: Mapping[int, Snapshot]
    current_snapshot_id: int | None
    refs: Mapping[str, SnapshotRef]
    snapshot_log: tuple[LogEntry, ...]
    metadata_log: tuple[MetadataLogEntry, ...]
    next_row_id: int | None
    statistics: tuple[Mapping[str, Any], ...]
    partition_statistics: tuple[Mapping[str, Any], ...]
    encryption_keys: tuple[Mapping[str, Any], ...]
    raw: Mapping[str, Any] = field(repr=False)

    @property
    def current_schema(self) -> Schema:
        """The schema of new rows."""
        return self.schemas[self.current_schema_id]

    @property
    def current_snapshot(self) -> Snapshot | None:
        """The snapshot of the main branch; None where the table never had one."""
        return None if self.current_snapshot_id is None else self.snapshots[self.current_snapshot_id]

    @cached_property
    def name_mapping(self) -> NameMapping | None:
        """The ids of columns in files that have none."""
        return read_name_mapping(self.properties.get(NAME_MAPPING))

    def schema_of(self, snapshot: Snapshot | None) -> Schema:
        """Give the schema that a snapshot was written with; the current one where it does not say."""
        if snapshot is None or snapshot.schema_id is None:
            return self.current_schema
        return self.schemas.get(snapshot.schema_id, self.current_schema)

    def snapshot_by_id(self, number: int) -> Snapshot:
        """Give a snapshot.

        Raises
        ------
        VersionNotFoundError
            Where the table does not hold it.
        """
        found = self.snapshots.get(number)
        if found is None:
            shown = ", ".join(map(str, sorted(self.snapshots, key=lambda key: self.snapshots[key].timestamp_ms)[-10:]))
            raise VersionNotFoundError(
                f"there is no snapshot {number}: it was expired, or never was",
                hint=f"the newest snapshots are {shown}" if shown else "the table has no snapshot",
            )
        return found

    def snapshot_of_ref(self, name: str) -> Snapshot | None:
        """Give the snapshot of a branch or a tag; None for the main branch of a table without snapshots."""
        found = self.refs.get(name)
        if found is None:
            if name == MAIN:
                return self.current_snapshot
            raise VersionNotFoundError(
                f"there is no branch or tag {name!r}", hint=f"there are {', '.join(sorted({MAIN, *self.refs}))}"
            )
        return self.snapshot_by_id(found.snapshot_id)

    def snapshot_as_of(self, millis: int) -> Snapshot:
        """Give the snapshot that was current at a time.

        Raises
        ------
        VersionNotFoundError
            Where the log of snapshots begins after it.
        """
        entry = None
        for candidate in self.snapshot_log:
            if candidate.timestamp_ms <= millis:
                entry = candidate
        if entry is None:
            hint = "the table has no snapshot log"
            if self.snapshot_log:
                times = [candidate.timestamp_ms for candidate in self.snapshot_log]
                hint = f"its snapshot log reaches from {format_instant(min(times))} to {format_instant(max(times))}"
            raise VersionNotFoundError(f"no snapshot was current at {format_instant(millis)}", hint=hint)
        return self.snapshot_by_id(entry.snapshot_id)

    def ancestors(self, snapshot: Snapshot) -> Iterator[Snapshot]:
        """Give a snapshot, its parent, and so on, as far as they are still recorded."""
        seen: set[int] = set()
        found: Snapshot | None = snapshot
        while found is not None and found.snapshot_id not in seen:
            yield found
            seen.add(found.snapshot_id)
            parent = found.parent_snapshot_id
            found = None if parent is None else self.snapshots.get(parent)


def read_metadata(data: bytes) -> TableMetadata:
    """Read a metadata file, plain or compressed by gzip.

    Raises
    ------
    CorruptMetadataError
        Where it is not one, or breaks a rule of its format version.
    UnsupportedFeatureError
        Where its format version is not known.
    """
    raw = members(_parsed(data), _WHAT)
    version = integer(raw, "format-version", _WHAT)
    if version > NEWEST_VERSION or version < 1:
        raise UnsupportedFeatureError(
            f"unsupported format version {version}", hint=f"1 to {NEWEST_VERSION} are known", feature=f"v{version}"
        )
    try:
        return _read(raw, version)
    except RecursionError:
        raise CorruptMetadataError(f"{_WHAT} is nested too deeply") from None


def _parsed(data: bytes) -> Any:
    try:
        text = _plain(data).decode("utf-8-sig")
        found = json.loads(text)
        if _SURROGATE.search(text):
            # Half a character has no UTF-8, which Arrow and paths need.
            json.dumps(found, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        if isinstance(error, DeltabergError):
            raise
        raise CorruptMetadataError(f"{_WHAT} is no JSON: {error}") from None
    return found


def _plain(data: bytes) -> bytes:
    if data.startswith(_GZIP_MAGIC):
        plain = io.BytesIO()
        try:
            with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
                while plain.tell() <= _MOST_BYTES and (part := stream.read(_CHUNK)):
                    plain.write(part)
        except (EOFError, OSError, zlib.error) as error:
            raise CorruptMetadataError(f"{_WHAT} cannot be decompressed: {error}") from None
        if plain.tell() > _MOST_BYTES:
            raise CorruptMetadataError(f"{_WHAT} has more than {_MOST_BYTES >> 20} MiB when decompressed")
        return plain.getvalue()
    if data.startswith(_ZSTD_MAGIC):
        raise UnsupportedFeatureError(
            f"{_WHAT} is compressed by zstd", hint="the format knows plain and gzip", feature="zstd"
        )
    return data


def _read(raw: Mapping[str, Any], version: int) -> TableMetadata:
    need = version > 1
    listed = [read_snapshot(part, version) for part in objects(raw, "snapshots", _WHAT)]
    snapshots = _by_id("snapshot-id", ((found.snapshot_id, found) for found in listed))
    current = optional(raw, "current-snapshot-id", int, _WHAT)
    current = None if current == -1 else current
    if current is not None and current not in snapshots:
        raise CorruptMetadataError(f"current-snapshot-id {current} is not among the snapshots")
    schemas, schema_id = _schemas(raw, need)
    specs, spec_id = _specs(raw, need)
    orders, order_id = _sort_orders(raw, need)
    last = integer if need else optional_integer
    refs = {
        name: read_ref(members(part, "a reference"))
        for name, part in (optional(raw, "refs", dict, _WHAT) or {}).items()
    }
    if MAIN in refs and refs[MAIN].snapshot_id != current:
        raise CorruptMetadataError("the branch main is not at current-snapshot-id")
    if current is not None:
        # It is there even where no reference is recorded.
        refs.setdefault(MAIN, SnapshotRef(current, "branch"))
    log = objects(raw, "snapshot-log", _WHAT)
    old = objects(raw, "metadata-log", _WHAT)
    return TableMetadata(
        format_version=version,
        location=text(raw, "location", _WHAT),
        last_updated_ms=integer(raw, "last-updated-ms", _WHAT),
        table_uuid=text(raw, "table-uuid", _WHAT) if need else optional(raw, "table-uuid", str, _WHAT),
        last_column_id=last(raw, "last-column-id", _WHAT),
        last_partition_id=last(raw, "last-partition-id", _WHAT),
        last_sequence_number=integer(raw, "last-sequence-number", _WHAT) if need else 0,
        schemas=schemas,
        current_schema_id=schema_id,
        specs=specs,
        default_spec_id=spec_id,
        sort_orders=orders,
        default_sort_order_id=order_id,
        properties=strings(raw, "properties", _WHAT),
        snapshots=snapshots,
        current_snapshot_id=current,
        refs=refs,
        snapshot_log=tuple(
            LogEntry(integer(e, "timestamp-ms", "a log"), integer(e, "snapshot-id", "a log")) for e in log
        ),
        metadata_log=tuple(
            MetadataLogEntry(integer(e, "timestamp-ms", "a log"), text(e, "metadata-file", "a log")) for e in old
        ),
        next_row_id=optional_integer(raw, "next-row-id", _WHAT),
        statistics=tuple(objects(raw, "statistics", _WHAT)),
        partition_statistics=tuple(objects(raw, "partition-statistics", _WHAT)),
        encryption_keys=tuple(objects(raw, "encryption-keys", _WHAT)),
        raw=raw,
    )


def _schemas(raw: Mapping[str, Any], need: bool) -> tuple[dict[int, Schema], int]:
    """Read the schemas; early files of version 2 have one only, as version 1."""
    listed = [read_schema(part) for part in objects(raw, "schemas", _WHAT)]
    if not listed:
        if need and raw.get("schema") is None:
            required(raw, "schemas", list, _WHAT)
        only = read_schema(required(raw, "schema", dict, _WHAT))
        return {only.schema_id: only}, only.schema_id
    schemas = _by_id("schema-id", ((found.schema_id, found) for found in listed))
    if not need and raw.get("current-schema-id") is None:
        only = read_schema(required(raw, "schema", dict, _WHAT))
        return {**schemas, only.schema_id: only}, only.schema_id
    current = integer(raw, "current-schema-id", _WHAT)
    if current not in schemas:
        raise CorruptMetadataError(f"current-schema-id {current} is not among the schemas")
    return schemas, current


def _specs(raw: Mapping[str, Any], need: bool) -> tuple[dict[int, PartitionSpec], int]:
    if raw.get("partition-specs") is None and not need:
        # What version 1 requires holds the fields alone.
        required(raw, "partition-spec", list, _WHAT)
        return {0: PartitionSpec(0, read_spec_fields(objects(raw, "partition-spec", _WHAT)))}, 0
    required(raw, "partition-specs", list, _WHAT)
    listed = [read_spec(part) for part in objects(raw, "partition-specs", _WHAT)]
    specs = _by_id("spec-id", ((found.spec_id, found) for found in listed))
    default = optional(raw, "default-spec-id", int, _WHAT)
    if default is None and need:
        default = integer(raw, "default-spec-id", _WHAT)
    default = max(specs, default=0) if default is None else default
    if default not in specs:
        raise CorruptMetadataError(f"default-spec-id {default} is not among the partition specs")
    return specs, default


def _sort_orders(raw: Mapping[str, Any], need: bool) -> tuple[dict[int, SortOrder], int]:
    if need:
        required(raw, "sort-orders", list, _WHAT)
        integer(raw, "default-sort-order-id", _WHAT)
    listed = [read_sort_order(part) for part in objects(raw, "sort-orders", _WHAT)]
    orders = _by_id("order-id", ((found.order_id, found) for found in listed))
    return orders or {0: SortOrder(0)}, optional(raw, "default-sort-order-id", int, _WHAT) or 0


def _by_id(key: str, found: Iterable[tuple[int, _Listed]]) -> dict[int, _Listed]:
    listed: dict[int, _Listed] = {}
    for number, part in found:
        if number in listed:
            raise CorruptMetadataError(f"the {key} {number} stands twice in {_WHAT}", field=key)
        listed[number] = part
    return listed
