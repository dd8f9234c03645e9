"""Compaction: small files are put together and deleted rows dropped, and nobody sees other rows than before."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from deltaberg import DeltaTable, create_table
from deltaberg.errors import (
    CommitConflictError,
    ConcurrentDeleteDeleteError,
    CorruptDataFileError,
    MetadataChangedError,
    StorageError,
    UnsupportedFeatureError,
)
from deltaberg.storage.local import LocalStorage
from deltaberg.table.change import changed_rows
from deltaberg.table.read.bound import BoundScan
from deltaberg.table.write.write import write_files
from tests.support.delta_builder import DeltaBuilder
from tests.support.rows import ID, ids, ids_of

_TRACKED = ["id", "_metadata.row_id", "_metadata.row_commit_version"]


def _actions(table: DeltaTable, version: int | None = None) -> dict[str, list[dict[str, Any]]]:
    path = Path(table.location.removeprefix("file://")) / "_delta_log"
    found: dict[str, list[dict[str, Any]]] = {}
    for line in (path / f"{table.version if version is None else version:020d}.json").read_text().splitlines():
        ((name, body),) = json.loads(line).items()
        found.setdefault(name, []).append(body)
    return found


def _table(root: Path, count: int, **arguments: Any) -> DeltaTable:
    table: DeltaTable = create_table(root, ID, **arguments)
    for number in range(count):
        table.append(ids(2 * number, 2 * number + 1))
    return table


@pytest.mark.req("DL-ACT-12", half="writer")
@pytest.mark.req("DL-OPT-02")
def test_ten_files_become_one(tmp_path: Path) -> None:
    table = _table(tmp_path, 10, properties={"delta.enableChangeDataFeed": "true"})
    before = table.scan().to_arrow().to_pylist()
    done = table.compact(user_metadata="nightly")
    assert (done.removed_files, done.added_files, len(done.commits), done.conflicts) == (10, 1, 1, [])
    actions = _actions(table)
    assert len(actions["add"]) == 1
    assert len(actions["remove"]) == 10
    assert not any(action["dataChange"] for action in [*actions["add"], *actions["remove"]])
    assert json.loads(actions["add"][0]["stats"]) == {
        "numRecords": 20,
        "minValues": {"id": 0},
        "maxValues": {"id": 19},
        "nullCount": {"id": 0},
    }
    # The rows are in the order in which they were written.
    assert table.scan().to_arrow()["id"].to_pylist() == sorted(row["id"] for row in before)
    assert table.changes(table.version).count() == 0
    assert DeltaTable(tmp_path, version=table.version - 1).scan().to_arrow().to_pylist() == before
    info = actions["commitInfo"][0]
    assert (info["operation"], info["isolationLevel"], info["isBlindAppend"]) == (
        "OPTIMIZE",
        "SnapshotIsolation",
        False,
    )
    assert info["operationParameters"] == {"predicate": "[]", "zOrderBy": "[]", "clusterBy": "[]", "auto": "false"}
    assert info["userMetadata"] == "nightly"
    size = actions["add"][0]["size"]
    assert info["operationMetrics"] == {
        "numRemovedFiles": "10",
        "numRemovedBytes": str(sum(action["size"] for action in actions["remove"])),
        "numAddedFiles": "1",
        "numAddedBytes": str(size),
        "numDeletionVectorsRemoved": "0",
        **dict.fromkeys(("minFileSize", "p25FileSize", "p50FileSize", "p75FileSize", "maxFileSize"), str(size)),
    }
    # There is nothing left to do.
    version = table.version
    assert table.compact().groups == ()
    assert table.version == version
    # Where rows go, the commit says so.
    table.delete("id = 3")
    actions = _actions(table)
    assert all(action["dataChange"] for action in [*actions["add"], *actions["remove"]])


@pytest.mark.req("DL-CON-02")
def test_a_table_that_only_grows(tmp_path: Path) -> None:
    table = _table(tmp_path, 3, properties={"delta.appendOnly": "true"})
    assert table.compact().removed_files == 3
    assert ids_of(table) == [0, 1, 2, 3, 4, 5]


def test_deleted_rows_are_dropped(builder: DeltaBuilder) -> None:
    large = ids(*range(40))
    adds = [
        builder.add(ids(100, 101, 102), stats="full", vector=builder.vector([1])),
        builder.add(ids(200), stats="full", vector=builder.vector([0])),
        builder.add(large, stats="full", vector=builder.vector([0, 1, 2]), path="bad.parquet"),
        builder.add(large, stats="full", vector=builder.vector([5]), path="good.parquet"),
    ]
    builder.create(ID, *adds, protocol=builder.features("deletionVectors"))
    table = DeltaTable(builder.root)
    before = ids_of(table)
    size = min(action["add"]["size"] for action in adds[2:])
    done = table.compact(target_file_size=size)
    # The two small files do not fit together with the others.
    (group,) = done.groups
    assert (group.files, group.commit and group.commit.metrics["numDeletionVectorsRemoved"]) == (3, 3)
    assert ids_of(table) == before
    left = {row["path"]: row["deletionVector"] for row in table.live_files.to_pylist()}
    assert left.pop("good.parquet") is not None
    assert set(left.values()) == {None}
    assert "bad.parquet" not in left
    stats = [json.loads(action["stats"]) for action in _actions(table)["add"]]
    assert sorted(one["numRecords"] for one in stats) == [2, 37]
    assert all(one["tightBounds"] is True for one in stats)
    assert min(one["minValues"]["id"] for one in stats) == 3


def test_a_file_of_deleted_rows_leaves_nothing(builder: DeltaBuilder) -> None:
    adds = [builder.add(ids(number), stats="full", vector=builder.vector([0])) for number in range(2)]
    builder.create(ID, *adds, protocol=builder.features("deletionVectors"))
    table = DeltaTable(builder.root)
    done = table.compact()
    assert (done.removed_files, done.added_files) == (2, 0)
    assert table.scan().count() == 0


def test_each_group_is_a_commit(tmp_path: Path) -> None:
    table = _table(tmp_path, 6)
    size = table.live_files["size"][0].as_py()
    done = table.compact(target_file_size=2 * size, group_size=2 * size)
    assert [(group.files, group.commit and group.commit.version) for group in done.groups] == [(2, 7), (2, 8), (2, 9)]
    assert (done.removed_files, done.removed_bytes) == (6, 6 * size)
    assert ids_of(table) == list(range(12))


@pytest.mark.req("DL-OPT-10")
@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_what_was_committed_stays_where_the_rest_is_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: Literal["delta", "iceberg"]
) -> None:
    """Run again, it goes on with the groups that are left."""
    table: Any = create_table(tmp_path, pa.schema([*ID, ("p", pa.int64())]), format=format, partition_by="p")
    for part in range(3):
        for number in range(2):
            table.append(pa.table({"id": [2 * part + number], "p": [part]}))
    left = [0, 1]

    def interrupted(*arguments: Any, **named: Any) -> pa.Table:
        if not left:
            raise KeyboardInterrupt
        left.pop()
        return write_files(*arguments, **named)

    monkeypatch.setattr(changed_rows, "write_files", interrupted)
    with pytest.raises(KeyboardInterrupt):
        table.compact(group_size=1)
    monkeypatch.undo()
    assert ids_of(table.refresh()) == list(range(6))
    assert table.scan().files().num_rows == 4
    done = table.compact(group_size=1)
    assert (done.removed_files, done.added_files) == (2, 1)
    assert ids_of(table) == list(range(6))


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_an_error_says_which_groups_are_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: Literal["delta", "iceberg"]
) -> None:
    table: Any = create_table(tmp_path, pa.schema([*ID, ("p", pa.int64())]), format=format, partition_by="p")
    for number in range(2):
        table.append(pa.table({"id": [number] * 3, "p": [0, 1, 2]}))
    left = [0, 1]

    def failing(*arguments: Any, **named: Any) -> pa.Table:
        if not left:
            raise StorageError("no space", path="x")
        left.pop()
        return write_files(*arguments, **named)

    monkeypatch.setattr(changed_rows, "write_files", failing)
    with pytest.raises(StorageError, match="no space") as raised:
        table.compact(group_size=1)
    last = 4 if format == "delta" else 5
    assert raised.value.context["committed"] == f"2 of 3 groups, the last one as version {last}"
    assert table.refresh().scan().files().num_rows == 4
    with pytest.raises(StorageError, match="no space") as raised:
        table.compact(group_size=1)
    assert "committed" not in raised.value.context


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_an_error_behind_a_conflict_says_which_groups_are_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: Literal["delta", "iceberg"]
) -> None:
    """A group that loses to another change is left. The table is opened anew for the next one, which can fail, too."""
    table: Any = create_table(tmp_path, pa.schema([*ID, ("p", pa.int64())]), format=format, partition_by="p")
    for number in range(2):
        table.append(pa.table({"id": [number] * 3, "p": [0, 1, 2]}))
    left, refresh = [0], type(table).refresh

    def losing(*arguments: Any, **named: Any) -> pa.Table:
        if not left:
            raise CommitConflictError("another change took the files")
        left.pop()
        return write_files(*arguments, **named)

    def failing(table: Any) -> Any:
        if not left:
            raise StorageError("the store is away")
        return refresh(table)

    monkeypatch.setattr(changed_rows, "write_files", losing)
    monkeypatch.setattr(type(table), "refresh", failing)
    with pytest.raises(StorageError, match="the store is away") as raised:
        table.compact(group_size=1)
    monkeypatch.undo()
    last = 3 if format == "delta" else 4
    assert raised.value.context["committed"] == f"1 of 3 groups, the last one as version {last}"
    assert table.refresh().scan().files().num_rows == 5


@pytest.mark.req("DL-OPT-11")
def test_statistics_are_exact(builder: DeltaBuilder) -> None:
    """Bounds and counts are those of the rows that are left, whatever the old files said of theirs."""
    columns = pa.schema([*ID, ("x", pa.float64()), ("t", pa.string())])
    rows = [
        {"id": number, "x": None if number % 3 == 0 else number / 8, "t": None if number % 4 == 1 else f"t{number:02}"}
        for number in range(24)
    ]
    adds = [
        builder.add(pa.Table.from_pylist(rows[start : start + 8], columns), stats="full", vector=builder.vector(gone))
        for start, gone in ((0, [0, 7]), (8, [1]), (16, [0, 1, 6, 7]))
    ]
    builder.create(columns, *adds, protocol=builder.features("deletionVectors"))
    table = DeltaTable(builder.root)
    table.compact()
    (add,) = _actions(table)["add"]
    stored = pq.read_table(builder.root / add["path"])
    assert stored.num_rows == table.scan().count() == 24 - 7
    stats = json.loads(add["stats"])
    assert (stats["numRecords"], stats["tightBounds"]) == (17, True)
    for name in columns.names:
        least, most = pc.min_max(stored[name]).as_py().values()
        assert (stats["minValues"][name], stats["maxValues"][name]) == (least, most)
        assert stats["nullCount"][name] == stored[name].null_count


def _interfere(monkeypatch: pytest.MonkeyPatch, *others: Callable[[], object]) -> None:
    """Let something else happen after the rows of each new file are written, as long as there is something."""
    left = list(others)

    def written(*arguments: Any, **named: Any) -> pa.Table:
        found = write_files(*arguments, **named)
        if left:
            left.pop(0)()
        return found

    monkeypatch.setattr(changed_rows, "write_files", written)


def test_an_append_beside_it_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _table(tmp_path, 3)
    _interfere(monkeypatch, lambda: DeltaTable(tmp_path).append(ids(50)))
    done = table.compact()
    assert [commit.retries for commit in done.commits] == [0]
    assert done.removed_files == 3
    assert ids_of(table) == [0, 1, 2, 3, 4, 5, 50]


def test_a_conflict_costs_one_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    columns = pa.schema([("id", pa.int64()), ("p", pa.string())])
    table = create_table(tmp_path, columns, partition_by="p")
    # Files are taken in the order in which they were written.
    for partition in "abc":
        for number in range(2):
            table.append(pa.table({"id": [number], "p": [partition]}))
    new = pa.table({"id": [9], "p": ["a"]})
    gone = pa.table({"id": [8], "p": ["b"]})
    _interfere(
        monkeypatch,
        # The first group loses its files after they were read, the second one before.
        lambda: [DeltaTable(tmp_path).overwrite(rows, where=f"p = '{rows['p'][0]}'") for rows in (new, gone)],
    )
    done = table.compact(group_size=1)
    assert [type(conflict) for conflict in done.conflicts] == [ConcurrentDeleteDeleteError] * 2
    assert [group.commit is not None for group in done.groups] == [False, False, True]
    assert sorted((row["p"], row["id"]) for row in table.scan().to_arrow().to_pylist()) == [
        ("a", 9),
        ("b", 8),
        ("c", 0),
        ("c", 1),
    ]
    # What was written for the group in vain is deleted.
    assert len(list(tmp_path.rglob("*.parquet"))) == 6 + 2 + 1


def test_rows_that_others_delete_before_their_group_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A later group is read with the rows that are deleted by then, whatever they were when it was planned."""
    columns = pa.schema([("id", pa.int64()), ("p", pa.string())])
    table = create_table(tmp_path, columns, partition_by="p", properties={"delta.enableDeletionVectors": "true"})
    for partition in "ab":
        for number in range(2):
            table.append(pa.table({"id": [number, number + 10], "p": [partition] * 2}))
    _interfere(monkeypatch, lambda: DeltaTable(tmp_path).delete("p = 'b' AND id = 10"))
    done = table.compact(group_size=1)
    assert [group.commit is not None for group in done.groups] == [True, True]
    live = table.refresh().live_files.to_pylist()
    assert sorted(dict(row["partitionValues"])["p"] for row in live) == ["a", "b"]
    assert [row["deletionVector"] for row in live] == [None, None]
    assert table.scan("p = 'b'").to_arrow().sort_by("id")["id"].to_pylist() == [0, 1, 11]


