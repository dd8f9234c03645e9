"""Rows that Spark's own Parquet writer writes to tables: the rows and statistics of ours, or the reason against it."""

from __future__ import annotations

import json
import re
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.functions import count, lit

from deltaberg import DeltaTable, IcebergTable, ParquetOptions, create_table, open_table, write_table
from deltaberg.errors import ConstraintViolationError, StorageError
from deltaberg.schema.types import DataType, Field, List, Map, Primitive, Struct, field_paths
from deltaberg.spark.write.spark_parquet import SparkParquet
from tests.spark.doors import needs_native_writes
from tests.spark.native_road import setting
from tests.support.canon import canonical_lines
from tests.support.typed_rows import every_type

pytestmark = [pytest.mark.spark, pytest.mark.one_backend, needs_native_writes]

#: Settings of a user that change what Spark's writer makes of rows.
_UNUSUAL = {
    "spark.sql.parquet.outputTimestampType": "INT96",
    "spark.sql.parquet.writeLegacyFormat": "true",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY",
    "spark.sql.parquet.int96RebaseModeInWrite": "LEGACY",
    "spark.sql.parquet.compression.codec": "gzip",
    "spark.sql.files.maxRecordsPerFile": "1",
    "spark.sql.sources.useV1SourceList": "",
    "spark.sql.parquet.fieldId.write.enabled": "true",
    "spark.sql.session.timeZone": "Asia/Kolkata",
}


@pytest.fixture(autouse=True)
def _classic(spark: Any) -> None:
    if "connect" in type(spark).__module__:
        pytest.skip("Spark Connect has no native road of writes")


@pytest.fixture
def arrow_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deltaberg.spark.write.frame_rows.why_not_native", lambda *_: "this test writes by Arrow")


def _adds(table: DeltaTable, version: int | None = None) -> list[dict[str, Any]]:
    log = Path(table.location) / "_delta_log" / f"{table.version if version is None else version:020d}.json"
    return [json.loads(line)["add"] for line in log.read_text("utf-8").splitlines() if line.startswith('{"add"')]


def _files(root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if "_delta_log" not in path.parts and path.is_file()]


def _by_arrow(table: DeltaTable | IcebergTable, frame: Any) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("deltaberg.spark.write.frame_rows.why_not_native", lambda *_: "this test writes by Arrow")
        return table.append(frame)


@pytest.mark.parametrize("mode", ["none", "name"])
def test_both_roads_write_the_same(mode: str, spark: Any, tmp_path: Path) -> None:
    """Rows, types and names in files, counts and bounds; what the user has set is neither used nor touched."""
    rows = every_type()
    properties = {"delta.columnMapping.mode": mode}
    native, arrow = (create_table(tmp_path / name, rows.schema, properties=properties) for name in ("native", "arrow"))
    write_table(tmp_path / "source", rows)
    frame = open_table(tmp_path / "source", "delta").scan().to_spark(spark).coalesce(1)
    with ExitStack() as stack:
        for name, value in _UNUSUAL.items():
            stack.enter_context(setting(spark, name, value))
        result = native.append(frame)
        assert {name: spark.conf.get(name) for name in _UNUSUAL} == _UNUSUAL
        assert (result.road, result.why_not_native, result.added_rows, result.added_files) == ("native", "", 4, 1)
        assert _by_arrow(arrow, frame).road == "arrow"
    assert (
        canonical_lines(native.scan().to_arrow()) == canonical_lines(arrow.scan().to_arrow()) == canonical_lines(rows)
    )
    (ours,), (theirs,) = _adds(native), _adds(arrow)
    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f-]{27}/part-00000-[0-9a-f-]+-c000\.snappy\.parquet", ours["path"])
    assert [path.name for path in _files(tmp_path / "native")] == [ours["path"].rpartition("/")[2]]
    schemas = [pq.read_schema(tmp_path / name / add["path"]) for name, add in (("native", ours), ("arrow", theirs))]
    if mode == "none":
        assert schemas[0].remove_metadata() == schemas[1].remove_metadata()
    else:
        assert schemas[0].names == [field.physical_name for field in native.schema]
        assert [field.metadata for field in schemas[0]] == [field.metadata for field in schemas[1]]
        (inner,) = (schema.field(rows.schema.get_field_index("struct")).type for schema in schemas[:1])
        assert [child.metadata[b"PARQUET:field_id"] for child in inner] == [b"16", b"17"]
    stats = [_named(json.loads(add["stats"]), table.schema) for add, table in ((ours, native), (theirs, arrow))]
    # The footers of Spark's files do not tell how many lists and maps are null.
    unknown = {field.name for field in native.schema if isinstance(field.type, List | Map)}
    assert stats[0]["nullCount"] == {name: n for name, n in stats[1]["nullCount"].items() if name not in unknown}
    # A column with a NaN has no bounds, since parquet-java takes NaN for the greatest number.
    assert {name: value for name, value in stats[1]["minValues"].items() if name not in ("float", "double")} == stats[
        0
    ]["minValues"]
    assert stats[0]["maxValues"] == stats[1]["maxValues"]


