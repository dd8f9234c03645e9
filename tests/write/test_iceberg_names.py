"""Names of columns that differ in case, have dots or blanks, or are no Unicode, and names of branches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyiceberg.table import StaticTable

from deltaberg import col, create_table, open_table, write_table
from deltaberg.choices import Format
from deltaberg.errors import ColumnNotFoundError, DeltabergError, ExpressionError, InvalidArgumentError, SchemaError
from deltaberg.iceberg import IcebergTable
from tests.write.small_iceberg import ids_of, new_table, rows_of

pytestmark = pytest.mark.one_backend

_LONG = pa.int64()
_ALIKE = pa.schema([("id", _LONG), ("ID", _LONG), ("v", _LONG)])
_INSIDE = pa.schema([("id", _LONG), ("s", pa.struct([("a", _LONG), ("A", _LONG), ("z", _LONG)]))])


def _alike(root: Path, version: str = "2") -> IcebergTable:
    rows = pa.table({"id": [1, 2], "ID": [5, 6], "v": [0, 0]}, schema=_ALIKE)
    table: IcebergTable = create_table(root / "t", _ALIKE, format="iceberg", properties={"format-version": version})
    table.append(rows)
    return table


def _sorted(table: IcebergTable) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.scan().to_arrow().to_pylist())


@pytest.mark.parametrize("version", ["1", "2", "3"])
@pytest.mark.parametrize("schema_mode", [None, "merge"])
def test_a_merge_takes_all_columns_by_their_exact_names(tmp_path: Path, version: str, schema_mode: Any) -> None:
    table = _alike(tmp_path, version)
    source = pa.table({"id": [2, 3], "ID": [78, 99], "v": [8, 9]}, schema=_ALIKE)
    merge = table.merge(source, "target.id = source.id", schema_mode=schema_mode)
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    assert _sorted(table) == [(1, 5, 0), (2, 78, 8), (3, 99, 9)]
    theirs = StaticTable.from_metadata(table.metadata_location).scan().to_arrow().to_pylist()
    assert sorted(tuple(row.values()) for row in theirs) == _sorted(table)


def test_one_column_is_not_taken_for_two(tmp_path: Path) -> None:
    table = _alike(tmp_path)
    source = pa.table({"id": [2], "v": [8]})
    with pytest.raises(ColumnNotFoundError, match="the source lacks the column ID"):
        table.merge(source, "target.id = source.id").when_matched_update_all().execute()
    with pytest.raises(SchemaError, match="'Id' is ambiguous: id, ID differ only in case"):
        table.append(pa.table({"Id": [4]}))
    merge = table.merge(pa.table({"id": [2], "ID": [9], "v": [8]}), "target.id = source.id", schema_mode="merge")
    merge.when_matched_update_all(except_cols="id").execute()
    assert _sorted(table) == [(1, 5, 0), (2, 9, 8)]


def test_two_columns_of_a_source_are_not_taken_for_one(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    source = pa.table({"id": [1], "Name": ["a"], "NAME": ["b"]})
    with pytest.raises(SchemaError, match="two columns for 'name': 'Name' and 'NAME'"):
        table.merge(source, "target.id = source.id").when_not_matched_insert_all().execute()


def test_fields_of_structs_are_taken_by_their_exact_names(tmp_path: Path) -> None:
    rows = pa.Table.from_pylist([{"id": 1, "s": {"a": 1, "A": 2, "z": 3}}], _INSIDE)
    table: Any = create_table(tmp_path / "t", _INSIDE, format="iceberg")
    table.append(rows)
    # The fields that the source lacks stay.
    table.upsert(pa.Table.from_pylist([{"id": 1, "s": {"a": 10, "A": 20}}, {"id": 2, "s": {"a": 30, "A": 40}}]), "id")
    found = table.scan().to_arrow().sort_by("id")["s"].to_pylist()
    assert found == [{"a": 10, "A": 20, "z": 3}, {"a": 30, "A": 40, "z": None}]


@pytest.mark.parametrize(
    ("name", "other", "inside"),
    [
        ("a.b", "a", pa.struct([("b", _LONG)])),
        ("l.element", "l", pa.list_(_LONG)),
        ("m.key", "m", pa.map_(pa.string(), _LONG)),
        ("l.element.x", "l", pa.list_(pa.struct([("x", _LONG)]))),
    ],
)
def test_full_names_are_those_of_one_column(tmp_path: Path, name: str, other: str, inside: pa.DataType) -> None:
    """Neither pyiceberg nor iceberg-java loads a table in which they are not."""
    message = "the full name of two columns"
    with pytest.raises(SchemaError, match=message):
        create_table(tmp_path / "new", pa.schema([(name, _LONG), (other, inside)]), format="iceberg")
    table: Any = create_table(tmp_path / "t", pa.schema([("id", _LONG), (other, inside)]), format="iceberg")
    steps: list[Callable[[], Any]] = [
        lambda: table.append(pa.table({"id": [1], name: [1]}), schema_mode="merge"),
        lambda: table.alter().add((name,), _LONG),
        lambda: table.alter().rename("id", name),
        lambda: create_table(
            tmp_path / "t", pa.schema([(name, _LONG), (other, inside)]), format="iceberg", if_exists="replace"
        ),
    ]
    for step in steps:
        with pytest.raises(SchemaError, match=message):
            step()
    table.alter().add(("other.b",), _LONG).commit()
    table.append(pa.table({"id": [1], "other.b": [2]}))
    assert StaticTable.from_metadata(table.metadata_location).scan().to_arrow()["other.b"].to_pylist() == [2]


def test_partition_sources_may_be_named_as_if_they_had_another_name(tmp_path: Path) -> None:
    table: Any = create_table(tmp_path / "t", pa.schema([("x as y", pa.string())]), format="iceberg")
    table.alter().partition_by("`x as y`", "bucket(3, `x as y`)", "truncate(1, `x as y`) as z").commit()
    fields = table.metadata.specs[table.metadata.default_spec_id].fields
    assert [(part.name, part.transform) for part in fields] == [
        ("x as y", "identity"),
        ("x as y_bucket", "bucket[3]"),
        ("z", "truncate[1]"),
    ]
    table.append(pa.table({"x as y": ["ab"]}))
    assert table.scan("`x as y` = 'ab'").count() == 1


_HALF = "\ud800"


@pytest.mark.parametrize(
    ("step", "error"),
    [
        (lambda table: table.delete(f"name = '{_HALF}'"), ExpressionError),
        (lambda table: table.update({"name": f"'{_HALF}'"}), ExpressionError),
        (lambda table: table.scan([("name", "=", _HALF)]).count(), ExpressionError),
        (lambda table: table.alter().add(_HALF, pa.int64()), InvalidArgumentError),
        (lambda table: table.alter().drop((_HALF,)), InvalidArgumentError),
        (lambda table: table.append(rows_of(1), properties={"a": _HALF}), InvalidArgumentError),
        (lambda table: table.alter().create_branch(_HALF), InvalidArgumentError),
        (lambda table: table.alter().set({"x": _HALF}), InvalidArgumentError),
    ],
)
def test_half_of_a_surrogate_pair_is_no_text(
    tmp_path: Path, step: Callable[[Any], Any], error: type[DeltabergError]
) -> None:
    table = new_table(tmp_path)
    with pytest.raises(error, match=r"is not valid Unicode"):
        step(table)


def test_rows_go_to_the_branch_that_is_named(tmp_path: Path) -> None:
    """A variable that is empty does not stand for main, and a branch is not named in two ways."""
    table = new_table(tmp_path)
    table.append(rows_of(1))
    with pytest.raises(InvalidArgumentError, match="branch must be text that is not empty"):
        table.append(rows_of(2), branch="")
    with pytest.raises(InvalidArgumentError, match="branch must be text that is not empty"):
        table.delete("id = 1", branch="")
    with pytest.raises(InvalidArgumentError, match=r"wap.branch is 'audit', but the branch is 'main'"):
        table.append(rows_of(2), branch="main", properties={"wap.branch": "audit"})
    assert ids_of(table) == [1]
    table.append(rows_of(2), branch="audit", properties={"wap.branch": "audit"})
    assert ids_of(table) == [1]
    assert ids_of(open_table(tmp_path / "t", ref="audit")) == [1, 2]


@pytest.mark.parametrize("form", ["iceberg", "delta"])
def test_merges_need_a_condition(tmp_path: Path, form: Format) -> None:
    write_table(tmp_path / form, pa.table({"id": [1]}), format=form)
    table: Any = open_table(tmp_path / form)
    with pytest.raises(InvalidArgumentError, match=r"a merge needs (a|one) condition"):
        table.merge(pa.table({"id": [1]}), None)
    for source in ({"id": [1]}, {"key": [1]}):
        for on in ("id", col("id"), "ID"):
            for schema_mode in (None, "merge"):
                with pytest.raises(InvalidArgumentError, match=r"(?i)a column alone, id: ") as raised:
                    table.merge(pa.table(source), on, target_alias="t", schema_mode=schema_mode)
                assert str(raised.value.hint).lower().startswith("say which rows match: t.id = source.id")
    with pytest.raises(ExpressionError, match="something is missing"):
        table.merge(pa.table({"id": [1]}), "target.id =")
    assert table.scan().count() == 1


@pytest.mark.parametrize("form", ["iceberg", "delta"])
def test_merges_refuse_a_condition_before_their_clauses(tmp_path: Path, form: Format) -> None:
    """On a table and in a transaction, as soon as the columns of the source are known."""
    rows = pa.table({"id": [1], "x": ["a"]})
    write_table(tmp_path / form, rows, format=form)
    table: Any = open_table(tmp_path / form)
    frame = pd.DataFrame({"id": [1], "x": ["a"]})
    sources = [rows, rows.to_batches()[0], rows.to_reader(), table.scan(), table, frame, pl.DataFrame(rows)]
    wrong = {
        "id": "say which rows match: target.id = source.id",
        "source.id": "say which rows match: target.id = source.id",
        ("id", "x"): "say which rows match: target.id = source.id",
        "x = x": "write target.x",
        "source.id = 1": "say which rows match",
        "1 = 1": "write true",
        "source.id = target.key": "the columns are id, x",
    }
    with table.transaction() as transaction:
        for verbs in (table, transaction):
            for number, (on, hint) in enumerate(wrong.items()):
                with pytest.raises((InvalidArgumentError, ExpressionError, ColumnNotFoundError)) as raised:
                    verbs.merge(sources[number % len(sources)], on)
                assert str(raised.value.hint).startswith(hint)
    # The columns of a stream that can be read but once are asked for when it is read.
    merge = table.merge(iter([rows]), "id").when_matched_delete()
    with pytest.raises(InvalidArgumentError, match="a column alone, id: "):
        merge.execute()
    # Asking for the columns takes no row, and columns that a clause adds can be named.
    reader, more = rows.to_reader(), pa.table({"id": [1], "y": ["b"]})
    assert table.merge(reader, "target.id = source.id").when_matched_delete().execute().deleted_rows == 1
    added = table.merge(more, "target.y = source.y", schema_mode="merge").when_not_matched_insert_all()
    assert added.execute().inserted_rows == 1


@pytest.mark.parametrize("form", ["iceberg", "delta"])
def test_a_boolean_column_is_a_condition_of_merges(tmp_path: Path, form: Format) -> None:
    """Where one side alone has it, as in Spark."""
    write_table(tmp_path / form, pa.table({"id": [1, 2, 3], "flag": [True, False, None]}), format=form)
    table: Any = open_table(tmp_path / form)
    for on in ("flag", col("flag"), "target.flag"):
        merge = table.merge(pa.table({"key": [9]}), on).when_matched_update({"id": "id + key"})
        assert merge.execute().updated_rows == 1
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [2, 3, 28]
    with pytest.raises(InvalidArgumentError, match="a column alone, flag: "):
        table.merge(pa.table({"flag": [True]}), "flag").when_matched_delete().execute()
