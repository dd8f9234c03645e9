"""Rows of Iceberg tables that are deleted without their files being written anew: vectors and position delete files."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyiceberg.table import StaticTable

from deltaberg import ParquetOptions, create_table, open_table
from deltaberg.errors import (
    CommitConflictError,
    ConcurrentDeleteDeleteError,
    ConcurrentDeleteReadError,
    InvalidArgumentError,
    UnsupportedFeatureError,
)
from deltaberg.files.formats.open_file import open_data_file
from deltaberg.files.read.bitmaps import deletion_bitmaps
from deltaberg.iceberg import IcebergTable
from deltaberg.iceberg.change import hidden_rows
from deltaberg.iceberg.change.hidden_rows import HiddenRows, hide_rows
from deltaberg.iceberg.deletes.puffin import PuffinFile
from deltaberg.iceberg.table_transaction import IcebergTransaction
from deltaberg.iceberg.transaction.conflict import isolation_level
from deltaberg.storage.location import parse_location
from deltaberg.storage.stores import StoreSpec
from deltaberg.table.change.match import find_rows
from deltaberg.table.read.bound import BoundScan
from deltaberg.table.read.scan_options import scan_options
from tests.storage.conftest import Bucket
from tests.support.below_verbs import engine_of
from tests.support.iceberg_builder import PATH_ID, POS_ID, IcebergBuilder, IcebergFile
from tests.support.snapshot_log import faults_of_directory

pytestmark = pytest.mark.one_backend

_COLUMNS = pa.schema([("id", pa.int64()), ("kind", pa.string())])
_BY_PARTITION = {"write.delete.granularity": "partition"}
_KINDS = pytest.mark.parametrize(
    ("version", "properties"),
    [
        ("3", {}),
        ("2", {}),
        ("2", _BY_PARTITION),
        ("2", {"write.delete.format.default": "avro"}),
        ("2", {"write.delete.format.default": "orc", **_BY_PARTITION}),
    ],
    ids=["vectors", "by file", "by partition", "avro", "orc"],
)


def _rows(*ids: int) -> pa.Table:
    return pa.table({"id": ids, "kind": [None if number % 5 == 4 else "ab"[number % 2] for number in ids]})


def _new(root: Path, version: str, properties: dict[str, str] | None = None, **more: Any) -> IcebergTable:
    table: IcebergTable = create_table(
        root / "t", _COLUMNS, format="iceberg", properties={"format-version": version, **(properties or {})}, **more
    )
    return table


def _hide_in(public: IcebergTransaction, *ids: int, replaces: bool = False) -> HiddenRows:
    """Delete the rows with these ids in a part of a transaction."""
    transaction = engine_of(public)
    with transaction.operation("delete"):
        scan = BoundScan.of(transaction.source, options=scan_options(None, {}, "UTC"))
        wanted = pa.array(ids, pa.int64())
        found = find_rows(scan, lambda batch: pc.is_in(batch.column(0), value_set=wanted), ["id"])
        return hide_rows(transaction, found.rows, replaces=replaces)


def _hide(table: IcebergTable, *ids: int, replaces: bool = False) -> HiddenRows:
    with table.transaction() as transaction:
        return _hide_in(transaction, *ids, replaces=replaces)


def _ids(table: IcebergTable) -> list[int]:
    """Return the ids of all rows, as two readers see them."""
    got = sorted(open_table(table.location, "iceberg", validate=True).scan().to_arrow().column("id").to_pylist())
    if table.properties.get("write.delete.format.default", "parquet") == "parquet":
        theirs = StaticTable.from_metadata(table.metadata_location).scan().to_arrow()
        assert sorted(theirs.column("id").to_pylist()) == got
    return got


def _deletes(table: IcebergTable) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.inspect("delete_files").to_pylist()
    return found


def _summary(table: IcebergTable, *names: str) -> list[str | None]:
    assert table.snapshot is not None
    summary = table.snapshot.summary or {}
    return [summary.get(name) for name in names]


def _content(file: dict[str, Any]) -> list[tuple[str, int]]:
    """Return the rows of a position delete file as they are stored."""
    source = open_data_file(file["file_format"].lower(), parse_location(file["file_path"]), StoreSpec(), None)
    batches = source.batches(source.row_groups(0, 1 << 60), (0, 1), 1 << 20, threads=False)
    rows = [row for found in batches for row in found.batch.to_pylist()]
    return [(row["file_path"], row["pos"]) for row in rows]


@pytest.mark.req("ICE-DEL-03", half="writer")
@_KINDS
def test_rows_are_deleted_in_turns(tmp_path: Path, version: str, properties: dict[str, str]) -> None:
    """Delete files have the spec and partition of their data files, whatever the table's spec is by then."""
    table = _new(tmp_path, version, properties, partition_by="kind")
    table.append(_rows(*range(10)))
    table.append(_rows(*range(10, 16)))
    table.alter().partition_by("bucket(2, id)").commit()
    table.append(_rows(*range(20, 30)))
    left = {*range(16), *range(20, 30)}
    for gone in [(1, 3, 4), (5, 14, 21), (9, 13, 20, 22, 24)]:
        _hide(table, *gone)
        left -= set(gone)
        assert sorted(table.scan().to_arrow().column("id").to_pylist()) == sorted(left)
    assert table.snapshot is not None
    assert table.snapshot.operation == "delete"
    data = {row["file_path"]: row for row in table.inspect("data_files").to_pylist()}
    deletes = _deletes(table)
    for file in deletes:
        named = {file["referenced_data_file"]} if version == "3" else {path for path, _ in _content(file)}
        assert {(data[path]["spec_id"], str(data[path]["partition"])) for path in named} == {
            (file["spec_id"], str(file["partition"]))
        }
        assert file["referenced_data_file"] == (min(named) if len(named) == 1 else None)
    if version == "3":
        assert len(deletes) == len({file["referenced_data_file"] for file in deletes})
    assert [int(text or 0) for text in _summary(table, "total-delete-files", "total-position-deletes")] == [
        len(deletes),
        sum(file["record_count"] for file in deletes),
    ]
    assert _ids(table) == sorted(left)
    table.compact()
    assert (table.scan().count(), _deletes(table)) == (len(left), [])
    assert faults_of_directory(Path(table.location)) == []


