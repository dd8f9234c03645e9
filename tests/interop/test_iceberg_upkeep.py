"""Rewritten manifests, statistics and copies: ours by iceberg-spark, and manifests right after the other's."""

from __future__ import annotations

import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from deltaberg import IcebergTable
from deltaberg.iceberg.deletes.puffin import PuffinFile
from deltaberg.iceberg.maintain.statistics.partition_sums import partition_sums
from deltaberg.iceberg.manifests.partition_stats_file import read_partition_stats
from deltaberg.storage.stores import StoreSpec
from tests.interop.judged_catalogs import JudgedCatalog
from tests.interop.judged_iceberg import JudgedTable
from tests.support.below_verbs import begin
from tests.support.judge import Judge

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.one_backend, pytest.mark.timeout(600)]

_COLUMNS = pa.schema([("id", pa.int64()), ("part", pa.string())])
#: What statistics of iceberg-spark count, too, whereas it takes deletes for updates of a partition.
_COUNTED = [
    *("partition", "spec_id", "data_record_count", "data_file_count", "total_data_file_size_in_bytes"),
    *("position_delete_record_count", "position_delete_file_count"),
    *("equality_delete_record_count", "equality_delete_file_count"),
]


def _rows(part: str | None, *ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "part": [part] * len(ids)}, _COLUMNS)


def _made(judge: Judge, name: str, version: int) -> JudgedTable:
    one = JudgedTable(judge, f"{name}_{version}", JudgedCatalog.of_directories(judge))
    table = one.create(_COLUMNS, partition_by="part", properties={"format-version": str(version)})
    for number in range(4):
        table.append(pa.concat_tables([_rows("a", number, number + 10), _rows(None, number + 20)]))
    table.delete("id = 2", strategy="copy-on-write" if version == 1 else "merge-on-read")
    table.append(_rows("b", 40))
    return one


def _call(one: JudgedTable, procedure: str) -> dict[str, Any]:
    namespace, name = one.name.split(".", 1)
    (found,) = one.sql(f"CALL {namespace}.system.{procedure}(table => '{name}')").to_pylist()
    return dict(found)


def _entries(found: pa.Table) -> list[Any]:
    names = ("status", "snapshot_id", "sequence_number", "file_sequence_number")
    rows = found.to_pylist()
    return sorted((row["data_file"]["file_path"], *(row[name] for name in names)) for row in rows)


@pytest.mark.req("ICE-MNT-16", half="writer")
@pytest.mark.parametrize("version", [1, 2, 3])
def test_manifests_beside_iceberg_spark(judge: Judge, version: int) -> None:
    ours, theirs = (_made(judge, f"manifests_{who}", version) for who in ("ours", "theirs"))
    before = {row[:1] + row[2:] for row in _entries(ours.open().inspect("entries")) if row[1] != 2}
    done = ours.open().rewrite_manifests()
    assert done.rewritten_manifests > done.added_manifests
    after = _entries(ours.sql("SELECT * FROM {t}.entries"))
    assert {row[:1] + row[2:] for row in after} == before
    assert after == _entries(ours.open().inspect("entries"))
    ours.check()
    assert _call(ours, "rewrite_manifests") == {"rewritten_manifests_count": 0, "added_manifests_count": 0}
    counted = _call(theirs, "rewrite_manifests")
    assert counted["rewritten_manifests_count"] == done.rewritten_manifests
    assert theirs.open().rewrite_manifests().commit is None
    ours.open().append(_rows("c", 50))
    assert ours.check().scan().count() == theirs.open().scan().count() + 1


def _by_partition(table: IcebergTable, path: str) -> list[str]:
    source = begin(table).source
    found = read_partition_stats(source.reader.fetch(path), path, source.partition, source.metadata)
    return sorted(map(str, found.select(_COUNTED).to_pylist()))


