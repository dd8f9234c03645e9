"""Equality deletes: rows that are deleted by the values of some of their columns."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from deltaberg import open_table
from deltaberg.errors import CorruptDataFileError, CorruptMetadataError
from tests.support.iceberg_builder import IcebergBuilder, iceberg_fields
from tests.support.roads import Road, by_every_road

_COLUMNS = {"id": "long", "category": "string", "name": "string"}
_FOUR: list[dict[str, Any]] = [
    {"id": 1, "category": "marsupial", "name": "Koala"},
    {"id": 2, "category": "toy", "name": "Teddy"},
    {"id": 3, "category": None, "name": "Grizzly"},
    {"id": 4, "category": None, "name": "Polar"},
]


def _bears(tmp_path: Path, *more: dict[str, Any], format: str = "parquet") -> IcebergBuilder:
    builder = IcebergBuilder(tmp_path / "t", _COLUMNS)
    builder.commit(builder.data([*_FOUR, *more], format=format))
    return builder


def _ids(builder: IcebergBuilder, condition: str | None = None, **options: Any) -> list[int]:
    scan = open_table(builder.root).scan(condition, ["id"], **options)
    return sorted(scan.to_arrow().column("id").to_pylist())


@pytest.mark.req("ICE-DEL-01", half="reader")
@pytest.mark.parametrize("format", ["parquet", "avro", "orc"])
def test_formats(tmp_path: Path, road: Road, format: str) -> None:
    builder = _bears(tmp_path, format=format)
    builder.commit(builder.equality_deletes([1], [{"id": 3}, {"id": 1}], format=format))
    assert road.column(open_table(builder.root).scan(), "id") == [2, 4]


@by_every_road
@pytest.mark.req("ICE-DEL-08", half="reader")
@pytest.mark.parametrize("row", [{"id": 3}, {"id": 3, "category": None, "name": "Grizzly"}, {"id": 3, "name": "other"}])
def test_other_columns_are_not_compared(tmp_path: Path, row: dict[str, Any]) -> None:
    builder = _bears(tmp_path)
    builder.commit(builder.equality_deletes([1], [row]))
    assert _ids(builder) == [1, 2, 4]


@pytest.mark.req("ICE-DEL-09")
def test_all_columns_must_be_equal(tmp_path: Path, road: Road) -> None:
    builder = _bears(tmp_path, {"id": 4, "category": "toy", "name": "Ted"})
    rows: list[dict[str, Any]] = [
        {"id": 4, "category": None, "name": "Polar"},
        {"id": 1, "category": "toy", "name": ""},
    ]
    builder.commit(builder.equality_deletes([1, 2], rows))
    found = road.rows(open_table(builder.root).scan())
    assert sorted((row["id"], row["name"]) for row in found) == [(1, "Koala"), (2, "Teddy"), (3, "Grizzly"), (4, "Ted")]


@pytest.mark.req("ICE-DEL-09")
def test_files_over_different_columns(tmp_path: Path) -> None:
    builder = _bears(tmp_path)
    builder.commit(
        builder.equality_deletes([1], [{"id": 1}]),
        builder.equality_deletes([3], [{"name": "Polar"}]),
        builder.equality_deletes([2, 1], [{"id": 2, "category": "toy"}, {"id": 3, "category": "toy"}]),
    )
    assert _ids(builder) == [3]
    assert open_table(builder.root).scan("name = 'Polar'").to_arrow().num_rows == 0


@pytest.mark.req("ICE-DEL-10")
def test_null_is_equal_to_null(tmp_path: Path, road: Road) -> None:
    builder = _bears(tmp_path)
    builder.commit(builder.equality_deletes([2], [{"category": None}]))
    assert road.column(open_table(builder.root).scan(), "id") == [1, 2]


def test_a_value_is_not_equal_to_null(tmp_path: Path) -> None:
    builder = _bears(tmp_path)
    builder.commit(builder.equality_deletes([2], [{"category": "toy"}]))
    assert _ids(builder) == [1, 3, 4]
    assert _ids(builder, "category is null") == [3, 4]


@pytest.mark.req("ICE-DEL-11")
@pytest.mark.parametrize("again", [False, True])
def test_a_column_that_was_dropped(tmp_path: Path, road: Road, again: bool) -> None:
    """The dropped column is compared as it was, even if a new column has its name."""
    builder = _bears(tmp_path)
    builder.commit(builder.equality_deletes([1, 2], [{"id": 4, "category": None}, {"id": 2, "category": "x"}]))
    left = [child for child in builder.fields if child["name"] != "category"]
    if again:
        left.append({"id": 4, "name": "category", "required": False, "type": "long"})
    builder.schemas.append(left)
    builder.commit()
    assert road.column(open_table(builder.root).scan(columns=["name"]), "name") == ["Grizzly", "Koala", "Teddy"]
    assert open_table(builder.root).scan().schema.names == [child["name"] for child in left]


@pytest.mark.req("ICE-DEL-11")
def test_a_dropped_column_whose_name_is_a_partition_now(tmp_path: Path) -> None:
    """The partition value belongs to another column."""
    specs: Any = [(), [{"source-id": 4, "name": "category", "transform": "identity"}]]
    builder = IcebergBuilder(tmp_path / "t", _COLUMNS, specs=specs)
    builder.schemas.insert(0, builder.fields)
    left = [child for child in builder.fields if child["name"] != "category"]
    builder.schemas.append([*left, {"id": 4, "name": "category", "required": False, "type": "string"}])
    older = [*builder.schemas[0], builder.fields[-1] | {"name": "newer"}]
    row = {"id": 1, "category": "toy", "name": "a", "newer": "bear"}
    builder.commit(
        builder.data([row, row | {"category": "x"}], fields=older, spec_id=1, partition={"category": "bear"})
    )
    deletes = builder.equality_deletes([2], [{"category": "toy"}], fields=builder.schemas[0], spec_id=0)
    builder.commit(deletes)
    assert open_table(builder.root).scan().to_arrow().to_pylist() == [{"id": 1, "name": "a", "category": "bear"}]
    deletes.equality_ids = [4]
    builder.commit(builder.equality_deletes([4], [{"category": "toy"}]))
    assert open_table(builder.root).scan().to_arrow().num_rows == 1


@by_every_road
@pytest.mark.req("ICE-DEL-11")
@pytest.mark.parametrize(
    ("name", "values"),
    [("_pos", [0, 2]), ("_deleted", [False, True, False]), ("_row_id", [0, 2]), ("_spec_id", [0, 0])],
)
def test_a_dropped_column_with_the_name_of_a_metadata_column(tmp_path: Path, name: str, values: list[Any]) -> None:
    """The name is free for the metadata column again, which is another one."""
    builder = IcebergBuilder(tmp_path / "t", {"id": "long", name: "string"}, format_version=3)
    builder.commit(builder.data([{"id": number, name: f"x{number}"} for number in (1, 2, 3)]))
    builder.commit(builder.equality_deletes([2], [{name: "x2"}]))
    builder.schemas.append([child for child in builder.fields if child["name"] != name])
    builder.commit()
    assert _ids(builder) == [1, 3]
    assert open_table(builder.root).scan(columns=[name]).to_arrow().column(name).to_pylist() == values


@by_every_road
@pytest.mark.req("ICE-DEL-12")
@pytest.mark.parametrize(("value", "left"), [(None, []), (1, [1, 2, 3, 4])])
def test_a_column_that_was_added(tmp_path: Path, value: int | None, left: list[int]) -> None:
    builder = _bears(tmp_path)
    builder.schemas.append([*builder.fields, {"id": 4, "name": "c", "required": False, "type": "long"}])
    builder.commit(builder.equality_deletes([4], [{"c": value}]))
    assert _ids(builder) == left


@pytest.mark.parametrize(("value", "left"), [(None, [1, 2, 3, 4]), (7, [])])
def test_a_column_that_was_added_with_a_default(tmp_path: Path, value: int | None, left: list[int]) -> None:
    builder = IcebergBuilder(tmp_path / "t", _COLUMNS, format_version=3)
    builder.commit(builder.data(_FOUR))
    added = {"id": 4, "name": "c", "required": False, "type": "long", "initial-default": 7}
    builder.schemas.append([*builder.fields, added])
    builder.commit(builder.equality_deletes([4], [{"c": value}]))
    assert _ids(builder) == left


@pytest.mark.req("ICE-DEL-13")
@pytest.mark.parametrize("when", ["before", "after"])
def test_promoted_columns(tmp_path: Path, when: str, road: Road) -> None:
    """Deletes written before a promotion still apply, as do those written after it, to files of either type."""
    builder = IcebergBuilder(tmp_path / "t", {"id": "int", "d": "decimal(9,2)"})
    rows = [{"id": 5, "d": Decimal("1.50")}, {"id": 6, "d": Decimal("2.50")}]
    keys = [{"id": 5, "d": Decimal("1.50")}]
    builder.commit(builder.data(rows))
    if when == "before":
        builder.commit(builder.equality_deletes([1, 2], keys))
        # What was read of the delete file is kept with the type that it was read as.
        assert road.column(open_table(builder.root).scan(), "id") == [6]
    builder.schemas.append(
        [child | {"type": {"id": "long", "d": "decimal(18,2)"}[child["name"]]} for child in builder.fields]
    )
    builder.commit(builder.data(rows), *([builder.equality_deletes([1, 2], keys)] if when == "after" else []))
    found = [6, 6] if when == "before" else [6, 5, 6]
    assert road.column(open_table(builder.root).scan(), "id") == sorted([*found, *([5] if when == "before" else [])])


def test_a_column_that_was_renamed(tmp_path: Path) -> None:
    builder = _bears(tmp_path)
    builder.commit(builder.equality_deletes([1], [{"id": 1}]))
    names = {"id": "number", "category": "id", "name": "name"}
    builder.schemas.append([child | {"name": names[child["name"]]} for child in builder.fields])
    builder.commit()
    assert open_table(builder.root).scan(columns=["number"]).to_arrow().column("number").to_pylist() == [2, 3, 4]


@pytest.mark.req("ICE-DEL-16")
@pytest.mark.req("ICE-DEL-17")
def test_both_kinds_for_one_file(tmp_path: Path, road: Road) -> None:
    builder = IcebergBuilder(tmp_path / "t", _COLUMNS)
    file = builder.data(_FOUR)
    builder.commit(file)
    builder.commit(builder.position_deletes([(file, 0)]), builder.equality_deletes([1], [{"id": 3}]))
    found = road.rows(open_table(builder.root).scan(columns=["id", "_pos"]))
    assert found == [{"id": 2, "_pos": 1}, {"id": 4, "_pos": 3}]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("boolean", [True, False]),
        ("int", [1, -(1 << 31)]),
        ("long", [1, (1 << 63) - 1]),
        ("decimal(20,3)", [Decimal("1.500"), Decimal("-1.500")]),
        ("date", [dt.date(2017, 11, 16), dt.date(1969, 12, 31)]),
        ("time", [dt.time(22, 31, 8), dt.time(0, 0, 0, 1)]),
        ("timestamp", [dt.datetime(2017, 11, 16, 22, 31, 8, 1), dt.datetime(1969, 1, 1)]),
        (
            "timestamptz",
            [dt.datetime(2017, 11, 16, tzinfo=dt.timezone.utc), dt.datetime(1, 1, 1, tzinfo=dt.timezone.utc)],
        ),
        ("string", ["", "\U0001f4b0"]),
        ("binary", [b"", b"\xff\x00"]),
        ("uuid", [bytes(16), bytes(range(16))]),
        ("fixed[3]", [b"abc", b"abd"]),
    ],
)
@pytest.mark.parametrize("format", ["parquet", "avro"])
def test_types_of_keys(tmp_path: Path, kind: str, values: list[Any], format: str) -> None:
    builder = IcebergBuilder(tmp_path / "t", {"id": "long", "k": kind})
    rows = [{"id": number, "k": value} for number, value in enumerate([*values, None])]
    builder.commit(builder.data(rows, format=format))
    builder.commit(builder.equality_deletes([2], [{"k": values[1]}], format=format))
    assert _ids(builder) == [0, 2]
    builder.commit(builder.equality_deletes([2], [{"k": None}], format=format))
    assert _ids(builder) == [0]


def test_a_key_inside_of_a_struct(tmp_path: Path, road: Road) -> None:
    children = [child | {"id": number} for number, child in enumerate(iceberg_fields(a="long", b="long"), start=10)]
    inner = {"type": "struct", "fields": children}
    fields = [*iceberg_fields(id="long"), {"id": 2, "name": "s", "required": False, "type": inner}]
    builder = IcebergBuilder(tmp_path / "t", fields)
    rows: list[dict[str, Any]] = [
        {"id": 1, "s": {"a": 1, "b": 5}},
        {"id": 2, "s": None},
        {"id": 3, "s": {"a": None, "b": 6}},
    ]
    builder.commit(builder.data([*rows, {"id": 4, "s": {"a": 2, "b": 5}}]))
    builder.commit(builder.equality_deletes([10, 11], [{"s": {"a": 1, "b": 5}}, {"s": {"a": 2, "b": 6}}]))
    assert road.column(open_table(builder.root).scan(), "id") == [2, 3, 4]
    builder.commit(builder.equality_deletes([10], [{"s": {"a": None, "b": 9}}]))
    assert _ids(builder) == [4]


def test_more_than_8000_keys(tmp_path: Path) -> None:
    builder = IcebergBuilder(tmp_path / "t", {"id": "long", "k": "string"})
    rows = [{"id": number, "k": str(number % 7)} for number in range(20_000)]
    builder.commit(builder.data(rows))
    gone = [{"id": number, "k": str(number % 7)} for number in range(0, 20_000, 2)]
    builder.commit(builder.equality_deletes([1, 2], gone))
    assert _ids(builder) == list(range(1, 20_000, 2))


@pytest.mark.parametrize("keys", [100, 4_000])
@pytest.mark.parametrize("batch_size", [10, 100_000])
def test_the_work_is_in_proportion_to_rows_and_keys(
    tmp_path: Path, key_rows: dict[str, int], keys: int, batch_size: int
) -> None:
    """Each key is added once, and each row is looked up once, for any number of files and batches."""
    files, rows = 10, 200
    builder = IcebergBuilder(tmp_path / "t", {"id": "long"})
    numbers = range(files * rows)
    builder.commit(
        *[builder.data([{"id": n} for n in numbers[at * rows :][:rows]], row_group_size=50) for at in range(files)]
    )
    for part in range(4):
        builder.commit(builder.equality_deletes([1], [{"id": 2 * number} for number in range(part, keys, 4)]))
    left = [number for number in numbers if number % 2 or number >= 2 * keys]
    assert _ids(builder, batch_size=batch_size, threads=1) == left
    assert key_rows == {"index_keys": keys, "contains_keys": files * rows}


@pytest.mark.parametrize("ids", [[99], [1, 99]])
def test_an_unknown_column(tmp_path: Path, ids: list[int]) -> None:
    builder = _bears(tmp_path)
    builder.commit(builder.equality_deletes(ids, [{"id": 1}]))
    with pytest.raises(CorruptMetadataError, match="column of id 99, which no schema has"):
        _ids(builder)


@pytest.mark.parametrize("ids", [None, []])
def test_no_columns_at_all(tmp_path: Path, ids: Any) -> None:
    builder = _bears(tmp_path)
    deletes = builder.equality_deletes([1], [{"id": 1}])
    deletes.equality_ids = ids
    builder.commit(deletes)
    with pytest.raises(CorruptMetadataError, match="names no columns"):
        _ids(builder)


def test_a_column_that_has_no_one_value(tmp_path: Path) -> None:
    """Structs, lists and maps are not compared."""
    inner = {"type": "struct", "fields": [{"id": 10, "name": "a", "required": False, "type": "long"}]}
    fields = [*iceberg_fields(id="long"), {"id": 2, "name": "s", "required": False, "type": inner}]
    builder = IcebergBuilder(tmp_path / "t", fields)
    builder.commit(builder.data([{"id": 1, "s": {"a": 1}}]))
    builder.commit(builder.equality_deletes([2], [{"s": {"a": 1}}]))
    with pytest.raises(CorruptMetadataError, match=r"column s \(id 2\) of type struct"):
        _ids(builder)


def test_a_delete_file_without_its_column(tmp_path: Path) -> None:
    builder = _bears(tmp_path)
    builder.commit(builder.equality_deletes([1, 2], [{"id": 1}]))
    with pytest.raises(CorruptDataFileError, match="no column category") as raised:
        _ids(builder)
    assert raised.value.context["delete_file"].endswith("00003.parquet")
