"""What would drop rows or columns, or make a log entry that others cannot read, is refused before rows are written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from deltaberg import create_table, load_catalog, open_table, write_table
from deltaberg.delta import DeltaTable
from deltaberg.errors import (
    ColumnNotFoundError,
    ConcurrentAppendError,
    ConcurrentTransactionError,
    ConstraintViolationError,
    DeltabergError,
    InvalidArgumentError,
    SchemaError,
    UnsupportedExpressionError,
    VersionNotFoundError,
)

_ROWS = pa.table({"id": [1, 2, 3], "x": ["a", "b", "c"]})


@pytest.fixture
def table(tmp_path: Path) -> DeltaTable:
    """Return a Delta table of three rows, in version 1."""
    table = create_table(tmp_path / "t", _ROWS.schema)
    table.append(_ROWS)
    return table


def _values(table: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = open_table(table.location).scan().to_arrow().sort_by("id").to_pylist()
    return rows


@pytest.mark.one_backend
@pytest.mark.parametrize(
    ("write", "error", "message"),
    [
        (lambda table: table.append(_ROWS, user_metadata={"a": 1}), InvalidArgumentError, "user_metadata must be text"),
        (lambda table: table.append(_ROWS, user_metadata=7), InvalidArgumentError, "user_metadata must be text"),
        (lambda table: table.append(_ROWS, txn="app"), InvalidArgumentError, "txn must be the name of an application"),
        (lambda table: table.append(_ROWS, txn=("a", "1")), InvalidArgumentError, "version of an application must be"),
        (lambda table: table.append(_ROWS, txn=("", 1)), InvalidArgumentError, "application must be text"),
        (lambda table: table.transaction(isolation="bad"), InvalidArgumentError, "no isolation level 'bad'"),
        (lambda table: table.transaction(isolation=1), InvalidArgumentError, "isolation must be text"),
        (lambda table: table.append(_ROWS, allow_truncation="no"), InvalidArgumentError, "must be True or False"),
        (lambda table: table.compact(target_size=0), InvalidArgumentError, "^target_file_size must be"),
        (lambda table: table.alter().describe(description=5).commit(), InvalidArgumentError, "description must be"),
        (
            lambda table: table.alter().set({"delta.dataSkippingStatsColumns": "id,zz"}).commit(),
            ColumnNotFoundError,
            "there is no column 'zz'",
        ),
        (lambda table: table.alter().set_default("x", "abc").commit(), ColumnNotFoundError, "quote a text twice"),
        (lambda table: table.update({"x": "hello"}), ColumnNotFoundError, r"""quote a text twice, as in "'hello'\""""),
        (lambda table: table.update({"x": "hello world"}), UnsupportedExpressionError, "quote a text"),
        (lambda table: table.delete("x IN (SELECT y FROM z)"), UnsupportedExpressionError, "asks another query"),
        (
            lambda table: table.merge(table.to_arrow(), "x").when_matched_delete().execute(),
            InvalidArgumentError,
            "target.x = source.x, or target.x",
        ),
        (lambda table: table.changes(99), VersionNotFoundError, "no changes from version 99 on yet"),
        (lambda table: table.append(iter([])), InvalidArgumentError, "the iterator gives no rows"),
        (lambda table: table.append(iter([1])), InvalidArgumentError, "data of type int cannot be written"),
        (
            lambda table: table.append(pd.DataFrame({"x": ["d"]}, index=["k"])),
            InvalidArgumentError,
            "the index of the pandas data frame holds values",
        ),
        (
            lambda table: table.append(pd.DataFrame({"x": ["d"]}, index=pd.Index([4], name="x"))),
            InvalidArgumentError,
            "has the name of a column",
        ),
    ],
)
def test_words_that_cannot_be_recorded(
    table: DeltaTable, write: Callable[[DeltaTable], object], error: type[DeltabergError], message: str
) -> None:
    before = sorted(Path(table.location).rglob("*"))
    with pytest.raises(error, match=message):
        write(table)
    assert sorted(Path(table.location).rglob("*")) == before


_MERGE_ON = "target.id = source.id"
_FORMATS = pytest.mark.parametrize("format", ["delta", "iceberg"])


def _in_transaction(table: Any, **words: Any) -> None:
    with table.transaction(**words) as transaction:
        transaction.append(_ROWS)


@pytest.mark.one_backend
@_FORMATS
@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda table: _in_transaction(table, policy=5), "policy must be of the type CommitPolicy, not int"),
        (lambda table: _in_transaction(table, policy="x"), "policy must be of the type CommitPolicy, not str"),
        (lambda table: _in_transaction(table, progress=5), "progress must be a function, not 5"),
        (lambda table: table.overwrite(_ROWS, schema_mode="overwrite", partition_by=5), "5 does not name columns"),
        (
            lambda table: table.merge(_ROWS, _MERGE_ON).when_matched_update_all(except_cols=5).execute(),
            "5 does not name columns",
        ),
        (
            lambda table: table.merge(_ROWS, _MERGE_ON).when_not_matched_insert_all(except_cols=[5]).execute(),
            "5 is not a column name",
        ),
        (lambda table: table.alter().comment([], "c").commit(), "a column name has no parts"),
        (lambda table: table.alter().add([], pa.int64()).commit(), "a column name has no parts"),
        (lambda table: table.alter().drop_not_null([]).commit(), "a column name has no parts"),
    ],
)
def test_arguments_of_other_types(tmp_path: Path, format: Any, write: Callable[[Any], object], message: str) -> None:
    _refused(tmp_path, format, write, message)


