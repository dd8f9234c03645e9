"""Auto compaction: commits put small files together that they and others have left, and stand whatever comes of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import DeltaTable, create_table, open_table, write_table
from deltaberg.errors import InvalidArgumentError, StorageError
from deltaberg.iceberg.maintain import auto_compact as iceberg_auto_compact
from deltaberg.table.change import changed_rows
from deltaberg.table.maintain import auto_compact
from deltaberg.table.write.write import write_files
from tests.support.log_entries import named_actions
from tests.support.rows import ID, ids, ids_of

_ON = {"delta.autoOptimize.autoCompact": "true"}
_COLUMNS = pa.schema([*ID, ("p", pa.string())])


@pytest.fixture
def three(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three small files are many."""
    monkeypatch.setattr(auto_compact, "MIN_FILES", 3)


def _rows(part: str, *numbers: int) -> pa.Table:
    return pa.table({"id": list(numbers), "p": [part] * len(numbers)}, _COLUMNS)


@pytest.mark.req("DL-OPT-09")
def test_sixty_small_appends_are_compacted_once(tmp_path: Path) -> None:
    table = create_table(tmp_path, ID, properties=_ON)
    done = [table.append(ids(number)) for number in range(60)]
    assert [commit.version for commit in done] == [*range(1, 51), *range(52, 62)]
    assert not any(commit.warnings for commit in done)
    assert (table.version, len(table.live_files), ids_of(table)) == (61, 11, list(range(60)))
    assert [one.version for one in table.history() if one.operation == "OPTIMIZE"] == [51]
    assert named_actions(tmp_path, 51, "commitInfo")[0]["operationParameters"]["auto"] == "true"
    assert not any(
        one["dataChange"] for one in [*named_actions(tmp_path, 51, "add"), *named_actions(tmp_path, 51, "remove")]
    )


@pytest.mark.req("DL-OPT-09")
@pytest.mark.usefixtures("three")
@pytest.mark.parametrize("failing", ["a write", "a conflict"])
def test_an_append_stays_whose_compaction_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str) -> None:
    table = create_table(tmp_path, ID, properties=_ON)
    for number in range(2):
        table.append(ids(number))

    def written(*arguments: Any, **named: Any) -> pa.Table:
        if failing == "a write":
            raise StorageError("no space")
        found = write_files(*arguments, **named)
        DeltaTable(tmp_path).overwrite(ids(7))
        return found

    monkeypatch.setattr(changed_rows, "write_files", written)
    done = table.append(ids(2))
    (warning,) = done.warnings
    assert warning.startswith("small files were not put together: ")
    assert ("no space" if failing == "a write" else "removed") in warning
    assert done.version == 3
    assert ids_of(DeltaTable(tmp_path, version=3)) == [0, 1, 2]
    assert ids_of(table) == ids_of(DeltaTable(tmp_path)) == ([0, 1, 2] if failing == "a write" else [7])
    # Files of the compaction are not left behind.
    assert len(list(tmp_path.glob("*.parquet"))) == len(named_files(tmp_path))


def named_files(root: Path) -> set[str]:
    """Return the paths of all files that a log adds."""
    last = DeltaTable(root).version
    return {one["path"] for version in range(last + 1) for one in named_actions(root, version, "add")}


@pytest.mark.usefixtures("three")
def test_only_partitions_with_new_files_are_compacted(tmp_path: Path) -> None:
    table = create_table(tmp_path, _COLUMNS, partition_by="p")
    for number in range(3):
        for part in "abc":
            table.append(_rows(part, number))
    table.alter().set(_ON).commit()
    before = table.version
    # Two partitions have enough small files, one of them gets another one now; so does a partition of two.
    table.delete("p = 'c' AND id > 0")
    table.append(pa.concat_tables([_rows("a", 3), _rows("c", 3)]))
    assert table.version == before + 3
    left = [dict(one["partitionValues"])["p"] for one in table.live_files.to_pylist()]
    assert sorted(left) == ["a", "b", "b", "b", "c", "c"]
    assert sorted(ids_of(table)) == [0, 0, 0, 1, 1, 2, 2, 3, 3]


@pytest.mark.usefixtures("three")
def test_every_verb_that_leaves_small_files_is_followed(tmp_path: Path) -> None:
    """A transaction is one commit, a commit without rows is none to follow, and files of other sizes do not count."""
    table = create_table(tmp_path, ID, properties={"delta.autoOptimize.autoCompact": "auto"})
    with table.transaction(user_metadata="mine") as transaction:
        for number in range(3):
            transaction.append(ids(number))
        transaction.update({"id": "id + 10"}, where="id = 2")
    assert transaction.result is not None
    assert transaction.result.version == 1
    assert (table.version, len(table.live_files), ids_of(table)) == (2, 1, [0, 1, 12])
    infos = [named_actions(tmp_path, version, "commitInfo")[0] for version in (1, 2)]
    assert [info.get("userMetadata") for info in infos] == ["mine", None]
    for number in range(2):
        table.append(ids(number))
    table.alter().set({"owner": "ada"}).commit()
    assert table.version == 6
    assert [one.operation for one in table.history(2)] == ["SET TBLPROPERTIES", "OPTIMIZE"]
    table.append(ids(5))
    table.alter().set({"delta.targetFileSize": "10"}).commit()
    write_table(tmp_path, ids(6), mode="append")
    assert DeltaTable(tmp_path).history(1)[0].operation == "WRITE"


