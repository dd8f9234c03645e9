"""Row lineage of version 3: rows keep their ids, and record when they were last changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import create_table, open_table
from deltaberg.errors import ProtocolChangedError
from deltaberg.iceberg import IcebergTable
from deltaberg.iceberg.transaction.transaction import Transaction
from tests.iceberg.entries import added, entry, list_rows, read_entries
from tests.support.iceberg_builder import IcebergBuilder
from tests.support.roads import Road

_LINEAGE = ["_row_id", "_last_updated_sequence_number"]
_STORED: list[dict[str, Any]] = [
    {"id": 1, "name": "id", "required": False, "type": "long"},
    {"id": 2147483540, "name": "_row_id", "required": False, "type": "long"},
    {"id": 2147483539, "name": "_last_updated_sequence_number", "required": False, "type": "long"},
]


def _builder(tmp_path: Path, version: int = 3) -> IcebergBuilder:
    return IcebergBuilder(tmp_path / "t", {"id": "long"}, format_version=version)


def _rows(first: int, count: int) -> list[dict[str, Any]]:
    return [{"id": first + number} for number in range(count)]


def _lineage(builder: IcebergBuilder, condition: str | None = None) -> dict[int, tuple[int | None, int | None]]:
    found = open_table(builder.root).scan(condition, ["id", *_LINEAGE]).to_arrow().to_pylist()
    return {row["id"]: (row["_row_id"], row["_last_updated_sequence_number"]) for row in found}


@pytest.mark.req("BEY-35", half="reader")
def test_ids_come_from_manifests(tmp_path: Path) -> None:
    """Files without a first row id get the next ones of their manifest, existing files as well as added ones."""
    builder = _builder(tmp_path)
    builder.extra = {"next-row-id": 1375}
    counts = [((50, 50), (25,), 1000), ((), (100,), 1125), ((125,), (25,), 1225)]
    manifests, id_ = [], 0
    for news, olds, first in counts:
        entries = []
        for status, rows in [(1, n) for n in news] + [(0, n) for n in olds]:
            entries.append(entry(builder.data(_rows(id_, rows)), status, None if status else 1, None if status else 1))
            id_ += rows
        manifests.append(builder.manifest(entries, first_row_id=first, sequence_number=2))
    builder.commit(manifests=manifests, sequence=2)
    assert [row["first_row_id"] for row in list_rows(builder)] == [1000, 1125, 1225]
    firsts = [[row["first_row_id"] for row in read_entries(builder, n, rest=("first_row_id",))] for n in range(3)]
    assert firsts == [[1000, 1050, 1100], [1125], [1225, 1350]]
    table = open_table(builder.root, "iceberg")
    assert table.metadata.raw["next-row-id"] == 1375
    found = _lineage(builder)
    assert [found[number][0] for number in range(375)] == list(range(1000, 1375))
    assert {found[number][1] for number in range(100)} == {2}
    assert {found[number][1] for number in range(100, 125)} == {1}


@pytest.mark.req("BEY-35", half="reader")
def test_a_file_may_have_its_own_first_id(tmp_path: Path) -> None:
    builder = _builder(tmp_path)
    files = [
        builder.data(_rows(0, 3)),
        builder.data(_rows(3, 2), first_row_id=500),
        builder.data(_rows(5, 2)),
    ]
    gone = builder.data(_rows(7, 9))
    builder.commit(manifests=[builder.manifest([*added(*files), entry(gone, 2, 1, 1)], first_row_id=10)])
    found = _lineage(builder)
    assert [found[number][0] for number in range(7)] == [10, 11, 12, 500, 501, 13, 14]


@pytest.mark.req("BEY-35", half="reader")
def test_files_of_other_partitions_take_their_ids(tmp_path: Path) -> None:
    """A filter prunes entries of a manifest, on whose counts the ids of later entries depend."""
    spec = [{"source-id": 2, "name": "part", "transform": "identity"}]
    builder = IcebergBuilder(tmp_path / "t", {"id": "long", "part": "string"}, format_version=3, specs=[spec])
    files = []
    for number, part in enumerate(["a", "b", "a", "b"]):
        rows = [{"id": 10 * number + place, "part": part} for place in range(number + 2)]
        files.append(builder.data(rows, partition={"part": part}))
    builder.commit(manifests=[builder.manifest(added(*files), first_row_id=100)])
    found = _lineage(builder, "part = 'b'")
    assert {id_: row_id for id_, (row_id, _) in found.items()} == {
        10: 102,
        11: 103,
        12: 104,
        30: 109,
        31: 110,
        32: 111,
        33: 112,
        34: 113,
    }


@pytest.mark.req("BEY-35", half="reader")
def test_stored_values_win(tmp_path: Path, road: Road) -> None:
    """A rewritten file keeps the ids of its rows. Nulls among them are filled in as in files without ids."""
    builder = _builder(tmp_path)
    rows = [
        {"id": 1, "_row_id": 7, "_last_updated_sequence_number": 1},
        {"id": 2, "_row_id": None, "_last_updated_sequence_number": None},
        {"id": 3, "_row_id": 9, "_last_updated_sequence_number": None},
    ]
    file = builder.data(rows, fields=_STORED, first_row_id=100)
    builder.commit(file, sequence=4)
    found = road.rows(open_table(builder.root).scan(columns=["id", *_LINEAGE]))
    assert [tuple(row.values()) for row in found] == [(1, 7, 1), (2, 101, 4), (3, 9, 4)]


@pytest.mark.req("BEY-35", half="reader")
@pytest.mark.parametrize("format", ["avro", "orc"])
def test_other_formats(tmp_path: Path, format: str) -> None:
    builder = _builder(tmp_path)
    rows = [{"id": 1, "_row_id": 7, "_last_updated_sequence_number": 1}, {"id": 2}]
    files = [
        builder.data(rows, fields=_STORED, first_row_id=100, format=format),
        builder.data(_rows(5, 2), first_row_id=200, format=format),
    ]
    builder.commit(*files, sequence=4)
    assert _lineage(builder) == {1: (7, 1), 2: (101, 4), 5: (200, 4), 6: (201, 4)}


@pytest.mark.req("BEY-35", half="reader")
def test_ids_are_of_physical_positions(tmp_path: Path, road: Road) -> None:
    builder = _builder(tmp_path)
    file = builder.data(_rows(0, 20), row_group_size=5, first_row_id=1000)
    builder.commit(file, *builder.deletion_vectors({file.path: [0, 12]}))
    table = open_table(builder.root)
    expected = [1000 + number for number in range(11, 20) if number != 12]
    assert road.column(table.scan("id > 10", ["_row_id"]), "_row_id") == expected
    assert road.column(table.scan("_row_id = 1013", ["id"]), "id") == [13]
    assert table.scan(columns=["_row_id"], split_size=1, batch_size=2).to_arrow().num_rows == 18


@pytest.mark.req("BEY-35", half="reader")
def test_an_upgraded_table_has_no_ids_yet(tmp_path: Path, road: Road) -> None:
    builder = _builder(tmp_path, version=2)
    builder.commit(builder.data(_rows(0, 2)))
    builder.version = 3
    builder.snapshots[0] |= {"added-rows": 2}
    builder.extra = {"next-row-id": 0}
    builder.write()
    assert set(_lineage(builder).values()) == {(None, None)}
    assert road.rows(open_table(builder.root).scan(columns=_LINEAGE)) == [dict.fromkeys(_LINEAGE)] * 2


@pytest.mark.req("ICE-MNT-13")
@pytest.mark.parametrize("upgraded", ["before", "meanwhile"])
@pytest.mark.parametrize(
    "move",
    [
        lambda table: table.compact(),
        lambda table: table.compact(sort_by="id"),
        lambda table: table.reorg(),
        lambda table: table.update({"x": "x + 1"}, "id = 1", strategy="copy-on-write"),
        lambda table: table.delete("id = 1", strategy="copy-on-write"),
    ],
    ids=["compact", "sorted", "reorg", "update", "delete"],
)
def test_rows_that_get_ids_while_they_move(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, move: Callable[[IcebergTable], Any], upgraded: str
) -> None:
    """They keep the ids: the change of the rows fails, and says why; done again, it stands."""
    table = create_table(tmp_path / "t", {"id": pa.int64(), "x": pa.int64()}, format="iceberg")
    for first in (0, 3):
        table.append(pa.table({"id": range(first, first + 3), "x": [first] * 3}))
    table.delete("id = 2", strategy="merge-on-read")
    commit, upgrade = Transaction.commit, {"format-version": "3"}
    if upgraded == "before":
        table.alter().set(upgrade).commit()

    def lineage() -> dict[int, tuple[int, int]]:
        found = open_table(table.location).scan(columns=["id", *_LINEAGE]).to_arrow()
        return {row.pop("id"): tuple(row.values()) for row in found.to_pylist()}

    def commit_after(transaction: Transaction) -> Any:
        monkeypatch.setattr(Transaction, "commit", commit)
        other = open_table(table.location)
        other.alter().set(upgrade).commit()
        other.append(pa.table({"id": [99], "x": [0]}))
        return commit(transaction)

    monkeypatch.setattr(Transaction, "commit", commit_after)
    try:
        (error,) = move(table).conflicts
    except ProtocolChangedError as raised:
        error = raised
    assert isinstance(error, ProtocolChangedError)
    assert "gave ids to the rows" in str(error)
    before = lineage()
    assert len(before) == len({number for number, _ in before.values()}) == 6
    move(table.refresh())
    after = lineage()
    assert {number: before[number] for number in after if number != 1} == {
        number: ids for number, ids in after.items() if number != 1
    }
    assert {number for number, _ in after.values()} <= {number for number, _ in before.values()}
