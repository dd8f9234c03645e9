"""Compaction that orders rows: by columns, or along a curve through several, in tables of both formats."""

from __future__ import annotations

import datetime as dt
import json
import math
import random
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from deltaberg import DeltaTable, create_table
from deltaberg.errors import ColumnNotFoundError, DeltabergError, InvalidArgumentError, UnsupportedFeatureError
from deltaberg.iceberg.partition.transforms import parse_transform
from deltaberg.schema.arrow import as_array
from deltaberg.schema.types import Primitive
from deltaberg.table.maintain.row_order import RowOrder
from deltaberg.table.sort import external_sort
from deltaberg.table.write.write import write_files
from tests.support.delta_builder import DeltaBuilder
from tests.support.rows import ID, ids

_FORMATS = pytest.mark.parametrize("format", ["delta", "iceberg"])
_Format = Literal["delta", "iceberg"]
_NAN = float("nan")


def _sizes(table: Any) -> list[int]:
    found: list[int] = table.scan().files()["file_size_in_bytes"].to_pylist()
    return found


def _shuffled(count: int, seed: int) -> list[int]:
    values = list(range(count))
    random.Random(seed).shuffle(values)
    return values


def _points(root: Path, format: _Format, count: int, **arguments: Any) -> Any:
    """Return a table of points in a square, in random order, in three files."""
    table: Any = create_table(root, pa.schema([("x", pa.int64()), ("y", pa.string())]), format=format, **arguments)
    rows = pa.table({"x": _shuffled(count, 1), "y": [f"{value:06}" for value in _shuffled(count, 2)]})
    for part in range(3):
        table.append(rows.take(pa.array(range(part, count, 3))))
    return table


def _found_files(table: Any, condition: str) -> int:
    found: int = table.scan(condition).files().num_rows
    return found


