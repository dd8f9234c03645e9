"""Merging: the rows, the change feed, the metrics and the row ids, as a model in plain Python has them."""

from __future__ import annotations

import datetime as dt
import json
import random
from collections import Counter
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import DeltaTable, col, create_table
from deltaberg.errors import (
    ColumnNotFoundError,
    ConcurrentAppendError,
    ConcurrentDeleteDeleteError,
    ConstraintViolationError,
    EvaluationError,
    ExpressionError,
    InvalidArgumentError,
    UnsupportedExpressionError,
)
from tests.support.merge_model import ON, Clause, SeveralMatchesError, drawn_clauses, drawn_rows, merged, with_clause

_COLUMNS = pa.schema([("id", pa.int64()), ("name", pa.string()), ("x", pa.int64())])
_VECTORS = {"delta.enableDeletionVectors": "true"}
_FEED = {"delta.enableChangeDataFeed": "true"}
_TRACKED = {"delta.enableRowTracking": "true"}
Row = tuple[Any, Any, Any]


def _rows(*rows: Row) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(_COLUMNS.names, row, strict=True)) for row in rows], _COLUMNS)


def _table(root: Path, *files: list[Row], properties: dict[str, str] | None = None, **more: Any) -> DeltaTable:
    table: DeltaTable = create_table(root, _COLUMNS, properties=properties, **more)
    for rows in files:
        table.append(_rows(*rows))
    return table


def _content(table: DeltaTable) -> Counter[Row]:
    return Counter(tuple(row.values()) for row in table.scan().to_arrow().to_pylist())


def _expected(target: list[Row], source: list[Row], on: str, clauses: list[Clause]) -> Counter[Row]:
    return Counter(merged(target, source, on, clauses))


def _outcome(change: Any) -> Any:
    try:
        return change()
    except (SeveralMatchesError, ConstraintViolationError) as error:
        return type(error).__name__.replace("SeveralMatchesError", "ConstraintViolationError")


@pytest.mark.req("DL-CDF-01", "DL-CDF-04", half="writer")
@pytest.mark.parametrize("memory", [None, 2_000])
@pytest.mark.parametrize("properties", [{}, {**_VECTORS, **_FEED}, {**_FEED, **_TRACKED}])
def test_random_merges_do_what_the_model_does(
    tmp_path: Path, properties: dict[str, str], memory: int | None, seed: int
) -> None:
    draw = random.Random(f"{seed} {sorted(properties)} {memory}")
    for number in range(12):
        files = [drawn_rows(draw, draw.randint(0, 9), unique=False) for _ in range(draw.randint(1, 3))]
        source = drawn_rows(draw, draw.randint(0, 10), unique=draw.random() < 0.8)
        on, clauses = draw.choice(list(ON)), drawn_clauses(draw)
        table = _table(tmp_path / str(number), *files, properties=properties)
        before = _content(table)
        old = [row for rows in files for row in rows]
        expected = _outcome(partial(_expected, old, source, on, clauses))
        merge: Any = table.merge(_rows(*source), on, source_alias="s", target_alias="t", memory=memory)
        for clause in clauses:
            merge = with_clause(merge, clause)
        version = table.version
        result = _outcome(merge.execute)
        if isinstance(expected, str):
            assert result == expected, (on, clauses)
            assert (table.version, _content(table)) == (version, before)
            continue
        assert not isinstance(result, str), (on, clauses, files, source)
        assert _content(DeltaTable(table.location)) == expected, (on, clauses, files, source)
        if properties.get("delta.enableChangeDataFeed") and result.committed:
            changes = table.changes(result.version).to_arrow().to_pylist()
            for change in changes:
                row = tuple(change[name] for name in _COLUMNS.names)
                before[row] += 1 if change["_change_type"] in ("insert", "update_postimage") else -1
            assert +before == expected
            assert not -before
        updated, deleted = (result.metrics.get(f"numTargetRows{what}", 0) for what in ("Updated", "Deleted"))
        inserted = result.metrics.get("numTargetRowsInserted", 0)
        assert sum(expected.values()) == sum(len(rows) for rows in files) + inserted - deleted
        assert result.committed == bool(updated + deleted + inserted)


