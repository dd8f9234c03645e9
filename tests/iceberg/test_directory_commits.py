"""Commits to tables in plain directories: what is put, what an answer means, and what is left behind."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from deltaberg import open_table
from deltaberg.errors import (
    CommitConflictError,
    CommitUnknownError,
    CorruptMetadataError,
    InvalidArgumentError,
    MetadataChangedError,
    StorageError,
    TableExistsError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from deltaberg.iceberg.location.directory_commit import DirectoryCommitter
from deltaberg.iceberg.location.pointer import FilePointer
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.metadata.snapshot_refs import SnapshotRef
from deltaberg.iceberg.metadata.snapshots import Snapshot
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.transaction.table_commit import Committed, commit_policy, find_commit
from deltaberg.iceberg.updates import updates as changes
from deltaberg.iceberg.updates.new_table import new_metadata
from deltaberg.schema.types import Field, Primitive, Struct
from deltaberg.storage.base import PutOutcome
from deltaberg.storage.location import parse_location
from deltaberg.storage.stores import StoreSpec
from deltaberg.table.commit.commit import ClockedPolicy
from tests.iceberg.faulty_store import FaultySpec, Reply
from tests.support.iceberg_commits import commit_table

pytestmark = pytest.mark.one_backend

_COLUMN = Field("id", Primitive("long"), id=1)
_clock = count(1_800_000_000_000)
#: No two commits have the same time.
_POLICY = ClockedPolicy(retries=4, wait=lambda _: None, now=lambda: next(_clock))


class _Table:
    """A table in a directory, to which a writer and its competitors commit."""

    def __init__(self, root: Path, properties: dict[str, str] | None = None, version: int = 2) -> None:
        self.root = root
        self.location = parse_location(str(root))
        raw = new_metadata(
            Schema(Struct((_COLUMN,))),
            location=str(root),
            properties=properties,
            format_version=version,
            now_ms=1_700_000_000_000,
        )
        committer = self.committer()
        self.created = commit_table(committer, lambda _: ([], None), staged=committer.stage(raw), policy=_POLICY)

    def committer(self, *script: Reply) -> DirectoryCommitter:
        """Return what commits, by a store that follows a script."""
        return DirectoryCommitter(self.location, FaultySpec({}, None, list(script)))

    def set(self, name: str, value: str = "1", policy: ClockedPolicy = _POLICY) -> Committed:
        """Set a property, as a competitor does."""
        return commit_table(self.committer(), lambda _: ([changes.SetProperties({name: value})], None), policy=policy)

    def add(
        self,
        number: int,
        *script: Reply,
        meanwhile: Callable[[], object] = lambda: None,
        policy: ClockedPolicy = _POLICY,
    ) -> Committed:
        """Add a snapshot; something else happens between the reading of the newest metadata and the put."""

        def make(metadata: TableMetadata) -> Any:
            meanwhile()
            parent, sequence = metadata.current_snapshot_id, metadata.last_sequence_number + 1
            rows = {"first_row_id": metadata.next_row_id, "added_rows": 1} if metadata.format_version == 3 else {}
            added = Snapshot(
                number,
                metadata.last_updated_ms,
                sequence if metadata.format_version > 1 else 0,
                parent,
                f"{metadata.location}/metadata/snap-{number}.avro",
                summary={"operation": "append"},
                **rows,  # type: ignore[arg-type] # two members of the snapshot
            )
            ref = changes.SetSnapshotRef("main", SnapshotRef(number, "branch"))
            return [changes.AddSnapshot(added), ref], None

        return commit_table(self.committer(*script), make, snapshot_id=number, policy=policy)

    @property
    def files(self) -> list[str]:
        """The names of the metadata files."""
        return sorted(file.name for file in (self.root / "metadata").glob("v*.json*"))

    @property
    def metadata(self) -> TableMetadata:
        """The newest metadata, as readers find it."""
        return FilePointer(self.location, StoreSpec()).load().metadata


@pytest.fixture
def table(tmp_path: Path) -> _Table:
    """A new table."""
    return _Table(tmp_path / "t")


@pytest.mark.req("ICE-COM-09", "ICE-META-04", half="writer")
@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_versions(tmp_path: Path, version: int, codec: str) -> None:
    table = _Table(tmp_path / "t", {"write.metadata.compression-codec": codec}, version)
    end = ".gz.metadata.json" if codec == "gzip" else ".metadata.json"
    found = [table.created, table.set("a"), table.add(7)]
    assert table.files == [f"v{number}{end}" for number in (1, 2, 3)]
    assert (table.root / "metadata" / "version-hint.text").read_text() == "3"
    assert [one.retries for one in found] == [0, 0, 0]
    assert [one.loaded.file.path.rpartition("/")[2] for one in found] == table.files
    opened = open_table(str(table.root), "iceberg")
    assert opened.format_version == version
    assert opened.snapshot_id == 7
    metadata = table.metadata
    assert [entry.metadata_file for entry in metadata.metadata_log] == [
        f"{table.root}/metadata/v{number}{end}" for number in (1, 2)
    ]
    assert metadata.last_updated_ms >= metadata.snapshot_log[-1].timestamp_ms
    assert metadata.last_sequence_number == (1 if version > 1 else 0)
    assert metadata.next_row_id == (1 if version == 3 else None)
    # Another codec is for new tables: a table keeps the spelling of its files.
    table.set("write.metadata.compression-codec", "none" if codec == "gzip" else "gzip")
    assert len(table.files) == 4
    assert table.files[-1] == f"v4{end}"
    with pytest.raises(TableExistsError, match="there is a table already"):
        _Table(tmp_path / "t")


@pytest.mark.req("ICE-GEN-02", half="writer")
def test_a_property_is_set_in_a_new_file(table: _Table) -> None:
    before = _read(table, "v1.metadata.json")
    table.set("a")
    assert table.files == ["v1.metadata.json", "v2.metadata.json"]
    assert (_read(table, "v1.metadata.json"), "a" in table.metadata.properties) == (before, True)


def _once(work: Callable[[], object]) -> Callable[[], object]:
    """Return something that works the first time only."""
    waiting = [work]
    return lambda: waiting.pop()() if waiting else None


@pytest.mark.req("ICE-COM-02", "ICE-COM-03", "ICE-COM-10", half="writer")
def test_the_loser_of_a_race_commits_the_next_version(table: _Table) -> None:
    found = table.add(7, meanwhile=_once(partial(table.add, 8)))
    assert found.retries == 1
    assert table.files == ["v1.metadata.json", "v2.metadata.json", "v3.metadata.json"]
    metadata = table.metadata
    assert [entry.snapshot_id for entry in metadata.snapshot_log] == [8, 7]
    assert metadata.snapshots[7].parent_snapshot_id == 8


@pytest.mark.parametrize("adds", [True, False])
def test_writers_in_the_same_millisecond_are_told_apart(table: _Table, adds: bool) -> None:
    """The file of another writer has the name and the time of ours, and so has the entry of the log."""
    policy = ClockedPolicy(wait=lambda _: None, now=lambda: 1_700_000_000_001)

    def others() -> None:
        for number in range(2):
            table.set(f"a{number}", policy=policy)

    if adds:
        result = table.add(7, meanwhile=_once(others), policy=policy)
    else:
        meanwhile = _once(others)

        def make(_: TableMetadata) -> Any:
            meanwhile()
            return [changes.SetProperties({"mine": "1"})], None

        result = commit_table(table.committer(), make, policy=policy)
    assert (result.retries, table.files[-1]) == (1, "v4.metadata.json")
    assert table.metadata.current_snapshot_id == (7 if adds else None)
    assert sorted(table.metadata.properties) == ["a0", "a1"] + ([] if adds else ["mine"])


@pytest.mark.req("ICE-COM-06", half="writer")
def test_two_writers_add_a_column(table: _Table) -> None:
    base = table.created.loaded.metadata

    def widen(name: str, meanwhile: Callable[[], object], _: TableMetadata) -> Any:
        meanwhile()
        wide = Schema(Struct((_COLUMN, Field(name, Primitive("long"), id=2))))
        updates = [changes.AddSchema(wide), changes.SetCurrentSchema()]
        return updates, changes_of(updates)

    def changes_of(updates: Any) -> Any:
        from deltaberg.iceberg.updates.requirements import requirements_of

        return requirements_of(base, updates)

    first = partial(commit_table, table.committer(), partial(widen, "a", lambda: None), policy=_POLICY)
    with pytest.raises(MetadataChangedError, match="another commit changed the table"):
        commit_table(table.committer(), partial(widen, "b", _once(first)), policy=_POLICY)
    assert table.metadata.current_schema.struct.names == ["id", "a"]
    assert table.files == ["v1.metadata.json", "v2.metadata.json"]


_LOST, _WRITTEN, _EXISTS = PutOutcome.UNKNOWN, PutOutcome.WRITTEN, PutOutcome.EXISTS


@pytest.mark.parametrize(
    "script",
    {
        "landed, no reply": [Reply(True, _LOST)],
        "did not land, no reply": [Reply(False, _LOST), Reply(False, _LOST), Reply(True, None)],
        "sent twice by a gateway": [Reply(True, _EXISTS)],
        "refused, nothing there": [Reply(False, _EXISTS)],
        "landed late": [Reply(False, _LOST), Reply(True, _EXISTS)],
    }.values(),
)
@pytest.mark.parametrize("adds", [True, False])
def test_a_commit_is_there_once(table: _Table, script: list[Reply], adds: bool) -> None:
    if adds:
        found = table.add(7, *script)
    else:
        make = lambda _: ([changes.SetProperties({"a": "b"})], None)  # noqa: E731 - as short as what is tested
        found = commit_table(table.committer(*script), make, policy=_POLICY)
    assert (found.committed, found.retries) == (True, 0)
    assert table.files == ["v1.metadata.json", "v2.metadata.json"]
    assert (table.metadata.current_snapshot_id, table.metadata.properties) == ((7, {}) if adds else (None, {"a": "b"}))


@pytest.mark.parametrize("answer", [None, _LOST, _EXISTS])
@pytest.mark.parametrize("deed", ["add", "set", "roll back"])
def test_a_commit_that_is_undone_before_anybody_looks(table: _Table, answer: PutOutcome | None, deed: str) -> None:
    """By the time of the newest metadata the snapshot is expired, the property has another value, or main went on."""
    table.add(5)
    table.add(6)
    back = changes.SetSnapshotRef("main", SnapshotRef(5, "branch"))
    ours: list[changes.Update] = [back if deed == "roll back" else changes.SetProperties({"a": "b"})]

    def others() -> None:
        table.add(8)
        table.set("a", "c")
        commit_table(table.committer(), lambda _: ([changes.RemoveSnapshots((7,))], None), policy=_POLICY)

    reply = Reply(True, answer, after=others)
    if deed == "add":
        found = table.add(7, reply)
    else:
        found = commit_table(table.committer(reply), lambda _: (ours, None), policy=_POLICY)
    assert (found.committed, found.retries, len(table.files)) == (True, 0, 7)
    assert (7 in table.metadata.snapshots, table.metadata.properties) == (False, {"a": "c"})


def test_a_race_lost_without_a_reply(table: _Table) -> None:
    found = table.add(7, Reply(False, _LOST, lambda: table.set("a")))
    assert (found.retries, table.files[-1]) == (1, "v3.metadata.json")


@pytest.mark.req("ICE-COM-12", half="writer")
def test_nobody_knows(table: _Table) -> None:
    with pytest.raises(CommitUnknownError, match="not known") as caught:
        table.add(7, *[Reply(False, _LOST)] * 6)
    assert caught.value.context["token"] == "7"
    assert find_commit(table.committer(), "7") is None
    table.add(7)
    assert find_commit(table.committer(), "7") is not None
    made = table.set("a")
    table.set("b")
    assert find_commit(table.committer(), made.token) is not None
    name, millis, digest = made.token.split("@")
    others = "".join(reversed(digest))
    # Another writer can have written a file of this name in the same millisecond.
    assert find_commit(table.committer(), f"{name}@{millis}@{others}") is None
    assert find_commit(table.committer(), f"{name}@{millis}0@{digest}") is None
    assert find_commit(table.committer(), f"{name}@{millis}") is not None
    with pytest.raises(InvalidArgumentError, match="is not the token"):
        find_commit(table.committer(), "x")
    with pytest.raises(StorageError, match="the store refuses"):
        table.add(9, Reply(False, None))


@pytest.mark.req("ICE-COM-13", half="writer")
def test_the_number_of_retries_follows_the_property(tmp_path: Path) -> None:
    table = _Table(tmp_path / "t", {"commit.retry.num-retries": "2", "commit.retry.min-wait-ms": "0"})
    policy = commit_policy(table.metadata.properties)
    assert (policy.retries, commit_policy({}).retries, commit_policy({}).pause) == (2, 4, 0.1)
    tried: list[int] = []

    def make(_: TableMetadata) -> Any:
        tried.append(1)
        table.set(f"a{len(tried)}")
        return [changes.SetProperties({"mine": "1"})], None

    with pytest.raises(CommitConflictError, match="3 times in a row"):
        commit_table(table.committer(), make, policy=ClockedPolicy(retries=policy.retries, wait=lambda _: None))
    assert len(tried) == 3
    with pytest.raises(InvalidArgumentError, match="must be a whole number"):
        commit_policy({"commit.retry.num-retries": "many"})


def test_attempts_end_after_the_time_that_the_property_says(tmp_path: Path) -> None:
    """The last attempt is finished; no other one begins."""
    table = _Table(tmp_path / "t", {"commit.retry.num-retries": "9", "commit.retry.total-timeout-ms": "0"})
    policy = commit_policy(table.metadata.properties)
    assert (policy.timeout, commit_policy({}).timeout) == (0, 1800)
    tried: list[int] = []

    def make(_: TableMetadata) -> Any:
        tried.append(1)
        table.set(f"a{len(tried)}")
        return [changes.SetProperties({"mine": "1"})], None

    with pytest.raises(CommitConflictError, match="other writers committed first"):
        commit_table(table.committer(), make)
    assert len(tried) == 1
    with pytest.raises(InvalidArgumentError, match="must be a whole number"):
        commit_policy({"commit.retry.total-timeout-ms": "-1"})


@pytest.mark.parametrize("kept", ["1", "9"])
def test_a_file_in_a_gap_is_no_commit(tmp_path: Path, kept: str) -> None:
    """Others commit and clean up while the put is on its way, so that it lands where nobody looks any more."""
    names = ("write.metadata.previous-versions-max", "write.metadata.delete-after-commit.enabled")
    table = _Table(tmp_path / "t", dict(zip(names, (kept, "true"), strict=True)))

    def others() -> None:
        for number in range(4):
            table.set(f"a{number}")
        (table.root / "metadata" / "v2.metadata.json").unlink(missing_ok=True)

    def make(_: TableMetadata) -> Any:
        return [changes.SetProperties({"mine": "1"})], None

    if kept == "1":
        # The log is too short to tell whose the version was.
        with pytest.raises(CommitUnknownError, match="the table shows neither it nor what took its place"):
            commit_table(table.committer(Reply(True, None, others)), make, policy=_POLICY)
        assert "v2.metadata.json" in table.files
    else:
        found = commit_table(table.committer(Reply(True, None, others)), make, policy=_POLICY)
        assert (found.retries, table.files[-1], "v2.metadata.json" in table.files) == (1, "v6.metadata.json", False)
        assert sorted(table.metadata.properties)[:5] == ["a0", "a1", "a2", "a3", "mine"]


def test_a_gap_and_two_commits_in_one_millisecond(tmp_path: Path) -> None:
    table = _Table(tmp_path / "t")
    policy = ClockedPolicy(wait=lambda _: None, now=lambda: 1_700_000_000_001)

    def others() -> None:
        for number in range(2):
            table.set(f"a{number}", policy=policy)
        (table.root / "metadata" / "v2.metadata.json").unlink()

    with pytest.raises(CommitUnknownError, match="the table shows neither it nor what took its place"):
        commit_table(
            table.committer(Reply(True, None, others)),
            lambda _: ([changes.SetProperties({"mine": "1"})], None),
            policy=policy,
        )


def test_a_gap_is_no_reason_to_doubt_a_snapshot(tmp_path: Path) -> None:
    names = ("write.metadata.previous-versions-max", "write.metadata.delete-after-commit.enabled")
    table = _Table(tmp_path / "t", dict(zip(names, ("1", "true"), strict=True)))

    def others() -> None:
        for number in range(4):
            table.set(f"a{number}")

    # Nobody took the sequence number, so the snapshot has not landed.
    assert table.add(7, Reply(True, None, others)).retries == 1
    assert table.metadata.current_snapshot_id == 7
    assert table.files == ["v5.metadata.json", "v6.metadata.json"]


def test_two_spellings_of_a_version(table: _Table) -> None:
    other = table.root / "metadata" / "v2.gz.metadata.json"
    with pytest.raises(CommitUnknownError, match="version 2 has two metadata files"):
        table.add(7, Reply(True, None, lambda: other.write_bytes(b"{}")))
    with pytest.raises(CorruptMetadataError, match="has two metadata files"):
        table.set("a")


def test_tables_that_are_not_written_to(table: _Table, tmp_path: Path) -> None:
    for name, value in (("write.metadata.path", "/elsewhere"),):
        with pytest.raises(InvalidArgumentError, match="only applies to tables of catalogs"):
            table.set(name, value)
    with pytest.raises(InvalidArgumentError, match="is not the directory"):
        commit_table(table.committer(), lambda _: ([changes.SetLocation("/elsewhere")], None), policy=_POLICY)
    with pytest.raises(UnsupportedFeatureError, match="opened by one of its metadata files"):
        FilePointer(table.location.join("metadata/v1.metadata.json"), StoreSpec()).committer()
    managed = tmp_path / "managed" / "metadata"
    managed.mkdir(parents=True)
    (managed / "00000-7f1c.metadata.json").write_text("{}")
    empty = FilePointer(parse_location(str(tmp_path / "empty")), StoreSpec())
    with pytest.raises(UnsupportedFeatureError, match="a catalog keeps this table"):
        commit_table(FilePointer(parse_location(str(managed.parent)), StoreSpec()).committer(), lambda _: None)
    with pytest.raises(TableNotFoundError, match="does not exist any more under its name"):
        commit_table(empty.committer(), lambda _: None)
    nothing = commit_table(table.committer(), lambda _: None, policy=_POLICY)
    assert (nothing.committed, nothing.loaded.metadata.raw) == (False, json.loads(_read(table, "v1.metadata.json")))


def _read(table: _Table, name: str) -> str:
    return (table.root / "metadata" / name).read_text()


@pytest.mark.parametrize("times", [1, 6])
def test_a_success_that_no_store_has_said(table: _Table, times: int) -> None:
    """The listing after the put does not show the file: what has answered is no store, and the file is put again."""
    replies = [Reply(False, PutOutcome.WRITTEN)] * times
    if times == 1:
        assert table.add(7, *replies).loaded.metadata.current_snapshot_id == 7
        assert table.metadata.current_snapshot_id == 7
        return
    with pytest.raises(CommitUnknownError, match="does not show what it says it has") as caught:
        table.add(7, *replies)
    assert caught.value.context["token"] == "7"
    assert table.files == ["v1.metadata.json"]