@pytest.mark.req("ICE-DEL-02", half="writer")
@pytest.mark.req("ICE-DEL-04", half="writer")
@pytest.mark.req("ICE-DEL-05", half="writer")
@pytest.mark.req("ICE-SORT-06", half="writer")
@pytest.mark.parametrize("form", ["parquet", "avro", "orc"])
@pytest.mark.parametrize("granularity", ["file", "partition"])
def test_position_delete_files(tmp_path: Path, form: str, granularity: str) -> None:
    """Rows are sorted by path and position, the columns have the reserved ids, and bounds are those of the rows."""
    table = _new(tmp_path, "2", {"write.delete.format.default": form, "write.delete.granularity": granularity})
    for start in (0, 10, 20):
        table.append(_rows(*range(start, start + 10)), writer_properties=ParquetOptions(row_group_rows=5))
    paths = {row["file_path"]: row for row in table.inspect("data_files").to_pylist()}
    _hide(table, 29, 2, 21, 1, 12)
    assert _ids(table) == sorted({*range(30)} - {29, 2, 21, 1, 12})
    deletes = _deletes(table)
    assert [file["file_format"] for file in deletes] == [form.upper()] * len(deletes)
    contents = [_content(file) for file in deletes]
    assert all(content == sorted(content) for content in contents)
    assert sorted(pos for content in contents for _, pos in content) == [1, 1, 2, 2, 9]
    assert {path for content in contents for path, _ in content} == set(paths)
    assert _summary(table, "added-delete-files", "added-position-delete-files", "added-position-deletes") == [
        str(len(deletes)),
        str(len(deletes)),
        "5",
    ]
    for file, content in zip(deletes, contents, strict=True):
        assert (file["content"], file["sort_order_id"], file["record_count"]) == (1, None, len(content))
        lower, upper = ({} if file[name] is None else dict(file[name]) for name in ("lower_bounds", "upper_bounds"))
        if granularity == "partition":
            assert (len(deletes), lower, upper, file["referenced_data_file"]) == (1, {}, {}, None)
            continue
        path, positions = content[0][0], [pos for _, pos in content]
        assert (file["referenced_data_file"], lower[PATH_ID], upper[PATH_ID]) == (path, path.encode(), path.encode())
        assert [int.from_bytes(bound[POS_ID], "little") for bound in (lower, upper)] == [min(positions), max(positions)]
    source = open_data_file(form, parse_location(deletes[0]["file_path"]), StoreSpec(), None)
    stored = source.schema_with(None)
    assert [(child.name, child.metadata[b"PARQUET:field_id"]) for child in stored] == [
        ("file_path", str(PATH_ID).encode()),
        ("pos", str(POS_ID).encode()),
    ]
    assert form != "parquet" or not any(child.nullable for child in stored)


