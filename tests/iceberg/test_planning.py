"""Scan planning: which files a filter leaves by partitions and statistics, and which are not opened."""

from __future__ import annotations

import struct
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import col, create_table, open_table
from deltaberg.errors import SpecViolationError
from deltaberg.expressions.tree.tree import Value
from deltaberg.iceberg.manifests.fields import ManifestPart
from deltaberg.iceberg.manifests.reader import ManifestReader
from tests.iceberg.entries import added, entry
from tests.support.iceberg_builder import IcebergBuilder, IcebergFile
from tests.support.recorder import Recorder
from tests.support.roads import Road, by_every_road

_TS = {"id": "long", "ts": "timestamp"}
_DAY_MICROS = 86_400_000_000
_HALF_PAST_TEN = 1_510_871_468_000_000  # 2017-11-16T22:31:08


def _spec(transform: str, source: int = 2, name: str = "p") -> list[dict[str, Any]]:
    return [{"source-id": source, "name": name, "transform": transform}]


def _files(builder: IcebergBuilder, condition: str | Value | None = None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = open_table(builder.root).scan(condition).files().to_pylist()
    return found


def _kept(builder: IcebergBuilder, condition: str | Value, name: str = "p") -> list[Any]:
    """Return the partition values of the files that are left by a filter."""
    found = [row["partition"][name] for row in _files(builder, condition)]
    return sorted(found, key=lambda value: (value is None, value))


def _table(tmp_path: Path, kind: str, transform: str, partitions: list[Any], value: Any = None) -> IcebergBuilder:
    """Return a table with a file for each partition value, whose rows do not matter."""
    builder = IcebergBuilder(tmp_path / "t", {"id": "long", "v": kind}, specs=[_spec(transform)])
    builder.commit(*[builder.data([{"id": 0, "v": value}], partition={"p": part}) for part in partitions])
    return builder


@pytest.mark.req("ICE-SCAN-01")
def test_deleted_entries_are_left_out(tmp_path: Path, road: Road) -> None:
    builder = IcebergBuilder(tmp_path / "t", _TS)
    files = [builder.data([{"id": number}]) for number in range(5)]
    deletes = [builder.position_deletes([(file, 0)]) for file in files[:2]]
    states = [1, 1, 2, 2, 0]
    entries = [entry(file, status, 1, 1) for file, status in zip(files, states, strict=True)]
    removed = [entry(deletes[0], 2, 1, 1), entry(deletes[1], 1, 1, 1)]
    number = builder.commit(manifests=[builder.manifest(entries), builder.manifest(removed, 1)])
    builder.commit(builder.data([{"id": 9}]))
    scan = open_table(builder.root, snapshot_id=number).scan()
    assert scan.files().num_rows == scan.explanation().tasks == 3
    assert road.column(scan, "id") == [0, 4]
    assert road.column(open_table(builder.root).scan(), "id") == [0, 4, 9]


@by_every_road
@pytest.mark.req("ICE-SCAN-03")
@pytest.mark.req("ICE-SCAN-09")
@pytest.mark.req("ICE-GEN-10")
def test_days(tmp_path: Path) -> None:
    builder = IcebergBuilder(tmp_path / "t", _TS, specs=[_spec("day", name="ts_day")])
    times = {17_485: 0, 17_486: _HALF_PAST_TEN - 17_486 * _DAY_MICROS + 1, 17_487: 5}
    files = [
        builder.data([{"id": day, "ts": day * _DAY_MICROS + time}], partition={"ts_day": day})
        for day, time in times.items()
    ]
    builder.commit(*files)
    later = "ts > '2017-11-16T22:31:08'"
    found = _files(builder, later)
    assert [(str(row["partition"]["ts_day"]), row["residual"]) for row in found] == [
        ("2017-11-16", True),
        ("2017-11-17", False),
    ]
    assert open_table(builder.root).scan(later, ["id"]).to_arrow().column("id").to_pylist() == [17_486, 17_487]
    assert _files(builder, f"NOT ({later.replace('>', '<')})") == _files(builder, later.replace(">", ">="))


@by_every_road
@pytest.mark.req("ICE-SCAN-04")
@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        ("v = 34", [3]),
        ("v in (34, 0)", [3, 12]),
        ("v > 5", list(range(16))),
        ("v <> 34", list(range(16))),
        ("v between 33 and 35", list(range(16))),
    ],
)
def test_buckets(tmp_path: Path, condition: str, kept: list[int]) -> None:
    assert _kept(_table(tmp_path, "long", "bucket[16]", list(range(16))), condition) == kept


