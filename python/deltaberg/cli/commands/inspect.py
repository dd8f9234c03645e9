"""Commands about a whole table: inspect, schema, history."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from deltaberg.cli.options import table_command
from deltaberg.cli.show.describe import shown_columns, type_name
from deltaberg.cli.show.iceberg import (
    SHOWN_HISTORY,
    iceberg_facts,
    iceberg_history,
    partition_sources,
    shown_iceberg_facts,
)
from deltaberg.cli.show.output import print_facts, print_json, print_rows, print_table, progress
from deltaberg.cli.show.text import listed
from deltaberg.errors import VersionNotFoundError
from deltaberg.lossless_json import read_json
from deltaberg.whole_numbers import counted

if TYPE_CHECKING:
    from deltaberg import DeltaTable, IcebergTable
    from deltaberg.schema.types import DataType, Field, Struct

__all__ = ["history", "inspect", "schema"]


@table_command
def inspect(table: DeltaTable | IcebergTable, as_json: bool) -> None:
    """Show what a table is, and how it is stored."""
    from deltaberg import IcebergTable

    is_iceberg = isinstance(table, IcebergTable)
    with progress("reading the metadata"):
        facts = iceberg_facts(table) if isinstance(table, IcebergTable) else _facts(table)
    if as_json:
        print_json(facts)
    else:
        print_facts(shown_iceberg_facts(facts) if is_iceberg else _shown_facts(facts))


def _facts(table: DeltaTable) -> dict[str, Any]:
    import pyarrow.compute as pc

    from deltaberg import kernels
    from deltaberg.table.read.scan import bound_scan

    live, plan = table.live_files, bound_scan(table.scan()).plan
    counts = plan.row_counts()
    protocol, report, checkpoint = table.protocol, kernels.report(), table.base_checkpoint
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
        "columns": [{"name": field.name, "type": type_name(field.type)} for field in table.schema],
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
        return None  # The version was read from a checkpoint, and its log entry was cleaned up.


def _vectors(facts: Mapping[str, Any]) -> str:
    if not facts["deletion_vectors"]:
        return "none"
    return f"{facts['deletion_vectors']}, which delete {counted(facts['deleted_rows'], 'row')}"


def _shown_facts(facts: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    protocol, checkpoint = facts["protocol"], facts["checkpoint"]
    committed = facts["timestamp"] or "at a time that the log no longer records"
    yield "table", facts["location"]
    yield "format", facts["format"]
    yield "version", f"{facts['version']}, committed {committed}"
    yield "id", facts["id"]
    yield from ((fact, facts[fact]) for fact in ("name", "description") if facts[fact] is not None)
    yield "protocol", f"reader {protocol['minReaderVersion']}, writer {protocol['minWriterVersion']}"
    yield "features", ", ".join(facts["features"]) or "none"
    yield "in use", ", ".join(facts["active_features"]) or "none"
    yield "columns", shown_columns(facts["columns"])
    yield "partitioned by", ", ".join(facts["partition_columns"]) or "no column"
    if facts["clustering_columns"]:
        yield "clustered by", ", ".join(".".join(path) for path in facts["clustering_columns"])
    yield "files", f"{facts['files']}, {counted(facts['bytes'], 'byte')}"
    yield "rows", "not recorded for every file" if facts["rows"] is None else facts["rows"]
    yield "deletion vectors", _vectors(facts)
    yield "tombstones", facts["tombstones"]
    since = facts["commits_since_checkpoint"]
    if checkpoint is None:
        yield "checkpoint", f"none, {counted(since, 'commit')}"
    else:
        size = f"{counted(len(checkpoint['files']), 'file')}, {counted(checkpoint['bytes'], 'byte')}"
        yield (
            "checkpoint",
            f"version {checkpoint['version']}, {checkpoint['kind']}, {size}; {counted(since, 'commit')} since",
        )
    yield from ((f"property {name}", value) for name, value in facts["properties"].items())
    yield "kernels", f"{facts['kernels']['backend']}: {facts['kernels']['reason']}"


@table_command
def schema(table: DeltaTable | IcebergTable, as_json: bool) -> None:
    """Show the columns of a table; nested ones are shown by their paths."""
    from deltaberg import IcebergTable

    partition = partition_sources(table) if isinstance(table, IcebergTable) else table.partition_columns
    columns = [
        {**_column(field, path), "partition": len(path) == 1 and field.name in partition}
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


def _columns_inside(column_type: DataType, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Field]]:
    from deltaberg.schema.types import List, Map, Struct

    if isinstance(column_type, Struct):
        yield from _columns(column_type, path)
    parts = (
        (column_type.element,)
        if isinstance(column_type, List)
        else (column_type.key, column_type.value)
        if isinstance(column_type, Map)
        else ()
    )
    for part in parts:
        if isinstance(part.type, (Struct, List, Map)):
            yield (*path, part.name), part
            yield from _columns_inside(part.type, (*path, part.name))


def _column(field: Field, path: tuple[str, ...]) -> dict[str, Any]:
    from deltaberg.schema.columns import join_name

    return {
        "column": join_name(path),
        "type": type_name(field.type),
        "nullable": field.nullable,
        "comment": field.metadata.get("comment", field.metadata.get("doc")),
        "metadata": dict(field.metadata),
    }


@table_command
@click.option("--limit", "-n", type=click.IntRange(min=1), help="The most commits to show.")
def history(table: DeltaTable | IcebergTable, as_json: bool, limit: int | None) -> None:
    """Show the commits of a table, newest first."""
    from deltaberg import IcebergTable

    if isinstance(table, IcebergTable):
        print_rows(SHOWN_HISTORY, iceberg_history(table, limit), as_json)
        return
    with progress("reading commits"):
        commits = table.history(limit)
    rows = [
        {
            "version": commit.version,
            "timestamp": commit.timestamp.isoformat(timespec="milliseconds"),
            "operation": commit.operation,
            "userName": commit.info.get("userName"),
            "engineInfo": commit.info.get("engineInfo"),
            "operationParameters": listed(_decoded(commit.info.get("operationParameters"))),
            "commitInfo": dict(commit.info),
        }
        for commit in commits
    ]
    if as_json:
        rows = [{name: row[name] for name in ("version", "timestamp", "commitInfo")} for row in rows]
    print_rows(("version", "timestamp", "operation", "operationParameters", "userName", "engineInfo"), rows, as_json)


def _decoded(value: Any) -> Any:
    """Return parameters of an operation with the JSON that they hold as text."""
    if isinstance(value, dict):
        return {name: _decoded(one) for name, one in value.items()}
    if not isinstance(value, str) or not value.startswith(("[", "{", "null")):
        return value
    try:
        return read_json(value, plain=True)
    except ValueError:
        return value
