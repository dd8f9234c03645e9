"""Parquet files of others that are added to Iceberg tables, and tables that are replaced with their rows."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc
from pyiceberg.table import StaticTable

from deltaberg import create_table, open_table, write_table
from deltaberg.errors import (
    ColumnNotFoundError,
    CorruptDataFileError,
    InvalidArgumentError,
    InvalidPartitionValueError,
    SchemaError,
)
from deltaberg.iceberg import IcebergTable
from deltaberg.table.read.scan import bound_scan

pytestmark = pytest.mark.one_backend

_VERSIONS = pytest.mark.parametrize("version", ["1", "2", "3"])
_COLUMNS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("d", pa.date32()),
        ("s", pa.struct([("x", pa.int64()), ("t", pa.list_(pa.string()))])),
    ]
)
_DAY = dt.date(2020, 1, 7)


def _file(path: Path, *ids: int, d: list[dt.date | None] | None = None, **more: Any) -> str:
    """Write a file as other libraries do, without field ids and with narrower integers."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = pa.table(
        {
            "s": [{"x": number, "t": ["a", None]} for number in ids],
            "id": pa.array(ids, pa.int32()),
            "d": pa.array(d or [_DAY] * len(ids), pa.date32()),
            **more,
        }
    )
    pq.write_table(rows, path, row_group_size=2)
    return str(path)


def _new(root: Path, version: str = "2", **more: Any) -> IcebergTable:
    table: IcebergTable = create_table(
        root / "t", _COLUMNS, format="iceberg", properties={"format-version": version}, **more
    )
    return table


def _content(table: IcebergTable) -> list[dict[str, Any]]:
    got = table.scan().to_arrow().sort_by("id")
    theirs = StaticTable.from_metadata(table.metadata_location).scan().to_arrow().sort_by("id")
    assert theirs.select(got.column_names).to_pylist() == got.to_pylist()
    assert open_table(table.location, "iceberg", validate=True).scan().count() == len(got)
    found: list[dict[str, Any]] = got.to_pylist()
    return found


@_VERSIONS
def test_files_are_added_where_they_are(tmp_path: Path, version: str) -> None:
    table = _new(tmp_path, version, partition_by=["month(d)"])
    one = _file(tmp_path / "in/a.parquet", 1, 2, 3, d=[_DAY, _DAY, dt.date(2020, 1, 31)])
    two = _file(tmp_path / "in/deep/b.parquet", 4, d=[None])
    (tmp_path / "in/_SUCCESS").write_bytes(b"")
    done = table.add_files([str(tmp_path / "in")], properties={"from": "elsewhere"})
    assert (done.operation, done.added_files, done.added_rows) == ("append", 2, 4)
    rows = _content(table)
    assert [row["id"] for row in rows] == [1, 2, 3, 4]
    assert rows[0]["s"] == {"x": 1, "t": ["a", None]}
    files = {row["file_path"]: row for row in table.inspect("files").to_pylist()}
    assert set(files) == {one, two}
    assert [files[path]["partition"]["d_month"] for path in (one, two)] == [600, None]
    assert [dict(files[path]["lower_bounds"])[1] for path in (one, two)] == [b"\x01" + bytes(7), b"\x04" + bytes(7)]
    assert [len(files[path]["split_offsets"]) for path in (one, two)] == [2, 1]
    assert files[one]["split_offsets"][0] == 4
    assert bound_scan(table.scan("id > 3")).plan.files["path"].to_pylist() == [two]
    with pytest.raises(InvalidArgumentError, match=r"has the file .* already"):
        table.add_files([one])
    table.add_files([one], check_duplicate_files=False)
    table.delete("d >= '2020-01-01' AND d < '2020-02-01'")
    table.alter().rename("id", "number").add("n", pa.int64()).commit()
    pq.write_table(pa.table({"number": [9], "n": [7], "d": [_DAY]}), tmp_path / "c.parquet")
    table.add_files([str(tmp_path / "c.parquet")])
    assert sorted(table.scan().to_arrow()["number"].to_pylist()) == [4, 9]
    if version == "3":
        assert table.scan(columns=["_row_id"]).to_arrow()["_row_id"].null_count == 0
    table.compact(min_files=2)
    assert Path(two).exists()
    with pytest.raises(SchemaError, match="string cannot be written to a column of the type long"):
        table.append(pa.table({"number": ["x"]}))
    assert Path(one).exists()


