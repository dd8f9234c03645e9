"""A log that is deleted, cut back or written anew under an open table: an error, never two tables in one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import open_table
from deltaberg.errors import CorruptLogError, DeltabergError, TableNotFoundError, VersionNotFoundError
from tests.support.delta_builder import DeltaBuilder, commit_name
from tests.support.roads import by_every_road
from tests.support.rows import ids, ids_of, numbered_commits

_OTHER = pa.table({"x": ["a"]})


def _recreate(builder: DeltaBuilder, versions: int) -> None:
    """Write another table of so many versions in place of the one that is there."""
    shutil.rmtree(builder.root)
    other = DeltaBuilder(builder.root)
    metadata = other.metadata(_OTHER.schema, id="another")
    other.commit(other.protocol(), metadata, other.add(_OTHER))
    for _ in range(versions - 1):
        other.commit(other.add(_OTHER))


def _refused(table: Any, kind: type[DeltabergError]) -> str:
    """A failed refresh leaves the table unchanged."""
    before = (table.version, table.schema)
    with pytest.raises(kind) as caught:
        table.refresh()
    assert (table.version, table.schema) == before
    assert caught.value.context["table"] == table.location
    return str(caught.value)


@pytest.mark.parametrize("held", [0, 2])
def test_a_deleted_table_is_missed(builder: DeltaBuilder, held: int) -> None:
    numbered_commits(builder, held)
    table = open_table(builder.root)
    shutil.rmtree(builder.root)
    _refused(table, TableNotFoundError)


@pytest.mark.parametrize("kept", [0, 1])
def test_a_log_that_was_cut_back_is_noticed(builder: DeltaBuilder, kept: int) -> None:
    numbered_commits(builder, 3)
    table = open_table(builder.root)
    for version in range(kept + 1, 4):
        (builder.log / commit_name(version)).unlink()
    assert f"ends at version {kept}" in _refused(table, VersionNotFoundError)


@pytest.mark.parametrize("held", [0, 1, 2])
@pytest.mark.parametrize("versions", [1, 2, 3, 5])
def test_a_table_written_anew_is_noticed(builder: DeltaBuilder, held: int, versions: int) -> None:
    numbered_commits(builder, held)
    table = open_table(builder.root)
    _recreate(builder, versions)
    assert "open the table again" in _refused(table, VersionNotFoundError)
    assert open_table(builder.root).scan().count() == versions


def test_a_table_written_anew_and_cleaned_is_noticed(builder: DeltaBuilder) -> None:
    """No commit of the versions that were read is left: the id of the table shows it."""
    numbered_commits(builder, 1)
    table = open_table(builder.root)
    shutil.rmtree(builder.root)
    other = DeltaBuilder(builder.root)
    other.commit(other.protocol(), other.metadata(_OTHER.schema, id="another"), other.add(_OTHER))
    for _ in range(3):
        other.commit(other.add(_OTHER))
    other.checkpoint(3)
    for version in range(3):
        (other.log / commit_name(version)).unlink()
    assert "open the table again" in _refused(table, VersionNotFoundError)


def test_a_table_behind_a_checkpoint_written_anew_is_noticed(builder: DeltaBuilder) -> None:
    """If the version was read from a checkpoint, its commit was listed all the same."""
    numbered_commits(builder, 3)
    builder.checkpoint(3, pointer=True)
    table = open_table(builder.root)
    _recreate(builder, 6)
    _refused(table, VersionNotFoundError)


@pytest.mark.parametrize("touch", [lambda path: os.utime(path, (1, 1)), lambda path: shutil.copy(path, f"{path}.new")])
def test_a_commit_that_was_copied_is_the_same(builder: DeltaBuilder, touch: Callable[[Any], None]) -> None:
    """Its bytes tell, where time or place of the file changed."""
    numbered_commits(builder, 2)
    table = open_table(builder.root)
    newest = builder.log / commit_name(2)
    touch(newest)
    if newest.with_name(f"{newest.name}.new").exists():
        os.replace(f"{newest}.new", newest)
    builder.commit(builder.add(ids(3)))
    assert ids_of(table.refresh()) == [0, 1, 2, 3]


def _cover(builder: DeltaBuilder, cover: str) -> None:
    """Write what stands in for commit 2."""
    if cover == "checkpoint":
        builder.checkpoint(2)
    else:
        lines = [(builder.log / commit_name(number)).read_text() for number in (1, 2)]
        (builder.log / f"{1:020d}.{2:020d}.compacted.json").write_text("".join(lines))


@pytest.mark.parametrize("cover", ["checkpoint", "compaction"])
def test_a_commit_that_was_copied_is_the_same_where_nobody_read_it(builder: DeltaBuilder, cover: str) -> None:
    """A checkpoint or a compaction was read in its place. What the log holds now tells."""
    numbered_commits(builder, 2)
    _cover(builder, cover)
    table = open_table(builder.root, "delta")
    os.utime(builder.log / commit_name(2), (1, 1))
    assert table.refresh().version == 2
    builder.commit(builder.add(ids(3)))
    os.utime(builder.log / commit_name(2), (2, 2))
    assert ids_of(table.refresh()) == [0, 1, 2, 3]


@pytest.mark.parametrize("cover", ["checkpoint", "compaction"])
def test_a_commit_written_anew_is_noticed_where_nobody_read_it(builder: DeltaBuilder, cover: str) -> None:
    """Even though it is a commit to the same table."""
    numbered_commits(builder, 2)
    _cover(builder, cover)
    table = open_table(builder.root)
    for path in (*builder.log.glob("*.checkpoint*"), *builder.log.glob("*.compacted.json")):
        path.unlink()
    builder.commit(builder.add(ids(99)), version=2)
    os.utime(builder.log / commit_name(2), (1, 1))
    _refused(table, VersionNotFoundError)
    builder.commit(builder.add(ids(3)), version=3)
    _refused(table, VersionNotFoundError)


@by_every_road
@pytest.mark.req("DL-LOG-03", half="reader")
def test_an_empty_newest_commit_is_no_version(builder: DeltaBuilder) -> None:
    """A store that does not write in one step shows one before its actions are there."""
    numbered_commits(builder, 2)
    table = open_table(builder.root)
    builder.commit_text("")
    with pytest.raises(CorruptLogError, match="is empty") as caught:
        open_table(builder.root)
    assert caught.value.context["file"] == commit_name(3)
    _refused(table, CorruptLogError)
    assert ids_of(open_table(builder.root, version=2)) == [0, 1, 2]
    builder.commit(builder.add(ids(3)), version=3)
    assert ids_of(table.refresh()) == [0, 1, 2, 3]


def test_an_empty_older_commit_does_nothing(builder: DeltaBuilder) -> None:
    """Whoever wrote the next version has read it so."""
    numbered_commits(builder, 2)
    builder.commit_text("")
    builder.commit(builder.add(ids(4)))
    assert ids_of(open_table(builder.root)) == [0, 1, 2, 4]
    assert ids_of(open_table(builder.root, version=3)) == [0, 1, 2]
