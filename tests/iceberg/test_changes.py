"""The changelog between snapshots, and the incremental append scan."""

from __future__ import annotations

import math
import random
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from deltaberg import IcebergTable, open_table
from deltaberg.errors import InvalidArgumentError, VersionNotFoundError
from tests.support.iceberg_builder import PATH_ID, POS_ID, IcebergBuilder, IcebergFile
from tests.support.roads import Road, by_every_road


def _table(root: Path, version: int = 2) -> tuple[IcebergBuilder, list[int]]:
    """Write five snapshots: files; a delete of each kind; a replaced file; more deletes, one twice; an append."""
    builder = IcebergBuilder(root, {"id": "long", "s": "string"}, format_version=version)
    f = builder.data([{"id": number, "s": "x"} for number in range(5)])
    g = builder.data([{"id": number, "s": "y"} for number in range(5, 7)])
    snapshots = [builder.commit(f, g)]
    first = builder.position_deletes([(f, 1)])
    snapshots.append(builder.commit(first, builder.equality_deletes([1], [{"id": 3}]), operation="delete"))
    snapshots.append(builder.commit(builder.data([{"id": 99, "s": "z"}]), removed=[g], operation="overwrite"))
    snapshots.append(builder.commit(builder.position_deletes([(f, 0), (f, 1)]), operation="delete"))
    snapshots.append(builder.commit(builder.data([{"id": 100, "s": "w"}])))
    return builder, snapshots


def _pairs(rows: list[dict[str, Any]]) -> list[tuple[int, str, int]]:
    return sorted((row["_change_ordinal"], row["_change_type"], row["id"]) for row in rows)


_ALL = [
    *((0, "INSERT", number) for number in range(7)),
    (1, "DELETE", 1),
    (1, "DELETE", 3),
    (2, "DELETE", 5),
    (2, "DELETE", 6),
    (2, "INSERT", 99),
    (3, "DELETE", 0),
    (4, "INSERT", 100),
]


def _adds_up(table: IcebergTable, made: list[int]) -> None:
    """Applying the changes of a snapshot to the rows before it gives its own rows."""
    live: set[int] = set()
    for before, number in zip([None, *made], made, strict=False):
        for row in table.changes(before, number).to_arrow().to_pylist():
            assert (row["id"] in live) == (row["_change_type"] == "DELETE")
            live ^= {row["id"]}
        rows = open_table(table.location, snapshot_id=number).scan().to_arrow()
        assert live == set(rows.column("id").to_pylist())


def test_all_changes(tmp_path: Path, road: Road) -> None:
    builder, snapshots = _table(tmp_path / "t")
    table = open_table(builder.root, "iceberg")
    rows = road.rows(table.changes(None))
    assert _pairs(rows) == _ALL
    assert {row["_change_ordinal"]: row["_commit_snapshot_id"] for row in rows} == dict(enumerate(snapshots))
    assert {row["_commit_timestamp"].timestamp() for row in rows} == {
        (1_700_000_000_000 + 1000 * number) / 1000 for number in snapshots
    }


def test_changes_replayed_give_every_snapshot(tmp_path: Path) -> None:
    """Adding up the changes, snapshot by snapshot, gives the rows of each snapshot."""
    builder, made = _table(tmp_path / "t")
    _adds_up(open_table(builder.root, "iceberg"), made)


def test_a_part_of_the_range(tmp_path: Path) -> None:
    builder, snapshots = _table(tmp_path / "t")
    table = open_table(builder.root, "iceberg")
    assert _pairs(table.changes(snapshots[0], snapshots[2]).to_arrow().to_pylist()) == [
        (0, "DELETE", 1),
        (0, "DELETE", 3),
        (1, "DELETE", 5),
        (1, "DELETE", 6),
        (1, "INSERT", 99),
    ]
    assert table.changes(snapshots[-1]).count() == 0
    filtered = table.changes(None, filter="_change_type = 'DELETE' AND id > 3", columns=["id", "_pos"])
    assert sorted(filtered.to_arrow().to_pydict()["id"]) == [5, 6]


