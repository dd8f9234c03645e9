"""Version checksums of our commits: there where they are proven, and true."""

from __future__ import annotations

import json
from typing import Any

import pytest

from deltaberg import DeltaTable
from deltaberg.delta.actions.log_action import LogAction
from deltaberg.errors import StorageError
from deltaberg.storage.base import PutResult
from deltaberg.storage.local import LocalStorage
from tests.commit.test_transactions import _written
from tests.support.below_verbs import begin
from tests.support.delta_builder import DeltaBuilder
from tests.support.rows import ID, ids

pytestmark = pytest.mark.one_backend


def _checksum(builder: DeltaBuilder, version: int) -> dict[str, Any] | None:
    path = builder.log / f"{version:020d}.crc"
    return json.loads(path.read_text()) if path.exists() else None


@pytest.fixture
def table(builder: DeltaBuilder) -> DeltaTable:
    """A table of two files of 100 and 50 bytes, of which a checksum says so."""
    adds = [builder.add(None, path=name, stats={"numRecords": 1}, size=size) for name, size in (("a", 100), ("b", 50))]
    builder.create(ID, *adds, protocol=builder.features("deletionVectors"))
    facts = {"tableSizeBytes": 150, "numFiles": 2, "numMetadata": 1, "numProtocol": 1}
    (builder.log / f"{0:020d}.crc").write_text(json.dumps(facts))
    return DeltaTable(builder.root)


@pytest.mark.req("BEY-10", half="writer")
def test_they_are_carried_on(builder: DeltaBuilder, table: DeltaTable) -> None:
    for step in range(3):
        with begin(table) as transaction:
            transaction.add_files(_written(f"new-{step}"))
            if step == 1:
                transaction.remove_files(transaction.snapshot.live.table.filter([False, True, False, False]))
            if step == 2:
                transaction.set_metadata(table.metadata.with_members({"description": "changed"}))
        assert transaction.result is not None
        assert transaction.result.warnings == ()
    # What the last one states is what a reader counts.
    DeltaTable(builder.root, validate=True)
    sizes = dict(zip(*(table.live_files.column(name).to_pylist() for name in ("path", "size")), strict=True))
    found = _checksum(builder, 3)
    assert found is not None
    assert (found["tableSizeBytes"], found["numFiles"]) == (sum(sizes.values()), len(sizes))
    assert found["metadata"]["description"] == "changed"
    assert found["protocol"] == builder.commits[0][0]["protocol"]


def test_another_writer_without_one_ends_them(builder: DeltaBuilder, table: DeltaTable) -> None:
    builder.commit(builder.add(ids(1)))
    with begin(table) as transaction:
        transaction.add_files(_written("new"))
    assert _checksum(builder, 2) is None


_LIES: dict[str, str] = {
    "too many files": '{"tableSizeBytes": 150, "numFiles": 99, "numMetadata": 1, "numProtocol": 1}',
    "too few bytes": '{"tableSizeBytes": -7, "numFiles": 2, "numMetadata": 1, "numProtocol": 1}',
    "vectors": '{"tableSizeBytes": 150, "numFiles": 2, "numDeletedRecordsOpt": 8, "numDeletionVectorsOpt": 3}',
    "histogram": '{"numFiles": 2, "histogramOpt": {"fileCounts": [7], "sortedBinBoundaries": [0], "totalBytes": [1]}}',
    "allFiles": '{"numFiles": 2, "allFiles": []}',
    "no number": '{"numFiles": "two"}',
    "no object": "[]",
    "no JSON": "{",
}


@pytest.mark.parametrize("lie", _LIES.values(), ids=_LIES)
def test_numbers_of_others_are_not_believed(builder: DeltaBuilder, table: DeltaTable, lie: str) -> None:
    builder.commit(builder.add(ids(1)))
    (builder.log / f"{1:020d}.crc").write_text(lie)
    for step in range(2):
        with begin(table) as transaction:
            transaction.add_files(_written(f"new-{step}"))
        assert transaction.result is not None
        assert transaction.result.warnings == ()
        found = _checksum(builder, transaction.result.version)
        assert found is not None
        assert set(found) == {
            *("metadata", "protocol", "numMetadata", "numProtocol"),
            *("tableSizeBytes", "numFiles", "numDeletedRecordsOpt", "numDeletionVectorsOpt"),
        }
        DeltaTable(builder.root, validate=True)


@pytest.mark.parametrize("is_read", [False, True], ids=["unread", "read"])
def test_no_checkpoint_is_read_for_them(builder: DeltaBuilder, table: DeltaTable, is_read: bool) -> None:
    table.checkpoint()
    opened = DeltaTable(builder.root)
    if is_read:
        assert len(opened.live_files) == 2
    with begin(opened) as transaction:
        transaction.add_files(_written("new"))
    assert (_checksum(builder, 1) is not None) == is_read


def test_files_that_may_be_there_already_prove_nothing(builder: DeltaBuilder, table: DeltaTable) -> None:
    with begin(table) as transaction:
        transaction.add_actions([LogAction("add", {**builder.commits[0][2]["add"], "dataChange": False})])
    assert _checksum(builder, 1) is None


def test_a_vector_leaves_the_counts_of_vectors_open(builder: DeltaBuilder, table: DeltaTable) -> None:
    with begin(table) as transaction:
        live = transaction.snapshot.live.table
        transaction.remove_files(live.slice(0, 1))
        path = live.column("path")[0].as_py()
        (add,) = (action["add"] for action in builder.commits[0] if action.get("add", {}).get("path") == path)
        transaction.add_actions([LogAction("add", {**add, "deletionVector": builder.vector([0])})])
    found = _checksum(builder, 1)
    assert found is not None
    assert (found["tableSizeBytes"], found["numFiles"]) == (150, 2)
    assert "numDeletedRecordsOpt" not in found


def test_one_that_cannot_be_written_is_a_warning(
    builder: DeltaBuilder, table: DeltaTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = LocalStorage.put

    def full(self: LocalStorage, path: str, data: bytes, *, if_absent: bool = False) -> PutResult:
        if path.endswith(".crc"):
            raise StorageError("no space left on device")
        return put(self, path, data, if_absent=if_absent)

    monkeypatch.setattr(LocalStorage, "put", full)
    with begin(table) as transaction:
        transaction.add_files(_written("new"))
    assert transaction.result is not None
    assert transaction.result.version == table.version == 1
    assert transaction.result.warnings == ("the version checksum was not written: no space left on device",)
    assert DeltaTable(builder.root).version == 1