def test_other_columns_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _table(tmp_path, 2)
    _interfere(monkeypatch, lambda: DeltaTable(tmp_path).alter().add("x", pa.string()).commit())
    (conflict,) = table.compact().conflicts
    assert isinstance(conflict, MetadataChangedError)
    assert table.compact().removed_files == 2
    assert table.scan().to_arrow().column_names == ["id", "x"]


@pytest.mark.req("DL-RT-23")
@pytest.mark.req("DL-OPT-03")
@pytest.mark.req("DL-RT-01", half="writer")
@pytest.mark.parametrize("mode", ["none", "name", "id"])
def test_rows_keep_their_ids(tmp_path: Path, mode: str) -> None:
    """Also a second time, when ids come from the materialized columns; new rows get ids that nobody has."""
    properties = {"delta.enableRowTracking": "true", "delta.columnMapping.mode": mode}
    table = _table(tmp_path, 3, properties=properties)
    before = table.scan(columns=_TRACKED).to_arrow().sort_by("id")
    table.compact()
    assert table.scan(columns=_TRACKED).to_arrow().sort_by("id") == before
    assert _actions(table)["commitInfo"][0]["tags"] == {"delta.rowTracking.preserved": "true"}
    table.append(ids(70))
    before = table.scan(columns=_TRACKED).to_arrow().sort_by("id")
    assert table.compact().removed_files == 2
    assert table.scan(columns=_TRACKED).to_arrow().sort_by("id") == before
    assert len(set(before["_metadata"].combine_chunks().field("row_id").to_pylist())) == len(before)
    (add,) = _actions(table)["add"]
    assert add["baseRowId"] > max(before["_metadata"].combine_chunks().field("row_id").to_pylist())
    stored = pq.read_schema(next(tmp_path.rglob(add["path"].rpartition("/")[2]))).names
    hidden = {name for key, name in table.properties.items() if key.startswith("delta.rowTracking.materialized")}
    assert hidden < set(stored)
    assert table.scan().to_arrow().column_names == ["id"]
    assert hidden.isdisjoint(json.loads(add["stats"])["minValues"])