def test_vectors_that_grow(tmp_path: Path) -> None:
    """A deletion vector of version 3 replaces the previous one. The rows that only the new one holds were deleted."""
    builder = IcebergBuilder(tmp_path / "t", {"id": "long"}, format_version=3)
    f = builder.data([{"id": number} for number in range(6)])
    first = builder.commit(f)
    old = builder.deletion_vectors({f.path: [1, 2]})
    second = builder.commit(*old, operation="delete")
    builder.commit(*builder.deletion_vectors({f.path: [1, 2, 4]}), removed=old, operation="delete")
    table = open_table(builder.root)
    assert sorted(table.changes(first, second).to_arrow().column("id").to_pylist()) == [1, 2]
    assert table.changes(second).to_arrow().column("id").to_pylist() == [4]


@by_every_road
@pytest.mark.parametrize("kept", [["id", "category", "name"], ["id"]])
def test_rows_that_deletes_keep_are_read_from_the_data_file(tmp_path: Path, kept: list[str]) -> None:
    """Delete files may keep the deleted rows, whole or in part (ICE-DEL-18): a change has all columns either way."""
    builder = IcebergBuilder(tmp_path / "t", {"id": "long", "category": "string", "name": "string"})
    bears: list[dict[str, Any]] = [
        {"id": 2, "category": "x", "name": "Panda"},
        {"id": 3, "category": None, "name": "Grizzly"},
    ]
    file = builder.data(bears)
    first = builder.commit(file)
    row = {"type": "struct", "fields": [child for child in builder.fields if child["name"] in kept]}
    fields = [
        {"id": PATH_ID, "name": "file_path", "required": True, "type": "string"},
        {"id": POS_ID, "name": "pos", "required": True, "type": "long"},
        {"id": 2147483544, "name": "row", "required": True, "type": row},
    ]
    deleted = {"file_path": file.path, "pos": 1, "row": {name: bears[1][name] for name in kept}}
    deletes = builder.data([deleted], fields=fields)
    deletes.content = 1
    builder.commit(deletes, operation="delete")
    found = open_table(builder.root).changes(first, columns=["_change_type", "id", "category", "name"])
    assert found.to_arrow().to_pylist() == [{"_change_type": "DELETE", **bears[1]}]


_TYPES = {
    "id": "long",
    "x": "double",
    "m": {"type": "map", "key-id": 8, "key": "string", "value-id": 9, "value-required": False, "value": "long"},
    "l": {"type": "list", "element-id": 10, "element-required": False, "element": "string"},
}


def _row(number: int, x: float | None = 0.5) -> dict[str, Any]:
    return {"id": number, "x": x, "m": [("k", number), ("n", None)] if number % 2 else None, "l": ["a", None]}


def _written_anew(root: Path) -> tuple[IcebergBuilder, list[int]]:
    """Write snapshots by copy on write: of a row changed, two of equal rows deleted, and all of it undone."""
    builder = IcebergBuilder(
        root, [{"id": at, "name": name, "required": False, "type": _TYPES[name]} for at, name in enumerate(_TYPES, 1)]
    )
    files = [builder.data([_row(1), _row(2), _row(3, math.nan), _row(4), _row(4), _row(4)])]
    snapshots = [builder.commit(*files)]
    for rows in (
        [_row(1), _row(2, 7.0), _row(3, math.nan), _row(4), _row(4), _row(4)],
        [_row(1), _row(2, 7.0), _row(3, math.nan), _row(4)],
        [_row(1), _row(2), _row(3, math.nan), _row(4), _row(4), _row(5, None)],
    ):
        new = builder.data(rows, row_group_size=2)
        snapshots.append(builder.commit(new, removed=files, operation="overwrite"))
        files = [new]
    return builder, snapshots


def test_rows_that_were_carried_over_are_no_changes(tmp_path: Path, road: Road) -> None:
    """The rules, and the examples, are those of ``create_changelog_view`` of iceberg-spark."""
    builder, snapshots = _written_anew(tmp_path / "t")
    table = open_table(builder.root, "iceberg")
    rows = road.rows(table.changes(snapshots[0], columns=["id", "x", "_change_type", "_change_ordinal"]))
    assert [(row["_change_ordinal"], row["_change_type"], row["id"], row["x"]) for row in sorted(rows, key=_key)] == [
        (0, "DELETE", 2, 0.5),
        (0, "INSERT", 2, 7.0),
        (1, "DELETE", 4, 0.5),
        (1, "DELETE", 4, 0.5),
        (2, "DELETE", 2, 7.0),
        (2, "INSERT", 2, 0.5),
        (2, "INSERT", 4, 0.5),
        (2, "INSERT", 5, None),
    ]
    kept = table.changes(snapshots[0], snapshots[1], carry_over=True)
    assert kept.count() == 12
    assert table.changes(snapshots[0], filter="id = 4 AND _change_type = 'INSERT'").count() == 1
    assert len(table.changes(None, snapshots[1]).to_arrow()) == 8
    assert table.changes(snapshots[0], limit=3).to_arrow().num_rows == 3


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["_change_ordinal"], row["_change_type"], row["id"]


