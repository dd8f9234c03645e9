"""Checkpoints of tables that other engines wrote: with the log before them deleted, the tables read as before."""

from __future__ import annotations

import json
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from deltaberg import DeltaTable
from deltaberg.errors import CorruptLogError, UnsupportedFeatureError
from tests.support.canon import digest
from tests.support.shared import shared_directory
from tests.support.written_checkpoints import forget_before, state_of

pytestmark = pytest.mark.both_backends

_NO_SCHEMA = "metaData has no schemaString"
#: The tables that get no checkpoint, and the reason that the error gives.
_REFUSED = {
    "golden--canonicalized-paths-normal-a": _NO_SCHEMA,
    "golden--canonicalized-paths-normal-b": _NO_SCHEMA,
    "golden--canonicalized-paths-special-a": _NO_SCHEMA,
    "golden--canonicalized-paths-special-b": _NO_SCHEMA,
    "golden--corrupted-last-checkpoint": _NO_SCHEMA,
    "golden--deltalog-commit-info": _NO_SCHEMA,
    "golden--update-deleted-directory": _NO_SCHEMA,
    "golden--collations-table": "writer features that are not supported: collations",
    "golden--collations-preview-table": "writer features that are not supported: collations-preview",
}

#: Reading its one file takes seconds, and says nothing of checkpoints that the others do not say.
_LONG = {"golden--parquet-decimal-dictionaries-v2"}


@cache
def _index() -> dict[str, dict[str, Any]]:
    shared = shared_directory()
    if shared is None:
        return {}
    index = json.loads((shared / "conformance" / "index.json").read_text(encoding="utf-8"))
    return {name: entry for name, entry in index.items() if entry["format"] == "delta" and entry["expect"] != "error"}


@pytest.fixture
def copied(request: pytest.FixtureRequest, conformance: Path, tmp_path: Path) -> Path:
    """A table with a log of its own, and links to the data files of the original."""
    source, copy = conformance / _index()[request.param]["dir"], tmp_path / "table"
    copy.mkdir()
    for child in source.iterdir():
        if child.name == "_delta_log":
            shutil.copytree(child, copy / child.name, copy_function=shutil.copyfile)
        else:
            (copy / child.name).symlink_to(child)
    return copy


def _set_properties(root: Path, properties: dict[str, str]) -> None:
    """Commit other table properties."""
    table = DeltaTable(root)
    changed = table.metadata.with_properties(properties).action.to_json()
    (root / "_delta_log" / f"{table.version + 1:020d}.json").write_text(f"{changed}\n", encoding="utf-8")


def _only_checkpoint(root: Path) -> DeltaTable:
    """Write a checkpoint, delete what came before it, and open the table by it."""
    table = DeltaTable(root)
    info = table.checkpoint()
    forget_before(root / "_delta_log", table.version)
    found = DeltaTable(root)
    assert found.base_checkpoint == info
    return found


@pytest.mark.parametrize(
    "copied",
    [
        pytest.param(name, marks=[pytest.mark.full] if name in _LONG else [])
        for name in sorted(_index().keys() - _REFUSED)
    ],
    indirect=True,
)
@pytest.mark.parametrize("typed", ["false", "true"], ids=["texts", "typed"])
def test_the_checkpoint_is_the_table(copied: Path, typed: str, request: pytest.FixtureRequest) -> None:
    entry = _index()[request.node.callspec.params["copied"]]
    keep_all = {"delta.deletedFileRetentionDuration": "interval 100000 days"}
    _set_properties(copied, {**keep_all, "delta.checkpoint.writeStatsAsStruct": typed})
    before = DeltaTable(copied)
    state, tombstones = state_of(before), _recorded(before)
    table = _only_checkpoint(copied)
    assert state_of(table) == state
    assert _recorded(table) == tombstones
    if entry["expect"] == "rows":
        assert digest(table.scan().to_arrow()) == entry["sha256"]


def _recorded(table: DeltaTable) -> list[str]:
    """Return what the tombstones say that checkpoints keep."""
    left_out = ("tags", "version", "pathAdded")
    kept = [name for name in table.tombstones.column_names if name not in left_out]
    return sorted(map(repr, table.tombstones.select(kept).to_pylist()))


@pytest.mark.parametrize("copied", sorted(_index().keys() & _REFUSED), indirect=True)
def test_tables_that_get_none(copied: Path, request: pytest.FixtureRequest) -> None:
    with pytest.raises(
        (CorruptLogError, UnsupportedFeatureError), match=_REFUSED[request.node.callspec.params["copied"]]
    ):
        DeltaTable(copied).checkpoint()
    assert sorted(_index().keys() & _REFUSED) == sorted(_REFUSED)