def test_what_the_history_says(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", [(1, "a", 1), (2, "b", 2), (3, "c", 3)])
    source = _rows((1, "A", 9), (2, "B", 0), (7, "n", 0))
    merge = table.merge(source, "target.id = source.id").when_matched_update_all("source.x > 5").when_matched_delete()
    result = merge.when_not_matched_insert_all().execute()
    text = (tmp_path / "t" / "_delta_log" / f"{result.version:020d}.json").read_text("utf-8")
    info = json.loads(text.splitlines()[0])["commitInfo"]
    assert info["operation"] == "MERGE"
    assert info["operationParameters"] == {
        "predicate": '["target.id = source.id"]',
        "matchedPredicates": '[{"predicate": "source.x > 5", "actionType": "update"}, {"actionType": "delete"}]',
        "notMatchedPredicates": '[{"actionType": "insert"}]',
        "notMatchedBySourcePredicates": "[]",
    }
    metrics = info["operationMetrics"]
    counted = {
        "numSourceRows": "3",
        "numTargetRowsInserted": "1",
        "numTargetRowsUpdated": "1",
        "numTargetRowsDeleted": "1",
        "numTargetRowsMatchedUpdated": "1",
        "numTargetRowsMatchedDeleted": "1",
        "numTargetRowsNotMatchedBySourceUpdated": "0",
        "numTargetRowsCopied": "1",
        "numOutputRows": "3",
        "numTargetFilesAdded": "1",
        "numTargetFilesRemoved": "1",
    }
    assert {name: metrics[name] for name in counted} == counted


@pytest.mark.parametrize("properties", [{}, _VECTORS])
def test_row_ids_stay_with_updated_rows(tmp_path: Path, properties: dict[str, str]) -> None:
    table = _table(tmp_path / "t", [(1, "a", 1), (2, "b", 2), (3, "c", 3)], properties={**_TRACKED, **properties})
    columns = ["id", "_metadata"]

    def ids() -> dict[int, tuple[int, int]]:
        rows = table.scan(columns=columns).to_arrow().to_pylist()
        return {row["id"]: tuple(row["_metadata"][name] for name in ("row_id", "row_commit_version")) for row in rows}

    before = ids()
    merge = table.merge(_rows((2, "B", 0), (9, "n", 0)), "target.id = source.id")
    version = merge.when_matched_update_all().when_not_matched_insert_all().execute().version
    after = ids()
    assert after[1] == before[1]
    assert after[2] == (before[2][0], version)
    assert after[9][0] not in {row for row, _ in before.values()}


def test_files_without_keys_of_the_source_are_not_read(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", [(1, "a", 1), (2, "b", 2)], [(11, "c", 3)], [(21, "d", 3)])
    for path in table.scan("id > 20").files()["file_path"].to_pylist():
        Path(path.removeprefix("file://")).unlink()
    merge = table.merge(_rows((2, "B", 0), (11, "C", 1), (15, "n", 2)), "target.id = source.id")
    result = merge.when_matched_update_all().when_not_matched_insert_all().execute()
    assert (result.added_rows, result.removed_files) == (4, 2)


def test_columns_of_the_source_are_added(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", [(1, "a", 1), (2, "b", 2)])
    source = pa.table({"id": [2, 3], "extra": [2.5, 3.5], "other": ["x", "y"]})
    with pytest.raises(ColumnNotFoundError, match="the source lacks the column name"):
        table.merge(source, "target.id = source.id").when_matched_update_all().execute()
    merge = table.merge(source, "target.id = source.id", schema_mode="merge")
    merge.when_matched_update({"extra": "source.extra"}).execute()
    assert table.schema.names == ["id", "name", "x", "extra"]
    merge = table.merge(source, "target.id = source.id", schema_mode="merge")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    assert table.scan().to_arrow().sort_by("id").to_pylist() == [
        {"id": 1, "name": "a", "x": 1, "extra": None, "other": None},
        {"id": 2, "name": "b", "x": 2, "extra": 2.5, "other": "x"},
        {"id": 3, "name": None, "x": None, "extra": 3.5, "other": "y"},
    ]


def test_columns_by_sequences_of_names_are_added(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", [(1, "a", 1)])
    source = pa.table({"id": [1, 2], "n": [10, 20], "o": [1.5, 2.5]})
    assert table.upsert(source.select(["id", "n"]), "id", schema_mode="merge").committed
    merge = table.merge(source, "target.id = source.id", schema_mode="merge")
    new: dict[tuple[str, ...], str] = {("O",): "source.o"}
    merge.when_matched_update(new).execute()
    assert table.scan().to_arrow().sort_by("id").select(["id", "n", "o"]).to_pylist() == [
        {"id": 1, "n": 10, "o": 1.5},
        {"id": 2, "n": 20, "o": 2.5},
    ]


def test_values_are_converted_to_the_types_of_columns(tmp_path: Path) -> None:
    columns = pa.schema([("k", pa.int32()), ("d", pa.decimal128(6, 2)), ("day", pa.date32()), ("f", pa.float32())])
    table = create_table(tmp_path / "t", columns, partition_by="day")
    day = dt.date(2026, 1, 2)
    table.append(pa.table({"k": [1], "d": [Decimal("1.50")], "day": [day], "f": [0.5]}, columns))
    source = pa.table({"k": pa.array([1, 2], pa.int64()), "d": pa.array([7, 8], pa.int16())})
    merge = table.merge(source, "target.k = source.k", target_alias="target")
    merge = merge.when_matched_update({"d": "source.d", "f": 2}).when_not_matched_insert({"k": "k", "day": day})
    merge.execute()
    assert table.scan().to_arrow().sort_by("k").to_pylist() == [
        {"k": 1, "d": Decimal("7.00"), "day": day, "f": 2.0},
        {"k": 2, "d": None, "day": day, "f": None},
    ]
    wide = pa.table({"k": pa.array([1], pa.int64()), "d": pa.array([1 << 40])})
    with pytest.raises(EvaluationError, match="does not fit into decimal"):
        table.merge(wide, "target.k = source.k").when_matched_update({"d": "source.d"}).execute()
    assert table.version == 2


def test_merges_that_cannot_be(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", [(1, "a", 1)])
    source = _rows((1, "b", 2))
    merge = table.merge(source, "target.id = source.id")
    for wrong, kind, message in (
        (merge.execute, InvalidArgumentError, "no clauses"),
        (lambda: table.merge(source), InvalidArgumentError, "needs the argument on"),
        (lambda: table.merge(source, "x = 1", predicate="x = 1"), InvalidArgumentError, "are the same"),
        (lambda: table.merge(source, "a.id = A.id", source_alias="a", target_alias="A"), InvalidArgumentError, "alias"),
        (lambda: table.merge(source, "true", schema_mode="overwrite"), InvalidArgumentError, "overwrite"),
        (lambda: merge.when_matched_update({}), InvalidArgumentError, "no column gets a new value"),
        (
            merge.when_matched_update,
            InvalidArgumentError,
            "needs the argument set\nhint: pass a new value for each column",
        ),
        (lambda: merge.when_matched_delete("x = 1", predicate="x = 1"), InvalidArgumentError, "the same"),
        (
            lambda: table.merge(source, "true").when_matched_delete().when_matched_delete("true"),
            InvalidArgumentError,
            "would never count",
        ),
        *(
            (
                lambda on=on: table.merge(source, on).when_matched_delete().execute(),
                ExpressionError,
                "names no column of",
            )
            for on in ("source.id > 0", col("source.id") > 0, "source.id = source.x OR source.x IS NULL")
        ),
        (lambda: table.merge(source, "id = 1").when_matched_delete().execute(), ExpressionError, "on several sides"),
        (
            lambda: table.merge(source, "target.id = source.id").when_matched_update({"x": "1", "X": "2"}).execute(),
            InvalidArgumentError,
            "assigned twice|set twice",
        ),
        (
            lambda: table.merge(source, "target.id = source.id").when_matched_update({"x": "rand()"}).execute(),
            UnsupportedExpressionError,
            "not deterministic",
        ),
        (
            lambda: table.merge(source, "target.id = source.id").when_matched_update({"y": "1"}).execute(),
            ColumnNotFoundError,
            "y",
        ),
    ):
        with pytest.raises(kind, match=message):
            wrong()
    assert (table.version, _content(table)) == (1, Counter([(1, "a", 1)]))


def test_the_words_of_deltalake(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", [(1, "a", 1), (2, "b", 2)])
    merge = table.merge(
        source=_rows((2, "B", 5), (3, "c", 3)), predicate="t.id = s.id", source_alias="s", target_alias="t"
    )
    merge = merge.when_matched_update(updates={"x": "s.x"}, predicate="s.x > 1")
    merge = merge.when_not_matched_insert(updates={"id": "s.id", "name": "s.name"}, predicate="s.id = 3")
    merge.when_not_matched_by_source_delete(predicate="t.id < 2").execute()
    assert _content(table) == Counter([(2, "b", 5), (3, "c", None)])
    merge = table.merge(_rows((2, "B", 6)), "t.id = s.id", source_alias="s", target_alias="t")
    merge.when_matched_update_all(except_cols=["name"]).execute()
    assert _content(table) == Counter([(2, "b", 6), (3, "c", None)])
    merge = table.merge(_rows((2, "C", 7)), "t.id = s.id", source_alias="s", target_alias="t")
    merge.when_matched_update_all(except_cols="name").execute()
    assert _content(table) == Counter([(2, "b", 7), (3, "c", None)])


def test_the_source_may_be_a_scan_of_the_table_or_a_table(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", [(1, "a", 1), (2, "b", 2)])
    merge = table.merge(table.scan("id = 2"), "target.id = source.id")
    merge.when_matched_update({"x": "source.x + target.x"}).execute()
    merge = table.merge(DeltaTable(table.location), "target.id = source.id")
    merge.when_matched_update({"x": "source.x + 1"}).execute()
    assert _content(table) == Counter([(1, "a", 2), (2, "b", 5)])


@pytest.mark.parametrize("memory", [None, 500])
def test_upsert(tmp_path: Path, memory: int | None) -> None:
    table = _table(tmp_path / "t", [(1, "a", 1), (2, "b", 2), (2, "other", 2)])
    result = table.upsert(pa.table({"id": [2, 3], "x": pa.array([20, 30], pa.int16())}), "id", memory=memory)
    assert (result.metrics["numTargetRowsUpdated"], result.metrics["numTargetRowsInserted"]) == (2, 1)
    assert _content(table) == Counter([(1, "a", 1), (2, "b", 20), (2, "other", 20), (3, None, 30)])
    result = table.upsert(_rows((3, "c", 3), (4, "d", 4)), ["ID"], when_not_matched="ignore")
    assert (result.metrics["numTargetRowsUpdated"], result.metrics["numTargetRowsInserted"]) == (1, 0)
    result = table.upsert(_rows((3, "no", 3), (5, "e", 5)), ["id"], when_matched="ignore")
    assert (result.removed_files, result.added_rows) == (0, 1)
    assert _content(table)[(3, "c", 3)] == _content(table)[(5, "e", 5)] == 1
    version = table.version
    many = [(number, "n", number) for number in range(100)]
    for wrong, keys, kind, message in (
        (_rows(*many, (7, "again", 0)), "id", ConstraintViolationError, "the same key"),
        (_rows((None, "n", 0)), "id", ConstraintViolationError, "the key id is null"),
        (_rows((1, "n", 0)), [], InvalidArgumentError, "needs keys"),
        (_rows((1, "n", 0)), None, InvalidArgumentError, "needs keys"),
        (_rows((1, "n", 0)), 5, InvalidArgumentError, "5 does not name columns"),
        (_rows((1, "n", 0)), [5], InvalidArgumentError, "5 is not a column name"),
        (_rows((1, "n", 0)), "missing", ColumnNotFoundError, "missing"),
    ):
        with pytest.raises(kind, match=message):
            table.upsert(wrong, keys, memory=memory)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="all rows are ignored"):
        table.upsert(_rows((1, "n", 0)), "id", when_matched="ignore", when_not_matched="ignore")
    assert table.version == version
    assert table.upsert(_rows(*many[:4]), ["id", "name"], memory=memory).metrics["numTargetRowsInserted"] == 4


def test_nothing_to_do_makes_no_version(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", [(1, "a", 1)])
    result = table.merge(_rows((2, "b", 2)), "target.id = source.id").when_matched_delete().execute()
    assert (result.committed, result.version, table.version) == (False, 1, 1)
    assert not table.upsert(_rows(), "id").committed


def test_merges_and_other_commits(tmp_path: Path) -> None:
    """A merge is in conflict with rows that others add or remove where its keys are, and with nothing else."""
    table = _table(tmp_path / "t", [(1, "a", 1), (2, "b", 2)], [(11, "c", 3)])
    late = {name: DeltaTable(table.location) for name in ("apart", "appended")}
    table.append(_rows((50, "far", 1)))

    def merge(name: str, *rows: Row) -> Any:
        builder = late[name].merge(_rows(*rows), "target.id = source.id")
        return builder.when_matched_update_all().when_not_matched_insert_all().execute()

    assert merge("apart", (1, "A", 1), (3, "n", 1)).committed
    with pytest.raises(ConcurrentAppendError, match=r"version 3 .* added a file that had to be read: the filter id IN"):
        merge("appended", (50, "mine", 1))
    late["removed"] = DeltaTable(table.location)
    DeltaTable(table.location).delete("id = 11")
    with pytest.raises(ConcurrentDeleteDeleteError, match=r"version 5 .* removed a file that this change removes, too"):
        merge("removed", (11, "C", 1))
    assert _content(DeltaTable(table.location)) == Counter(
        [(1, "A", 1), (2, "b", 2), (3, "n", 1), (50, "far", 1)],
    )


def test_merges_share_a_transaction(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", [(1, "a", 1)], properties=_VECTORS)
    with table.transaction() as transaction:
        transaction.append(_rows((2, "b", 2)))
        transaction.merge(_rows((2, "B", 3)), "target.id = source.id").when_matched_update_all().execute()
        transaction.upsert(_rows((1, "A", 1), (3, "c", 3)), "id")
    assert _content(table) == Counter([(1, "A", 1), (2, "B", 3), (3, "c", 3)])
    assert table.version == 2


def test_append_only_tables_take_inserts_alone(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", [(1, "a", 1)], properties={"delta.appendOnly": "true"})
    merge = table.merge(_rows((1, "A", 1), (2, "b", 2)), "target.id = source.id")
    assert merge.when_not_matched_insert_all().execute().added_rows == 1
    with pytest.raises(ConstraintViolationError, match="only grows"):
        table.upsert(_rows((1, "A", 1)), "id")


@pytest.mark.parametrize("memory", [None, 500])
@pytest.mark.parametrize("properties", [{}, {**_VECTORS, **_FEED}], ids=["copy", "vectors and feed"])
def test_columns_may_have_any_name(tmp_path: Path, properties: dict[str, str], memory: int | None) -> None:
    """Such as those by which rows are known while they are merged."""

    def rows(*keys: int, by: int) -> pa.Table:
        names = ("position", "clause", "file", "row", "number")
        return pa.table({name: [key if name == "position" else by * key for key in keys] for name in names})

    table = create_table(tmp_path / "t", rows(0, by=1).schema, properties=properties)
    table.append(rows(*range(200), by=1))
    merge = table.merge(rows(*range(100, 300), by=2), "target.position = source.position", memory=memory)
    merge = merge.when_matched_update({"clause": "source.clause"}, "source.file < 300").when_matched_update_all()
    merge.when_not_matched_by_source_update({"number": "-1"}, "position < 3").when_not_matched_insert_all().execute()
    table.upsert(rows(299, 300, by=5), "position", memory=memory)
    expected = {key: (key, key, -1 if key < 3 else key) for key in range(100)}
    expected |= {key: (2 * key, key, key) if key < 150 else (2 * key,) * 3 for key in range(100, 299)}
    expected |= {key: (5 * key,) * 3 for key in (299, 300)}
    found = table.scan(columns=["position", "clause", "file", "number"]).to_arrow().to_pylist()
    assert {row["position"]: (row["clause"], row["file"], row["number"]) for row in found} == expected
    assert len(found) == 301