@by_every_road
@pytest.mark.req("ICE-SCAN-05")
@pytest.mark.parametrize(
    ("condition", "kept"),
    [("v = 15", [10]), ("v >= 15", [10, 20]), ("v < 10", [-10, 0]), ("v <= 10", [-10, 0, 10]), ("v > -1", [0, 10, 20])],
)
def test_truncated_numbers(tmp_path: Path, condition: str, kept: list[int]) -> None:
    assert _kept(_table(tmp_path, "long", "truncate[10]", [-10, 0, 10, 20]), condition) == kept


@by_every_road
@pytest.mark.req("ICE-SCAN-05")
@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        ("v = 'iceberg'", ["ice"]),
        ("v like 'ic%'", ["ic", "ica", "ice"]),
        ("v like 'icebe%'", ["ice"]),
        ("v like 'ice%'", ["ice"]),
        ("v < 'ice'", ["dee", "ic", "ica"]),
        ("v >= 'iceberg'", ["ice", "xyz"]),
    ],
)
def test_truncated_text(tmp_path: Path, condition: str, kept: list[str]) -> None:
    assert _kept(_table(tmp_path, "string", "truncate[3]", ["dee", "ic", "ica", "ice", "xyz"]), condition) == kept


@by_every_road
@pytest.mark.req("ICE-SCAN-06")
@pytest.mark.parametrize(
    ("kind", "transform", "condition", "parts", "kept"),
    [
        ("date", "month", "v >= DATE '2017-11-16'", [573, 574, 575], [574, 575]),
        ("timestamp", "hour", "v < '2017-11-16T22:31:08'", [419_685, 419_686, 419_687], [419_685, 419_686]),
        ("timestamp", "hour", "v < '2017-11-16T22:00:00'", [419_685, 419_686, 419_687], [419_685]),
        ("date", "year", "v > DATE '2017-12-31'", [46, 47, 48], [48]),
        ("date", "year", "v < DATE '1969-07-20'", [-2, -1, 0], [-2, -1]),
        ("timestamp", "month", "v = '1969-12-31T23:59:59'", [-2, -1, 0], [-1]),
    ],
)
def test_years_months_and_hours(
    tmp_path: Path, kind: str, transform: str, condition: str, parts: list[int], kept: list[int]
) -> None:
    assert _kept(_table(tmp_path, kind, transform, parts), condition) == kept


@by_every_road
@pytest.mark.req("ICE-SCAN-07")
@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        ("NOT (v < 20)", [20, 30]),
        ("v >= 20", [20, 30]),
        ("NOT (v < 20 OR v > 25)", [20]),
        ("NOT (NOT (v = 5))", [0]),
        ("v = 5 OR id = 9", [0, 10, 20, 30]),
        ("v = 5 AND id = 9", [0]),
        ("v = 5 OR v = 30 AND id = 9", [0, 30]),
        (~(col("v") >= 20) & (col("id") > 3), [0, 10]),
        ("v = 5 OR abs(id) = 9", [0, 10, 20, 30]),
        ("v = 5 AND NOT (abs(id) = 9)", [0]),
    ],
)
def test_not_and_or(tmp_path: Path, condition: str | Value, kept: list[int]) -> None:
    assert _kept(_table(tmp_path, "long", "truncate[10]", [0, 10, 20, 30]), condition) == kept