def test_both_roads_write_the_same_to_iceberg_tables(spark: Any, tmp_path: Path) -> None:
    rows = every_type()
    # Iceberg has no smaller integers, and ids in lists and maps.
    rows = rows.select([child.name for child in rows.schema if not _differs_in_iceberg(child.type)])
    native, arrow = (create_table(tmp_path / name, rows.schema, format="iceberg") for name in ("native", "arrow"))
    write_table(tmp_path / "source", rows)
    frame = open_table(tmp_path / "source", "delta").scan().to_spark(spark).coalesce(1)
    with ExitStack() as stack:
        for name, value in _UNUSUAL.items():
            stack.enter_context(setting(spark, name, value))
        result = native.append(frame)
        assert (result.road, result.why_not_native, result.added_rows, result.added_files) == ("native", "", 4, 1)
        assert _by_arrow(arrow, frame).road == "arrow"
    assert canonical_lines(native.scan().to_arrow()) == canonical_lines(arrow.scan().to_arrow())
    ((ours,), (theirs,)) = (table.inspect("files").to_pylist() for table in (native, arrow))
    assert re.search(r"/native/data/[0-9a-f-]{36}/part-00000-[0-9a-f-]+-c000\.zstd\.parquet$", ours["file_path"])
    schemas = [pq.read_schema(one["file_path"]) for one in (ours, theirs)]
    assert [field.metadata for field in schemas[0]] == [field.metadata for field in schemas[1]]
    assert [number for number, _ in ours["column_sizes"]] == [number for number, _ in theirs["column_sizes"]]
    assert ours["split_offsets"] == theirs["split_offsets"]
    # parquet-java does not count NaN, and takes it for the greatest number, so that such columns have no bounds.
    floating = {field.id for field in native.schema if str(field.type) in ("float", "double")}
    assert dict(theirs["nan_value_counts"]) == dict.fromkeys(floating, 1)
    # Nor do the footers of Spark's files tell how many structs are null.
    structs = {path[-1].id for path in field_paths(native.schema) if isinstance(path[-1].type, Struct)}
    for name in ("value_counts", "null_value_counts", "lower_bounds", "upper_bounds"):
        unknown = floating if "bounds" in name else structs
        assert dict(ours[name]) == {number: value for number, value in theirs[name] if number not in unknown}


def _differs_in_iceberg(kind: pa.DataType) -> bool:
    if isinstance(kind, pa.StructType):
        return any(_differs_in_iceberg(child.type) for child in kind)
    return pa.types.is_nested(kind) or kind in (pa.int8(), pa.int16())


def _named(stats: dict[str, Any], schema: Struct) -> dict[str, Any]:
    """Return statistics by the names of columns instead of those in files."""

    def named(values: Any, kind: DataType) -> Any:
        if not isinstance(kind, Struct):
            return values
        fields = {field.physical_name: field for field in kind}
        return {fields[name].name: named(value, fields[name].type) for name, value in values.items()}

    return {name: named(value, schema) if isinstance(value, dict) else value for name, value in stats.items()}


