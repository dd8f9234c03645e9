"""Partition statistics: what a file says, that it is the same from an ancestor's, and what the table says of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg import IcebergTable, create_table
from deltaberg.errors import InvalidArgumentError, StorageError, VersionNotFoundError
from deltaberg.iceberg.inspect.partitions import partitions_table
from deltaberg.iceberg.maintain.statistics.partition_sums import partition_sums
from deltaberg.iceberg.manifests.partition_stats_file import NewPartitionStats
from deltaberg.iceberg.manifests.reader import ManifestReader
from deltaberg.iceberg.transaction.table_commit import TableChange
from deltaberg.table.read.source import PartitionShare
from tests.support.below_verbs import begin

_COLUMNS = pa.schema([("id", pa.int32()), ("p", pa.string()), ("x", pa.float64())])


def _rows(*ids: int) -> pa.Table:
    parts = [None if one % 4 == 3 else f"p{one % 4}" for one in ids]
    values = [float("nan") if one % 2 else one / 2 for one in ids]
    return pa.table({"id": ids, "p": parts, "x": values}, _COLUMNS)


def _table(root: Path, version: str = "3", **more: Any) -> IcebergTable:
    properties = {"format-version": version, **more.pop("properties", {})}
    more = {"partition_by": ["p"], **more}
    found: IcebergTable = create_table(root / "t", _COLUMNS, format="iceberg", properties=properties, **more)
    return found


def _key(row: dict[str, Any]) -> str:
    """Return what tells the partitions of all specs apart; NaN equals itself as text."""
    return f"{row['spec_id']} {sorted(row['partition'].items())}"


def _counted(table: IcebergTable) -> dict[str, Counter[str]]:
    """Count files and rows of each partition in plain Python."""
    totals: dict[str, Counter[str]] = {}
    for row in table.inspect("files").to_pylist():
        counts = totals.setdefault(_key(row), Counter())
        kind = ("data", "position_delete", "equality_delete")[row["content"]]
        counts[f"{kind}_record_count"] += row["record_count"]
        counts["dv_count" if row["file_format"] == "PUFFIN" else f"{kind}_file_count"] += 1
        if kind == "data":
            counts["total_data_file_size_in_bytes"] += row["file_size_in_bytes"]
    return totals


def _updated(table: IcebergTable) -> dict[str, int]:
    """Return the newest snapshot that added a live file of each partition."""
    times = {one.snapshot_id: one.timestamp_ms for one in table.snapshots}
    newest: dict[str, int] = {}
    for row in table.inspect("entries").to_pylist():
        if row["status"] != 2:
            key = _key(row["data_file"])
            if key not in newest or times[row["snapshot_id"]] > times[newest[key]]:
                newest[key] = row["snapshot_id"]
    return newest


def _read(path: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return found


def _check(table: IcebergTable, path: str) -> None:
    """Compare a file with what is counted in plain Python, and with statistics that are made of all manifests."""
    rows = _read(path)
    counts = {
        _key(row): Counter({name: row[name] for name in row if name.endswith(("_count", "_bytes"))}) for row in rows
    }
    for one in counts.values():
        # Whatever is not known is null.
        assert one.pop("total_record_count") is None
    assert {key: +one for key, one in counts.items()} == _counted(table)
    assert {_key(row): row["last_updated_snapshot_id"] for row in rows} == _updated(table)
    times = {one.snapshot_id: one.timestamp_ms for one in table.snapshots}
    assert all(row["last_updated_at"] == times[row["last_updated_snapshot_id"]] for row in rows)
    anew = partition_sums(begin(table).source)
    assert str(anew.to_pylist()) == str(rows)


def _inspected(table: IcebergTable) -> str:
    """Return the metadata table of partitions as text, for which no manifest may be opened."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ManifestReader, "read", _no_manifest)
        return str(table.inspect("partitions").to_pylist())


def _no_manifest(*_: Any) -> Any:
    raise AssertionError("a manifest is opened")


def _from_manifests(table: IcebergTable) -> str:
    """Return the same from manifests, whatever statistics there are."""
    source = begin(table).source
    source.partition_stats = None
    return str(partitions_table(source).to_pylist())


def _numbers(schema: pa.Schema) -> list[int]:
    return [int(field.metadata[b"PARQUET:field_id"]) for field in schema]


