"""Generated columns and defaults that depend on times, and tables that only grow."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from deltaberg import DeltaTable, create_table
from deltaberg.errors import ConstraintViolationError
from deltaberg.schema.types import Field, Primitive, Struct
from tests.support.delta_builder import DeltaBuilder
from tests.support.delta_schemas import field
from tests.support.rows import ID, ids, ids_of

pytestmark = pytest.mark.one_backend

_LONG = Primitive("long")


def _refused(table: DeltaTable, write: Callable[[], object], message: str) -> None:
    version = table.version
    with pytest.raises(ConstraintViolationError, match=message):
        write()
    assert table.refresh().version == version


def _at(text: str | None) -> dt.datetime | None:
    return None if text is None else dt.datetime.fromisoformat(text).replace(tzinfo=dt.timezone.utc)


def _times(at: str | None, **year: int | None) -> pa.Table:
    columns = {"ts": pa.array([_at(at)], pa.timestamp("us", "UTC"))}
    return pa.table({**columns, **{name: pa.array([value], pa.int32()) for name, value in year.items()}})


@pytest.mark.req("DL-CON-14", half="writer")
@pytest.mark.req("DL-CON-15", "DL-SCHEMA-18")
@pytest.mark.parametrize(("writer", "features"), [(4, None), (6, None), (7, ["generatedColumns"])])
@pytest.mark.parametrize("partition_by", [[], ["y"]], ids=["plain", "partitioned"])
def test_generated_columns(
    builder: DeltaBuilder, writer: int, features: list[str] | None, partition_by: list[str]
) -> None:
    columns = [field("ts", "timestamp"), field("y", "integer", delta__generationExpression="year(ts)")]
    builder.create(columns, partition_by=partition_by, protocol=builder.protocol(1, writer, None, features))
    table = DeltaTable(builder.root)
    assert table.generated_columns == {"y": "year(ts)"}
    table.append(_times("2018-03-01"))
    table.append(_times("2017-11-16", y=2017))
    table.append(_times(None, y=None))
    table.append(_times(None))
    _refused(table, lambda: table.append(_times("2017-11-16", y=2016)), "the generated column y: y=2016, ts=")
    _refused(table, lambda: table.append(_times(None, y=2017)), "the generated column y: y=2017, ts=null")
    _refused(table, lambda: table.append(_times("2017-11-16", y=None)), "the generated column y: y=null")
    assert sorted(table.scan().to_arrow()["y"].to_pylist(), key=str) == [2017, 2018, None, None]


@pytest.mark.req("DL-CON-20")
def test_a_volatile_default_is_evaluated_when_rows_are_written(tmp_path: Path) -> None:
    metadata = {"CURRENT_DEFAULT": "current_timestamp()"}
    schema = Struct((Field("id", _LONG), Field("at", Primitive("timestamp"), metadata=metadata)))
    table = create_table(tmp_path / "t", schema)
    times = [dt.datetime.now(dt.timezone.utc)]
    for number in range(2):
        table.append(ids(number))
        times.append(dt.datetime.now(dt.timezone.utc))
    first, second = (table.scan(f"id = {number}").to_arrow()["at"][0].as_py() for number in range(2))
    assert times[0] <= first <= times[1] <= second <= times[2]
    assert first != second


@pytest.mark.req("DL-CON-01", "DL-CON-03")
@pytest.mark.parametrize(("writer", "features"), [(2, None), (6, None), (7, ["appendOnly"])])
@pytest.mark.parametrize("lifted", ["unset", "false"])
def test_tables_that_only_grow(builder: DeltaBuilder, writer: int, features: list[str] | None, lifted: str) -> None:
    protocol = builder.protocol(1, writer, None, features)
    builder.create(
        ID, builder.add(ids(1, 2), stats="full"), configuration={"delta.appendOnly": "true"}, protocol=protocol
    )
    table = DeltaTable(builder.root)
    for change in (
        lambda: table.delete("id = 1"),
        lambda: table.delete(None),
        lambda: table.update({"id": "5"}, "id = 1"),
        lambda: table.overwrite(ids(3)),
    ):
        _refused(table, change, "only grows")
    table.append(ids(3))
    assert ids_of(table) == [1, 2, 3]
    if lifted == "unset":
        table.alter().unset("delta.appendOnly").commit()
    else:
        table.alter().set({"delta.appendOnly": False}).commit()
    table.delete("id = 1")
    assert ids_of(table) == [2, 3]