def test_bounds_hold_wherever_a_nan_is(spark: Any, tmp_path: Path) -> None:
    """A NaN in any place of a file leaves no bounds, -0.0 is below 0.0, and long texts are cut as on one machine."""
    nan = "double('NaN')"
    values = [f"array({nan}, 1D, 2D)", f"array(1D, {nan}, 2D)", f"array(1D, 2D, {nan})", "array(0D, -0D)"]
    values += [f"array({nan})", "array(CAST(NULL AS DOUBLE))", "array(-1D, NULL, 7D)"]
    whens = " ".join(f"WHEN id = {number} THEN {value}" for number, value in enumerate(values))
    frame = spark.range(0, len(values), 1, len(values)).selectExpr("id", f"explode(CASE {whens} END) AS x")
    frame = frame.selectExpr("CAST(x AS FLOAT) AS f", "struct(x AS y) AS s", "repeat('\U0001f600', 40) AS long", "id")
    late = spark.range(0, 60000, 1, 1).selectExpr(
        f"CAST(if(id = 59999, {nan}, id) AS FLOAT) AS f", "struct(double(id) AS y) AS s", "'a' AS long", "99L AS id"
    )
    properties = {"deltaberg.parquet.rowGroupSize": str(128 << 10)}
    columns = pa.schema([("f", pa.float32()), ("s", pa.struct([("y", pa.float64())])), ("long", pa.string())])
    table = create_table(tmp_path / "t", columns.append(pa.field("id", pa.int64())), properties=properties)
    assert table.append(frame.union(late)).road == "native"
    bounds = {}
    for add in _adds(table):
        stats = json.loads(add["stats"])
        low, high = stats["minValues"], stats["maxValues"]
        assert low["id"] == high["id"]
        assert stats["numRecords"] == pq.read_metadata(tmp_path / "t" / add["path"]).num_rows
        bounds[low["id"]] = [low.get("f"), high.get("f"), low.get("s", {}).get("y"), high.get("s", {}).get("y")]
        if low["id"] != 99:
            assert (low["long"], high["long"]) == ("\U0001f600" * 32, "\U0001f600" * 32 + "\U0010ffff")
    (last,) = (add["path"] for add in _adds(table) if '"id":99' in add["stats"])
    footer = pq.read_metadata(tmp_path / "t" / last)
    # Of other versions of parquet-java it is not known whether a NaN would show.
    zero, seven, most = (0.0, 7.0, 59999.0) if "version 1.16." in footer.created_by else (None, None, None)
    assert bounds == {
        **dict.fromkeys([0, 1, 2, 4, 5], [None] * 4),
        3: [-0.0, zero, -0.0, zero],
        6: [-1.0, seven, -1.0, seven],
        99: [None, None, 0.0, most],
    }
    assert footer.num_row_groups > 1
    assert not any("DICTIONARY" in text for text in footer.row_group(0).column(0).encodings)


