"""Sequence numbers and partitions decide which delete files apply to which data files."""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import open_table
from deltaberg.errors import CorruptMetadataError
from deltaberg.iceberg.deletes.index import row_codes
from deltaberg.table.read.scan import bound_scan
from tests.iceberg.entries import added, entry, latest_list, read_entries, rewrite_avro
from tests.support.iceberg_builder import PATH_ID, IcebergBuilder, IcebergFile
from tests.support.roads import Road, by_every_road

_COLUMNS = {"id": "long", "a": "string"}
_BY_A = [{"source-id": 2, "name": "a", "transform": "identity"}]


def _rows(*ids: int, a: str | None = "x") -> list[dict[str, Any]]:
    return [{"id": number, "a": a} for number in ids]


def _ids(root: Path) -> list[int]:
    return sorted(open_table(root).scan(columns=["id"]).to_arrow().column("id").to_pylist())


@pytest.mark.req("ICE-SEQ-02", half="reader")
@pytest.mark.req("ICE-SEQ-05")
def test_added_entries_inherit(tmp_path: Path) -> None:
    builder = IcebergBuilder(tmp_path / "t", _COLUMNS)
    entries = [*added(builder.data(_rows(1))), entry(builder.data(_rows(2)), 1, 3, 44)]
    builder.commit(manifests=[builder.manifest(entries, snapshot_id=7, sequence_number=5)])
    found = [(row["sequence_number"], row["file_sequence_number"], row["snapshot_id"]) for row in read_entries(builder)]
    assert found == [(5, 5, 7), (3, 3, 44)]
    column = "row_commit_version"
    files = bound_scan(open_table(builder.root).scan()).plan.files
    assert files.column(column).to_pylist() == [5, 3]


@by_every_road
@pytest.mark.req("ICE-SEQ-02", half="reader")
def test_rows_tell_the_number_that_their_entry_inherits(tmp_path: Path) -> None:
    builder = IcebergBuilder(tmp_path / "t", _COLUMNS, format_version=3)
    entries = [*added(builder.data(_rows(1))), entry(builder.data(_rows(2)), 1, 3)]
    builder.commit(manifests=[builder.manifest(entries, sequence_number=5)], sequence=20)
    scan = open_table(builder.root).scan(columns=["id", "_last_updated_sequence_number"])
    assert sorted(tuple(row.values()) for row in scan.to_arrow().to_pylist()) == [(1, 5), (2, 3)]


@by_every_road
@pytest.mark.req("ICE-SEQ-05")
@pytest.mark.parametrize("snapshot", [None, 1001, 44])
def test_changes_are_those_of_the_snapshot_that_entries_inherit(tmp_path: Path, snapshot: int | None) -> None:
    """An entry without a snapshot is of the snapshot that added its manifest, and one of another snapshot is not."""
    builder = IcebergBuilder(tmp_path / "t", _COLUMNS)
    first = builder.commit(builder.data(_rows(1)))
    manifest = builder.manifest([entry(builder.data(_rows(2)), 1, 2, snapshot)], snapshot_id=1001, sequence_number=2)
    builder.commit(manifests=[manifest])
    found = open_table(builder.root).changes(first, columns=["id", "_commit_snapshot_id"]).to_arrow().to_pylist()
    assert found == ([] if snapshot == 44 else [{"id": 2, "_commit_snapshot_id": 1001}])


@pytest.mark.req("ICE-SEQ-05")
@pytest.mark.parametrize("status", [0, 1, 2])
def test_entries_of_every_status_inherit_the_snapshot(tmp_path: Path, status: int) -> None:
    builder = IcebergBuilder(tmp_path / "t", _COLUMNS)
    entries = [entry(builder.data(_rows(1)), status, 3), entry(builder.data(_rows(2)), status, 3, 44)]
    builder.commit(manifests=[builder.manifest(entries, snapshot_id=7, sequence_number=5)])
    assert [row["snapshot_id"] for row in read_entries(builder)] == [7, 44]


