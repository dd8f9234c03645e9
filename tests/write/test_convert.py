"""Directories of Parquet files become Delta tables in place; statistics come from footers that can be trusted."""

from __future__ import annotations

import datetime as dt
import json
import math
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg import DeltaTable, convert_to_delta, convert_to_iceberg, create_table, open_table, write_table
from deltaberg.delta.transaction.transaction import Transaction
from deltaberg.errors import (
    CorruptDataFileError,
    DeltabergError,
    InvalidArgumentError,
    InvalidPartitionValueError,
    SchemaError,
    TableExistsError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from tests.support.canon import canonical_lines
from tests.support.rows import ids, ids_of
from tests.support.typed_rows import HOSTILE_TEXTS, every_type

_ROWS = pa.table({"id": [1, 2, None], "name": ["a", "b", "c"]})


def _write(path: Path, rows: pa.Table = _ROWS, **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, path, **options)
    return path


def _adds(root: Path) -> list[dict[str, Any]]:
    lines = (root / "_delta_log" / f"{0:020d}.json").read_text().splitlines()
    return [json.loads(line)["add"] for line in lines if line.startswith('{"add"')]


def _stats(root: Path) -> dict[str, Any]:
    (add,) = _adds(root)
    found: dict[str, Any] = json.loads(add["stats"])
    return found


def test_a_directory(tmp_path: Path) -> None:
    first = _write(tmp_path / "part-1.parquet")
    _write(tmp_path / "deep" / "er" / "x")
    for ignored in ("_SUCCESS", ".part-1.parquet.crc", "_temporary/x.parquet", ".hidden/x.parquet", "y._COPYING_"):
        (tmp_path / ignored).parent.mkdir(exist_ok=True)
        (tmp_path / ignored).write_bytes(b"")
    before = first.read_bytes()
    result = convert_to_delta(tmp_path, name="n", description="d", configuration={"owner": "ada"}, user_metadata="once")
    assert (result.version, result.added_files, result.added_rows) == (0, 2, 6)
    table = DeltaTable(tmp_path)
    assert sorted(table.live_files["path"].to_pylist()) == ["deep/er/x", "part-1.parquet"]
    assert table.scan().to_arrow().num_rows == 6
    assert (table.metadata.name, table.metadata.description, table.properties) == ("n", "d", {"owner": "ada"})
    assert first.read_bytes() == before
    info = table.history()[0].info
    assert (info["operation"], info["operationMetrics"]["numConvertedFiles"]) == ("CONVERT", "2")
    assert info["operationParameters"] == {
        "numFiles": "2",
        "partitionedBy": "[]",
        "collectStats": "true",
        "sourceFormat": "parquet",
    }
    assert info["userMetadata"] == "once"
    for add in _adds(tmp_path):
        assert json.loads(add["stats"]) == {
            "numRecords": 3,
            "minValues": {"id": 1, "name": "a"},
            "maxValues": {"id": 2, "name": "c"},
            "nullCount": {"id": 1, "name": 0},
        }
    assert table.append(_ROWS).version == 1


def test_statistics_of_every_type(tmp_path: Path) -> None:
    rows = every_type()
    _write(tmp_path / "converted" / "a.parquet", rows, row_group_size=2, store_decimal_as_integer=True)
    convert_to_delta(tmp_path / "converted")
    table = create_table(tmp_path / "written", rows.schema)
    table.append(rows)
    converted, written = _stats(tmp_path / "converted"), json.loads(_last_add(tmp_path / "written")["stats"])
    # A footer does not tell the nulls of lists and maps either.
    nested = {child.name for child in rows.schema if pa.types.is_list(child.type) or pa.types.is_map(child.type)}
    assert converted["nullCount"] == {name: nulls for name, nulls in written["nullCount"].items() if name not in nested}
    # A footer does not tell whether there is a NaN, and the second row group has no other double.
    for kind in ("minValues", "maxValues"):
        floats = {"float", "double"} if kind == "maxValues" else set()
        assert floats.isdisjoint(converted[kind])
        for name, bound in converted[kind].items():
            assert bound == written[kind][name], name
    assert set(written["minValues"]) - set(converted["minValues"]) == {"double"}
    found_rows = DeltaTable(tmp_path / "converted").scan().to_arrow()
    assert canonical_lines(found_rows) == canonical_lines(rows)


def _last_add(root: Path) -> dict[str, Any]:
    newest = max((root / "_delta_log").glob("*.json"))
    (found,) = (json.loads(line)["add"] for line in newest.read_text().splitlines() if line.startswith('{"add"'))
    return dict(found)


@pytest.mark.parametrize(
    ("values", "lower"),
    [
        ([1.5, float("nan"), 2.5], 1.5),
        ([float("nan")] * 3, None),
        ([0.0, 1.0, 2.0], -0.0),
    ],
)
def test_nan_may_hide_in_a_footer(tmp_path: Path, values: list[float], lower: float | None) -> None:
    _write(tmp_path / "a.parquet", pa.table({"x": values}))
    convert_to_delta(tmp_path)
    stats = _stats(tmp_path)
    assert repr(stats.get("minValues", {}).get("x")) == repr(lower)
    assert "x" not in stats.get("maxValues", {})
    table = DeltaTable(tmp_path)
    # NaN is the greatest number.
    assert table.scan("x > 1e300").count() == sum(map(math.isnan, values))


def test_row_groups_without_bounds(tmp_path: Path) -> None:
    """A group of nulls needs none; one that has values and no bounds hides those of all others."""
    _write(tmp_path / "nulls" / "a", pa.table({"x": pa.array([None, None, 3, 4], pa.int64())}), row_group_size=2)
    convert_to_delta(tmp_path / "nulls")
    assert _stats(tmp_path / "nulls") == {
        "numRecords": 4,
        "minValues": {"x": 3},
        "maxValues": {"x": 4},
        "nullCount": {"x": 2},
    }
    _write(tmp_path / "none" / "a", pa.table({"x": [1, 2], "y": [1, 2]}), write_statistics=["y"])
    convert_to_delta(tmp_path / "none")
    assert _stats(tmp_path / "none") == {
        "numRecords": 2,
        "minValues": {"y": 1},
        "maxValues": {"y": 2},
        "nullCount": {"y": 0},
    }
    assert DeltaTable(tmp_path / "none").scan("x = 2").count() == 1


def test_long_texts_are_cut(tmp_path: Path) -> None:
    _write(tmp_path / "a", pa.table({"x": ["a" * 40, "ü" * 40]}))
    convert_to_delta(tmp_path)
    assert _stats(tmp_path)["minValues"]["x"] == "a" * 32
    assert _stats(tmp_path)["maxValues"]["x"] == "ü" * 32 + "\U0010ffff"


def test_days_of_another_calendar_have_no_bounds(tmp_path: Path) -> None:
    rows = pa.table({"day": [dt.date(1500, 1, 1)], "n": [1]})
    _write(tmp_path / "a", rows.replace_schema_metadata({"org.apache.spark.legacyDateTime": ""}))
    convert_to_delta(tmp_path)
    assert _stats(tmp_path) == {
        "numRecords": 1,
        "minValues": {"n": 1},
        "maxValues": {"n": 1},
        "nullCount": {"day": 0, "n": 0},
    }


def test_instants_of_96_bits(tmp_path: Path) -> None:
    at = dt.datetime(2020, 1, 1, 12, tzinfo=dt.timezone.utc)
    rows = pa.table({"at": pa.array([at], pa.timestamp("us", "UTC"))})
    _write(tmp_path / "a", rows, use_deprecated_int96_timestamps=True)
    convert_to_delta(tmp_path)
    table = DeltaTable(tmp_path)
    assert str(table.schema) == "struct<at: timestamp>"
    assert table.scan("at = '2020-01-01T12:00:00Z'").to_arrow().equals(rows)


def test_statistics_can_be_left_out(tmp_path: Path) -> None:
    _write(tmp_path / "a")
    convert_to_delta(tmp_path, collect_stats=False)
    assert _stats(tmp_path)["numRecords"] == 3
    assert "x" not in json.dumps(_stats(tmp_path))


def test_partitions_of_hive(tmp_path: Path) -> None:
    columns = {"p": pa.string(), "Day": pa.date32(), "n": pa.decimal128(5, 2)}
    expected: list[tuple[Any, ...]] = []
    for number, text in enumerate(HOSTILE_TEXTS):
        if text == "__HIVE_DEFAULT_PARTITION__":
            continue
        folder = tmp_path / f"p={quote(text, safe='')}" / "day=2020-02-29" / f"n=-{number}.50"
        _write(folder / "x.parquet", pa.table({"id": [number]}))
        expected.append((number, text, dt.date(2020, 2, 29), Decimal(f"-{number}.50")))
    _write(tmp_path / "p=__HIVE_DEFAULT_PARTITION__" / "n=1" / "day=__HIVE_DEFAULT_PARTITION__" / "y", _ids(99))
    expected.append((99, None, None, Decimal(1)))
    convert_to_delta(tmp_path, partition_by=pa.schema(columns))
    table = DeltaTable(tmp_path)
    assert (table.partition_columns, table.schema.names) == (["p", "Day", "n"], ["id", "p", "Day", "n"])
    assert sorted(map(tuple, (row.values() for row in table.scan().to_arrow().to_pylist()))) == sorted(expected)
    assert table.scan("Day = '2020-02-29' AND n < -3").count() == len(HOSTILE_TEXTS) - 1 - 3
    table.append(pa.table({"id": [100], "p": ["a b"], "Day": [None], "n": [None]}, _schema(table)))
    assert table.scan("p = 'a b'").count() == 2


def _ids(*values: int) -> pa.Table:
    return pa.table({"id": list(values)})


def _schema(table: DeltaTable) -> pa.Schema:
    return table.arrow_schema


def test_a_partition_column_that_files_store_as_well(tmp_path: Path) -> None:
    _write(tmp_path / "p=1" / "a", pa.table({"p": [9], "id": [1]}))
    convert_to_delta(tmp_path, partition_by={"p": pa.int32()})
    assert DeltaTable(tmp_path).scan().to_arrow().to_pylist() == [{"id": 1, "p": 1}]


def test_partitions_by_directory(tmp_path: Path) -> None:
    for year, month in ((2020, 1), (2021, 12)):
        _write(tmp_path / str(year) / str(month) / "a", _ids(month))
    columns = {"year": pa.int16(), "month": pa.int8()}
    convert_to_delta(tmp_path, partition_by=columns, partition_strategy="directory")
    found = DeltaTable(tmp_path).scan().to_arrow().sort_by("id").to_pylist()
    assert found == [{"id": 1, "year": 2020, "month": 1}, {"id": 12, "year": 2021, "month": 12}]


@pytest.mark.parametrize(
    ("path", "columns", "error", "said"),
    [
        ("p=1/a", None, InvalidArgumentError, "not expected"),
        ("p=1/a", {"q": pa.int32()}, InvalidArgumentError, "not expected"),
        ("p=1/p=2/a", {"p": pa.int32()}, InvalidArgumentError, "named twice"),
        ("a", {"p": pa.int32()}, InvalidArgumentError, "no directory"),
        ("p=x/a", {"p": pa.int32()}, InvalidPartitionValueError, "p=x/a"),
        ("p=%FF/a", {"p": pa.string()}, InvalidPartitionValueError, "UTF-8"),
    ],
)
def test_directories_that_do_not_fit(
    tmp_path: Path, path: str, columns: Any, error: type[DeltabergError], said: str
) -> None:
    _write(tmp_path / path)
    with pytest.raises(error, match=said):
        convert_to_delta(tmp_path, partition_by=columns)
    assert not list((tmp_path / "_delta_log").glob("*"))


def test_columns_of_all_files(tmp_path: Path) -> None:
    one = pa.table({"id": [1], "s": [{"x": 1}], "l": [[{"a": 1}]]})
    other = pa.table({"id": [2], "s": [{"y": "z"}], "l": [[{"b": 2}]], "more": [True]})
    _write(tmp_path / "1", one)
    _write(tmp_path / "2", other)
    convert_to_delta(tmp_path)
    table = DeltaTable(tmp_path)
    assert str(table.schema) == (
        "struct<id: long, s: struct<x: long, y: string>, l: array<struct<a: long, b: long>>, more: boolean>"
    )
    assert table.scan("id = 2").to_arrow().to_pylist() == [
        {"id": 2, "s": {"x": None, "y": "z"}, "l": [{"a": None, "b": 2}], "more": True}
    ]
    assert table.scan("more IS NULL").count() == 1


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        ({"x": pa.int32()}, {"x": pa.int64()}, "integer in another file"),
        ({"x": pa.struct([("y", pa.int32())])}, {"x": pa.struct([("y", pa.string())])}, "column: x.y"),
        ({"x": pa.int32()}, {"X": pa.int32()}, "spelled x"),
    ],
)
def test_columns_that_do_not_fit_together(tmp_path: Path, first: Any, second: Any, said: str) -> None:
    _write(tmp_path / "1", pa.schema(first).empty_table())
    _write(tmp_path / "2", pa.schema(second).empty_table())
    with pytest.raises(SchemaError, match=said):
        convert_to_delta(tmp_path)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (pa.timestamp("ns"), "nanoseconds"),
        (pa.uint64(), "64 bits"),
        (pa.time64("us"), "time of day"),
        (pa.duration("us"), "duration"),
        (pa.float16(), "16 bits"),
        (pa.null(), "no type"),
        (pa.list_(pa.timestamp("ns")), "x.element"),
        (pa.decimal256(50, 2), "38 digits"),
    ],
    ids=str,
)
def test_types_that_delta_cannot_hold(tmp_path: Path, kind: pa.DataType, said: str) -> None:
    _write(tmp_path / "a", pa.table({"x": pa.nulls(1, kind), "y": [1]}))
    with pytest.raises(SchemaError, match=said):
        convert_to_delta(tmp_path)
    assert not list((tmp_path / "_delta_log").glob("*"))


