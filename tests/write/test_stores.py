"""Tables are created, appended to and overwritten in buckets and in memory as on a local disk."""

from __future__ import annotations

import deltalake
import pyarrow as pa
import pytest

from deltaberg import DeltaTable, create_table, write_table
from deltaberg.errors import CommitConflictError, TableExistsError
from tests.storage.conftest import Bucket
from tests.support.rows import ids_of

pytestmark = pytest.mark.one_backend

_ROWS = pa.table({"id": [1, 2, 3], "p": ["a", "b/ %", None]})


def _use(url: str, options: dict[str, str] | None) -> DeltaTable:
    table = create_table(url, _ROWS.schema, partition_by="p", storage_options=options)
    assert table.append(_ROWS).added_files == 3
    with pytest.raises(TableExistsError):
        write_table(url, _ROWS, storage_options=options)
    stale = DeltaTable(url, storage_options=options)
    table.overwrite(pa.table({"id": [4], "p": ["b/ %"]}), where=[("p", "=", "b/ %")])
    with pytest.raises(CommitConflictError):
        stale.overwrite(_ROWS)
    write_table(
        url, pa.table({"id": [5], "p": ["c"], "x": [1.5]}), mode="append", schema_mode="merge", storage_options=options
    )
    table.refresh().alter().set({"owner": "ada"}).commit()
    found = DeltaTable(url, storage_options=options)
    assert (found.version, ids_of(found), found.properties) == (4, [1, 3, 4, 5], {"owner": "ada"})
    return found


def test_a_bucket(s3: Bucket) -> None:
    """No file is left of the write that lost, and deltalake reads the table."""
    found = _use(f"{s3.url}/a table", s3.options)
    objects = [meta["path"] for page in s3.store().list() for meta in page]
    assert len([path for path in objects if path.endswith(".parquet")]) == 5
    theirs = deltalake.DeltaTable(f"{s3.url}/a table", storage_options={**s3.options, "AWS_ALLOW_HTTP": "true"})
    assert theirs.version() == found.version
    rows = pa.table(theirs.to_pyarrow_table())
    assert sorted(rows["id"].to_pylist()) == [1, 3, 4, 5]


def test_memory() -> None:
    _use("memory:///written/t", None)
