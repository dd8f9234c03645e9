"""The changelog between snapshots, and the incremental append scan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deltaberg import IcebergTable, open_table
from deltaberg.errors import InvalidArgumentError, VersionNotFoundError
from tests.support.iceberg_builder import IcebergBuilder
from tests.support.roads import Road


def _table(root: Path, version: int = 2) -> tuple[IcebergBuilder, list[int]]:
    """Write five snapshots: files; a delete of each kind; a replaced file; more deletes, one twice; an append."""
    builder = IcebergBuilder(root, {"id": "long", "s": "string"}, format_version=version)
    f = builder.data([{"id": number, "s": "x"} for number in range(5)])
    g = builder.data([{"id": number, "s": "y"} for number in range(5, 7)])
    made = [builder.commit(f, g)]
    first = builder.position_deletes([(f, 1)])
    made.append(builder.commit(first, builder.equality_deletes([1], [{"id": 3}]), operation="delete"))
    made.append(builder.commit(builder.data([{"id": 99, "s": "z"}]), removed=[g], operation="overwrite"))
    made.append(builder.commit(builder.position_deletes([(f, 0), (f, 1)]), operation="delete"))
    made.append(builder.commit(builder.data([{"id": 100, "s": "w"}])))
    return builder, made


def _pairs(rows: list[dict[str, Any]]) -> list[tuple[int, str, int]]:
    return sorted((row["_change_ordinal"], row["_change_type"], row["id"]) for row in rows)


_ALL = [
    *((0, "insert", number) for number in range(7)),
    (1, "delete", 1),
    (1, "delete", 3),
    (2, "delete", 5),
    (2, "delete", 6),
    (2, "insert", 99),
    (3, "delete", 0),
    (4, "insert", 100),
]


def _adds_up(table: IcebergTable, made: list[int]) -> None:
    """Applying the changes of a snapshot to the rows before it gives its own rows."""
    live: set[int] = set()
    for before, number in zip([None, *made], made, strict=False):
        for row in table.changes(before, number).to_arrow().to_pylist():
            assert (row["id"] in live) == (row["_change_type"] == "delete")
            live ^= {row["id"]}
        rows = open_table(table.location, snapshot_id=number).scan().to_arrow()
        assert live == set(rows.column("id").to_pylist())


def test_all_changes(tmp_path: Path, road: Road) -> None:
    builder, made = _table(tmp_path / "t")
    table = open_table(builder.root)
    rows = road.rows(table.changes(None))
    assert _pairs(rows) == _ALL
    assert {row["_change_ordinal"]: row["_commit_snapshot_id"] for row in rows} == dict(enumerate(made))
    assert {row["_commit_timestamp"].timestamp() for row in rows} == {
        (1_700_000_000_000 + 1000 * number) / 1000 for number in made
    }


def test_changes_replayed_give_every_snapshot(tmp_path: Path) -> None:
    """Adding up the changes, snapshot by snapshot, gives the rows of each snapshot."""
    builder, made = _table(tmp_path / "t")
    _adds_up(open_table(builder.root), made)


def test_a_part_of_the_range(tmp_path: Path) -> None:
    builder, made = _table(tmp_path / "t")
    table = open_table(builder.root)
    assert _pairs(table.changes(made[0], made[2]).to_arrow().to_pylist()) == [
        (0, "delete", 1),
        (0, "delete", 3),
        (1, "delete", 5),
        (1, "delete", 6),
        (1, "insert", 99),
    ]
    assert table.changes(made[-1]).count() == 0
    filtered = table.changes(None, filter="_change_type = 'delete' AND id > 3", columns=["id", "_pos"])
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


def test_rewrites_change_nothing(tmp_path: Path) -> None:
    builder = IcebergBuilder(tmp_path / "t", {"id": "long"})
    f = builder.data([{"id": 1}])
    start = builder.commit(f)
    builder.commit(builder.data([{"id": 1}]), removed=[f], operation="replace")
    assert open_table(builder.root).changes(start).count() == 0


def test_appends(tmp_path: Path, road: Road) -> None:
    builder, made = _table(tmp_path / "t")
    table = open_table(builder.root)
    assert road.column(table.appends(None), "id") == [0, 1, 2, 3, 4, 5, 6, 100]
    assert table.appends(made[0]).to_arrow().to_pylist() == [{"id": 100, "s": "w"}]


def test_ranges_that_are_none(tmp_path: Path) -> None:
    builder, made = _table(tmp_path / "t")
    table = open_table(builder.root)
    with pytest.raises(VersionNotFoundError, match="77 is not an ancestor"):
        table.changes(77)
    with pytest.raises(VersionNotFoundError, match="is not an ancestor of"):
        table.changes(made[3], made[1])
    with pytest.raises(InvalidArgumentError, match="start must be an integer, not '1'"):
        table.changes("1")
    builder.snapshots.pop(0)
    builder.write()
    with pytest.raises(VersionNotFoundError, match="were expired"):
        open_table(builder.root).changes(None)


def test_columns_of_the_changelog_must_be_free(tmp_path: Path) -> None:
    builder = IcebergBuilder(tmp_path / "t", {"_change_type": "long"})
    builder.commit(builder.data([{"_change_type": 1}]))
    table = open_table(builder.root)
    with pytest.raises(InvalidArgumentError, match="_change_type"):
        table.changes(None)
    assert table.appends(None).to_arrow().to_pylist() == [{"_change_type": 1}]


@pytest.mark.parametrize("version", [2, 3])
def test_rows_come_back_with_the_deletes_that_go(tmp_path: Path, road: Road, version: int) -> None:
    """Removing a delete file, or rows of a vector, inserts rows again, unless other deletes still apply to them."""
    builder = IcebergBuilder(tmp_path / "t", {"id": "long"}, format_version=version)
    f = builder.data([{"id": number} for number in range(6)])
    made = [builder.commit(f)]
    if version == 2:
        gone, stays = builder.position_deletes([(f, 1), (f, 2)]), builder.equality_deletes([1], [{"id": 2}])
        keys = builder.equality_deletes([1], [{"id": 4}])
        made.append(builder.commit(gone, stays, keys, operation="delete"))
        made.append(builder.commit(removed=[gone, keys], operation="overwrite"))
        deleted, back = {1, 2, 4}, {1, 4}
    else:
        vectors = builder.deletion_vectors({f.path: [1, 2]})
        made.append(builder.commit(*vectors, operation="delete"))
        made.append(builder.commit(*builder.deletion_vectors({f.path: [2, 3]}), removed=vectors, operation="overwrite"))
        deleted, back = {1, 2}, {1}
    table = open_table(builder.root)
    expected = [*((0, "delete", number) for number in deleted), *((1, "insert", number) for number in back)]
    if version == 3:
        expected.append((1, "delete", 3))
    assert _pairs(road.rows(table.changes(made[0]))) == sorted(expected)
    _adds_up(table, made)
