"""The output of commands about Iceberg tables."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from deltaberg.cli.show.describe import shown_columns, type_name
from deltaberg.whole_numbers import counted

if TYPE_CHECKING:
    from deltaberg import IcebergTable
    from deltaberg.iceberg.metadata.specs import PartitionSpec
    from deltaberg.iceberg.scan.source import IcebergSource

__all__ = ["SHOWN_HISTORY", "iceberg_facts", "iceberg_history", "partition_sources", "shown_iceberg_facts"]

#: The columns of the history that are shown as text.
SHOWN_HISTORY = ("snapshot_id", "timestamp", "operation", "parent_id", "refs")
_CONTENTS = {0: "data", 1: "position_deletes", 2: "equality_deletes"}


def iceberg_facts(table: IcebergTable) -> dict[str, Any]:
    """Return the facts about a table in a form for programs."""
    from deltaberg import kernels
    from deltaberg.iceberg.inspect.partitions import content_sums
    from deltaberg.table.read.scan import bound_scan

    metadata, snapshot, report = table.metadata, table.snapshot, kernels.report()
    source = cast("IcebergSource", bound_scan(table.scan()).source)
    found = {row.pop("content"): row for row in content_sums(source).to_pylist()}
    sums = {name: found.get(content, {"files": 0, "rows": 0, "bytes": 0}) for content, name in _CONTENTS.items()}
    return {
        "location": table.location,
        "format": "iceberg",
        "format_version": table.format_version,
        "table_uuid": metadata.table_uuid,
        "metadata_location": table.metadata_location,
        "recorded_location": metadata.location,
        "snapshot_id": table.snapshot_id,
        "timestamp": None if snapshot is None else _time(snapshot.timestamp_ms),
        "operation": None if snapshot is None else snapshot.operation,
        "snapshots": len(table.snapshots),
        "refs": {name: {"type": ref.type, "snapshot_id": ref.snapshot_id} for name, ref in table.refs.items()},
        "columns": [{"name": field.name, "type": type_name(field.type)} for field in table.schema],
        "partition_fields": _fields(table, table.spec),
        "partition_specs": len(metadata.specs),
        "properties": dict(sorted(table.properties.items())),
        **sums,
        "manifests": len(table.inspect("manifests")),
        "kernels": {"backend": report.backend, "reason": report.reason},
    }


def _time(millis: int) -> str:
    return (dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(milliseconds=millis)).isoformat(
        timespec="milliseconds"
    )


def _fields(table: IcebergTable, spec: PartitionSpec) -> list[dict[str, str]]:
    names = {field.id: field.name for field in table.schema}
    return [
        {
            "name": part.name,
            "transform": part.transform,
            "source": ", ".join(names.get(number, f"column {number}") for number in part.source_ids),
        }
        for part in spec.fields
    ]


def partition_sources(table: IcebergTable) -> set[str]:
    """Return the names of the columns that new files are partitioned by."""
    return {part["source"] for part in _fields(table, table.spec)}


def shown_iceberg_facts(facts: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Iterate over the facts as labels and text for people."""
    yield "table", facts["location"]
    yield "format", f"{facts['format']}, version {facts['format_version']}"
    yield "uuid", facts["table_uuid"]
    yield "metadata", facts["metadata_location"]
    if facts["recorded_location"].rstrip("/") != facts["location"]:
        yield "recorded at", facts["recorded_location"]
    if facts["snapshot_id"] is None:
        yield "snapshot", "none"
    else:
        yield "snapshot", f"{facts['snapshot_id']}, {facts['operation']}, committed {facts['timestamp']}"
    yield "snapshots", facts["snapshots"]
    refs = [f"{name} ({ref['type']})" for name, ref in facts["refs"].items()]
    yield "branches and tags", ", ".join(refs) or "none"
    yield "columns", shown_columns(facts["columns"])
    fields = [f"{part['transform']}({part['source']})" for part in facts["partition_fields"]]
    yield "partitioned by", ", ".join(fields) or "no column"
    for name in _CONTENTS.values():
        found = facts[name]
        yield name.replace("_", " "), ", ".join(counted(found[f"{unit}s"], unit) for unit in ("file", "row", "byte"))
    yield "manifests", facts["manifests"]
    yield from ((f"property {name}", value) for name, value in facts["properties"].items())
    yield "kernels", f"{facts['kernels']['backend']}: {facts['kernels']['reason']}"


def iceberg_history(table: IcebergTable, limit: int | None) -> list[dict[str, Any]]:
    """Return the snapshots of a table, newest first."""
    rows = []
    for snapshot in table.snapshots[::-1][:limit]:
        refs = [name for name, ref in table.refs.items() if ref.snapshot_id == snapshot.snapshot_id]
        rows.append(
            {
                "snapshot_id": snapshot.snapshot_id,
                "timestamp": _time(snapshot.timestamp_ms),
                "operation": snapshot.operation,
                "parent_id": snapshot.parent_snapshot_id,
                "refs": ", ".join(refs) or None,
                "summary": dict(snapshot.summary),
            }
        )
    return rows