@pytest.mark.req("BEY-33", half="writer")
@pytest.mark.req("BEY-34", half="writer")
@pytest.mark.req("ICE-MAN-08", half="writer")
def test_a_vector_replaces_the_one_before(tmp_path: Path) -> None:
    """The bytes of a vector are those of the specification, and a data file has one of them."""
    table = _new(tmp_path, "3")
    table.append(_rows(*range(10)))
    _hide(table, 0, 9)
    (first,) = _deletes(table)
    puffin = PuffinFile(parse_location(first["file_path"]), StoreSpec(), first["file_size_in_bytes"])
    (blob,) = puffin.blobs
    assert (blob.type, blob.fields, blob.snapshot_id, blob.sequence_number, blob.compression_codec) == (
        "deletion-vector-v1",
        (2147483645,),
        -1,
        -1,
        None,
    )
    (path,) = table.inspect("data_files").column("file_path").to_pylist()
    assert blob.properties == {"referenced-data-file": path, "cardinality": "2"}
    assert (first["content_offset"], first["content_size_in_bytes"]) == (blob.offset, blob.length) == (4, 44)
    whole = Path(first["file_path"]).read_bytes()
    assert whole[4:48].hex() == (
        "00000024d1d339640100000000000000000000003a300000010000000000010010000000000009002a671846"
    )
    assert (whole[:4], whole[48:52], whole[-8:]) == (b"PFA1", b"PFA1", b"\0\0\0\0PFA1")
    assert json.loads(whole[52:-12])["blobs"][0]["length"] == 44
    assert first["record_count"] == 2
    _hide(table, 5)
    (second,) = _deletes(table)
    assert (second["record_count"], _ids(table)) == (3, [1, 2, 3, 4, 6, 7, 8])
    counts = ("added-dvs", "removed-dvs", "added-position-delete-files", "removed-delete-files", "total-delete-files")
    assert _summary(table, *counts) == ["1", "1", None, "1", "1"]
    gone = [row for row in table.inspect("entries").to_pylist() if row["status"] == 2]
    assert [row["data_file"]["file_path"] for row in gone] == [first["file_path"]]
    assert [row["sequence_number"] for row in gone] == [2]


