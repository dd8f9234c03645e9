"""What `Scan.files` says of files that delete files or deletion vectors apply to."""

from __future__ import annotations

from pathlib import Path

import pytest

from deltaberg import open_table
from tests.support.iceberg_builder import IcebergBuilder


def test_deleted_rows_are_counted_where_metadata_says_so(tmp_path: Path) -> None:
    builder = IcebergBuilder(tmp_path / "t", {"id": "long"}, format_version=3)
    whole, marked = (builder.data([{"id": number + one} for number in range(4)]) for one in (0, 4))
    builder.commit(whole, marked, *builder.deletion_vectors({marked.path: [0, 2, 3]}))
    table = open_table(builder.root)
    files = table.scan().files()
    assert sorted(files["deleted_record_count"].to_pylist()) == [0, 3]
    assert table.scan().count() == 5


@pytest.mark.parametrize("kind", ["position", "equality"])
def test_rows_in_delete_files_are_not_counted(tmp_path: Path, kind: str) -> None:
    builder = IcebergBuilder(tmp_path / "t", {"id": "long"})
    older = builder.data([{"id": 1}, {"id": 2}])
    builder.commit(older)
    builder.commit(
        builder.equality_deletes([1], [{"id": 2}]) if kind == "equality" else builder.position_deletes([(older, 1)])
    )
    builder.commit(builder.data([{"id": 3}, {"id": 4}, {"id": 5}]))
    table = open_table(builder.root)
    files = table.scan().files().to_pylist()
    assert {row["record_count"]: row["deleted_record_count"] for row in files} == {2: None, 3: 0}
    assert table.scan().explanation().deleted_rows == 0
    assert table.scan().count() == 4
