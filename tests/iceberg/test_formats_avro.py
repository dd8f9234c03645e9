"""Avro data files and manifests that fastavro writes, with the schemas of Iceberg's writers."""

from __future__ import annotations

import io
import itertools
import struct
import uuid
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from deltaberg import IcebergTable, open_table
from deltaberg.errors import CorruptTableError, SchemaError, UnsupportedFeatureError
from deltaberg.files.avro.container import AvroFile
from deltaberg.files.avro.schema import arrow_field_of
from tests.iceberg.columns_json import field_json
from tests.support.iceberg_builder import IcebergBuilder, IcebergFile
from tests.support.roads import by_every_road

_UUID = uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")
_CODECS = ("null", "deflate", "snappy", "zstandard")


def _stored(number: int, name: str, kind: Any) -> dict[str, Any]:
    """Return a field of an Avro schema the way Iceberg's writers write it."""
    return {"name": name, "type": kind, "field-id": number}


def _maybe(kind: Any) -> list[Any]:
    return ["null", kind]


def _record(*fields: dict[str, Any], name: str = "table") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def _write(builder: IcebergBuilder, schema: Any, rows: Sequence[Any], codec: str = "null") -> IcebergFile:
    buffer = io.BytesIO()
    fastavro.writer(buffer, fastavro.parse_schema(schema), rows, codec=codec, sync_interval=100)
    path = builder.root / "data" / "file.avro"
    path.write_bytes(buffer.getvalue())
    return IcebergFile(str(path), len(rows), len(buffer.getvalue()), "avro")


def _table(
    root: Path, fields: Sequence[dict[str, Any]], schema: Any, rows: Sequence[Any], codec: str = "null"
) -> IcebergTable:
    builder = IcebergBuilder(root / "t", fields)
    builder.commit(_write(builder, schema, rows, codec))
    return open_table(builder.root, "iceberg")


def _read(root: Path, fields: Sequence[dict[str, Any]], schema: Any, rows: Sequence[Any]) -> pa.Table:
    return _table(root, fields, schema, rows).scan().to_arrow()


@by_every_road
@pytest.mark.req("ICE-AVRO-01", half="reader")
def test_primitives(tmp_path: Path) -> None:
    kinds: dict[str, tuple[str, list[Any], pa.DataType]] = {
        "boolean": ("boolean", [False, True], pa.bool_()),
        "int": ("int", [-(1 << 31), (1 << 31) - 1], pa.int32()),
        "long": ("long", [-(1 << 63), (1 << 63) - 1], pa.int64()),
        "float": ("float", [-3.4028234663852886e38, 1.401298464324817e-45], pa.float32()),
        "double": ("double", [-1.7976931348623157e308, 5e-324], pa.float64()),
        "string": ("string", ["", "日本 \U0001f388\0"], pa.string()),
        "binary": ("bytes", [b"", bytes(range(256))], pa.binary()),
    }
    fields = [field_json(number, name, name) for number, name in enumerate(kinds, start=1)]
    schema = _record(*(_stored(number, name, kinds[name][0]) for number, name in enumerate(kinds, start=1)))
    rows = [{name: values[row] for name, (_, values, _) in kinds.items()} for row in (0, 1)]
    found = _read(tmp_path, fields, schema, rows)
    assert found.schema.types == [kind for _, _, kind in kinds.values()]
    assert found.to_pylist() == rows


_WIDTHS = {1: 1, 2: 1, 3: 2, 4: 2, 5: 3, 9: 4, 10: 5, 18: 8, 19: 9, 28: 12, 38: 16}


@by_every_road
@pytest.mark.req("ICE-AVRO-02", half="reader")
@pytest.mark.parametrize("precision", _WIDTHS)
def test_decimals_of_the_fewest_bytes(tmp_path: Path, precision: int) -> None:
    size = _WIDTHS[precision]
    kind = {"type": "fixed", "name": "d", "size": size, "logicalType": "decimal", "precision": precision, "scale": 1}
    largest, smallest = (Decimal((sign, (9,) * precision, -1)) for sign in (0, 1))
    rows = [{"d": largest}, {"d": smallest}, {"d": Decimal("-0.1")}, {"d": Decimal(0)}]
    found = _read(tmp_path, [field_json(1, "d", f"decimal({precision},1)")], _record(_stored(1, "d", kind)), rows)
    assert found.schema.types == [pa.decimal128(precision, 1)]
    assert found.to_pylist() == rows


