"""Changes that leave a table as it is make no commit, in either format."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import create_table, open_table
from deltaberg.choices import Format
from deltaberg.errors import ColumnNotFoundError, CommitConflictError

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


_Change = Callable[[Any], Any]
#: What others commit, and a change that alone would leave the table as it was before that.
_BEHIND: dict[str, tuple[_Change, _Change]] = {
    "set": (lambda table: table.alter().set({"owner": "bob"}), lambda table: table.alter().set({"owner": "ada"})),
    "unset": (lambda table: table.alter().set({"more": "1"}), lambda table: table.alter().unset("more")),
    "comment": (lambda table: table.alter().comment("p", "x"), lambda table: table.alter().comment("p", None)),
}
_BEHIND_ICEBERG: dict[str, tuple[_Change, _Change]] = {
    "partition by": (lambda table: table.alter().partition_by(), lambda table: table.alter().partition_by("p")),
    "identify by": (
        lambda table: table.alter().add("n", pa.int64(), default=1, required=True).identify_by("n"),
        lambda table: table.alter().identify_by(),
    ),
}


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_a_change_by_a_handle_that_is_behind_is_not_lost(tmp_path: Path, format: Format) -> None:
    """Either the table is as the caller asked, or the commit is refused: never is it said that there was nothing to do.

    That goes for an open transaction, too, during which others commit.
    """
    changes = {**_BEHIND, **(_BEHIND_ICEBERG if format == "iceberg" else {})}
    for what, (other, change) in changes.items():
        root = tmp_path / what
        table = _table(root, format)
        if format == "iceberg":
            table.alter().set({"format-version": "3"}).commit()
        behind: Any = open_table(root)
        transaction: Any = open_table(root).transaction()
        with transaction:
            change(transaction)
            assert other(open_table(root)).commit().committed
            for commit in (change(behind).commit, transaction.commit):
                try:
                    commit()
                except CommitConflictError:
                    continue
                # Only changes that need nothing of what is there go on top of the others.
                assert (format, what) in {("iceberg", "set"), ("iceberg", "unset")}
                assert not change(open_table(root)).commit().committed


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_rows_that_others_add_meanwhile_are_not_passed_over(tmp_path: Path, format: Format) -> None:
    """A handle that saw an empty table deletes or replaces what is there now, or is refused."""
    changes: tuple[_Change, ...] = (lambda table: table.delete(None), lambda table: table.overwrite(_ROWS.slice(0, 0)))
    for number, run in enumerate(changes):
        table: Any = create_table(tmp_path / str(number), _COLUMNS, format=format)
        open_table(tmp_path / str(number)).append(_ROWS)
        try:
            run(table)
        except CommitConflictError:
            continue
        assert open_table(tmp_path / str(number)).scan().to_arrow().num_rows == 0


def test_a_handle_that_is_behind_does_not_say_that_a_branch_is_there_already(tmp_path: Path) -> None:
    """Another commit has moved it meanwhile."""
    table: Any = _table(tmp_path / "t", "iceberg")
    good = table.snapshot_id
    changes: tuple[_Change, ...] = (
        lambda alter: alter.set_current_snapshot(good),
        lambda alter: alter.rollback_to_snapshot(good),
    )
    for change in changes:
        behind: Any = open_table(tmp_path / "t")
        open_table(tmp_path / "t").append(_ROWS)
        with pytest.raises(CommitConflictError, match="the reference main names the snapshot"):
            change(behind.alter()).commit()
        assert change(open_table(tmp_path / "t").alter()).commit().committed


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_only_columns_and_fields_of_structs_have_comments(tmp_path: Path, format: Format) -> None:
    """The element of a list is neither, and neither are keys and values of maps."""
    columns = pa.schema([("l", pa.list_(pa.int64())), ("m", pa.map_(pa.string(), pa.int64()))])
    table: Any = create_table(tmp_path / "t", columns, format=format)
    for name in ("l.element", "m.key", "m.value"):
        with pytest.raises(ColumnNotFoundError, match="only columns and fields of structs have names"):
            table.alter().comment(name, "c")


def test_a_default_of_another_sign_is_another_default(tmp_path: Path) -> None:
    """As numbers, zero and minus zero are equal."""
    made = {"format-version": "3"}
    table: Any = create_table(tmp_path / "t", {"v": pa.float64()}, format="iceberg", properties=made)
    for value, is_new in ((0.0, True), (-0.0, True), (-0.0, False)):
        assert table.alter().set_default("v", value).commit().committed is is_new
    assert str(table.metadata.current_schema.struct.fields[0].metadata["write-default"]) == "-0.0"


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_a_transaction_without_changes_is_called_nothing_else(format: Format, tmp_path: Path) -> None:
    table = _table(tmp_path / "t", format)
    for begin in (lambda _: None, lambda transaction: transaction.alter()):
        with table.transaction() as transaction:
            begin(transaction)
        assert not transaction.result.committed
        assert transaction.result.operation == {"delta": "TRANSACTION", "iceberg": "commit"}[format]
