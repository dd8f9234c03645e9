"""Rows in parts whose columns differ in their types, and columns that are all null."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from deltaberg import create_table, open_table, write_table
from deltaberg.errors import SchemaError
from tests.support.command_line import call

_NOTHING = pa.table({"x": pa.nulls(1)})
_NESTED = pa.list_(pa.struct([("a", pa.int64())]))


def _of(*values: Any, type: pa.DataType | None = None) -> pa.Table:
    return pa.table({"x": pa.array(values, type)})


#: Parts of some rows, and the type and the values of the new column.
_PARTS: list[tuple[list[Any], pa.DataType, list[Any]]] = [
    ([_NOTHING, _of(5)], pa.int64(), [None, 5]),
    ([_NOTHING, _NOTHING, _of("a")], pa.string(), [None, None, "a"]),
    ([_of(5, type=pa.int32()), _of(1 << 40)], pa.int64(), [5, 1 << 40]),
    ([_of(5), _of(5.5)], pa.float64(), [5.0, 5.5]),
    ([_of(1.0), _of(5.5), _of(5)], pa.float64(), [1.0, 5.5, 5.0]),
    ([_of(5), _of(1.0), _of(5.5)], pa.float64(), [5.0, 1.0, 5.5]),
    ([_of(-0.0), _of(5)], pa.float64(), [-0.0, 5.0]),
    ([_of(1.5, type=pa.float32()), _of(0.1)], pa.float64(), [1.5, 0.1]),
    ([pd.DataFrame({"x": [1, 2]}), pd.DataFrame({"x": [3, None]})], pa.int64(), [1, 2, 3, None]),
    ([pd.DataFrame({"x": [3, None]}), pd.DataFrame({"x": [1, 2]})], pa.int64(), [3, None, 1, 2]),
    ([pd.DataFrame({"x": [None]}), pd.DataFrame({"x": ["a"]})], pa.string(), [None, "a"]),
    ([pd.DataFrame({"x": [float("nan")]}), pd.DataFrame({"x": ["a"]})], pa.string(), [None, "a"]),
    ([pl.DataFrame({"x": [None]}), pl.DataFrame({"x": [True]})], pa.bool_(), [None, True]),
    ([_of([], type=pa.list_(pa.null())), _of([{"a": 1}], type=_NESTED)], _NESTED, [[], [{"a": 1}]]),
    ([_NOTHING, _of({"a": 1})], pa.struct([("a", pa.int64())]), [None, {"a": 1}]),
    ([_NOTHING.to_reader(), _of(5).to_reader()], pa.int64(), [None, 5]),
]


@pytest.mark.parametrize("format", ["delta", "iceberg"])
@pytest.mark.parametrize("is_iterator", [False, True])
@pytest.mark.parametrize(("parts", "kind", "expected"), _PARTS)
def test_parts_tell_the_type_of_a_new_column_together(
    tmp_path: Path, format: Any, is_iterator: bool, parts: list[Any], kind: pa.DataType, expected: list[Any]
) -> None:
    if any(isinstance(part, pa.RecordBatchReader) for part in parts):
        parts = [pa.Table.from_batches([pa.record_batch(_NOTHING.to_batches()[0])]).to_reader(), _of(5).to_reader()]
    write_table(tmp_path / "t", iter(parts) if is_iterator else parts, format=format)
    found = open_table(tmp_path / "t").scan().to_arrow()
    assert (found.column("x").to_pylist(), str(found.schema.field("x").type)) == (
        expected,
        str(kind).replace("item", "element"),
    )


def test_no_more_parts_are_looked_at_than_fit_into_memory(tmp_path: Path) -> None:
    taken, table = 0, create_table(tmp_path / "t", {"x": pa.int64()})
    large = pa.table({"x": range(1_000_000)})

    def parts() -> Iterator[pa.Table]:
        nonlocal taken
        for _ in range(40):
            taken += 1
            yield large

    from deltaberg.table.rows.stream import open_stream

    reader = open_stream(parts())
    assert taken == 9
    reader.read_next_batch()
    assert table.version == 0


_OF_VOID = {"delta": {}, "iceberg": {"format-version": "3"}}


@pytest.mark.parametrize("format", ["delta", "iceberg"])
@pytest.mark.parametrize("rows", [_of("a"), _of([1]), _of({"a": {"b": 1}}), _of(7)])
@pytest.mark.parametrize("mapped", [False, True])
def test_a_column_without_a_type_takes_that_of_the_first_rows(
    tmp_path: Path, format: Any, rows: pa.Table, mapped: bool
) -> None:
    properties = {"delta.columnMapping.mode": "name"} if mapped and format == "delta" else _OF_VOID[format]
    with pytest.warns(UserWarning, match="the column x has no type") as seen:
        table = create_table(tmp_path / "t", {"id": pa.int64(), "x": pa.null()}, format=format, properties=properties)
    assert seen[0].filename == __file__
    table.append(pa.table({"id": [1]}))
    with pytest.raises(SchemaError, match='pass schema_mode="merge", by which'):
        table.append(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table.append(_NOTHING, schema_mode="merge")
        table.append(rows, schema_mode="merge")
        table.append(rows)
    found = open_table(tmp_path / "t").scan().to_arrow().column("x").to_pylist()
    (value,) = rows.column("x").to_pylist()
    assert sorted(found, key=repr) == sorted([None, None, value, value], key=repr)


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_every_verb_that_makes_a_column_without_a_type_warns(tmp_path: Path, format: Any) -> None:
    table = create_table(tmp_path / "t", {"id": pa.int64()}, format=format, properties=_OF_VOID[format])
    with pytest.warns(UserWarning, match="the column x has no type"):
        table.append(pa.table({"id": [1], "x": pa.nulls(1)}), schema_mode="merge")
    with pytest.warns(UserWarning, match=r"the column y has no type"):
        table.overwrite(pa.table({"id": [1], "y": pa.nulls(1)}), schema_mode="overwrite")
    assert table.refresh().scan().to_arrow().to_pylist() == [{"id": 1, "y": None}]


def test_older_iceberg_tables_have_no_such_column(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="give the column a type, or leave it out"):
        write_table(tmp_path / "t", _NOTHING, format="iceberg")


@pytest.mark.one_backend
def test_a_command_says_the_warning(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("id,x\n1,\n")
    ended = call("create", tmp_path / "t", "--like", tmp_path / "rows.csv")
    assert (ended.exit_code, ended.stderr[:44]) == (0, "deltaberg: warning: the column x has no type")