@pytest.mark.req("DL-OPT-05")
@_FORMATS
@pytest.mark.parametrize("order", ["z_order_by", "hilbert_by"])
def test_a_filter_on_each_column_of_a_curve_reads_few_files(tmp_path: Path, format: _Format, order: str) -> None:
    count = 60_000
    table = _points(tmp_path, format, count)
    before = sorted(table.scan().to_arrow().to_pylist(), key=str)
    done = table.compact(target_file_size=sum(_sizes(table)) // 16 + 1, **{order: ["x", "y"]})
    assert (done.removed_files, done.added_files, len(done.commits)) == (3, 16, 1)
    sizes = _sizes(table)
    assert max(sizes) < 1.5 * min(sizes)
    for value in range(0, count, count // 20):
        assert 1 <= _found_files(table, f"x = {value}") <= 5
        assert 1 <= _found_files(table, f"y = '{value:06}'") <= 5
    assert sorted(table.scan().to_arrow().to_pylist(), key=str) == before
    if format == "delta":
        assert table.compact().removed_files == 16


def test_hilberts_curve_skips_more_where_files_are_no_square(tmp_path: Path) -> None:
    count, read = 60_000, {}
    for order in ("z_order_by", "hilbert_by"):
        table = _points(tmp_path / order, "delta", count)
        assert table.compact(target_file_size=sum(_sizes(table)) // 29 + 1, **{order: ["x", "y"]}).added_files == 29
        values = range(0, count, count // 20)
        read[order] = sum(_found_files(table, f"x = {one}") + _found_files(table, f"y = '{one:06}'") for one in values)
    assert read["hilbert_by"] < 0.9 * read["z_order_by"]
    assert read["hilbert_by"] < 40 * 8


@_FORMATS
def test_rows_are_sorted_over_all_files_of_a_partition(tmp_path: Path, format: _Format) -> None:
    columns = pa.schema([("id", pa.int64()), ("v", pa.float64()), ("p", pa.int64())])
    table: Any = create_table(tmp_path, columns, format=format, partition_by="p")
    rng = random.Random(3)
    for start in range(3):
        numbers = range(start, 9000, 3)
        values = [rng.choice([None, _NAN, 0.5, rng.gauss(0, 9)]) for _ in numbers]
        table.append(pa.table({"id": numbers, "v": values, "p": [number % 2 for number in numbers]}, schema=columns))
    done = table.compact("p = 0", sort_by=["v desc nulls first", "id"], target_file_size=max(_sizes(table)))
    assert done.removed_files == 3
    assert done.added_files >= 3
    ordered = table.scan("p = 0").to_arrow().to_pylist()
    assert [row["id"] for row in ordered] == [row["id"] for row in sorted(ordered, key=_descending)]
    assert sorted(row["id"] for row in ordered) == list(range(0, 9000, 2))
    assert table.scan("p = 1").files().num_rows == 3
    # A curve through one column is a sort by it.
    table.compact(z_order_by="id", target_file_size=max(_sizes(table)))
    for part in (0, 1):
        assert table.scan(f"p = {part}").to_arrow()["id"].to_pylist() == list(range(part, 9000, 2))


def _descending(row: dict[str, Any]) -> tuple[int, float, int]:
    value = row["v"]
    if value is None:
        return 0, 0.0, row["id"]
    return (1, 0.0, row["id"]) if math.isnan(value) else (2, -value, row["id"])


_VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int": (pa.int32(), [-5, 7]),
    "double": (pa.float64(), [_NAN, -0.0, 0.0, float("-inf"), 2.5]),
    "decimal": (pa.decimal128(20, 3), [Decimal("-1.500"), Decimal("99.125")]),
    "string": (pa.string(), ["", "ä", "b" * 300]),
    "date": (pa.date32(), [dt.date(1950, 1, 1), dt.date(2030, 1, 1)]),
    "timestamp": (pa.timestamp("us", "UTC"), [dt.datetime(2020, 1, 1, tzinfo=dt.timezone.utc)]),
    "ntz": (pa.timestamp("us"), [dt.datetime(1900, 1, 1)]),
    "boolean": (pa.bool_(), [True, False]),
    "binary": (pa.binary(), [b"\xff\x00", b""]),
}


@_FORMATS
@pytest.mark.parametrize("order", ["sort_by", "z_order_by", "hilbert_by"])
def test_columns_of_every_type_on_disk(
    tmp_path: Path, format: _Format, order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that memory does not hold go to disk, with their lists, structs and maps, and none stay there."""
    monkeypatch.setattr(external_sort, "_SMALLEST_BLOCK", 3000)
    monkeypatch.setattr("deltaberg.table.maintain.compact._MEMORY", 240_000)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    rng = random.Random(4)
    fields = [(name, kind) for name, (kind, _) in _VALUES.items()]
    nested = pa.struct([("a", pa.list_(pa.int64())), ("m", pa.map_(pa.string(), pa.int64()))])
    schema = pa.schema([*fields, ("id", pa.int64()), ("s", nested)])
    table: Any = create_table(tmp_path / "t", schema, format=format)
    for start in (0, 500):
        columns = {name: [rng.choice([None, *values]) for _ in range(500)] for name, (_, values) in _VALUES.items()}
        columns["id"] = list(range(start, start + 500))
        columns["s"] = [{"a": [number], "m": [("k", number)]} for number in columns["id"]]
        table.append(pa.table(columns, schema=schema))
    before = sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["id"])
    runs: list[int] = []
    store = external_sort._Sort.store

    def counted(self: Any, *arguments: Any) -> None:
        store(self, *arguments)
        runs.append(len(self.runs))

    monkeypatch.setattr(external_sort._Sort, "store", counted)
    done = table.compact(target_file_size=max(_sizes(table)) // 2, **{order: list(_VALUES)})
    assert done.added_files >= 2
    assert len(runs) > 2
    after = sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["id"])
    assert repr(after) == repr(before)
    assert list(scratch.iterdir()) == []


@pytest.mark.req("DL-OPT-02")
@pytest.mark.req("DL-OPT-03")
def test_delta_rows_keep_their_ids(tmp_path: Path) -> None:
    properties = {"delta.enableRowTracking": "true", "delta.enableChangeDataFeed": "true"}
    table = _points(tmp_path, "delta", 3000, properties={**properties, "delta.enableDeletionVectors": "true"})
    table.delete("x < 100")
    tracked = ["x", "y", "_metadata.row_id", "_metadata.row_commit_version"]
    before = sorted(table.scan(columns=tracked).to_arrow().to_pylist(), key=str)
    table.compact(z_order_by=["x", "y"], target_file_size=_sizes(table)[0])
    assert sorted(table.scan(columns=tracked).to_arrow().to_pylist(), key=str) == before
    assert len(before) == 2900
    assert table.changes(table.version).count() == 0
    log = tmp_path / "_delta_log" / f"{table.version:020}.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    files = [one for action in actions for name, one in action.items() if name in ("add", "remove")]
    assert not any(one["dataChange"] for one in files)
    (info,) = [action["commitInfo"] for action in actions if "commitInfo" in action]
    assert info["operation"] == "OPTIMIZE"
    assert info["operationParameters"] == {
        "predicate": "[]",
        "zOrderBy": '["x","y"]',
        "clusterBy": "[]",
        "auto": "false",
    }
    for order, recorded in (("hilbert_by", "hilbertBy"), ("sort_by", "sortBy")):
        table.compact(**{order: "x"})
        last = table.history()[0].info["operationParameters"]
        assert (last["zOrderBy"], last[recorded]) == ("[]", '["x"]')


@pytest.mark.req("ICE-MNT-13")
def test_iceberg_rows_keep_their_ids(tmp_path: Path) -> None:
    table = _points(tmp_path, "iceberg", 3000, properties={"format-version": "3"})
    table.delete("x < 100")
    tracked = ["x", "y", "_row_id", "_last_updated_sequence_number"]
    before = sorted(table.scan(columns=tracked).to_arrow().to_pylist(), key=str)
    table.compact(hilbert_by=["x", "y"], target_file_size=_sizes(table)[0])
    assert sorted(table.scan(columns=tracked).to_arrow().to_pylist(), key=str) == before
    assert len(before) == 2900


def _order_ids(table: Any) -> set[int]:
    return set(table.inspect("files")["sort_order_id"].to_pylist())


def test_only_files_in_the_order_of_an_iceberg_table_say_so(tmp_path: Path) -> None:
    schema = pa.schema([("x", pa.int64()), ("at", pa.timestamp("us"))])
    table: Any = create_table(tmp_path, schema, format="iceberg", sort_by=["day(at) desc", "x"])
    for start in (0, 1000):
        numbers = _shuffled(1000, start)
        at = [dt.datetime(2024, 1, 1) + dt.timedelta(hours=number) for number in numbers]
        table.append(pa.table({"x": numbers, "at": at}, schema=schema))
    assert _order_ids(table) == {1}
    for arguments, expected in (
        ({"z_order_by": ["x", "at"]}, 0),
        ({"sort_by": ["day(at) desc", "x"]}, 1),
        ({"sort_by": ["day(at)", "x"]}, 0),
        ({"sort_by": "x"}, 0),
        ({"sort_by": ["DAY(at) desc nulls last", "x asc nulls first"]}, 1),
    ):
        done = table.compact(**arguments, target_file_size=3000)
        assert done.added_files > 1
        assert _order_ids(table) == {expected}
        rows = table.scan().to_arrow().to_pylist()
        assert len(rows) == 2000
        if expected:
            assert rows == sorted(rows, key=lambda row: (-row["at"].date().toordinal(), row["x"]))
    # The rows of a file are not brought into the order of the table after that.
    table.compact(sort_by="x desc")
    assert table.scan().to_arrow()["x"].to_pylist() == sorted([*range(1000)] * 2, reverse=True)


@_FORMATS
def test_a_dry_run_of_an_order(tmp_path: Path, format: _Format) -> None:
    table = _points(tmp_path, format, 3000)
    target = sum(_sizes(table)) // 4 + 1
    planned = table.compact(z_order_by=["x", "y"], target_file_size=target, dry_run=True)
    done = table.compact(z_order_by=["x", "y"], target_file_size=target)
    assert (planned.removed_files, planned.added_files) == (done.removed_files, done.added_files) == (3, 4)


def test_a_table_without_rows(tmp_path: Path) -> None:
    table = _points(tmp_path, "delta", 30)
    table.append(pa.table({"x": pa.array([], pa.int64()), "y": pa.array([], pa.string())}))
    table.update({"x": "NULL"})
    table.compact(hilbert_by=["x", "y"])
    assert table.scan("x IS NULL").count() == 30
    table.delete(None)
    assert table.compact(z_order_by=["x", "y"]).groups == ()


@pytest.mark.req("DL-OPT-05")
@_FORMATS
@pytest.mark.parametrize("order", ["z_order_by", "hilbert_by"])
def test_columns_without_statistics(tmp_path: Path, format: _Format, order: str) -> None:
    properties = {
        "delta": {"delta.dataSkippingStatsColumns": "x"},
        "iceberg": {"write.metadata.metrics.column.y": "counts"},
    }[format]
    table = _points(tmp_path, format, 30, properties=properties)
    version = table.history()[0]
    with pytest.raises(UnsupportedFeatureError, match=f"{order} names a column without statistics.*column: y"):
        table.compact(**{order: ["x", "y"]})
    assert table.refresh().history()[0] == version
    # Who only wants them sorted is free to.
    assert table.compact(sort_by="y").added_files == 1


@_FORMATS
@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"z_order_by": ["id", "p"]}, UnsupportedFeatureError, "z_order_by names a partition column"),
        ({"z_order_by": ["id", "s"]}, InvalidArgumentError, "have no order.*column: s[^.]*name a field of the struct"),
        ({"z_order_by": ["id", "s.a desc"]}, InvalidArgumentError, "z_order_by names a direction.*column: s.a"),
        ({"sort_by": "tags"}, InvalidArgumentError, "have no order.*column: tags(.|\n)*name another column"),
        ({"hilbert_by": ["id", "tags"]}, InvalidArgumentError, "have no order.*column: tags(.|\n)*name another column"),
        ({"hilbert_by": ["id", "ID"]}, InvalidArgumentError, "named twice in hilbert_by"),
        ({"hilbert_by": ["id", "gone"]}, ColumnNotFoundError, "gone"),
        ({"sort_by": []}, InvalidArgumentError, "sort_by names no column"),
        ({"sort_by": "id", "z_order_by": "id"}, InvalidArgumentError, "sort_by and z_order_by exclude each other"),
        ({"z_order_by": ["id"] * 17}, InvalidArgumentError, "names 17 columns, but a curve takes 16 at most"),
        ({"z_order_by": 7}, InvalidArgumentError, "7 does not name columns"),
    ],
)
def test_orders_that_are_refused(
    tmp_path: Path, format: _Format, arguments: dict[str, Any], error: type[DeltabergError], text: str
) -> None:
    nested = pa.struct([("a", pa.int64())])
    schema = pa.schema([("id", pa.int64()), ("p", pa.int64()), ("s", nested), ("tags", pa.list_(pa.string()))])
    table: Any = create_table(tmp_path, schema, format=format, partition_by="p")
    table.append(pa.table({"id": [1], "p": [1], "s": [{"a": 1}], "tags": [["x"]]}, schema=schema))
    with pytest.raises(error, match=text):
        table.compact(**arguments)
    assert table.compact(z_order_by=["id", "s.a"]).added_files == 1


@_FORMATS
def test_nothing_is_put_into_order_by_what_has_none(tmp_path: Path, format: _Format) -> None:
    """A column without a type is null in all rows, and lists have no order: neither sorts or clusters."""
    schema = pa.schema([("id", pa.int64()), ("none", pa.null()), ("tags", pa.list_(pa.string()))])
    settings: Any = {"format": format, "properties": {"format-version": "3"} if format == "iceberg" else {}}
    orders = ("cluster_by",) if format == "delta" else ("sort_by",)
    with pytest.warns(UserWarning, match="has no type"):
        table: Any = create_table(tmp_path / "t", schema, **settings)
    for name in ("none", "tags"):
        for order in orders:
            with pytest.raises(InvalidArgumentError, match="have no order"):
                create_table(tmp_path / "no", schema, **{**settings, order: [name]})
            with pytest.raises(InvalidArgumentError, match="have no order"):
                getattr(table.alter(), order)("id", name)
    table.append(pa.table({"id": [1]}))
    for order in ("sort_by", "z_order_by", "hilbert_by"):
        with pytest.raises(InvalidArgumentError, match="have no order"):
            table.compact(**{order: ["id", "none"]})
        if format == "iceberg":
            with pytest.raises(InvalidArgumentError, match=r"'void\(id\)' is null in all rows"):
                table.compact(**{order: ["void(id)"]})


@pytest.mark.parametrize("order", ["z_order_by", "hilbert_by"])
def test_curves_through_transforms(tmp_path: Path, order: str) -> None:
    """Each file has few days and few buckets. A transform that all rows of a partition share is refused."""
    schema = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us")), ("p", pa.timestamp("us"))])
    table: Any = create_table(tmp_path, schema, format="iceberg", partition_by="year(p)")
    start, rng = dt.datetime(2024, 1, 1), random.Random(5)
    moments = [start + dt.timedelta(minutes=rng.randrange(16 * 1440)) for _ in range(4096)]
    table.append(pa.table({"id": range(4096), "at": moments, "p": [start] * 4096}, schema=schema))
    table.compact(target_file_size=_sizes(table)[0] // 14, **{order: ["days(at)", "bucket(16, id)"]})
    rows = table.scan(columns=["id", "at", "_file"]).to_arrow()
    rows = rows.append_column(
        "bucket", pa.array(parse_transform("bucket[16]").apply(as_array(rows["id"]), Primitive("long")))
    ).append_column("day", pc.day(rows["at"]))
    assert sorted(rows["id"].to_pylist()) == list(range(4096))
    found = rows.group_by("_file").aggregate([("bucket", "count_distinct"), ("day", "count_distinct")])
    assert len(found) > 8
    assert max(found["bucket_count_distinct"].to_pylist()) <= 9
    assert max(found["day_count_distinct"].to_pylist()) <= 9
    with pytest.raises(UnsupportedFeatureError, match=f"{order} names a partition column.*column: p"):
        table.compact(**{order: ["id", "year(p)"]})
    with pytest.raises(InvalidArgumentError, match=f"named twice in {order}"):
        table.compact(**{order: ["day(at)", "days(at)"]})
    assert table.compact(**{order: ["day(at)", "hour(at)"]}).added_files


def test_the_orders_of_a_request() -> None:
    assert RowOrder.of() is None
    assert RowOrder.of(sort_by=["a", ("s", "b")]) == RowOrder("sort", ("a", ("s", "b")))
    assert RowOrder.of(hilbert_by="a") == RowOrder("hilbert", ("a",))


@pytest.mark.req("DL-OPT-04")
@pytest.mark.parametrize("order", ["z_order_by", "hilbert_by"])
def test_rows_that_are_deleted_while_they_are_sorted(
    tmp_path: Path, order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows go to disk and to several files along a curve, and those that others delete meanwhile stay deleted."""
    monkeypatch.setattr(external_sort, "_SMALLEST_BLOCK", 3000)
    monkeypatch.setattr("deltaberg.table.maintain.compact._MEMORY", 600_000)
    properties = {"delta.enableDeletionVectors": "true", "delta.enableRowTracking": "true"}
    table = _points(tmp_path, "delta", 9000, properties=properties)
    table.delete("x % 7 = 3")
    tracked = ["x", "y", "_metadata.row_id", "_metadata.row_commit_version"]
    before = table.scan("x % 5 != 1", columns=tracked).to_arrow().to_pylist()
    left: list[Callable[[], object]] = [
        lambda: table.refresh().delete("x % 5 = 1"),
        lambda: table.refresh().append(pa.table({"x": [-1], "y": [""]})),
    ]

    def written(*arguments: Any, **named: Any) -> pa.Table:
        found = write_files(*arguments, **named)
        if left:
            left.pop()()
        return found

    monkeypatch.setattr("deltaberg.table.change.changed_rows.write_files", written)
    mine: Any = DeltaTable(tmp_path)
    done = mine.compact(target_file_size=sum(_sizes(table)) // 5 + 1, **{order: ["x", "y"]})
    assert (done.conflicts, done.removed_files, left) == ([], 3, [])
    assert done.added_files >= 5
    after = mine.refresh().scan("x >= 0", columns=tracked).to_arrow().to_pylist()
    assert sorted(after, key=str) == sorted(before, key=str)
    assert not mine.verify().findings


def test_a_log_that_counts_no_rows(builder: DeltaBuilder) -> None:
    """Rows are sorted that the log does not know of."""
    added = builder.add(ids(3, 1, 2), stats="full")
    added["add"]["stats"] = json.dumps({"numRecords": 0})
    builder.create(ID, added)
    table = DeltaTable(builder.root)
    table.compact(sort_by="id")
    assert table.scan().to_arrow()["id"].to_pylist() == [1, 2, 3]
