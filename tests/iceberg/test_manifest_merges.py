"""Merging manifests: which ones, and what becomes of their entries."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from deltaberg.errors import InvalidArgumentError
from deltaberg.iceberg.manifests.fields import DELETED, MANIFESTS, WHOLE_ENTRIES
from deltaberg.iceberg.manifests.manifests import no_entries, read_manifest
from deltaberg.iceberg.manifests.merge import MergePolicy, merge_rows, merged_entries, parts_of_size, plan_merges
from deltaberg.iceberg.manifests.write_list import complete_rows
from deltaberg.iceberg.manifests.write_manifest import ManifestHeader, encode_manifest, manifest_row
from deltaberg.iceberg.metadata.specs import PartitionSpec
from deltaberg.schema.types import Struct

pytestmark = pytest.mark.one_backend

_HEADER = ManifestHeader(3, 0, '{"type":"struct","schema-id":0,"fields":[]}', 0, PartitionSpec(0), Struct(()))


def _row(length: int, spec: int = 0, content: int = 0, sequence: int | None = 1) -> dict[str, Any]:
    return {
        "manifest_length": length,
        "partition_spec_id": spec,
        "content": content,
        "sequence_number": sequence,
        "key_metadata": None,
    }


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        pytest.param([_row(10)] * 2, [], id="too few"),
        pytest.param([_row(10)] * 3, [[0, 1, 2]], id="enough"),
        pytest.param([_row(10, sequence=None), *[_row(10)] * 3], [[1, 2, 3]], id="not the new one"),
        pytest.param([_row(10), _row(10, 1), _row(10), _row(10, content=1), _row(10)], [[0, 2, 4]], id="one kind"),
        pytest.param([_row(10)] * 2 + [_row(65), _row(30)], [[2, 3]], id="the newest wait, older ones are merged"),
        pytest.param([_row(40)] * 5, [[1, 2], [3, 4]], id="by size"),
        pytest.param([_row(200)] * 4, [], id="large ones stay"),
        pytest.param([_row(10), _row(10), {**_row(10), "key_metadata": b"k"}], [], id="not encrypted ones"),
    ],
)
def test_which_manifests_are_merged(rows: list[Any], expected: list[list[int]]) -> None:
    assert plan_merges(rows, MergePolicy(target_size=100, min_count=3)) == expected
    assert plan_merges(rows, MergePolicy(enabled=False, target_size=100, min_count=3)) == []


def test_the_policy_of_a_table() -> None:
    assert MergePolicy.of({}) == MergePolicy(True, 8388608, 100)
    properties = {
        "commit.manifest-merge.enabled": "false",
        "commit.manifest.target-size-bytes": "1000",
        "commit.manifest.min-count-to-merge": "4",
    }
    assert MergePolicy.of(properties) == MergePolicy(False, 1000, 4)
    with pytest.raises(InvalidArgumentError, match="min-count-to-merge must be a positive whole number, not '0'"):
        MergePolicy.of({"commit.manifest.min-count-to-merge": "0"})


def _entries(*rows: dict[str, Any]) -> pa.Table:
    empty = no_entries(Struct(()), WHOLE_ENTRIES).drop_columns(["position"])
    base = {"status": 1, "content": 0, "file_format": "parquet", "file_size_in_bytes": 100, "partition": {}}
    return pa.Table.from_pylist([{**base, "record_count": 10, **row} for row in rows], empty.schema)


def _write(path: str, sequence: int | None, snapshot: int, entries: pa.Table) -> tuple[dict[str, Any], bytes]:
    data = encode_manifest(entries, _HEADER)
    return manifest_row(entries, _HEADER, path, len(data), snapshot_id=snapshot, sequence_number=sequence), data


@pytest.mark.req("ICE-MAN-08", half="writer")
@pytest.mark.req("ICE-MAN-09", half="writer")
@pytest.mark.req("ICE-SEQ-04", half="writer")
def test_entries_keep_what_they_inherited_and_deleted_ones_stay_deleted() -> None:
    """Added files become existing with their own snapshot, sequence number and row ids; old deletions are dropped."""
    old = _write("a", 1, 11, _entries({"file_path": "f1"}, {"file_path": "f2", "record_count": 5}))
    # The second snapshot deletes f1, and adds f3.
    deleting = _entries(
        {
            "file_path": "f1",
            "status": 2,
            "snapshot_id": 12,
            "sequence_number": 1,
            "file_sequence_number": 1,
            "first_row_id": 0,
        },
        {
            "file_path": "f2",
            "status": 0,
            "snapshot_id": 11,
            "sequence_number": 1,
            "file_sequence_number": 1,
            "first_row_id": 10,
        },
    )
    filtered = _write("b", 2, 12, deleting)
    newer = _write("c", 2, 12, _entries({"file_path": "f3"}))
    table = pa.Table.from_pylist([newer[0], filtered[0]], MANIFESTS)
    listed = complete_rows(table, sequence_number=2, first_row_id=15)
    files = {"b": filtered[1], "c": newer[1]}
    assert old[0]["added_rows_count"] == 15

    def merge(rows: Any) -> Any:
        parts = [read_manifest(files[row["manifest_path"]], row, Struct(()), WHOLE_ENTRIES) for row in rows]
        row, files["m"] = _write("m", None, 13, merged_entries(parts, 13))
        return row

    (row,) = merge_rows(listed.rows.to_pylist(), MergePolicy(min_count=2), merge)
    assert (row["existing_files_count"], row["added_files_count"], row["deleted_files_count"]) == (2, 0, 0)
    assert (row["sequence_number"], row["min_sequence_number"]) == (None, 1)
    found = complete_rows(pa.Table.from_pylist([row], MANIFESTS), sequence_number=3, first_row_id=99).rows.to_pylist()[
        0
    ]
    read = read_manifest(files["m"], found, Struct(()), WHOLE_ENTRIES)
    columns = ["file_path", "status", "snapshot_id", "sequence_number", "file_sequence_number", "first_row_id"]
    assert sorted(tuple(entry[name] for name in columns) for entry in read.to_pylist()) == [
        ("f2", 0, 11, 1, 1, 10),
        ("f3", 0, 12, 2, 2, 15),
    ]
    # The snapshot that deletes or adds a file says so itself.
    own = merged_entries([deleting, _entries({"file_path": "f3", "snapshot_id": 12})], 12)
    assert own.column("status").to_pylist() == [DELETED, 0, 1]


def test_a_merge_of_nothing_leaves_no_manifest() -> None:
    rows = [{**_row(10), "name": name} for name in "abcd"]
    assert [row["name"] for row in merge_rows(rows, MergePolicy(target_size=20, min_count=2), lambda _: None)] == []
    assert merge_rows(rows, MergePolicy(), lambda _: None) == rows


def test_many_entries_are_split_by_size() -> None:
    entries = _entries(*({"file_path": f"s3://b/{at * 7919:08}/{at}.parquet"} for at in range(5000)))
    whole = len(encode_manifest(entries, _HEADER))
    parts = parts_of_size(entries, _HEADER, whole // 3)
    assert sum(len(part) for part in parts) == 5000
    assert len(parts) in (3, 4)
    assert pa.concat_tables(parts).equals(entries)
    assert all(len(encode_manifest(part, _HEADER)) < whole // 2 for part in parts)
    assert parts_of_size(entries.slice(0, 900), _HEADER, 1) == [entries.slice(0, 900)]