def test_net_changes(tmp_path: Path) -> None:
    builder, made = _written_anew(tmp_path / "t")
    table = open_table(builder.root, "iceberg")
    assert _pairs(table.changes(made[0], net_changes=True).to_arrow().to_pylist()) == [
        (1, "DELETE", 4),
        (2, "INSERT", 5),
    ]
    everything = table.changes(None, net_changes=True).to_arrow().to_pylist()
    assert sorted(row["id"] for row in everything) == [1, 2, 3, 4, 4, 5]
    assert {row["_change_type"] for row in everything} == {"INSERT"}


def test_images_of_updates(tmp_path: Path, road: Road) -> None:
    builder, snapshots = _written_anew(tmp_path / "t")
    table = open_table(builder.root, "iceberg")
    wanted: dict[str, Any] = {
        "columns": ["id", "x", "_change_type", "_change_ordinal"],
        "identifier_columns": ["id"],
    }
    rows = road.rows(table.changes(snapshots[0], snapshots[2], **wanted))
    assert [(row["_change_ordinal"], row["_change_type"], row["id"], row["x"]) for row in sorted(rows, key=_key)] == [
        (0, "UPDATE_AFTER", 2, 7.0),
        (0, "UPDATE_BEFORE", 2, 0.5),
        (1, "DELETE", 4, 0.5),
        (1, "DELETE", 4, 0.5),
    ]
    plain = table.changes(snapshots[0], snapshots[2], identifier_columns=["id"], compute_updates=False)
    assert {row["_change_type"] for row in plain.to_arrow().to_pylist()} == {"DELETE", "INSERT"}
    twice = builder.data([_row(4, 1.0), _row(4, 2.0)])
    old = builder.data([_row(4), _row(4)])
    start = builder.commit(old)
    builder.commit(twice, removed=[old], operation="overwrite")
    with pytest.raises(InvalidArgumentError, match="several rows with the same id"):
        open_table(builder.root, "iceberg").changes(start, identifier_columns=["id"]).to_arrow()
    for wrong, message in (
        ({"compute_updates": True}, "no identifier fields"),
        (
            {"compute_updates": True, "identifier_columns": ["id"], "net_changes": True},
            "net_changes cannot be combined with compute_updates",
        ),
        (
            {"identifier_columns": ["id"], "net_changes": True},
            "net_changes cannot be combined with identifier_columns, which ask for the images of updates",
        ),
        ({"carry_over": True, "net_changes": True}, "cannot be combined"),
        ({"identifier_columns": {"id": 1}}, "identifier_columns must be names of columns"),
        ({"net_changes": 1}, "net_changes"),
    ):
        with pytest.raises(InvalidArgumentError, match=message):
            table.changes(None, **wrong)


def test_random_changelogs(tmp_path: Path, rng: random.Random) -> None:
    """Snapshots that replace files by others: what is left of each is the difference of its two multisets."""
    builder = IcebergBuilder(tmp_path / "t", {"id": "long", "s": "string"})
    live: list[tuple[IcebergFile, list[tuple[int, str]]]] = []
    expected, states, snapshots = [], [Counter[tuple[int, str]]()], []
    for _ in range(8):
        gone = rng.sample(live, rng.randrange(len(live) + 1))
        news = []
        for _ in range(rng.randrange(3)):
            rows = [(rng.randrange(4), rng.choice("ab")) for _ in range(rng.randrange(1, 6))]
            news.append((builder.data([{"id": one, "s": s} for one, s in rows]), rows))
        snapshots.append(
            builder.commit(*(file for file, _ in news), removed=[file for file, _ in gone], operation="overwrite")
        )
        live = [pair for pair in live if pair not in gone] + news
        states.append(Counter(row for _, rows in live for row in rows))
    table = open_table(builder.root, "iceberg")
    for number, (old, new) in enumerate(pairwise(states)):
        expected += [(number, "DELETE", *row) for row in (old - new).elements()]
        expected += [(number, "INSERT", *row) for row in (new - old).elements()]
    names = ("_change_ordinal", "_change_type", "id", "s")
    found = table.changes(None, columns=names).to_arrow().to_pylist()
    assert sorted(tuple(row.values()) for row in found) == sorted(expected)
    first = rng.randrange(7)
    net = table.changes(snapshots[first], net_changes=True, columns=names).to_arrow().to_pylist()
    old, new = states[first + 1], states[-1]
    left = [("DELETE", *row) for row in (old - new).elements()] + [("INSERT", *row) for row in (new - old).elements()]
    assert sorted((row["_change_type"], row["id"], row["s"]) for row in net) == sorted(left)