def test_what_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundError, match="no data files"):
        convert_to_delta(tmp_path)
    _write(tmp_path / "a.parquet")
    (tmp_path / "readme.txt").write_text("no Parquet")
    with pytest.raises(CorruptDataFileError, match=r"readme\.txt"):
        convert_to_delta(tmp_path)
    (tmp_path / "readme.txt").unlink()
    with pytest.raises(InvalidArgumentError, match="columnMapping"):
        convert_to_delta(tmp_path, properties={"delta.columnMapping.mode": "name"})
    nested = pa.array([[{"a b": 1}]], pa.list_(pa.struct([("a b", pa.int64())])))
    for number, rows in enumerate((pa.table({"a b": [1]}), pa.table({"x": nested}))):
        _write(tmp_path / f"spaces{number}" / "a", rows)
        with pytest.raises(SchemaError, match="contains ' '") as raised:
            convert_to_delta(tmp_path / f"spaces{number}")
        # Column mapping, which the next error refuses, is no help here.
        assert "write the rows to a new table" in str(raised.value.hint)
    _write(tmp_path / "other" / "a", pa.table({"a b": [1]}))
    with pytest.raises(SchemaError, match="contains ' '"):
        convert_to_delta(tmp_path / "other")
    assert not (tmp_path / "_delta_log").exists() or not list((tmp_path / "_delta_log").glob("*"))


