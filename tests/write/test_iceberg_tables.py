"""Iceberg tables in plain directories: created, appended to, replaced, altered, and read by pyiceberg, too."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyiceberg.table import StaticTable

from deltaberg import create_table, open_table, write_table
from deltaberg.errors import (
    ColumnNotFoundError,
    CommitConflictError,
    ConcurrentAppendError,
    ConstraintViolationError,
    InvalidArgumentError,
    MetadataChangedError,
    SchemaError,
    TableExistsError,
    UnsupportedFeatureError,
)
from deltaberg.iceberg import IcebergTable
from deltaberg.iceberg.manifests.fields import WHOLE_ENTRIES
from deltaberg.table.commit.commit import CommitPolicy
from tests.support.racing import racing
from tests.support.rows import ID, ids

pytestmark = pytest.mark.one_backend

_VERSIONS = pytest.mark.parametrize("version", ["1", "2", "3"])
_COLUMNS = pa.schema([pa.field("id", pa.int64(), nullable=False), ("name", pa.string()), ("d", pa.date32())])
_JANUARY, _FEBRUARY = dt.date(2020, 1, 7), dt.date(2020, 2, 2)


def _rows(*ids: int, d: dt.date | None = _JANUARY) -> pa.Table:
    return pa.table({"id": ids, "name": [f"n{number}" for number in ids], "d": pa.array([d] * len(ids), pa.date32())})


def _new(root: Path, version: str = "2", **more: Any) -> IcebergTable:
    properties: Mapping[str, str] = {"format-version": version, **more.pop("properties", {})}
    table: IcebergTable = create_table(root / "t", _COLUMNS, format="iceberg", properties=properties, **more)
    return table


def _ids(table: Any) -> list[int]:
    found: list[int] = sorted(table.scan().to_arrow()["id"].to_pylist())
    return found


def _as_pyiceberg_reads(root: Path) -> list[int]:
    newest = open_table(root / "t", "iceberg").metadata_location
    rows = StaticTable.from_metadata(newest).scan().to_arrow()
    mine = open_table(root / "t", "iceberg", validate=True).scan().to_arrow()
    names = ["id", *(name for name in mine.column_names if name != "id")]
    assert rows.select(names).sort_by("id").to_pylist() == mine.select(names).sort_by("id").to_pylist()
    return sorted(rows["id"].to_pylist())


def _entries(table: IcebergTable) -> list[tuple[int, int | None, int | None, str]]:
    """Return status, snapshot and sequence number of the entries of all manifests, in the order of the list."""
    source = table._source
    entries = []
    for row in source.manifests.to_pylist():
        (read,) = source.reader.read([row], WHOLE_ENTRIES)
        columns = ("status", "snapshot_id", "sequence_number", "file_path")
        entries += list(zip(*(read.table.column(name).to_pylist() for name in columns), strict=True))
    return entries


@pytest.mark.req("ICE-SNAP-01", "ICE-SNAP-02", "ICE-SNAP-03", "ICE-SNAP-05", "ICE-SEQ-01", half="writer")
@_VERSIONS
def test_rows_are_appended_and_replaced(tmp_path: Path, version: str) -> None:
    table = _new(tmp_path, version)
    assert (table.snapshot, table.scan().to_arrow().num_rows) == (None, 0)
    first = table.append(_rows(1, 2))
    assert (first.operation, first.added_files, first.added_rows, first.version) == ("append", 1, 2, 2)
    assert first.snapshot_id == table.snapshot_id == int(first.token)
    assert _as_pyiceberg_reads(tmp_path) == [1, 2]
    before = [row["manifest_path"] for row in table._source.manifests.to_pylist()]
    second = table.append(pa.table({"d": [None], "id": pa.array([3], pa.int32())}), properties={"job": "x"})
    after = [row["manifest_path"] for row in table._source.manifests.to_pylist()]
    assert after[1:] == before
    third = table.overwrite(_rows(9))
    assert (third.operation, third.added_files, third.removed_files) == ("overwrite", 1, 2)
    assert _as_pyiceberg_reads(tmp_path) == [9]
    assert _ids(open_table(tmp_path / "t", "iceberg", snapshot_id=second.snapshot_id)) == [1, 2, 3]
    raw = [dict(snapshot.raw) for snapshot in table.snapshots]
    assert "parent-snapshot-id" not in raw[0]
    assert [snapshot.get("parent-snapshot-id") for snapshot in raw[1:]] == [first.snapshot_id, second.snapshot_id]
    assert [snapshot.get("sequence-number") for snapshot in raw] == ([None] * 3 if version == "1" else [1, 2, 3])
    assert all("manifests" not in snapshot for snapshot in raw)
    assert raw[1]["summary"]["job"] == "x"
    totals = [snapshot["summary"]["total-records"] for snapshot in raw]
    assert totals == ["2", "3", "1"]
    assert raw[2]["summary"]["deleted-records"] == "3"


@pytest.mark.req("ICE-MAN-07", "ICE-MAN-08", "ICE-MAN-09", "ICE-SEQ-03", "ICE-SEQ-04", half="writer")
@_VERSIONS
def test_partitions_are_replaced(tmp_path: Path, version: str) -> None:
    table = _new(tmp_path, version, partition_by=["month(d)", "bucket(2, id)"])
    first = table.append(pa.concat_tables([_rows(1, 2, 3), _rows(4, d=_FEBRUARY), _rows(5, d=None)]))
    kept = {path: number for _, _, number, path in _entries(table)}
    replaced = table.overwrite(_rows(6), where="d >= '2020-01-01' AND d < '2020-02-01'")
    assert _ids(table) == [4, 5, 6]
    numbers = (0, 0) if version == "1" else (1, 2)
    for status, snapshot, number, path in _entries(table):
        if status == 1:
            assert (snapshot, number) == (replaced.snapshot_id, numbers[1])
        else:
            assert snapshot == (first.snapshot_id if status == 0 else replaced.snapshot_id)
            assert number == kept[path] == numbers[0]
    assert sorted(status for status, *_ in _entries(table)) == [0, 0, 1, *[2] * replaced.removed_files]
    table.overwrite(_rows(7, 8), dynamic=True)
    assert 4 in _ids(table)
    assert {7, 8} <= set(_ids(table))
    assert 2 not in [status for status, *_, path in _entries(table) if path in kept and "2020-02" in path]
    removed = table.delete("d >= '2020-02-01'")
    assert (removed.operation, removed.removed_files) == ("delete", 1)
    assert 4 not in _as_pyiceberg_reads(tmp_path)
    assert table.delete("d >= '2021-01-01'").committed is False
    assert table.delete("name = 'n7'").operation in ("delete", "overwrite")
    assert 7 not in _ids(table)
    with pytest.raises(ConstraintViolationError, match="the filter of the rows to be replaced: d="):
        table.overwrite(_rows(3, d=_FEBRUARY), where="d < '2020-02-01'")
    assert table.delete(None).operation == "delete"
    assert _as_pyiceberg_reads(tmp_path) == []


@pytest.mark.req("ICE-PART-05", "ICE-PART-06", "ICE-PART-09", half="writer")
@_VERSIONS
def test_the_partitioning_changes_for_new_files(tmp_path: Path, version: str) -> None:
    table = _new(tmp_path, version, partition_by="bucket(16, id)")
    table.append(_rows(1))
    table.alter().partition_by("bucket(32, id)").commit()
    table.append(_rows(2))
    assert [row["partition_spec_id"] for row in table._source.manifests.to_pylist()] == [1, 0]
    ids = [[part.field_id for part in spec.fields] for spec in table.metadata.specs.values()]
    assert ids == ([[1000], [1000, 1001]] if version == "1" else [[1000], [1001]])
    assert _as_pyiceberg_reads(tmp_path) == [1, 2]
    table.alter().partition_by().commit()
    table.append(_rows(3))
    assert _as_pyiceberg_reads(tmp_path) == [1, 2, 3]


def test_columns_change_under_their_ids(tmp_path: Path) -> None:
    table = _new(tmp_path)
    table.append(_rows(1))
    change = table.alter().rename("name", "title").drop_not_null("id").add("s", pa.struct({"x": pa.int32()}))
    change.move("title", first=True).comment("title", "a title").commit()
    assert [(child.name, child.id, child.nullable) for child in table.schema] == [
        ("title", 2, True),
        ("id", 1, True),
        ("d", 3, True),
        ("s", 4, True),
    ]
    table.alter().widen("s.x", pa.int64()).add("s.y", pa.list_(pa.string()), first=True).commit()
    table.append(
        pa.table({"id": [2], "title": ["t"], "s": [{"x": 1 << 40, "y": ["a"]}], "e": [1.5]}), schema_mode="merge"
    )
    assert _as_pyiceberg_reads(tmp_path) == [1, 2]
    table.alter().drop("s", "e").set({"owner": "ada", "format-version": 3}).commit()
    assert (table.format_version, table.properties) == (3, {"owner": "ada"})
    assert table.schema.names == ["title", "id", "d"]
    table.append(pa.table({"id": [3]}))
    assert _as_pyiceberg_reads(tmp_path) == [1, 2, 3]
    table.overwrite(pa.table({"id": [4], "title": [1]}), schema_mode="overwrite")
    assert table.schema.fields[0].id == 1
    assert _as_pyiceberg_reads(tmp_path) == [4]
    with pytest.raises(SchemaError, match="cannot become"):
        table.alter().widen("id", pa.int32())
    with pytest.raises(ColumnNotFoundError, match="no column 'nope'"):
        table.alter().drop("nope")


@pytest.mark.req("ICE-SEQ-01", "ICE-SEQ-06", half="writer")
@pytest.mark.req("ICE-ML-02")
@_VERSIONS
def test_a_lost_race_keeps_the_manifests_of_new_files(tmp_path: Path, version: str) -> None:
    table = _new(tmp_path, version)
    table.append(_rows(1))
    other = open_table(tmp_path / "t", "iceberg")
    with racing(table, lambda: other.append(_rows(2))) as transaction:
        transaction.append(_rows(3))
    assert transaction.result is not None
    assert transaction.result.retries == 1
    assert _as_pyiceberg_reads(tmp_path) == [1, 2, 3]
    newest = table.refresh().snapshot
    assert newest is not None
    assert newest.sequence_number == (0 if version == "1" else 3)
    assert newest.parent_snapshot_id == other.snapshot_id
    folder = tmp_path / "t/metadata"
    (written,) = folder.glob(f"snap-{newest.snapshot_id}-*.avro")
    ours = written.stem.removeprefix(f"snap-{newest.snapshot_id}-2-")
    assert [path.name for path in folder.glob(f"{ours}*.avro")] == [f"{ours}-m0.avro"]


@pytest.mark.parametrize("after", ["append", "compact", "delete"])
@pytest.mark.parametrize("how", [{"where": "d < '2020-02-01'"}, {"dynamic": True}, {}])
def test_files_that_later_commits_moved_are_in_the_way(tmp_path: Path, after: str, how: dict[str, Any]) -> None:
    """Another commit adds rows, and the next one merges its manifest, rewrites its file, or deletes it."""
    merging = {"commit.manifest.min-count-to-merge": "2"}
    table = _new(tmp_path, "3", partition_by="month(d)", properties=merging)
    table.append(_rows(1))
    late = open_table(tmp_path / "t", "iceberg").transaction()
    late.overwrite(_rows(7), **how)
    table.append(_rows(2))
    if after == "append":
        table.append(_rows(3, d=_FEBRUARY))
    elif after == "compact":
        table.append(_rows(3, d=_FEBRUARY))
        assert table.compact().removed_files == 2
    else:
        table.append(_rows(3))
        table.delete("id = 2")
    with pytest.raises(ConcurrentAppendError, match="another commit added data files that may hold rows to be"):
        late.commit()
    assert _ids(table.refresh()) == ([1, 3] if after == "delete" else [1, 2, 3])


@pytest.mark.req("ICE-SEQ-01", half="writer")
@pytest.mark.req("ICE-COM-01", half="writer")
def test_eight_writers_append_at_once(tmp_path: Path) -> None:
    create_table(tmp_path, {"id": pa.int64()}, format="iceberg")
    start = threading.Barrier(8, timeout=60)

    def append(number: int) -> int | None:
        table = open_table(tmp_path, "iceberg")
        start.wait()
        with table.transaction(policy=CommitPolicy(retries=100)) as transaction:
            transaction.append(pa.table({"id": [number]}))
            return transaction.commit().snapshot_id

    with ThreadPoolExecutor(8) as pool:
        committed = list(pool.map(append, range(8)))
    table = StaticTable.from_metadata(open_table(tmp_path, "iceberg").metadata_location)
    parents = {one.snapshot_id: one.parent_snapshot_id for one in table.snapshots()}
    chain, at = [], table.metadata.current_snapshot_id
    while at is not None:
        chain.append(at)
        at = parents[at]
    assert len(chain) == 8
    assert set(chain) == set(committed) == set(parents)
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == list(range(8))


def test_writers_that_lose_a_race_write_metadata_again(tmp_path: Path) -> None:
    table = _new(tmp_path, "3", partition_by="month(d)")
    table.append(_rows(1))
    other = open_table(tmp_path / "t", "iceberg")
    other.append(_rows(2))
    late = table.append(_rows(3, 4))
    assert (late.retries, table.snapshot and table.snapshot.sequence_number) == (0, 3)
    with other.transaction() as transaction:
        transaction.append(_rows(5))
        table.append(_rows(6, d=_FEBRUARY))
    assert _as_pyiceberg_reads(tmp_path) == [1, 2, 3, 4, 5, 6]
    ids = table.refresh().scan(columns=["id", "_row_id"]).to_arrow()["_row_id"].to_pylist()
    assert sorted(ids) == list(range(6))
    late_one = other.transaction()
    late_one.overwrite(_rows(7), where="d < '2020-02-01'")
    table.append(_rows(8))
    with pytest.raises(ConcurrentAppendError, match="may hold rows to be replaced"):
        late_one.commit()
    other.refresh()
    with other.transaction() as fits:
        fits.overwrite(_rows(7), where="d < '2020-02-01'")
        table.append(_rows(8, d=_FEBRUARY))
    assert _as_pyiceberg_reads(tmp_path) == [6, 7, 8]
    gone = other.transaction()
    gone.delete("d < '2020-02-01'")
    table.refresh().delete("d < '2020-02-01'")
    with pytest.raises(CommitConflictError, match="removed 1 data files"):
        gone.commit()
    changed = other.refresh().alter().add("x", pa.int64())
    table.refresh().alter().add("y", pa.int64()).commit()
    with pytest.raises(MetadataChangedError, match="last-assigned-field-id is 4, not 3"):
        changed.commit()
    named = {Path(path.removeprefix("file://")).name for *_, path in _entries(table.refresh())}
    on_disk = {path.name for path in (tmp_path / "t/data").rglob("*.parquet")}
    assert named <= on_disk
    assert len(on_disk) == 8


def test_a_transaction_is_one_snapshot_or_none(tmp_path: Path) -> None:
    table = _new(tmp_path, partition_by="month(d)")
    table.append(_rows(1))
    with table.transaction(properties={"job": "nightly"}) as transaction:
        transaction.append(_rows(2))
        transaction.overwrite(_rows(3), dynamic=True)
        with pytest.raises(SchemaError, match="the rows have columns that the table does not have: nope"):
            transaction.append(pa.table({"nope": [1]}))
        transaction.alter().add("x", pa.int64())
        transaction.append(pa.table({"id": [4], "x": [1]}))
    assert transaction.result is not None
    assert (transaction.result.added_rows, transaction.result.removed_files) == (2, 1)
    assert _as_pyiceberg_reads(tmp_path) == [3, 4]
    assert len(table.snapshots) == 2
    files = {path.name for path in (tmp_path / "t").rglob("*.*")}
    broken = table.transaction()

    def fail() -> None:
        with broken:
            broken.append(_rows(5))
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert {path.name for path in (tmp_path / "t").rglob("*.*")} == files
    with pytest.raises(InvalidArgumentError, match="not committed, and has ended"):
        broken.append(_rows(5))


def test_write_table_creates_and_writes(tmp_path: Path) -> None:
    place = tmp_path / "t"
    made = write_table(place, _rows(1), format="iceberg", partition_by="day(d)", configuration={"format-version": 3})
    assert (made.version, made.added_rows, made.committed) == (1, 1, True)
    with pytest.raises(TableExistsError, match="there is a table already"):
        write_table(place, _rows(2))
    assert write_table(place, _rows(2), mode="ignore").committed is False
    write_table(place, _rows(2), mode="append", partition_by="day(d)")
    write_table(place, _rows(3), mode="overwrite", predicate="d = '2020-01-07'")
    table = open_table(place, "iceberg")
    assert (table.format_version, _as_pyiceberg_reads(tmp_path)) == (3, [3])
    write_table(table, _rows(4), mode="append")
    assert _ids(table) == [3, 4]
    with pytest.raises(InvalidArgumentError, match="partitioned by d_day, but name"):
        write_table(place, _rows(5), mode="append", partition_by="name")
    assert create_table(place, _COLUMNS, format="iceberg", if_exists="ignore").snapshot_id == table.snapshot_id
    new = create_table(
        place, {"id": pa.int64(), "at": pa.date32()}, format="iceberg", partition_by="at", if_exists="replace"
    )
    assert (new.schema.names, [part.name for part in new.spec.fields], _ids(new)) == (["id", "at"], ["at"], [])
    # The column that has its name and type still keeps its id.
    assert [child.id for child in new.schema] == [1, 4]
    assert _ids(open_table(place, "iceberg", snapshot_id=table.snapshot_id)) == [3, 4]


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"write.format.default": "csv"}, "format 'csv' are not written"),
        ({"encryption.key-id": "k"}, "encrypted"),
        (
            {"write.target-file-size-bytes": "much"},
            "bytes must be a positive whole number, not 'much'",
        ),
    ],
)
def test_what_is_not_written_is_refused(tmp_path: Path, properties: dict[str, str], message: str) -> None:
    with pytest.raises((UnsupportedFeatureError, InvalidArgumentError), match=message):
        _new(tmp_path, properties=properties).append(_rows(1))


@pytest.mark.parametrize("term", ["zorder(id)", "bucket(id)", "year(4, d)", "truncate(id)", "bucket(0, id)"])
@pytest.mark.parametrize("argument", ["partition_by", "sort_by"])
def test_unknown_transforms_are_refused(tmp_path: Path, argument: str, term: str) -> None:
    """Readers keep what they do not know. A new table with it could not be written to."""
    with pytest.raises(InvalidArgumentError, match=r"is not a transform of a column") as raised:
        _new(tmp_path, **{argument: term})
    assert "bucket(16, column)" in str(raised.value.hint)
    assert not (tmp_path / "t").exists()


def test_tables_at_a_snapshot_or_moved_are_not_written_to(tmp_path: Path) -> None:
    table = _new(tmp_path)
    number = table.append(_rows(1)).snapshot_id
    with pytest.raises(InvalidArgumentError, match="opened with snapshot_id"):
        open_table(tmp_path / "t", "iceberg", snapshot_id=number).append(_rows(2))
    with pytest.raises(InvalidArgumentError, match="no branch 'b'"):
        table.append(_rows(2), branch="b")
    (tmp_path / "t").rename(tmp_path / "moved")
    with pytest.raises(InvalidArgumentError, match="found elsewhere"):
        open_table(tmp_path / "moved", "iceberg").append(_rows(2))
    assert open_table(tmp_path / "moved", "iceberg", location_map="auto").scan().count() == 1


@_VERSIONS
def test_small_commits_merge_the_manifests_of_older_ones(tmp_path: Path, version: str) -> None:
    """Merged manifests keep what their entries inherited, and never bring back files that were removed."""
    properties = {"commit.manifest.min-count-to-merge": "3"}
    table = _new(tmp_path, version, partition_by=["d"], properties=properties)
    table.append(pa.concat_tables([_rows(0, 1), _rows(2, d=_FEBRUARY)]))
    table.delete("d = '2020-02-02'")
    table.append(_rows(3))
    table.append(_rows(4))
    assert len(table._source.manifests) == 3
    columns = ["id", "_row_id"] if version == "3" else ["id"]
    rows = table.scan(columns=columns).to_arrow()
    before = {path: numbers for status, *numbers, path in _entries(table) if status != 2}
    added = table.append(_rows(5))
    assert len(table._source.manifests) == 2
    assert _as_pyiceberg_reads(tmp_path) == [0, 1, 3, 4, 5]
    after = {path: (status, *numbers) for status, *numbers, path in _entries(table)}
    assert {path: after.pop(path) for path in before} == {path: (0, *numbers) for path, numbers in before.items()}
    assert [numbers[:2] for numbers in after.values()] == [(1, added.snapshot_id)]
    again = table.scan(columns=columns).to_arrow().filter(pc.not_equal(pc.field("id"), 5))
    assert again.sort_by("id").equals(rows.sort_by("id"))


def test_many_new_files_are_split_among_manifests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The size of a manifest is bounded, as far as the sample of entries that it is judged by."""
    monkeypatch.setattr("deltaberg.iceberg.manifests.merge._SAMPLE", 2)
    table = _new(tmp_path, "3", partition_by=["id"], properties={"commit.manifest.target-size-bytes": "100"})
    table.append(_rows(*range(7)))
    rows = table._source.manifests.to_pylist()
    assert [row["added_files_count"] for row in rows] == [2, 2, 2, 1]
    assert [row["first_row_id"] for row in rows] == [0, 2, 4, 6]
    assert _as_pyiceberg_reads(tmp_path) == list(range(7))


def test_the_history_is_that_of_the_branch(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", ID, format="iceberg")
    assert table.history() == []
    ids_on_main = [table.append(ids(1)).snapshot_id]
    table.alter().create_branch("side").commit()
    table.append(ids(2), branch="side")
    ids_on_main.append(table.append(ids(3)).snapshot_id)
    assert [one.snapshot_id for one in table.history()] == ids_on_main[::-1]
    assert [one.snapshot_id for one in table.history(1)] == ids_on_main[1:]
    side = open_table(tmp_path / "t", "iceberg", ref="side").history()
    assert [one.parent_snapshot_id for one in side] == [ids_on_main[0], None]
    assert len(table.snapshots) == 3