def test_the_mapping_follows_columns_that_are_renamed(tmp_path: Path) -> None:
    """A name stays with the column that had it first, since its files are read by it."""
    table = _new(tmp_path)
    table.add_files([_file(tmp_path / "a.parquet", 1)])
    table.alter().rename("id", "number").rename("s.x", "z").add("id", pa.int64()).commit()
    mapping = {mapped["field-id"]: mapped for mapped in json.loads(table.properties["schema.name-mapping.default"])}
    number, s, fresh = (table.schema.get(name) for name in ("number", "s", "id"))
    assert number is not None
    assert s is not None
    assert fresh is not None
    assert mapping[number.id]["names"] == ["id", "number"]
    assert [inner["names"] for inner in mapping[s.id]["fields"]] == [["x", "z"], ["t"]]
    assert fresh.id not in mapping
    rows = table.scan(columns=["number", "id", "s"]).to_arrow().to_pylist()
    assert [(row["number"], row["id"], row["s"]["z"]) for row in rows] == [(1, None, 1)]
    with pytest.raises(SchemaError, match="the name 'id' belongs to the column 'number'"):
        table.add_files([_file(tmp_path / "b.parquet", 2)])
    StaticTable.from_metadata(table.metadata_location).name_mapping()


def test_names_of_older_columns_are_told(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", {"a": pa.string(), "b": pa.string(), "c": pa.string()}, format="iceberg")
    pq.write_table(pa.table({"a": ["1"], "b": ["2"], "c": ["3"]}), tmp_path / "x.parquet")
    table.add_files([str(tmp_path / "x.parquet")])
    table.alter().rename("a", "z").rename("b", "a").rename("z", "b").drop("c").add("c", pa.string()).commit()
    for name, owner in (("a", "the column 'b'"), ("c", "a column that was dropped"), ("z", None)):
        pq.write_table(pa.table({name: ["4"]}), tmp_path / "y.parquet")
        message = f"the name '{name}' belongs to {owner}" if owner else "a column 'z' that the table does not have"
        with pytest.raises(SchemaError, match=message) as caught:
            table.add_files([str(tmp_path / "y.parquet")])
        assert str(caught.value.hint).startswith("read the file, and append its rows" if owner else "add the column")
    assert table.scan().to_arrow().to_pylist() == [{"b": "1", "a": "2", "c": None}]


def test_fixed_bytes_are_not_other_bytes(tmp_path: Path) -> None:
    """The specification does not let one type become the other, and pyiceberg cannot read such files."""
    columns = {"f": pa.binary(4), "b": pa.binary(), "l": pa.list_(pa.binary(4))}
    table = create_table(tmp_path / "t", columns, format="iceberg")
    fixed = pa.array([b"abcd", None], pa.binary(4))
    pq.write_table(pa.table({"f": fixed, "l": pa.array([[b"abcd"], None], columns["l"])}), tmp_path / "x.parquet")
    table.add_files([str(tmp_path / "x.parquet")])
    got = table.scan().to_arrow().to_pylist()
    assert got == [{"f": b"abcd", "b": None, "l": [b"abcd"]}, {"f": None, "b": None, "l": None}]
    assert StaticTable.from_metadata(table.metadata_location).scan().to_arrow().to_pylist() == got
    assert table.scan("f = X'61626364'").to_arrow().num_rows == 1
    for rows, message in (
        (pa.table({"b": fixed}), r"of the type binary, and fixed\(4\) in the file"),
        (pa.table({"f": pa.array([b"abc"], pa.binary(3))}), r"of the type fixed\(4\), and fixed\(3\) in the file"),
        (pa.table({"f": pa.array([b"abcd"])}), r"of the type fixed\(4\), and binary in the file"),
    ):
        pq.write_table(rows, tmp_path / "y.parquet")
        with pytest.raises(SchemaError, match=message):
            table.add_files([str(tmp_path / "y.parquet")])


def test_columns_that_came_later_are_mapped(tmp_path: Path) -> None:
    table = _new(tmp_path)
    table.add_files([_file(tmp_path / "a.parquet", 1)])
    table.alter().add("n", pa.int64()).commit()
    table.add_files([_file(tmp_path / "b.parquet", 2, n=pa.array([5], pa.int32()))])
    assert [row["n"] for row in _content(table)] == [None, 5]


@pytest.mark.parametrize(
    ("columns", "error", "message"),
    [
        ({"id": pa.array([1, None])}, SchemaError, "is required, but may hold nulls"),
        ({"id": pa.array(["1"])}, SchemaError, "of the type long, and string in the file"),
        ({"d": pa.array([_DAY])}, SchemaError, "lacks a required column"),
        ({"id": [1], "z": [1]}, SchemaError, "a column 'z' that the table does not have"),
        ({"id": [1], "s": [{"x": 1, "y": 2}]}, SchemaError, "the field 'y' is not in the table"),
        ({"id": [1, 2], "d": [_DAY, dt.date(2021, 1, 1)]}, InvalidArgumentError, "several partitions of the field 'd'"),
        ({"id": [1, 2], "d": [_DAY, None]}, InvalidArgumentError, "several partitions"),
        (
            {"id": [1]},
            InvalidArgumentError,
            "no statistics of the column d, from which .* 'd' is made",
        ),
    ],
)
def test_files_that_do_not_fit_are_refused(
    tmp_path: Path, columns: dict[str, Any], error: type[Exception], message: str
) -> None:
    rows = pa.table(columns)
    if "s" in columns:
        place = rows.schema.get_field_index("s")
        rows = rows.set_column(place, "s", rows["s"].cast(pa.struct([("x", pa.int32()), ("y", pa.int32())])))
    if "d" in columns:
        rows = rows.set_column(rows.schema.get_field_index("d"), "d", rows["d"].cast(pa.date32()))
    pq.write_table(rows, tmp_path / "x.parquet")
    table = _new(tmp_path, partition_by="d")
    with pytest.raises(error, match=message):
        table.add_files([str(tmp_path / "x.parquet")])
    assert (table.snapshot_id, table.properties) == (None, {})


def test_footers_that_may_hide_nan_prove_no_partition(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", {"x": pa.float64(), "id": pa.int64()}, format="iceberg", partition_by="x")
    pq.write_table(pa.table({"x": [1.0, float("nan")], "id": [1, 2]}), tmp_path / "x.parquet")
    with pytest.raises(InvalidArgumentError, match="several partitions of the field 'x'"):
        table.add_files([str(tmp_path / "x.parquet")])


def test_other_files_are_refused(tmp_path: Path) -> None:
    table = _new(tmp_path)
    table.append(pa.table({"id": [1]}))
    (own,) = table.inspect("files")["file_path"].to_pylist()
    with pytest.raises(InvalidArgumentError, match="already"):
        table.add_files([own])
    ids = pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})
    mixed = pa.schema([ids.with_nullable(False), pa.field("d", pa.date32())])
    pq.write_table(pa.table({"id": [1], "d": [None]}, mixed), tmp_path / "mixed.parquet")
    with pytest.raises(SchemaError, match="d of the file has no field id, although"):
        table.add_files([str(tmp_path / "mixed.parquet")])
    for name in ("a.orc", "b.avro", "c"):
        (tmp_path / name).write_bytes(b"x")
        with pytest.raises(CorruptDataFileError, match=r"not a Parquet file|cannot be decoded|not an Avro file"):
            table.add_files([str(tmp_path / name)])
    with pytest.raises(InvalidArgumentError, match="no files to add"):
        table.add_files([str(tmp_path / "nothing")])


