"""Row addresses: the number of a row's file in the plan, and its physical position in that file."""

from __future__ import annotations

import itertools
import pickle
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from deltaberg import Scan, open_table
from deltaberg.table.read.bound import BoundScan
from deltaberg.table.read.scan import bound_scan
from deltaberg.table.read.sharing import planning_pieces
from deltaberg.table.read.source import FILE_NUMBER
from tests.support.delta_builder import DeltaBuilder
from tests.support.effort import tries
from tests.support.iceberg_builder import IcebergBuilder, IcebergFile
from tests.support.roads import Road, rows_of

_FILES = 6
_FORMATS = ("parquet", "avro", "orc")


def _values(rng: random.Random, number: int) -> pa.Table:
    count = rng.randrange(1, 200)
    ids = range(1000 * number, 1000 * number + count)
    return pa.table({"id": ids, "v": pa.array([rng.choice([None, 1, 2, 3]) for _ in ids], pa.int64())})


def _delta(root: Path, rng: random.Random) -> Any:
    """Make a table of files with row groups of 10, some of whose rows are deleted."""
    builder = DeltaBuilder(root)
    adds = []
    for number in range(_FILES):
        rows = _values(rng, number)
        gone = sorted(rng.sample(range(len(rows)), rng.randrange(len(rows))))
        adds.append(
            builder.add(
                rows,
                path=f"dir {number}/f.parquet",
                partition={"p": str(number % 2)},
                vector=builder.vector(gone, rng.choice("uip")) if gone else None,
                writer={"row_group_size": 10},
                stats=rng.choice(["none", "full"]) if not gone else "none",
            )
        )
    schema = pa.schema([("id", pa.int64()), ("v", pa.int64()), ("p", pa.int32())])
    builder.create(schema, *adds, partition_by=["p"], protocol=builder.features("deletionVectors"))
    return open_table(builder.root)


def _iceberg(root: Path, rng: random.Random) -> Any:
    """Make a table of files of all formats, whose rows are deleted by position and by key."""
    spec = [{"source-id": 3, "name": "p", "transform": "identity"}]
    builder = IcebergBuilder(root, {"id": "long", "v": "long", "p": "int"}, specs=[spec])
    for number in range(_FILES):
        rows = [{**row, "p": number % 2} for row in _values(rng, number).to_pylist()]
        file = builder.data(rows, partition={"p": number % 2}, format=_FORMATS[number % 3], row_group_size=10)
        builder.commit(file)
        gone = sorted(rng.sample(range(file.rows), rng.randrange(file.rows)))
        builder.commit(*([builder.position_deletes([(file, place) for place in gone])] if gone else []))
    keys = [{"id": 1000 * rng.randrange(_FILES) + rng.randrange(100)} for _ in range(20)]
    builder.commit(builder.equality_deletes([1], keys, partition={"p": 0}))
    return open_table(builder.root)


_TABLES = {"delta": _delta, "iceberg": _iceberg}
_FILTERS = (None, "id >= 2050", "v = 2", "p = 1 AND v IS NULL", "id IN (3, 1004, 2005) OR v > 2")


def _scans(table: Any, rng: random.Random, count: int) -> Iterator[Scan]:
    conditions = itertools.cycle(rng.sample(_FILTERS, len(_FILTERS)))
    for condition in itertools.islice(conditions, count):
        yield table.scan(
            condition,
            rng.choice([None, ["id", "v"], ["v", "id"]]),
            limit=rng.choice([None, None, 7]),
            batch_size=rng.choice([1, 7, 1000]),
            split_size=rng.choice([0, 500]),
            threads=rng.choice([1, 3]),
        )


def _stored(location: str, format: str) -> list[dict[str, Any]]:
    """Read a file without this library."""
    if format == "avro":
        with Path(location).open("rb") as file:
            return list(fastavro.reader(file))  # type: ignore[arg-type]
    found = orc.read_table(location) if format == "orc" else pq.ParquetFile(location).read()
    rows: list[dict[str, Any]] = found.to_pylist()
    return rows