@pytest.mark.req("DL-RT-23")
@pytest.mark.req("DL-OPT-03")
@pytest.mark.req("DL-RT-01", half="writer")
def test_ids_that_nobody_may_rely_on(tmp_path: Path) -> None:
    """Where row tracking is only supported, rows get fresh ids, and the commit says that they lost theirs."""
    table = _table(tmp_path, 2, properties={"delta.feature.rowTracking": "supported"})
    assert all(action["baseRowId"] is not None for action in _actions(table, 1)["add"])
    assert _actions(table, 2)["commitInfo"][0]["tags"] == {"delta.rowTracking.preserved": "true"}
    table.compact()
    actions = _actions(table)
    assert actions["commitInfo"][0]["tags"] == {"delta.rowTracking.preserved": "false"}
    assert actions["add"][0]["baseRowId"] == 4
    stored = pq.read_schema(tmp_path / actions["add"][0]["path"]).names
    assert stored == ["id"]
    with pytest.raises(Exception, match="not enabled"):
        table.scan(columns=_TRACKED).to_arrow()


def test_ids_without_columns_to_keep_them(builder: DeltaBuilder) -> None:
    adds = [builder.add(ids(number), stats="full", baseRowId=number, defaultRowCommitVersion=0) for number in (0, 1)]
    protocol = builder.protocol(1, 7, None, ["rowTracking", "domainMetadata"])
    builder.create(ID, *adds, protocol=protocol, configuration={"delta.enableRowTracking": "true"})
    table = DeltaTable(builder.root)
    with pytest.raises(UnsupportedFeatureError, match="does not name the columns"):
        table.compact()
    assert table.refresh().version == 0


