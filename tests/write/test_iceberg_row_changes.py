"""Rows of Iceberg tables that are deleted, updated, merged and upserted: by writing files anew, and by hiding rows."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import StaticTable

from deltaberg import create_table, open_table
from deltaberg.errors import (
    CommitConflictError,
    ConcurrentAppendError,
    ConcurrentDeleteDeleteError,
    ConcurrentDeleteReadError,
    ConstraintViolationError,
    EvaluationError,
    InvalidArgumentError,
)
from deltaberg.iceberg import IcebergTable
from deltaberg.iceberg.table_transaction import IcebergTransaction
from tests.support.iceberg_builder import IcebergBuilder

#: Each format version with each of its ways to change rows.
_WAYS = pytest.mark.parametrize(
    ("version", "mode"),
    [(version, mode) for version in "123" for mode in ("copy-on-write", "merge-on-read") if version + mode[0] != "1m"],
)
_COLUMNS = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), ("kind", pa.string()), ("d", pa.date32()), ("x", pa.int64())]
)
_DAYS = [dt.date(2020, 1, 7), dt.date(2020, 2, 2), None]
_LINEAGE = ["_row_id", "_last_updated_sequence_number"]

Row = dict[str, Any]


def _row(number: int, x: int | None = None) -> Row:
    kind = None if number % 5 == 4 else "ab"[number % 2]
    return {"id": number, "kind": kind, "d": _DAYS[number % 3], "x": number * 10 if x is None else x}


def _rows(*ids: int, x: int | None = None) -> pa.Table:
    return pa.Table.from_pylist([_row(number, x) for number in ids], _COLUMNS)


def _new(root: Path, version: str, **more: Any) -> IcebergTable:
    properties = {"format-version": version, **more.pop("properties", {})}
    table: IcebergTable = create_table(root / "t", _COLUMNS, format="iceberg", properties=properties, **more)
    return table


def _modes(mode: str) -> dict[str, str]:
    return {f"write.{kind}.mode": mode for kind in ("delete", "update", "merge")}


def _content(table: IcebergTable) -> dict[int, Row]:
    """Return all rows by their ids, with their row ids where the table has them, as two readers see them."""
    got = table.scan(columns=[*table.schema.names, *(_LINEAGE if table.format_version > 2 else [])]).to_arrow()
    if table.properties.get("write.format.default") != "avro":
        # pyiceberg does not read Avro files.
        theirs = StaticTable.from_metadata(table.metadata_location).scan().to_arrow().sort_by("id")
        assert theirs.to_pylist() == got.select(theirs.column_names).sort_by("id").to_pylist()
    assert open_table(table.location, "iceberg", validate=True).scan().count() == len(got)
    found = {row["id"]: row for row in got.to_pylist()}
    assert len(found) == len(got)
    return found


def _changed(before: Row, number: int | None, **values: Any) -> Row:
    """Return a row after an update by the snapshot of a sequence number."""
    lineage = {_LINEAGE[1]: number} if _LINEAGE[1] in before else {}
    return {**before, **values, **lineage}


def _number(table: IcebergTable) -> int:
    assert table.snapshot is not None
    return table.snapshot.sequence_number


@pytest.mark.parametrize("parts", [[], ["kind", "month(d)"]])
@_WAYS
def test_rows_are_changed(tmp_path: Path, version: str, mode: str, parts: list[str]) -> None:
    table = _new(tmp_path, version, properties=_modes(mode), **({"partition_by": parts} if parts else {}))
    table.append(_rows(*range(6)))
    # Rows of an older partitioning and without a column that is newer.
    table.alter().partition_by("bucket(2, id)").add("note", pa.string()).rename("x", "y").commit()
    table.append(_rows(*range(6, 12)).rename_columns(["id", "kind", "d", "y"]))
    rows = _content(table)

    deleted = table.delete("y % 20 = 10 AND kind <> 'a'")
    gone = {number for number, row in rows.items() if row["y"] % 20 == 10 and row["kind"] not in ("a", None)}
    rows = {number: row for number, row in rows.items() if number not in gone}
    kind = "overwrite" if mode == "copy-on-write" else "delete"
    assert (len(gone), deleted.metrics["numDeletedRows"], deleted.operation) == (5, 5, kind)
    assert _content(table) == rows

    updated = table.update({"note": "concat(kind, '!')", "y": "y + id"}, "kind = 'a' OR d IS NULL")
    for number, row in rows.items():
        if row["kind"] == "a" or row["d"] is None:
            note = None if row["kind"] is None else f"{row['kind']}!"
            rows[number] = _changed(row, _number(table), note=note, y=row["y"] + number)
    assert updated.metrics["numUpdatedRows"] == 5
    assert _content(table) == rows

    source = pa.table({"id": [0, 2, 4, 70, 71], "y": [1, None, 3, 4, 5]})
    merge = table.merge(source, "target.id = source.id").when_matched_delete("source.y = 3")
    merge = merge.when_matched_update({"y": "source.y"})
    merge = merge.when_not_matched_insert({"id": "source.id", "y": "source.y"}, "source.y > 4")
    done = merge.when_not_matched_by_source_update({"y": "-1"}, "target.kind IS NULL").execute()
    number = _number(table)
    del rows[4]
    rows[0], rows[2] = _changed(rows[0], number, y=1), _changed(rows[2], number, y=None)
    rows[9] = _changed(rows[9], number, y=-1)
    names = ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted", "numSourceRows")
    assert [done.metrics[name] for name in names] == [1, 3, 1, 5]
    after = _content(table)
    new = after.pop(71)
    assert (new["y"], new["kind"], after) == (5, None, rows)

    table.upsert(pa.table({"id": [2, 71, 80], "note": ["n2", None, "n80"]}), "id")
    # Row 71 would stay as it is.
    rows[2], rows[71] = _changed(rows[2], _number(table), note="n2"), new
    after = _content(table)
    assert (after.pop(80)["note"], after) == ("n80", rows)
    if version == "3":
        ids = [row["_row_id"] for row in _content(table).values()]
        assert len(set(ids)) == len(ids)
    assert table.delete("id > 1000").committed is False
    assert table.update({"y": 0}, "id > 1000").committed is False
    assert table.delete(None).operation == "delete"
    assert _content(table) == {}


@pytest.mark.one_backend
@pytest.mark.parametrize("form", ["orc", "avro"])
def test_files_of_other_formats_are_written_anew(tmp_path: Path, form: str) -> None:
    table = _new(tmp_path, "3", properties={"write.format.default": form})
    table.append(_rows(*range(8)))
    rows = _content(table)
    table.update({"x": "x + 1"}, "id % 4 = 1")
    table.delete("id % 2 = 0 AND x > 30")
    wanted = {number: row for number, row in rows.items() if number % 2 or number < 4}
    for number in (1, 5):
        wanted[number] = _changed(rows[number], 2, x=number * 10 + 1)
    assert _content(table) == wanted


@pytest.mark.one_backend
def test_default_values_of_columns(tmp_path: Path) -> None:
    table = _new(tmp_path, "3")
    table.append(_rows(1, 2))
    table.alter().add("price", pa.int64(), default=7).commit()
    table.update({"x": "price", "price": "DEFAULT"}, "id = 2")
    table.upsert(pa.table({"id": [1, 3], "x": [0, 0]}), ["id"])
    assert {number: (row["x"], row["price"]) for number, row in _content(table).items()} == {
        1: (0, 7),
        2: (7, 7),
        3: (0, 7),
    }


@pytest.mark.one_backend
@_WAYS
def test_operations_of_a_transaction_see_each_other(tmp_path: Path, version: str, mode: str) -> None:
    table = _new(tmp_path, version, partition_by="kind", properties=_modes(mode))
    table.append(_rows(0, 1, 2, 3))
    with table.transaction() as transaction:
        transaction.append(_rows(10, 11, 13))
        transaction.update({"x": "x + 1"}, "id IN (1, 11)")
        transaction.delete("id IN (3, 13)")
        transaction.alter().add("note", pa.string())
        transaction.upsert(pa.table({"id": [11, 0, 20], "note": ["k", "l", "m"]}), "id")
        with pytest.raises(EvaluationError, match="division by zero"):
            transaction.update({"x": "5 div (id - 20)"})
        transaction.merge(_rows(1, 2), "target.id = source.id").when_matched_delete("source.id = 2").execute()
        transaction.overwrite(pa.table({"id": [30], "x": [300]}), where="id = 10", check=False)
    result = transaction.result
    assert result is not None
    assert {number: (row["x"], row["note"]) for number, row in _content(table).items()} == {
        0: (0, "l"),
        1: (11, None),
        11: (111, "k"),
        20: (None, "m"),
        30: (300, None),
    }
    assert len(table.snapshots) == 2
    stored = {path.name for path in (tmp_path / "t" / "data").rglob("*") if path.is_file()}
    named = {
        path.rpartition("/")[2]
        for path in table.inspect("entries")["data_file"].combine_chunks().field("file_path").to_pylist()
    }
    assert stored == named


@pytest.mark.one_backend
def test_branches_have_their_own_rows(tmp_path: Path) -> None:
    table = _new(tmp_path, "2")
    table.append(_rows(*range(4)))
    table.alter().create_branch("b").commit()
    table.delete("id = 1", branch="b")
    table.update({"x": 0}, "id = 2", branch="b", properties={"job": "nightly"})
    assert sorted(_content(table)) == [0, 1, 2, 3]
    other = open_table(tmp_path / "t", "iceberg", ref="b")
    assert other.scan().to_arrow().sort_by("id")["x"].to_pylist() == [0, 0, 30]
    assert other.snapshot is not None
    assert (other.snapshot.summary or {})["job"] == "nightly"


_Change = Callable[[Any], Any]
_CHANGES: dict[str, _Change] = {
    "delete": lambda at: at.delete("x < 25"),
    "update": lambda at: at.update({"x": "x + 1"}, "x < 25"),
    "merge": lambda at: at.merge(_rows(0, 1, 2, x=5), "target.id = source.id").when_matched_update_all().execute(),
    "upsert": lambda at: at.upsert(_rows(0, 1, 2, x=5), "id"),
}


@pytest.mark.req("ICE-COM-07", half="writer")
@pytest.mark.one_backend
@pytest.mark.parametrize("name", list(_CHANGES))
def test_rows_that_others_add_meanwhile(tmp_path: Path, name: str) -> None:
    """Rows that may match are in the way of serializable changes alone; others never are."""
    table = _new(tmp_path, "2")
    table.append(_rows(*range(5)))

    def late() -> IcebergTransaction:
        transaction: IcebergTransaction = open_table(tmp_path / "t", "iceberg").transaction()
        _CHANGES[name](transaction)
        return transaction

    waiting = late()
    table.append(_rows(2, x=3))
    with pytest.raises(ConcurrentAppendError, match="added data files that may hold rows to be replaced"):
        waiting.commit()
    waiting = late()
    table.append(_rows(100))
    assert waiting.commit().committed
    kind = "merge" if name == "upsert" else name
    table.refresh().append(_rows(0, 1, 2))
    table.alter().set({f"write.{kind}.isolation-level": "snapshot"}).commit()
    waiting = late()
    table.append(_rows(1, x=3))
    assert waiting.commit().committed
    assert 3 in table.refresh().scan().to_arrow()["x"].to_pylist()


@pytest.mark.req("ICE-COM-07", half="writer")
@pytest.mark.one_backend
def test_files_that_others_compact_meanwhile_hold_no_new_rows(tmp_path: Path) -> None:
    """A compacted file may hold rows that match, but none that were not there before: it is not in the way."""
    table = _new(tmp_path, "2", partition_by="kind")
    table.append(_rows(0, x=20))
    table.append(_rows(1, x=10))
    table.append(_rows(3, x=30))
    late = open_table(tmp_path / "t", "iceberg").transaction()
    late.delete("x = 20")
    assert table.compact(where="kind = 'b'").removed_files == 2
    assert late.commit().committed
    assert sorted(_content(table.refresh())) == [1, 3]


@pytest.mark.one_backend
@pytest.mark.parametrize("expired", [False, True])
def test_snapshots_that_others_expire_meanwhile(tmp_path: Path, expired: bool) -> None:
    """A change that was planned on an empty table knows the rows since only if all of the snapshots are there."""
    builder = IcebergBuilder(tmp_path / "t", {"id": "long"})
    builder.write()
    late = open_table(builder.root, "iceberg").transaction()
    late.overwrite(pa.table({"id": [100]}), where="id >= 100")
    for number in (200 if expired else 50, 1):
        bound = {1: number.to_bytes(8, "little")}
        builder.commit(builder.data([{"id": number}], metrics={"lower_bounds": bound, "upper_bounds": bound}))
    if not expired:
        assert late.commit().committed
        found = open_table(builder.root, "iceberg").scan().to_arrow()
        assert sorted(found["id"].to_pylist()) == [1, 50, 100]
        return
    del builder.snapshots[0], builder.log[0]
    builder.write()
    with pytest.raises(CommitConflictError, match="have expired since the change was planned"):
        late.commit()


@pytest.mark.one_backend
@pytest.mark.parametrize("name", list(_CHANGES))
@pytest.mark.parametrize(
    "other",
    [
        lambda at: at.delete("id = 1"),
        lambda at: at.update({"kind": "'c'"}, "id = 4"),
        lambda at: at.compact() if at.append(_rows(50)) else None,
    ],
    ids=["delete", "update", "compact"],
)
def test_files_that_others_replace_meanwhile(tmp_path: Path, name: str, other: _Change) -> None:
    table = _new(
        tmp_path,
        "2",
        properties={f"write.{kind}.isolation-level": "snapshot" for kind in ("delete", "update", "merge")},
    )
    table.append(_rows(*range(5)))
    late = open_table(tmp_path / "t", "iceberg").transaction()
    _CHANGES[name](late)
    other(table)
    before = _content(table)
    with pytest.raises(ConcurrentDeleteDeleteError, match="another commit removed 1 data files that are to be"):
        late.commit()
    assert _content(table.refresh()) == before


@pytest.mark.one_backend
@pytest.mark.parametrize("version", ["2", "3"])
@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
@pytest.mark.parametrize("name", list(_CHANGES))
def test_rows_that_others_hide_meanwhile(tmp_path: Path, name: str, mode: str, version: str) -> None:
    """None comes back from the dead, also where the isolation is that of snapshots."""
    levels = {f"write.{kind}.isolation-level": "snapshot" for kind in ("delete", "update", "merge")}
    table = _new(tmp_path, version, properties={**_modes(mode), **levels})
    table.append(_rows(*range(5)))
    late = open_table(tmp_path / "t", "iceberg").transaction()
    _CHANGES[name](late)
    table.delete("id = 1", strategy="merge-on-read")
    if (name, mode, version) == ("delete", "merge-on-read", "2"):
        # Several delete files may delete rows of a file.
        late.commit()
        assert sorted(_content(table.refresh())) == [3, 4]
        return
    with pytest.raises(ConcurrentDeleteReadError, match="another commit deleted"):
        late.commit()
    assert sorted(_content(table.refresh())) == [0, 2, 3, 4]


@pytest.mark.one_backend
def test_deletes_of_rows_that_others_add_meanwhile_stay(tmp_path: Path) -> None:
    table = _new(tmp_path, "3", properties={"write.delete.isolation-level": "snapshot"})
    table.append(_rows(1, 2))
    late = open_table(tmp_path / "t", "iceberg").transaction()
    late.delete(None)
    table.append(_rows(7, 8))
    table.delete("id = 7", strategy="merge-on-read")
    late.commit()
    assert sorted(_content(table.refresh())) == [8]


@pytest.mark.req("ICE-GEN-09", half="writer")
@pytest.mark.one_backend
def test_what_is_refused(tmp_path: Path) -> None:
    table = _new(tmp_path, "1")
    table.append(_rows(1, 2))
    with pytest.raises(InvalidArgumentError, match="format version 1 has no delete files"):
        table.delete("id = 1", strategy="merge-on-read")
    wrong: Any = "merge"
    with pytest.raises(InvalidArgumentError, match="strategy must be"):
        table.delete("id = 1", strategy=wrong)
    with pytest.raises(ConstraintViolationError, match="must not be null"):
        table.update({"id": "NULL"}, "id = 1")
    with pytest.raises(InvalidArgumentError, match="no identifier fields"):
        table.upsert(_rows(1))
    with pytest.raises(ConstraintViolationError, match="key"):
        table.upsert(pa.concat_tables([_rows(1), _rows(1)]), "id")
    table.alter().set({"write.delete.mode": "merge-on-read"}).commit()
    assert table.delete("id = 2").operation == "overwrite"
    assert table.inspect("delete_files").num_rows == 0
    table.append(_rows(2))
    for name, value in (("write.delete.mode", "sideways"), ("write.update.isolation-level", "none")):
        with pytest.raises(InvalidArgumentError, match=f"{name} must be .*, not '{value}'"):
            table.alter().set({"format-version": "2", name: value})
    assert len(table.snapshots) == 3
    table.alter().identify_by("id").commit()
    assert table.upsert(_rows(2, 3, x=9)).metrics["numTargetRowsInserted"] == 1
    assert {number: row["x"] for number, row in _content(table).items()} == {1: 10, 2: 9, 3: 9}