_LONG = Field("x", Primitive("long"))
_ID = pa.schema([("x", pa.int64())])
#: Tables that Spark's writer does not write to, what the caller asks for, and why.
_TABLES: dict[str, tuple[Any, dict[str, Any], dict[str, Any], str]] = {
    "partitions": (pa.schema([("x", pa.int64()), ("p", pa.string())]), {"partition_by": "p"}, {}, "partitioned"),
    "not-null": (pa.schema([pa.field("x", pa.int64(), nullable=False)]), {}, {}, "column x: it must not be null"),
    "not-null-inside": (
        pa.schema([("x", pa.list_(pa.field("element", pa.int64(), nullable=False)))]),
        {},
        {},
        "column x: it must not be null",
    ),
    "generated": (
        Struct((_LONG, Field("g", Primitive("long"), metadata={"delta.generationExpression": "x"}))),
        {},
        {},
        "rules for its rows",
    ),
    "void": (Struct((_LONG, Field("v", Primitive("void")))), {}, {}, "column v: it is of the type void"),
    "variant": (Struct((_LONG, Field("v", Primitive("variant")))), {}, {}, "column v: it is of the type variant"),
    "char": (
        Struct((_LONG, Field("c", Primitive("string"), metadata={"__CHAR_VARCHAR_TYPE_STRING": "char(3)"}))),
        {},
        {},
        "rules for its rows",
    ),
    "keys": (
        pa.schema([("x", pa.int64()), ("m", pa.list_(pa.map_(pa.float64(), pa.int64())))]),
        {},
        {},
        "column m: whether a map has one of its keys twice, which are of the type double, is not known",
    ),
    "dots": (pa.schema([("x", pa.int64()), ("a.b", pa.float64())]), {}, {}, "dot in its name"),
    "prefixes": (_ID, {"properties": {"delta.randomizeFilePrefixes": "true"}}, {}, "the places of its files"),
    "size": (_ID, {"properties": {"delta.targetFileSize": "1mb"}}, {}, "a certain size"),
    "memory": (_ID, {}, {"memory": 64 << 20}, "the memory of a write is bounded"),
    "codec": (_ID, {"properties": {"delta.parquet.compression.codec": "brotli"}}, {}, "a way that Spark does not know"),
    "level": (_ID, {}, {"writer_properties": ParquetOptions("zstd", 3)}, "a way that Spark does not know"),
    "codecs": (_ID, {}, {"writer_properties": ParquetOptions({"": "zstd"})}, "a way that Spark does not know"),
    "group-rows": (_ID, {}, {"writer_properties": ParquetOptions(row_group_rows=9)}, "a way that Spark does not know"),
    "narrow": (pa.schema([("x", pa.int32())]), {}, {}, "column x: the rows have the type long, and the table integer"),
    "lists-with-ids": (
        pa.schema([("x", pa.list_(pa.int64()))]),
        {"properties": {"delta.columnMapping.mode": "name", "delta.enableIcebergCompatV2": "true"}},
        {},
        "its fields the ids",
    ),
    "odd path [*]": (_ID, {}, {}, "another"),
    "pfad ü": (_ID, {}, {}, "another"),
}


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_the_road_is_named_beforehand(format: Any, spark: Any, tmp_path: Path) -> None:
    """No file is written, no row is computed, and the append then takes that road for that reason."""
    columns = pa.schema([("x", pa.int64()), ("y", pa.int64())])
    frame = spark.range(3).selectExpr("id AS x", "id AS y")
    failing = spark.range(3).selectExpr("IF(id >= 0, raise_error('computed'), id) AS x", "id AS y")
    for partition_by, expected in ((None, ("native", "")), ("x", ("arrow", "the table is partitioned"))):
        root = tmp_path / expected[0]
        table: Any = create_table(root, columns, format=format, partition_by=partition_by)
        before = sorted(root.rglob("*"))
        assert table.explain_append(frame) == table.explain_append(failing) == expected
        assert sorted(root.rglob("*")) == before
        result = table.append(frame)
        assert (result.road, result.why_not_native) == expected
        assert table.scan().count() == 3


@pytest.mark.parametrize("file_format", ["orc", "avro"])
def test_iceberg_tables_of_other_files_are_written_by_arrow(file_format: str, spark: Any, tmp_path: Path) -> None:
    columns, properties = pa.schema([("x", pa.int64())]), {"write.format.default": file_format}
    table = create_table(tmp_path / "t", columns, format="iceberg", properties=properties)
    result = table.append(spark.range(3).selectExpr("id AS x"))
    assert (result.road, result.why_not_native) == ("arrow", f"the files are of the format {file_format}")
    assert sorted(table.scan().to_arrow()["x"].to_pylist()) == [0, 1, 2]


