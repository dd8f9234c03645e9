"""Changes that leave a table as it is make no commit, in either format."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import create_table
from deltaberg.choices import Format

_COLUMNS = pa.schema([("id", pa.int64()), ("p", pa.string()), ("s", pa.struct([("x", pa.int64()), ("y", pa.int64())]))])
_ROWS = pa.table({"id": [1, 2], "p": ["a", "b"], "s": [{"x": 1, "y": 2}] * 2}, schema=_COLUMNS)
#: Changes of a table that is partitioned by ``p``, whose property ``owner`` is ``ada``, and whose ``id`` says ``key``.
_SHARED: dict[str, Callable[[Any], Any]] = {
    "same property": lambda alter: alter.set({"owner": "ada"}),
    "no properties": lambda alter: alter.set({}),
    "absent property": lambda alter: alter.unset("nope"),
    "no names": lambda alter: alter.unset(),
    "there and back": lambda alter: alter.set({"owner": "bob", "more": 1}).set({"owner": "ada"}).unset("more"),
    "same comment": lambda alter: alter.comment("id", "key"),
    "no comment": lambda alter: alter.comment("s.x", None),
    "same name": lambda alter: alter.rename("id", "id").rename("s.x", "x"),
    "same place": lambda alter: alter.move("id", first=True).move("s.y", after="x"),
    "nullable column": lambda alter: alter.drop_not_null("id").drop_not_null("s.x"),
    "no default": lambda alter: alter.set_default("id", None),
    "added and dropped": lambda alter: alter.add("new", pa.int64()).add("s.z", pa.int8()).drop("new").drop("s.z"),
    "same partitioning": lambda alter: alter.partition_by("p"),
}
_DELTA: dict[str, Callable[[Any], Any]] = {
    "same description": lambda alter: alter.describe(name="n", description="d"),
    "same feature": lambda alter: alter.set({"delta.feature.columnMapping": "supported"}),
}
_ICEBERG: dict[str, Callable[[Any], Any]] = {
    "same order": lambda alter: alter.sort_by("id desc"),
    "same version": lambda alter: alter.set({"format-version": "2"}),
    "same identity": lambda alter: alter.identify_by(),
    "same snapshot": lambda alter: alter.set_current_snapshot(ref="main"),
}


def _table(root: Path, format: Format) -> Any:
    made: dict[str, Any] = {"properties": {"owner": "ada"}}
    if format == "delta":
        made = {"properties": {"owner": "ada", "delta.columnMapping.mode": "name"}, "name": "n", "description": "d"}
    table: Any = create_table(root, _COLUMNS, format=format, partition_by="p", **made)
    table.append(_ROWS)
    alter = table.alter().comment("id", "key")
    (alter if format == "delta" else alter.sort_by("id desc")).commit()
    return table


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_a_change_that_changes_nothing_makes_no_commit(tmp_path: Path, format: Format) -> None:
    """Nobody is asked to read an empty version, and no file is written anew for the partitioning that there is."""
    table = _table(tmp_path / "t", format)
    files = sorted(path.name for path in (tmp_path / "t").rglob("*") if path.is_file())
    for what, change in {**_SHARED, **(_DELTA if format == "delta" else _ICEBERG)}.items():
        result = change(table.alter()).commit()
        assert (what, result.committed) == (what, False)
        with table.transaction() as transaction:
            change(transaction.alter())
    assert sorted(path.name for path in (tmp_path / "t").rglob("*") if path.is_file()) == files
    assert table.scan().to_arrow().num_rows == 2
    assert table.alter().set({"owner": "bob"}).commit().committed


def test_the_same_clustering_makes_no_commit(tmp_path: Path) -> None:
    """A table that is not clustered does not get the feature, either."""
    table = create_table(tmp_path / "t", _COLUMNS)
    assert not table.alter().cluster_by().commit().committed
    assert "clustering" not in table.features
    assert table.alter().cluster_by("id", "s.x").commit().committed
    assert not table.alter().cluster_by("id", "s.x").commit().committed
    assert table.alter().cluster_by("s.x", "id").commit().committed
