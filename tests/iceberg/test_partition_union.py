"""The partition struct of all specs of a table, with dropped fields and ids that version 1 reused."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import open_table
from tests.support.iceberg_builder import IcebergBuilder


def _part(source: int, name: str, transform: str) -> dict[str, Any]:
    return {"source-id": source, "field-id": 1000, "name": name, "transform": transform}


def _partitions(table: Any) -> list[tuple[int, Any]]:
    rows = table.scan(columns=["id", "_partition"]).to_arrow().to_pylist()
    return sorted((row["id"], row["_partition"]) for row in rows)


@pytest.mark.parametrize("dropped_first", [False, True])
def test_a_dropped_field_keeps_its_type(tmp_path: Path, dropped_first: bool) -> None:
    specs = [[_part(2, "at_month", "month")], [_part(2, "at", "void")]]
    month, void = (1, 0) if dropped_first else (0, 1)
    builder = IcebergBuilder(
        tmp_path / "t",
        {"id": "long", "ts": "timestamp"},
        format_version=1,
        specs=specs[::-1] if dropped_first else specs,
    )
    moment = dt.datetime(1970, 3, 4)
    builder.commit(
        builder.data([{"id": 1, "ts": moment}], partition={"at_month": 2}, spec_id=month),
        builder.data([{"id": 2, "ts": moment}], partition={"at": None}, spec_id=void),
    )
    table = open_table(builder.root)
    name = "at_month" if dropped_first else "at"
    assert table.scan(columns=["_partition"]).schema.field("_partition").type == pa.struct([(name, pa.int32())])
    assert _partitions(table) == [(1, {name: 2}), (2, {name: None})]
    assert table.scan("ts > TIMESTAMP_NTZ '1970-03-01 00:00:00'").count() == 2
    assert table.scan("ts > TIMESTAMP_NTZ '1970-04-01 00:00:00'").files().num_rows == 1


def test_an_id_that_was_used_again(tmp_path: Path) -> None:
    fields = {"id": "long", "s": "string"}
    specs = [[_part(2, "p", "identity")], [_part(1, "p", "bucket[8]")]]
    builder = IcebergBuilder(tmp_path / "t", fields, format_version=1, specs=specs)
    only_id = builder.fields[:1]
    builder.commit(
        # The partition alone has the value.
        builder.data([{"id": 1}], fields=only_id, partition={"p": "north"}, spec_id=0),
        builder.data([{"id": 2, "s": "south"}], partition={"p": 5}, spec_id=1),
    )
    table = open_table(builder.root)
    assert _partitions(table) == [(1, {"p": None, "p_1000": "north"}), (2, {"p": 5, "p_1000": None})]
    rows = table.scan().to_arrow().to_pylist()
    assert sorted(row["s"] for row in rows) == ["north", "south"]
    assert [row["id"] for row in table.scan("s = 'north'").to_arrow().to_pylist()] == [1]
