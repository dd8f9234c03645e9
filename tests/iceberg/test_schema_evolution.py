"""Files that were written with older schemas, in every format and in tables that mix them."""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import open_table
from deltaberg.errors import SchemaError, SpecViolationError
from deltaberg.schema.types import List, Map
from tests.iceberg.columns_json import field_json, list_json, map_json, struct_json
from tests.support.iceberg_builder import IcebergBuilder, arrow_of
from tests.support.roads import by_every_road

_FORMATS = ("parquet", "avro", "orc")
_Rows = list[dict[str, Any]]
_Evolve = Callable[..., _Rows]


def _in_every_format(test: Callable[..., None]) -> Callable[..., None]:
    """Run a test that evolves columns with files of all formats."""
    marked: Callable[..., None] = pytest.mark.req("ICE-PQ-07")(pytest.mark.req("ICE-GEN-12", half="reader")(test))
    return marked


@pytest.fixture(params=[*_FORMATS, "mixed"])
def evolve(request: pytest.FixtureRequest, tmp_path: Path) -> _Evolve:
    """Writes rows to a file each, changes the columns of the table, and reads the rows with the new ones."""
    formats = _FORMATS if request.param == "mixed" else (request.param,)

    def run(
        old: Sequence[dict[str, Any]],
        rows: _Rows,
        new: Sequence[dict[str, Any]],
        columns: Sequence[str] | None = None,
        version: int = 2,
    ) -> _Rows:
        builder = IcebergBuilder(tmp_path / f"t{len(list(tmp_path.iterdir()))}", list(old), format_version=version)
        # Three files, so that a mixed table has all formats.
        many = [row for row in rows for _ in formats]
        files = [builder.data([row], format=formats[number % len(formats)]) for number, row in enumerate(many)]
        builder.commit(*files)
        builder.schemas.append(list(new))
        builder.write()
        found: _Rows = open_table(builder.root, "iceberg").scan(columns=columns).to_arrow().to_pylist()
        unique: _Rows = []
        for row in found:
            if row not in unique:
                assert found.count(row) == len(formats)
                unique.append(row)
        return unique

    return run


_A, _B, _C = field_json(1, "a", "int"), field_json(2, "b", "string"), field_json(3, "c", "double")


@by_every_road
@_in_every_format
@pytest.mark.req("ICE-SCH-16")
def test_columns_are_found_by_id_alone(evolve: _Evolve) -> None:
    new = [field_json(3, "measurement", "double"), field_json(2, "name", "string"), field_json(4, "a", "int")]
    rows = evolve([_A, _B, _C], [{"a": 1, "b": "x", "c": 2.5}, {"a": 2, "b": None, "c": 3.5}], new)
    assert rows == [
        {"measurement": 2.5, "name": "x", "a": None},
        {"measurement": 3.5, "name": None, "a": None},
    ]


@by_every_road
@_in_every_format
@pytest.mark.req("ICE-SCH-16")
def test_a_column_that_was_dropped_and_added_again_is_another(evolve: _Evolve) -> None:
    rows = evolve([_A, _B], [{"a": 1, "b": "old"}], [_A, field_json(3, "b", "string")])
    assert rows == [{"a": 1, "b": None}]


@by_every_road
@_in_every_format
@pytest.mark.req("ICE-SCH-16")
def test_names_may_be_exchanged(evolve: _Evolve) -> None:
    rows = evolve(
        [_A, field_json(2, "b", "int")], [{"a": 1, "b": 2}], [field_json(1, "b", "int"), field_json(2, "a", "int")]
    )
    assert rows == [{"b": 1, "a": 2}]


@by_every_road
@_in_every_format
def test_a_dropped_column_is_not_read(evolve: _Evolve) -> None:
    assert evolve([_A, _B, _C], [{"a": 1, "b": "x", "c": 2.5}], [_B]) == [{"b": "x"}]


@by_every_road
@_in_every_format
def test_columns_that_no_file_has(evolve: _Evolve) -> None:
    assert evolve([_A], [{"a": 1}], [_A, field_json(2, "new", "string")], ["new"]) == [{"new": None}]


@by_every_road
@_in_every_format
@pytest.mark.req("ICE-SCH-11")
@pytest.mark.parametrize("version", [1, 2, 3])
def test_old_values_are_read_as_the_wider_type(evolve: _Evolve, version: int) -> None:
    old = [_A, field_json(2, "b", "float"), field_json(3, "c", "decimal(9,2)")]
    new = [field_json(1, "a", "long"), field_json(2, "b", "double"), field_json(3, "c", "decimal(18,2)")]
    rows = evolve(old, [{"a": 34, "b": 1.5, "c": Decimal("14.20")}], new, version=version)
    assert rows == [{"a": 34, "b": 1.5, "c": Decimal("14.20")}]


