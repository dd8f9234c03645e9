"""Table statistics beside what others do meanwhile, and what their files hold."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import IcebergTable, create_table, open_table
from deltaberg.errors import CommitConflictError, DataFileNotFoundError, StorageError, VersionNotFoundError
from deltaberg.iceberg.deletes.puffin import Blob, PuffinFile
from deltaberg.iceberg.deletes.write_puffin import write_puffin
from deltaberg.iceberg.maintain.statistics import compute_table_stats as module
from deltaberg.iceberg.maintain.statistics import sketches
from deltaberg.storage.location import parse_location
from deltaberg.storage.stores import StoreSpec

_SKETCH = "apache-datasketches-theta-v1"


@pytest.fixture
def table(tmp_path: Path) -> IcebergTable:
    found: IcebergTable = create_table(tmp_path / "t", {"id": pa.int64(), "kind": pa.string()}, format="iceberg")
    found.append(pa.table({"id": [1, 2], "kind": ["a", "a"]}))
    return found


def _files(table: IcebergTable) -> list[Path]:
    return sorted(Path(table.location.removeprefix("file://")).rglob("*.stats"))


def _while_rows_are_read(patch: pytest.MonkeyPatch, others: Iterator[Callable[[], object]]) -> None:
    read = sketches.sketch_columns

    def sketch_columns(*arguments: Any) -> Any:
        next(others, lambda: None)()
        return read(*arguments)

    patch.setattr(module, "sketch_columns", sketch_columns)


def test_blobs_of_others_are_kept_as_they_are(table: IcebergTable) -> None:
    """Of sketches, those of other snapshots and with numbers that cannot be are replaced."""
    done = table.compute_table_stats("id")
    assert done is not None
    path, number = done.path.removeprefix("file://"), done.snapshot_id
    other = Blob("other", (1,), number, 1, 0, 0, "brotli")
    blobs = [
        (other, b"as it is"),
        (replace(other, type=_SKETCH, properties={"ndv": "9" * 5_000}), b"too many"),
        (replace(other, type=_SKETCH, fields=(2,), snapshot_id=number + 1, properties={"ndv": "77"}), b"elsewhere"),
        (replace(other, type=_SKETCH, fields=(7,), properties={"ndv": "5"}), b"of a column that is not asked for"),
    ]
    place = parse_location(path)
    size = write_puffin(StoreSpec().open(place), path, blobs).size
    metadata = Path(table.metadata_location.removeprefix("file://"))
    stored = json.loads(metadata.read_text())
    stored["statistics"][0]["file-size-in-bytes"] = size
    metadata.write_text(json.dumps(stored))
    anew = IcebergTable(table.location).compute_table_stats()
    assert anew is not None
    assert anew.ndv == {"id": 2, "kind": 1}
    puffin = PuffinFile(parse_location(anew.path), StoreSpec())
    kept = [(blob.type, blob.fields, puffin.stored(blob)) for blob in puffin.blobs if blob.compression_codec != "zstd"]
    assert kept == [("other", (1,), b"as it is"), (_SKETCH, (7,), blobs[3][1])]
    assert [blob.properties["ndv"] for blob in puffin.blobs if blob.compression_codec == "zstd"] == ["2", "1"]


def test_a_store_that_fails_is_no_lost_file(table: IcebergTable, monkeypatch: pytest.MonkeyPatch) -> None:
    table.compute_table_stats("id")
    before = table.metadata_location

    def fail(*_: object) -> None:
        raise StorageError("503")

    monkeypatch.setattr(module, "PuffinFile", fail)
    with pytest.raises(StorageError, match="503"):
        table.compute_table_stats("kind")
    assert table.refresh().metadata_location == before


def test_two_computations_for_one_snapshot(table: IcebergTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """The later one takes over what the other has named meanwhile, and reads no rows again."""
    reads = []
    other: Any = open_table(table.location)
    _while_rows_are_read(monkeypatch, iter([lambda: other.compute_table_stats("kind"), lambda: reads.append(1)]))
    done = table.compute_table_stats("id")
    assert done is not None
    # The first read is of this computation, and the second of the other one.
    assert (done.ndv, reads) == ({"id": 2}, [1])
    both = IcebergTable(table.location).compute_table_stats()
    assert both is not None
    assert (both.path, both.ndv, both.commit) == (done.path, {"id": 2, "kind": 1}, None)
    assert len(_files(table)) == 2


def test_others_that_are_first_every_time(table: IcebergTable, monkeypatch: pytest.MonkeyPatch) -> None:
    files = iter(range(100))
    monkeypatch.setattr("deltaberg.iceberg.maintain.statistics.named_file.known_file", lambda *_: (next(files), 1))
    with pytest.raises(CommitConflictError, match="every time"):
        table.compute_table_stats("id")
    assert _files(table) == []


@pytest.mark.parametrize("is_named", [False, True])
def test_an_expiry_while_rows_are_read(table: IcebergTable, monkeypatch: pytest.MonkeyPatch, *, is_named: bool) -> None:
    """The newest snapshot is taken then, unless one was named."""

    def expire() -> None:
        other: Any = open_table(table.location)
        other.overwrite(pa.table({"id": [1, 2, 3], "kind": ["a", "b", "c"]}))
        other.expire_snapshots("9999-12-31", retain_last=1)

    _while_rows_are_read(monkeypatch, iter([expire]))
    if is_named:
        with pytest.raises(DataFileNotFoundError, match="a metadata file of the snapshot is missing"):
            table.compute_table_stats(snapshot_id=table.snapshot_id)
    else:
        done = table.compute_table_stats()
        assert done is not None
        assert (done.ndv, done.snapshot_id) == ({"id": 3, "kind": 3}, table.refresh().snapshot_id)


def test_a_lost_file_of_a_snapshot_that_is_there(table: IcebergTable) -> None:
    for file in Path(table.location.removeprefix("file://")).rglob("*.parquet"):
        file.unlink()
    with pytest.raises(DataFileNotFoundError, match="a live data file is gone"):
        table.compute_table_stats()


def test_a_branch_that_was_dropped(table: IcebergTable) -> None:
    table.alter().create_branch("b").commit()
    branch: Any = open_table(table.location, ref="b")
    table.refresh().alter().drop_branch("b").commit()
    with pytest.raises(VersionNotFoundError, match="no branch or tag 'b'"):
        branch.compute_table_stats()
    assert _files(table) == []
