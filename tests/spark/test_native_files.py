"""Which files Spark's own reader reads exactly: types, names, calendars, encodings, filters, settings."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg import open_table
from deltaberg.spark.native import footers, plan
from tests.spark.doors import needs_native
from tests.spark.native_road import ids, same, setting, why_not
from tests.support.delta_builder import DeltaBuilder
from tests.support.delta_schemas import field
from tests.support.iceberg_builder import IcebergBuilder
from tests.support.roads import collect, native_plan, rows_of

pytestmark = [pytest.mark.spark, needs_native]

_ID = pa.schema([("id", pa.int64())])


_OLD = dt.datetime(1582, 10, 10, tzinfo=dt.timezone.utc)
_TYPES = {
    "i1": (pa.int8(), [1, None, -128]),
    "i4": (pa.int32(), [1, None, -(1 << 31)]),
    "f": (pa.float32(), [1.5, None, float("nan")]),
    "d": (pa.float64(), [-0.0, None, float("inf")]),
    "s": (pa.string(), ["", None, "ü"]),
    "b": (pa.binary(), [b"\0\xff", None, b""]),
    "t": (pa.bool_(), [True, None, False]),
    "day": (pa.date32(), [dt.date(1, 1, 1), None, dt.date(9999, 12, 31)]),
    "dec": (pa.decimal128(38, 10), [None, None, 3]),
    "at": (pa.timestamp("us", "UTC"), [_OLD, None, dt.datetime(2024, 3, 10, 7, 30, tzinfo=dt.timezone.utc)]),
    "ntz": (pa.timestamp("us"), [dt.datetime(1, 1, 1), None, dt.datetime(2024, 3, 10, 2, 30)]),
    "l": (pa.list_(pa.struct([("k", pa.int32())])), [[{"k": 1}, None], None, []]),
    "m": (pa.map_(pa.string(), pa.list_(pa.date32())), [[("a", [dt.date(2020, 1, 1)])], None, []]),
}  # fmt: skip


_CONDITIONS = [
    *("f = 1.5", "isnan(f)", "NOT isnan(f)", "d IN (3.5, 7)", "f > 1", "day < DATE '1500-01-01'", "dec > 2.5", "t"),
    *("ntz >= TIMESTAMP_NTZ '2024-03-10 02:30:00'", "ntz IN (TIMESTAMP_NTZ '0001-01-01', TIMESTAMP_NTZ '9999-12-31')"),
    *("at >= TIMESTAMP '2024-03-10T07:30:00Z'", "s LIKE '_'", "s <=> NULL", "b = X'00ff'", "i1 NOT IN (1, 2)"),
    *("i4 < id", "i4 IS DISTINCT FROM id", "startswith(s, 'ü')", "NOT (t OR id > 1)"),
]


def test_types(builder: DeltaBuilder, spark: Any) -> None:
    schema = pa.schema([("id", pa.int64()), *((name, kind) for name, (kind, _) in _TYPES.items())])
    rows = pa.table({"id": range(3), **{name: values for name, (_, values) in _TYPES.items()}}, schema=schema)
    builder.create(schema, builder.add(rows), protocol=builder.features("timestampNtz"))
    table = open_table(builder.root)
    assert rows_of(same(table.scan(), spark)) == rows_of(table.scan().to_arrow())
    for condition in _CONDITIONS:
        scan = table.scan(condition)
        assert rows_of(same(scan, spark)) == rows_of(scan.to_arrow()), condition


def test_numbers_that_statistics_leave_out(builder: DeltaBuilder, spark: Any) -> None:
    """NaN is greater than any other number, and -0.0 equals 0.0; Parquet readers skip row groups that have them."""
    schema = pa.schema([("id", pa.int64()), ("f", pa.float32()), ("s", pa.struct([("d", pa.float64())]))])
    values = [1.5, float("nan"), 1.5, -0.0, None]
    rows = pa.table({"id": range(5), "f": values, "s": [{"d": value} for value in values]}, schema=schema)
    builder.create(schema, *(builder.add(rows.slice(*part), writer={"row_group_size": 2}) for part in ((0, 3), (3, 2))))
    table = open_table(builder.root)
    for name in ("f", "s.d"):
        for rest in (
            "> 100",
            ">= 100",
            "!= 1.5",
            "NOT IN (1.5, 2.5)",
            "IS DISTINCT FROM 1.5",
            "= 0",
            "IN (0.0, 7)",
            ">= 0",
        ):
            scan = table.scan(f"{name} {rest}")
            assert rows_of(same(scan, spark)) == rows_of(scan.to_arrow()), scan
    nan = table.scan([("f", "=", float("nan"))])
    assert ids(same(nan, spark)) == [1]


def test_timestamps_of_spark(builder: DeltaBuilder, spark: Any, tmp_path: Path) -> None:
    """INT96 timestamps that Spark wrote are read alike; a session may shift those of other writers."""
    schema = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
    with setting(spark, "spark.sql.parquet.outputTimestampType", "INT96"):
        instants = "1400-01-01 00:00:00Z", "2024-02-29 23:59:59.999999Z", "9999-12-31 00:00:00Z"
        texts = ", ".join(f"TIMESTAMP '{instant}'" for instant in instants)
        frame = spark.sql(
            f"SELECT id, at FROM (SELECT posexplode(array({texts}, null)) AS (p, at)) JOIN range(4) ON p = id"
        )
        frame.coalesce(1).write.parquet(str(tmp_path / "made"))
    (written,) = (tmp_path / "made").glob("*.parquet")
    builder.create(
        schema, builder.add(pa.table({"id": [0], "at": [_OLD]}, schema=schema), path="f.parquet", stats="none")
    )
    (builder.root / "f.parquet").write_bytes(written.read_bytes())
    assert pq.ParquetFile(written).schema.column(1).physical_type == "INT96"
    table = open_table(builder.root)
    with setting(spark, "spark.sql.parquet.int96TimestampConversion", "true"):
        assert rows_of(same(table.scan(), spark)) == rows_of(table.scan().to_arrow())
    rows = pa.table({"id": [0], "at": [_OLD]}, schema=schema)
    pq.write_table(rows, builder.root / "f.parquet", use_deprecated_int96_timestamps=True)
    assert why_not(open_table(builder.root).scan(), spark) == "it has INT96 timestamps of a writer other than Spark"


def _default(builder: IcebergBuilder) -> None:
    builder.commit(builder.data([{"id": 1, "a": 1}]))
    young = {"id": 9, "name": "new", "required": False, "type": "int", "initial-default": 5, "write-default": 5}
    builder.schemas.append([*builder.fields, young])


def _promoted(builder: IcebergBuilder) -> None:
    builder.commit(builder.data([{"id": 1, "a": 1}]))
    builder.schemas.append([{**child, "type": "long"} if child["name"] == "a" else child for child in builder.fields])


def _equality(builder: IcebergBuilder) -> None:
    builder.commit(builder.data([{"id": 1, "a": 1}, {"id": 2, "a": 2}]))
    builder.commit(builder.equality_deletes([1], [{"id": 2}]))


def _younger(builder: IcebergBuilder) -> None:
    inner = {"type": "struct", "fields": [{"id": 20, "name": "x", "required": False, "type": "int"}]}
    builder.schemas[-1].append({"id": 10, "name": "s", "required": False, "type": inner})
    builder.commit(builder.data([{"id": 1, "a": 1, "s": {"x": 1}}]))
    wider = {"type": "struct", "fields": [*inner["fields"], {"id": 21, "name": "y", "required": False, "type": "int"}]}
    builder.schemas.append([{**child, "type": wider} if child["name"] == "s" else child for child in builder.fields])


def _avro(builder: IcebergBuilder) -> None:
    builder.commit(builder.data([{"id": 1, "a": 1}], format="avro"))


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (_default, "the column new was added after the file was written, and has a default"),
        (_promoted, "the column a is of type long, but int32 in the file"),
        (_equality, "equality deletes apply to it"),
        (_younger, "the field s.y was added after the file was written"),
        (_avro, "it is not a Parquet file"),
    ],
)
def test_what_only_our_reader_does(tmp_path: Path, spark: Any, make: Any, why: str) -> None:
    builder = IcebergBuilder(tmp_path / "t", {"id": "long", "a": "int"}, format_version=3)
    make(builder)
    builder.write()
    assert why_not(open_table(builder.root).scan(), spark) == why


def _inside(*fields: tuple[int, str, str]) -> dict[str, Any]:
    return {"type": "struct", "fields": [{"id": i, "name": n, "required": False, "type": t} for i, n, t in fields]}


def test_columns_that_files_name_in_other_ways(tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns renamed, exchanged, dropped and added again at any depth; files with the same names are read together."""
    builder = IcebergBuilder(tmp_path / "t", {"id": "long", "a": "int", "b": "int"})
    before = _inside((5, "x", "int"), (6, "y", "string"))
    builder.schemas[-1].append({"id": 4, "name": "s", "required": False, "type": before})
    builder.commit(*(builder.data([{"id": n, "a": 1, "b": 2, "s": {"x": n, "y": "old"}}]) for n in range(3)))
    columns = [
        {"id": 1, "name": "id", "required": False, "type": "long"},
        {"id": 2, "name": "b", "required": False, "type": "int"},
        {"id": 9, "name": "a", "required": False, "type": "int"},
        {"id": 4, "name": "my s", "required": False, "type": _inside((6, "x", "string"), (5, "z.z", "int"))},
    ]
    builder.schemas.append(columns)
    builder.commit(builder.data([{"id": 7, "b": 3, "a": 4, "my s": {"x": "new", "z.z": 5}}]))
    table = open_table(builder.root)
    found = sorted(same(table.scan(), spark).to_pylist(), key=repr)
    assert found[0] == {"id": 0, "b": 1, "a": None, "my s": {"x": "old", "z.z": 0}}
    assert found[-1] == {"id": 7, "b": 3, "a": 4, "my s": {"x": "new", "z.z": 5}}
    expected = {"a IS NULL": [0, 1, 2], "`my s`.`z.z` > 1": [2, 7], "b = 3 OR `my s`.x = 'old'": [0, 1, 2, 7]}
    for condition, kept in expected.items():
        assert ids(same(table.scan(condition), spark)) == kept
    assert ids(same(table.scan("`my s`.`z.z` = 5", ["id"]), spark)) == [7]
    monkeypatch.setattr(plan, "_MOST_GROUPS", 1)
    chosen = native_plan(table.scan(), spark, forced=True)
    assert chosen.reasons == {"few other files name their columns as it does": 1}
    assert ids(collect(table.scan().to_spark(spark))) == [0, 1, 2, 7]