@by_every_road
@pytest.mark.req("ICE-SCH-11")
@pytest.mark.parametrize("form", _FORMATS)
def test_the_types_after_promotion(tmp_path: Path, form: str) -> None:
    builder = IcebergBuilder(tmp_path / "t", {"a": "int", "b": "float", "c": "decimal(9,2)"})
    builder.commit(builder.data([{"a": 34, "b": 1.5, "c": Decimal("14.20")}], format=form))
    builder.schemas.append(
        [field_json(1, "a", "long"), field_json(2, "b", "double"), field_json(3, "c", "decimal(18,2)")],
    )
    builder.commit(builder.data([{"a": 1 << 40, "b": 0.1, "c": Decimal("1234567890123456.78")}], format=form))
    found = open_table(builder.root).scan().to_arrow()
    assert found.schema.types == [pa.int64(), pa.float64(), pa.decimal128(18, 2)]
    assert sorted(found.column("a").to_pylist()) == [34, 1 << 40]
    assert sorted(found.column("b").to_pylist()) == [0.1, 1.5]
    assert sorted(found.column("c").to_pylist()) == [Decimal("14.20"), Decimal("1234567890123456.78")]


@by_every_road
@pytest.mark.req("ICE-SCH-10", half="reader")
@pytest.mark.parametrize("version", [1, 2])
def test_promotions_that_are_valid(tmp_path: Path, version: int) -> None:
    builder = IcebergBuilder(tmp_path / "t", {"a": "int", "b": "float", "c": "decimal(9,2)"}, format_version=version)
    builder.commit(builder.data([{"a": 1, "b": 1.5, "c": Decimal("1.50")}]))
    builder.schemas.append(
        [field_json(1, "a", "long"), field_json(2, "b", "double"), field_json(3, "c", "decimal(18,2)")]
    )
    builder.write()
    assert open_table(builder.root, "iceberg", validate=True).scan().count() == 1


@pytest.mark.req("ICE-SCH-05", "ICE-SCH-10", half="reader")
@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("long", "int"),
        ("int", "double"),
        ("int", "decimal(9,2)"),
        ("decimal(9,2)", "decimal(8,2)"),
        ("decimal(9,2)", "decimal(9,3)"),
        ("decimal(9,2)", "decimal(18,3)"),
        ("double", "float"),
        ("date", "timestamp"),
        *(("string", kind) for kind in ("binary", "int", "date", "uuid", "boolean", "double")),
    ],
)
def test_promotions_that_are_not(tmp_path: Path, version: int, old: str, new: str) -> None:
    builder = IcebergBuilder(tmp_path / "t", {"a": old}, format_version=version)
    builder.write()
    builder.schemas.append([field_json(1, "a", new)])
    builder.write()
    with pytest.raises(SpecViolationError, match=r"the column 1 \(a\) was .* and is"):
        open_table(builder.root, "iceberg", validate=True)


def test_columns_do_not_move_into_structs_or_out_of_them(tmp_path: Path) -> None:
    flat = [
        field_json(1, "a", "int"),
        field_json(2, "b", "int"),
        field_json(3, "s", struct_json(field_json(4, "c", "int"))),
    ]
    inner = struct_json(field_json(4, "c", "int"), field_json(2, "b", "int"))
    builder = IcebergBuilder(tmp_path / "t", flat)
    builder.schemas.append([field_json(1, "a", "int"), field_json(3, "s", inner)])
    builder.write()
    with pytest.raises(SpecViolationError, match=r"the column 2 \(b\) was moved in the schema 1"):
        open_table(builder.root, "iceberg", validate=True)
    builder.schemas[-1] = [field_json(1, "a", inner)]
    builder.write()
    with pytest.raises(SpecViolationError, match=r"the column 1 \(a\) was integer and is struct"):
        open_table(builder.root, "iceberg", validate=True)


