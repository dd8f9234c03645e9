"""Manifests and manifest lists are read whole, so that they can be written again: fastavro sees no more in them."""

from __future__ import annotations

import datetime as dt
import io
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import pytest

from deltaberg import open_table
from deltaberg.errors import DeltabergError
from deltaberg.iceberg.manifests.fields import FURTHER, MANIFESTS, METRICS, WHOLE_ENTRIES
from deltaberg.iceberg.manifests.manifests import read_manifest
from deltaberg.iceberg.partition.structs import partition_struct
from deltaberg.iceberg.scan.source import IcebergSource
from deltaberg.schema.name_mapping import FIELD_ID
from deltaberg.schema.types import Struct
from deltaberg.table.read.scan import bound_scan
from tests.iceberg.entries import list_rows, rewrite_avro
from tests.support.iceberg_builder import IcebergBuilder

pytestmark = pytest.mark.one_backend

_DATA_FILE, _PARTITION = 2, 102
#: Fields that nobody may write any more: block_size_in_bytes, file_ordinal, sort_columns, distinct_counts.
_DEPRECATED = {105, 106, 107, 111}
#: Fields that entries can leave to the manifest list, and the one that version 1 lacks.
_INHERITED = {1, 3, 4, 134, 142}
_OWN = {"status": 0, "snapshot_id": 1, "sequence_number": 3, "file_sequence_number": 4}
_FILE = {"content": 134, "file_path": 100, "file_format": 101, "record_count": 103, "file_size_in_bytes": 104}
_FILE |= {name: int(field.metadata[FIELD_ID]) for name, (field, _) in METRICS.items()}
_FILE |= {name: int(field.metadata[FIELD_ID]) for name, field in FURTHER.items()}
_LIST = {field.name: int(field.metadata[FIELD_ID]) for field in MANIFESTS}


def _by_id(schema: Any, value: Any) -> Any:
    """Return what fastavro decoded, with field ids in place of names and maps as sorted pairs."""
    if isinstance(schema, list):
        (schema,) = [branch for branch in schema if branch != "null"] or [None]
    if value is None or not isinstance(schema, dict):
        return value
    if schema["type"] == "record":
        return {child["field-id"]: _by_id(child["type"], value[child["name"]]) for child in schema["fields"]}
    if schema["type"] == "array":
        if schema.get("logicalType") == "map":
            return sorted((pair["key"], pair["value"]) for pair in value)
        return [_by_id(schema["items"], part) for part in value]
    return value


def _decoded(data: bytes) -> Iterator[dict[int, Any]]:
    reader = fastavro.reader(io.BytesIO(data))
    for row in reader:
        yield _by_id(reader.writer_schema, row)


def _ours(row: dict[str, Any], partition: Struct) -> dict[int, Any]:
    """Return an entry as we read it, with field ids in place of names."""
    own: dict[int, Any] = {number: row[name] for name, number in _OWN.items()}
    file = {number: row[name] for name, number in _FILE.items()}
    for name in METRICS:
        if row[name] is not None:
            file[_FILE[name]] = sorted(row[name])
    file[_PARTITION] = {child.id: row["partition"][child.name] for child in partition}
    return own | {_DATA_FILE: file}


def _wall_clock(value: Any) -> Any:
    # fastavro takes all timestamps for instants.
    return value.replace(tzinfo=None) if isinstance(value, dt.datetime) else value


def _compare(theirs: dict[int, Any], ours: dict[int, Any], seen: Counter[int]) -> None:
    for number, value in theirs.items():
        if number in _DEPRECATED:
            continue
        if isinstance(value, dict):
            _compare(value, ours[number], seen)
        elif value is not None or number not in _INHERITED:
            assert _wall_clock(ours[number]) == _wall_clock(value), number
            seen[number] += value is not None


