"""The DataFrames of delta-spark about a table: its history and its details."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from deltaberg.delta.snapshot.history import Commit
from deltaberg.delta.table import DeltaTable as Table
from deltaberg.schema.columns import join_name
from deltaberg.schema.types import Struct

__all__ = ["detail_frame", "history_frame"]

_HISTORY = {
    "version": "bigint",
    # A session can have "timestamp" mean that without a zone.
    "timestamp": "timestamp_ltz",
    "userId": "string",
    "userName": "string",
    "operation": "string",
    "operationParameters": "map<string, string>",
    "job": "struct<jobId: string, jobName: string, jobRunId: string, runId: string, jobOwnerId: string, "
    "triggerType: string>",
    "notebook": "struct<notebookId: string>",
    "clusterId": "string",
    "readVersion": "bigint",
    "isolationLevel": "string",
    "isBlindAppend": "boolean",
    "operationMetrics": "map<string, string>",
    "userMetadata": "string",
    "engineInfo": "string",
}
_DETAIL = {
    "format": "string",
    "id": "string",
    "name": "string",
    "description": "string",
    "location": "string",
    "createdAt": "timestamp_ltz",
    "lastModified": "timestamp_ltz",
    "partitionColumns": "array<string>",
    "clusteringColumns": "array<string>",
    "numFiles": "bigint",
    "sizeInBytes": "bigint",
    "properties": "map<string, string>",
    "minReaderVersion": "int",
    "minWriterVersion": "int",
    "tableFeatures": "array<string>",
}
_OBJECTS = {"job": ("jobId", "jobName", "jobRunId", "runId", "jobOwnerId", "triggerType"), "notebook": ("notebookId",)}


def history_frame(spark: SparkSession, commits: Iterable[Commit]) -> DataFrame:
    """Return commits as rows. What a commit records in another form than Delta's is null."""
    return spark.createDataFrame([_commit(commit) for commit in commits], _ddl(_HISTORY))


def detail_frame(spark: SparkSession, table: Table) -> DataFrame:
    """Return one row that describes a table."""
    metadata, protocol, files = table.metadata, table.protocol, table.live_files
    created = metadata.created_time
    row = (
        "delta",
        metadata.id,
        metadata.name,
        metadata.description,
        table.location,
        None if created is None else dt.datetime.fromtimestamp(created / 1000, dt.timezone.utc),
        table.timestamp,
        table.partition_columns,
        [_logical_name(table.schema, path) for path in table.clustering_columns],
        files.num_rows,
        pc.sum(files["size"]).as_py() or 0,
        table.properties,
        protocol.min_reader_version,
        protocol.min_writer_version,
        sorted(table.features),
    )
    return spark.createDataFrame([row], _ddl(_DETAIL))


def _ddl(columns: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in columns.items())


def _commit(commit: Commit) -> tuple[Any, ...]:
    info = {**commit.info, "version": commit.version, "timestamp": commit.timestamp}
    return tuple(_member(info.get(name), name, kind) for name, kind in _HISTORY.items())


def _member(value: Any, name: str, kind: str) -> Any:
    if name in _OBJECTS:
        return tuple(_text(value.get(part)) for part in _OBJECTS[name]) if isinstance(value, Mapping) else None
    if kind.startswith("map"):
        return {key: _text(part) for key, part in value.items()} if isinstance(value, Mapping) else None
    if kind == "string":
        return _text(value)
    if kind == "bigint":
        return value if type(value) is int else None
    if kind == "boolean":
        return value if isinstance(value, bool) else None
    return value


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _logical_name(schema: Struct, path: tuple[str, ...]) -> str:
    names, fields = [], schema
    for physical in path:
        child = next((child for child in fields if child.physical_name == physical), None)
        if child is None:
            return join_name(path)
        names.append(child.name)
        fields = child.type if isinstance(child.type, Struct) else Struct(())
    return join_name(names)