@by_every_road
@pytest.mark.req("ICE-SCAN-08")
@pytest.mark.parametrize(
    ("transform", "parts"),
    [
        ("identity", [_HALF_PAST_TEN, None]),
        ("year", [47, None]),
        ("month", [574, None]),
        ("day", [17_486, None]),
        ("hour", [419_686, None]),
        ("bucket[4]", [2, None]),
    ],
)
def test_null(tmp_path: Path, transform: str, parts: list[Any]) -> None:
    builder = _table(tmp_path, "timestamp", transform, parts)
    assert _kept(builder, "v is null") == [None]
    assert [row["residual"] for row in _files(builder, "v is null")] == [False]
    assert len(_kept(builder, "v is not null")) == 1
    assert _kept(builder, "v is not null") != [None]


@by_every_road
@pytest.mark.req("ICE-SCAN-08")
def test_null_in_truncated_columns(tmp_path: Path) -> None:
    builder = _table(tmp_path, "string", "truncate[2]", ["ab", None])
    assert (_kept(builder, "v is null"), _kept(builder, "v is not null")) == ([None], ["ab"])


def _summary(lower: int | None, upper: int | None, null: bool = False) -> list[dict[str, Any]]:
    bounds = [None if value is None else struct.pack("<i", value) for value in (lower, upper)]
    return [{"contains_null": null, "contains_nan": False, "lower_bound": bounds[0], "upper_bound": bounds[1]}]


@by_every_road
@pytest.mark.req("ICE-SCAN-10")
def test_manifests_are_skipped_by_their_summaries(tmp_path: Path, recorder: Recorder) -> None:
    builder = IcebergBuilder(tmp_path / "t", _TS, specs=[_spec("day", name="ts_day")])
    summaries = [_summary(17_000, 17_100), _summary(17_486, 17_490), _summary(None, None, null=True)]
    days = [17_050, 17_487, None]
    manifests = [
        builder.manifest(added(builder.data([{"id": 1}], partition={"ts_day": day})), partitions=summary)
        for day, summary in zip(days, summaries, strict=True)
    ]
    builder.commit(manifests=manifests)
    names = [Path(row["manifest_path"]).name for row in manifests]
    for condition, opened in (
        ("ts > '2017-11-16'", [1]),
        ("ts is null", [2]),
        ("ts < '2017-01-01'", [0]),
        ("ts is not null", [0, 1]),
        ("ts < '2000-01-01'", []),
        (None, [0, 1, 2]),
    ):
        recorder.clear()
        assert len(_files(builder, condition)) == len(opened)
        assert sorted(name for name in recorder.read if name in names) == [names[number] for number in opened]


def _long(value: int) -> bytes:
    return struct.pack("<q", value)


@pytest.mark.req("ICE-SCAN-11")
@pytest.mark.parametrize(
    ("condition", "metrics", "kept"),
    [
        ("id = 11", {"lower_bounds": {1: _long(1)}, "upper_bounds": {1: _long(10)}}, False),
        ("id = 10", {"lower_bounds": {1: _long(1)}, "upper_bounds": {1: _long(10)}}, True),
        ("id = 0", {"lower_bounds": {1: _long(1)}}, False),
        ("id = 11", {"lower_bounds": {1: _long(1)}}, True),
        ("id = 5", {"value_counts": {1: 3}, "null_value_counts": {1: 3}}, False),
        ("id is not null", {"value_counts": {1: 3}, "null_value_counts": {1: 3}}, False),
        ("id is null", {"value_counts": {1: 3}, "null_value_counts": {1: 0}}, False),
        ("id is null", {"value_counts": {1: 3}, "null_value_counts": {1: 1}}, True),
        ("x = 1", {"value_counts": {2: 3}, "null_value_counts": {2: 0}, "nan_value_counts": {2: 3}}, False),
        ("x = 1", {"value_counts": {2: 3}, "null_value_counts": {2: 1}, "nan_value_counts": {2: 2}}, False),
        ("x in (1, 2)", {"null_value_counts": {2: 1}, "nan_value_counts": {2: 2}}, False),
        ("x < 1", {"null_value_counts": {2: 1}, "nan_value_counts": {2: 2}}, False),
        ("x > 1", {"null_value_counts": {2: 1}, "nan_value_counts": {2: 2}}, True),
        ("x = 1", {"null_value_counts": {2: 1}, "nan_value_counts": {2: 1}}, True),
        ("isnan(x)", {"null_value_counts": {2: 0}, "nan_value_counts": {2: 0}}, False),
        ("isnan(x)", {"null_value_counts": {2: 0}, "nan_value_counts": {2: 1}}, True),
        ("NOT isnan(x)", {"null_value_counts": {2: 0}, "nan_value_counts": {2: 3}}, False),
        ("NOT isnan(x)", {"null_value_counts": {2: 3}, "nan_value_counts": {2: 0}}, True),
        ("NOT isnan(x)", {"null_value_counts": {2: 1}, "nan_value_counts": {2: 2}}, True),
        ("x > 5", {"upper_bounds": {2: struct.pack("<d", 5)}, "nan_value_counts": {2: 0}}, False),
        ("x > 5", {"upper_bounds": {2: struct.pack("<d", 5)}, "nan_value_counts": {2: 1}}, True),
        ("x > 5", {"upper_bounds": {2: struct.pack("<d", 5)}}, True),
        ("x > 'NaN'", {"upper_bounds": {2: struct.pack("<d", 5)}, "nan_value_counts": {2: 0}}, False),
    ],
)
def test_files_are_skipped_by_their_metrics(
    tmp_path: Path, condition: str, metrics: dict[str, dict[int, Any]], kept: bool
) -> None:
    builder = IcebergBuilder(tmp_path / "t", {"id": "long", "x": "double"})
    builder.commit(builder.data([{"id": None, "x": None}] * 3, metrics=metrics))
    assert len(_files(builder, condition)) == kept