def test_rewrites_change_nothing(tmp_path: Path) -> None:
    builder = IcebergBuilder(tmp_path / "t", {"id": "long"})
    f = builder.data([{"id": 1}])
    start = builder.commit(f)
    builder.commit(builder.data([{"id": 1}]), removed=[f], operation="replace")
    assert open_table(builder.root).changes(start).count() == 0


def test_appends(tmp_path: Path, road: Road) -> None:
    builder, made = _table(tmp_path / "t")
    table = open_table(builder.root, "iceberg")
    assert road.column(table.appends(None), "id") == [0, 1, 2, 3, 4, 5, 6, 100]
    assert table.appends(made[0]).to_arrow().to_pylist() == [{"id": 100, "s": "w"}]


def test_ranges_that_are_none(tmp_path: Path) -> None:
    builder, snapshots = _table(tmp_path / "t")
    table = open_table(builder.root, "iceberg")
    with pytest.raises(VersionNotFoundError, match="77 is not an ancestor"):
        table.changes(77)
    with pytest.raises(VersionNotFoundError, match="is not an ancestor of"):
        table.changes(snapshots[3], snapshots[1])
    with pytest.raises(InvalidArgumentError, match="start must be an integer, not '1'"):
        table.changes("1")  # type: ignore[arg-type]
    builder.snapshots.pop(0)
    builder.write()
    with pytest.raises(VersionNotFoundError, match="were expired"):
        open_table(builder.root, "iceberg").changes(None)


def test_columns_of_the_changelog_must_be_free(tmp_path: Path) -> None:
    builder = IcebergBuilder(tmp_path / "t", {"_change_type": "long"})
    builder.commit(builder.data([{"_change_type": 1}]))
    table = open_table(builder.root, "iceberg")
    with pytest.raises(InvalidArgumentError, match="_change_type"):
        table.changes(None)
    assert table.appends(None).to_arrow().to_pylist() == [{"_change_type": 1}]


@pytest.mark.parametrize("version", [2, 3])
def test_rows_come_back_with_the_deletes_that_go(tmp_path: Path, road: Road, version: int) -> None:
    """Removing a delete file, or rows of a vector, inserts rows again, unless other deletes still apply to them."""
    builder = IcebergBuilder(tmp_path / "t", {"id": "long"}, format_version=version)
    f = builder.data([{"id": number} for number in range(6)])
    snapshots = [builder.commit(f)]
    if version == 2:
        gone, stays = builder.position_deletes([(f, 1), (f, 2)]), builder.equality_deletes([1], [{"id": 2}])
        keys = builder.equality_deletes([1], [{"id": 4}])
        snapshots.append(builder.commit(gone, stays, keys, operation="delete"))
        snapshots.append(builder.commit(removed=[gone, keys], operation="overwrite"))
        deleted, back = {1, 2, 4}, {1, 4}
    else:
        vectors = builder.deletion_vectors({f.path: [1, 2]})
        snapshots.append(builder.commit(*vectors, operation="delete"))
        snapshots.append(
            builder.commit(*builder.deletion_vectors({f.path: [2, 3]}), removed=vectors, operation="overwrite")
        )
        deleted, back = {1, 2}, {1}
    table = open_table(builder.root, "iceberg")
    expected = [*((0, "DELETE", number) for number in deleted), *((1, "INSERT", number) for number in back)]
    if version == 3:
        expected.append((1, "DELETE", 3))
    assert _pairs(road.rows(table.changes(snapshots[0]))) == sorted(expected)
    _adds_up(table, snapshots)