@_VERSIONS
def test_a_table_is_replaced_with_rows_in_one_commit(tmp_path: Path, version: str) -> None:
    table = _new(tmp_path, version, partition_by=["month(d)", "bucket(2, id)"])
    before = table.append(pa.table({"id": [1], "d": [_DAY]}))
    rows = pa.table({"kind": ["a", "b"], "id": [1.5, 2.5]})
    with pytest.raises(SchemaError, match="is made from it"):
        table.overwrite(rows, schema_mode="overwrite")
    with pytest.raises(InvalidArgumentError, match=r"partitioned by d_month, id_bucket .*, but kind"):
        table.overwrite(rows, partition_by="kind")
    done = write_table(tmp_path / "t", rows, mode="overwrite", schema_mode="overwrite", partition_by="kind")
    table.refresh()
    assert (done.operation, done.added_files, done.removed_files, len(table.snapshots)) == ("overwrite", 2, 1, 2)
    assert table.schema.names == ["kind", "id"]
    assert [part.name for part in table.spec.fields if part.transform != "void"] == ["kind"]
    assert [row["id"] for row in _content(table)] == [1.5, 2.5]
    old = open_table(tmp_path / "t", "iceberg", snapshot_id=before.snapshot_id)
    assert old.scan().to_arrow()["id"].to_pylist() == [1]
    table.overwrite(rows.slice(0, 1), schema_mode="overwrite", partition_by=[])
    assert not [part for part in table.spec.fields if part.transform != "void"]
    assert [row["id"] for row in _content(table)] == [1.5]


