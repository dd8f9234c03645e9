"""Column mapping, the reader's half (DL-CM)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg import create_table, open_table
from deltaberg.errors import ColumnNotFoundError, CorruptLogError, SchemaError
from deltaberg.schema.types import List, Struct
from tests.support.delta_builder import DeltaBuilder
from tests.support.delta_schemas import delta_type, field, struct_type
from tests.support.roads import Road, by_every_road
from tests.support.rows import ID, ids

_MODE = "delta.columnMapping.mode"
_ID = b"PARQUET:field_id"


def mapped(name: str, type: Any, number: int, physical: str, **metadata: Any) -> dict[str, Any]:
    """Return a field with an id and a physical name."""
    return field(name, type, delta__columnMapping__id=number, delta__columnMapping__physicalName=physical, **metadata)


def with_ids(table: pa.Table, *numbers: int) -> pa.Table:
    """Return a table whose columns carry field ids into the Parquet file."""
    fields = [child.with_metadata({_ID: str(number)}) for child, number in zip(table.schema, numbers, strict=True)]
    return table.cast(pa.schema(fields))


def _rows(builder: DeltaBuilder, **scan: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = open_table(builder.root).scan(**scan).to_arrow().to_pylist()
    return found


@by_every_road
@pytest.mark.req("DL-CM-01", half="reader")
@pytest.mark.parametrize(
    ("protocol", "value"),
    [((1, 2), 1), ((1, 5), 1), ((2, 5), 2), ((2, 6), 2), ("3 with", 2), ("3 without", 1)],
)
def test_the_mode_counts_where_the_protocol_supports_it(builder: DeltaBuilder, protocol: Any, value: int) -> None:
    rows = pa.table({"a": pa.array([1], pa.int64()), "col-a": pa.array([2], pa.int64())})
    action = {
        "3 with": builder.features("columnMapping"),
        "3 without": builder.features("deletionVectors"),
    }.get(protocol) or builder.protocol(*protocol)
    columns = [mapped("a", "long", 1, "col-a")]
    builder.create(columns, builder.add(rows), configuration={_MODE: "name"}, protocol=action)
    assert _rows(builder) == [{"a": value}]


@pytest.mark.req("DL-CM-01", half="reader")
def test_the_letters_of_the_mode_do_not_matter(builder: DeltaBuilder) -> None:
    rows = pa.table({"col-a": pa.array([2], pa.int64())})
    columns = [mapped("a", "long", 1, "col-a")]
    builder.create(columns, builder.add(rows), configuration={_MODE: "NAME"}, protocol=builder.protocol(2, 5))
    assert _rows(builder) == [{"a": 2}]
    made = create_table(builder.root / "made", ID, properties={_MODE: "NAME"})
    assert made.properties[_MODE] == "name"
    made.append(ids(1))
    deltalake = pytest.importorskip("deltalake")
    assert deltalake.DeltaTable(builder.root / "made").metadata().configuration[_MODE] == "name"


@pytest.mark.req("DL-CM-01", half="reader")
def test_an_unknown_mode_is_refused(builder: DeltaBuilder) -> None:
    builder.create([mapped("a", "long", 1, "col-a")], configuration={_MODE: "foo"}, protocol=builder.protocol(2, 5))
    with pytest.raises(CorruptLogError, match="foo"):
        open_table(builder.root)


@pytest.mark.req("DL-CM-02", half="reader")
def test_every_column_has_an_id_and_a_physical_name(builder: DeltaBuilder, road: Road) -> None:
    inner = struct_type(mapped("d", "integer", 5, "col-a7f4159c-53be-4cb0-b81a-f7e5240cfc49"))
    array = {"type": "array", "elementType": inner, "containsNull": True}
    columns = [mapped("e", array, 4, "col-5f422f40-de70-45b2-88ab-1d5c90e94db1")]
    stored = pa.struct([("col-a7f4159c-53be-4cb0-b81a-f7e5240cfc49", pa.int32())])
    values = pa.array([[{"col-a7f4159c-53be-4cb0-b81a-f7e5240cfc49": 7}], None, []], pa.list_(stored))
    rows = pa.table({"col-5f422f40-de70-45b2-88ab-1d5c90e94db1": values})
    builder.create(columns, builder.add(rows), configuration={_MODE: "name"}, protocol=builder.protocol(2, 5))
    table = open_table(builder.root, "delta")
    assert road.rows(table.scan()) == sorted([{"e": [{"d": 7}]}, {"e": None}, {"e": []}], key=repr)
    (e,) = table.schema
    assert (e.id, e.physical_name) == (4, "col-5f422f40-de70-45b2-88ab-1d5c90e94db1")
    assert isinstance(e.type, List)
    assert isinstance(e.type.element.type, Struct)
    (d,) = e.type.element.type
    assert (d.id, d.physical_name) == (5, "col-a7f4159c-53be-4cb0-b81a-f7e5240cfc49")


@pytest.mark.req("DL-CM-02", "BEY-22", half="reader")
@pytest.mark.parametrize("mode", ["id", "name"])
@pytest.mark.parametrize(
    "columns",
    [
        [mapped("a", "long", 1, "x"), mapped("b", "long", 1, "y")],
        [mapped("a", "long", 1, "x"), mapped("b", "long", 2, "x")],
        [mapped("a", "long", 1, "x"), mapped("s", struct_type(mapped("b", "long", 1, "y")), 2, "z")],
        [mapped("a", "long", 1, "x"), field("b", "long")],
    ],
    ids=["ids", "names", "nested-ids", "missing"],
)
def test_repeated_or_missing_ids_and_names_are_refused(builder: DeltaBuilder, mode: str, columns: Any) -> None:
    builder.create(columns, configuration={_MODE: mode}, protocol=builder.protocol(2, 5))
    with pytest.raises(CorruptLogError, match=r"the same column mapping|column mapping is on"):
        _rows(builder)


@pytest.mark.req("DL-CM-07", "DL-CM-08", half="reader")
@pytest.mark.parametrize("mode", ["id", "name"])
def test_partition_values_and_statistics_have_physical_names(builder: DeltaBuilder, road: Road, mode: str) -> None:
    region = "col-19034dc3-8e3d-4156-82fc-8e05533c088e"
    columns = [mapped("id", "long", 1, "col-1"), mapped("region", "string", 2, region)]

    def add(number: int, value: str) -> Any:
        rows = with_ids(pa.table({"col-1": pa.array([number], pa.int64())}), 1)
        return builder.add(rows, partition={region: value}, stats="full")

    builder.create(
        columns,
        add(1, "EU"),
        add(2, "US"),
        add(3, "EU"),
        partition_by=["region"],
        configuration={_MODE: mode},
        protocol=builder.protocol(2, 5),
    )
    table = open_table(builder.root, "delta")
    assert table.partition_columns == ["region"]
    scan = table.scan("region = 'EU'")
    assert scan.files()["partition"].to_pylist() == [{"region": "EU"}] * 2
    assert road.rows(scan) == [{"id": 1, "region": "EU"}, {"id": 3, "region": "EU"}]
    assert table.scan("id = 3").files().num_rows == 1


@pytest.mark.req("DL-CM-13", half="reader")
def test_a_dropped_column_stays_in_the_files(builder: DeltaBuilder, road: Road) -> None:
    both = [mapped("a", "long", 1, "col-1"), mapped("b", "string", 2, "col-2")]
    rows = pa.table({"col-1": [1, 2], "col-2": ["x", "y"]})
    configuration = {_MODE: "name"}
    builder.create(both, builder.add(rows), configuration=configuration, protocol=builder.protocol(2, 5))
    builder.commit(builder.metadata(both[:1], configuration=configuration))
    assert road.rows(open_table(builder.root).scan()) == [{"a": 1}, {"a": 2}]
    with pytest.raises(ColumnNotFoundError, match="no column 'b'"):
        open_table(builder.root).scan(columns=["b"])
    again = [both[0], mapped("b", "long", 3, "col-3")]
    builder.commit(builder.metadata(again, configuration=configuration))
    assert road.rows(open_table(builder.root).scan()) == [{"a": 1, "b": None}, {"a": 2, "b": None}]


@by_every_road
@pytest.mark.req("DL-CM-14")
@pytest.mark.parametrize("configuration", [{}, {_MODE: "none"}])
def test_without_a_mode_columns_have_display_names(builder: DeltaBuilder, configuration: dict[str, str]) -> None:
    columns = [mapped("a", "long", 1, "col-1"), mapped("b", "long", 2, "col-2")]
    rows = with_ids(pa.table({"a": [1], "b": [2]}), 2, 1)
    builder.create(columns, builder.add(rows), configuration=configuration, protocol=builder.protocol(2, 5))
    assert _rows(builder) == [{"a": 1, "b": 2}]


@pytest.mark.req("DL-CM-15")
def test_by_id_names_do_not_matter(builder: DeltaBuilder, road: Road) -> None:
    columns = [mapped("a", "long", 1, "col-1"), mapped("gone", "string", 9, "col-9")]
    rows = with_ids(pa.table({"col-9": ["no"], "zzz": [5], "col-1": [6]}), 3, 1, 4)
    builder.create(columns, builder.add(rows), configuration={_MODE: "id"}, protocol=builder.protocol(2, 5))
    assert road.rows(open_table(builder.root).scan()) == [{"a": 5, "gone": None}]


@pytest.mark.req("DL-CM-15")
def test_by_id_nested(builder: DeltaBuilder) -> None:
    inner = struct_type(mapped("x", "long", 3, "col-3"), mapped("new", "long", 7, "col-7"))
    columns = [mapped("s", inner, 2, "col-2")]
    x = pa.field("other", pa.int64(), metadata={_ID: "3"})
    stored = pa.field("s1", pa.struct([x]), metadata={_ID: "2"})
    rows = pa.Table.from_arrays([pa.array([{"other": 4}, None], stored.type)], schema=pa.schema([stored]))
    builder.create(columns, builder.add(rows), configuration={_MODE: "id"}, protocol=builder.protocol(2, 5))
    assert _rows(builder) == [{"s": {"x": 4, "new": None}}, {"s": None}]


def _nested(type: pa.DataType, numbers: Iterator[int]) -> pa.DataType:
    """Return a type whose elements, keys and values carry field ids into the Parquet file, as Iceberg wants them."""
    if pa.types.is_list(type):
        return pa.list_(pa.field("element", _nested(type.value_type, numbers), metadata={_ID: str(next(numbers))}))
    if pa.types.is_map(type):
        key = pa.field("key", type.key_type, nullable=False, metadata={_ID: str(next(numbers))})
        value = pa.field("value", _nested(type.item_type, numbers), metadata={_ID: str(next(numbers))})
        return pa.map_(key, value)
    if pa.types.is_struct(type):
        # The ids of the schema: subcol1 has the fourth.
        (child,) = type
        return pa.struct([pa.field(child.name, _nested(child.type, numbers), metadata={_ID: "4"})])
    return type


@by_every_road
@pytest.mark.req("DL-ICOMP-10", "DL-ICOMP-11", half="reader")
@pytest.mark.parametrize("mode", ["name", "id"])
@pytest.mark.parametrize("key", ["delta.columnMapping.nested.ids", "parquet.field.nested.ids"])
def test_ids_of_elements_keys_and_values(builder: DeltaBuilder, mode: str, key: str) -> None:
    """The example of the protocol: such ids are for Iceberg clients, under either name, and change nothing here."""
    arrays = {"type": "array", "elementType": delta_type(pa.list_(pa.int32())), "containsNull": True}
    nested_ids = {
        "col1": {"col1.element": 100, "col1.element.element": 101},
        "col2": {"col2.key": 102, "col2.value": 103, "col2.value.element": 104},
        "col3": {"col3.key": 105, "col3.value": 106},
    }
    inner = mapped("subcol1", delta_type(pa.list_(pa.int32())), 4, "subcol1")
    inner["metadata"][key] = {"subcol1.element": 107}
    columns = [
        mapped("col1", arrays, 1, "col1"),
        mapped("col2", delta_type(pa.map_(pa.int32(), pa.list_(pa.int32()))), 2, "col2"),
        mapped("col3", {**delta_type(pa.map_(pa.int32(), pa.int32())), "valueType": struct_type(inner)}, 3, "col3"),
    ]
    for column in columns:
        column["metadata"][key] = nested_ids[column["name"]]
    rows = [{"col1": [[1], None, [2, 3]], "col2": [(1, [4, None])], "col3": [(7, {"subcol1": [5]}), (8, None)]}]
    plain = {
        "col1": pa.list_(pa.list_(pa.int32())),
        "col2": pa.map_(pa.int32(), pa.list_(pa.int32())),
        "col3": pa.map_(pa.int32(), pa.struct([("subcol1", pa.list_(pa.int32()))])),
    }
    numbers = iter((101, 100, 102, 104, 103, 105, 107, 106))
    stored = [
        pa.field(name, _nested(kind, numbers), metadata={_ID: str(number)})
        for number, (name, kind) in enumerate(plain.items(), 1)
    ]
    file = builder.add(pa.Table.from_pylist(rows, pa.schema(stored)))
    protocol = builder.features("columnMapping", writer_only=["icebergCompatV2"])
    properties = {_MODE: mode, "delta.enableIcebergCompatV2": "true"}
    builder.create(columns, file, configuration=properties, protocol=protocol)
    assert pq.read_schema(builder.root / file["add"]["path"]).field("col3").type.item_field.metadata == {_ID: b"106"}
    table = open_table(builder.root, "delta")
    assert table.scan().to_arrow().to_pylist() == rows
    assert json.loads(table.metadata.schema_string or "")["fields"] == columns


@by_every_road
@pytest.mark.req("DL-CM-16")
def test_by_id_a_file_without_ids_is_refused(builder: DeltaBuilder) -> None:
    columns = [mapped("a", "long", 1, "a"), mapped("region", "string", 2, "col-r")]
    add = builder.add(pa.table({"a": [1, 2]}), partition={"col-r": "EU"}, path="plain.parquet", stats="full")
    builder.create(columns, add, partition_by=["region"], configuration={_MODE: "id"}, protocol=builder.protocol(2, 5))
    with pytest.raises(SchemaError, match=r"plain\.parquet"):
        _rows(builder)
    assert _rows(builder, columns=["region"]) == [{"region": "EU"}] * 2
    assert open_table(builder.root).scan("a > 2").files().num_rows == 0


@pytest.mark.req("DL-CM-17")
def test_by_name_ids_do_not_matter(builder: DeltaBuilder, road: Road) -> None:
    columns = [mapped("a", "long", 1, "col-1"), mapped("b", "long", 2, "col-2"), mapped("c", "long", 3, "col-3")]
    rows = with_ids(pa.table({"col-1": [1], "col-2": [2], "c": [3]}), 2, 1, 3)
    builder.create(columns, builder.add(rows), configuration={_MODE: "name"}, protocol=builder.protocol(2, 5))
    assert road.rows(open_table(builder.root).scan()) == [{"a": 1, "b": 2, "c": None}]


def test_display_names_may_hold_anything(builder: DeltaBuilder, road: Road) -> None:
    if road.is_spark_3:
        pytest.skip("Spark 3.5 does not collect columns with such names")
    names = ["a.b", "with blank", "back`tick", "ü", "a,b;{}()\n\t="]
    columns = [mapped(name, "long", number, f"col-{number}") for number, name in enumerate(names)]
    rows = pa.table({f"col-{number}": [number] for number in range(len(names))})
    builder.create(
        columns, builder.add(rows, stats="full"), configuration={_MODE: "name"}, protocol=builder.protocol(2, 5)
    )
    table = open_table(builder.root)
    assert road.rows(table.scan()) == [{name: number for number, name in enumerate(names)}]
    assert road.rows(table.scan("`a.b` = 0 AND `back``tick` = 2", columns=["`a.b`", ("ü",)])) == [{"a.b": 0, "ü": 3}]


def test_a_table_without_mapping_reads_as_before(builder: DeltaBuilder) -> None:
    builder.create(ID, builder.add(ids(1)), protocol=builder.features("columnMapping"))
    assert _rows(builder) == [{"id": 1}]
