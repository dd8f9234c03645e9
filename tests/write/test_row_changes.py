"""What becomes of changed rows besides: the change data feed, row ids and their versions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg import DeltaTable, create_table, open_table, write_table
from deltaberg.choices import Format
from tests.support.delta_builder import DeltaBuilder
from tests.support.log_entries import named_actions
from tests.support.rows import ID, ids, ids_of

_VECTORS = {"delta.enableDeletionVectors": "true"}
_FEED = {"delta.enableChangeDataFeed": "true"}
_TRACKING = {"delta.enableRowTracking": "true"}

both_ways = pytest.mark.parametrize("way", [{}, _VECTORS], ids=["rewritten", "vectors"])


def _mark(highest: int) -> dict[str, Any]:
    text = json.dumps({"rowIdHighWaterMark": highest})
    return {"domainMetadata": {"domain": "delta.rowTracking", "configuration": text, "removed": False}}


def _changes(table: DeltaTable, version: int) -> list[tuple[Any, ...]]:
    rows = table.changes(version, version).to_arrow().to_pylist()
    return sorted((row["_change_type"], row["id"]) for row in rows)


def _row_facts(table: DeltaTable) -> dict[int, tuple[int, int]]:
    rows = table.scan(columns=["id", "_metadata.row_id", "_metadata.row_commit_version"]).to_arrow().to_pylist()
    return {row["id"]: (row["_metadata"]["row_id"], row["_metadata"]["row_commit_version"]) for row in rows}


@pytest.mark.req("DL-CDF-04")
@pytest.mark.req("DL-CDF-02", half="writer")
@both_ways
def test_deleted_rows_in_change_files(tmp_path: Path, way: dict[str, str]) -> None:
    schema = pa.schema([("id", pa.int64()), ("p", pa.string())])
    table = create_table(tmp_path / "t", schema, partition_by="p", properties={**_FEED, **way})
    for base in (0, 10, 20):
        table.append(pa.table({"id": [base + 1, base + 2, base + 3], "p": ["a", "a", "b"]}))
    # Files that go as a whole need no change files, and nothing says more than their removal.
    whole = table.delete("id > 20")
    assert whole.metrics["numAddedChangeFiles"] == 0
    assert named_actions(tmp_path / "t", 4, "cdc") == []
    assert _changes(table, 4) == [("delete", 21), ("delete", 22), ("delete", 23)]
    # Once there are change files, readers look at nothing else.
    partial = table.delete("id = 1 OR id > 10")
    cdc = named_actions(tmp_path / "t", 5, "cdc")
    assert partial.metrics["numAddedChangeFiles"] == len(cdc) == 2
    assert _changes(table, 5) == [("delete", 1), ("delete", 11), ("delete", 12), ("delete", 13)]
    for action in cdc:
        assert action["dataChange"] is False
        assert action["path"].startswith("_change_data/p=")
        assert action["partitionValues"]["p"] in ("a", "b")
        assert (tmp_path / "t" / action["path"]).stat().st_size == action["size"]
        assert pq.read_schema(tmp_path / "t" / action["path"]).names == ["id", "_change_type"]
    assert ids_of(DeltaTable(tmp_path / "t")) == [2, 3]


@pytest.mark.req("DL-CDF-12", half="writer")
@both_ways
def test_change_files_are_not_files_of_the_table(tmp_path: Path, way: dict[str, str]) -> None:
    table = create_table(tmp_path / "t", ID, properties={**_FEED, **way})
    table.append(ids(1, 2, 3))
    table.delete("id = 2")
    table.checkpoint()
    table.compact_log(0, 2)
    (cdc,) = named_actions(tmp_path / "t", 2, "cdc")
    for opened in (table, DeltaTable(tmp_path / "t")):
        assert cdc["path"] not in opened.live_files.column("path").to_pylist()
    checkpoint = pq.read_table(tmp_path / "t" / "_delta_log" / f"{2:020d}.checkpoint.parquet")
    assert "cdc" not in checkpoint.schema.names
    (compacted,) = (tmp_path / "t" / "_delta_log").glob("*.compacted.json")
    assert '"cdc"' not in compacted.read_text("utf-8")


@pytest.mark.req("DL-CDF-03")
@pytest.mark.parametrize(
    ("protocol", "is_written"),
    [((1, 4), True), ((1, 3), False), ((1, 7, "appendOnly"), False), ((1, 7, "changeDataFeed"), True)],
    ids=str,
)
def test_when_the_property_counts(builder: DeltaBuilder, protocol: tuple[Any, ...], is_written: bool) -> None:
    reader, writer, *features = protocol
    builder.create(
        ID,
        builder.add(ids(1, 2), stats="full"),
        protocol=builder.protocol(reader, writer, None, features or None),
        configuration=_FEED,
    )
    DeltaTable(builder.root).delete("id = 1")
    assert bool(named_actions(builder.root, 1, "cdc")) == is_written


@pytest.mark.req("DL-RT-14", "DL-RT-16")
def test_a_file_keeps_its_ids_with_a_vector(builder: DeltaBuilder) -> None:
    add = builder.add(ids(*range(5)), stats="full", baseRowId=100, defaultRowCommitVersion=0)
    builder.create(
        ID,
        add,
        {
            "domainMetadata": {
                "domain": "delta.rowTracking",
                "configuration": '{"rowIdHighWaterMark":104}',
                "removed": False,
            }
        },
        protocol=builder.features("deletionVectors", writer_only=["rowTracking", "domainMetadata"]),
        configuration={**_VECTORS, **_TRACKING, **_NAMES},
    )
    table = DeltaTable(builder.root)
    before = _row_facts(table)
    table.delete("id = 1")
    for name in ("add", "remove"):
        (action,) = named_actions(builder.root, 1, name)
        assert (action["baseRowId"], action["defaultRowCommitVersion"]) == (100, 0)
    assert named_actions(builder.root, 1, "domainMetadata") == []
    del before[1]
    assert _row_facts(DeltaTable(builder.root)) == before
    table.checkpoint()
    for path in (builder.root / "_delta_log").glob("*.json"):
        if path.name != f"{1:020d}.json":
            path.unlink()
    assert _row_facts(DeltaTable(builder.root)) == before


_NAMES = {
    "delta.rowTracking.materializedRowIdColumnName": "_row-id-col-1",
    "delta.rowTracking.materializedRowCommitVersionColumnName": "_row-commit-version-col-1",
}


@pytest.mark.req("DL-RT-05", half="writer")
@both_ways
def test_rows_that_move_keep_their_ids(tmp_path: Path, way: dict[str, str]) -> None:
    table = create_table(tmp_path / "t", ID, properties={**_TRACKING, **way})
    table.append(ids(*range(5)))
    table.append(ids(*range(5, 10)))
    model = _row_facts(table)
    assert model[7] == (7, 2)
    for version, gone in enumerate((3, 8, 0), start=3):
        table.delete(f"id = {gone}", strategy="copy-on-write" if version == 5 else None)
        del model[gone]
        assert _row_facts(DeltaTable(tmp_path / "t")) == model
        assert table.history()[0].info["tags"] == {"delta.rowTracking.preserved": "true"}
    assert table.schema.names == ["id"]
    table.append(ids(50))
    assert _row_facts(table)[50][1] == 6
    assert len({row_id for row_id, _ in _row_facts(table).values()}) == len(model) + 1


@pytest.mark.req("DL-RT-01", half="writer")
@pytest.mark.req("DL-RT-23")
def test_ids_are_lost_where_they_are_only_supported(builder: DeltaBuilder) -> None:
    builder.create(
        ID,
        builder.add(ids(1, 2, 3), stats="full", baseRowId=0, defaultRowCommitVersion=0),
        {
            "domainMetadata": {
                "domain": "delta.rowTracking",
                "configuration": '{"rowIdHighWaterMark":2}',
                "removed": False,
            }
        },
        protocol=builder.features("deletionVectors", writer_only=["rowTracking", "domainMetadata"]),
        configuration=_VECTORS,
    )
    table = DeltaTable(builder.root)
    table.delete("id = 2")
    assert table.history()[0].info["tags"] == {"delta.rowTracking.preserved": "true"}
    table.delete("id = 1", strategy="copy-on-write")
    assert table.history()[0].info["tags"] == {"delta.rowTracking.preserved": "false"}
    (add,) = named_actions(builder.root, 2, "add")
    assert (add["baseRowId"], add["defaultRowCommitVersion"]) == (3, 2)
    assert pq.read_schema(builder.root / add["path"]).names == ["id"]


@pytest.mark.parametrize(
    ("form", "properties"),
    [
        ("delta", {"delta.enableDeletionVectors": "true"}),
        ("iceberg", {"format-version": "3", "write.delete.mode": "merge-on-read", "write.merge.mode": "merge-on-read"}),
    ],
)
def test_both_formats_say_which_deletion_vectors_came_and_went(
    tmp_path: Path, form: Format, properties: dict[str, str]
) -> None:
    write_table(tmp_path / form, pa.table({"id": range(9)}), format=form, properties=properties)
    table: Any = open_table(tmp_path / form)
    first = str(table.delete("id = 1"))
    second = str(table.merge(pa.table({"key": [2]}), "id = key").when_matched_delete().execute())
    for said in (first, second):
        assert "; deleted 1 row; added 1 deletion vector" in said
    assert "; removed 1 deletion vector" not in first
    assert "; removed 1 deletion vector" in second