@by_every_road
@pytest.mark.req("ICE-SCH-10", half="reader")
@pytest.mark.parametrize("form", _FORMATS)
@pytest.mark.parametrize(
    ("old", "value", "new"),
    [
        ("long", 1 << 31, "int"),
        ("decimal(9,2)", Decimal("1.50"), "decimal(8,2)"),
        ("decimal(9,2)", Decimal("1.50"), "decimal(9,3)"),
        ("string", "1", "int"),
        ("string", "1", "boolean"),
        ("string", "1", "date"),
    ],
)
def test_values_that_do_not_fit_are_not_bent(tmp_path: Path, form: str, old: str, value: Any, new: str) -> None:
    builder = IcebergBuilder(tmp_path / "t", {"a": old})
    builder.commit(builder.data([{"a": value}], format=form))
    builder.schemas.append([field_json(1, "a", new)])
    builder.write()
    with pytest.raises(SchemaError) as caught:
        open_table(builder.root).scan().to_arrow()
    assert caught.value.context["column"] == "a"


@by_every_road
@_in_every_format
@pytest.mark.req("BEY-44", half="reader")
def test_dates_become_timestamps(evolve: _Evolve) -> None:
    old = [field_json(1, "a", "date"), field_json(2, "b", "date")]
    day = dt.date(1969, 12, 31)
    rows = evolve(
        old, [{"a": day, "b": day}], [field_json(1, "a", "timestamp"), field_json(2, "b", "timestamp_ns")], version=3
    )
    assert rows == [{"a": dt.datetime(1969, 12, 31), "b": dt.datetime(1969, 12, 31)}]


@by_every_road
@pytest.mark.req("BEY-44", half="reader")
def test_bounds_of_dates_are_days_for_timestamps(tmp_path: Path) -> None:
    builder = IcebergBuilder(tmp_path / "t", {"a": "date"}, format_version=3)
    days = [dt.date(2017, 11, day) for day in (15, 16, 17)]
    numbers = [(day - dt.date(1970, 1, 1)).days.to_bytes(4, "little") for day in days]
    builder.commit(
        *(
            builder.data([{"a": day}], metrics={name: {1: bound} for name in ("lower_bounds", "upper_bounds")})
            for day, bound in zip(days, numbers, strict=True)
        )
    )
    builder.schemas.append([field_json(1, "a", "timestamp")])
    builder.write()
    scan = open_table(builder.root, "iceberg", validate=True).scan("a = TIMESTAMP '2017-11-16 00:00:00'")
    assert scan.to_arrow().to_pylist() == [{"a": dt.datetime(2017, 11, 16)}]
    assert len(scan.files()) == 1


@by_every_road
@_in_every_format
@pytest.mark.req("ICE-SCH-17", half="reader")
def test_structs_inside_lists_and_maps_evolve(evolve: _Evolve) -> None:
    old = [
        field_json(1, "l", list_json(2, struct_json(field_json(3, "x", "int"), field_json(4, "y", "string")))),
        field_json(5, "m", map_json(6, "string", 7, struct_json(field_json(8, "x", "int")))),
        field_json(9, "s", struct_json(field_json(10, "x", "float"), field_json(11, "gone", "int"))),
    ]
    new = [
        field_json(
            1,
            "l",
            list_json(
                2,
                struct_json(field_json(12, "z", "int"), field_json(4, "renamed", "string"), field_json(3, "x", "long")),
            ),
        ),
        field_json(
            5, "m", map_json(6, "string", 7, struct_json(field_json(8, "x", "long"), field_json(13, "z", "string")))
        ),
        field_json(9, "s", struct_json(field_json(14, "gone", "int"), field_json(10, "x", "double"))),
    ]
    rows = evolve(
        old,
        [
            {"l": [{"x": 1, "y": "a"}, None], "m": [("k", {"x": 2}), ("n", None)], "s": {"x": 1.5, "gone": 3}},
            {"l": None, "m": None, "s": None},
            {"l": [], "m": [], "s": {"x": None, "gone": None}},
        ],
        new,
    )
    assert rows == [
        {
            "l": [{"z": None, "renamed": "a", "x": 1}, None],
            "m": [("k", {"x": 2, "z": None}), ("n", None)],
            "s": {"gone": None, "x": 1.5},
        },
        {"l": None, "m": None, "s": None},
        {"l": [], "m": [], "s": {"gone": None, "x": None}},
    ]


@by_every_road
@_in_every_format
@pytest.mark.req("ICE-SCH-03", "ICE-SCH-17", half="reader")
def test_keys_that_are_structs_stay_as_they_are(evolve: _Evolve, tmp_path: Path) -> None:
    key = struct_json(field_json(3, "a", "int"))
    old = [field_json(1, "m", map_json(2, key, 4, list_json(5, "string")))]
    new = [field_json(1, "m", map_json(2, key, 4, list_json(5, "string"))), field_json(6, "n", "int")]
    value = [({"a": 1}, ["x", None]), ({"a": 2}, None), ({"a": 3}, [])]
    assert evolve(old, [{"m": value}], new) == [{"m": value, "n": None}]
    evolved = IcebergBuilder(tmp_path / "evolved", old)
    evolved.write()
    evolved.schemas.append(
        [
            field_json(
                1, "m", map_json(2, struct_json(field_json(3, "a", "int"), field_json(7, "b", "int")), 4, "string")
            )
        ]
    )
    evolved.write()
    with pytest.raises(SpecViolationError, match=r"the key of the map 1 \(m\)"):
        open_table(evolved.root, "iceberg", validate=True)