@pytest.mark.usefixtures("three")
def test_clustered_files_stay_clustered(tmp_path: Path) -> None:
    table = create_table(tmp_path, ID, cluster_by=["id"], properties=_ON)
    for number in range(2):
        table.append(ids(number))
    table.compact()
    (cube,) = table.live_files["path"].to_pylist()
    for number in range(3):
        table.append(ids(number))
    live = {one["path"]: one["clusteringProvider"] for one in table.live_files.to_pylist()}
    assert len(live) == 2
    assert live.pop(cube) == "liquid"
    assert set(live.values()) == {None}
    assert ids_of(table) == [0, 0, 1, 1, 2]


@pytest.mark.usefixtures("three")
def test_its_time_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first group is done, and no other one is begun when the time is up."""
    monkeypatch.setattr(auto_compact, "SECONDS", 0)
    monkeypatch.setattr(auto_compact, "_GROUP", 1)
    table = create_table(tmp_path, _COLUMNS, partition_by="p")
    for _ in range(2):
        table.append(pa.concat_tables([_rows("a", 1), _rows("b", 2)]))
    table.alter().set(_ON).commit()
    done = table.append(pa.concat_tables([_rows("a", 1), _rows("b", 2)]))
    late = "small files were not put together for longer than 0 seconds: what is left is for a later commit"
    assert (done.warnings, table.version, len(table.live_files)) == ((late,), done.version + 1, 4)
    # Bytes are bounded as well: the oldest files come first.
    monkeypatch.setattr(auto_compact, "MOST_BYTES", 1)
    table.append(_rows("b", 3))
    assert len(table.live_files) == 5


@pytest.mark.usefixtures("three")
@pytest.mark.parametrize("branch", [None, "b"])
def test_iceberg_tables_that_ask_for_it_are_compacted(tmp_path: Path, branch: str | None) -> None:
    """In the partitions that a commit adds to, on the branch that it goes to; other commits are followed by none."""
    asks = {"deltaberg.auto-compact.enabled": "true"}
    table: Any = create_table(tmp_path, _COLUMNS, partition_by="p", format="iceberg", properties=asks)
    if branch is not None:
        table.append(_rows("z", 9))
        table.alter().create_branch(branch).commit()
        table = open_table(tmp_path, ref=branch)
    before = len(table.scan().files())
    for number in range(2):
        table.append(pa.concat_tables([_rows("a", number), _rows("b", number)]))
    assert len(table.scan().files()) == before + 4
    table.delete("id = 0 AND p = 'b'")
    done = table.append(_rows("a", 2))
    assert done.warnings == ()
    assert len(table.scan("p = 'a'").files()) == 1
    assert sorted(ids_of(table)) == sorted([*([] if branch is None else [9]), 0, 1, 1, 2])
    (newest, *_) = table.history(1)
    assert newest.operation == "replace"


@pytest.mark.usefixtures("three")
@pytest.mark.parametrize("forgets", ["snapshots expire", "another partition"])
def test_small_files_are_found_that_no_summary_tells_of(tmp_path: Path, forgets: str) -> None:
    asks = {"deltaberg.auto-compact.enabled": "true"}
    table: Any = create_table(tmp_path, _COLUMNS, partition_by="p", format="iceberg", properties=asks)
    for number in range(20):
        table.append(_rows("a", number))
        if forgets == "snapshots expire":
            table.expire_snapshots("9999-12-31", 1)
        else:
            table.compact("p = 'b'", rewrite_all=True)
            table.append(_rows("b", number))
    assert len(table.scan("p = 'a'").files()) < 12
    assert sorted(ids_of(table)) == sorted([*range(20)] * (1 if forgets == "snapshots expire" else 2))


@pytest.mark.usefixtures("three")
def test_no_manifest_is_read_for_files_that_were_put_together_before(tmp_path: Path) -> None:
    table: Any = create_table(tmp_path, _COLUMNS, partition_by="p", format="iceberg")
    for part in "aabc":
        table.append(_rows(part, 0))
    assert iceberg_auto_compact._may_be_many(table.metadata, table.metadata.snapshot_of_ref("main"))
    table.compact("p = 'a'", rewrite_all=True)
    table.append(_rows("a", 1))
    assert not iceberg_auto_compact._may_be_many(table.metadata, table.metadata.snapshot_of_ref("main"))


def test_only_tables_that_ask_for_it_are_compacted(tmp_path: Path) -> None:
    plain = create_table(tmp_path / "plain", ID, format="iceberg")
    for number in range(4):
        plain.append(ids(number))
    assert len(plain.scan().files()) == 4
    with pytest.raises(InvalidArgumentError, match="must be true or false, not 'auto'"):
        plain.alter().set({"deltaberg.auto-compact.enabled": "auto"}).commit()


@pytest.mark.parametrize(
    ("properties", "files"),
    [
        ({"delta.autoOptimize.autoCompact": "legacy"}, 1),
        ({"delta.autoOptimize": "true"}, 1),
        ({"delta.autoOptimize.autoCompact": "false"}, 3),
        ({}, 3),
    ],
)
@pytest.mark.usefixtures("three")
def test_what_the_property_may_be(tmp_path: Path, properties: dict[str, str], files: int) -> None:
    table = create_table(tmp_path, ID, properties=properties)
    for number in range(3):
        table.append(ids(number))
    assert len(table.live_files) == files
    with pytest.raises(InvalidArgumentError, match="must be true, auto, legacy or false, not 'yes'"):
        table.alter().set({"delta.autoOptimize.autoCompact": "yes"}).commit()
