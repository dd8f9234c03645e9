"""Commands about a table as a whole: inspect, schema, history."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from deltaberg.cli.options import table_command
from deltaberg.cli.output import print_facts, print_json, print_table, progress
from deltaberg.errors import VersionNotFoundError

if TYPE_CHECKING:
    from deltaberg import DeltaTable
    from deltaberg.schema import DataType, Field, Struct

__all__ = ["history", "inspect", "schema"]

_SHOWN_COLUMNS = 12


@table_command
def inspect(table: DeltaTable, as_json: bool) -> None:
    """Show what a table is, and how it is stored."""
    with progress("reading the log"):
        facts = _facts(table)
    if as_json:
        print_json(facts)
    else:
        print_facts(_shown_facts(facts))


def _facts(table: DeltaTable) -> dict[str, Any]:
    import pyarrow.compute as pc

    from deltaberg import kernels

    live, plan = table.live_files, table.scan().plan
    counts = plan.live_counts
    protocol, report, checkpoint = table.protocol, kernels.report(), table.checkpoint
    return {
        "location": table.location,
        "format": "delta",
        "version": table.version,
        "timestamp": _timestamp(table),
        "id": table.metadata.id,
        "name": table.metadata.name,
        "description": table.metadata.description,
        "protocol": {
            "minReaderVersion": protocol.min_reader_version,
            "minWriterVersion": protocol.min_writer_version,
            "readerFeatures": None if protocol.reader_features is None else list(protocol.reader_features),
            "writerFeatures": None if protocol.writer_features is None else list(protocol.writer_features),
        },
        "features": sorted(table.features),
        "active_features": sorted(table.active_features),
        "columns": [{"name": field.name, "type": _type_name(field.type)} for field in table.schema],
        "partition_columns": table.partition_columns,
        "clustering_columns": [list(path) for path in table.clustering_columns],
        "properties": dict(sorted(table.properties.items())),
        "files": len(live),
        "bytes": pc.sum(live["size"]).as_py() or 0,
        "rows": None if counts.null_count else pc.sum(counts).as_py() or 0,
        "deletion_vectors": len(live) - live["deletionVector"].null_count,
        "deleted_rows": pc.sum(plan.deleted_counts).as_py() or 0,
        "tombstones": len(table.tombstones),
        "checkpoint": None
        if checkpoint is None
        else {
            "version": checkpoint.version,
            "kind": checkpoint.kind,
            "files": list(checkpoint.files),
            "bytes": checkpoint.size,
        },
        "commits_since_checkpoint": table.version - (-1 if checkpoint is None else checkpoint.version),
        "kernels": {"backend": report.backend, "reason": report.reason},
    }


def _timestamp(table: DeltaTable) -> str | None:
    try:
        return table.timestamp.isoformat(timespec="milliseconds")
    except VersionNotFoundError:
        return None  # The table is read from a checkpoint whose own log entry was cleaned up.


def _shown_facts(facts: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    protocol, checkpoint, columns = facts["protocol"], facts["checkpoint"], facts["columns"]
    names = [f"{column['name']} {column['type']}" for column in columns[:_SHOWN_COLUMNS]]
    more = f", and {len(columns) - _SHOWN_COLUMNS} more" if len(columns) > _SHOWN_COLUMNS else ""
    committed = facts["timestamp"] or "at a time that the log no longer holds"
    yield "table", facts["location"]
    yield "format", facts["format"]
    yield "version", f"{facts['version']}, committed {committed}"
    yield "id", facts["id"]
    yield from ((fact, facts[fact]) for fact in ("name", "description") if facts[fact] is not None)
    yield "protocol", f"reader {protocol['minReaderVersion']}, writer {protocol['minWriterVersion']}"
    yield "features", ", ".join(facts["features"]) or "none"
    yield "in use", ", ".join(facts["active_features"]) or "none"
    yield "columns", f"{len(columns)}: {', '.join(names)}{more}"
    yield "partitioned by", ", ".join(facts["partition_columns"]) or "nothing"
    if facts["clustering_columns"]:
        yield "clustered by", ", ".join(".".join(path) for path in facts["clustering_columns"])
    yield "files", f"{facts['files']}, {facts['bytes']} bytes"
    yield "rows", "not recorded for every file" if facts["rows"] is None else facts["rows"]
    yield "deletion vectors", f"{facts['deletion_vectors']}, which delete {facts['deleted_rows']} rows"
    yield "tombstones", facts["tombstones"]
    since = facts["commits_since_checkpoint"]
    if checkpoint is None:
        yield "checkpoint", f"none, {since} commits"
    else:
        size = f"{len(checkpoint['files'])} files, {checkpoint['bytes']} bytes"
        yield "checkpoint", f"version {checkpoint['version']}, {checkpoint['kind']}, {size}; {since} commits since"
    yield from ((f"property {name}", value) for name, value in facts["properties"].items())
    yield "kernels", f"{facts['kernels']['backend']}: {facts['kernels']['reason']}"


@table_command
def schema(table: DeltaTable, as_json: bool) -> None:
    """Show the columns of a table, nested ones by their paths."""
    columns = [
        {**_column(field, path), "partition": len(path) == 1 and field.name in table.partition_columns}
        for path, field in _columns(table.schema, ())
    ]
    if as_json:
        print_json(columns)
    else:
        print_table(("column", "type", "nullable", "partition", "comment"), columns)


def _columns(found: Struct, above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Field]]:
    for field in found:
        path = (*above, field.name)
        yield path, field
        yield from _columns_inside(field.type, path)


def _columns_inside(found: DataType, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Field]]:
    from deltaberg.schema import List, Map, Struct

    if isinstance(found, Struct):
        yield from _columns(found, path)
    parts = (found.element,) if isinstance(found, List) else (found.key, found.value) if isinstance(found, Map) else ()
    for part in parts:
        if isinstance(part.type, (Struct, List, Map)):
            yield (*path, part.name), part
            yield from _columns_inside(part.type, (*path, part.name))


def _column(field: Field, path: tuple[str, ...]) -> dict[str, Any]:
    from deltaberg.schema import join_name

    return {
        "column": join_name(path),
        "type": _type_name(field.type),
        "nullable": field.nullable,
        "comment": field.metadata.get("comment"),
        "metadata": dict(field.metadata),
    }


def _type_name(found: DataType) -> str:
    """Give the name of a type, without the fields of structs, which have lines of their own."""
    from deltaberg.schema import List, Map, Struct

    if isinstance(found, Struct):
        return "struct"
    if isinstance(found, List):
        return f"array<{_type_name(found.element.type)}>"
    if isinstance(found, Map):
        return f"map<{_type_name(found.key.type)}, {_type_name(found.value.type)}>"
    return str(found)


@table_command
@click.option("--limit", "-n", type=click.IntRange(min=1), help="How many at most.")
def history(table: DeltaTable, as_json: bool, limit: int | None) -> None:
    """Show the commits of a table, the newest first."""
    with progress("reading commits"):
        commits = table.history(limit)
    rows = [
        {
            "version": commit.version,
            "timestamp": commit.timestamp.isoformat(timespec="milliseconds"),
            "operation": commit.operation,
            "userName": commit.info.get("userName"),
            "engineInfo": commit.info.get("engineInfo"),
            "operationParameters": commit.info.get("operationParameters"),
            "commitInfo": dict(commit.info),
        }
        for commit in commits
    ]
    if not as_json:
        print_table(("version", "timestamp", "operation", "operationParameters", "userName", "engineInfo"), rows)
        return
    for row in rows:
        print_json({name: row[name] for name in ("version", "timestamp", "commitInfo")})