def test_names_that_differ_in_case(builder: DeltaBuilder, spark: Any) -> None:
    schema = pa.schema([("id", pa.int64()), ("Name", pa.string())])
    file = builder.root / "f.parquet"
    builder.create(schema, builder.add(pa.table({"id": [0], "Name": ["x"]}), path=file.name))
    number = pa.array([1], pa.int64())
    pq.write_table(pa.table({"ID": number, "name": ["y"]}), file)
    assert same(open_table(builder.root).scan(), spark).to_pylist() == [{"id": 1, "Name": "y"}]
    pq.write_table(pa.table({"id": number, "name": ["y"], "NAME": ["z"]}), file)
    assert same(open_table(builder.root).scan(), spark).to_pylist() == [{"id": 1, "Name": None}]


def test_partitions_whose_value_is_null(tmp_path: Path, spark: Any) -> None:
    """If the value of a partition is null, the column in the file counts."""
    spec = [{"source-id": 2, "name": "p", "transform": "identity"}]
    builder = IcebergBuilder(tmp_path / "t", {"id": "long", "a": "int"}, specs=[spec])
    files = [builder.data([{"id": number, "a": a}], partition={"p": a}) for number, a in enumerate([None, 7])]
    builder.commit(*files)
    table = open_table(builder.root)
    found = same(table.scan(), spark)
    assert sorted(found.to_pylist(), key=repr) == [{"id": 0, "a": None}, {"id": 1, "a": 7}]
    assert ids(same(table.scan("a IS NULL", ["id"]), spark)) == [0]


