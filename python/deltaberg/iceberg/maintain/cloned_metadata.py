"""The metadata of a clone: it keeps all numbers of its source, and nothing of its history or of its places."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Any

from deltaberg.errors import InvalidArgumentError, SchemaError
from deltaberg.iceberg.alter.new_partitioning import new_partitioning
from deltaberg.iceberg.create.settings import check_new_settings
from deltaberg.iceberg.location.new_files import LOCATION_PROPERTIES
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.metadata.metadata_json import metadata_of_json
from deltaberg.iceberg.metadata.retention import COLLECTED
from deltaberg.iceberg.metadata.sort_orders import SortField, SortOrder
from deltaberg.iceberg.metadata.specs import PartitionField
from deltaberg.iceberg.metadata.versions import ROW_LINEAGE, check_order, check_spec
from deltaberg.iceberg.partition.structs import field_by_id
from deltaberg.iceberg.partition.transforms import parse_transform
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.updates.new_table import check_properties, given_properties
from deltaberg.iceberg.updates.updates import (
    AddSortOrder,
    AddSpec,
    RemovePartitionSpecs,
    SetCurrentSchema,
    SetDefaultSortOrder,
    SetDefaultSpec,
    Update,
    apply_updates,
)

__all__ = ["cloned_metadata"]

#: What is about snapshots, all of which stay with the source.
_OF_SNAPSHOTS: dict[str, list[Any]] = {
    name: [] for name in ("snapshots", "snapshot-log", "metadata-log", "statistics", "partition-statistics")
}


def cloned_metadata(
    source: TableMetadata,
    schema_id: int,
    spec_ids: Collection[int],
    location: str,
    properties: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """Return the metadata of a clone before its first snapshot, as JSON.

    Schemas, specs, sort orders and their ids are those of the source, since its files go by them. The numbers of
    snapshots and the ids of rows go on behind those that the source has given: then files keep theirs. A partitioning
    and a sort order that are newer than the schema give way to older ones that it fits.

    Parameters
    ----------
    schema_id
        The schema of the state that is cloned.
    spec_ids
        The partition specs of its files.
    location
        Where the clone is.
    properties
        Properties of the clone, in addition to those of the source.

    Raises
    ------
    InvalidArgumentError
        A property cannot be given to a clone, or has no valid value.
    UnsupportedFeatureError
        The files of the source are encrypted, or a Java class chooses their places.
    """
    version, settings = given_properties({"format-version": source.format_version, **(properties or {})})
    if version != source.format_version:
        raise InvalidArgumentError(
            f"the format version is about files, and a clone has those of its source: {source.format_version}",
            hint="leave it out, and upgrade the clone by ⟪alter()⟫",
        )
    check_properties(settings)
    # A source may share its files with another table, and a clone has its own.
    left = {*LOCATION_PROPERTIES, COLLECTED}
    kept = {name: value for name, value in source.properties.items() if name not in left}
    now_ms = time.time_ns() // 1_000_000
    raw = {
        **source.raw,
        **_OF_SNAPSHOTS,
        "table-uuid": str(uuid.uuid4()),
        "location": location.rstrip("/") or location,
        "last-updated-ms": now_ms,
        "properties": {**kept, **settings},
        "refs": {},
        # Readers of the first two versions expect a number.
        "current-snapshot-id": None if version >= ROW_LINEAGE else -1,
    }
    metadata = metadata_of_json(raw)
    if schema_id != metadata.current_schema_id:
        metadata = apply_updates(metadata, [SetCurrentSchema(schema_id)], now_ms=now_ms)
        metadata = apply_updates(metadata, _fitting_layout(metadata, spec_ids), now_ms=now_ms)
    check_new_settings(metadata)
    return dict(metadata.raw)


def _fitting_layout(metadata: TableMetadata, spec_ids: Collection[int]) -> list[Update]:
    """Return the changes after which new files are partitioned and sorted by columns that the current schema has.

    Specs of no file go if they do not fit it: a name in any of them can keep other engines from the table.
    """
    columns, updates = metadata.current_schema, list[Update]()
    specs, orders = metadata.specs, metadata.sort_orders
    # The ids that version 1 demands are no matter of the schema.
    bad_specs = {
        number for number, one in specs.items() if not _fits(one.fields, columns, partial(check_spec, one, version=2))
    }
    bad_orders = {number for number, one in orders.items() if not _fits(one.fields, columns, partial(check_order, one))}
    if metadata.default_spec_id in bad_specs:
        good = specs.keys() - bad_specs
        updates += [SetDefaultSpec(max(good))] if good else [AddSpec(new_partitioning(metadata, ())), SetDefaultSpec()]
    if gone := bad_specs.difference(spec_ids):
        updates.append(RemovePartitionSpecs(tuple(sorted(gone))))
    if metadata.default_sort_order_id in bad_orders:
        good = orders.keys() - bad_orders
        updates += [SetDefaultSortOrder(max(good))] if good else [AddSortOrder(SortOrder(0)), SetDefaultSortOrder()]
    return updates


def _fits(parts: Iterable[PartitionField | SortField], columns: Schema, check: Callable[[Schema], object]) -> bool:
    """Return whether a partition spec or a sort order fits a schema, also the types that its transforms take."""
    try:
        check(columns)
        for part in parts:
            source = field_by_id([columns.struct], part.source_ids[0])
            # Only that of a void field may be gone.
            if source is not None:
                parse_transform(part.transform).result_type(source.type)
    except SchemaError:
        return False
    return True
