"""What `Scan.files` says about files with delete files or deletion vectors."""

from __future__ import annotations

from pathlib import Path

import pytest

from deltaberg import open_table
from deltaberg.table.read.scan import bound_scan
from tests.support.iceberg_builder import IcebergBuilder
from tests.support.recorder import Recorder


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


def _bounds(low: int, high: int) -> dict[str, dict[int, bytes]]:
    return {"lower_bounds": {1: low.to_bytes(8, "little")}, "upper_bounds": {1: high.to_bytes(8, "little")}}


def test_what_deletes_rows_is_explained(tmp_path: Path, recorder: Recorder) -> None:
    builder = IcebergBuilder(tmp_path / "t", {"id": "long"}, format_version=3)
    bounds = [_bounds(low, high) for low, high in ((1, 2), (3, 4), (5, 6))]
    files = [
        builder.data([{"id": 2 * n + 1}, {"id": 2 * n + 2}], metrics=explanation)
        for n, explanation in enumerate(bounds)
    ]
    builder.commit(*files)
    first, second, _ = files
    builder.commit(builder.position_deletes([(first, 0)], referenced_data_file=first.path), operation="delete")
    for number in (2, 3):
        builder.commit(builder.equality_deletes([1], [{"id": number}]), operation="delete")
    builder.commit(*builder.deletion_vectors({second.path: [1]}), operation="delete")
    builder.commit(builder.data([{"id": 9}], metrics=_bounds(9, 9)))
    table = open_table(builder.root)
    scan = table.scan()
    bound_scan(scan).plan  # noqa: B018 - what follows must not read anything more
    recorder.clear()
    explanation = scan.explanation()
    assert recorder.read == []
    counts = (explanation.position_delete_files, explanation.equality_delete_files, explanation.files_with_delete_files)
    assert counts == (1, 2, 3)
    assert (explanation.deletion_vectors, explanation.deleted_rows) == (1, 1)
    lines = [line.split(":", 1) for line in scan.explain().splitlines()[1:]]
    facts = {name.strip(): text.strip() for name, text in lines}
    assert facts["delete files"] == "1 position, 2 equality; for 3 files"
    assert facts["deletion vectors"] == "1 file, 1 row deleted"
    only = table.scan("id >= 5 AND id < 9").explanation()
    assert (only.position_delete_files, only.files_with_delete_files, only.deletion_vectors) == (0, 1, 0)
    assert "delete files" not in table.scan("id = 9").explain()


def test_deletes_among_changes_are_explained(tmp_path: Path) -> None:
    builder = IcebergBuilder(tmp_path / "t", {"id": "long"})
    first = builder.data([{"id": 1}, {"id": 2}])
    builder.commit(first)
    builder.commit(builder.position_deletes([(first, 0)]), operation="delete")
    found = open_table(builder.root).changes(1000).explanation()
    assert (found.position_delete_files, found.equality_delete_files, found.files_with_delete_files) == (1, 0, 1)