def _refused(root: Path, format: Any, write: Callable[[Any], object], message: str) -> None:
    table = create_table(root / "t", _ROWS.schema, format=format)
    table.append(_ROWS)
    before = sorted(Path(table.location).rglob("*"))
    with pytest.raises(InvalidArgumentError, match=message):
        write(table)
    assert sorted(Path(table.location).rglob("*")) == before


@pytest.mark.one_backend
@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda table: table.append(_ROWS, partition_by=5), "5 does not name columns"),
        (lambda table: table.checkpoint("classic"), "layout must be of the type CheckpointLayout, not str"),
        (lambda table: table.compact_log("0", 1), "first must be a 64-bit integer of at least 0, not '0'"),
        (lambda table: table.compact_log(0, None), "last must be a 64-bit integer of at least 0, not None"),
        (lambda table: table.alter().drop_feature(["a"]).commit(), "the name of a feature must be text"),
        (lambda table: table.alter().unset(["a"]).commit(), "the name of a property must be text"),
    ],
)
def test_arguments_of_delta_tables_of_other_types(tmp_path: Path, write: Callable[[Any], object], message: str) -> None:
    _refused(tmp_path, "delta", write, message)


@pytest.mark.one_backend
@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda table: table.append(_ROWS, branch=["main"]), "branch must be text"),
        (lambda table: table.delete_by_keys(_ROWS.select(["id"]), 5), "5 does not name columns"),
        (lambda table: table.alter().create_branch(5).commit(), "the name of a reference must be text"),
        (lambda table: table.alter().create_tag({}).commit(), "the name of a reference must be text"),
        (
            lambda table: table.alter().create_tag("t", []).commit(),
            r"the id of a snapshot must be an integer, not \[\]",
        ),
        (lambda table: table.alter().drop_branch([]).commit(), "the name of a reference must be text"),
        (lambda table: table.alter().fast_forward("b", []).commit(), "the name of a reference must be text"),
        (lambda table: table.alter().set_current_snapshot(ref=[]).commit(), "the name of a reference must be text"),
        (lambda table: table.alter().widen(5, pa.int64()).commit(), "5 is not a column name"),
        (lambda table: table.alter().undrop([]).commit(), "a column name has no parts"),
    ],
)
def test_arguments_of_iceberg_tables_of_other_types(
    tmp_path: Path, write: Callable[[Any], object], message: str
) -> None:
    _refused(tmp_path, "iceberg", write, message)


@pytest.mark.one_backend
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda catalog: catalog.create_namespace("n", 5), "properties is not a mapping"),
        (lambda catalog: catalog.update_namespace_properties("a", removals=5), "removals must be the names"),
        (lambda catalog: catalog.update_namespace_properties("a", updates=5), "properties is not a mapping"),
        (lambda catalog: catalog.register_table("a.t", 5), "metadata_location must be text"),
    ],
)
def test_arguments_of_catalogs_of_other_types(tmp_path: Path, call: Callable[[Any], object], message: str) -> None:
    catalog = load_catalog("c", type="sql", uri=f"sqlite:///{tmp_path}/c.db", warehouse=str(tmp_path / "w"))
    catalog.create_namespace("a", {"owner": "ada"})
    with pytest.raises(InvalidArgumentError, match=message):
        call(catalog)
    assert catalog.list_namespaces() == [("a",)]
    assert catalog.load_namespace_properties("a")["owner"] == "ada"


@pytest.mark.one_backend
@pytest.mark.parametrize(
    "words", [{"partition_by": 5}, {"description": 5}, {"properties": {"delta.dataSkippingStatsColumns": "zz"}}]
)
def test_new_tables_that_cannot_be_recorded(tmp_path: Path, words: dict[str, Any]) -> None:
    with pytest.raises(
        (InvalidArgumentError, ColumnNotFoundError),
        match=r"not name columns|must be text|no column",
    ):
        create_table(tmp_path / "t", _ROWS.schema, **words)
    assert not (tmp_path / "t").exists()


@pytest.mark.one_backend
def test_progress_of_several_applications_is_all_or_nothing(table: DeltaTable) -> None:
    """Progress that another commit has recorded for one of them does not stand for the other, nor for rows."""
    transaction = table.transaction()
    transaction.set_transaction("A", 1)
    transaction.set_transaction("B", 7)
    transaction.append(pa.table({"id": [9]}))
    open_table(table.location, "delta").append(pa.table({"id": [8]}), txn=("A", 1))
    with pytest.raises(ConcurrentTransactionError, match="application A"):
        transaction.commit()
    assert [row["id"] for row in _values(table)] == [1, 2, 3, 8]
    assert "B" not in open_table(table.location, "delta").transactions