@pytest.mark.parametrize(
    ("transform", "condition", "matching", "is_read"),
    [
        ("identity", "v = 1", [1, 1], False),
        ("identity", "v IN (0, 2) OR v IS NULL", [0, 2, None], False),
        ("identity", "v = 1 AND id = 0", [1], True),
        ("identity", "id = 0", [0, 1, 2], True),
        ("truncate[10]", "v < 10", [0, 1, 1, 2], True),
        ("truncate[10]", "v = 1", [1, 1], True),
        ("bucket[4]", "v = 1", [1, 1], True),
    ],
)
def test_metrics_are_read_where_partitions_do_not_decide(
    transform: str, condition: str, matching: list[Any], is_read: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = create_table(
        tmp_path / "t", pa.schema({"id": pa.int64(), "v": pa.int64()}), format="iceberg", partition_by=_named(transform)
    )
    rows = pa.table({"id": [0, 1, 0, 1, 0], "v": [0, 1, 2, None, 1]})
    table.append(rows)
    parts: list[ManifestPart] = []
    read = ManifestReader.read

    def recorded(reader: ManifestReader, manifests: Any, part: ManifestPart, *more: Any) -> Any:
        # There are no delete files.
        if manifests:
            parts.append(part)
        return read(reader, manifests, part, *more)

    monkeypatch.setattr(ManifestReader, "read", recorded)
    scan = table.scan(condition)
    scan.files()
    assert [bool(part.metrics) for part in parts] == [is_read]
    assert sorted(scan.to_arrow()["v"].to_pylist(), key=str) == matching


def _named(transform: str) -> str:
    name, _, width = transform.rstrip("]").partition("[")
    return "v" if name == "identity" else f"{name}({width + ', ' if width else ''}v)"


def test_null_structs_count_for_their_fields(tmp_path: Path) -> None:
    """In ORC files of Iceberg Java, the counts of a field leave out the rows in which its struct is null."""
    inner = {"type": "struct", "fields": [{"id": 2, "name": "a", "required": False, "type": "long"}]}
    builder = IcebergBuilder(tmp_path / "t", [{"id": 1, "name": "s", "required": False, "type": inner}])
    bounds = {"lower_bounds": {2: _long(5)}, "upper_bounds": {2: _long(5)}}
    files: list[tuple[list[Any], int, int]] = [([None, 5], 1, 0), ([None, ...], 2, 2), ([None, None], 0, 0)]
    for values, counted, nulls in files:
        rows = [{"s": None if value is None else {"a": None if value is ... else value}} for value in values]
        metrics: dict[str, dict[int, Any]] = {"value_counts": {2: counted}, "null_value_counts": {2: nulls}}
        metrics |= bounds if 5 in values else {}
        builder.commit(builder.data(rows, format="orc", metrics=metrics))
    counts = {}
    for condition in ("s.a IS NULL", "s.a IS NOT NULL", "s.a = 5", "s.a <> 5"):
        scan = open_table(builder.root).scan(condition)
        assert scan.count() == len(scan.to_arrow())
        counts[condition] = (len(scan.files()), scan.count())
    assert counts == {"s.a IS NULL": (3, 5), "s.a IS NOT NULL": (1, 1), "s.a = 5": (1, 1), "s.a <> 5": (0, 0)}


@pytest.mark.parametrize(("lower", "upper"), [(10, 1), (5, 4)])
def test_inverted_bounds_prune_nothing(tmp_path: Path, lower: int, upper: int) -> None:
    builder = IcebergBuilder(tmp_path / "t", {"id": "long"})
    metrics = {"lower_bounds": {1: _long(lower)}, "upper_bounds": {1: _long(upper)}}
    builder.commit(builder.data([{"id": 20}], metrics=metrics))
    assert open_table(builder.root).scan("id = 20").count() == 1


def _ids_of_delete_reads(builder: IcebergBuilder, recorder: Recorder, condition: str, file: IcebergFile) -> Any:
    scan = open_table(builder.root).scan(condition, ["id"])
    recorder.clear()
    found = sorted(scan.to_arrow().column("id").to_pylist())
    return found, Path(file.path).name in recorder.read


@by_every_road
@pytest.mark.req("ICE-SCAN-18")
@pytest.mark.req("ICE-SCAN-11")
@pytest.mark.parametrize(
    ("condition", "ids_left", "opened"),
    [
        ("id = 9", [9], False),
        ("id > 4", [5, 6, 7, 8, 9, 10], False),
        ("id > 3", [5, 6, 7, 8, 9, 10], True),
        ("id = 2", [], True),
        ("id is null", [None], False),
        ("id = 9 and s = 'a'", [9], False),
        ("id = 9 or s = 'a'", [5, 6, 7, 8, 9, 10], True),
        ("s = 'z'", [], True),
    ],
)
def test_delete_files_that_cannot_hit_are_not_opened(
    tmp_path: Path, recorder: Recorder, condition: str, ids_left: list[int | None], opened: bool
) -> None:
    """Bounds of columns that are not compared prove nothing, here those of ``s`` in the delete file."""
    builder = IcebergBuilder(tmp_path / "t", {"id": "long", "s": "string"})
    rows = [{"id": number, "s": "a"} for number in range(1, 11)]
    builder.commit(builder.data([*rows, {"id": None, "s": "b"}]))
    metrics: dict[str, dict[int, Any]] = {
        "lower_bounds": {1: _long(1), 2: b"x"},
        "upper_bounds": {1: _long(4), 2: b"y"},
        "null_value_counts": {1: 0, 2: 0},
    }
    deletes = builder.equality_deletes([1], [{"id": number, "s": "x"} for number in range(1, 5)], metrics=metrics)
    builder.commit(deletes)
    if condition == "s = 'z'":
        builder.commit(builder.data([{"id": 1, "s": "z"}], metrics=None), sequence=1)
    expected = (ids_left, opened)
    assert _ids_of_delete_reads(builder, recorder, condition, deletes) == expected


@by_every_road
@pytest.mark.req("ICE-SCAN-18")
def test_delete_files_without_metrics_are_opened(tmp_path: Path, recorder: Recorder) -> None:
    builder = IcebergBuilder(tmp_path / "t", {"id": "long"})
    builder.commit(builder.data([{"id": 9}]))
    deletes = builder.equality_deletes([1], [{"id": 9}])
    builder.commit(deletes)
    assert _ids_of_delete_reads(builder, recorder, "id = 9", deletes) == ([], True)


@pytest.mark.req("ICE-SCAN-19")
def test_delete_manifests_are_read_first(tmp_path: Path, recorder: Recorder) -> None:
    builder = IcebergBuilder(tmp_path / "t", {"id": "long"})
    files = [builder.data([{"id": number}, {"id": 100 + number}]) for number in range(3)]
    builder.commit(*files)
    for file in files:
        builder.commit(builder.position_deletes([(file, 0)]))
    deletes = [Path(row["manifest_path"]).name for row in builder._manifests[1003] if row["content"]]
    recorder.clear()
    batches = open_table(builder.root).scan().to_batches()
    next(batches)
    first = min(recorder.read.index(Path(file.path).name) for file in files if Path(file.path).name in recorder.read)
    assert len(deletes) == 3
    assert set(deletes) <= set(recorder.read[:first])
    batches.close()


@by_every_road
@pytest.mark.req("ICE-SCAN-21", half="reader")
def test_a_file_that_is_live_twice(tmp_path: Path) -> None:
    """The rows of the file are read twice, as documented. Validation reports the file."""
    builder = IcebergBuilder(tmp_path / "t", {"id": "long"})
    file = builder.data([{"id": 1}])
    builder.commit(file)
    builder.commit(file)
    with pytest.raises(SpecViolationError) as raised:
        open_table(builder.root, validate=True)
    assert f"the data file {file.path} is live 2 times" in raised.value.context["violations"]
    assert open_table(builder.root).scan().to_arrow().to_pylist() == [{"id": 1}, {"id": 1}]


@by_every_road
@pytest.mark.req("BEY-43", half="reader")
def test_unknown_transforms(tmp_path: Path) -> None:
    """Unknown transforms prune nothing, but files still belong to their partitions."""
    builder = IcebergBuilder(tmp_path / "t", {"id": "long", "v": "long"}, specs=[_spec("zorder")])
    builder._partition_type = lambda _part: "string"  # type: ignore[method-assign,assignment]
    files = [builder.data([{"id": 1, "v": n}, {"id": 2, "v": n}], partition={"p": "ab"[n]}) for n in range(2)]
    builder.commit(*files)
    builder.commit(builder.equality_deletes([1], [{"id": 1}], partition={"p": "b"}))
    found = open_table(builder.root).scan(columns=["id", "v"]).to_arrow().to_pylist()
    assert sorted((row["v"], row["id"]) for row in found) == [(0, 1), (0, 2), (1, 2)]
    assert [row["partition"] for row in _files(builder, "v = 7")] == [{"p": "a"}, {"p": "b"}]


def test_unknown_transforms_of_numbers(tmp_path: Path) -> None:
    builder = IcebergBuilder(tmp_path / "t", {"id": "long", "v": "long"}, specs=[_spec("zorder[4]")])
    builder.commit(builder.data([{"id": 1, "v": 1}], partition={"p": 3}), builder.data([{"id": 2}], partition={}))
    assert sorted(row["id"] for row in open_table(builder.root).scan().to_arrow().to_pylist()) == [1, 2]


def test_partitions_of_promoted_columns(tmp_path: Path) -> None:
    """Manifests that were written before a promotion hold the older type."""
    promotions = {"a": ("int", "long"), "b": ("float", "double"), "c": ("decimal(9,2)", "decimal(18,2)")}
    older = {name: kinds[0] for name, kinds in promotions.items()}
    specs = [
        [
            {"source-id": n, "name": name, "transform": "identity", "field-id": 999 + n}
            for n, name in enumerate("abc", 1)
        ]
    ]
    builder = IcebergBuilder(tmp_path / "t", older, specs=specs)
    row = {"a": 7, "b": 1.5, "c": Decimal("14.20")}
    builder.commit(builder.data([row], partition=row))
    newer = [child | {"type": promotions[child["name"]][1]} for child in builder.fields]
    builder.schemas.append(newer)
    builder.commit(builder.data([row], partition=row))
    table = open_table(builder.root)
    for condition, count in (("a = 7", 2), ("b = 1.5", 2), ("c = 14.20", 2), ("a = 8", 0), ("c > 14.20", 0)):
        assert table.scan(condition).count() == count
    assert table.scan().to_arrow().to_pylist() == [row, row]