def test_directories_tell_partition_values(tmp_path: Path) -> None:
    """As Hive and Spark name them. What a file holds itself comes first, and nothing is recorded of what it lacks."""
    columns = pa.schema([("p", pa.int32()), ("s", pa.string()), ("id", pa.int64())])
    table: Any = create_table(tmp_path / "t", columns, format="iceberg", partition_by=["p", "s", "bucket(4, p)"])
    for place, name in (("p=5/S=a%2Fb", "x.parquet"), ("p=6/S=__HIVE_DEFAULT_PARTITION__", "y.orc")):
        (tmp_path / "in" / place).mkdir(parents=True)
        rows = pa.table({"id": pa.array([int(place[2]), 10], pa.int64())})
        write = pq.write_table if name.endswith("parquet") else orc.write_table
        write(rows, tmp_path / "in" / place / name)
    own = pa.table({"id": pa.array([7], pa.int64()), "p": pa.array([8], pa.int32()), "s": ["c"]})
    (tmp_path / "in/p=7/s=d").mkdir(parents=True)
    pq.write_table(own, tmp_path / "in/p=7/s=d/z.parquet")
    assert table.add_files([str(tmp_path / "in")]).added_rows == 5
    expected = [(5, "a/b", 5), (5, "a/b", 10), (6, None, 6), (6, None, 10), (8, "c", 7)]
    files = table.inspect("files")
    listed = sorted(files.to_pylist(), key=lambda row: row["partition"]["p"])
    assert [(row["partition"]["p"], row["partition"]["s"]) for row in listed] == [
        (5, "a/b"),
        (6, None),
        (8, "c"),
    ]
    ids = {child.name: child.id for child in table.schema}
    assert [sorted(dict(row["null_value_counts"])) for row in listed] == [
        [ids["id"]],
        [ids["id"]],
        sorted(ids.values()),
    ]
    for condition, count in (("p = 5", 2), ("s IS NULL", 2), ("p > 5 AND s = 'c'", 1), ("s = 'd'", 0), ("id = 10", 2)):
        assert table.scan(condition).count() == count
    assert _triples(table) == expected
    theirs = StaticTable.from_metadata(table.metadata_location).scan("p = 5 AND id < 100").to_arrow().to_pylist()
    assert sorted((row["p"], row["s"], row["id"]) for row in theirs) == expected[:2]
    table.delete("id = 10 AND p = 5")
    table.compact()
    assert _triples(table) == [row for row in expected if row != (5, "a/b", 10)]


def _triples(table: IcebergTable) -> list[tuple[Any, ...]]:
    found = open_table(table.location, "iceberg", validate=True).scan().to_arrow().to_pylist()
    return sorted((row["p"], row["s"], row["id"]) for row in found)


@pytest.mark.parametrize(
    ("directory", "error", "message"),
    [
        ("p=x", InvalidPartitionValueError, "'x' in the name of the directory is not a value of the type integer"),
        ("p=%FF", InvalidPartitionValueError, "is not UTF-8"),
        ("p=__HIVE_DEFAULT_PARTITION__", SchemaError, "is required, but null by the name"),
        ("q=1", SchemaError, "the file lacks a required column"),
    ],
)
def test_directories_that_tell_no_value_are_refused(
    tmp_path: Path, directory: str, error: type[Exception], message: str
) -> None:
    columns = pa.schema([pa.field("p", pa.int32(), nullable=False), ("id", pa.int64())])
    table: Any = create_table(tmp_path / "t", columns, format="iceberg", partition_by="p")
    (tmp_path / directory).mkdir()
    pq.write_table(pa.table({"id": [1]}), tmp_path / directory / "x.parquet")
    with pytest.raises(error, match=message):
        table.add_files([str(tmp_path / directory)])
    assert table.snapshot_id is None
    table.alter().drop_not_null("p").partition_by("bucket(4, p)").commit()
    with pytest.raises(InvalidArgumentError, match="no statistics of the column p"):
        table.add_files([str(tmp_path / directory)])


@pytest.mark.parametrize(
    ("kind", "value", "version"),
    [
        (pa.time64("us"), dt.time(1, 2, 3), "2"),
        (pa.uuid(), bytes(range(16)), "2"),
        (pa.timestamp("ns"), dt.datetime(2020, 1, 1), "3"),
        (pa.timestamp("ns", "UTC"), dt.datetime(2020, 1, 1, tzinfo=dt.timezone.utc), "3"),
    ],
    ids=str,
)
def test_types_that_only_iceberg_has_are_added(tmp_path: Path, kind: pa.DataType, value: Any, version: str) -> None:
    table: Any = create_table(
        tmp_path / "t",
        pa.schema([("id", pa.int64()), ("x", kind)]),
        format="iceberg",
        properties={"format-version": version},
    )
    rows = pa.table({"id": [1], "x": pa.array([value], kind)})
    pq.write_table(rows, tmp_path / "x.parquet")
    table.append(rows)
    table.add_files([str(tmp_path / "x.parquet")])
    one, other = table.scan().to_arrow()["x"].to_pylist()
    assert one == other
    theirs = StaticTable.from_metadata(table.metadata_location).scan().to_arrow()["x"].to_pylist()
    assert theirs[0] == theirs[1]
    if not isinstance(kind, pa.BaseExtensionType):
        assert len({tuple(map(tuple, bounds)) for bounds in table.inspect("files")["lower_bounds"].to_pylist()}) == 1


