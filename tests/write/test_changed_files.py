"""Where row changes put their files, and what they carry over from the files that they replace."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import DeltaTable, create_table
from tests.support.delta_builder import DeltaBuilder
from tests.support.log_entries import named_actions
from tests.support.rows import ID, ids, ids_of

_VECTORS = {"delta.enableDeletionVectors": "true"}
_TRACKING = {
    "delta.enableRowTracking": "true",
    "delta.rowTracking.materializedRowIdColumnName": "_row-id-col",
    "delta.rowTracking.materializedRowCommitVersionColumnName": "_row-commit-version-col",
}


def _parts(root: Path, **properties: str) -> DeltaTable:
    kinds = pa.schema([("id", pa.int64()), ("p", pa.string())])
    table = create_table(root, kinds, partition_by="p", properties=properties)
    table.append(pa.table({"id": range(6000), "p": ["a", "b"] * 3000}))
    return table


@pytest.mark.req("DL-FILE-03")
@pytest.mark.req("DL-FILE-08", half="writer")
def test_vectors_of_several_partitions_share_a_file_in_the_root(tmp_path: Path) -> None:
    table = _parts(tmp_path / "t", **_VECTORS)
    gone = [number for number in range(6000) if number * number % 7 < 3]
    table.delete(f"id IN ({', '.join(map(str, gone))})")
    (file,) = (tmp_path / "t").rglob("*.bin")
    assert file.parent == tmp_path / "t"
    assert re.fullmatch(r"deletion_vector_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.bin", file.name)
    one, two = (add["deletionVector"] for add in named_actions(tmp_path / "t", 2, "add"))
    assert one["pathOrInlineDv"] == two["pathOrInlineDv"]
    assert one["offset"] != two["offset"]
    assert ids_of(DeltaTable(tmp_path / "t")) == sorted(set(range(6000)) - set(gone))


@pytest.mark.req("DL-FILE-04")
def test_change_files_lie_in_the_directories_of_their_partitions(tmp_path: Path) -> None:
    table = _parts(tmp_path / "t", **{"delta.enableChangeDataFeed": "true"})
    table.update({"id": "-id"}, "id IN (1, 2)")
    paths = [cdc["path"] for cdc in named_actions(tmp_path / "t", 2, "cdc")]
    assert sorted(path.rpartition("/")[0] for path in paths) == ["_change_data/p=a", "_change_data/p=b"]
    assert all((tmp_path / "t" / path).is_file() for path in paths)


@pytest.mark.req("DL-DV-01", half="writer")
def test_vectors_raise_the_protocol(builder: DeltaBuilder) -> None:
    builder.create(ID, builder.add(ids(0)), protocol=builder.protocol(1, 2))
    DeltaTable(builder.root).alter().set(_VECTORS).commit()
    (protocol,) = named_actions(builder.root, 1, "protocol")
    assert (protocol["minReaderVersion"], protocol["minWriterVersion"]) == (3, 7)
    assert "deletionVectors" in set(protocol["readerFeatures"]) & set(protocol["writerFeatures"])


@pytest.mark.req("DL-ACT-14", half="writer")
@pytest.mark.req("DL-DV-08", half="writer")
def test_tags_and_absolute_paths_are_carried_over(builder: DeltaBuilder) -> None:
    """A vector may have been written anywhere: what names it leaves the log as it came."""
    elsewhere = builder.root.parent / "else where"
    vector = builder.vector([0], "p", directory=elsewhere)
    assert "%20" in vector["pathOrInlineDv"]
    tags = {"INSERTION_TIME": "1677811178336000"}
    add = builder.add(ids(*range(5)), stats="full", tags=tags, vector=vector)
    builder.create(ID, add, protocol=builder.features("deletionVectors"), configuration=_VECTORS)
    DeltaTable(builder.root).delete("id = 2")
    (new,), (old,) = (named_actions(builder.root, 1, name) for name in ("add", "remove"))
    assert new["tags"] == tags
    assert old["deletionVector"] == vector
    assert new["deletionVector"]["cardinality"] == 2
    assert ids_of(DeltaTable(builder.root)) == [1, 3, 4]


@pytest.mark.req("DL-RT-03", "DL-RT-06", half="writer")
def test_rows_keep_the_ids_of_their_places(builder: DeltaBuilder) -> None:
    """Positions count the rows that a vector hides."""
    add = builder.add(
        ids(*range(7)), stats="full", vector=builder.vector([2, 3, 4]), baseRowId=4071, defaultRowCommitVersion=41
    )
    mark: dict[str, Any] = {
        "domain": "delta.rowTracking",
        "configuration": '{"rowIdHighWaterMark":5000}',
        "removed": False,
    }
    protocol = builder.features("deletionVectors", writer_only=["rowTracking", "domainMetadata"])
    builder.create(ID, add, {"domainMetadata": mark}, protocol=protocol, configuration={**_VECTORS, **_TRACKING})
    table = DeltaTable(builder.root)
    table.delete("id = 6", strategy="copy-on-write")
    rows = table.scan(columns=["id", "_metadata.row_id", "_metadata.row_commit_version"]).to_arrow().to_pylist()
    facts = {row["id"]: (row["_metadata"]["row_id"], row["_metadata"]["row_commit_version"]) for row in rows}
    assert facts == {0: (4071, 41), 1: (4072, 41), 5: (4076, 41)}
    (new,) = named_actions(builder.root, 1, "add")
    assert (new["baseRowId"], new["defaultRowCommitVersion"]) == (5001, 1)
