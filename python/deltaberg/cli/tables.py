"""Commands about a table as a whole: inspect, schema, history."""

from __future__ import annotations

from typing import Any

import click
import pyarrow.compute as pc

from deltaberg import DeltaTable, kernels
from deltaberg.cli.options import as_json, table_command
from deltaberg.cli.text import print_json, print_pairs, print_table
from deltaberg.schema import DataType, Field, List, Map, Struct

__all__ = ["COMMANDS"]


@table_command("Show what a table is: version, protocol, files, properties.")
@as_json
def inspect(table: DeltaTable, as_json: bool) -> None:
    """Show a table."""
    facts = _facts(table)
    if as_json:
        print_json(facts)
        return
    protocol = facts["protocol"]
    print_pairs(
        [
            ("table", facts["location"]),
            ("format", facts["format"]),
            ("version", f"{facts['version']}, committed {facts['timestamp']}"),
            ("id", facts["id"]),
            ("name", facts["name"]),
            ("protocol", f"reader {protocol['minReaderVersion']}, writer {protocol['minWriterVersion']}"),
            ("features", ", ".join(protocol["features"]) or "none"),
            ("columns", len(table.schema)),
            ("partitioned by", ", ".join(facts["partition_columns"]) or "nothing"),
            ("clustered by", ", ".join(facts["clustering_columns"]) or "nothing"),
            ("files", f"{facts['files']}, {facts['bytes']} bytes"),
            ("rows", "not recorded for every file" if facts["rows"] is None else facts["rows"]),
            ("deleted rows", f"{facts['deleted_rows']}, by {facts['deletion_vectors']} deletion vectors"),
            ("tombstones", facts["tombstones"]),
            *((f"property {name}", value) for name, value in sorted(facts["properties"].items())),
            ("kernels", facts["kernels"]),
        ]
    )


def _facts(table: DeltaTable) -> dict[str, Any]:
    files = table.scan().files()
    counts, deleted = files["record_count"], files["deleted_record_count"]
    exact = not counts.null_count
    protocol = table.protocol
    return {
        "location": table.location,
        "format": "delta",
        "version": table.version,
        "timestamp": table.timestamp.isoformat(),
        "id": table.metadata.id,
        "name": table.metadata.name,
        "protocol": {
            "minReaderVersion": protocol.min_reader_version,
            "minWriterVersion": protocol.min_writer_version,
            "features": list(protocol.writer_features or ()),
        },
        "partition_columns": table.partition_columns,
        "clustering_columns": [".".join(path) for path in table.clustering_columns],
        "properties": table.properties,
        "files": files.num_rows,
        "bytes": pc.sum(files["file_size_in_bytes"]).as_py() or 0,
        "rows": (pc.sum(pc.subtract(counts, deleted)).as_py() or 0) if exact else None,
        "deleted_rows": pc.sum(deleted).as_py() or 0,
        "deletion_vectors": pc.sum(pc.greater(deleted, 0)).as_py() or 0,
        "tombstones": len(table.tombstones),
        "kernels": kernels.report().backend,
    }


@table_command("Show the columns of a table.")
@as_json
def schema(table: DeltaTable, as_json: bool) -> None:
    """Show the columns."""
    rows = list(_rows(table.schema, ""))
    if as_json:
        print_json([dict(zip(("column", "type", "nullable", "comment"), row, strict=True)) for row in rows])
    else:
        print_table(("column", "type", "nullable", "comment"), rows)


def _rows(fields: Struct, prefix: str) -> Any:
    for field in fields:
        name = f"{prefix}`{field.name}`" if "." in field.name else f"{prefix}{field.name}"
        yield name, _type_name(field.type), field.nullable, field.metadata.get("comment")
        yield from _rows_inside(field.type, name)


def _rows_inside(found: DataType, name: str) -> Any:
    if isinstance(found, Struct):
        yield from _rows(found, f"{name}.")
    elif isinstance(found, List):
        yield from _rows_of_part(found.element, f"{name}.element")
    elif isinstance(found, Map):
        yield from _rows_of_part(found.key, f"{name}.key")
        yield from _rows_of_part(found.value, f"{name}.value")


def _rows_of_part(part: Field, name: str) -> Any:
    if isinstance(part.type, (Struct, List, Map)):
        yield name, _type_name(part.type), part.nullable, part.metadata.get("comment")
        yield from _rows_inside(part.type, name)


def _type_name(found: DataType) -> str:
    if isinstance(found, Struct):
        return "struct"
    if isinstance(found, List):
        return f"array<{_type_name(found.element.type)}>"
    if isinstance(found, Map):
        return f"map<{_type_name(found.key.type)}, {_type_name(found.value.type)}>"
    return str(found)


@table_command("Show the commits of a table, the newest first.")
@click.option("--limit", "-n", type=click.IntRange(min=1), help="How many at most.")
@as_json
def history(table: DeltaTable, limit: int | None, as_json: bool) -> None:
    """Show the commits."""
    commits = table.history(limit)
    if as_json:
        for commit in commits:
            print_json(
                {"version": commit.version, "timestamp": commit.timestamp.isoformat(), "commitInfo": dict(commit.info)}
            )
        return
    rows = [
        (
            commit.version,
            commit.timestamp.isoformat(sep=" ", timespec="milliseconds"),
            commit.operation,
            commit.info.get("userName"),
            commit.info.get("engineInfo"),
        )
        for commit in commits
    ]
    print_table(("version", "timestamp", "operation", "user", "engine"), rows)


COMMANDS = (inspect, schema, history)