@pytest.mark.req("BEY-55", half="writer")
def test_vectors_take_in_position_deletes(tmp_path: Path) -> None:
    """A delete file of one data file goes; one that another data file needs stays, as long as that has no vector."""
    builder = IcebergBuilder(tmp_path / "t", {"id": "long", "kind": "string"}, format_version=3)
    files = [builder.data([{"id": start + number} for number in range(10)]) for start in (0, 10, 20)]
    builder.commit(*files)
    own = builder.position_deletes([(files[0], 1)], referenced_data_file=files[0].path)
    shared = builder.position_deletes([(files[0], 2), (files[1], 3)])
    alone = builder.position_deletes([(files[0], 4)])
    builder.commit(own, shared, alone)
    table: IcebergTable = open_table(tmp_path / "t", "iceberg")
    done = _hide(table, 5)
    assert done == HiddenRows(1, 0, 0, 2)
    left = set(range(30)) - {1, 2, 4, 5, 13}
    assert _ids(table) == sorted(left)
    assert {file["file_path"] for file in _deletes(table)} & {own.path, shared.path, alone.path} == {shared.path}
    vector = next(file for file in _deletes(table) if file["file_format"] == "PUFFIN")
    assert (vector["record_count"], vector["referenced_data_file"]) == (4, files[0].path)
    assert _hide(table, 6, 14) == HiddenRows(2, 1, 0, 1)
    assert _ids(table) == sorted(left - {6, 14})
    assert {file["record_count"] for file in _deletes(table)} == {5, 2}


@pytest.mark.parametrize("files", [20, 60])
def test_delete_files_are_asked_about_few_data_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: int
) -> None:
    """What decides whether others need the delete files of a partition is not each pair of a delete and a data file."""
    builder = IcebergBuilder(tmp_path / "t", {"id": "long"}, format_version=3)
    data = [builder.data([{"id": 10 * file + number} for number in range(10)]) for file in range(files)]
    builder.commit(*data)
    builder.commit(*(builder.position_deletes([(file, row) for file in data]) for row in range(5)))
    asked = 0

    def counted(*given: Any, **named: Any) -> list[bytes]:
        nonlocal asked
        asked += 1
        return deletion_bitmaps(*given, **named)

    monkeypatch.setattr(hidden_rows, "deletion_bitmaps", counted)
    table: IcebergTable = open_table(tmp_path / "t", "iceberg")
    assert _hide(table, 9) == HiddenRows(1)
    # The file itself, the first others, and the first of these by each delete file.
    assert asked == 1 + 16 + 5
    assert len(_ids(table)) == 5 * files - 1


def test_which_delete_files_others_need(tmp_path: Path, seed: int) -> None:
    """They go as soon as all data files that they name have vectors, and not before."""
    random = Random(seed)
    builder = IcebergBuilder(tmp_path / "t", {"id": "long"}, format_version=3)
    data = [builder.data([{"id": 10 * file + number} for number in range(10)]) for file in range(40)]
    builder.commit(*data)
    written: list[IcebergFile] = []
    named: dict[str, set[int]] = {}
    left = set(range(400))
    for _ in range(12):
        rows = sorted({(random.randrange(40), random.randrange(8)) for _ in range(random.choice((2, 3, 20)))})
        written.append(builder.position_deletes([(data[file], row) for file, row in rows]))
        named[written[-1].path] = {file for file, _ in rows}
        left -= {10 * file + row for file, row in rows}
    builder.commit(*written)
    table: IcebergTable = open_table(tmp_path / "t", "iceberg")
    have_vectors: set[int] = set()
    for some in ([0], [1, 2, 3], random.sample(range(4, 40), 30), list(range(40))):
        gone = {10 * file + 9 - (file in have_vectors) for file in some}
        have_vectors.update(some)
        _hide(table, *gone)
        left -= gone
        assert _ids(table) == sorted(left)
        found = {file["file_path"] for file in _deletes(table) if file["file_format"] == "PARQUET"}
        assert found == {path for path, files in named.items() if not files <= have_vectors}


def _broken(transaction: IcebergTransaction) -> None:
    with engine_of(transaction).operation("broken"):
        _hide_in(transaction, 7)
        raise ZeroDivisionError