def test_a_store_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    columns = pa.schema([("id", pa.int64()), ("p", pa.int64())])
    table = create_table(tmp_path, columns, partition_by="p")
    for number in range(2):
        table.append(pa.table({"id": [number] * 3, "p": [0, 1, 2]}))
    files = set(tmp_path.rglob("*.parquet"))
    opened, open_output = [0], LocalStorage.open_output

    def failing(store: LocalStorage, path: str) -> Any:
        opened[0] += 1
        if opened[0] > 2:
            raise StorageError("no space")
        return open_output(store, path)

    monkeypatch.setattr(LocalStorage, "open_output", failing)
    with pytest.raises(StorageError, match="no space"):
        table.compact()
    assert set(tmp_path.rglob("*.parquet")) == files
    assert table.refresh().version == 2


@pytest.mark.one_backend
@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_the_files_of_all_bins_are_looked_up_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: Literal["delta", "iceberg"]
) -> None:
    """Each look-up goes through all files of the table, of which there may be many."""
    table: Any = create_table(tmp_path, pa.schema([*ID, ("p", pa.int64())]), format=format, partition_by="p")
    for _ in range(2):
        table.append(pa.table({"id": [1, 2, 3, 4], "p": [1, 2, 3, 4]}))
    looked: list[int] = []
    index_in = pc.index_in

    def counted(values: Any, value_set: Any) -> Any:
        looked.append(len(values))
        return index_in(values, value_set=value_set)

    monkeypatch.setattr(pc, "index_in", counted)
    assert table.compact().added_files == 4
    assert looked.count(8) == 1
    assert 2 not in looked
    assert ids_of(table) == [1, 1, 2, 2, 3, 3, 4, 4]