@pytest.mark.req("BEY-29", half="writer")
@pytest.mark.parametrize("version", ["1", "2", "3"])
def test_what_a_file_says(tmp_path: Path, version: str) -> None:
    table = _table(tmp_path, version)
    assert table.compute_partition_stats() is None
    table.append(_rows(1, 2, 5))
    if version != "1":
        table.delete("id = 5", strategy="merge-on-read")
    done = table.compute_partition_stats()
    assert done is not None
    assert (done.snapshot_id, done.partitions, done.base_snapshot_id) == (table.snapshot_id, 2, None)
    rows = _read(done.path)
    assert [row["partition"]["p"] for row in rows] == ["p1", "p2"]
    assert [(row["data_record_count"], row["data_file_count"]) for row in rows] == [(2, 1), (1, 1)]
    deletes = [(row["position_delete_record_count"], row["position_delete_file_count"]) for row in rows]
    assert deletes == {"1": [(0, 0)] * 2, "2": [(1, 1), (0, 0)], "3": [(1, 0), (0, 0)]}[version]
    assert [row.get("dv_count") for row in rows] == ([1, 0] if version == "3" else [None, None])
    schema = pq.read_schema(done.path)
    assert _numbers(schema) == [*range(1, 13), *([13] if version == "3" else [])]
    assert _numbers(pa.schema(list(schema.field("partition").type))) == [1000]
    entry = {"snapshot-id": done.snapshot_id, "statistics-path": done.path, "file-size-in-bytes": done.bytes}
    assert Path(done.path).stat().st_size == done.bytes
    table.append(_rows(9))
    told = json.loads(Path(table.metadata_location).read_text())
    assert told["partition-statistics"] == [entry]
    # The table has them already.
    again = table.compute_partition_stats(done.snapshot_id)
    assert again is not None
    assert (again.path, again.bytes, again.commit, again.partitions) == (done.path, done.bytes, None, None)


@pytest.mark.req("ICE-MNT-20", half="writer")
@pytest.mark.parametrize("version", ["1", "2", "3", "2 to 3"])
def test_from_an_ancestor(tmp_path: Path, version: str) -> None:
    """After each step, statistics from those of the step before equal those that are made of all manifests."""
    old, _, new = version.partition(" to ")
    table = _table(tmp_path, old)
    hides = old != "1"

    def rows_by_keys() -> None:
        if hides:
            table.delete_by_keys(pa.table({"id": pa.array([12], pa.int32())}))

    steps: list[Callable[[], object]] = [
        lambda: table.append(_rows(*range(16))),
        lambda: table.append(_rows(16, 17)),
        lambda: table.delete("id IN (1, 2)", strategy="merge-on-read" if hides else "copy-on-write"),
        rows_by_keys,
        lambda: table.delete("p = 'p1'"),
        lambda: table.overwrite(_rows(3, 7), where="p IS NULL"),
        lambda: table.alter().partition_by("p", "x", "bucket(2, id)").commit(),
        lambda: [table.append(_rows(*range(20, 28))), table.append(_rows(20, 21))],
        table.rewrite_manifests,
        lambda: table.alter().set({"format-version": new or old}).commit(),
        table.compact,
        lambda: table.alter().partition_by("truncate(1, p)").commit(),
        lambda: table.append(_rows(30, 31)),
        lambda: table.overwrite(_rows(1)),
    ]
    base, partitions = None, 0
    for step in steps:
        step()
        table.refresh()
        done = table.compute_partition_stats()
        assert done is not None
        assert _inspected(table) == _from_manifests(table)
        if table.snapshot_id != base:
            assert done.base_snapshot_id == base
            base = table.snapshot_id
            partitions = len(_read(done.path))
            _check(table, done.path)
    assert partitions == 1


