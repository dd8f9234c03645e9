"""ORC and Avro files of others that are added to Iceberg tables."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.types as pt
import pytest
from pyarrow import orc
from pyiceberg.table import StaticTable

from deltaberg import create_table, open_table
from deltaberg.errors import DeltabergError, InvalidArgumentError, SchemaError
from deltaberg.schema.from_arrow import as_table_schema
from deltaberg.schema.types import Field, Fixed, Primitive, Struct

pytestmark = pytest.mark.one_backend

_UTC = dt.timezone.utc
_DAY = dt.date(2026, 1, 2)
_MOMENTS = [dt.datetime(2026, 1, 2, 3, 4, 5, 6), None, dt.datetime(1950, 1, 1)]
_VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "id": (pa.int64(), [3, 1, 2]),
    "d": (pa.date32(), [_DAY, _DAY, dt.date(2026, 1, 31)]),
    "f": (pa.float32(), [1.5, float("nan"), None]),
    "g": (pa.float64(), [-0.0, 2.5, 0.0]),
    "n": (pa.decimal128(9, 2), [Decimal("1.25"), Decimal("-3.50"), None]),
    "y": (pa.timestamp("us"), _MOMENTS),
    "z": (pa.timestamp("us", "UTC"), [None if one is None else one.replace(tzinfo=_UTC) for one in _MOMENTS]),
    "s": (pa.string(), ["ä" * 20, "", None]),
    "x": (pa.binary(), [b"\xff" * 9, None, b""]),
    "r": (pa.struct([("a", pa.int64()), ("b", pa.string())]), [{"a": 1, "b": None}, None, {"a": None, "b": "x"}]),
    "k": (pa.list_(pa.string()), [["a", None], [], None]),
    "m": (pa.map_(pa.string(), pa.int64()), [[("a", 1)], None, [("b", None)]]),
}
#: Types that ORC files hold only with attributes of Iceberg.
_OTHERS: dict[str, tuple[Any, pa.DataType, list[Any]]] = {
    "t": (Primitive("time"), pa.time64("us"), [dt.time(1, 2, 3, 4), dt.time(0), None]),
    "c": (Fixed(3), pa.binary(3), [b"abc", b"\x00\x01\x02", None]),
    "u": (Primitive("uuid"), pa.binary(16), [bytes(range(16)), bytes(16), None]),
}
_MODES = {
    "write.metadata.metrics.default": "truncate(4)",
    "write.metadata.metrics.column.id": "none",
    "write.metadata.metrics.column.f": "counts",
    "write.metadata.metrics.column.x": "full",
}
_IDS = ("field-id", "element-id", "key-id", "value-id")


def _columns(form: str, version: str) -> Struct:
    plain = as_table_schema(pa.schema([(name, kind) for name, (kind, _) in _VALUES.items()]))
    required = (Field("id", Primitive("long"), nullable=False), *plain.fields[1:])
    nanos = (Field("ns", Primitive("timestamp_ntz_ns")),) if version == "3" and form == "orc" else ()
    others = () if form == "orc" else tuple(Field(name, kind) for name, (kind, _, _) in _OTHERS.items())
    return Struct((*required, *nanos, *others))


def _rows(names: Iterable[str]) -> pa.Table:
    kinds = {name: pa.array(values, kind) for name, (kind, values) in _VALUES.items()}
    kinds |= {name: pa.array(values, kind) for name, (_, kind, values) in _OTHERS.items()}
    kinds["ns"] = pa.array([1, None, 1_000_000_007], pa.timestamp("ns"))
    return pa.table({name: kinds[name] for name in names})


def _without_ids(path: str, target: Path) -> None:
    """Write the rows of a file as others do, without field ids and with the columns in another order."""
    target.parent.mkdir(exist_ok=True)
    if path.endswith(".orc"):
        rows = orc.read_table(path)
        bare = [pa.field(child.name, _bare(child.type)) for child in rows.schema]
        orc.write_table(rows.cast(pa.schema(bare)).select(rows.column_names[::-1]), target)
        return
    with open(path, "rb") as file:
        read = fastavro.reader(file)
        schema = _stripped(read.writer_schema)
        found = list(read)
    with target.open("wb") as file:
        fastavro.writer(file, schema | {"fields": schema["fields"][::-1]}, found)


def _bare(kind: pa.DataType) -> pa.DataType:
    if pt.is_struct(kind):
        return pa.struct([pa.field(child.name, _bare(child.type)) for child in kind])
    if pt.is_map(kind):
        return pa.map_(_bare(kind.key_type), _bare(kind.item_type))
    return pa.list_(_bare(kind.value_type)) if pt.is_list(kind) else kind


def _stripped(node: Any) -> Any:
    if isinstance(node, dict):
        hidden = (*_IDS, "__fastavro_parsed__", "__named_schemas")
        return {name: _stripped(value) for name, value in node.items() if name not in hidden}
    return [_stripped(one) for one in node] if isinstance(node, list) else node


def _known(table: Any) -> list[dict[str, Any]]:
    """Return what manifests tell about files, but for their names, sizes and the order of their rows."""
    files = table.inspect("files").to_pylist()
    return [
        {name: value for name, value in row.items() if name not in ("file_path", "file_size_in_bytes", "sort_order_id")}
        for row in files
    ]


@pytest.mark.parametrize(
    ("form", "version", "name"), [("orc", "1", "000000_0"), ("orc", "3", "a.orc"), ("avro", "2", "b")]
)
def test_files_of_other_formats_are_known_as_if_written_here(
    tmp_path: Path, form: str, version: str, name: str
) -> None:
    """Their names need not end with their format. Metrics are those of the same rows when they are appended."""
    columns = _columns(form, version)
    properties = {"format-version": version, "write.format.default": form, **_MODES}
    own, other = (
        create_table(tmp_path / place, columns, format="iceberg", partition_by="month(d)", properties=properties)
        for place in ("own", "other")
    )
    rows = _rows(columns.names)
    own.append(rows)
    (path,) = own.inspect("files")["file_path"].to_pylist()
    _without_ids(path, tmp_path / "in" / name)
    done = other.add_files([str(tmp_path / "in")])
    assert (done.added_files, done.added_rows) == (1, 3)
    assert _known(other) == _known(own)
    assert "schema.name-mapping.default" in other.properties
    got = open_table(tmp_path / "other", "iceberg", validate=True).scan()
    assert repr(got.to_arrow().to_pylist()) == repr(rows.to_pylist())
    assert [other.scan(where).files().num_rows for where in ("n > 1.5", "s > 'ä'", "d < '2026-01-01'")] == [0, 1, 0]
    if form == "orc" and version == "1":
        wanted = ["id", "d", "g", "n", "s", "r", "k"]
        theirs = StaticTable.from_metadata(other.metadata_location).scan(selected_fields=tuple(wanted)).to_arrow()
        assert theirs.select(wanted).to_pylist() == rows.select(wanted).to_pylist()
    other.delete("id = 1")
    assert sorted(other.scan().to_arrow()["id"].to_pylist()) == [2, 3]


def _write(path: Path, rows: dict[str, pa.Array]) -> str:
    """Write columns of integers, dates and texts."""
    table = pa.table(rows)
    if path.suffix == ".orc":
        orc.write_table(table, path)
        return str(path)
    kinds = {pa.int32(): "int", pa.int64(): "long", pa.float64(): "double", pa.string(): "string"}
    names = {child.name: kinds.get(child.type, {"type": "int", "logicalType": "date"}) for child in table.schema}
    fields = [{"name": name, "type": ["null", kind]} for name, kind in names.items()]
    with path.open("wb") as file:
        fastavro.writer(file, {"type": "record", "name": "r", "fields": fields}, table.to_pylist())
    return str(path)


@pytest.mark.parametrize("form", ["orc", "avro"])
def test_files_of_other_formats_that_do_not_fit_are_refused(tmp_path: Path, form: str) -> None:
    columns = pa.schema([pa.field("id", pa.int64(), nullable=False), ("d", pa.date32()), ("g", pa.float64())])
    table = create_table(tmp_path / "t", columns, format="iceberg", partition_by=["d", "g"])
    ids, days = pa.array([1, 2], pa.int32()), pa.array([_DAY, _DAY])
    ones = pa.array([1.0, 1.0])
    cases: list[tuple[dict[str, pa.Array], type[DeltabergError], str]] = [
        ({"id": pa.array([1, None], pa.int32())}, SchemaError, "is required, but may hold nulls"),
        ({"id": pa.array(["1", "2"])}, SchemaError, "of the type long, and string in the file"),
        ({"d": days}, SchemaError, "lacks a required column"),
        ({"id": ids, "z": ids}, SchemaError, "a column 'z' that the table does not have"),
        ({"id": ids, "d": pa.array([_DAY, None])}, InvalidArgumentError, "several partitions of the field 'd'"),
        (
            {"id": ids, "d": days, "g": pa.array([1.0, float("nan")])},
            InvalidArgumentError,
            "partitions of the field 'g'",
        ),
    ]
    for number, (rows, error, message) in enumerate(cases):
        path = _write(tmp_path / f"{number}.{form}", rows)
        with pytest.raises(error, match=message) as raised:
            table.add_files([path])
        assert raised.value.context["file"] == path
    assert (table.snapshot_id, table.properties) == (None, {})
    # A column that the file lacks is null in all of its rows.
    done = table.add_files([_write(tmp_path / f"a.{form}", {"id": ids, "g": ones})])
    assert done.added_rows == 2
    assert table.inspect("files")["partition"].to_pylist() == [{"d": None, "g": 1.0}]


@pytest.mark.parametrize("form", ["parquet", "orc", "avro"])
def test_field_ids_say_which_columns_those_of_a_file_are(tmp_path: Path, form: str) -> None:
    """Ids that fit are taken, at every level and after a rename; others are those of another table."""
    inner = pa.struct([("x", pa.int64()), ("y", pa.float64())])
    kinds = [("id", pa.int64()), ("s", inner), ("k", pa.list_(inner)), ("m", pa.map_(pa.string(), inner))]
    properties = {"write.format.default": form}

    def of(name: str, *columns: tuple[str, pa.DataType], **more: Any) -> Any:
        return create_table(tmp_path / name, pa.schema(columns), format="iceberg", properties=properties, **more)

    def files(table: Any) -> list[str]:
        found: list[str] = table.inspect("files")["file_path"].to_pylist()
        return found

    theirs = of("theirs", *kinds)
    row = {"id": 1, "s": {"x": 1, "y": 1.5}, "k": [{"x": 2, "y": None}], "m": [("a", {"x": 3, "y": 2.5})]}
    theirs.append(pa.Table.from_pylist([row], schema=pa.schema(kinds)))
    table = of("t", *kinds, partition_by="id")
    table.alter().rename("s.x", "z").rename("k.element.y", "w").commit()
    table.add_files(files(theirs))
    new = {**row, "s": {"z": 1, "y": 1.5}, "k": [{"x": 2, "w": None}], "m": [("a", {"x": 3, "y": 2.5})]}
    assert table.scan().to_arrow().to_pylist() == [new]
    assert table.scan("id = 2 OR s.z > 1").files().num_rows == 0
    assert table.scan("id = 1 AND s.z = 1").count() == 1
    more = of("more", *kinds)
    more.alter().add("more", pa.int64()).commit()
    others: list[tuple[Any, str, str]] = [
        (of("swapped", *reversed(kinds[:2])), r"field id \d, which is that of '(id|s)'", "(id|s)"),
        (more, "which no column of the table has at this place", "more"),
        (of("text", ("id", pa.string())), "of the type long, and string in the file", "id"),
        (of("named", ("number", pa.int64())), "field id 1, which is that of 'id'", "number"),
        (of("inside", kinds[0], ("s", pa.struct([("q", pa.int64())]))), "field id 3", r"s\.q|s"),
        (of("flat", ("id", pa.int64()), ("v", pa.int64()), kinds[2]), "field id 2, which is that of 's'", "v"),
    ]
    for other, message, column in others:
        schema = other.scan().to_arrow().schema
        other.append(pa.table([pa.nulls(1, kind) for kind in schema.types], names=schema.names))
        with pytest.raises(SchemaError, match=message) as caught:
            table.add_files(files(other))
        assert re.fullmatch(column, str(caught.value.context["column"]))
    assert table.refresh().scan().count() == 1