def test_delete_files_of_one_data_file_do_not_add_up(tmp_path: Path) -> None:
    """One that is about a single data file is replaced by the next; a shared one stays."""
    table = _new(tmp_path, "2", _BY_PARTITION)
    table.append(_rows(*range(10)))
    table.append(_rows(*range(10, 20)))
    assert _hide(table, 0, 10).delete_files_added == 1
    table.alter().set({"write.delete.granularity": "file"}).commit()
    assert _hide(table, 1, 11) == HiddenRows(0, 0, 2, 0)
    stale: IcebergTable = open_table(table.location, "iceberg")
    assert _hide(table, 3, 2) == HiddenRows(0, 0, 1, 1)
    # Another writer replaces the same file.
    assert _hide(stale, 5) == HiddenRows(0, 0, 1, 1)
    assert _ids(table.refresh()) == sorted({*range(20)} - {0, 1, 2, 3, 5, 10, 11})
    assert sorted(file["record_count"] for file in _deletes(table)) == [1, 2, 2, 3]
    assert _summary(table, "total-delete-files", "total-position-deletes") == ["4", "8"]
    assert _hide(table, 6) == HiddenRows(0, 0, 1, 2)
    assert sorted(len(_content(file)) for file in _deletes(table)) == [1, 2, 5]
    assert faults_of_directory(Path(table.location)) == []


def test_delete_files_about_nothing_leave_with_all_rows(tmp_path: Path) -> None:
    """Also those that another writer left behind when the last data file went."""
    builder = IcebergBuilder(tmp_path / "t", {"id": "long", "kind": "string"}, format_version=2)
    gone = builder.data([{"id": 1}])
    builder.commit(builder.position_deletes([(gone, 0)]))
    table: IcebergTable = open_table(tmp_path / "t", "iceberg")
    assert len(_deletes(table)) == 1
    table.overwrite(_rows(2, 3))
    assert (_ids(table), _deletes(table)) == ([2, 3], [])


@_KINDS
def test_two_operations_of_one_transaction(tmp_path: Path, version: str, properties: dict[str, str]) -> None:
    """They become one vector of a file, and what a removed file had is dropped; a failed one leaves nothing."""
    table = _new(tmp_path, version, properties, partition_by="kind")
    table.append(_rows(*range(10)))
    with table.transaction() as transaction:
        _hide_in(transaction, 1, 4)
        with pytest.raises(ZeroDivisionError):
            _broken(transaction)
        _hide_in(transaction, 3)
        transaction.delete("kind = 'a'")
        with pytest.raises(InvalidArgumentError, match="has removed"):
            _hide_in(transaction, 0)
    assert _ids(table) == [5, 7, 9]
    deletes = _deletes(table)
    if version == "3":
        assert sorted(file["record_count"] for file in deletes) == [1, 2]
    named = {Path(file["file_path"]).name for file in deletes}
    assert {path.name for path in (tmp_path / "t/data").rglob("*-deletes*")} == named


def test_deletes_and_rewrites_meet(tmp_path: Path) -> None:
    """Position delete files of two writers go together; vectors of one file, and deletes of a file that goes do not."""
    for version, both in (("2", True), ("3", False)):
        table = _new(tmp_path / version, version)
        table.append(_rows(*range(10)))
        table.append(_rows(*range(10, 20)))
        other: IcebergTable = open_table(table.location, "iceberg")
        _hide(other, 1)
        # Another data file does not matter.
        _hide(table, 12)
        third: IcebergTable = open_table(table.location, "iceberg")
        _hide(third, 2)
        if both:
            _hide(other, 3)
        else:
            with pytest.raises(ConcurrentDeleteReadError, match="one deletion vector only"):
                _hide(other, 3)
        # Rows that are replaced must not have been deleted by others.
        stale = open_table(table.location, "iceberg").transaction()
        _hide(open_table(table.location, "iceberg"), 14)
        _hide_in(stale, 15, replaces=True)
        with pytest.raises(
            ConcurrentDeleteReadError,
            match=r"another commit deleted (other rows of a file|rows of files whose rows are moved)",
        ):
            stale.commit()
        # A compaction that comes first takes the file away, one that comes second is refused.
        stale = open_table(table.location, "iceberg").transaction()
        compacts = open_table(table.location, "iceberg")
        _hide_in(stale, 16)
        open_table(table.location, "iceberg").compact()
        with pytest.raises(ConcurrentDeleteDeleteError, match="data files of which rows are deleted"):
            stale.commit()
        assert compacts.compact().commits == []
        left = _ids(table.refresh())
        assert left == sorted({*range(20)} - {1, 2, 12, 14, *((3,) if both else ())})
        assert _deletes(table) == []