def _check_addresses(bound: BoundScan, addressed: pa.Table) -> None:
    """Compare rows with what their files hold at their addresses."""
    assert bound.address is not None
    number, position = (child.name for child in bound.address)
    assert addressed.schema.field(number).type == addressed.schema.field(position).type == pa.int64()
    numbers = bound.plan.files.column(FILE_NUMBER).to_pylist()
    formats = Scan(bound).files().select(["file_path", "file_format"]).to_pylist()
    files = dict(zip(numbers, (_stored(*file.values()) for file in formats), strict=True))
    rows = addressed.to_pylist()
    assert len({(row[number], row[position]) for row in rows}) == len(rows)
    for row in rows:
        stored = files[row[number]][row[position]]
        assert (row["id"], row["v"]) == (stored["id"], stored["v"])


@pytest.mark.thorough
@pytest.mark.parametrize("format", _TABLES)
def test_rows_are_where_their_addresses_say(format: str, road: Road, rng: random.Random, tmp_path: Path) -> None:
    for attempt in range(1 if road.spark else tries(6)):
        table = _TABLES[format](tmp_path / str(attempt), rng)
        for scan in _scans(table, rng, 3 if road.spark else 15):
            bound = bound_scan(scan).with_addresses()
            addressed = road.table(Scan(bound))
            _check_addresses(bound, addressed)
            if format == "delta":
                road.assert_native()
            plain = scan.to_arrow()
            assert addressed.num_rows == plain.num_rows
            if scan.limit is None:
                assert rows_of(addressed.select(scan.schema.names)) == rows_of(plain), scan


@pytest.mark.parametrize("format", _TABLES)
def test_addresses_that_are_asked_for_twice(format: str, rng: random.Random, tmp_path: Path) -> None:
    once = bound_scan(_TABLES[format](tmp_path / "t", rng).scan("v >= 2", ["id", "v"])).with_addresses()
    assert once.with_addresses() == once
    assert Scan(once.with_addresses()).to_arrow().equals(Scan(once).to_arrow())
    other = once.with_columns(["v", "id"]).with_addresses()
    assert other.output.names == ["v", "id", *(child.name for child in once.address or ())]
    _check_addresses(other, Scan(other).to_arrow())


def test_by_the_fused_road(road: Road, rng: random.Random, tmp_path: Path) -> None:
    bound = bound_scan(_iceberg(tmp_path / "t", rng).scan("v >= 2", ["id", "v"])).with_addresses()
    schema = "id long, v long, _file_number long, _row_position long"
    found = road.fused(Scan(bound), lambda batches: batches, schema)
    _check_addresses(bound, found)
    assert found.num_rows == Scan(bound).count() > 0


def _file(scan: Any) -> set[str]:
    return set(scan.files().column("file_path").to_pylist())


@pytest.mark.parametrize("format", _TABLES)
def test_whole_files_that_a_filter_chose(format: str, road: Road, rng: random.Random, tmp_path: Path) -> None:
    """All rows of these files that are not deleted, and no row of another file."""
    table = _TABLES[format](tmp_path / "t", rng)
    for condition in ("p = 1 AND v = 2", "id < 2050 AND p = 0"):
        chosen = bound_scan(table.scan(condition, limit=3))
        whole = chosen.with_addresses().without_filter()
        assert _file(Scan(whole)) == _file(Scan(chosen))
        addressed = road.table(Scan(whole))
        _check_addresses(whole, addressed)
        everything = bound_scan(table.scan()).with_addresses()
        numbers = pa.array(chosen.plan.files.column(FILE_NUMBER).to_pylist(), pa.int64())
        of_all = Scan(everything).to_arrow()
        expected = of_all.filter(pa.compute.is_in(of_all.column("_file_number"), value_set=numbers))
        assert rows_of(addressed) == rows_of(expected)


def _bytes_of(number: int) -> bytes:
    return number.to_bytes(8, "little", signed=True)