def test_a_table_that_is_there(tmp_path: Path) -> None:
    _write(tmp_path / "a.parquet")
    convert_to_delta(tmp_path)
    with pytest.raises(TableExistsError, match="there is a table already"):
        convert_to_delta(tmp_path)
    assert not convert_to_delta(tmp_path, mode="ignore").committed
    assert DeltaTable(tmp_path).version == 0


def test_others_convert_the_directory_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their table stays as it is, and who wants a new one is told so."""
    _write(tmp_path / "a.parquet")
    commit: Any = Transaction.commit
    others = [1, 2]

    def late(*arguments: Any, **named: Any) -> Any:
        if others.pop() == 2:
            convert_to_delta(tmp_path)
        return commit(*arguments, **named)

    monkeypatch.setattr(Transaction, "commit", late)
    ignored = convert_to_delta(tmp_path, mode="ignore", commit_properties={"team": "a"})
    assert (ignored.committed, ignored.version, ignored.operation, others) == (False, 0, "CONVERT", [])
    with pytest.raises(TableExistsError, match="there is a table already"):
        convert_to_delta(tmp_path)
    with pytest.raises(UnsupportedFeatureError, match="branch applies only to Iceberg tables"):
        convert_to_delta(tmp_path, mode="ignore", branch="b")


def test_rows_get_ids(tmp_path: Path) -> None:
    for name in "ab":
        _write(tmp_path / name)
    convert_to_delta(tmp_path, properties={"delta.enableRowTracking": "true"})
    found = DeltaTable(tmp_path).scan(columns=["_metadata.row_id"]).to_arrow()["_metadata"].combine_chunks()
    assert sorted(found.field("row_id").to_pylist()) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("convert", [convert_to_delta, convert_to_iceberg])
@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_files_of_tables_become_no_files_of_others(convert: Any, kind: Any, tmp_path: Path) -> None:
    """Some have rows that were deleted, and clean-up of one table would take the files of the other."""
    inner = tmp_path / "outer" / "tables" / "t"
    write_table(inner, ids(1, 2, 3), format=kind)
    open_table(inner).delete("id = 2")
    (tmp_path / "outer" / "data").mkdir()
    pq.write_table(ids(7), tmp_path / "outer" / "data" / "a.parquet")
    part = next(path for path in inner.rglob("*.parquet")).parent
    part = part if part != inner else inner / "day=1"
    part.mkdir(exist_ok=True)
    pq.write_table(ids(8), part / "b.parquet")
    for source, how in ((inner, "is"), (part, "is in"), (tmp_path / "outer", "contains")):
        for beside in ((), (tmp_path / "new",)) if convert is convert_to_iceberg else ((),):
            if source == inner and not beside and kind in convert.__name__:
                continue
            with pytest.raises(InvalidArgumentError, match=rf"(?i)the directory {how} an? {kind} table"):
                convert(source, *beside)
    assert ids_of(open_table(inner)) == [1, 3]