def test_what_is_refused(tmp_path: Path) -> None:
    table = _new(tmp_path / "1", "1")
    table.append(_rows(1, 2))
    with pytest.raises(UnsupportedFeatureError, match="version 1"):
        _hide(table, 1)
    with pytest.raises(InvalidArgumentError, match="granularity"):
        table.alter().set({"format-version": "2", "write.delete.granularity": "row"})
    table.alter().set({"format-version": "2", "write.delete.granularity": "file"}).commit()
    stale = table.transaction()
    _hide_in(stale, 1)
    open_table(table.location, "iceberg").alter().set({"format-version": "3"}).commit()
    with pytest.raises(CommitConflictError, match="upgraded"):
        stale.commit()
    assert not list((tmp_path / "1").rglob("*-deletes*"))
    assert _ids(table.refresh()) == [1, 2]
    with pytest.raises(InvalidArgumentError, match="isolation-level"):
        isolation_level({"write.delete.isolation-level": "none"}, "delete")


@pytest.mark.req("BEY-43", half="writer")
@pytest.mark.parametrize("version", [2, 3])
def test_partitions_that_are_not_understood(tmp_path: Path, version: int) -> None:
    """Files of an unknown transform are read, and nothing is written for them."""
    spec = [{"source-id": 1, "name": "z", "transform": "zorder"}]
    builder = IcebergBuilder(tmp_path / "t", {"id": "long"}, format_version=version, specs=[spec])
    builder.commit(builder.data([{"id": number} for number in range(4)], partition={"z": 7}))
    table: IcebergTable = open_table(tmp_path / "t", "iceberg")
    assert table.scan().count() == 4
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UnsupportedFeatureError, match="zorder"):
        _hide(table, 1)
    with pytest.raises(UnsupportedFeatureError, match="zorder"):
        table.append(pa.table({"id": [9]}))
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == [path for path in before if path.is_file()]


def test_many_positions_of_many_files(tmp_path: Path, seed: int) -> None:
    """The vectors of a commit are in one file, each at its own place."""
    table = _new(tmp_path, "3")
    for start in range(0, 3000, 1000):
        table.append(_rows(*range(start, start + 1000)))
    gone = [number for number in range(3000) if (number * 7919 + seed) % 3 == 0]
    _hide(table, *gone)
    deletes = _deletes(table)
    assert len({file["file_path"] for file in deletes}) == 1
    assert len({file["content_offset"] for file in deletes}) == 3
    assert _ids(table) == sorted(set(range(3000)) - set(gone))


@pytest.mark.parametrize("version", ["2", "3"])
def test_in_a_bucket(s3: Bucket, version: str) -> None:
    """Earlier deletes are read from the store, and the paths in delete files are those of the manifests."""
    properties = {"format-version": version}
    place = f"{s3.url}/a table"
    create_table(
        place, _COLUMNS, format="iceberg", storage_options=s3.options, properties=properties, partition_by="kind"
    )
    table: IcebergTable = open_table(place, "iceberg", storage_options=s3.options)
    table.append(_rows(*range(10)))
    for gone in ("id IN (1, 2)", "id IN (0, 3, 5)"):
        table.delete(gone, strategy="merge-on-read")
    table.delete_by_keys(pa.table({"id": [9]}))
    deletes = _deletes(table)
    assert all(file["file_path"].startswith(f"{s3.url}/a table/data/") for file in deletes)
    assert len(deletes) == 3
    left = open_table(place, "iceberg", storage_options=s3.options, validate=True).scan().to_arrow()
    assert sorted(left.column("id").to_pylist()) == [4, 6, 7, 8]