@by_every_road
@pytest.mark.req("ICE-AVRO-02", half="reader")
def test_a_decimal_is_its_unscaled_value_highest_byte_first(tmp_path: Path) -> None:
    kind = {"type": "fixed", "name": "d", "size": 4, "logicalType": "decimal", "precision": 9, "scale": 2}
    builder = IcebergBuilder(tmp_path / "t", {"d": "decimal(9,2)"})
    file = _write(builder, _record(_stored(1, "d", kind)), [{"d": Decimal("14.20")}])
    builder.commit(file)
    assert b"\x00\x00\x05\x8c" in Path(file.path).read_bytes()
    assert open_table(builder.root).scan().to_arrow().to_pylist() == [{"d": Decimal("14.20")}]


@by_every_road
@pytest.mark.req("ICE-AVRO-03", half="reader")
def test_dates_and_times(tmp_path: Path) -> None:
    schema = _record(
        _stored(1, "d", {"type": "int", "logicalType": "date"}),
        _stored(2, "t", {"type": "long", "logicalType": "time-micros"}),
    )
    # Numbers are written as they are.
    rows = [{"d": 17486, "t": 81068000000}]
    found = _read(tmp_path, [field_json(1, "d", "date"), field_json(2, "t", "time")], schema, rows)
    assert found.schema.types == [pa.date32(), pa.time64("us")]
    assert found.column("d").cast(pa.int32()).to_pylist() == [17486]
    assert found.column("t").cast(pa.int64()).to_pylist() == [81068000000]
    assert [str(value) for value in found.to_pylist()[0].values()] == ["2017-11-16", "22:31:08"]


@by_every_road
@pytest.mark.req("ICE-AVRO-04", half="reader")
@pytest.mark.parametrize("kind", ["timestamp", "timestamptz"])
@pytest.mark.parametrize("flag", [False, True, None])
def test_timestamps_say_whether_they_are_instants(tmp_path: Path, kind: str, flag: bool | None) -> None:
    """The table decides what the values mean: older writers omit the flag, or set it for both types."""
    told = {} if flag is None else {"adjust-to-utc": flag}
    schema = _record(_stored(1, "t", {"type": "long", "logicalType": "timestamp-micros", **told}))
    rows = [{"t": 1510871468000000}, {"t": -1}]
    table = _table(tmp_path, [field_json(1, "t", kind)], schema, rows)
    found = table.scan().to_arrow()
    assert found.schema.types == [pa.timestamp("us", "UTC" if kind == "timestamptz" else None)]
    assert found.column("t").cast(pa.int64()).to_pylist() == [1510871468000000, -1]
    with (tmp_path / "t" / "data" / "file.avro").open("rb") as stored:
        (column,) = AvroFile(stored.read()).schema.fields
    # Without the flag it is false.
    assert arrow_field_of(column).type == pa.timestamp("us", "UTC" if flag else None)
    zone = "Z" if kind == "timestamptz" else ""
    assert table.scan(f"t = TIMESTAMP '2017-11-16 22:31:08{zone}'").count() == 1


@by_every_road
@pytest.mark.req("ICE-AVRO-05", half="reader")
def test_uuids_and_fixed(tmp_path: Path) -> None:
    schema = _record(
        _stored(1, "u", {"type": "fixed", "name": "uuid_fixed", "size": 16, "logicalType": "uuid"}),
        _stored(2, "f", {"type": "fixed", "name": "fixed_5", "size": 5}),
        # The same named type again, by its name.
        _stored(3, "g", "fixed_5"),
    )
    rows = [{"u": bytes.fromhex("F79C3E09677C4BBDA4793F349CB785E7"), "f": b"\0\1\2\3\xff", "g": b"abcde"}]
    builder = IcebergBuilder(tmp_path / "t", {"u": "uuid", "f": "fixed[5]", "g": "fixed[5]"})
    file = _write(builder, schema, [{**rows[0], "u": _UUID.bytes}])
    assert rows[0]["u"] in Path(file.path).read_bytes()
    builder.commit(file)
    found = open_table(builder.root).scan().to_arrow()
    assert found.schema.types == [pa.binary(16), pa.binary(5), pa.binary(5)]
    assert found.to_pylist() == rows