@pytest.mark.parametrize("name", _TABLES)
def test_tables_that_are_written_by_arrow(name: str, spark: Any, tmp_path: Path) -> None:
    columns, made, options, why = _TABLES[name]
    table = create_table(tmp_path / name, columns, **made)
    frame = spark.range(1).selectExpr("array(id) AS x" if why.endswith("ids") or "inside" in name else "id AS x")
    if name == "partitions":
        frame = frame.selectExpr("x", "'a' AS p")
    result = table.explain_append(frame, **options)
    assert result.name == "arrow"
    assert why in result.why_not_native


@pytest.mark.parametrize(
    ("rows", "why"),
    {
        "collation": ("SELECT 'a' COLLATE UTF8_LCASE AS x", "column x: its texts have a collation"),
        "inside": ("SELECT array('a' COLLATE UTF8_LCASE) AS x", "column x: its texts have a collation"),
        "order": ("SELECT struct(1 AS b, 2 AS a) AS x", "column x: the rows have the type struct<b"),
        "null": ("SELECT null AS x", "column x: the rows have the type void"),
        "varchar": ("SELECT 'a' AS x", "column x: its texts have a collation or a length"),
        "observed": ("SELECT 'a' AS x", "the rows are observed"),
        "encrypted": ("SELECT 'a' AS x", "parquet.crypto.factory.class is set"),
    }.values(),
)
def test_rows_that_are_written_by_arrow(rows: str, why: str, spark: Any, tmp_path: Path) -> None:
    frame = spark.sql(rows)
    columns = [("x", pa.struct([("a", pa.int32()), ("b", pa.int32())]) if "struct" in rows else pa.string())]
    if "array" in rows:
        columns = [("x", pa.list_(pa.string()))]
    if why.endswith("length"):
        frame = frame.withMetadata("x", {"__CHAR_VARCHAR_TYPE_STRING": "varchar(3)"})
    if why.endswith("observed"):
        frame = frame.observe("counted", count(lit(1)))
    with setting(spark, "parquet.crypto.factory.class", "Any" if "crypto" in why else ""):
        result = create_table(tmp_path / "t", pa.schema(columns)).explain_append(frame)
    assert result.name == "arrow"
    assert why in result.why_not_native


def test_values_are_those_that_the_session_computes(spark: Any, tmp_path: Path) -> None:
    """ANSI mode is the user's, missing columns are null, and tasks without rows leave no file."""
    table = create_table(tmp_path / "t", pa.schema([("a", pa.int32()), ("missing", pa.date32()), ("id", pa.int64())]))
    text = spark.range(0, 9, 1, 3).where("id < 3").selectExpr("ID", "concat('x', id) AS text")
    with setting(spark, "spark.sql.ansi.enabled", "false"):
        result = table.append(text.selectExpr("ID", "CAST(text AS INT) AS A"))
    assert (result.road, result.added_files, result.added_rows) == ("native", 1, 3)
    with setting(spark, "spark.sql.ansi.enabled", "true"), pytest.raises(Exception, match="CAST_INVALID_INPUT"):
        table.append(text.selectExpr("ID", "CAST(text AS INT) AS A"))
    # A later number of a row, and a frame that is aggregated, whose plan is adaptive.
    assert table.append(text.groupBy("id").count().selectExpr("id", "int(count) AS a")).road == "native"
    assert table.append(text.where("false").selectExpr("id")).added_files == 0
    assert all(any(path.iterdir()) for path in (tmp_path / "t").iterdir() if path.is_dir())
    found = sorted(table.scan().to_arrow().to_pylist(), key=lambda row: (row["id"], row["a"] or 0))
    assert [(row["id"], row["a"], row["missing"]) for row in found] == [
        (number, value, None) for number in range(3) for value in (None, 1)
    ]
    assert len(_files(tmp_path / "t")) == len(table.scan().files())
    assert table.overwrite(table.scan().to_spark(spark).where("a = 1")).added_rows == 3


_BY_TEXT, _BY_LONG = pa.map_(pa.string(), pa.int64()), pa.map_(pa.int64(), pa.string())


