"""Liquid clustering: what is put along the curve, what stays, and how files are marked (DL-CLU, DL-OPT)."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deltaberg
from deltaberg import DeltaTable, MaintenancePolicy, ParquetOptions, create_table
from deltaberg.delta.maintain import clustering
from deltaberg.errors import InvalidArgumentError, UnsupportedFeatureError
from deltaberg.table.maintain.packing import PackedFile, Packing
from tests.support.delta_builder import DeltaBuilder
from tests.support.rows import ID, ids, ids_of

_GRID = pa.schema([("x", pa.int64()), ("y", pa.int64()), ("text", pa.string())])
_TAGS = pa.map_(pa.string(), pa.string())


def _grid(side: int, first: int = 0) -> pa.Table:
    cells = [(x, y) for x in range(first, first + side) for y in range(side)]
    return pa.table([[x for x, _ in cells], [y for _, y in cells], [f"{x}:{y}" for x, y in cells]], schema=_GRID)


def _clustered(root: Path, *names: str, **options: Any) -> Any:
    return create_table(str(root), _GRID, cluster_by=list(names), **options)


def _adds(table: DeltaTable) -> list[dict[str, Any]]:
    """Return the ``add`` actions of the newest commit."""
    log = Path(table.location) / "_delta_log" / f"{table.version:020}.json"
    return [line["add"] for line in map(json.loads, log.read_text().splitlines()) if "add" in line]


def _cubes(table: DeltaTable) -> set[str | None]:
    return {dict(tags or ()).get("ZCUBE_ID") for tags in table.live_files.column("tags").to_pylist()}


@pytest.mark.req("DL-OPT-06")
@pytest.mark.req("DL-CLU-06")
def test_files_are_marked_as_delta_spark_marks_them(tmp_path: Path) -> None:
    table = _clustered(tmp_path, "x", "y")
    for first in (0, 16):
        table.append(_grid(32, first))
        assert all("clusteringProvider" not in add for add in _adds(table))
    before = sorted(table.scan().to_arrow()["text"].to_pylist())
    done = table.compact(target_file_size=900)
    assert done.added_files >= 12
    adds = _adds(table)
    assert {add["clusteringProvider"] for add in adds} == {"liquid"}
    assert {add["dataChange"] for add in adds} == {False}
    assert len({add["tags"]["ZCUBE_ID"] for add in adds}) == 1
    assert {add["tags"]["ZCUBE_ZORDER_BY"] for add in adds} == {'["x","y"]'}
    parameters = table.history(1)[0].info["operationParameters"]
    assert (parameters["clusterBy"], parameters["zOrderBy"]) == ('["x","y"]', "[]")
    assert sorted(table.scan().to_arrow()["text"].to_pylist()) == before
    total = len(table.live_files)
    assert total >= 12
    for condition in ("x = 20", "y = 20"):
        assert table.scan(filter=condition).files().num_rows <= total / 2


@pytest.mark.req("DL-OPT-07")
def test_cubes_grow_until_they_are_large_and_then_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _clustered(tmp_path, "x")
    table.append(_grid(4))
    table.compact()
    (first,) = _cubes(table)
    version = table.version
    assert table.compact().groups == ()
    assert table.refresh().version == version
    table.append(_grid(4, 4))
    assert table.compact().removed_files == 2
    (second,) = _cubes(table)
    assert second != first
    monkeypatch.setattr(clustering, "_LEAST_CUBE", 1)
    table.append(_grid(4, 8))
    assert (table.compact(dry_run=True).removed_files, table.compact().removed_files) == (1, 1)
    assert second in _cubes(table)
    assert len(_cubes(table)) == 2
    assert table.compact(cluster="full").groups == ()
    assert table.compact(rewrite_all=True).removed_files == 2
    assert len(_cubes(table)) == 1


def test_a_cube_is_filled_up_to_a_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _clustered(tmp_path, "x")
    for first in range(4):
        table.append(_grid(4, 4 * first))
    monkeypatch.setattr(clustering, "_MOST_CUBE", 1_000)
    table.compact()
    assert len(_cubes(table)) > 1
    assert None not in _cubes(table)


@pytest.mark.req("DL-OPT-07")
def test_what_other_columns_clustered_stays_unless_all_is_asked_for(tmp_path: Path) -> None:
    table = _clustered(tmp_path, "x")
    table.append(_grid(4))
    table.compact()
    (old,) = _cubes(table)
    table.alter().cluster_by(["y"]).commit()
    assert table.compact().groups == ()
    table.append(_grid(4, 4))
    assert table.compact().removed_files == 1
    assert old in _cubes(table)
    assert table.compact(cluster="full").removed_files == 2
    (new,) = _cubes(table)
    assert new != old
    assert table.history(1)[0].info["operationParameters"]["isFull"] == "true"
    assert {add["tags"]["ZCUBE_ZORDER_BY"] for add in _adds(table)} == {'["y"]'}


@pytest.mark.req("DL-CLU-07")
@pytest.mark.req("DL-OPT-08")
def test_files_of_other_implementations_stay(builder: DeltaBuilder) -> None:
    files = {
        name: builder.add(ids(number), path=f"{name}.parquet", clusteringProvider=name)
        for number, name in enumerate(("liquid", "other"))
    }
    plain = builder.add(ids(2), path="plain.parquet")
    columns = '{"clusteringColumns":[["id"]]}'
    builder.create(
        ID,
        *files.values(),
        plain,
        {"domainMetadata": {"domain": "delta.clustering", "configuration": columns, "removed": False}},
        protocol=builder.features("clustering", "domainMetadata"),
    )
    table = DeltaTable(builder.root)
    for cluster in (None, "full"):
        table.append(ids(3))
        done: Any = table.compact(cluster=cluster)
        assert done.removed_files >= 2
        paths = table.live_files.column("path").to_pylist()
        assert "other.parquet" in paths
        assert {"liquid.parquet", "plain.parquet"}.isdisjoint(paths)
    assert ids_of(DeltaTable(builder.root)) == [0, 1, 2, 3, 3]


def test_a_cube_is_written_anew_for_its_deleted_rows(tmp_path: Path) -> None:
    table = _clustered(tmp_path, "x", properties={"delta.enableDeletionVectors": "true"})
    table.append(_grid(8))
    table.compact()
    table.delete("y = 3", strategy="merge-on-read")
    assert table.compact(max_deleted=0.5).groups == ()
    assert table.compact().removed_files == 1
    assert table.live_files.column("deletionVector").null_count == len(table.live_files)
    assert table.scan().count() == 56


def test_names_are_logical_ones(tmp_path: Path) -> None:
    table = _clustered(tmp_path, "x", properties={"delta.columnMapping.mode": "name"})
    table.append(_grid(4))
    table.alter().rename("x", "new.x").commit()
    table.compact()
    assert {add["tags"]["ZCUBE_ZORDER_BY"] for add in _adds(table)} == {'["`new.x`"]'}
    assert table.compact().groups == ()


def test_files_can_be_put_together_without_clustering(tmp_path: Path) -> None:
    table = _clustered(tmp_path, "x")
    for first in (0, 4):
        table.append(_grid(4, first))
    table.compact(cluster=False)
    assert len(table.live_files) == 1
    assert all("clusteringProvider" not in add for add in _adds(table))


def test_other_orders_and_other_tables_are_refused(tmp_path: Path) -> None:
    table = _clustered(tmp_path / "clustered", "x")
    table.append(_grid(2))
    for order in ("sort_by", "z_order_by", "hilbert_by"):
        with pytest.raises(InvalidArgumentError, match=f"the table is clustered by x, and {order}"):
            table.compact(**{order: ["y"]})
    table.compact(cluster=False, sort_by="y")
    plain = create_table(str(tmp_path / "plain"), _GRID)
    with pytest.raises(InvalidArgumentError, match="the table has no clustering columns"):
        plain.compact(cluster=True)
    iceberg: Any = create_table(str(tmp_path / "iceberg"), _GRID, format="iceberg")
    with pytest.raises(UnsupportedFeatureError, match="Iceberg tables have no clustering columns"):
        iceberg.compact(cluster="full")
    iceberg.compact(cluster=False)
    for wrong in ("all", 1, object()):
        with pytest.raises(InvalidArgumentError, match="cluster must be"):
            table.compact(cluster=wrong)


def test_rows_that_are_deleted_meanwhile_stay_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _clustered(tmp_path, "x", "y", properties={"delta.enableDeletionVectors": "true"})
    for first in (0, 8):
        table.append(_grid(8, first))
    other = deltaberg.DeltaTable(tmp_path)
    marks, done = clustering.Clustering.marks, list[bool]()

    def marked(self: Any) -> Any:
        if not done:
            done.append(True)
            other.delete("y = 3", strategy="merge-on-read")
        return marks(self)

    monkeypatch.setattr(clustering.Clustering, "marks", marked)
    result = table.compact()
    assert not result.conflicts
    assert DeltaTable(tmp_path).scan(filter="y = 3").count() == 0
    assert DeltaTable(tmp_path).scan().count() == 112
    assert None not in _cubes(DeltaTable(tmp_path))


@pytest.mark.parametrize("columns", [["x", "s.y"], ["s.y"]])
def test_new_rows_in_the_order_of_the_clustering(tmp_path: Path, columns: list[str]) -> None:
    """Where the table asks for optimized writes. Files have no marks, and compaction clusters them."""
    count = 4096
    numbers = [(number * 2_654_435_761) % count for number in range(count)]
    rows = pa.table({"x": [n % 64 for n in numbers], "s": [{"y": n // 64} for n in numbers]})
    read = {}
    for optimized in ("true", "false"):
        asked = {"delta.autoOptimize.optimizeWrite": optimized, "delta.columnMapping.mode": "name"}
        table = create_table(tmp_path / optimized, rows.schema, cluster_by=columns, properties=asked)
        table.append(rows, writer_properties=ParquetOptions(row_group_rows=256))
        (file,) = table.live_files.to_pylist()
        assert (file["clusteringProvider"], file["tags"]) == (None, None)
        read[optimized] = table.scan().to_arrow()
        assert read[optimized].to_pylist() != rows.to_pylist() or optimized == "false"
        by_number = sorted(row["s"]["y"] * 64 + row["x"] for row in read[optimized].to_pylist())
        assert by_number == list(range(count))
        assert table.compact().removed_files == 1

    def cells(rows: pa.Table) -> int:
        """Return in how many row groups the values of the last column are, together."""
        ys = [row["y"] for row in rows["s"].to_pylist()]
        return sum(len(set(ys[start : start + 256])) for start in range(0, count, 256))

    assert cells(read["true"]) < cells(read["false"]) / 3


@pytest.mark.req("DL-OPT-07")
def test_a_month_of_maintenance_writes_each_row_a_few_times(tmp_path: Path) -> None:
    """Each day brings as much as the other, and is clustered at once; what was clustered before seldom moves."""
    table = _clustered(tmp_path, "x", "y")
    days, written, most = 30, 0, 0
    for day in range(days):
        table.append(_grid(24, 24 * day))
        done = table.maintain(MaintenancePolicy(steps=["compact"]), dry_run=False)
        written += done["compact"].numbers["added_bytes"]
        assert None not in _cubes(table)
        most = max(most, len(_cubes(table)))
        assert not table.maintain(MaintenancePolicy(steps=["compact"])).is_due
    total = sum(table.live_files.column("size").to_pylist())
    assert table.scan().count() == days * 24 * 24
    # All of it each day would be 15 times the bytes of the month.
    assert written < 5 * total
    assert most <= 4
    table.compact()
    assert len(_cubes(table)) == 1


def test_cubes_that_stay_are_much_larger_than_what_is_smaller(rng: random.Random) -> None:
    chosen = clustering.Clustering(("x",), is_full=False, is_gradual=True)
    tags = [("ZCUBE_ZORDER_BY", '["x"]')]
    cubes, written, total = list[int](), 0, 0
    for _ in range(365):
        new = rng.randint(1 << 20, 4 << 20)
        total += new
        sizes = [new, *cubes]
        files = pa.table(
            {
                "tags": pa.array([None, *([*tags, ("ZCUBE_ID", str(n))] for n in range(len(cubes)))], _TAGS),
                "clusteringProvider": pa.array([None, *["liquid"] * len(cubes)], pa.string()),
            }
        )
        packed = [PackedFile(row, None, size) for row, size in enumerate(sizes)]
        taken = {file.row for file in chosen.choose(files, packed, Packing(1))}
        assert 0 in taken
        cubes = [size for row, size in enumerate(sizes) if row not in taken] + [sum(sizes[row] for row in taken)]
        written += sum(sizes[row] for row in taken)
        assert sum(cubes) == total
        ordered = sorted(cubes)
        assert all(size > 2 * sum(ordered[:place]) for place, size in enumerate(ordered))
    assert len(cubes) <= 8
    assert written < 8 * total
