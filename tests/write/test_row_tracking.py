"""Row tracking of tables that are there: enabled with ids for the rows of old files, and dropped again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from deltaberg import DeltaTable, create_table
from deltaberg.errors import ColumnNotFoundError, ConcurrentAppendError, InvalidArgumentError
from tests.support.below_verbs import engine_of
from tests.support.delta_builder import DeltaBuilder
from tests.support.log_entries import named_actions
from tests.support.rows import ID, ids, ids_of

pytestmark = pytest.mark.one_backend

_ENABLE = {"delta.enableRowTracking": "true"}
_VECTORS = {"delta.enableDeletionVectors": "true"}
_ID_COLUMN = "delta.rowTracking.materializedRowIdColumnName"


def _row_facts(table: DeltaTable) -> dict[int, tuple[int, int]]:
    rows = table.scan(columns=["id", "_metadata.row_id", "_metadata.row_commit_version"]).to_arrow().to_pylist()
    return {row["id"]: (row["_metadata"]["row_id"], row["_metadata"]["row_commit_version"]) for row in rows}


@pytest.mark.req("DL-RT-17", "DL-RT-19")
@pytest.mark.parametrize("checkpointed", [False, True])
def test_old_files_get_ids(tmp_path: Path, checkpointed: bool) -> None:
    root = tmp_path / "t"
    table = create_table(root, ID, properties=_VECTORS | {"delta.enableChangeDataFeed": "true"})
    for first in (0, 10, 20):
        table.append(ids(first, first + 1))
    table.delete("id = 11")
    if checkpointed:
        table.checkpoint()
    before = {add["path"]: add for version in (1, 2, 3, 4) for add in named_actions(root, version, "add")}
    named = {_ID_COLUMN: "_a", "delta.rowTracking.materializedRowCommitVersionColumnName": "_b"}
    for properties, message in (_ENABLE, "materializedRow"), (_ENABLE | named, "a file has no row ids"):
        transaction = table.transaction()
        transaction.alter().set({"delta.feature.rowTracking": "supported"})
        engine_of(transaction).set_metadata(table.metadata.with_properties(properties))
        with pytest.raises(InvalidArgumentError, match=message):
            transaction.commit()
    done = table.alter().set(_ENABLE).commit()
    assert (done.version, done.added_files, done.removed_files) == (5, 0, 0)
    adds = named_actions(root, 5, "add")
    assert {add["path"] for add in adds} == before.keys()
    assert sorted(add["baseRowId"] for add in adds) == [0, 2, 4]
    for add in adds:
        assert (add["defaultRowCommitVersion"], add["dataChange"]) == (5, False)
        same = {"baseRowId": None, "defaultRowCommitVersion": None, "dataChange": None}
        assert {**add, **same} == {**before[add["path"]], **same}
    (domain,) = named_actions(root, 5, "domainMetadata")
    assert json.loads(domain["configuration"]) == {"rowIdHighWaterMark": 5}
    assert set(table.features) >= {"rowTracking", "domainMetadata"}
    facts = _row_facts(DeltaTable(root, validate=True))
    assert (sorted(facts), {version for _, version in facts.values()}) == ([0, 1, 10, 20, 21], {5})
    assert len({number for number, _ in facts.values()}) == len(facts)
    assert table.changes(5, 5).count() == 0
    # Ids are stable from then on.
    table.update({"id": "id + 100"}, "id = 20")
    table.append(ids(30))
    facts[120] = (facts.pop(20)[0], 6)
    facts[30] = (max(number for number, _ in facts.values()) + 2, 7)
    found = _row_facts(DeltaTable(root, validate=True))
    assert {name: found[name] for name in facts if name != 30} == {name: facts[name] for name in facts if name != 30}
    assert found[30][0] not in {number for name, (number, _) in found.items() if name != 30}


def test_only_files_without_ids_are_added_again(builder: DeltaBuilder) -> None:
    """A file whose statistics do not tell the number of its rows is asked for it."""
    domain = {"domain": "delta.rowTracking", "configuration": '{"rowIdHighWaterMark":9}', "removed": False}
    bare = builder.add(ids(1, 2, 3))
    bare["add"]["stats"] = '{"minValues":{"id":1}}'
    builder.create(
        ID,
        bare,
        builder.add(ids(4), stats="full", baseRowId=9, defaultRowCommitVersion=0),
        {"domainMetadata": domain},
        protocol=builder.protocol(1, 7, None, ["rowTracking", "domainMetadata"]),
    )
    table = DeltaTable(builder.root)
    table.alter().set(_ENABLE).commit()
    (add,) = named_actions(builder.root, 1, "add")
    assert (add["path"], add["baseRowId"], json.loads(add["stats"])) == (
        bare["add"]["path"],
        10,
        {"minValues": {"id": 1}, "numRecords": 3},
    )
    assert _row_facts(table) == {1: (10, 1), 2: (11, 1), 3: (12, 1), 4: (9, 0)}


@pytest.mark.req("DL-RT-17")
@pytest.mark.parametrize("level", ["Serializable", "SnapshotIsolation"])
def test_a_file_that_comes_meanwhile(tmp_path: Path, level: str) -> None:
    table = create_table(tmp_path / "t", ID, properties={"delta.isolationLevel": level})
    table.append(ids(1))
    late = DeltaTable(tmp_path / "t").alter().set(_ENABLE)
    table.append(ids(2))
    with pytest.raises(ConcurrentAppendError, match=r"version 2 .* added a file that had to be read: the whole table"):
        late.commit()
    assert table.refresh().version == 2
    with table.transaction() as transaction:
        transaction.append(ids(3))
        transaction.alter().set(_ENABLE)
    assert sorted(number for number, _ in _row_facts(table).values()) == [0, 1, 2]
    assert ids_of(table) == [1, 2, 3]


@pytest.mark.req("DL-RT-18")
@pytest.mark.parametrize("mode", ["none", "name"])
def test_names_of_hidden_columns_are_taken(tmp_path: Path, mode: str) -> None:
    table = create_table(tmp_path / "t", ID, properties={"delta.columnMapping.mode": mode})
    table.alter().set(_ENABLE).commit()
    names = [value for key, value in table.properties.items() if key.startswith("delta.rowTracking.materialized")]
    assert len(set(names)) == 2
    assert {name.rsplit("-", 5)[0] for name in names} == {"_row-id-col", "_row-commit-version-col"}
    for name in names:
        with pytest.raises(InvalidArgumentError, match="belongs to a hidden column"):
            table.alter().add((name.upper(),), pa.int64()).commit()
        with pytest.raises(InvalidArgumentError, match="belongs to a hidden column"):
            table.append(pa.table({"id": [1], name: [2]}), schema_mode="merge")
    if mode == "name":
        with pytest.raises(InvalidArgumentError, match="belongs to a hidden column"):
            table.alter().rename("id", names[0]).commit()
    # Files may hold columns of these names, so that they stay.
    table.alter().set({"delta.enableRowTracking": "false"}).commit()
    table.alter().set(_ENABLE).commit()
    assert set(names) <= set(table.properties.values())


def test_row_tracking_is_dropped(tmp_path: Path) -> None:
    root = tmp_path / "t"
    table = create_table(root, ID, properties=_ENABLE | _VECTORS)
    table.append(ids(1, 2))
    table.append(ids(3))
    table.delete("id = 1")
    with pytest.raises(InvalidArgumentError, match="while the property"):
        table.alter().drop_feature("rowTracking")
    with pytest.raises(InvalidArgumentError, match="rowTracking depends on it"):
        table.alter().drop_feature("domainMetadata")
    done = table.alter().unset("delta.enableRowTracking").drop_feature("rowTracking").commit()
    assert (done.added_files, done.removed_files) == (0, 0)
    for add in named_actions(root, 4, "add"):
        assert "baseRowId" not in add
        assert "defaultRowCommitVersion" not in add
    table = DeltaTable(root, validate=True)
    assert (table.domain_metadata, ids_of(table)) == ({}, [2, 3])
    assert [key for key in table.properties if "rowTracking" in key] == []
    table.append(ids(4))
    assert "baseRowId" not in named_actions(root, 5, "add")[0]
    # What is enabled again begins at 0, since no file has an id of before.
    table.alter().set(_ENABLE).commit()
    numbers = {number for number, _ in _row_facts(table).values()}
    assert (len(numbers), max(numbers) <= 3) == (3, True)


@pytest.mark.parametrize("vectors", [False, True])
@pytest.mark.parametrize("enables", [False, True])
def test_files_that_are_added_again_can_be_changed_by_the_same_commit(
    tmp_path: Path, enables: bool, vectors: bool
) -> None:
    """They are removed as they were before the commit, or their rows would be there twice."""
    steps: dict[str, tuple[Callable[[Any], object], list[int]]] = {
        "overwrite": (lambda tx: tx.overwrite(ids(9)), [9]),
        "delete": (lambda tx: tx.delete("id = 1"), [2, 3]),
        "delete twice": (lambda tx: (tx.delete("id = 1"), tx.delete("id = 3")), [2]),
        "delete all": (lambda tx: tx.delete("id < 3"), [3]),
        "update": (lambda tx: tx.update({"id": "id + 10"}, "id = 1"), [2, 3, 11]),
    }
    for name, (change, left) in steps.items():
        root = tmp_path / name
        table = create_table(root, ID, properties=({} if enables else _ENABLE) | (_VECTORS if vectors else {}))
        table.append(ids(1, 2))
        table.append(ids(3))
        with table.transaction() as tx:
            if enables:
                tx.alter().set(_ENABLE)
            else:
                tx.alter().unset("delta.enableRowTracking").drop_feature("rowTracking")
            change(tx)
        opened = DeltaTable(root, validate=True)
        assert sorted(ids_of(opened)) == left, name
        if not vectors:
            assert sorted(deltalake.DeltaTable(root).to_pyarrow_table()["id"].to_pylist()) == left, name
        if enables:
            facts = _row_facts(opened)
            assert len({number for number, _ in facts.values()}) == len(left)


@pytest.mark.parametrize("name", ["row_id", "ROW_COMMIT_VERSION"])
def test_where_the_ids_of_rows_are(tmp_path: Path, name: str) -> None:
    table = create_table(tmp_path / "t", ID, properties=_ENABLE)
    with pytest.raises(ColumnNotFoundError, match="no column") as caught:
        table.scan(columns=[name])
    assert caught.value.hint == f"read _metadata.{name.lower()}"
    plain = create_table(tmp_path / "u", ID)
    with pytest.raises(ColumnNotFoundError, match="row tracking is not enabled"):
        plain.scan(columns=[f"_metadata.{name.lower()}"])