@pytest.mark.parametrize(
    ("kind", "values"),
    {
        "text": (_BY_TEXT, [[("b", 1)], None, [], [("b", 1), ("a", 2), ("c", 3)], [("b", 1), ("a", 2), ("b", 3)]]),
        "long text": (_BY_TEXT, [[('ü"{}\n' * 40, 1)], [('ü"{}\n' * 40, 1), ('ü"{}\n' * 40, 2)]]),
        "number": (_BY_LONG, [[(1, "a"), (1 << 40, "b")], [(1 << 40, "a"), (1, "b"), (1 << 40, "c")]]),
        "struct": (
            pa.struct([("a.`b", _BY_TEXT), ("c", pa.int64())]),
            [{"a.`b": None, "c": 1}, None, {"a.`b": [("x", 1)], "c": None}, {"a.`b": [("x", 1), ("x", 1)], "c": 2}],
        ),
        "inside": (
            pa.map_(pa.string(), pa.list_(_BY_LONG)),
            [
                [("a", [[(1, "a")], [(1, "b")], None]), ("b", [[(1, "c")]]), ("c", None)],
                [("a", [[(1, "a"), (1, "a")]])],
            ],
        ),
    }.values(),
)
def test_maps_with_a_key_twice_fail_as_our_writer_fails(
    kind: pa.DataType, values: list[Any], spark: Any, tmp_path: Path
) -> None:
    """Spark reads such maps from files. Only the last row has one, and the others are written."""
    frames = []
    for name, rows in (("bad", values), ("good", values[:-1])):
        (tmp_path / name).mkdir()
        pq.write_table(pa.table({"id": range(len(rows)), "M": pa.array(rows, kind)}), tmp_path / name / "rows.parquet")
        frames.append(spark.read.parquet(f"{tmp_path / name}"))
    bad, good = frames
    properties = {"delta.columnMapping.mode": "name"}
    table = create_table(tmp_path / "t", {"id": pa.int64(), "m": kind}, properties=properties)
    assert table.explain_append(bad).name == "native"
    before = _files(tmp_path / "t")
    with pytest.raises(ConstraintViolationError, match=r"a map has the key .* twice") as caught:
        table.append(bad)
    with pytest.raises(ConstraintViolationError) as by_arrow:
        _by_arrow(table, bad)
    assert (str(caught.value), caught.value.context) == (str(by_arrow.value), by_arrow.value.context)
    assert _files(tmp_path / "t") == before
    assert table.append(good).road == "native"
    assert table.scan().to_arrow()["m"].to_pylist() == values[:-1]


def test_a_failing_write_leaves_nothing(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not if a task fails after another one, nor if there are fewer rows than tasks say, or other columns."""
    table = create_table(tmp_path / "t", pa.schema([("id", pa.int64())]))
    rows = spark.range(0, 4, 1, 2)
    with pytest.raises(Exception, match="the last row"):
        table.append(rows.selectExpr("if(id = 3, raise_error('the last row'), id) AS id").coalesce(1))
    with pytest.raises(Exception, match="the last row"):
        table.append(rows.selectExpr("if(id = 3, bigint(raise_error('the last row')), id) AS id"))
    write = SparkParquet.write

    def more(self: SparkParquet, directory: str, options: dict[str, str]) -> int:
        return write(self, directory, options) + 1

    def other(self: SparkParquet, directory: str, options: dict[str, str]) -> int:
        written = write(self, directory, options)
        (part, *_) = Path(directory.removeprefix("file://")).glob("*.parquet")
        pq.write_table(pa.table({"other": [1]}), part)
        return written

    for wrong, message in ((more, "written 5 rows, but there are files with 4"), (other, "other columns")):
        monkeypatch.setattr(SparkParquet, "write", wrong)
        with pytest.raises(StorageError, match=message):
            table.append(rows)
    assert table.refresh().version == 0
    assert [path.name for path in (tmp_path / "t").iterdir()] == ["_delta_log"]