_LIST = {"type": "list", "element-id": 2, "element-required": False, "element": "long"}


@by_every_road
@pytest.mark.req("ICE-AVRO-06", half="reader")
@pytest.mark.parametrize("union", [["null", "long"], ["long", "null"]])
def test_unions_with_null_in_either_order(tmp_path: Path, union: list[str]) -> None:
    values = {"type": "map", "key-id": 4, "key": "string", "value-id": 5, "value-required": False, "value": "long"}
    schema = _record(
        _stored(1, "l", {"type": "array", "items": union, "element-id": 2}),
        _stored(3, "m", {"type": "map", "values": union, "key-id": 4, "value-id": 5}),
        _stored(6, "x", union),
    )
    rows = [{"l": [1, None], "m": {"a": None, "b": 2}, "x": None}, {"l": [], "m": {}, "x": 3}]
    found = _read(
        tmp_path, [field_json(1, "l", _LIST), field_json(3, "m", values), field_json(6, "x", "long")], schema, rows
    )
    assert found.to_pylist() == [
        {"l": [1, None], "m": [("a", None), ("b", 2)], "x": None},
        {"l": [], "m": [], "x": 3},
    ]


@by_every_road
@pytest.mark.req("ICE-AVRO-06", half="reader")
@pytest.mark.parametrize("union", [["long", "string"], ["null", "long", "string"]])
def test_unions_of_two_types_are_refused(tmp_path: Path, union: list[str]) -> None:
    table = _table(tmp_path, [field_json(1, "x", "long")], _record(_stored(1, "x", union)), [{"x": 1}])
    with pytest.raises(SchemaError) as caught:
        table.scan().to_arrow()
    assert str(tmp_path) in str(caught.value.context)


@by_every_road
@pytest.mark.req("ICE-AVRO-08", half="reader")
def test_records_and_arrays(tmp_path: Path) -> None:
    point = {"type": "struct", "fields": [field_json(2, "x", "long"), field_json(3, "y", "string")]}
    element = {"type": "struct", "fields": [field_json(6, "z", "long")]}
    fields = [
        field_json(1, "s", point),
        field_json(4, "l", {"type": "list", "element-id": 5, "element-required": False, "element": element}),
    ]
    inner = _record(_stored(6, "z", _maybe("long")), name="r5")
    schema = _record(
        _stored(1, "s", _maybe(_record(_stored(2, "x", _maybe("long")), _stored(3, "y", "string"), name="r1"))),
        _stored(4, "l", _maybe({"type": "array", "items": _maybe(inner), "element-id": 5})),
    )
    rows: list[dict[str, Any]] = [
        {"s": {"x": 1, "y": "a"}, "l": [{"z": 1}, None, {"z": None}]},
        {"s": None, "l": []},
        {"s": {"x": None, "y": ""}, "l": None},
    ]
    table = _table(tmp_path, fields, schema, rows)
    assert table.scan().to_arrow().to_pylist() == rows
    assert table.scan("s.x = 1", columns=["s"]).to_arrow().to_pylist() == [{"s": rows[0]["s"]}]


def _pairs(key: str, value: Any) -> dict[str, Any]:
    fields = [_stored(12, "key", key), _stored(13, "value", value)]
    return {"type": "array", "logicalType": "map", "items": _record(*fields, name="k12_v13")}


def _map(key: str) -> dict[str, Any]:
    return {"type": "map", "key-id": 12, "key": key, "value-id": 13, "value-required": False, "value": "string"}


@by_every_road
@pytest.mark.req("ICE-AVRO-09", half="reader")
def test_maps_whose_keys_are_no_strings(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"m": [{"key": 1, "value": "a"}, {"key": -(1 << 31), "value": None}]},
        {"m": []},
        {"m": None},
    ]
    schema = _record(_stored(11, "m", _maybe(_pairs("int", _maybe("string")))))
    found = _read(tmp_path, [field_json(11, "m", _map("int"))], schema, rows)
    assert found.column("m").to_pylist() == [[(1, "a"), (-(1 << 31), None)], [], None]