def test_statistics_of_ancestors_that_are_of_no_use(tmp_path: Path) -> None:
    """They are made of all manifests if a file is gone or damaged, or has no counts or columns of other types."""
    table = _table(tmp_path)
    table.append(_rows(*range(8)))
    first = table.compute_partition_stats()
    assert first is not None
    path = Path(first.path)
    data = path.read_bytes()
    whole = pq.read_table(path)
    without = whole.drop_columns(["data_file_count"])

    def odd(name: str, values: pa.Array) -> Callable[[], object]:
        """Return what writes the file with a column of another type."""
        at = whole.schema.get_field_index(name)
        field = whole.schema.field(at).with_type(values.type).with_nullable(True)
        return lambda: pq.write_table(whole.set_column(at, field, values), path)

    count = len(whole)
    harms: list[Callable[[], object]] = [
        path.unlink,
        lambda: path.write_bytes(data[:-9]),
        lambda: pq.write_table(without, path),
        lambda: path.write_bytes(b""),
        odd("partition", pa.array([1] * count, pa.int64())),
        odd("partition", pa.array([[1]] * count)),
        odd("data_file_count", pa.array([{"a": 1}] * count)),
        odd("data_file_count", pa.array([[1]] * count)),
        odd("data_record_count", pa.array([1.5] * count)),
    ]
    for number, harm in enumerate(harms):
        harm()
        table.append(_rows(number))
        done = table.compute_partition_stats(table.snapshot_id)
        assert done is not None
        assert done.base_snapshot_id is None
        _check(table, done.path)
        # The next one has only the damaged file of the first snapshot again.
        Path(done.path).rename(f"{done.path}.gone")
        table.alter().rollback_to_snapshot(first.snapshot_id).commit()


@pytest.mark.req("BEY-29", half="reader")
def test_statistics_are_used_only_if_they_are_certainly_those_of_the_manifests(tmp_path: Path) -> None:
    """Not one that is lost, damaged or of others, nor one that is made from those of others, nor from that one."""
    table = _table(tmp_path)
    table.append(_rows(*range(8)))
    done = table.compute_partition_stats()
    assert done is not None
    assert _inspected(table.refresh()) == _from_manifests(table)
    path = Path(done.path)
    data, whole = path.read_bytes(), pq.read_table(path)
    doubled = whole.set_column(2, whole.schema.field(2), pa.array([7] * len(whole), pa.int64()))
    harms: list[Callable[[], object]] = [
        path.unlink,
        lambda: path.write_bytes(data[:50] + bytes([data[50] ^ 1]) + data[51:]),
        lambda: path.write_bytes(b""),
        lambda: pq.write_table(doubled, path),
    ]
    for harm in harms:
        harm()
        with pytest.raises(AssertionError, match="a manifest is opened"):
            _inspected(IcebergTable(table.location))
        assert str(IcebergTable(table.location).inspect("partitions").to_pylist()) == _from_manifests(table)
    for number in (20, 21):
        table.append(_rows(number))
        done = table.compute_partition_stats()
        assert done is not None
        assert done.base_snapshot_id is not None
        with pytest.raises(AssertionError, match="a manifest is opened"):
            _inspected(IcebergTable(table.location))
        assert table.inspect("partitions").to_pylist()[0]["record_count"] < 7


@pytest.mark.req("BEY-29", half="reader")
def test_statistics_of_snapshots_that_have_expired_since(tmp_path: Path) -> None:
    """A snapshot that is gone is not named; where a tag keeps an older one, manifests tell whether that is the last."""
    table = _table(tmp_path, properties={"gc.enabled": "true"})
    table.append(_rows(1, 2))
    table.alter().create_tag("first").commit()
    table.append(_rows(5))
    table.append(_rows(3))
    assert table.compute_partition_stats() is not None
    assert _inspected(table.refresh()) == _from_manifests(table)
    table.expire_snapshots("9999-12-31", retain_last=1)
    assert len(table.refresh().snapshots) == 2
    with pytest.raises(AssertionError, match="a manifest is opened"):
        _inspected(table)
    assert table.inspect("partitions").to_pylist()[1]["last_updated_snapshot_id"] == table.snapshots[0].snapshot_id
    table.alter().drop_tag("first").commit()
    table.expire_snapshots("9999-12-31", retain_last=1)
    assert len(table.refresh().snapshots) == 1
    assert _inspected(table) == _from_manifests(table)
    updates = [row["last_updated_snapshot_id"] for row in table.inspect("partitions").to_pylist()]
    assert updates == [table.snapshot_id, None, None]


@pytest.mark.parametrize(("filter", "chosen"), [("p = 'p1'", 1), ("p IS NOT NULL", 3), (None, 4), ("p = 'x'", 0)])
def test_explanations_tell_the_share_of_partitions(tmp_path: Path, filter: str | None, chosen: int) -> None:
    """All that filters leave out is counted without its manifests."""
    table = _table(tmp_path)
    for number in range(6):
        table.append(_rows(number))
    assert table.scan(filter).explanation().partitions is None
    assert table.compute_partition_stats() is not None
    found = table.refresh().scan(filter).explanation()
    assert found.partitions == PartitionShare(chosen, 4)
    assert ("partitions", f"{chosen} of 4") in found.facts