@pytest.mark.parametrize("kind", [pa.time32("ms"), pa.time64("ns"), pa.timestamp("ns")], ids=str)
def test_units_that_a_version_lacks_are_refused(tmp_path: Path, kind: pa.DataType) -> None:
    wanted = pa.time64("us") if pa.types.is_time(kind) else pa.timestamp("us")
    table: Any = create_table(tmp_path / "t", {"x": wanted}, format="iceberg")
    pq.write_table(
        pa.table({"x": pa.array([0], pa.int32() if kind.bit_width == 32 else pa.int64()).cast(kind)}),
        tmp_path / "x.parquet",
    )
    with pytest.raises(SchemaError, match="which tables cannot hold"):
        table.add_files([str(tmp_path / "x.parquet")])


def test_columns_with_defaults_may_be_missing(tmp_path: Path) -> None:
    table: Any = create_table(tmp_path / "t", {"id": pa.int64()}, format="iceberg", properties={"format-version": "3"})
    table.alter().add("c", pa.int32(), default=5, required=True).commit()
    pq.write_table(pa.table({"id": [1]}), tmp_path / "x.parquet")
    table.add_files([str(tmp_path / "x.parquet")])
    assert table.scan("c = 5").to_arrow().to_pylist() == [{"id": 1, "c": 5}]


_AFTER: dict[str, tuple[Callable[[Any], None], list[int]]] = {
    "append": (lambda transaction: transaction.append(pa.table({"id": [4]})), [1, 2, 3, 4]),
    "delete": (lambda transaction: transaction.delete("id = 1"), [2, 3]),
    "update": (lambda transaction: transaction.update({"id": "id + 3"}, "id = 1"), [2, 3, 4]),
    "overwrite": (lambda transaction: transaction.overwrite(pa.table({"id": [5]})), [5]),
}


@pytest.mark.parametrize("after", _AFTER)
def test_a_transaction_adds_files_and_leaves_them_to_their_owner(tmp_path: Path, after: str) -> None:
    change, ids = _AFTER[after]
    path, table = _file(tmp_path / "in/a.parquet", 1, 2), _new(tmp_path)
    with table.transaction() as transaction:
        transaction.add_files([path])
        transaction.append(pa.table({"id": [3]}))
        with pytest.raises(InvalidArgumentError, match="already"):
            transaction.add_files([path])
        change(transaction)
    assert [row["id"] for row in _content(table.refresh())] == ids
    assert len(table.snapshots) == 1
    assert pq.read_metadata(path).num_rows == 2


def test_files_that_a_transaction_does_not_commit_stay(tmp_path: Path) -> None:
    path, table = _file(tmp_path / "in/a.parquet", 1), _new(tmp_path)
    transaction = table.transaction()
    transaction.add_files([path])
    with pytest.raises(ColumnNotFoundError, match="no column 'there_is_none'"), transaction:
        transaction.delete("there_is_none = 1")
    assert not table.refresh().snapshots
    assert pq.read_metadata(path).num_rows == 1


def test_columns_that_were_renamed_before_there_was_a_mapping(tmp_path: Path) -> None:
    """Field ids decide, whatever the names are; where there are none, the error names the column of today."""
    table = create_table(tmp_path / "t", pa.schema([("id", pa.int64()), ("s", pa.string())]), format="iceberg")
    table.append(pa.table({"id": [1], "s": ["a"]}))
    own, other = tmp_path / "own.parquet", tmp_path / "other.parquet"
    (written,) = (tmp_path / "t" / "data").rglob("*.parquet")
    own.write_bytes(written.read_bytes())
    pq.write_table(pa.table({"id": [2], "s": ["b"]}), other)
    table.alter().rename("s", "text").commit()
    with pytest.raises(SchemaError, match=r"(?s)a column 's' that the table does not have.*renamed to 'text'"):
        table.add_files([str(other)])
    table.add_files([str(own)])
    assert table.scan().to_arrow().to_pylist() == [{"id": 1, "text": "a"}] * 2