@by_every_road
@pytest.mark.req("ICE-AVRO-09", half="reader")
def test_maps_of_strings_in_both_forms(tmp_path: Path) -> None:
    fields = [field_json(11, "m", _map("string"))]
    pairs = _record(_stored(11, "m", _pairs("string", _maybe("string"))))
    found = _read(tmp_path / "pairs", fields, pairs, [{"m": [{"key": "a", "value": "1"}, {"key": "", "value": None}]}])
    assert found.to_pylist() == [{"m": [("a", "1"), ("", None)]}]
    own = _record(_stored(11, "m", {"type": "map", "values": _maybe("string"), "key-id": 12, "value-id": 13}))
    assert _read(tmp_path / "own", fields, own, [{"m": {"a": "1", "": None}}]).equals(found)


@by_every_road
@pytest.mark.req("ICE-AVRO-10", half="reader")
def test_ids_at_every_level_decide(tmp_path: Path) -> None:
    """All names in the file are different, and columns with other ids have the names that are asked for."""
    element = {"type": "struct", "fields": [field_json(10, "e", "long")]}
    value = {"type": "struct", "fields": [field_json(14, "v", "long")]}
    fields = [
        field_json(8, "l", "long"),
        field_json(7, "list", {"type": "list", "element-id": 9, "element-required": False, "element": element}),
        field_json(11, "map", {**_map("int"), "value": value}),
    ]

    def both(number: int, name: str, wanted: str, record: str) -> dict[str, Any]:
        return _record(_stored(99, wanted, "long"), _stored(number, name, "long"), name=record)

    items = _record(_stored(12, "value", "int"), _stored(13, "key", both(14, "y", "v", "r13")), name="k12_v13")
    schema = _record(
        _stored(98, "l", "string"),
        _stored(8, "x", _maybe("long")),
        _stored(7, "y", {"type": "array", "items": both(10, "z", "e", "r9"), "element-id": 9}),
        _stored(11, "z", {"type": "array", "logicalType": "map", "items": items}),
    )
    row = {"l": "no", "x": 1, "y": [{"e": 0, "z": 2}], "z": [{"value": 3, "key": {"v": 0, "y": 4}}]}
    found = _read(tmp_path, fields, schema, [row])
    assert found.to_pylist() == [{"l": 1, "list": [{"e": 2}], "map": [(3, {"v": 4})]}]


@by_every_road
@pytest.mark.req("ICE-AVRO-10", half="reader")
@pytest.mark.parametrize("number", ["8", -1, 1 << 31, True, 8.5])
def test_ids_are_integers(tmp_path: Path, number: Any) -> None:
    table = _table(tmp_path, [field_json(8, "l", "long")], _record(_stored(number, "l", "long")), [{"l": 1}])
    with pytest.raises(CorruptTableError, match="field-id"):
        table.scan().to_arrow()


@by_every_road
@pytest.mark.req("ICE-AVRO-11")
def test_columns_renamed_reordered_and_missing(tmp_path: Path) -> None:
    schema = _record(_stored(8, "l", _maybe("long")), _stored(9, "a", _maybe("string")))
    rows = [{"l": 1, "a": "one"}, {"l": 2, "a": None}]
    fields = [field_json(9, "b", "string"), field_json(10, "c", "long")]
    table = _table(tmp_path, fields, schema, rows)
    assert table.scan().to_arrow().to_pylist() == [{"b": "one", "c": None}, {"b": None, "c": None}]
    assert table.scan(columns=["c", "b"]).to_arrow().to_pylist()[0] == {"c": None, "b": "one"}
    assert table.scan("c IS NULL AND b = 'one'").count() == 1
    everything = [field_json(10, "l", "long"), *fields[:1], field_json(8, "a", "long")]
    found = _table(tmp_path / "all", everything, schema, rows).scan().to_arrow().to_pylist()
    assert found == [{"l": None, "b": "one", "a": 1}, {"l": None, "b": None, "a": 2}]


@by_every_road
@pytest.mark.req("ICE-AVRO-12", half="reader")
@pytest.mark.parametrize("codec", _CODECS)
def test_codecs_of_data_files(tmp_path: Path, codec: str) -> None:
    rows = [{"l": number, "s": f"text {number % 7}"} for number in range(1000)]
    schema = _record(_stored(1, "l", "long"), _stored(2, "s", "string"))
    table = _table(tmp_path, [field_json(1, "l", "long"), field_json(2, "s", "string")], schema, rows, codec)
    stored = (tmp_path / "t" / "data" / "file.avro").read_bytes()
    assert f"avro.codec{chr(2 * len(codec))}{codec}".encode() in stored
    assert table.scan().to_arrow().to_pylist() == rows
    assert table.scan("l = 998", columns=["s", "_pos"]).to_arrow().to_pylist() == [{"s": "text 4", "_pos": 998}]


