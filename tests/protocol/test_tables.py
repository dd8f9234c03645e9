"""What a Delta table guarantees, and the files of its directory (DL-GEN, DL-FILE)."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import open_table
from deltaberg.delta.log.names import classify
from deltaberg.errors import (
    CommitConflictError,
    CorruptLogError,
    DataFileNotFoundError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from tests.support.delta_builder import DeltaBuilder
from tests.support.roads import Road, by_every_road
from tests.support.rows import ID, ids, ids_of, live_files, numbered_commits, tombstones


@by_every_road
@pytest.mark.req("DL-GEN-01", half="reader")
def test_a_hole_in_the_versions_is_corruption(builder: DeltaBuilder) -> None:
    builder.create(ID, builder.add(ids(0)))
    builder.commit(builder.add(ids(1)))
    builder.commit(builder.add(ids(3)), version=3)
    with pytest.raises(CorruptLogError, match="version 2 is missing"):
        open_table(builder.root)
    builder.checkpoint(3)
    assert ids_of(open_table(builder.root)) == [0, 1, 3]
    with pytest.raises(CorruptLogError, match=r"(?s)version 2 is missing.*open version 1, or version 3 or a later one"):
        open_table(builder.root, version=2)


@pytest.mark.parametrize("checkpoint", [None, 20])
def test_every_road_says_that_a_version_is_missing(builder: DeltaBuilder, checkpoint: int | None) -> None:
    """A log of versions 0 to 25 without version 21, of which a checkpoint may hold the start."""
    numbered_commits(builder, 20)
    if checkpoint:
        builder.checkpoint(checkpoint)
    older = open_table(builder.root, "delta")
    for version in range(22, 26):
        builder.commit(builder.add(ids(version)), version=version)
    roads: list[Callable[[], Any]] = [
        lambda: open_table(builder.root, "delta"),
        *(lambda number=number: open_table(builder.root, "delta", version=number) for number in (21, 22, 25)),
        older.refresh,
        lambda: older.append(ids(30)),
        lambda: older.delete("id = 1"),
    ]
    for road in roads:
        with pytest.raises(CorruptLogError, match=r"(?s)version 21 is missing.*open version 20") as caught:
            road()
        assert caught.value.context["version"] == 21
    assert ids_of(older) == list(range(21))
    builder.checkpoint(25)
    table = open_table(builder.root, "delta")
    roads = [
        table.history,
        lambda: table.changes(20, 25, derived=True).to_arrow(),
        lambda: table.changes(21, derived=True).to_arrow(),
        lambda: table.compact_log(20, 22),
        lambda: open_table(builder.root, "delta", version=22),
        lambda: open_table(builder.root, "delta", version=21),
    ]
    for road in roads:
        with pytest.raises(CorruptLogError, match=r"(?s)version 21 is missing.*or version 25 or a later one"):
            road()
    assert [commit.version for commit in table.history(4)] == [25, 24, 23, 22]
    assert sorted(table.changes(22, derived=True).to_arrow()["id"].to_pylist()) == [22, 23, 24, 25]
    with pytest.raises(CommitConflictError, match="open the table again"):
        older.append(ids(30))
    with pytest.raises(VersionNotFoundError, match="the newest version is 25"):
        open_table(builder.root, "delta", version=26)


@by_every_road
@pytest.mark.req("DL-GEN-02", half="reader")
def test_a_snapshot_is_its_parts(builder: DeltaBuilder) -> None:
    builder.create(ID)
    first, second = builder.add(ids(1), path="f1.parquet"), builder.add(ids(2), path="f2.parquet")
    builder.commit(first, second)
    builder.commit(builder.remove(first), {"txn": {"appId": "app", "version": 7}})
    table = open_table(builder.root, "delta")
    assert (table.protocol.min_reader_version, table.protocol.min_writer_version) == (1, 2)
    assert table.metadata.id == "5fba94ed-9794-4965-ba6e-6ee3c0d22af9"
    assert live_files(table) == [("f2.parquet", 0)]
    assert tombstones(table) == [("f1.parquet", None)]
    assert {app: one.version for app, one in table.transactions.items()} == {"app": 7}


@pytest.mark.req("DL-GEN-03")
def test_a_planned_scan_keeps_its_version(builder: DeltaBuilder, road: Road) -> None:
    builder.create(ID)
    add = builder.add(ids(*range(10)))
    builder.commit(add)
    scan = open_table(builder.root).scan()
    builder.commit(builder.remove(add))
    assert road.count(scan) == 10
    assert road.count(open_table(builder.root).scan()) == 0


@pytest.mark.req("DL-GEN-05")
@pytest.mark.spark
def test_planning_is_the_same_in_parallel(builder: DeltaBuilder, spark: Any) -> None:
    vector = builder.vector([0], "i")
    builder.create(ID, protocol=builder.features("deletionVectors"))
    for commit in range(20):
        builder.commit(*(builder.add(ids(commit, row), vector=vector if row % 3 else None) for row in range(50)))
        if commit == 10:
            builder.checkpoint()
    scan = open_table(builder.root).scan(columns=["id", "_metadata.file_path"])
    local = scan.to_arrow()
    assert len(live_files(open_table(builder.root))) == 1000
    names = pa.schema([("file", pa.string()), ("rows", pa.int64())])

    def planned(batches: Any) -> Any:
        for batch in batches:
            grouped = (
                pa.table({"file": batch.column(1).field("file_path")}).group_by("file").aggregate([([], "count_all")])
            )
            yield pa.record_batch(
                [grouped["file"].combine_chunks(), grouped["count_all"].combine_chunks()], schema=names
            )

    frame = scan.map_in_arrow(spark, planned, names).groupBy("file").sum("rows")
    by_spark = {row[0]: row[1] for row in frame.collect()}
    paths = local.column("_metadata").combine_chunks().field("file_path").to_pylist()
    here = {path: paths.count(path) for path in set(paths)}
    assert by_spark == here
    assert len(here) == 1000


@by_every_road
@pytest.mark.req("DL-GEN-06", half="reader")
def test_a_copied_table_is_the_same_table(builder: DeltaBuilder, tmp_path: Path) -> None:
    builder.create(ID, builder.add(ids(1, 2), path="a b/f 1.parquet"), protocol=builder.features("deletionVectors"))
    builder.commit(builder.add(ids(3, 4), vector=builder.vector([0])))
    shutil.copytree(builder.root, tmp_path / "elsewhere")
    shutil.rmtree(builder.root)
    copy = open_table(tmp_path / "elsewhere", "delta")
    assert copy.version == 1
    assert ids_of(copy) == [1, 2, 4]


@by_every_road
@pytest.mark.req("DL-GEN-07")
def test_the_log_can_be_tailed(builder: DeltaBuilder) -> None:
    builder.create(ID)
    small = [builder.add(ids(1)), builder.add(ids(2))]
    builder.commit(*small)
    builder.commit(builder.add(ids(10)))
    builder.commit(builder.add(ids(20)))
    rearranged = builder.add(ids(1, 2), dataChange=False)
    builder.commit(*(builder.remove(one, dataChange=False) for one in small), rearranged)
    builder.commit(builder.add(ids(30)))
    found = open_table(builder.root, "delta").changes(3, 5, derived=True).to_arrow()
    assert sorted(zip(found["id"].to_pylist(), found["_commit_version"].to_pylist(), strict=True)) == [(20, 3), (30, 5)]


@pytest.mark.req("DL-FILE-02", half="reader")
def test_directories_do_not_give_partition_values(builder: DeltaBuilder, road: Road) -> None:
    schema = pa.schema([("id", pa.int64()), ("date", pa.date32())])
    add = builder.add(ids(1), path="date=2099-01-01/f.parquet", partition={"date": "2017-12-10"})
    builder.create(schema, add, partition_by=["date"])
    (row,) = road.rows(open_table(builder.root).scan())
    assert str(row["date"]) == "2017-12-10"


@pytest.mark.req("DL-FILE-05", half="reader")
def test_names_of_the_log_are_classified() -> None:
    kinds = {
        "00000000000000000000.json": "commit",
        "00000000000000000001.json": "commit",
        "00000000000000000003.json": "commit",
        "00000000000000000003.checkpoint.parquet": "classic",
        "00000000000000000003.00000000000000000005.compacted.json": "compaction",
        "00000000000000000003.checkpoint.0000000001.0000000002.parquet": "multipart",
        "00000000000000000003.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json": "uuid",
        "_last_checkpoint": None,
        "cdc-00000-924d9ac7-21a9-4121-b067-a0a6517aa8ed.c000.snappy.parquet": None,
        "part-00000-3935a07c-416b-4344-ad97-2a38342ee2fc.c000.snappy.parquet": None,
        "deletion_vector_0c6cbaaf-5e04-4c9d-8959-1088814f58ef.bin": None,
    }
    found = {name: classify(name) for name in kinds}
    assert {name: file and file.kind for name, file in found.items()} == kinds


@by_every_road
@pytest.mark.req("DL-FILE-05", half="reader")
def test_each_kind_of_file_is_where_it_belongs(builder: DeltaBuilder) -> None:
    """Checkpoints, pointer and sidecars elsewhere are not seen."""
    builder.create(ID, builder.add(ids(1)))
    builder.commit(builder.add(ids(2)))
    builder.checkpoint(1, kind="uuid-parquet", sidecars=2, pointer=True)
    assert (builder.log / "_sidecars").is_dir()
    for version in (0, 1):
        (builder.log / f"{version:020d}.json").rename(builder.root / f"{version:020d}.json")
    assert ids_of(open_table(builder.root)) == [1, 2]
    (builder.log / "_sidecars").rename(builder.root / "_sidecars")
    with pytest.raises(Exception, match="sidecar"):
        ids_of(open_table(builder.root))


@by_every_road
@pytest.mark.req("DL-FILE-06")
def test_unknown_names_are_ignored(builder: DeltaBuilder) -> None:
    builder.create(ID, builder.add(ids(1)))
    builder.commit(builder.add(ids(2)))
    for name in (
        "foo.txt",
        "00000000000000000001.crc",
        ".00000000000000000002.json.tmp",
        "00000000000000000002.json.bak",
        "2.json",
        "000000000000000000002.json",
        "00000000000000000002.checkpoint.parquet.tmp",
    ):
        (builder.log / name).write_text("no JSON at all")
    table = open_table(builder.root, "delta")
    assert table.version == 1
    assert ids_of(table) == [1, 2]


@by_every_road
@pytest.mark.req("DL-FILE-08", half="reader")
def test_a_vector_file_has_an_underscore_in_its_name(builder: DeltaBuilder) -> None:
    vector = builder.vector([0])
    builder.create(ID, builder.add(ids(1, 2), vector=vector), protocol=builder.features("deletionVectors"))
    (file,) = builder.root.glob("deletion_vector_*.bin")
    uuid.UUID(file.stem.removeprefix("deletion_vector_"))
    assert ids_of(open_table(builder.root)) == [2]
    file.rename(builder.root / file.name.replace("deletion_vector_", "deletion_vector-"))
    with pytest.raises(DataFileNotFoundError, match="deletion_vector_"):
        ids_of(open_table(builder.root))


@pytest.mark.req("DL-FILE-09", half="reader")
@pytest.mark.parametrize("provider", ["csv", "orc", "json", "text"])
def test_legacy_providers_are_refused(builder: DeltaBuilder, provider: str) -> None:
    metadata = builder.metadata(ID, format={"provider": provider, "options": {}})
    builder.commit(builder.protocol(), metadata, builder.add(ids(1)))
    with pytest.raises(UnsupportedFeatureError, match=f"unsupported format provider {provider}"):
        open_table(builder.root)