@pytest.mark.req("ICE-MNT-14")
@pytest.mark.parametrize(
    ("version", "lost_by"),
    [
        *((version, lost_by) for version in (1, 2, 3) for lost_by in ("the reading", "the writing")),
        # The counts of a Delta table may be wrong, so that reading is trusted.
        (None, "the writing"),
    ],
)
def test_rows_that_are_lost_on_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int | None, lost_by: str
) -> None:
    """They are missed before the commit, of which nothing is left."""
    properties = {} if version is None else {"format-version": str(version)}
    table: Any = create_table(tmp_path, ID, format="delta" if version is None else "iceberg", properties=properties)
    for number in range(3):
        table.append(ids(number, number + 10))
    if version == 3:
        table.delete("id = 2", strategy="merge-on-read")
    before, files = ids_of(table), set(tmp_path.rglob("*.parquet"))
    batches_of = BoundScan.batches

    def read(scan: BoundScan) -> Any:
        first, *others = batches_of(scan)
        yield first.slice(1)
        yield from others

    def written(rows: pa.RecordBatchReader, *arguments: Any, **named: Any) -> pa.Table:
        left = rows.read_all().slice(1)
        return write_files(left.to_reader(), *arguments, **named)

    if lost_by == "the reading":
        monkeypatch.setattr(BoundScan, "batches", read)
    else:
        monkeypatch.setattr(changed_rows, "write_files", written)
    count = len(before)
    with pytest.raises(CorruptDataFileError, match=f"have {count - 1} rows, and those .* replace {count}"):
        table.compact()
    monkeypatch.undo()
    assert ids_of(table.refresh()) == before
    assert set(tmp_path.rglob("*.parquet")) == files
    assert table.compact().removed_files == 3
    assert ids_of(table) == before