@by_every_road
@pytest.mark.req("ICE-SEQ-03", half="reader")
@pytest.mark.parametrize("content", [0, 1])
def test_existing_entries_must_not_inherit(tmp_path: Path, content: int) -> None:
    builder = IcebergBuilder(tmp_path / "t", _COLUMNS)
    file = builder.data(_rows(1, 2))
    mine = builder.position_deletes([(file, 0)]) if content else file
    builder.commit(
        *([file] if content else []), manifests=[builder.manifest([entry(mine, 0)], content, sequence_number=1)]
    )
    with pytest.raises(CorruptMetadataError, match="no sequence number"):
        _ids(builder.root)


@by_every_road
@pytest.mark.req("ICE-SEQ-03", half="reader")
def test_a_deleted_entry_without_a_number_is_not_read(tmp_path: Path) -> None:
    builder = IcebergBuilder(tmp_path / "t", _COLUMNS)
    entries = [entry(builder.data(_rows(1)), 2), *added(builder.data(_rows(2)))]
    builder.commit(manifests=[builder.manifest(entries, sequence_number=5)])
    assert [row["sequence_number"] for row in read_entries(builder)] == [None, 5]
    assert _ids(builder.root) == [2]


@by_every_road
@pytest.mark.req("ICE-SEQ-03", half="reader")
def test_in_manifests_of_version_1_every_status_reads_0(tmp_path: Path) -> None:
    builder = IcebergBuilder(tmp_path / "t", _COLUMNS, format_version=1)
    files = [builder.data(_rows(number)) for number in range(3)]
    builder.commit(manifests=[builder.manifest([entry(file, status, None, 1) for status, file in enumerate(files)])])
    assert [row["sequence_number"] for row in read_entries(builder)] == [0, 0, 0]
    assert _ids(builder.root) == [0, 1]


@by_every_road
@pytest.mark.req("ICE-SEQ-07")
@pytest.mark.req("ICE-GEN-11")
@pytest.mark.parametrize("rewritten", [False, True])
def test_an_upgraded_table(tmp_path: Path, rewritten: bool) -> None:
    """After an upgrade that wrote only metadata, old files have the number 0, and deletes apply to them."""
    builder = IcebergBuilder(tmp_path / "t", _COLUMNS, format_version=1)
    builder.commit(builder.data(_rows(1, 2)))
    builder.commit(builder.data(_rows(2, 3)))
    builder.version = 2
    builder.write()
    table = open_table(builder.root, "iceberg")
    assert table.format_version == 2
    assert bound_scan(table.scan()).plan.files.column("row_commit_version").to_pylist() == [0, 0]
    assert _ids(builder.root) == [1, 2, 2, 3]
    before = list(builder._manifests[1001])
    if rewritten:
        builder.version = 1
        files = [found["file"] for row in before for found in row["entries"]]
        before = [builder.manifest([entry(file, 0, None, 1) for file in files], sequence_number=0)]
        builder.version = 2
    deletes = builder.equality_deletes([1], [{"id": 2}])
    builder.sequence = 0
    builder._manifests[1001] = [row | {"sequence_number": 0, "min_sequence_number": 0} for row in before]
    builder.commit(deletes)
    assert builder.sequence == 1
    assert _ids(builder.root) == [1, 3]


def _with_deletes(builder: IcebergBuilder, file: IcebergFile, sequence: int, *deletes: tuple[IcebergFile, int]) -> None:
    """Commit a data file and delete files under given sequence numbers."""
    manifests = [builder.manifest(added(file), 0, file.spec_id, sequence_number=sequence)]
    for found, number in deletes:
        manifests.append(builder.manifest(added(found), 1, found.spec_id, sequence_number=number))
    builder.commit(manifests=manifests, sequence=20)


def _naming(deletes: IcebergFile, file: IcebergFile, how: str) -> IcebergFile:
    """Have position deletes name their data file: by the bounds of the paths inside, or by its field."""
    if how == "field":
        deletes.more["referenced_data_file"] = file.path
    elif how != "nothing":
        path = (file.path if how == "bounds" else file.path[:16]).encode()
        deletes.metrics = {"lower_bounds": {PATH_ID: path}, "upper_bounds": {PATH_ID: path}}
    return deletes