@by_every_road
@pytest.mark.req("ICE-SCH-01", "ICE-SCH-02", "ICE-SCH-03", half="reader")
def test_required_parts_of_nested_types(tmp_path: Path) -> None:
    kind = list_json(3, "string") | {"element-required": True}
    values = map_json(5, "string", 6, "double") | {"value-required": True}
    fields = [
        field_json(1, "id", "uuid", required=True, doc="who"),
        field_json(2, "data", kind),
        field_json(4, "m", values),
    ]
    builder = IcebergBuilder(tmp_path / "t", fields)
    rows = [{"id": bytes(16), "data": ["x"], "m": [("k", 1.5)]}]
    builder.commit(builder.data(pa.Table.from_pylist(rows, arrow_of(fields))))
    table = open_table(builder.root, "iceberg")
    known, data, pairs = table.schema
    assert (known.nullable, known.metadata["doc"]) == (False, "who")
    assert isinstance(data.type, List)
    assert (data.type.element.id, data.type.element.nullable) == (3, False)
    assert isinstance(pairs.type, Map)
    assert [(part.id, part.nullable) for part in (pairs.type.key, pairs.type.value)] == [(5, False), (6, False)]
    assert table.scan().to_arrow().to_pylist() == rows


@pytest.mark.parametrize(
    ("old", "new", "transform", "values"),
    [
        ("int", "long", "identity", [5, 7]),
        ("int", "long", "truncate[5]", [5, 10]),
        ("float", "double", "identity", [1.5, 2.5]),
    ],
)
def test_partitions_of_a_column_that_became_wider(
    tmp_path: Path, old: str, new: str, transform: str, values: list[Any]
) -> None:
    specs = [[{"source-id": 2, "name": "p", "transform": transform}]]
    builder = IcebergBuilder(tmp_path / "t", {"id": "int", "p": old}, specs=specs)
    manifests = []
    for number, value in enumerate(values):
        file = builder.data([{"id": number, "p": value}], partition={"p": value})
        bound = struct.pack("<i" if old == "int" else "<f", value)
        summary = {"contains_null": False, "contains_nan": False, "lower_bound": bound, "upper_bound": bound}
        entry = {"status": 1, "snapshot_id": None, "sequence_number": None, "file": file}
        manifests.append(builder.manifest([entry], snapshot_id=1000, partitions=[summary]))
    builder.commit(manifests=manifests)
    builder.schemas.append([field_json(1, "id", "int"), field_json(2, "q", new)])
    builder.write()
    table = open_table(builder.root)
    scan = table.scan(f"q = {values[1]}")
    assert scan.to_arrow().to_pylist() == [{"id": 1, "q": values[1]}]
    assert len(scan.files()) == 1
    assert len(table.scan("q < 1").files()) == 0
    found = table.scan(columns=["_partition"]).to_arrow().column(0)
    assert found.to_pylist() == [{"p": value} for value in values]
    assert found.type.field(0).type == {"long": pa.int64(), "double": pa.float64()}[new]


def test_old_snapshots_have_the_columns_of_their_time(tmp_path: Path) -> None:
    specs: list[list[dict[str, Any]]] = [[{"source-id": 2, "name": "p", "transform": "identity"}], []]
    builder = IcebergBuilder(tmp_path / "t", {"id": "long", "p": "string"}, specs=specs)
    first = builder.commit(builder.data([{"id": 1, "p": "x"}], partition={"p": "x"}))
    builder.schemas.append([field_json(1, "key", "long"), field_json(3, "p", "int")])
    builder.commit(builder.data([{"key": 2, "p": 5}], spec_id=1))
    rows = [{"key": 1, "p": None}, {"key": 2, "p": 5}]
    assert open_table(builder.root).scan().to_arrow().to_pylist() == rows
    assert open_table(builder.root).scan("p IS NULL").to_arrow().to_pylist() == rows[:1]
    past = open_table(builder.root, snapshot_id=first)
    assert past.scan("p = 'x'").to_arrow().to_pylist() == [{"id": 1, "p": "x"}]