def _again(path: Path, codec: str) -> None:
    """Rewrite an Avro file with another codec, and otherwise the same header."""
    with path.open("rb") as stored:
        reader: Any = fastavro.reader(stored)
        rows = list(reader)
        header = {key: value for key, value in reader.metadata.items() if not key.startswith("avro.")}
        buffer = io.BytesIO()
        fastavro.writer(buffer, reader.writer_schema, rows, codec=codec, metadata=header)
    path.write_bytes(buffer.getvalue())


@by_every_road
@pytest.mark.req("ICE-AVRO-12", half="reader")
@pytest.mark.parametrize("codec", _CODECS)
def test_codecs_of_manifests_and_their_lists(tmp_path: Path, codec: str) -> None:
    builder = IcebergBuilder(tmp_path / "t", {"id": "long"})
    files = [
        builder.data([{"id": number}], metrics={"lower_bounds": {1: struct.pack("<q", number)}}) for number in (1, 2)
    ]
    builder.commit(*files)
    for path in (builder.root / "metadata").glob("*.avro"):
        _again(path, codec)
    table = open_table(builder.root)
    assert sorted(table.scan().to_arrow().column("id").to_pylist()) == [1, 2]
    assert len(table.scan("id < 2").files()) == 1


@by_every_road
@pytest.mark.req("ICE-AVRO-12", half="reader")
def test_every_marker_is_looked_at(tmp_path: Path) -> None:
    rows = [{"l": number} for number in range(200)]
    builder = IcebergBuilder(tmp_path / "t", {"l": "long"})
    file = _write(builder, _record(_stored(1, "l", "long")), rows)
    builder.commit(file)
    whole = Path(file.path).read_bytes()
    marker = whole[-16:]
    places = [place for place in range(len(whole)) if whole.startswith(marker, place)]
    assert len(places) > 3
    for place in (places[1], places[2], places[-1]):
        Path(file.path).write_bytes(whole[:place] + bytes([marker[0] ^ 1]) + whole[place + 1 :])
        with pytest.raises(CorruptTableError, match="marker"):
            open_table(builder.root).scan().to_arrow()
    Path(file.path).write_bytes(whole[: places[-1]])
    with pytest.raises(CorruptTableError, match="cut off"):
        open_table(builder.root).scan().to_arrow()


@pytest.mark.parametrize("codec", ["bzip2", "xz", "of our own"])
def test_other_codecs_are_refused_by_name(tmp_path: Path, codec: str) -> None:
    builder = IcebergBuilder(tmp_path / "t", {"l": "long"})
    file = _write(builder, _record(_stored(1, "l", "long")), [{"l": 1}])
    builder.commit(file)
    stored = Path(file.path).read_bytes()
    header = b"avro.codec" + bytes([2 * len(codec)]) + codec.encode()
    Path(file.path).write_bytes(stored.replace(b"avro.codec\x08null", header))
    with pytest.raises(UnsupportedFeatureError, match=codec):
        open_table(builder.root).scan().to_arrow()


@by_every_road
@pytest.mark.req("ICE-AVRO-12", half="reader")
def test_blocks_of_all_sizes_come_in_order(tmp_path: Path) -> None:
    """A file of several appends has blocks of one row and of many."""
    builder = IcebergBuilder(tmp_path / "t", {"l": "long"})
    schema = fastavro.parse_schema(_record(_stored(1, "l", "long")))
    path = builder.root / "data" / "file.avro"
    sizes = [1, 300, 2, 0, 50, 1]
    numbers = itertools.count()
    for index, size in enumerate(sizes):
        with path.open("a+b" if index else "wb") as target:
            appended = [{"l": next(numbers)} for _ in range(size)]
            fastavro.writer(target, schema, appended, codec="deflate")
    builder.commit(IcebergFile(str(path), sum(sizes), path.stat().st_size, "avro"))
    found = open_table(builder.root).scan(columns=["l", "_pos"]).to_arrow()
    assert found.column("l").to_pylist() == found.column("_pos").to_pylist() == list(range(sum(sizes)))
