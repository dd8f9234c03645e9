"""A member of an action with another JSON type than the protocol says is our own error, in every reader of the log."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import DeltaTable, find_commit
from deltaberg.delta.log.compaction import compact_commits
from deltaberg.delta.log.directory import LogDirectory
from deltaberg.errors import CorruptTableError, DeltabergError
from deltaberg.storage.location import parse_location
from deltaberg.storage.stores import StoreSpec
from tests.support.delta_builder import DeltaBuilder

_ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})
_TOKEN = "1-6f0c2fc1-24a8-4ac4-9b3c-d1cd53c9f3a2"
_FILE = {"path": "x", "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}
_VECTOR = {"storageType": "i", "pathOrInlineDv": "x", "sizeInBytes": 1, "cardinality": 1}
_LINEAGE = {"baseRowId": 1, "defaultRowCommitVersion": 1, "clusteringProvider": "x", "tags": {}, "stats": "{}"}
_ACTIONS: dict[str, dict[str, Any]] = {
    "add": {**_FILE, **_LINEAGE, "deletionVector": {**_VECTOR, "offset": 1}},
    "remove": {**_FILE, "deletionTimestamp": 1, "extendedFileMetadata": True, "deletionVector": _VECTOR},
    "cdc": {"path": "x", "partitionValues": {}, "size": 1, "dataChange": False, "tags": {}},
    "txn": {"appId": "a", "version": 1, "lastUpdated": 1},
    "domainMetadata": {"domain": "d", "configuration": "", "removed": False},
    "protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": [], "writerFeatures": []},
    "metaData": {
        "id": "i",
        "name": "n",
        "description": "d",
        "schemaString": "{}",
        "createdTime": 1,
        "format": {"provider": "parquet", "options": {}},
        "partitionColumns": [],
        "configuration": {},
    },
    "sidecar": {"path": "x", "sizeInBytes": 1, "modificationTime": 1, "tags": {}},
    "checkpointMetadata": {"version": 1, "tags": {}},
}
#: Values of which no member may have either.
_WRONG: tuple[Any, ...] = ([[]], {"a": [1.5]})


def _places(members: dict[str, Any]) -> list[tuple[str, ...]]:
    paths: list[tuple[str, ...]] = []
    for name, value in members.items():
        paths.append((name,))
        if name in ("deletionVector", "format"):
            paths += [(name, inner) for inner in value]
    return paths


def _with(members: dict[str, Any], place: tuple[str, ...], value: Any) -> dict[str, Any]:
    name, *rest = place
    return {**members, name: _with(members[name], tuple(rest), value) if rest else value}


def _outcome(work: Callable[[], object]) -> type[BaseException] | None:
    try:
        work()
    except DeltabergError as error:
        return type(error)
    return None


@pytest.mark.parametrize("name", _ACTIONS)
def test_every_member_of_every_action(name: str, tmp_path: Path) -> None:
    builder = DeltaBuilder(tmp_path)
    builder.create(_ROWS.schema, builder.add(_ROWS), configuration={"delta.enableChangeDataFeed": "true"})
    before, log = DeltaTable(tmp_path), LogDirectory(parse_location(str(tmp_path)), StoreSpec())
    entry = builder.log / f"{1:020d}.json"
    for place in _places(_ACTIONS[name]):
        for wrong in _WRONG:
            line = {name: _with(_ACTIONS[name], place, wrong)}
            entry.write_text(f'{{"commitInfo":{{"txnId":"{_TOKEN}"}}}}\n{json.dumps(line)}\n')
            refused = [
                _outcome(lambda: compact_commits(log, 0, 1)),
                _outcome(lambda: DeltaTable(tmp_path, validate=True).scan().to_arrow()),
            ]
            works: tuple[Callable[[], object], ...] = (
                lambda: before.changes(0).to_arrow(),
                lambda: DeltaTable(tmp_path).checkpoint(),
                lambda: DeltaTable(tmp_path).history(),
                lambda: find_commit(tmp_path, _TOKEN),
                lambda: before.delete("id > 0"),
            )
            for work in works:
                # What is not our own error ends the test.
                _outcome(work)
            assert all(kind is not None and issubclass(kind, CorruptTableError) for kind in refused), (place, refused)
            for left in builder.log.iterdir():
                if left.name not in (f"{0:020d}.json", entry.name):
                    left.unlink()


def test_the_entry_is_named(tmp_path: Path) -> None:
    builder = DeltaBuilder(tmp_path)
    builder.create(_ROWS.schema, builder.add(_ROWS))
    builder.commit_text('{"commitInfo":{}}\n{"domainMetadata":{"domain":[],"configuration":"","removed":false}}')
    with pytest.raises(CorruptTableError, match=r"domainMetadata\.domain must be a string") as caught:
        compact_commits(LogDirectory(parse_location(str(tmp_path)), StoreSpec()), 0, 1)
    assert (caught.value.context["version"], caught.value.context["line"]) == (1, 2)


@pytest.mark.parametrize("moment", [1 << 62, -1, 1.5, "1", []])
def test_a_time_that_no_commit_can_have(moment: Any, tmp_path: Path) -> None:
    builder = DeltaBuilder(tmp_path)
    protocol = builder.protocol(1, 7, writer_features=["inCommitTimestamp"])
    metadata = builder.metadata(_ROWS.schema, configuration={"delta.enableInCommitTimestamps": "true"})
    builder.commit({"commitInfo": {"inCommitTimestamp": moment}}, protocol, metadata, builder.add(_ROWS))
    with pytest.raises(CorruptTableError, match="in-commit timestamps"):
        DeltaTable(tmp_path).history()
