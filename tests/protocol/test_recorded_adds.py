"""Files that are added again keep their actions: from commits, compactions and checkpoints of every kind."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import open_table
from deltaberg.delta.snapshot.recorded_adds import recorded_adds
from deltaberg.errors import CorruptCheckpointError, CorruptLogError
from deltaberg.lossless_json import read_json
from tests.support.delta_builder import DeltaBuilder, commit_name
from tests.support.delta_schemas import field
from tests.support.rows import every_checkpoint, ids

_COLUMNS = [field("id", "long"), field("p", "string")]
_UNKNOWN: dict[str, Any] = {"later": {"weight": 2.50, "list": [None, "ü"]}}


def _adds(builder: DeltaBuilder, **members: Any) -> list[dict[str, Any]]:
    """Return files whose members are all that the protocol has, null values among them, and hardly any."""
    first, second = builder.vectors([[0], [1]])
    partition = {"p": None}
    # Blanks and a number that floats spell otherwise: text that is made again would differ.
    stats = '{ "numRecords": 3, "maxValues": {"id": 1.10e1} }'
    recorded: dict[str, Any] = {
        "tags": {"a": None, "b": "ü"},
        "baseRowId": 7,
        "defaultRowCommitVersion": 2,
        "clusteringProvider": "liquid",
    }
    return [
        builder.add(
            ids(1, 2, 3), path="same.parquet", partition=partition, vector=first, stats=stats, **recorded, **members
        ),
        builder.add(ids(4, 5, 6), path="ü %.parquet", partition={"p": "x"}, vector=second, **members),
        builder.add(ids(7), path="plain.parquet", partition=partition, stats="full", tags=None, **members),
    ]


def _recorded(builder: DeltaBuilder, **options: Any) -> dict[str, str]:
    """Return the actions of the live files by their path, in the spelling of a sorted dump."""
    files = open_table(builder.root, **options)._snapshot.live
    numbers = pa.array(reversed(range(len(files.table))), pa.int64())
    actions = recorded_adds(files, numbers)
    paths = files.table.column("path").to_pylist()
    assert [action.members["path"] for action in actions] == paths[::-1]
    texts = [json.dumps(json.loads(action.to_json()), sort_keys=True) for action in actions]
    return dict(zip(paths[::-1], texts, strict=True))


def _expected(adds: list[dict[str, Any]]) -> dict[str, str]:
    return {add["add"]["path"]: json.dumps(add, sort_keys=True) for add in adds}


def _create(builder: DeltaBuilder, *adds: dict[str, Any]) -> None:
    features = builder.features("deletionVectors", "v2Checkpoint")
    builder.create(_COLUMNS, *adds, partition_by=["p"], protocol=features)


def test_from_commits(builder: DeltaBuilder) -> None:
    adds = _adds(builder, **_UNKNOWN)
    older = {"add": {**adds[0]["add"], "stats": '{"numRecords": 3}'}}
    _create(builder, older, adds[1])
    builder.commit(adds[2])
    # The same file once more, as a writer does that has new statistics.
    builder.commit(adds[0])
    assert _recorded(builder) == _expected(adds)
    assert _recorded(builder, version=1) == _expected([older, *adds[1:]])
    line = json.dumps(adds[0]).replace('"weight": 2.5', '"weight": 2.50').encode()
    builder.commit_text(line.replace(b'"later"', rb'"l\u0061ter"').replace(b'"add"', rb'"\u0061dd"') + b"\n")
    files = open_table(builder.root, "delta")._snapshot.live
    place = files.table.column("path").to_pylist().index("same.parquet")
    (action,) = recorded_adds(files, pa.array([place], pa.int64()))
    assert action.members == read_json(line.decode())["add"]
    assert action.with_members({"deletionVector": None, "size": 5}).to_json() == json.dumps(
        {"add": {key: value for key, value in adds[0]["add"].items() if key != "deletionVector"} | {"size": 5}},
        ensure_ascii=False,
        separators=(",", ":"),
    ).replace('"weight":2.5', '"weight":2.50')


@every_checkpoint
def test_from_checkpoints(builder: DeltaBuilder, kind: dict[str, Any]) -> None:
    """A checkpoint in Parquet has the members that the protocol knows."""
    unknown = _UNKNOWN if kind["kind"] == "uuid-json" and "sidecars" not in kind else {}
    adds = _adds(builder, **unknown)
    _create(builder, *adds)
    builder.checkpoint(**kind)
    (builder.log / commit_name(0)).unlink()
    later = builder.add(ids(9), path="later.parquet", partition={"p": "y"}, **_UNKNOWN)
    builder.commit(builder.remove(adds[1]), later)
    expected = [adds[0], {"add": {key: value for key, value in adds[2]["add"].items() if value is not None}}, later]
    found = _recorded(builder)
    # JSON keeps the null that a column cannot tell from nothing.
    found["plain.parquet"] = found["plain.parquet"].replace(', "tags": null', "")
    assert found == _expected(expected)


def test_of_statistics_that_are_columns_only_the_count_is_kept(builder: DeltaBuilder) -> None:
    """A file that is added again with a deletion vector must have a record count."""
    adds = _adds(builder)[2:]
    _create(builder, *adds)
    builder.checkpoint(stats="struct")
    (builder.log / commit_name(0)).unlink()
    (text,) = _recorded(builder).values()
    members = json.loads(text)["add"]
    assert json.loads(members["stats"]) == {"numRecords": 1}
    assert members["path"] == "plain.parquet"


@pytest.mark.parametrize("change", [lambda data: data[:-40], lambda data: b"[]" + data, lambda _: b'{"add":{}}'])
@pytest.mark.parametrize("from_checkpoint", [True, False])
def test_a_file_of_the_log_that_was_changed(
    builder: DeltaBuilder, monkeypatch: pytest.MonkeyPatch, change: Callable[[bytes], bytes], from_checkpoint: bool
) -> None:
    monkeypatch.setattr("deltaberg.delta.log.entries._KEPT_BYTES", 0)
    _create(builder, *_adds(builder))
    path = builder.log / commit_name(0)
    if from_checkpoint:
        (path,) = builder.checkpoint(kind="uuid-json")
    files = open_table(builder.root, "delta")._snapshot.live
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(CorruptLogError, match="open the table again"):
        recorded_adds(files, pa.array([0], pa.int64()))


@pytest.mark.parametrize("kind", [{"kind": "classic"}, {"kind": "uuid-parquet", "sidecars": 2}])
def test_a_checkpoint_that_is_gone(builder: DeltaBuilder, kind: dict[str, Any]) -> None:
    _create(builder, *_adds(builder))
    builder.checkpoint(**kind)
    files = open_table(builder.root, "delta")._snapshot.live
    for path in [*builder.log.glob("*checkpoint*"), *(builder.log / "_sidecars").glob("*")]:
        path.unlink()
    with pytest.raises(CorruptCheckpointError, match="open the table again"):
        recorded_adds(files, pa.array([0], pa.int64()))


def test_a_commit_that_is_gone(builder: DeltaBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deltaberg.delta.log.entries._KEPT_BYTES", 0)
    _create(builder, *_adds(builder))
    files = open_table(builder.root, "delta")._snapshot.live
    (builder.log / commit_name(0)).unlink()
    with pytest.raises(CorruptLogError, match="changed or deleted") as caught:
        recorded_adds(files, pa.array([0], pa.int64()))
    assert caught.value.context["version"] == 0