@by_every_road
@pytest.mark.req("ICE-SCAN-13")
@pytest.mark.parametrize(("sequence", "applies"), [(5, True), (6, True), (4, False)])
@pytest.mark.parametrize("how", ["nothing", "bounds", "bounds cut off", "field"])
def test_position_deletes_are_for_files_as_old_or_older(tmp_path: Path, how: str, sequence: int, applies: bool) -> None:
    """Without a name, or with bounds that were cut off, the deletes are for all of their partition."""
    builder = IcebergBuilder(tmp_path / "t", _COLUMNS, specs=[_BY_A])
    file = builder.data(_rows(1, 2), partition={"a": "x"})
    _with_deletes(builder, file, 5, (_naming(builder.position_deletes([(file, 0)]), file, how), sequence))
    assert _ids(builder.root) == ([2] if applies else [1, 2])


@pytest.mark.req("ICE-SCAN-13")
@pytest.mark.parametrize("other", [{"a": "y"}, {"a": None}])
@pytest.mark.parametrize("how", ["nothing", "bounds", "bounds cut off"])
def test_position_deletes_of_another_partition(tmp_path: Path, other: dict[str, Any], how: str) -> None:
    builder = IcebergBuilder(tmp_path / "t", _COLUMNS, specs=[_BY_A])
    file = builder.data(_rows(1, 2), partition={"a": "x"})
    deletes = _naming(builder.position_deletes([(file, 0)]), file, how)
    deletes.partition = other
    _with_deletes(builder, file, 5, (deletes, 6))
    assert _ids(builder.root) == [1, 2]


@pytest.mark.req("ICE-SCAN-14")
@pytest.mark.parametrize(("sequence", "applies"), [(5, False), (6, True), (4, False)])
def test_equality_deletes_are_for_older_files_alone(tmp_path: Path, road: Road, sequence: int, applies: bool) -> None:
    builder = IcebergBuilder(tmp_path / "t", _COLUMNS, specs=[_BY_A])
    file = builder.data(_rows(1, 2), partition={"a": "x"})
    _with_deletes(builder, file, 5, (builder.equality_deletes([1], [{"id": 1}], partition={"a": "x"}), sequence))
    assert road.column(open_table(builder.root).scan(), "id") == ([2] if applies else [1, 2])


@pytest.mark.req("ICE-SCAN-14")
def test_equality_deletes_of_another_partition(tmp_path: Path) -> None:
    builder = IcebergBuilder(tmp_path / "t", _COLUMNS, specs=[_BY_A])
    builder.commit(
        builder.data(_rows(5, 6, a="x"), partition={"a": "x"}), builder.data(_rows(5, 7, a="y"), partition={"a": "y"})
    )
    builder.commit(builder.equality_deletes([1], [{"id": 5}], partition={"a": "x"}))
    found = open_table(builder.root).scan().to_arrow().to_pylist()
    assert sorted((row["id"], row["a"]) for row in found) == [(5, "y"), (6, "x"), (7, "y")]


@by_every_road
@pytest.mark.req("ICE-SCAN-15")
@pytest.mark.parametrize("spec", [(), [{"source-id": 2, "name": "a", "transform": "void", "field-id": 1000}]])
def test_equality_deletes_without_partitions_are_for_all(tmp_path: Path, spec: Any) -> None:
    """A spec with only void fields is unpartitioned, too."""
    builder = IcebergBuilder(tmp_path / "t", _COLUMNS, specs=[_BY_A, spec])
    builder.commit(
        builder.data(_rows(5, 6, a="a"), partition={"a": "a"}),
        builder.data(_rows(5, 7, a="b"), partition={"a": "b"}),
        sequence=8,
    )
    builder.commit(builder.equality_deletes([1], [{"id": 5}], spec_id=1), sequence=9)
    assert _ids(builder.root) == [6, 7]


def test_position_deletes_without_partitions_are_for_their_spec(tmp_path: Path) -> None:
    builder = IcebergBuilder(tmp_path / "t", _COLUMNS, specs=[_BY_A, ()])
    file = builder.data(_rows(1, 2), partition={"a": "x"})
    deletes = builder.position_deletes([(file, 0)])
    deletes.spec_id, deletes.partition = 1, {}
    _with_deletes(builder, file, 5, (deletes, 6))
    assert _ids(builder.root) == [1, 2]


@pytest.mark.req("ICE-SCAN-16")
def test_position_deletes_of_the_same_commit(tmp_path: Path, road: Road) -> None:
    builder = IcebergBuilder(tmp_path / "t", _COLUMNS)
    file = builder.data(_rows(1, 2))
    builder.commit(file, builder.position_deletes([(file, 0)]), sequence=6)
    assert road.column(open_table(builder.root).scan(), "id") == [2]