def test_long_filters(builder: DeltaBuilder, spark: Any) -> None:
    builder.create(_ID, builder.add(pa.table({"id": range(300)})))
    table = open_table(builder.root)
    parts = " AND ".join(f"id != {number}" for number in range(150))
    assert ids(same(table.scan(parts), spark)) == list(range(150, 300))
    pairs = " OR ".join(f"(id = {number} AND id > -1)" for number in range(250))
    assert why_not(table.scan(pairs), spark) == "the filter is long"
    assert why_not(table.scan([("id", "in", list(range(1500)))]), spark) == "the filter is long"


def test_a_session_that_reads_in_another_way(builder: DeltaBuilder, spark: Any) -> None:
    """If the reader of the session has no metadata columns, the arrow road is taken."""
    builder.create(
        _ID,
        builder.add(pa.table({"id": [1, 2]}), vector=builder.vector([0], "i")),
        protocol=builder.features("deletionVectors"),
    )
    with setting(spark, "spark.sql.sources.useV1SourceList", ""):
        assert "cannot analyze" in why_not(open_table(builder.root).scan(), spark)


def test_computed_columns(tmp_path: Path, spark: Any) -> None:
    """Spark gives positions, and the join the values of the file; ``_deleted`` takes the arrow road."""
    spec = [{"source-id": 2, "name": "p", "transform": "identity"}]
    builder = IcebergBuilder(tmp_path / "t", {"id": "long", "a": "int"}, specs=[spec])
    files = [builder.data([{"id": 10 * a + n, "a": a} for n in range(5)], partition={"p": a}) for a in (1, 2)]
    builder.commit(*files, builder.position_deletes([(files[0], 3)]), builder.position_deletes([(files[1], 4)]))
    table = open_table(builder.root)
    found = same(table.scan("_pos > 1", ["id", "a", "_pos", "_file", "_spec_id", "_partition"]), spark)
    pairs = zip(found["id"].to_pylist(), found["_pos"].to_pylist(), strict=True)
    assert sorted(pairs) == [(12, 2), (14, 4), (22, 2), (23, 3)]
    assert set(found["_file"].to_pylist()) == {file.path for file in files}
    assert why_not(table.scan(columns=["id", "_deleted"]), spark) == "only our reader makes the column _deleted"