def test_whole_files_lack_what_delete_files_beside_the_filter_delete(tmp_path: Path) -> None:
    """Planning leaves out delete files whose keys no row of the filter can equal: other rows are still deleted."""
    builder = IcebergBuilder(tmp_path / "t", {"id": "long", "v": "long"})
    rows = [{"id": number, "v": 10 * number} for number in range(5)]
    builder.commit(builder.data(rows), builder.data([{"id": 7, "v": 70}]))
    bounds = {"lower_bounds": {1: _bytes_of(1)}, "upper_bounds": {1: _bytes_of(1)}}
    builder.commit(builder.equality_deletes([1], [{"id": 1}], metrics=bounds))
    table = open_table(builder.root)
    chosen = bound_scan(table.scan("id = 3", ["id", "v"]))
    assert not any(chosen.plan.files.column("delete_files").to_pylist())
    assert Scan(chosen.without_filter()).to_arrow().column("id").to_pylist() == [0, 2, 3, 4, 7]
    addressed = chosen.with_addresses().without_filter()
    _check_addresses(addressed, Scan(addressed).to_arrow())
    assert Scan(chosen).to_arrow().column("id").to_pylist() == [3]


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_a_table_may_have_columns_of_these_names(format: str, road: Road, tmp_path: Path) -> None:
    """Whatever the case of their letters, for Spark tells none apart; filters mean the columns of the table."""
    names = ("_file_number", "_ROW_position", "__file_number")
    rows = pa.table({name: pa.array([number, number + 1], pa.int64()) for number, name in enumerate(names)})
    if format == "delta":
        delta = DeltaBuilder(tmp_path / "t")
        delta.create(rows.schema, delta.add(rows, stats="full"))
    else:
        iceberg = IcebergBuilder(tmp_path / "t", dict.fromkeys(names, "long"))
        iceberg.commit(iceberg.data(rows.to_pylist()))
    bound = bound_scan(open_table(tmp_path / "t").scan("_file_number = 1 AND __file_number = 3")).with_addresses()
    assert bound.address is not None
    assert [child.name for child in bound.address] == ["___file_number", "__row_position"]
    found = road.rows(Scan(bound))
    assert found == [dict(zip(names, (1, 2, 3), strict=True)) | {"___file_number": 0, "__row_position": 1}]


def test_the_recorded_path_stays_as_it_is(tmp_path: Path) -> None:
    """Decoded and made absolute it is the location; actions that name the file again need it verbatim."""
    rows = pa.table({"id": [1]})
    outside = tmp_path / "ou t" / "b.parquet"
    builder = DeltaBuilder(tmp_path / "t")
    recorded = ["a%20b%25.parquet", outside.as_uri(), str(outside.with_name("c.parquet"))]
    paths = ["a b%.parquet", str(outside), str(outside.with_name("c.parquet"))]
    adds = [builder.add(rows, path=path, log_path=log) for path, log in zip(paths, recorded, strict=True)]
    builder.create(rows.schema, *adds)
    plan = bound_scan(open_table(builder.root).scan()).plan
    assert plan.files.column("path").to_pylist() == recorded
    located = plan.located.column("location").to_pylist()
    assert located == [str(builder.root / paths[0]), *paths[1:]]
    iceberg = IcebergBuilder(tmp_path / "i", {"id": "long"})
    file: IcebergFile = iceberg.data([{"id": 1}])
    file.path = f"file://{file.path}"
    iceberg.commit(file)
    plan = bound_scan(open_table(iceberg.root).scan()).plan
    assert plan.files.column("path").to_pylist() == [file.path]
    assert plan.located.column("location").to_pylist() == [file.path.removeprefix("file://")]


def test_such_scans_travel_with_their_plan(rng: random.Random, tmp_path: Path) -> None:
    """What was planned is what is read elsewhere, and nothing is planned there again."""
    table = _iceberg(tmp_path / "t", rng)
    chosen = bound_scan(table.scan("p = 1", planning="executors")).with_addresses()
    assert planning_pieces(chosen) is None
    whole = chosen.without_filter()
    back = pickle.loads(pickle.dumps(whole))
    assert rows_of(Scan(back).to_arrow()) == rows_of(Scan(whole).to_arrow())
