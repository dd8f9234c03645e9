"""What a commit says of itself: callers add to it, and replace nothing that the library records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deltaberg import create_table, open_table, write_table
from deltaberg.errors import InvalidArgumentError
from tests.support.command_line import call
from tests.support.rows import ids, ids_of

pytestmark = pytest.mark.one_backend


@pytest.mark.parametrize(
    ("format", "name"),
    [
        ("delta", "operation"),
        ("delta", "engineInfo"),
        *(("iceberg", name) for name in ("operation", "total-records", "added-data-files", "deleted-records")),
        *(("iceberg", name) for name in ("removed-dvs", "changed-partition-count", "replace-partitions")),
        *(("iceberg", name) for name in ("partition-summaries-included", "partitions.a", "total-files-size")),
        ("iceberg", "deltaberg.cloned-from"),
    ],
)
def test_names_of_the_library_are_refused(tmp_path: Path, format: Any, name: str) -> None:
    said = f"{name} is recorded by the library itself"
    write_table(tmp_path / "t", ids(1), format=format)
    table = open_table(tmp_path / "t")
    for write in (
        lambda: table.append(ids(2), properties={name: "1"}),
        lambda: table.delete("id = 1", commit_properties={name: "1"}),
        lambda: table.transaction(properties={name: "1"}),
        lambda: write_table(tmp_path / "new", ids(1), format=format, commit_properties={name: "1"}),
    ):
        with pytest.raises(InvalidArgumentError, match=said) as caught:
            write()
        assert caught.value.hint == "choose another name for it"
    ended = call("update", tmp_path / "t", "--set", "id=2", "--commit-property", f"{name}=1")
    assert (ended.exit_code, said in ended.stderr) == (2, True)
    assert ids_of(open_table(tmp_path / "t")) == [1]


def test_other_names_are_kept(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", ids(1).schema, format="iceberg")
    own = {"total-cost": "3", "added-by": "ada", "operations": "4", "partitions": "all"}
    table.append(ids(1), properties=own)
    assert table.snapshot is not None
    assert own.items() <= (table.snapshot.summary or {}).items()
