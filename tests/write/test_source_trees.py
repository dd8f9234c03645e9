"""Trees of files that become tables: what is behind links is found, and what is passed over is counted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg import (
    CommitResult,
    DeltaTable,
    convert_to_delta,
    convert_to_iceberg,
    create_table,
    open_table,
    write_table,
)
from deltaberg.errors import CorruptDataFileError, InvalidArgumentError
from tests.support.command_line import json_lines
from tests.support.rows import ids, ids_of

_Convert = Callable[..., CommitResult]


@pytest.fixture(params=["delta", "iceberg"])
def convert(request: pytest.FixtureRequest) -> _Convert:
    return convert_to_delta if request.param == "delta" else convert_to_iceberg


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    for place, rows in ((root / "a.parquet", ids(1)), (tmp_path / "far" / "deep" / "b.parquet", ids(2))):
        place.parent.mkdir(parents=True)
        pq.write_table(rows, place)
    return root


@pytest.mark.one_backend
def test_links_are_followed_and_what_is_ignored_is_counted(tree: Path, convert: _Convert) -> None:
    (tree / "there").symlink_to(tree.parent / "far")
    (tree / "_hidden").symlink_to(tree)
    pq.write_table(ids(3), tree.parent / "c.parquet")
    (tree / "c.parquet").symlink_to(tree.parent / "c.parquet")
    for name in ("_SUCCESS", ".a.parquet.crc", "day=1_$folder$"):
        (tree / name).touch()
    done = convert(tree)
    assert (done.added_files, done.ignored_files, "ignored 3 files" in str(done)) == (3, 3, True)
    table: Any = open_table(tree)
    assert ids_of(table) == [1, 2, 3]
    assert table.verify().is_clean
    table.delete("id > 1")
    if isinstance(table, DeltaTable):
        table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    else:
        table.expire_snapshots(older_than="9999-12-31")
    # What is behind links may belong to others, and is not deleted.
    assert [(tree.parent / path).exists() for path in ("far/deep/b.parquet", "c.parquet")] == [True, True]


@pytest.mark.one_backend
def test_links_that_cannot_be_followed(tree: Path, convert: _Convert) -> None:
    link = tree / "link"
    for goal, match in (
        (tree, "is found without it"),
        (tree.parent, "is found without it"),
        (tree.parent / "none", "leads nowhere"),
    ):
        link.symlink_to(goal)
        with pytest.raises(InvalidArgumentError, match=match) as caught:
            convert(tree)
        assert str(caught.value.context["path"]).startswith(str(link))
        link.unlink()
    for number in (1, 2):
        (tree / f"link{number}").symlink_to(tree.parent / "far")
    with pytest.raises(InvalidArgumentError, match="is found without it"):
        convert(tree)
    (tree / "link2").unlink()
    write_table(tree.parent / "far", ids(9))
    with pytest.raises(InvalidArgumentError, match="is a Delta table"):
        convert(tree)


@pytest.mark.one_backend
def test_empty_files_are_refused(tree: Path, convert: _Convert) -> None:
    for name in ("x.parquet", "y.orc", "z"):
        (tree / name).touch()
    with pytest.raises(CorruptDataFileError, match=r"3 files without a single byte.*: x\.parquet, y\.orc, z"):
        convert(tree)


@pytest.mark.one_backend
def test_directories_of_add_files(tree: Path, tmp_path: Path) -> None:
    """They are found as those that become tables are."""
    table = create_table(str(tmp_path / "t"), ids().schema, format="iceberg")
    (tree / "there").symlink_to(tree.parent / "far")
    table.add_files([str(tree)])
    assert ids_of(table) == [1, 2]
    (tree / "z.parquet").touch()
    with pytest.raises(CorruptDataFileError, match="1 file without a single byte"):
        table.add_files([str(tree)])
    with pytest.raises(InvalidArgumentError, match="contains an Iceberg table"):
        table.add_files([table.location])
    write_table(tmp_path / "d", ids(3))
    with pytest.raises(InvalidArgumentError, match="contains a Delta table"):
        table.add_files([str(tmp_path / "d")])


@pytest.mark.one_backend
@pytest.mark.parametrize("to", [None, "new/trial"])
def test_dry_runs_leave_no_directories(tree: Path, to: str | None) -> None:
    (tree / "_SUCCESS").touch()
    files = len([path for path in tree.rglob("*.parquet") if path.is_file()])
    before = sorted(tree.parent.rglob("*"))
    words = [] if to is None else ["--to", str(tree.parent / to)]
    (planned,) = json_lines("convert", str(tree), "--table-format", "iceberg", *words, "--dry-run")
    assert (planned["tables_to_create"], planned["files_to_add"], planned["ignored_files"]) == (1, files, 1)
    (planned,) = json_lines("convert", str(tree), "--dry-run")
    assert (planned["files_to_add"], planned["ignored_files"]) == (files, 1)
    assert sorted(tree.parent.rglob("*")) == before


@pytest.mark.one_backend
def test_transactions_that_are_given_up_leave_no_directories(tmp_path: Path) -> None:
    for kind in ("delta", "iceberg"):
        rows = pa.table({"id": [1, 2], "day": [1, 2]})
        table = create_table(str(tmp_path / kind), rows.schema, format=kind, partition_by=["day"])
        table.append(rows.slice(1))
        before = sorted(tmp_path.rglob("*"))
        transaction = table.transaction()
        transaction.append(rows)
        transaction.abort()
        assert sorted(tmp_path.rglob("*")) == before