def test_row_ids(builder: DeltaBuilder, spark: Any) -> None:
    """Row ids that are materialized in a file win over those computed from its base, in filters, too."""
    names = (
        "delta.rowTracking.materializedRowIdColumnName",
        "delta.rowTracking.materializedRowCommitVersionColumnName",
    )
    configuration = {"delta.enableRowTracking": "true", **dict(zip(names, ("_r", "_v"), strict=True))}
    plain = pa.table({"id": range(5)})
    stored = plain.append_column("_r", pa.array([7, None, 9, 8, None], pa.int64()))
    adds = [
        builder.add(plain, baseRowId=100, defaultRowCommitVersion=3, vector=builder.vector([1], "i")),
        builder.add(stored.set_column(0, "id", pa.array(range(10, 15))), baseRowId=200, defaultRowCommitVersion=4),
    ]
    protocol = builder.features("deletionVectors", writer_only=["rowTracking", "domainMetadata"])
    builder.create(_ID, *adds, configuration=configuration, protocol=protocol)
    table = open_table(builder.root)
    ids_of = {
        row["id"]: row["_metadata"]["row_id"]
        for row in same(table.scan(columns=["id", "_metadata"]), spark).to_pylist()
    }
    assert ids_of == {0: 100, 2: 102, 3: 103, 4: 104, 10: 7, 11: 201, 12: 9, 13: 8, 14: 204}
    for condition in ("_metadata.row_id > 102", "_metadata.row_index = 2", "_metadata.row_commit_version = 4"):
        for columns in (
            ["id"],
            ["id", "_metadata.row_id"],
            ["id", "_metadata.file_name", "_metadata.row_commit_version"],
        ):
            scan = table.scan(condition, columns)
            for ansi in ("true", "false"):
                with setting(spark, "spark.sql.ansi.enabled", ansi):
                    assert rows_of(same(scan, spark)) == rows_of(scan.to_arrow()), scan
    builder.commit(builder.add(plain, defaultRowCommitVersion=5))
    lacking = native_plan(open_table(builder.root).scan(columns=["_metadata.row_id"]), spark)
    assert lacking.reasons == {"its rows have no ids, which the table promises": 1}
    builder.commit(builder.add(plain, baseRowId=1 << 62, defaultRowCommitVersion=5))
    great = native_plan(open_table(builder.root).scan(columns=["_metadata.row_id"]), spark)
    assert great.reasons["its base_row_id is out of range"] == 1