@pytest.mark.parametrize("lacks", ["statistics-path", "file-size-in-bytes", "snapshot-id"])
def test_an_entry_that_lacks_something_counts_for_none(tmp_path: Path, lacks: str) -> None:
    """It is replaced, unless nobody knows of which snapshot it is."""
    table = _table(tmp_path)
    table.append(_rows(*range(8)))
    first = table.compute_partition_stats()
    assert first is not None
    table.refresh()
    metadata = Path(table.metadata_location.removeprefix("file://"))
    raw = json.loads(metadata.read_text())
    del raw["partition-statistics"][0][lacks]
    metadata.write_text(json.dumps(raw))
    table = IcebergTable(table.location)
    done = table.compute_partition_stats()
    assert done is not None
    assert done.commit is not None
    _check(table, done.path)
    kept = [one.get("statistics-path") for one in table.refresh().metadata.partition_statistics]
    assert kept == [first.path, done.path] if lacks == "snapshot-id" else kept == [done.path]
    again = table.compute_partition_stats()
    assert again is not None
    assert (again.path, again.commit) == (done.path, None)


def test_what_is_refused(tmp_path: Path) -> None:
    plain = _table(tmp_path / "plain", partition_by=[])
    plain.append(_rows(1))
    with pytest.raises(InvalidArgumentError, match="has no partitions"):
        plain.compute_partition_stats()
    table = _table(tmp_path)
    table.append(_rows(1))
    with pytest.raises(VersionNotFoundError, match="there is no snapshot 7: it was expired, or never existed"):
        table.compute_partition_stats(7)
    with pytest.raises(InvalidArgumentError, match="the id of a snapshot must be an integer, not '7'"):
        table.compute_partition_stats("7")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="the table was opened with snapshot_id, and cannot be"):
        IcebergTable(table.location, snapshot_id=table.snapshot_id).compute_partition_stats()


def test_beside_other_commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An append meanwhile does not matter. After an expiry nothing is left, or the newest snapshot is counted."""
    table = _table(tmp_path, properties={"gc.enabled": "true"})
    table.append(_rows(1))
    write = NewPartitionStats.write

    def meanwhile(change: Any) -> None:
        def written(*arguments: Any) -> Any:
            found = write(*arguments)
            monkeypatch.undo()
            change(IcebergTable(table.location))
            return found

        monkeypatch.setattr(NewPartitionStats, "write", written)

    meanwhile(lambda other: other.append(_rows(2)))
    done = table.compute_partition_stats()
    assert done is not None
    assert done.snapshot_id == table.snapshots[0].snapshot_id
    assert table.scan().count() == 2

    def expire(other: Any) -> None:
        other.append(_rows(5))
        other.expire_snapshots("9999-12-31", retain_last=1)

    count = len(list((tmp_path / "t").rglob("partition-stats-*")))
    meanwhile(expire)
    with pytest.raises(VersionNotFoundError, match="there is no snapshot"):
        table.compute_partition_stats(table.refresh().snapshot_id)
    # With the snapshot of the first statistics, these have gone, too.
    assert (count, len(list((tmp_path / "t").rglob("partition-stats-*")))) == (1, 0)
    meanwhile(expire)
    done = table.compute_partition_stats()
    assert done is not None
    assert done.snapshot_id == IcebergTable(table.location).snapshot_id
    assert sum(row["data_record_count"] for row in _read(done.path)) == table.scan().count() == 4
    assert table.remove_orphan_files("9999-12-31", dry_run=False, enforce_retention_duration=False).deleted_files == 0
    assert Path(done.path).exists()


def test_a_commit_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _table(tmp_path)
    table.append(_rows(1))

    def refuse(*_: Any) -> Any:
        raise StorageError("no space")

    monkeypatch.setattr(TableChange, "prepare", refuse)
    with pytest.raises(StorageError, match="no space"):
        table.compute_partition_stats()
    assert not list((tmp_path / "t").rglob("partition-stats-*"))


def test_branches_have_their_own(tmp_path: Path) -> None:
    table = _table(tmp_path)
    table.append(_rows(1, 2))
    table.alter().create_branch("audit").commit()
    table.append(_rows(3), branch="audit")
    side = IcebergTable(table.location, ref="audit")
    done, main = side.compute_partition_stats(), table.refresh().compute_partition_stats()
    assert done is not None
    assert main is not None
    assert (done.partitions, main.partitions) == (3, 2)
    assert side.snapshot_id == done.snapshot_id