@by_every_road
@pytest.mark.req("ICE-SCAN-17")
@pytest.mark.parametrize("kind", ["position", "equality"])
def test_equal_values_of_another_spec_are_another_partition(tmp_path: Path, kind: str) -> None:
    other = [{"source-id": 2, "name": "a", "transform": "identity", "field-id": 1000}]
    builder = IcebergBuilder(tmp_path / "t", _COLUMNS, specs=[_BY_A, other])
    file = builder.data(_rows(1, 2), partition={"a": "x"})
    builder.commit(file)
    deletes = (
        builder.position_deletes([(file, 0)])
        if kind == "position"
        else builder.equality_deletes([1], [{"id": 1}], partition={"a": "x"})
    )
    deletes.spec_id = 1
    builder.commit(deletes)
    assert _ids(builder.root) == [1, 2]
    deletes.spec_id = 0
    builder.commit(deletes)
    assert _ids(builder.root) == [2]


@pytest.mark.req("ICE-SCAN-20")
@pytest.mark.parametrize("kind", ["position", "equality"])
def test_the_null_partition(tmp_path: Path, kind: str, road: Road) -> None:
    builder = IcebergBuilder(tmp_path / "t", _COLUMNS, specs=[_BY_A])
    file = builder.data(_rows(1, 2, a=None), partition={"a": None})
    builder.commit(file, builder.data(_rows(1, 2), partition={"a": "x"}))
    deletes = (
        builder.position_deletes([(file, 0)])
        if kind == "position"
        else builder.equality_deletes([1], [{"id": 1}], partition={"a": None})
    )
    builder.commit(deletes)
    found = road.rows(open_table(builder.root).scan())
    assert sorted((row["id"], str(row["a"])) for row in found) == [(1, "x"), (2, "None"), (2, "x")]


@pytest.mark.req("ICE-SCAN-20")
@pytest.mark.parametrize(
    ("data", "delete", "same"),
    [
        (float("nan"), float("nan"), True),
        (struct.unpack("<d", bytes.fromhex("010000000000f8ff"))[0], float("nan"), True),
        (-0.0, 0.0, False),
        (-0.0, -0.0, True),
        (0.0, 0.0, True),
        (1.5, 1.5, True),
        (None, float("nan"), False),
    ],
)
def test_partitions_of_floating_point_numbers(tmp_path: Path, data: Any, delete: Any, same: bool) -> None:
    columns = {"id": "long", "x": "double"}
    builder = IcebergBuilder(tmp_path / "t", columns, specs=[[{"source-id": 2, "name": "x", "transform": "identity"}]])
    builder.commit(builder.data([{"id": 1, "x": data}, {"id": 2, "x": data}], partition={"x": data}))
    builder.commit(builder.equality_deletes([1], [{"id": 1}], partition={"x": delete}))
    assert _ids(builder.root) == ([2] if same else [1, 2])


def test_equal_rows_have_equal_numbers(rng: random.Random) -> None:
    for _ in range(50):
        rows = [tuple(rng.choice([None, 0, 1, "a"]) for _ in range(3)) for _ in range(rng.randrange(20))]
        columns = [pa.array([None if row[n] is None else str(row[n]) for row in rows], pa.string()) for n in range(3)]
        codes = row_codes(columns, len(rows)).to_pylist()
        assert [[codes[i] == codes[j] for j in range(len(rows))] for i in range(len(rows))] == [
            [rows[i] == rows[j] for j in range(len(rows))] for i in range(len(rows))
        ]


def test_a_manifest_list_without_numbers_is_of_version_1(tmp_path: Path) -> None:
    """Fields that version 2 requires may be missing in the list of an older writer."""
    builder = IcebergBuilder(tmp_path / "t", _COLUMNS)
    builder.commit(builder.data(_rows(1)))

    def without(schema: dict[str, Any]) -> None:
        schema["fields"] = [child for child in schema["fields"] if child["field-id"] not in (515, 516, 517)]

    rewrite_avro(latest_list(builder), schema=without)
    assert [row["sequence_number"] for row in read_entries(builder)] == [0]
    assert _ids(builder.root) == [1]