def test_a_partition_with_the_name_of_a_hidden_column(builder: DeltaBuilder, spark: Any) -> None:
    """The protocol forbids it; the value in the log counts."""
    name = "delta.rowTracking.materializedRowIdColumnName"
    configuration = {"delta.enableRowTracking": "true", name: "_r"}
    rows = pa.table({"id": [1], "_r": pa.array([7], pa.int64())})
    add = builder.add(rows, partition={"_r": None}, baseRowId=0, defaultRowCommitVersion=0)
    protocol = builder.features("deletionVectors", writer_only=["rowTracking", "domainMetadata"])
    schema = pa.schema([*_ID, ("_r", pa.string())])
    builder.create(schema, add, partition_by=["_r"], configuration=configuration, protocol=protocol)
    scan = open_table(builder.root).scan(columns=["id", "_r", "_metadata.row_id"])
    assert rows_of(same(scan, spark)) == rows_of(scan.to_arrow())


@pytest.mark.parametrize("error", [IndexError("1 out of bounds"), OverflowError(), pa.ArrowInvalid("damaged")])
def test_what_cannot_be_judged_goes_by_arrow(
    builder: DeltaBuilder, spark: Any, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """A damaged footer may, for example, name more columns than its row groups have."""

    def fail(*_: Any) -> None:
        raise error

    builder.create(_ID, builder.add(pa.table({"id": [1]})))
    monkeypatch.setattr(footers, "_why_not_encoding", fail)
    assert why_not(open_table(builder.root).scan(), spark) == f"it cannot be opened: {type(error).__name__}"


def test_row_lineage(spark: Any, tmp_path: Path) -> None:
    builder = IcebergBuilder(tmp_path / "t", {"id": "long"}, format_version=3)
    lineage = {"id": 2147483540, "name": "_row_id", "required": False, "type": "long"}
    files = [
        builder.data([{"id": number} for number in range(4)], first_row_id=10),
        builder.data(
            [{"id": 4, "_row_id": 2}, {"id": 5, "_row_id": None}], fields=[*builder.fields, lineage], first_row_id=20
        ),
    ]
    builder.commit(*files)
    table = open_table(builder.root)
    scan = table.scan("_row_id > 10", ["id", "_row_id", "_last_updated_sequence_number", "_pos"])
    found = same(scan, spark)
    assert rows_of(found) == rows_of(scan.to_arrow())
    assert sorted(found["_row_id"].to_pylist()) == [11, 12, 13, 21]


@pytest.mark.parametrize("version", ["2.4.8", "", "2x", "10.0.0"])
def test_files_of_old_calendars(builder: DeltaBuilder, spark: Any, version: str) -> None:
    """Spark compares versions as text."""
    schema = pa.schema([("id", pa.int64()), ("day", pa.date32())])
    _written_by_spark(builder, schema, version)
    assert why_not(open_table(builder.root).scan(), spark) == "its dates may be of the hybrid Julian calendar"
    assert ids(same(open_table(builder.root).scan(columns=["id"]), spark)) == [1]


@pytest.mark.parametrize("version", ["3.5.1", "4.0.0", "\u00b2", "9" * 5000])
def test_files_of_newer_calendars(builder: DeltaBuilder, spark: Any, version: str) -> None:
    schema = pa.schema([("id", pa.int64()), ("day", pa.date32())])
    _written_by_spark(builder, schema, version)
    assert same(open_table(builder.root).scan(), spark)["day"].to_pylist() == [dt.date(1500, 1, 1)]


def _written_by_spark(builder: DeltaBuilder, schema: pa.Schema, version: str) -> None:
    rows = pa.table({"id": [1], "day": [dt.date(1500, 1, 1)]}, schema=schema)
    builder.create(schema, builder.add(rows, path="f.parquet"))
    noted = rows.replace_schema_metadata({b"org.apache.spark.version": version.encode()})
    pq.write_table(noted, builder.root / "f.parquet")


@pytest.mark.parametrize("said", [100, -5])
def test_footers_that_contradict_themselves(builder: DeltaBuilder, spark: Any, said: int) -> None:
    """Only the row groups say how many rows a file has, which is also the length of its bits for deleted rows."""
    add = builder.add(pa.table({"id": range(200)}), path="f.parquet", vector=builder.vector([5, 150], "i"))
    builder.create(_ID, add, protocol=builder.features("deletionVectors"))
    path = builder.root / "f.parquet"
    whole = path.read_bytes()
    footer = whole.index(_number(200), len(whole) - 8 - int.from_bytes(whole[-8:-4], "little"))
    lying = _number(said).ljust(len(_number(200)), b"\0")
    path.write_bytes(whole[:footer] + lying[: len(_number(200))] + whole[footer + len(_number(200)) :])
    assert pq.ParquetFile(path).metadata.num_rows == said
    scan = open_table(builder.root).scan()
    assert why_not(scan, spark) == "its footer contradicts itself about the number of rows"
    assert ids(collect(scan.to_spark(spark))) == [number for number in range(200) if number not in (5, 150)]


def _number(value: int) -> bytes:
    """Return a 64-bit field in Thrift's compact protocol, with a number of two bytes."""
    zigzag = (value << 1) ^ (value >> 63)
    return bytes([0x16, zigzag & 0x7F | 0x80, zigzag >> 7])


def test_names_of_another_struct(tmp_path: Path, spark: Any) -> None:
    """Files whose columns have the same names, but are nested in different ways, are read apart."""

    def struct(name: str, number: int, inner: str, inside: int) -> dict[str, Any]:
        fields = [{"id": inside, "name": inner, "required": False, "type": "int"}]
        return {"id": number, "name": name, "required": False, "type": {"type": "struct", "fields": fields}}

    first = {"id": 1, "name": "id", "required": False, "type": "long"}
    builder = IcebergBuilder(tmp_path / "t", [first, struct("s", 2, "t", 3)])
    builder.commit(builder.data([{"id": 1, "s": {"t": 5}}]))
    builder.schemas.append([first, struct("t", 4, "q", 5)])
    builder.commit(builder.data([{"id": 2, "t": {"q": 6}}]))
    builder.schemas.append([first, struct("s", 2, "x", 3), struct("q", 4, "y", 5)])
    builder.commit()
    found = same(open_table(builder.root).scan(), spark).to_pylist()
    expected = [{"id": 1, "s": {"x": 5}, "q": None}, {"id": 2, "s": None, "q": {"y": 6}}]
    assert sorted(found, key=lambda row: row["id"]) == expected


def test_files_of_one_shape_are_judged_once(builder: DeltaBuilder, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Metadata that differs from file to file, as that of pandas does, does not make another shape."""
    judged = []

    class Judge(footers._Judge):
        def __init__(self, *of: Any) -> None:
            judged.append(of)
            super().__init__(*of)

    monkeypatch.setattr(footers, "_Judge", Judge)
    monkeypatch.setattr(footers, "_THREADS", 1)
    builder.create(_ID, *(builder.add(pa.table({"id": [number]}), path=f"{number}.parquet") for number in range(9)))
    for number in range(9):
        rows = pa.table({"id": [number]}).replace_schema_metadata({b"pandas": str(number).encode()})
        pq.write_table(rows, builder.root / f"{number}.parquet")
    assert native_plan(open_table(builder.root).scan(), spark).files.to_pylist() == [True] * 9
    assert len(judged) == 1


@pytest.mark.parametrize("encoding", ["DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY", "BROTLI"])
def test_encodings_that_spark_misreads(builder: DeltaBuilder, spark: Any, encoding: str) -> None:
    schema = pa.schema([("id", pa.int64()), ("s", pa.string())])
    rows = pa.table({"id": range(100), "s": [None if n % 3 else f"text {n}" for n in range(100)]}, schema=schema)
    builder.create(schema, builder.add(rows, path="f.parquet"))
    how: dict[str, Any] = {"column_encoding": {"s": encoding, "id": "PLAIN"}, "use_dictionary": False}
    if encoding == "BROTLI":
        how = {"compression": {"s": encoding, "id": "SNAPPY"}}
    pq.write_table(rows, builder.root / "f.parquet", **how)
    assert why_not(open_table(builder.root).scan(), spark) == f"it is encoded by {encoding}"
    assert ids(same(open_table(builder.root).scan(columns=["id"]), spark)) == list(range(100))


@pytest.mark.parametrize("mode", ["name", "id"])
def test_mapped_columns(builder: DeltaBuilder, spark: Any, mode: str) -> None:
    """Columns that were renamed, are nested, or have names that Spark would split at dots."""

    def mapped(name: str, kind: Any, number: int) -> dict[str, Any]:
        return field(name, kind, delta__columnMapping__id=number, delta__columnMapping__physicalName=f"col-{number}")

    inner = {"type": "struct", "fields": [mapped("x.y", "integer", 3), mapped("z", "string", 4)]}
    columns = [mapped("id", "long", 1), mapped("my struct, `it", inner, 2)]

    def stored(name: str, kind: pa.DataType) -> pa.Field:
        return pa.field(name, kind, metadata={"PARQUET:field_id": name[-1]})

    inside = pa.struct([stored("col-3", pa.int32()), stored("col-4", pa.string())])
    physical = pa.schema([stored("col-1", pa.int64()), stored("col-2", inside)])
    values = [{"col-3": 5, "col-4": "a"}, None, {"col-3": None, "col-4": None}]
    rows = pa.table({"col-1": [1, 2, 3], "col-2": values}, schema=physical)
    add = builder.add(rows, stats="count", vector=builder.vector([1], "i"))
    configuration = {"delta.columnMapping.mode": mode, "delta.columnMapping.maxColumnId": "4"}
    protocol = builder.features("columnMapping", "deletionVectors")
    builder.create(columns, add, configuration=configuration, protocol=protocol)
    table = open_table(builder.root)
    found = same(table.scan(), spark)
    assert found.to_pylist()[0] == {"id": 1, "my struct, `it": {"x.y": 5, "z": "a"}}
    assert ids(same(table.scan("`my struct, ``it`.`x.y` = 5"), spark)) == [1]
