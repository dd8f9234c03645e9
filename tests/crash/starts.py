"""The tables that the operations of the harness start from; those of Delta are built byte by byte."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from deltaberg.storage.location import parse_location
from deltaberg.storage.stores import open_store
from tests.crash.targets import Target
from tests.support.delta_builder import DeltaBuilder

__all__ = ["COLUMNS", "INCOMING", "LOST", "LOST_ID", "PART_COLUMNS", "STARTS", "restore", "source_of_clone"]

#: A file that is to be added to the table in whose directory it is.
INCOMING = "incoming/rows.parquet"
#: A data file that a table names and the store lacks, and the only id in it.
LOST, LOST_ID = "old-lost.parquet", 100
COLUMNS = pa.schema([("id", pa.int64()), ("value", pa.int64())])
PART_COLUMNS = COLUMNS.append(pa.field("part", pa.string()))


def _rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "value": [10 * one for one in ids]}, COLUMNS)


def _plain(root: Path, configuration: Mapping[str, str] | None = None, *features: str) -> None:
    """Make a table of three versions, a checkpoint and a file that was removed; the ids 1 to 6 are left."""
    builder = DeltaBuilder(root)
    groups = [(0,), (1, 2), (3, 4), (5, 6)]
    adds = [
        builder.add(_rows(*group), stats="full", path=f"old-{number}.parquet") for number, group in enumerate(groups)
    ]
    protocol = builder.features(*features) if features else None
    properties = {"delta.checkpointInterval": "4", **(configuration or {})}
    builder.create(COLUMNS, *adds[:3], protocol=protocol, configuration=properties)
    builder.commit(adds[3])
    builder.checkpoint()
    builder.commit(builder.remove(adds[0]))


def _vectors(root: Path) -> None:
    """Make the same table, which allows deletion vectors."""
    _plain(root, {"delta.enableDeletionVectors": "true"}, "deletionVectors")


def _without_vectors(root: Path) -> None:
    """Make the same table, which has no trace of deletion vectors any more, and has to wait for its history to age."""
    import deltaberg
    from deltaberg.errors import UnsupportedFeatureError

    _vectors(root)
    with suppress(UnsupportedFeatureError):
        deltaberg.DeltaTable(root).drop_feature("deletionVectors", truncate_history=True)


def _tracked(root: Path) -> None:
    """Make a table by the product itself with a change data feed, row ids and deletion vectors."""
    import deltaberg

    properties = {
        "delta.enableChangeDataFeed": "true",
        "delta.enableRowTracking": "true",
        "delta.enableDeletionVectors": "true",
    }
    table = deltaberg.create_table(str(root), COLUMNS, properties=properties)
    table.append(_rows(1, 2, 3))
    table.append(_rows(4, 5, 6))


def _clustered(root: Path) -> None:
    """Make a clustered table of three files by the product itself."""
    import deltaberg

    table = deltaberg.create_table(str(root), COLUMNS, cluster_by=["id"])
    for ids in ((1, 2), (3, 4), (5, 6)):
        table.append(_rows(*ids))


def source_of_clone(root: Path, *versions: tuple[int, ...]) -> None:
    """Make the table that others are clones of, the same each time: a version for each file, with its ids."""
    builder = DeltaBuilder(root)
    adds = [
        builder.add(_rows(*group), stats="full", path=f"source-{number}.parquet")
        for number, group in enumerate(versions)
    ]
    builder.create(COLUMNS, adds[0])
    for add in adds[1:]:
        builder.commit(add)


def _cloned(root: Path) -> None:
    """Make a deep clone, by the product itself; the ids 1 to 6 are in it."""
    import deltaberg

    with tempfile.TemporaryDirectory() as folder:
        source_of_clone(Path(folder), (1, 2, 3), (4, 5, 6))
        deltaberg.DeltaTable(folder).clone(root)


def _mapped(root: Path) -> None:
    """Make a table by the product itself whose columns are mapped by name."""
    import deltaberg

    table = deltaberg.create_table(str(root), COLUMNS, properties={"delta.columnMapping.mode": "name"})
    table.append(_rows(1, 2))
    table.append(_rows(3, 4, 5, 6))


def _parts(root: Path) -> None:
    """Make a table of the same ids in the partitions ``a`` (odd) and ``b`` (even), two files in each."""
    builder = DeltaBuilder(root)
    adds = [
        builder.add(_rows(*group), stats="full", path=f"part={part}/old-{group[0]}.parquet", partition={"part": part})
        for part, group in (("a", (1, 3)), ("a", (5,)), ("b", (2, 4)), ("b", (6,)))
    ]
    builder.create(PART_COLUMNS, *adds[:2], partition_by=["part"])
    builder.commit(*adds[2:])


def _three_parts(root: Path) -> None:
    """Make a table of the same ids in three partitions, two files in each."""
    builder = DeltaBuilder(root)
    places = zip(range(1, 7), "aabbcc", strict=True)
    adds = [
        builder.add(_rows(one), stats="full", path=f"{one}.parquet", partition={"part": part}) for one, part in places
    ]
    builder.create(PART_COLUMNS, *adds[:4], partition_by=["part"])
    builder.commit(*adds[4:])


def _folder(root: Path) -> None:
    """Make a directory of Parquet files of the same ids, partitioned as Hive does, that is no table."""
    for part, ids in (("a", (1, 3, 5)), ("b", (2, 4, 6))):
        directory = root / f"part={part}"
        directory.mkdir(parents=True)
        pq.write_table(_rows(*ids), directory / "old-1.parquet")


def _nothing(root: Path) -> None:
    """Leave the folder empty."""
    root.mkdir(parents=True)


def _compacting(root: Path) -> None:
    """Make the same table, whose log is compacted by each second commit."""
    _plain(root, {"deltaberg.logCompactionInterval": "2"})


def _compacting_itself(root: Path) -> None:
    """Make the same table, which puts its small files together."""
    _plain(root, {"delta.autoOptimize.autoCompact": "true"})


def _lost(root: Path) -> None:
    """Make a table of the same ids and of a data file that is lost."""
    builder = DeltaBuilder(root)
    adds = [
        builder.add(_rows(*group), stats="full", path=f"old-{group[0]}.parquet") for group in ((1, 2), (3, 4, 5, 6))
    ]
    builder.create(COLUMNS, *adds, builder.add(_rows(LOST_ID), stats="full", path=LOST))
    (root / LOST).unlink()


def _in_folder(build: Callable[[Path], None]) -> Callable[[Target], None]:
    def build_at(at: Target) -> None:
        build(Path(at.location))

    return build_at


def _iceberg_nothing(at: Target) -> None:
    """Leave the place empty, with the namespace of the table."""
    if "://" not in at.location:
        Path(at.location).mkdir(parents=True)
    at.prepare()


def _iceberg(at: Target, properties: Mapping[str, str] | None = None) -> None:
    """Make a table by the product itself, of four snapshots; the ids 1 to 6 are left in three files."""
    _iceberg_nothing(at)
    table = at.create(COLUMNS, properties=properties)
    for group in ((0,), (1, 2), (3, 4)):
        table.append(_rows(*group))
    table.overwrite(_rows(5, 6), where="id = 0", check=False)


def _iceberg_and_other(at: Target) -> None:
    """Make the same table, and beside it in the catalog another one, of the id 1."""
    _iceberg(at)
    at.other.create(COLUMNS).append(_rows(1))


def _iceberg_parts(at: Target) -> None:
    """Make a table of the same ids in the partitions ``a`` (odd) and ``b`` (even), two files in each."""
    _iceberg_nothing(at)
    table = at.create(PART_COLUMNS, partition_by=["part"])
    for group in ((1, 3, 2, 4), (5, 6)):
        parts = ["a" if one % 2 else "b" for one in group]
        table.append(_rows(*group).append_column("part", [parts]))


def _iceberg_staged(at: Target) -> None:
    """Make a table with a snapshot of the ids 7 and 8 that waits under a ``wap.id``, and that was overtaken since."""
    _iceberg_nothing(at)
    table = at.create(COLUMNS)
    table.append(_rows(1, 2, 3))
    table.append(_rows(7, 8), properties={"wap.id": "load"})
    table.append(_rows(4, 5, 6))


def _iceberg_beside_file(at: Target) -> None:
    """Make a table with a Parquet file in its directory that is no part of it, of the ids 7 and 8."""
    _iceberg(at)
    _put(at, INCOMING, _rows(7, 8))


def _iceberg_lost(at: Target) -> None:
    """Make the same table, and a data file of it that is lost, as one of its properties says."""
    _iceberg(at, {LOST: "true"})
    _put(at, LOST, _rows(LOST_ID))
    table = at.open()
    lost = f"{table.location}/{LOST}"
    table.add_files([lost])
    location = parse_location(lost)
    open_store(location, dict(at.options)).delete(location.path)


def _put(at: Target, name: str, rows: pa.Table) -> None:
    """Write a Parquet file beside the table."""
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink)
    location = parse_location(f"{at.open().location}/{name}")
    open_store(location, dict(at.options)).put(location.path, sink.getvalue().to_pybytes())


def _iceberg_with_deletes(at: Target, version: str) -> None:
    """Make the same table, with more rows that position delete files and equality deletes have deleted since."""
    _iceberg(at, {"format-version": "2", "write.delete.granularity": "partition"})
    table = at.open()
    table.append(_rows(7, 8, 9, 10))
    for one in (9, 10):
        table.delete(f"id = {one}", strategy="merge-on-read")
    table.delete_by_keys(pa.table({"id": [7, 8]}))
    table.alter().set({"format-version": version}).commit()


def _iceberg_sorted(at: Target, file_format: str) -> None:
    """Make a table whose rows are sorted from the greatest id on, in files of a format."""
    _iceberg(at, {"write.format.default": file_format})
    at.open().alter().sort_by("id desc").commit()


#: A table that merges its manifests at once, and keeps few metadata files.
_TIDY = {
    "commit.manifest.min-count-to-merge": "2",
    "write.metadata.previous-versions-max": "2",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.compression-codec": "gzip",
}
#: What makes each start in its place, by its name.
STARTS: dict[str, Callable[[Target], None]] = {
    "plain": _in_folder(_plain),
    "vectors": _in_folder(_vectors),
    "without vectors": _in_folder(_without_vectors),
    "compacting": _in_folder(_compacting),
    "compacting itself": _in_folder(_compacting_itself),
    "tracked": _in_folder(_tracked),
    "clustered": _in_folder(_clustered),
    "cloned": _in_folder(_cloned),
    "mapped": _in_folder(_mapped),
    "parts": _in_folder(_parts),
    "three parts": _in_folder(_three_parts),
    "lost": _in_folder(_lost),
    "folder": _in_folder(_folder),
    "nothing": _in_folder(_nothing),
    "iceberg": _iceberg,
    "iceberg of version 1": partial(_iceberg, properties={"format-version": "1"}),
    "iceberg of version 3": partial(_iceberg, properties={"format-version": "3"}),
    "iceberg staged": _iceberg_staged,
    "iceberg beside another": _iceberg_and_other,
    "iceberg beside a file": _iceberg_beside_file,
    "iceberg lost": _iceberg_lost,
    "iceberg with deletes": partial(_iceberg_with_deletes, version="2"),
    "iceberg with deletes before version 3": partial(_iceberg_with_deletes, version="3"),
    "iceberg sorted in orc": partial(_iceberg_sorted, file_format="orc"),
    "iceberg sorted in avro": partial(_iceberg_sorted, file_format="avro"),
    "tidy iceberg": partial(_iceberg, properties=_TIDY),
    "iceberg parts": _iceberg_parts,
    "iceberg nothing": _iceberg_nothing,
}


def restore(start: str, at: Target) -> Path:
    """Put the table of a start in its place on the disk, and return a copy of it.

    The copy lies beside the place, and is made once. It is no table: some tables record where they are.
    """
    root = Path(at.location)
    saved = root.parent / f"{start}, {at.kind}"
    shutil.rmtree(root, ignore_errors=True)
    if saved.exists():
        shutil.copytree(saved, root)
        at.put_back(saved)
    else:
        at.put_back(None)
        STARTS[start](at)
        shutil.copytree(root, saved)
        at.keep(saved)
    return saved
