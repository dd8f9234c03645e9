"""Tables are created, appended to and overwritten in buckets and in memory as on a local disk."""

from __future__ import annotations

from pathlib import Path

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg import DeltaTable, convert_to_delta, create_table, write_table
from deltaberg.errors import ConcurrentAppendError, TableExistsError
from deltaberg.storage.remote import RemoteStorage
from tests.storage.conftest import Bucket
from tests.support.rows import ids_of

pytestmark = pytest.mark.one_backend

_ROWS = pa.table({"id": [1, 2, 3], "p": ["a", "b/ %", None]})


def _use(url: str, options: dict[str, str] | None) -> DeltaTable:
    table = create_table(url, _ROWS.schema, partition_by="p", storage_options=options)
    assert table.append(_ROWS).added_files == 3
    with pytest.raises(TableExistsError, match="there is a table already"):
        write_table(url, _ROWS, storage_options=options)
    stale = DeltaTable(url, storage_options=options)
    table.overwrite(pa.table({"id": [4], "p": ["b/ %"]}), where=[("p", "=", "b/ %")])
    with pytest.raises(ConcurrentAppendError, match="version 2 was committed meanwhile, and it added a file"):
        stale.overwrite(_ROWS)
    write_table(
        url, pa.table({"id": [5], "p": ["c"], "x": [1.5]}), mode="append", schema_mode="merge", storage_options=options
    )
    table.refresh().alter().set({"owner": "ada"}).commit()
    found = DeltaTable(url, storage_options=options)
    assert (found.version, ids_of(found), found.properties) == (4, [1, 3, 4, 5], {"owner": "ada"})
    return found


def _change_rows(table: DeltaTable) -> None:
    """Change rows by deletion vectors, by copy on write and by a merge, and put the files together."""
    table.alter().set({"delta.enableDeletionVectors": "true"}).commit()
    assert table.append(pa.table({"id": [6, 7], "p": ["c", "c"], "x": [6.0, 7.0]})).added_files == 1
    assert table.delete("id = 7").metrics["numDeletionVectorsAdded"] == 1
    table.update({"x": "x + 1"}, "id = 6", strategy="copy-on-write")
    table.upsert(pa.table({"id": [1, 8], "p": ["a", "c"], "x": [1.0, 8.0]}), "id")
    assert table.compact().removed_files > 0
    rows = {row["id"]: row["x"] for row in table.scan().to_arrow().to_pylist()}
    assert rows == {1: 1.0, 3: None, 4: None, 5: 1.5, 6: 7.0, 8: 8.0}


def test_a_bucket(s3: Bucket) -> None:
    """No file is left of the write that lost, and deltalake reads the table."""
    table = _use(f"{s3.url}/a table", s3.options)
    objects = [meta["path"] for page in s3.store().list() for meta in page]
    assert len([path for path in objects if path.endswith(".parquet")]) == 5
    theirs = deltalake.DeltaTable(f"{s3.url}/a table", storage_options={**s3.options, "AWS_ALLOW_HTTP": "true"})
    assert theirs.version() == table.version
    rows = pa.table(theirs.to_pyarrow_table())
    assert sorted(rows["id"].to_pylist()) == [1, 3, 4, 5]
    _change_rows(table)
    assert DeltaTable(f"{s3.url}/a table", storage_options=s3.options).version == table.version


def test_a_directory_of_a_bucket_becomes_a_table(s3: Bucket) -> None:
    """No file is copied or moved."""
    for part in ("a", "b"):
        data = pa.BufferOutputStream()
        pq.write_table(pa.table({"id": [1, 2]}), data)
        s3.store().put(f"files/p={part}/rows.parquet", data.getvalue().to_pybytes())
    done = convert_to_delta(f"{s3.url}/files", partition_by={"p": "string"}, storage_options=s3.options)
    assert done.added_files == 2
    found = DeltaTable(f"{s3.url}/files", storage_options=s3.options)
    assert found.scan(filter="p = 'b'").to_arrow().to_pylist() == [{"id": 1, "p": "b"}, {"id": 2, "p": "b"}]


def test_memory() -> None:
    _change_rows(_use("memory:///written/t", None))


@pytest.mark.req("DL-OPS-07")
def test_a_bucket_copies_by_itself_and_a_clone_comes_back(
    s3: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, clone = _use(f"{s3.url}/a table", s3.options), f"{s3.url}/a clone"
    rows = table.scan().to_arrow().sort_by("id")
    with monkeypatch.context() as patched:
        # Within the bucket no byte of a file is read.
        patched.setattr(RemoteStorage, "open", None)
        assert table.clone(clone).copied_files == 4
    opened = DeltaTable(clone, storage_options=s3.options)
    assert opened.scan().to_arrow().sort_by("id") == rows
    assert opened.verify().is_clean
    assert table.clone(f"{s3.url}/shallow", shallow=True).copied_files == 0
    assert ids_of(DeltaTable(f"{s3.url}/shallow", storage_options=s3.options)) == [1, 3, 4, 5]
    opened.clone(tmp_path / "here", storage_options={})
    here = DeltaTable(tmp_path / "here")
    assert here.scan().to_arrow().sort_by("id") == rows
    here.clone(f"{s3.url}/back", storage_options=s3.options)
    assert ids_of(DeltaTable(f"{s3.url}/back", storage_options=s3.options)) == [1, 3, 4, 5]
