"""What callers say of commits: where it goes, and where nothing could keep it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from deltaberg import create_table, open_table
from deltaberg.errors import InvalidArgumentError, UnsupportedFeatureError

pytestmark = pytest.mark.one_backend

_ROWS = pa.table({"id": [1, 2, 3], "p": [1, 2, 3]})
_FORMATS = pytest.mark.parametrize("form", ["delta", "iceberg"])


def _table(root: Path, form: str) -> Any:
    table: Any = create_table(root / "t", _ROWS.schema, format=form, partition_by="p")  # type: ignore[call-overload]
    for _ in range(2):
        table.append(_ROWS)
    return table


def _said(table: Any) -> dict[str, Any]:
    """Return what the history says of the newest commit."""
    newest = table.history(1)[0]
    found: dict[str, Any] = newest.info if hasattr(newest, "info") else newest.summary
    return found


@_FORMATS
@pytest.mark.parametrize("word", ["properties", "snapshot_properties"])
def test_every_verb_records_what_is_said_of_its_commit(tmp_path: Path, form: str, word: str) -> None:
    table = _table(tmp_path, form)
    verbs: dict[str, Callable[..., Any]] = {
        "append": lambda **said: table.append(_ROWS, **said),
        "delete": lambda **said: table.delete("id = 1", **said),
        "update": lambda **said: table.update({"id": "id + 10"}, "id = 2", **said),
        "upsert": lambda **said: table.upsert(
            pa.table({"id": [3, 4], "p": [7, 8]}), "id", when_matched="ignore", **said
        ),
        "merge": lambda **said: table.merge(_ROWS, "target.id = source.id", **said).when_matched_delete().execute(),
        "overwrite": lambda **said: table.overwrite(_ROWS.slice(0, 1), where="id = 1", **said),
        "compact": lambda **said: table.append(_ROWS) and table.append(_ROWS) and table.compact(**said),
    }
    for name, verb in verbs.items():
        assert verb(**{word: {"said": name}}), name
        assert _said(table)["said"] == name
    with table.transaction(**{word: {"said": "all"}}) as transaction:
        transaction.append(_ROWS)
        transaction.delete("id = 1")
    assert _said(table)["said"] == "all"


def test_what_is_said_of_alterations(tmp_path: Path) -> None:
    """A Delta table keeps it. An Iceberg table has no snapshot that could, so that nothing is lost in silence."""
    table = _table(tmp_path / "d", "delta")
    table.alter(properties={"said": "alter"}, user_metadata="why").set({"a": "b"}).commit()
    assert (_said(table)["said"], _said(table)["userMetadata"]) == ("alter", "why")
    table = _table(tmp_path / "i", "iceberg")
    for properties in ({"said": "alter"}, {"wap.branch": "side"}):
        with pytest.raises(
            InvalidArgumentError, match="changes of columns, properties and branches make none"
        ) as caught:
            table.alter(properties=properties)
        assert "alter().set()" in (caught.value.hint or "")
    table.alter(properties=None).set({"a": "b"}).commit()
    with table.transaction(properties={"said": "both"}) as transaction:
        transaction.alter().set({"c": "d"})
        transaction.append(_ROWS)
    assert (table.properties["c"], _said(table)["said"]) == ("d", "both")


@_FORMATS
def test_progress_is_that_of_one_commit(tmp_path: Path, form: str) -> None:
    """A compaction makes several: the first would record the progress, and the others would find it done."""
    table = _table(tmp_path, form)
    before = len(table.scan().files())
    with pytest.raises(InvalidArgumentError, match=r"compact\(\) has no argument txn") as caught:
        table.compact(txn=("nightly", 1), group_size=1)
    assert "a commit for each group of files" in (caught.value.hint or "")
    assert len(table.scan().files()) == before
    assert len(table.compact(group_size=1).commits) > 1


@pytest.mark.parametrize("name", ["publish", "cherrypick_snapshot"])
def test_snapshots_are_picked_only_on_the_newest_state(tmp_path: Path, name: str) -> None:
    table = _table(tmp_path, "iceberg")
    first = table.snapshot_id
    staged = table.append(_ROWS, properties={"wap.id": "load"})
    picked = "load" if name == "publish" else staged.snapshot_id
    old = open_table(table.location, "iceberg", snapshot_id=first)
    with pytest.raises(InvalidArgumentError, match="opened with snapshot_id, and cannot be written to"):
        getattr(old, name)(picked)
    assert table.refresh().snapshot_id == first
    assert getattr(table, name)(picked, branch=None).snapshot_id == staged.snapshot_id == table.snapshot_id


@pytest.mark.parametrize("name", ["publish", "cherrypick_snapshot"])
@pytest.mark.parametrize("kind", [dict, lambda said: deltalake.CommitProperties(custom_metadata=said)])
def test_picks_record_what_others_do(tmp_path: Path, name: str, kind: Any) -> None:
    """The new snapshot of a pick says what `commit_properties` say, in either form, and where it comes from."""
    table = _table(tmp_path, "iceberg")
    staged = table.append(_ROWS, properties={"wap.id": "load"})
    table.append(_ROWS)
    picked = "load" if name == "publish" else staged.snapshot_id
    getattr(table, name)(picked, commit_properties=kind({"why": "audited"}))
    summary = table.snapshot.summary
    assert (summary["why"], summary["source-snapshot-id"]) == ("audited", str(staged.snapshot_id))
    said = deltalake.CommitProperties(app_transactions=[deltalake.Transaction("app", 1)])
    with pytest.raises(UnsupportedFeatureError, match="app_transactions"):
        getattr(table, name)(picked, commit_properties=said)
