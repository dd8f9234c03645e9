"""Table metadata as JSON: which member means what in which format version (Iceberg spec, "Table Metadata Fields")."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from deltaberg.errors import CorruptMetadataError, UnsupportedFeatureError
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.metadata.snapshot_refs import MAIN, SnapshotRef, read_ref
from deltaberg.iceberg.metadata.snapshots import Snapshot, read_log_entry, read_metadata_log_entry, read_snapshot
from deltaberg.iceberg.metadata.sort_orders import SortOrder, read_sort_order
from deltaberg.iceberg.metadata.specs import PartitionSpec, read_spec, read_spec_fields
from deltaberg.iceberg.metadata.versions import NEWEST_VERSION
from deltaberg.iceberg.schema.json_members import (
    check_text,
    integer,
    members,
    objects,
    optional,
    optional_integer,
    required,
    strings,
    text,
)
from deltaberg.iceberg.schema.schema import Schema, read_schema

__all__ = ["metadata_of_json", "unsupported_version"]

_WHAT = "the table metadata"

_Listed = TypeVar("_Listed")


def metadata_of_json(document: Any, earlier: TableMetadata | None = None) -> TableMetadata:
    """Return what a JSON object says about a table.

    Parameters
    ----------
    document
        The JSON object.
    earlier
        Metadata of which some of its parts are: the very same objects are not read again. A commit to a table of many
        snapshots adds one of them.

    Raises
    ------
    CorruptMetadataError
        If it is not table metadata, or breaks a rule of its format version.
    UnsupportedFeatureError
        If its format version is not known.
    """
    raw = members(document, _WHAT)
    version = integer(raw, "format-version", _WHAT)
    if not 1 <= version <= NEWEST_VERSION:
        raise unsupported_version(version)
    try:
        return _read(raw, version, _Known(earlier, version))
    except RecursionError:
        raise CorruptMetadataError(f"{_WHAT} is nested too deeply") from None


def unsupported_version(version: int) -> UnsupportedFeatureError:
    """Return the error for a format version that is not known."""
    hint = f"this library supports versions 1 to {NEWEST_VERSION}"
    return UnsupportedFeatureError(f"unsupported format version {version}", hint=hint, feature=f"v{version}")


class _Known:
    """The parts of other metadata, by the objects that they were read from."""

    def __init__(self, metadata: TableMetadata | None, version: int) -> None:
        self._parts: dict[int, Any] = {}
        self._metadata = metadata
        if metadata is None or metadata.format_version != version:
            return
        for parts, name in (
            (metadata.schemas.values(), "schemas"),
            (metadata.snapshots.values(), "snapshots"),
            (metadata.snapshot_log, "snapshot-log"),
            (metadata.metadata_log, "metadata-log"),
        ):
            listed = metadata.raw.get(name) or ()
            if len(listed) == len(parts):
                self._parts.update(zip(map(id, listed), parts, strict=True))

    def or_read(self, part: Mapping[str, Any], read: Callable[[Mapping[str, Any]], _Listed]) -> _Listed:
        """Return the known part of an object, or read it."""
        found: _Listed | None = self._parts.get(id(part))
        return read(part) if found is None else found


def _read(raw: Mapping[str, Any], version: int, earlier: _Known) -> TableMetadata:
    need = version > 1
    snapshots, current = _snapshots(raw, version, earlier)
    schemas, schema_id = _schemas(raw, need, earlier)
    specs, spec_id = _specs(raw, need)
    orders, order_id = _sort_orders(raw, need)
    last = integer if need else optional_integer
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
        refs=_refs(raw, current),
        snapshot_log=tuple(earlier.or_read(part, read_log_entry) for part in objects(raw, "snapshot-log", _WHAT)),
        metadata_log=tuple(
            earlier.or_read(part, read_metadata_log_entry) for part in objects(raw, "metadata-log", _WHAT)
        ),
        next_row_id=optional_integer(raw, "next-row-id", _WHAT),
        statistics=tuple(objects(raw, "statistics", _WHAT)),
        partition_statistics=tuple(objects(raw, "partition-statistics", _WHAT)),
        encryption_keys=tuple(objects(raw, "encryption-keys", _WHAT)),
        raw=raw,
    )


def _snapshots(raw: Mapping[str, Any], version: int, known: _Known) -> tuple[dict[int, Snapshot], int | None]:
    def read(part: Mapping[str, Any]) -> Snapshot:
        return read_snapshot(part, version)

    listed = [known.or_read(part, read) for part in objects(raw, "snapshots", _WHAT)]
    snapshots = _by_id("snapshot-id", ((found.snapshot_id, found) for found in listed))
    current = optional(raw, "current-snapshot-id", int, _WHAT)
    current = None if current == -1 else current
    if current is not None and current not in snapshots:
        raise CorruptMetadataError(f"current-snapshot-id {current} is not among the snapshots")
    return snapshots, current


def _refs(raw: Mapping[str, Any], current: int | None) -> dict[str, SnapshotRef]:
    found = optional(raw, "refs", dict, _WHAT) or {}
    for name in found:
        check_text(name, "the name of a reference")
    refs = {name: read_ref(members(part, "a reference")) for name, part in found.items()}
    if MAIN in refs and refs[MAIN].snapshot_id != current:
        raise CorruptMetadataError("the branch main is not at current-snapshot-id")
    return refs


def _schemas(raw: Mapping[str, Any], need: bool, known: _Known) -> tuple[dict[int, Schema], int]:
    """Read the schemas; early files of version 2 have a single one, as those of version 1."""
    listed = [known.or_read(part, read_schema) for part in objects(raw, "schemas", _WHAT)]
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
        # The member that version 1 requires holds the fields only.
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
            raise CorruptMetadataError(f"the {key} {number} occurs twice in {_WHAT}", field=key)
        listed[number] = part
    return listed
