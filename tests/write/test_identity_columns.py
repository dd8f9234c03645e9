"""Identity columns: which values are generated, which may be given, and what becomes of two writers at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import DeltaTable, create_table
from deltaberg.errors import (
    ConstraintViolationError,
    CorruptLogError,
    InvalidArgumentError,
    MetadataChangedError,
    SchemaError,
)
from deltaberg.schema.types import Field, Primitive, Struct
from tests.support.below_verbs import begin
from tests.support.delta_builder import DeltaBuilder, commit_name
from tests.support.delta_schemas import field

pytestmark = pytest.mark.one_backend

_MOST = (1 << 63) - 1


def _identity(start: int, step: int, mark: int | None = None, *, explicit: bool = False) -> dict[str, Any]:
    found: dict[str, Any] = {"start": start, "step": step, "allowExplicitInsert": explicit}
    if mark is not None:
        found["highWaterMark"] = mark
    return {f"delta.identity.{name}": value for name, value in found.items()}


def _create(root: Path, start: int, step: int, mark: int | None = None, *, explicit: bool = False) -> DeltaTable:
    builder = DeltaBuilder(root)
    column = field("id", "long")
    column["metadata"] = _identity(start, step, mark, explicit=explicit)
    builder.create([column, field("name", "string")], protocol=builder.protocol(1, 6))
    return DeltaTable(builder.root)


def _names(count: int) -> pa.Table:
    return pa.table({"name": [f"n{number}" for number in range(count)]})


def _ids(table: DeltaTable) -> list[int]:
    found: list[int] = sorted(table.scan().to_arrow()["id"].to_pylist())
    return found


def _metadata(root: Path, version: int) -> dict[str, Any]:
    lines = (root / "_delta_log" / commit_name(version)).read_text("utf-8").splitlines()
    (found,) = [json.loads(line)["metaData"] for line in lines if "metaData" in json.loads(line)]
    columns = json.loads(found["schemaString"])["fields"]
    return dict(columns[0]["metadata"])


@pytest.mark.req("DL-CON-21", half="writer")
@pytest.mark.req("DL-CON-23", "DL-CON-25", "DL-CON-28", "DL-SCHEMA-18")
def test_generated_values(tmp_path: Path) -> None:
    metadata = _identity(10, 5)
    table = create_table(
        tmp_path / "t",
        Struct((Field("id", Primitive("long"), metadata=metadata), Field("name", Primitive("string")))),
    )
    assert _metadata(tmp_path / "t", 0) == metadata
    text = (tmp_path / "t/_delta_log" / commit_name(0)).read_text("utf-8")
    assert r"\"delta.identity.start\":10,\"delta.identity.step\":5,\"delta.identity.allowExplicitInsert\":false" in text
    assert table.protocol.min_writer_version == 6
    texts = {name: json.dumps(value) for name, value in metadata.items()}
    create_table(tmp_path / "u", pa.schema([pa.field("id", pa.int64(), metadata=texts)]))
    assert _metadata(tmp_path / "u", 0) == metadata
    table.append(_names(3))
    assert _ids(table) == [10, 15, 20]
    assert _metadata(tmp_path / "t", 1) == {**metadata, "delta.identity.highWaterMark": 20}
    table.append(_names(2))
    assert _ids(table) == [10, 15, 20, 25, 30]
    assert table.identity_columns["id"].high_water_mark == 30
    with pytest.raises(ConstraintViolationError, match="cannot be given"):
        table.append(pa.table({"ID": [7], "name": ["x"]}))
    assert DeltaTable(tmp_path / "t").version == 2
    table.overwrite(_names(1))
    assert _ids(table) == [35]


@pytest.mark.req("DL-CON-24")
def test_values_that_are_given(tmp_path: Path) -> None:
    table = _create(tmp_path / "t", 1, 1, explicit=True)
    table.append(pa.table({"id": [7], "name": ["x"]}))
    table.append(_names(2))
    assert _ids(table) == [1, 2, 7]
    # Given values leave the mark alone, as in the reference.
    assert _metadata(tmp_path / "t", 2)["delta.identity.highWaterMark"] == 2
    # As in the reference, a null that is given is a value that is given.
    table.append(pa.table({"id": pa.array([None], pa.int64()), "name": ["y"]}))
    assert table.scan("name = 'y'").to_arrow()["id"].to_pylist() == [None]


@pytest.mark.req("DL-CON-26")
@pytest.mark.parametrize(
    ("start", "step", "mark", "wanted"),
    [
        (10, 5, 20, [25, 30]),
        (-1, -1, -4, [-6, -5]),
        (0, 3, 20, [21, 24]),
        (0, -3, -20, [-24, -21]),
        (100, 1, 5, [100, 101]),
        (1, 1, None, [1, 2]),
        (5, -2, None, [3, 5]),
    ],
)
def test_values_lie_beyond_the_mark(tmp_path: Path, start: int, step: int, mark: int | None, wanted: list[int]) -> None:
    table = _create(tmp_path / "t", start, step, mark)
    table.append(_names(2))
    assert _ids(table) == wanted
    assert all((value - start) % step == 0 for value in wanted)


@pytest.mark.req("DL-CON-27")
@pytest.mark.parametrize(
    ("step", "mark", "rows"), [(1, _MOST, 1), (1, _MOST - 2, 3), (-1, -_MOST - 1, 1), (1 << 62, 1 << 62, 1)]
)
def test_values_that_overflow(tmp_path: Path, step: int, mark: int, rows: int) -> None:
    table = _create(tmp_path / "t", 0, step, mark)
    with pytest.raises(ConstraintViolationError, match="not an integer of 64 bits"):
        table.append(_names(rows))
    assert DeltaTable(tmp_path / "t").version == 0
    assert not list((tmp_path / "t").glob("*.parquet"))


def test_the_last_value_that_there_is(tmp_path: Path) -> None:
    table = _create(tmp_path / "t", 0, 1, _MOST - 2)
    table.append(_names(2))
    assert _ids(table) == [_MOST - 1, _MOST]
    assert _metadata(tmp_path / "t", 1)["delta.identity.highWaterMark"] == _MOST


@pytest.mark.req("DL-CON-22")
def test_what_never_changes(tmp_path: Path) -> None:
    metadata = _identity(1, 0)
    with pytest.raises(SchemaError, match="step of an identity column is 0"):
        create_table(tmp_path / "u", Struct((Field("id", Primitive("long"), metadata=metadata),)))
    assert not (tmp_path / "u").exists()
    table = _create(tmp_path / "t", 1, 1)
    for change in (_identity(2, 1), _identity(1, 2), _identity(1, 1, explicit=True)):
        columns = [{**field("id", "long"), "metadata": change}, field("name", "string")]
        text = json.dumps({"type": "struct", "fields": columns})
        with pytest.raises(InvalidArgumentError, match="never change"), begin(table) as transaction:
            transaction.set_metadata(table.metadata.with_members({"schemaString": text}))
    assert DeltaTable(tmp_path / "t").version == 0


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"delta.identity.start": 1}, "delta.identity.step is None"),
        ({"delta.identity.step": 1}, "delta.identity.start is None"),
        ({"delta.identity.allowExplicitInsert": True}, "delta.identity.start is None"),
        ({**_identity(1, 1), "delta.identity.start": "1"}, "start is '1', which is not an integer"),
        ({**_identity(1, 1), "delta.identity.step": True}, "step is True, which is not an integer"),
        (_identity(_MOST + 1, 1), "start is 9223372036854775808, which is not an integer of 64 bits"),
        ({**_identity(1, 1), "delta.identity.highWaterMark": "x"}, "highWaterMark is 'x'"),
        ({**_identity(1, 1), "delta.identity.allowExplicitInsert": "no"}, "is 'no', which is neither true nor false"),
        ({**_identity(1, 1), "CURRENT_DEFAULT": "5"}, "an identity column, is generated, or has a default value"),
        ({"CURRENT_DEFAULT": "5", "delta.generationExpression": "5"}, "is generated, or has a default value"),
        ({"CURRENT_DEFAULT": 5}, "CURRENT_DEFAULT is 5, which is not text"),
        ({"delta.invariants": "id > 0"}, "an invariant is not written as the protocol says"),
    ],
)
def test_new_rules_that_are_not_whole(tmp_path: Path, metadata: dict[str, Any], message: str) -> None:
    columns = Struct((Field("id", Primitive("long"), metadata=metadata), Field("name", Primitive("string"))))
    with pytest.raises(SchemaError, match=message):
        create_table(tmp_path / "t", columns)
    assert not (tmp_path / "t").exists()


def test_new_columns_take_no_values_unless_they_say_so(tmp_path: Path) -> None:
    """delta-spark reads no identity column that lacks one of start, step and allowExplicitInsert."""
    metadata = {"delta.identity.start": "3", "delta.identity.step": "1"}
    for name, properties in (("t", {}), ("u", {"delta.columnMapping.mode": "name"})):
        columns = pa.schema([pa.field("id", pa.int64(), metadata=metadata), pa.field("name", pa.string())])
        create_table(tmp_path / name, columns, properties=properties)
        assert _metadata(tmp_path / name, 0)["delta.identity.allowExplicitInsert"] is False


def test_the_type_of_identity_columns_stays(tmp_path: Path) -> None:
    table = _create(tmp_path / "t", 1, 1)
    alteration = table.alter().set({"delta.enableTypeWidening": "true"})
    with pytest.raises(SchemaError, match="an identity column has the type long, and cannot be widened"):
        alteration.widen("ID", pa.decimal128(20, 0))
    alteration.commit()
    table.append(_names(2))
    assert _ids(table) == [1, 2]


@pytest.mark.parametrize(
    ("kind", "step", "message"),
    [
        ("byte", 1, "an identity column has the type byte, not long"),
        ("integer", 1, "an identity column has the type integer, not long"),
        ("decimal(20,0)", 1, r"an identity column has the type decimal\(20,0\), not long"),
        ("string", 1, "an identity column has the type string, not long"),
        ("long", 0, "the step of an identity column is 0"),
    ],
)
def test_identity_columns_that_are_none(tmp_path: Path, kind: str, step: int, message: str) -> None:
    builder = DeltaBuilder(tmp_path / "t")
    column = field("id", kind)
    column["metadata"] = _identity(1, step)
    builder.create([column, field("name", "string")], protocol=builder.protocol(1, 6))
    with pytest.raises(CorruptLogError, match=message):
        DeltaTable(builder.root).append(_names(1))
    columns = Struct((Field("id", Primitive(kind), metadata=_identity(1, step)), Field("name", Primitive("string"))))
    with pytest.raises(SchemaError, match=message):
        create_table(tmp_path / "new", columns)
    assert not (tmp_path / "new").exists()


@pytest.mark.req("DL-CON-29")
def test_two_writers_at_once(tmp_path: Path) -> None:
    """The one that comes later is refused: values are data, so they are not made again for the same files."""
    first = _create(tmp_path / "t", 1, 1)
    second = DeltaTable(tmp_path / "t")
    first.append(_names(100))
    with pytest.raises(MetadataChangedError, match="version 1 was committed meanwhile, and it changed the metadata"):
        second.append(_names(100))
    assert len(list((tmp_path / "t").glob("*.parquet"))) == 1
    second.refresh().append(_names(100))
    assert _ids(second) == list(range(1, 201))


def test_many_batches_and_partitions(tmp_path: Path) -> None:
    column = Field("id", Primitive("long"), nullable=False, metadata=_identity(1, 3))
    table = create_table(tmp_path / "t", Struct((column, Field("p", Primitive("string")))), partition_by="p")
    batches = [pa.record_batch({"p": ["a", "b", "a"]}) for _ in range(50)]
    table.append(pa.RecordBatchReader.from_batches(batches[0].schema, batches))
    assert _ids(table) == [1 + 3 * number for number in range(150)]
    assert table.identity_columns["id"].high_water_mark == 448


def test_no_rows_generate_nothing(tmp_path: Path) -> None:
    table = _create(tmp_path / "t", 1, 1)
    table.append(_names(0))
    assert table.identity_columns["id"].high_water_mark is None


def test_updates_leave_the_values(tmp_path: Path) -> None:
    table = _create(tmp_path / "t", 1, 1)
    table.append(_names(3))
    table.update({"name": "'x'"}, "id = 2")
    assert _ids(table) == [1, 2, 3]
    assert table.identity_columns["id"].high_water_mark == 3
    with pytest.raises(ConstraintViolationError, match="cannot be given"):
        table.update({"id": "9"}, "id = 2")


def test_several_appends_of_one_transaction(tmp_path: Path) -> None:
    table = _create(tmp_path / "t", 1, 1)
    with table.transaction() as transaction:
        transaction.append(_names(2))
        transaction.append(_names(2))
    assert _ids(table) == [1, 2, 3, 4]
    assert table.version == 1


def test_rows_that_replace_others(tmp_path: Path) -> None:
    """Rows are replaced by a condition that needs rows to be read, and the new ones get new values."""
    table = _create(tmp_path / "t", 1, 1)
    table.append(_names(3))
    table.overwrite(pa.table({"name": ["n1", "n1"]}), where="name = 'n1'")
    assert _ids(table) == [1, 3, 4, 5]
    assert table.identity_columns["id"].high_water_mark == 5
