"""`verify` and `repair` of Iceberg tables: each loss and contradiction is found, and only losses are mended."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg import IcebergTable, RepairResult, VerifyResult
from deltaberg.errors import CommitConflictError
from deltaberg.iceberg.maintain import verify as verification
from deltaberg.iceberg.metadata.statistics_files import STATISTICS_MEMBERS
from deltaberg.iceberg.scan.source import IcebergSource
from deltaberg.table.maintain.verifying.presence import find_files, look_up
from tests.write.small_iceberg import ids_of, new_table, rows_of

pytestmark = pytest.mark.one_backend

_VERSIONS = pytest.mark.parametrize("version", ["1", "2", "3"])
_SPEC: list[dict[str, Any]] = [
    {"spec-id": 0, "fields": []},
    {"spec-id": 1, "fields": [{"name": "p", "transform": "identity", "source-id": 1, "field-id": 1000}]},
]
_LOST_SPEC = [{"spec-id": 0, "fields": [{"name": "x", "transform": "year", "source-id": 99, "field-id": 1000}]}]
_LOST_TERM = {"transform": "identity", "source-id": 99, "direction": "asc", "null-order": "nulls-first"}
_LOST_ORDER = {"order-id": 1, "fields": [_LOST_TERM]}


def _table(root: Path, version: str = "3") -> IcebergTable:
    """Return a table of the rows 1 to 4 in two files, of which row 1 is deleted as the version does that."""
    table = new_table(root, version)
    table.append(rows_of(1, 2))
    table.append(rows_of(3, 4))
    if version != "1":
        table.delete("id = 1", strategy="merge-on-read")
    return table


def _data(table: IcebergTable, number: int) -> Path:
    """Return the data file that holds a row."""
    files = table.scan().files()["file_path"].to_pylist()
    paths = [Path(path.removeprefix("file:")) for path in files]
    return next(path for path in paths if number in pq.read_table(path)["id"].to_pylist())


def _kinds(result: VerifyResult) -> set[tuple[str, str]]:
    return {(one.kind, one.what) for one in result.findings}


def _rewrite(table: IcebergTable, change: Callable[[dict[str, Any]], None]) -> None:
    """Write newer metadata, as a writer with a fault does."""
    folder = Path(table.location, "metadata")
    raw: dict[str, Any] = json.loads(json.dumps(dict(IcebergTable(table.location).metadata.raw)))
    change(raw)
    newest = max(int(path.name[1:].partition(".")[0]) for path in folder.glob("v*.metadata.json"))
    (folder / f"v{newest + 1}.metadata.json").write_text(json.dumps(raw))


@_VERSIONS
def test_a_sound_table(tmp_path: Path, version: str) -> None:
    table = _table(tmp_path, version)
    report = table.verify(depth="footers")
    assert report.findings == ()
    assert report.state == f"snapshot {table.snapshot_id}"
    deletes = {"1": {}, "2": {"position delete file": 1}, "3": {"deletion vector": 1}}[version]
    content = {name: count for name, count in report.checked.items() if "file" not in name or "delete" in name}
    lists = len(table.snapshots)
    assert content == {"manifest": lists, "manifest list": lists, "footer": 2 + (version == "2"), **deletes}
    assert report.checked["data file"] == 2
    assert report.checked["metadata file"] == len(table.metadata.metadata_log)
    assert table.repair().files == ()
    assert new_table(tmp_path / "empty", version).verify(depth="footers").is_clean


@_VERSIONS
def test_lost_files(tmp_path: Path, version: str) -> None:
    """Each file that goes is found by itself, under its own name."""
    table = _table(tmp_path, version)
    for path in sorted(Path(table.location).rglob("*")):
        if not path.is_file() or path.name.startswith((".", "version-hint")):
            continue
        if path.name == Path(table.metadata_location.removeprefix("file:")).name:
            continue
        data = path.read_bytes()
        path.unlink()
        found = table.verify(depth="names")
        what = {one.what for one in found.findings if one.kind == "missing"}
        assert [one.path for one in found.findings if one.kind == "missing"] == [str(path)], path.name
        expected = {".json": {"metadata file"}, ".puffin": {"deletion vector"}}.get(path.suffix)
        if expected is None:
            expected = (
                {"manifest list", "manifest"} if path.suffix == ".avro" else {"data file", "position delete file"}
            )
        assert what <= expected
        path.write_bytes(data)
    assert table.verify(depth="footers").is_clean


def test_sizes_rows_and_damage(tmp_path: Path) -> None:
    table = _table(tmp_path)
    path = _data(table, 3)
    whole = path.read_bytes()
    path.write_bytes(whole + b"x")
    (finding,) = table.verify().findings
    assert (finding.kind, finding.what, finding.expected, finding.found) == (
        "size",
        "data file",
        len(whole),
        len(whole) + 1,
    )
    # The footer of a file of the right size tells other rows, or none.
    path.write_bytes(whole[:4] + b"\0" * (len(whole) - 12) + whole[-8:])
    assert table.verify().is_clean
    assert _kinds(table.verify(depth="footers")) == {("damaged", "data file")}
    path.write_bytes(whole)
    with mock.patch.object(verification, "count_rows", return_value=7):
        finding = table.verify(depth="footers").findings[0]
    assert (finding.kind, finding.expected, finding.found) == ("rows", 2, 7)
    vector = next(Path(table.location).rglob("*.puffin"))
    data = vector.read_bytes()
    vector.write_bytes(data[:8] + b"\xff" * 8 + data[16:])
    assert table.verify(depth="names").is_clean
    (finding,) = table.verify().findings
    assert (finding.kind, finding.what) == ("damaged", "deletion vector")
    assert finding.named_by.startswith("the data file ")
    manifest = next(Path(table.location, "metadata").glob("*-m0.avro"))
    manifest.write_bytes(b"x" * manifest.stat().st_size)
    assert ("damaged", "manifest") in _kinds(table.verify())


@pytest.mark.parametrize(
    ("change", "kind", "text"),
    [
        (lambda raw: raw["refs"].update(old={"snapshot-id": 7, "type": "tag"}), "dangling", "the tag old names the"),
        (
            lambda raw: raw["snapshot-log"].insert(0, {"snapshot-id": 7, "timestamp-ms": 1}),
            "dangling",
            "snapshot-log names the snapshot 7",
        ),
        (
            lambda raw: raw.update({"last-partition-id": 998, "partition-specs": _SPEC}),
            "violation",
            "last-partition-id",
        ),
        (lambda raw: raw.update({"last-column-id": 1}), "violation", "last-column-id is 1"),
        (
            lambda raw: raw.update({"partition-specs": _LOST_SPEC, "last-partition-id": 1000}),
            "violation",
            "the partition field 'x' of new files is made from the column 99, which",
        ),
        (
            lambda raw: raw.update({"sort-orders": [_LOST_ORDER], "default-sort-order-id": 1}),
            "violation",
            "the sort order of new files is made from the column 99, which",
        ),
        (lambda raw: raw.update({"next-row-id": 1}), "violation", "next-row-id is 1, but a snapshot"),
        (lambda raw: raw.update({"last-sequence-number": 1}), "violation", "last-sequence-number is 1"),
    ],
)
def test_what_metadata_says(tmp_path: Path, change: Callable[[dict[str, Any]], None], kind: str, text: str) -> None:
    table = _table(tmp_path)
    _rewrite(table, change)
    found = [one for one in table.verify().findings if one.what == "metadata file"]
    assert [(one.kind, str(one.found)[: len(text)]) for one in found] == [(kind, text)]


def _statistics(table: IcebergTable, snapshot_id: int, name: str) -> Path:
    path = Path(table.location, "metadata", name)
    path.write_bytes(b"abc")

    def add(raw: dict[str, Any]) -> None:
        one = {"snapshot-id": snapshot_id, "statistics-path": str(path), "file-size-in-bytes": 3}
        raw.setdefault("partition-statistics", []).append(one)

    _rewrite(table, add)
    return path


def test_names_that_dangle_are_taken_out(tmp_path: Path) -> None:
    """Lost statistics, too, and nothing else: the rows and the other names stay."""
    table = _table(tmp_path)
    table.alter().create_tag("kept").commit()
    current, first = table.snapshots[-1].snapshot_id, table.snapshots[0].snapshot_id
    kept = _statistics(table, current, "kept.stats")
    lost = _statistics(table, first, "lost.stats")
    _rewrite(table, lambda raw: raw["refs"].update(old={"snapshot-id": 7, "type": "tag"}))
    lost.unlink()
    found = table.verify()
    assert _kinds(found) == {("dangling", "metadata file"), ("missing", "partition statistics file")}
    planned = table.repair(found, dry_run=True)
    assert (planned.refs, planned.statistics, planned.files) == (("old",), (str(lost),), ())
    assert "1 branch or tag and 1 file of statistics named what is not there" in repr(planned)
    done = table.repair()
    assert (done.refs, done.statistics, done.files) == (planned.refs, planned.statistics, ())
    assert set(table.refs) == {"main", "kept"}
    assert [one["statistics-path"] for one in table.metadata.partition_statistics] == [str(kept)]
    assert (ids_of(table), table.verify().findings) == ([2, 3, 4], ())
    assert table.repair().commit is None


@pytest.mark.parametrize("number", [{}, [], 1.5, None])
def test_entries_of_statistics_that_are_none(tmp_path: Path, number: Any) -> None:
    """Their snapshot is told to be no number, and nothing else minds; the file that they name is not an orphan."""
    table = _table(tmp_path)
    named = Path(table.location, "metadata", "odd.stats")
    named.write_bytes(b"0123456789")
    os.utime(named, (0, 0))
    entry = {"snapshot-id": number, "statistics-path": str(named), "file-size-in-bytes": 10}
    odd = {"statistics": [entry], "partition-statistics": [entry, {"snapshot-id": number, "statistics-path": {}}]}
    _rewrite(table, lambda raw: raw.update(odd))
    table = IcebergTable(table.location)
    told = [f"an entry of partition statistics has no {name}, or one of a wrong type" for name in STATISTICS_MEMBERS]
    told.append(told[0].replace("partition ", ""))
    found = table.verify().findings
    assert sorted((one.kind, one.found) for one in found) == sorted(("violation", text) for text in told)
    assert table.repair().commit is None
    table.remove_orphan_files(dry_run=False)
    oldest = table.snapshots[0].snapshot_id
    assert oldest in table.expire_snapshots(older_than="2100-01-01", retain_last=1).snapshot_ids
    assert named.exists()
    table.refresh()
    assert ids_of(table) == [2, 3, 4]
    assert {name: table.metadata.raw[name] for name in odd} == odd


def test_numbers_of_manifests(tmp_path: Path) -> None:
    """What lists say of manifests, against their entries; and row ids that two files have."""
    table = _table(tmp_path)
    real = IcebergSource.manifests.func  # type: ignore[attr-defined]

    def changed(name: str, value: int) -> Any:
        def manifests(self: Any) -> pa.Table:
            read = real(self)
            column = pa.array([value] * len(read), read.schema.field(name).type)
            return read.set_column(read.schema.get_field_index(name), read.schema.field(name), column)

        return mock.patch.object(IcebergSource, "manifests", property(manifests))

    for name, value, text in [
        ("added_files_count", 9, "added_files_count of"),
        ("sequence_number", 99, "its sequence number 99 is above"),
        ("min_sequence_number", 98, "below min_sequence_number 98"),
        ("first_row_id", 1, "another data file has some of them"),
        ("first_row_id", 4000, "next-row-id is"),
    ]:
        with changed(name, value):
            read = table.verify(depth="names").findings
        assert {one.kind for one in read} == {"violation"}, name
        assert any(text in str(one.found) for one in read), (name, read)


def test_deletes_of_what_is_not_there(tmp_path: Path) -> None:
    table = _table(tmp_path)
    real = verification._Verification._live

    def without(self: Any, *arguments: Any) -> Any:
        data, deletes = real(self, *arguments)
        return verification._content([data.entries.slice(0, 0)], data.named_by), deletes

    with mock.patch.object(verification._Verification, "_live", without):
        (found,) = table.verify(depth="names").findings
    assert (found.kind, found.what) == ("dangling", "deletion vector")

    def doubled(self: Any, *arguments: Any) -> Any:
        contents = real(self, *arguments)
        twice = [verification._content([one.entries, one.entries], one.named_by) for one in contents]
        return twice[0], twice[1]

    with mock.patch.object(verification._Verification, "_live", doubled):
        texts = {str(one.found) for one in table.verify(depth="names").findings}
    assert {"it is live twice", "it has two deletion vectors"} <= texts


@_VERSIONS
def test_lost_data_files_leave(tmp_path: Path, version: str) -> None:
    table = _table(tmp_path, version)
    path = _data(table, 3)
    path.unlink()
    found = table.verify()
    planned = table.repair(found, dry_run=True)
    assert (planned.rows, [file.lost for file in planned.files]) == (2, [str(path)])
    assert isinstance(table.repair(found, dry_run=True), RepairResult)
    done = table.repair()
    assert (done.rows, done.files, done.commit is not None and done.commit.deleted_rows) == (2, planned.files, 2)
    assert ids_of(IcebergTable(table.location)) == ([1, 2] if version == "1" else [2])
    assert not [one for one in table.verify(depth="footers").findings if one.what == "data file"]
    assert table.repair().commit is None


def test_a_lost_vector_takes_its_file_along(tmp_path: Path) -> None:
    table = _table(tmp_path)
    next(Path(table.location).rglob("*.puffin")).unlink()
    done = table.repair()
    (file,) = done.files
    assert (file.what, file.rows, ids_of(table)) == ("deletion vector", 1, [3, 4])
    assert table.verify().is_clean


def test_other_delete_files_are_left_and_said(tmp_path: Path) -> None:
    """They may be about many data files: nobody guesses which rows were deleted."""
    table = _table(tmp_path, "2")
    (entry,) = table.inspect("delete_files")["file_path"].to_pylist()
    Path(entry.removeprefix("file:")).unlink()
    done = table.repair()
    assert (done.files, done.commit) == ((), None)
    assert "1 delete file is lost" in done.warnings[0]


def test_a_file_that_comes_back_stays(tmp_path: Path) -> None:
    table = _table(tmp_path)
    path = _data(table, 3)
    data = path.read_bytes()
    path.unlink()
    real = look_up

    def back(*given: Any) -> Any:
        path.write_bytes(data)
        return real(*given)

    with (
        mock.patch("deltaberg.table.maintain.verifying.looks.look_up", back),
        pytest.raises(CommitConflictError, match="is there again"),
    ):
        table.repair()
    assert ids_of(IcebergTable(table.location)) == [2, 3, 4]


def test_what_goes_meanwhile_is_no_loss(tmp_path: Path) -> None:
    """The files of a snapshot that expires during the verification are not reported."""
    table = _table(tmp_path)
    other = IcebergTable(table.location)
    real = find_files

    def meanwhile(*arguments: Any) -> Any:
        other.refresh().overwrite(rows_of(9))
        other.expire_snapshots(older_than="9999-12-31")
        return real(*arguments)

    with mock.patch("deltaberg.iceberg.maintain.verify.find_files") as patched:
        patched.side_effect = lambda *arguments: meanwhile(*arguments) if patched.call_count == 1 else real(*arguments)
        found = table.verify()
    assert patched.call_count == 2
    assert found.findings == ()


def test_a_pinned_snapshot(tmp_path: Path) -> None:
    table = _table(tmp_path)
    first = table.snapshots[0].snapshot_id
    _data(table, 3).unlink()
    assert IcebergTable(table.location, snapshot_id=first).verify().is_clean
    found = table.verify()
    assert [one.kind for one in found.findings] == ["missing"]
    assert table.repair(found.findings).rows == 2


def test_dry_runs_look_at_the_branch(tmp_path: Path) -> None:
    """A dry run finds what the repair of the same branch takes out, and leaves the table where it was opened."""
    table = _table(tmp_path)
    table.alter().create_branch("dev").commit()
    table.append(rows_of(9), branch="dev")
    dev = IcebergTable(table.location, ref="dev")
    _data(dev, 9).unlink()
    before = table.snapshot_id
    for planned in (table.repair(branch="dev", dry_run=True), dev.repair(dry_run=True)):
        assert (planned.dry_run, planned.rows) == (True, 1)
    assert (table.snapshot_id, table.repair(dry_run=True).files) == (before, ())
    done = table.repair(branch="dev")
    assert (done.files, ids_of(dev.refresh())) == (planned.files, [2, 3, 4])


@pytest.mark.req("DL-OPS-11")
@_VERSIONS
def test_branches_and_tags_are_verified(tmp_path: Path, version: str) -> None:
    """Each of their files is looked at once, and a lost one is told with what needs it."""
    table = _table(tmp_path, version)
    old = table.append(rows_of(7)).snapshot_id
    lost = _data(table, 7)
    table.alter().create_tag("kept").create_tag("same").create_branch("dev").commit()
    table.append(rows_of(9), branch="dev")
    table.delete("id = 7")
    dev = IcebergTable(table.location, ref="dev")
    whole = table.verify(depth="footers")
    assert (whole.findings, whole.checked["data file"]) == ((), 4)
    assert whole.state == f"snapshot {table.snapshot_id} and 2 other snapshots of branches or tags"
    also = _data(dev, 9)
    for path in (lost, also):
        path.unlink()
    found = {one.path: one.named_by for one in table.verify().findings if one.kind == "missing"}
    assert found == {str(path): f"snapshot {dev.snapshot_id} (branch dev)" for path in (lost, also)}
    table.alter().drop_branch("dev").commit()
    (finding,) = [one for one in table.verify().findings if one.kind == "missing"]
    assert (finding.path, finding.named_by) == (str(lost), f"snapshot {old} (tag kept, tag same)")
    assert not [one for one in IcebergTable(table.location, ref="main").verify().findings if one.kind == "missing"]


def test_vectors_of_tags_are_decoded(tmp_path: Path) -> None:
    """Those that newer snapshots have no more, too."""
    table = _table(tmp_path)
    table.alter().create_tag("kept").commit()
    table.delete("id >= 1")
    vector = next(Path(table.location).rglob("*.puffin"))
    data = vector.read_bytes()
    vector.write_bytes(data[:8] + b"\xff" * 8 + data[16:])
    (found,) = table.verify().findings
    assert (found.kind, found.what) == ("damaged", "deletion vector")
