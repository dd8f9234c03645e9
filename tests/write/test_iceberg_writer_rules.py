"""Rules of the specification for what writers store, and what they check before they commit."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc

from deltaberg import IcebergTable, create_table, open_table
from deltaberg.errors import (
    CommitConflictError,
    ConcurrentAppendError,
    ConcurrentDeleteDeleteError,
    ConstraintViolationError,
    SchemaError,
)
from deltaberg.iceberg.alter.alter import Alteration
from deltaberg.schema.types import Field, Fixed, List, Primitive, Struct
from tests.support.rows import ids, ids_of

pytestmark = pytest.mark.one_backend

_HIDING = {f"write.{verb}.mode": "merge-on-read" for verb in ("delete", "update", "merge")}


@pytest.mark.req("ICE-ORC-01", "ICE-ORC-02", "ICE-ORC-03", "ICE-ORC-04", "ICE-ORC-05", half="writer")
@pytest.mark.req("ICE-ORC-09", half="writer")
def test_types_in_orc_files(tmp_path: Path) -> None:
    instant = dt.datetime(2017, 11, 16, 22, 31, 8, 123456)
    kinds: dict[str, tuple[Any, str, Any]] = {
        "boolean": (Primitive("boolean"), "bool", True),
        "int": (Primitive("integer"), "int32", 5),
        "long": (Primitive("long"), "int64", 1 << 40),
        "float": (Primitive("float"), "float", 0.5),
        "double": (Primitive("double"), "double", 0.1),
        "string": (Primitive("string"), "string", "ä"),
        "binary": (Primitive("binary"), "binary", b"\xff"),
        "date": (Primitive("date"), "date32[day]", dt.date(1960, 1, 1)),
        "time": (Primitive("time"), "int64", dt.time(22, 31, 8)),
        "local": (Primitive("timestamp_ntz"), "timestamp[ns]", instant),
        "instant": (Primitive("timestamp"), "timestamp[ns, tz=UTC]", instant.replace(tzinfo=dt.timezone.utc)),
        "uuid": (Primitive("uuid"), "binary", bytes(range(16))),
        "fixed": (Fixed(3), "binary", b"abc"),
        "list": (List(Field("element", Primitive("integer"))), "list<item: int32>", [1, None]),
        "struct": (Struct((Field("x", Primitive("long")),)), "struct<x: int64>", {"x": 1}),
    }
    columns = Struct(tuple(Field(name, kind, nullable=name != "int") for name, (kind, _, _) in kinds.items()))
    table = create_table(tmp_path / "t", columns, format="iceberg", properties={"write.format.default": "orc"})
    row = {name: value for name, (_, _, value) in kinds.items()}
    table.append(pa.Table.from_pylist([row], table.arrow_schema))
    (file,) = tmp_path.rglob("*.orc")
    stored = orc.ORCFile(file).schema
    assert {child.name: str(child.type) for child in stored} == {name: kind for name, (_, kind, _) in kinds.items()}
    attributes = {child.name: dict(child.metadata) for child in stored}
    assert [found[b"iceberg.id"] for found in attributes.values()] == [str(at + 1).encode() for at in range(len(kinds))]
    assert [name for name, found in attributes.items() if found[b"iceberg.required"] == b"true"] == ["int"]
    assert stored.field("list").type.value_field.metadata[b"iceberg.id"] == b"16"
    more = {name: found for name, found in attributes.items() if len(found) > 2}
    assert more.pop("time")[b"iceberg.long-type"] == b"TIME"
    assert more.pop("uuid")[b"iceberg.binary-type"] == b"UUID"
    assert (more["fixed"][b"iceberg.binary-type"], more["fixed"][b"iceberg.length"]) == (b"FIXED", b"3")
    assert list(more) == ["fixed"]
    assert orc.ORCFile(file).read(["time"])["time"].to_pylist() == [81_068_000_000]
    assert table.scan().to_arrow().to_pylist() == [row]
    nanos = pa.array([1_510_871_468_123_456_789], pa.timestamp("ns"))
    table.append(pa.table({"int": [6], "local": nanos}), allow_truncation=True)
    assert table.scan("int = 6").to_arrow()["local"].to_pylist() == [instant]
    with pytest.raises(SchemaError, match="fixed"):
        table.append(pa.table({"int": [7], "fixed": [b"abcd"]}))


@pytest.mark.req("ICE-SCH-03", half="writer")
@pytest.mark.parametrize("form", ["parquet", "orc", "avro"])
def test_maps_of_any_type(tmp_path: Path, form: str) -> None:
    kind = pa.map_(pa.struct({"a": pa.int32()}), pa.list_(pa.string()))
    table = create_table(tmp_path / "t", {"m": kind}, format="iceberg", properties={"write.format.default": form})
    rows = [[({"a": 1}, ["x", None]), ({"a": None}, None)], [], None]
    table.append(pa.table({"m": pa.array(rows, kind)}))
    assert table.scan().to_arrow()["m"].to_pylist() == rows
    # Arrow has no maps with null keys; lists of pairs may have them.
    pairs = pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)]))
    damaged = pa.array([[{"key": None, "value": ["x"]}]], pairs)
    with pytest.raises((ConstraintViolationError, SchemaError), match="null"):
        table.append(pa.table({"m": damaged}))


def _evolved(folder: Path, forms: list[str]) -> list[dict[str, Any]]:
    """Return the rows of a table that was changed in all ways, whose files are of formats in turn."""
    kind = {"id": pa.int32(), "a": pa.string(), "gone": pa.int64(), "s": pa.struct({"x": pa.int32(), "y": pa.string()})}
    properties = {**_HIDING, "write.format.default": forms[0]}
    table: IcebergTable = create_table(folder, kind, format="iceberg", properties=properties)

    def alter(number: int) -> Alteration:
        return table.alter().set({"write.format.default": forms[number % len(forms)]})

    def write(number: int, **columns: Any) -> None:
        table.append(pa.table({"id": [10 * number, 10 * number + 1], **columns}))

    write(0, a=["p", None], gone=[1, 2], s=[{"x": 1, "y": "q"}, None])
    alter(1).rename("a", "b").drop("gone").widen("id", pa.int64()).move("s", first=True).commit()
    write(1, b=["r", "s"])
    alter(2).add("a", pa.float64()).add("s.z", pa.list_(pa.int32())).rename("s.y", "w").commit()
    write(2, a=[1.5, None], s=[{"x": 2, "w": "t", "z": [1]}, None])
    alter(3).widen("s.x", pa.int64()).drop("s.w").move("b", after="id").commit()
    table.delete("id IN (1, 11, 21)")
    write(3, b=["u", "v"])
    if len(forms) == 1:
        assert {row["file_format"] for row in table.inspect("files").to_pylist()} == {forms[0].upper()}
    return sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["id"])


@pytest.mark.req("ICE-GEN-12", half="writer")
def test_columns_change_alike_in_all_formats(tmp_path: Path) -> None:
    outcomes = [
        _evolved(tmp_path / "-".join(forms), forms)
        for forms in (["parquet"], ["orc"], ["avro"], ["parquet", "orc", "avro"])
    ]
    assert outcomes[0][0] == {"s": {"x": 1, "z": None}, "id": 0, "b": "p", "a": None}
    assert [row["id"] for row in outcomes[0]] == [0, 10, 20, 30, 31]
    assert all(rows == outcomes[0] for rows in outcomes[1:])


@pytest.mark.req("ICE-COM-04", "ICE-COM-08", half="writer")
def test_files_have_to_be_there_still(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", {"id": pa.int64()}, format="iceberg", properties=_HIDING)
    for start in (0, 10):
        table.append(ids(start, start + 1))
    other = open_table(tmp_path / "t", "iceberg")
    assert isinstance(other, IcebergTable)
    # An append does not disturb a compaction, and the removal of a file does.
    other.append(ids(20))
    assert table.compact(min_files=2).conflicts == []
    table.append(ids(30))
    other.refresh().delete("id = 30")
    done = table.compact()
    assert all(isinstance(conflict, CommitConflictError) for conflict in done.conflicts)
    assert (len(done.conflicts), done.commits) == (1, [])
    assert ids_of(table.refresh()) == [0, 1, 10, 11, 20]
    # Rows are not hidden in files that a compaction has removed.
    late = table.transaction()
    late.delete("id = 10")
    other.refresh().append(ids(40))
    assert other.compact().conflicts == []
    with pytest.raises(ConcurrentDeleteDeleteError, match="another commit removed data files of which rows are"):
        late.commit()
    table.refresh().delete("id = 10")
    assert ids_of(table) == [0, 1, 11, 20, 40]


@pytest.mark.req("ICE-COM-05", half="writer")
@pytest.mark.parametrize("properties", [{}, _HIDING], ids=["rewrites", "hides"])
def test_deletes_of_files_and_deletes_by_conditions(tmp_path: Path, properties: dict[str, str]) -> None:
    table = create_table(tmp_path / "t", {"id": pa.int64()}, format="iceberg", properties=properties)
    for number in (1, 2, 30):
        table.append(ids(number, number + 1))
    # Whoever found certain files to remove fails if they are gone.
    late = [table.transaction() for _ in range(2)]
    for transaction in late:
        transaction.delete("id IN (1, 2)")
    late[0].commit()
    with pytest.raises(CommitConflictError, match="removed"):
        late[1].commit()
    # A condition holds for rows that others added meanwhile, also if not all rows of their files match.
    other = open_table(tmp_path / "t", "iceberg")
    assert isinstance(other, IcebergTable)
    for added, left in ((ids(4, 5), [30, 31]), (ids(6, 31), [30, 31, 31])):
        other.refresh().append(ids(7, 8))
        table.refresh()
        other.append(added)
        assert table.delete("id < 10").committed
        assert ids_of(other.refresh()) == ids_of(table) == left
    # Nothing is written twice: what was to be written anew is left to the caller.
    other.append(ids(9, 32))
    table.refresh()
    other.append(ids(9))
    with pytest.raises(ConcurrentAppendError, match="added data files that may hold rows to be replaced"):
        table.delete("id = 9")
    assert ids_of(other.refresh()) == [9, 9, 30, 31, 31, 32]
    table.refresh().alter().set({"commit.retry.num-retries": "0"}).commit()
    table.refresh().append(ids(3))
    stale = open_table(tmp_path / "t", "iceberg")
    table.append(ids(3))
    with pytest.raises(ConcurrentAppendError, match="added data files that may hold rows to be replaced"):
        stale.delete("id = 3")