@pytest.mark.req("ICE-MNT-20", half="writer")
@pytest.mark.req("BEY-29", half="writer")
@pytest.mark.parametrize("version", [2, 3])
def test_partition_statistics_beside_iceberg_spark(judge: Judge, version: int) -> None:
    """Each goes on from what the other has written, and counts what is counted anew."""
    one = _made(judge, "partition_stats", version)
    first = one.open().compute_partition_stats()
    assert first is not None
    table = one.open()
    table.append(_rows("b", 41))
    table.delete("id = 11", strategy="merge-on-read")
    assert _call(one, "compute_partition_stats")
    table = one.open()
    (entry,) = [
        dict(found) for found in table.metadata.partition_statistics if found["snapshot-id"] == table.snapshot_id
    ]
    anew = sorted(map(str, partition_sums(begin(table).source).select(_COUNTED).to_pylist()))
    assert _by_partition(table, entry["statistics-path"]) == anew
    table.append(_rows("c", 50))
    table.delete("part = 'b'")
    last = table.compute_partition_stats()
    assert last is not None
    assert last.base_snapshot_id == entry["snapshot-id"]
    anew = sorted(map(str, partition_sums(begin(table).source).select(_COUNTED).to_pylist()))
    assert _by_partition(table, last.path) == anew
    one.check()


def _sketches(table: IcebergTable) -> dict[int, tuple[int, bytes]]:
    """Return the number of distinct values of each column, and its sketch, from the file that the metadata names."""
    (path,) = (
        found["statistics-path"] for found in table.metadata.statistics if found["snapshot-id"] == table.snapshot_id
    )
    puffin = PuffinFile(begin(table).source.resolver.resolve(path), StoreSpec())
    return {blob.fields[0]: (int(blob.properties["ndv"]), puffin.read(blob)) for blob in puffin.blobs}


@pytest.mark.req("ICE-MNT-19", half="writer")
@pytest.mark.parametrize("count", [4_000, 50_000])
def test_table_statistics_beside_iceberg_spark(judge: Judge, count: int) -> None:
    """The same sketches up to 4,096 values; beyond, it unites those of its tasks. It replaces ours, and ours its."""
    one = JudgedTable(judge, f"table_stats_{count}", JudgedCatalog.of_directories(judge))
    ids = range(count)
    rows = pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "day": pa.array([number % 900 for number in ids], pa.int32()).cast(pa.date32()),
            "price": pa.array([Decimal(number - 50).scaleb(-2) for number in ids], pa.decimal128(20, 2)),
            "name": [None if number % 5 == 0 else "n" * (number % 40) + str(number) for number in ids],
            "at": [number / 3 for number in ids],
        }
    )
    table = one.create(rows.schema, properties={"format-version": "2"})
    table.append(rows.slice(0, count // 3))
    table.append(rows.slice(count // 3))
    assert _call(one, "compute_table_stats")["statistics_file"]
    theirs = _sketches(one.open())
    # An entry of the same snapshot is taken over, so that ours are made where the table has none.
    table.append(rows.slice(0, 1))
    done = table.compute_table_stats()
    assert done is not None
    ours = _sketches(one.open())
    assert set(ours) == set(theirs) == {1, 2, 3, 4, 5}
    if count < 4_096:
        assert ours == theirs
    for number, (ndv, _) in ours.items():
        exact = pc.count_distinct(rows.column(number - 1)).as_py()
        assert abs(ndv / exact - 1) < 0.04, number
        assert abs(ndv / theirs[number][0] - 1) < 0.04, number
    one.check()
    assert _call(one, "compute_table_stats")["statistics_file"]
    again = one.open().compute_table_stats()
    assert again is not None
    assert again.commit is None
    assert {number: ndv for number, (ndv, _) in _sketches(one.open()).items()} == dict(enumerate(again.ndv.values(), 1))


@pytest.mark.req("ICE-MNT-21", half="writer")
@pytest.mark.parametrize("version", [1, 2, 3])
def test_iceberg_spark_reads_a_copy(judge: Judge, version: int) -> None:
    """Its rows, and those of the first snapshot, are there where the old place is not."""
    one, copy = _made(judge, "copied", version), JudgedTable(judge, f"copy_{version}")
    if version > 1:
        one.open().delete_by_keys(pa.table({"id": [3]}))
    first = one.open().snapshots[0].snapshot_id
    rows = one.check().scan().to_arrow()
    plan = one.open().rewrite_table_path(one.root, copy.root)
    for source, target in zip(*plan.files.to_pydict().values(), strict=True):
        Path(target).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    shutil.rmtree(one.root)
    found = copy.check().scan().to_arrow()
    assert found.sort_by("id").to_pylist() == rows.sort_by("id").to_pylist()
    then = copy.sql(f"SELECT id FROM {{t}} VERSION AS OF {first}")
    assert sorted(then["id"].to_pylist()) == [0, 10, 20]