def _snapshots(conformance: Path) -> Iterator[IcebergSource]:
    """Yield all snapshots of all tables."""
    index = json.loads((conformance / "index.json").read_text())
    for entry in index.values():
        if entry["format"] == "iceberg":
            table = open_table(conformance / entry["dir"], format="iceberg", location_map="auto")
            source = bound_scan(table.scan()).source
            assert isinstance(source, IcebergSource)
            for snapshot in table.snapshots:
                yield source.at(snapshot)


@pytest.mark.req("ICE-MAN-05", half="reader")
def test_manifests_of_other_engines(conformance: Path) -> None:
    seen: Counter[int] = Counter()
    manifests = 0
    for source in _snapshots(conformance):
        try:
            rows = source.manifests.to_pylist()
        except DeltabergError:
            continue
        for row in rows:
            partition = partition_struct(source.reader.spec_of(row["partition_spec_id"]), source.reader.schemas)
            data = source.reader.fetch(row["manifest_path"])
            ours = read_manifest(data, row, partition, WHOLE_ENTRIES).to_pylist()
            theirs = list(_decoded(data))
            assert len(ours) == len(theirs)
            for mine, other in zip(ours, theirs, strict=True):
                _compare(other, _ours(mine, partition), seen)
            manifests += 1
    assert manifests > 80
    # Nobody here encrypts files.
    assert not {*_OWN.values(), *_FILE.values()} - {_FILE["key_metadata"]} - set(seen)
    assert {1000, 1001} <= set(seen)


@pytest.mark.req("ICE-ML-01", half="reader")
def test_manifest_lists_of_other_engines(conformance: Path) -> None:
    seen: Counter[int] = Counter()
    for source in _snapshots(conformance):
        if source.snapshot is None or source.snapshot.manifest_list is None:
            continue
        try:
            data = source.reader.fetch(source.snapshot.manifest_list)
        except DeltabergError:
            continue
        ours = source.manifests.to_pylist()
        for mine, theirs in zip(ours, _decoded(data), strict=True):
            listed = {number: mine[name] for name, number in _LIST.items()}
            summaries = listed[507]
            if summaries is not None:
                names = {"contains_null": 509, "contains_nan": 518, "lower_bound": 510, "upper_bound": 511}
                listed[507] = [{names[name]: part[name] for name in names} for part in summaries]
                for part, told in zip(listed[507], theirs[507], strict=True):
                    assert {number: part[number] for number in told} == told
            _compare({number: value for number, value in theirs.items() if number != 507}, listed, seen)
    assert not set(_LIST.values()) - {_LIST["key_metadata"], 507} - set(seen)


def test_values_are_returned_as_they_are_stored(tmp_path: Path) -> None:
    """The case of a format and the partition values of unknown transforms stay as the writer wrote them."""
    spec = [{"source-id": 1, "name": "p", "transform": "zorder"}]
    builder = IcebergBuilder(tmp_path / "t", {"id": "long"}, specs=[spec])
    builder.commit(builder.data([{"id": 1}], partition={"p": 7}))
    path = Path(list_rows(builder)[0]["manifest_path"])

    def upper(record: dict[str, Any]) -> None:
        record["data_file"]["file_format"] = "PARQUET"

    rewrite_avro(path, record=upper)
    (row,) = list_rows(builder)
    source = bound_scan(open_table(builder.root).scan()).source
    assert isinstance(source, IcebergSource)
    partition = partition_struct(source.reader.spec_of(row["partition_spec_id"]), source.reader.schemas)
    (stored,) = read_manifest(path.read_bytes(), row, partition, WHOLE_ENTRIES).to_pylist()
    assert (stored["file_format"], stored["partition"]) == ("PARQUET", {"p": 7})
    (entries,) = source.reader.read([{**row, "number": 0}], replace(WHOLE_ENTRIES, as_stored=False))
    (read,) = entries.table.to_pylist()
    assert (read["file_format"], read["partition"]) == ("parquet", {"p": "7"})