@pytest.mark.one_backend
def test_the_hint_of_a_conflict_helps(table: DeltaTable) -> None:
    other = open_table(table.location)
    other.update({"x": "'z'"}, "id = 1")
    with pytest.raises(ConcurrentAppendError) as caught:
        table.delete("id = 1")
    assert caught.value.hint == "refresh the table, and repeat the operation"
    assert table.refresh().delete("id = 1").metrics["numDeletedRows"] == 1


@pytest.mark.one_backend
@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_operations_that_find_no_row_count_zero(tmp_path: Path, format: Any) -> None:
    table = create_table(tmp_path / "t", _ROWS.schema, format=format)
    table.append(_ROWS)
    none = _ROWS.slice(0, 0)
    results = [
        (table.delete("id > 9"), "numDeletedRows"),
        (table.update({"x": "'z'"}, "id > 9"), "numUpdatedRows"),
        (table.upsert(none, "id"), "numTargetRowsInserted"),
        (table.merge(none, "target.id = source.id").when_matched_delete().execute(), "numTargetRowsDeleted"),
    ]
    assert [(result.committed, result.metrics[name]) for result, name in results] == [(False, 0)] * 4


@pytest.mark.one_backend
def test_an_overwrite_without_a_column_of_a_constraint(table: DeltaTable) -> None:
    table.alter().add_constraint("short", "length(x) < 9").commit()
    with pytest.raises(SchemaError, match="lack the column x, which the CHECK constraint short names") as caught:
        table.overwrite(pa.table({"id": [7]}), schema_mode="overwrite")
    assert "drop_constraint('short')" in (caught.value.hint or "")


def test_rows_of_frames_iterators_and_tables(table: DeltaTable, tmp_path: Path) -> None:
    """The keys of a grouped data frame are rows as well, and a table is as good as its scan."""
    grouped = pd.DataFrame({"region": ["n", "s", "n"], "day": [1, 1, 1], "v": [1, 2, 3]}).groupby(["region", "day"])
    write_table(tmp_path / "sums", grouped.sum())
    found = open_table(tmp_path / "sums").scan().to_arrow().sort_by("region").to_pylist()
    assert found == [{"region": "n", "day": 1, "v": 4}, {"region": "s", "day": 1, "v": 2}]
    frame = pd.DataFrame({"id": [4, 5, 6], "x": ["d", "e", "f"]})
    table.append(frame[frame["id"] > 4])
    table.append(batch for batch in pa.table({"id": [7, 8]}).to_batches(max_chunksize=1))
    copy = create_table(tmp_path / "copy", _ROWS.schema, format="iceberg")
    copy.append(table)
    copy.append(open_table(tmp_path / "copy"))
    assert [row["id"] for row in _values(copy)] == [key for key in (1, 2, 3, 5, 6, 7, 8) for _ in range(2)]


@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_only_an_overwrite_of_all_rows_names_what_replaces_columns(tmp_path: Path, table_format: Any) -> None:
    table = create_table(tmp_path, pa.schema([("id", pa.int64())]), format=table_format)
    rows = pa.table({"id": [1], "more": [2]})
    adds = 'leave them out, or use schema_mode="merge" to add columns to the table'
    replaces = f'{adds}, or schema_mode="overwrite" to replace its columns'
    calls: list[tuple[Callable[[], object], str]] = [
        (lambda: table.append(rows), adds),
        (lambda: table.overwrite(rows, where="id = 1"), adds),
        (lambda: table.overwrite(rows), replaces),
        (lambda: write_table(tmp_path, rows, mode="overwrite", format=table_format), replaces),
    ]
    for call, hint in calls:
        with pytest.raises(SchemaError, match="columns that the table does not have: more") as caught:
            call()
        assert caught.value.hint == hint


@pytest.mark.one_backend
@_FORMATS
def test_new_rows_match_a_filter_of_fields_of_structs(tmp_path: Path, format: Any) -> None:
    """Columns of the names of the fields, whose values are others, do not count."""
    kind = pa.struct([("a", pa.int64()), ("b", pa.struct([("a", pa.int64())]))])
    schema = pa.schema([("a", pa.int64()), ("b", pa.int64()), ("s", kind)])

    def rows(*values: tuple[int, int]) -> pa.Table:
        return pa.table(
            {"a": [0] * len(values), "b": [0] * len(values), "s": [{"a": one, "b": {"a": two}} for one, two in values]},
            schema=schema,
        )

    table = create_table(tmp_path / "t", schema, format=format)
    table.append(rows((1, 5), (1, 6), (2, 5)))
    for condition, fitting, wrong in (("s.a = 1", (1, 7), (0, 5)), ("s.b.a = 5", (3, 5), (5, 0))):
        with pytest.raises(ConstraintViolationError, match="violates the filter of the rows to be replaced: s="):
            table.overwrite(rows(fitting, wrong), where=condition)
        table.overwrite(rows(fitting), where=condition)
    left = open_table(table.location).scan(columns=["s"]).to_arrow()["s"].to_pylist()
    assert sorted((row["a"], row["b"]["a"]) for row in left) == [(1, 7), (3, 5)]
