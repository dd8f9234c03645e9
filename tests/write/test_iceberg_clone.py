"""Clones of Iceberg tables: new tables whose files keep their numbers and the ids of their rows."""

from __future__ import annotations

import datetime as dt
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deltaberg
from deltaberg import IcebergTable, create_table, load_catalog
from deltaberg.errors import (
    CorruptTableError,
    DataFileNotFoundError,
    InvalidArgumentError,
    TableExistsError,
    UnsupportedFeatureError,
)
from deltaberg.iceberg.maintain.cloned_metadata import cloned_metadata
from deltaberg.iceberg.metadata.metadata_json import metadata_of_json
from deltaberg.iceberg.validate import metadata_violations
from deltaberg.storage.local import LocalStorage
from deltaberg.table.maintain.cloning import copies
from tests.support import moto_s3
from tests.support.clones import note_copies
from tests.support.command_line import call
from tests.write.small_iceberg import as_pyiceberg_reads, ids_of, rows_of

_LINEAGE = ["id", "_row_id", "_last_updated_sequence_number"]


def _rows(table: Any, columns: list[str] | None = None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.scan(columns=columns).to_arrow().sort_by("id").to_pylist()
    return found


def _made(root: Path, version: str = "3", *, keys: bool = True, **properties: str) -> IcebergTable:
    """Make a table of two specs and two schemas, with deletes by position and by keys of older rows."""
    table: IcebergTable = create_table(
        root,
        pa.schema([pa.field("id", pa.int32(), nullable=False), ("name", pa.string()), ("gone", pa.int32())]),
        format="iceberg",
        partition_by=["bucket(2, id)"],
        sort_by=["id"],
        properties={"format-version": version, "write.data.path": f"{root}-elsewhere/data", **properties},
    )
    table.append(_of(0, 100))
    table.append(_of(100, 120))
    if version != "1":
        table.delete("id < 5", strategy="merge-on-read")
    if version != "1" and keys:
        table.delete_by_keys(pa.table({"id": pa.array([7, 60], pa.int32())}))
    table.append(_of(60, 61, name="back"))
    table.alter().drop("gone").partition_by("name").add("more", pa.int64()).commit()
    table.append(pa.table({"id": pa.array([200], pa.int32()), "name": ["a/b ü"], "more": [1]}))
    if version != "1":
        table.delete("id BETWEEN 100 AND 105 OR id = 200 OR id = 60 AND name = 'x'", strategy="merge-on-read")
    return table


def _of(first: int, last: int, name: str = "x") -> pa.Table:
    numbers = pa.array(range(first, last), pa.int32())
    return pa.table({"id": numbers, "name": [name] * len(numbers), "gone": numbers})


@pytest.mark.parametrize("version", ["1", "2", "3"])
def test_a_clone_has_the_rows_in_files_of_its_own(tmp_path: Path, version: str) -> None:
    table = _made(tmp_path / "t", version, owner="ada")
    rows, lineage = _rows(table), _rows(table, _LINEAGE) if version == "3" else []
    source = table.metadata
    result = table.clone(tmp_path / "clone", properties={"team": "x"})
    assert (result.state, result.source_files) == (table.snapshot_id, len(table.inspect("data_files")))
    shutil.rmtree(tmp_path / "t")
    shutil.rmtree(tmp_path / "t-elsewhere")
    cloned = IcebergTable(tmp_path / "clone")
    assert _rows(cloned) == rows
    metadata = cloned.metadata
    assert metadata.table_uuid != source.table_uuid
    assert (metadata.schemas, metadata.specs, metadata.sort_orders) == (
        source.schemas,
        source.specs,
        source.sort_orders,
    )
    assert (
        metadata.current_schema_id,
        metadata.default_spec_id,
        metadata.last_column_id,
        metadata.last_partition_id,
    ) == (
        source.current_schema_id,
        source.default_spec_id,
        source.last_column_id,
        source.last_partition_id,
    )
    assert len(cloned.snapshots) == 1
    kept = {name: value for name, value in source.properties.items() if name != "write.data.path"}
    assert cloned.properties == {**kept, "team": "x"}
    if version == "3":
        assert _rows(cloned, _LINEAGE) == lineage
        assert metadata.next_row_id is not None
        assert metadata.next_row_id >= (source.next_row_id or 0)
    assert (
        cloned.remove_orphan_files(older_than=dt.datetime(2100, 1, 1), enforce_retention_duration=False).deleted_files
        == 0
    )
    # It goes on: new rows are not reached by deletes of the source, and old ones are by new deletes.
    cloned.append(pa.table({"id": pa.array([7, 300], pa.int32()), "name": ["again", "new"], "more": [1, 2]}))
    cloned.delete("id = 30")
    expected = sorted([*(row["id"] for row in rows if row["id"] != 30), 7, 300])
    assert ids_of(IcebergTable(tmp_path / "clone")) == expected
    if version != "1":
        cloned.delete_by_keys(pa.table({"id": pa.array([60, 300], pa.int32())}))
        assert ids_of(cloned) == [number for number in expected if number not in (60, 300)]
    if version == "3":
        found = [row["_row_id"] for row in _rows(cloned, _LINEAGE)]
        assert len(set(found)) == len(found)


@pytest.mark.parametrize("granularity", ["file", "partition"])
@pytest.mark.parametrize("version", ["1", "2", "3"])
def test_pyiceberg_reads_a_clone(tmp_path: Path, version: str, granularity: str) -> None:
    table = _made(tmp_path / "t", version, keys=False, **{"write.delete.granularity": granularity})
    table.clone(tmp_path / "clone")
    cloned = IcebergTable(tmp_path / "clone")
    assert as_pyiceberg_reads(cloned) == _rows(table)
    deletes = len(cloned.inspect("delete_files"))
    assert deletes == {"1": 0, "2": 4 if granularity == "file" else 2, "3": 4}[version]


def test_the_open_state_is_cloned_or_the_one_of_a_time(tmp_path: Path) -> None:
    table = _made(tmp_path / "t")
    first = table.history()[-1]
    at = dt.datetime.fromtimestamp(first.timestamp_ms / 1000, dt.timezone.utc)
    old = IcebergTable(tmp_path / "t", snapshot_id=first.snapshot_id)
    assert old.clone(tmp_path / "a").state == first.snapshot_id
    assert table.clone(tmp_path / "b", timestamp=at).state == first.snapshot_id
    for name in ("a", "b"):
        cloned = IcebergTable(tmp_path / name)
        assert (cloned.schema.names, ids_of(cloned)) == (["id", "name", "gone"], list(range(100)))
        cloned.append(_of(500, 501))
    empty: IcebergTable = create_table(tmp_path / "empty", {"id": pa.int32()}, format="iceberg")
    assert empty.clone(tmp_path / "c").state is None
    assert ids_of(IcebergTable(tmp_path / "c")) == []


_Alter = Callable[[Any], Any]
#: What a table becomes after its first snapshot, and the partition field and sort term of a clone of that one.
_LATER: dict[str, tuple[_Alter, list[str], list[int]]] = {
    "partitioned": (lambda alter: alter.add("n", pa.string()).partition_by("n"), ["bucket[2]"], [1]),
    "sorted": (lambda alter: alter.add("n", pa.string()).sort_by("n"), ["bucket[2]"], [1]),
    "nested": (
        lambda alter: alter.add("s", pa.struct([("n", pa.string())])).partition_by("s.n").sort_by("s.n"),
        ["bucket[2]"],
        [1],
    ),
    "named as a column": (lambda alter: alter.drop("k").partition_by("bucket(4, id) as k"), ["bucket[2]"], [1]),
    "void": (lambda alter: alter.add("n", pa.string()).partition_by(), [], [1]),
    "id, too": (lambda alter: alter.add("n", pa.string()).partition_by("n", "id").sort_by("id"), ["bucket[2]"], [1]),
}


@pytest.mark.parametrize("version", ["1", "2", "3"])
@pytest.mark.parametrize("later", _LATER)
def test_a_layout_that_is_newer_than_the_columns(tmp_path: Path, version: str, later: str) -> None:
    """The clone is partitioned and sorted by columns that it has, so that it can be written to and read by others."""
    columns = pa.schema([("id", pa.int64()), ("k", pa.string())])
    table: IcebergTable = create_table(
        tmp_path / "t",
        columns,
        format="iceberg",
        partition_by=["bucket(2, id)"],
        sort_by=["id"],
        properties={"format-version": version},
    )
    first = table.append(pa.table({"id": [2, 1], "k": ["a", "b"]})).snapshot_id
    change, transforms, sources = _LATER[later]
    change(table.alter()).commit()
    table.append(pa.table({"id": [3]}))
    IcebergTable(table.location, snapshot_id=first).clone(tmp_path / "clone")
    cloned = IcebergTable(tmp_path / "clone", validate=True)
    made = cloned.metadata
    fields = [one.transform for one in made.specs[made.default_spec_id].fields]
    assert [one for one in fields if one != "void"] == transforms
    assert [number for term in cloned.sort_order.fields for number in term.source_ids] == sources
    assert cloned.schema.names == ["id", "k"]
    assert list(cloned.verify().findings) == []
    cloned.append(pa.table({"id": [5, 4], "k": ["c", "d"]}))
    cloned.delete("id = 2")
    cloned.compact()
    assert ids_of(IcebergTable(tmp_path / "clone", validate=True)) == [1, 4, 5]
    assert sorted(row["id"] for row in as_pyiceberg_reads(cloned)) == [1, 4, 5]
    assert list(cloned.verify().findings) == []


def test_a_transform_that_the_older_type_does_not_take(tmp_path: Path) -> None:
    properties = {"format-version": "3"}
    table: IcebergTable = create_table(tmp_path / "t", {"d": pa.date32()}, format="iceberg", properties=properties)
    first = table.append(pa.table({"d": [dt.date(2024, 1, 1)]})).snapshot_id
    table.alter().widen("d", pa.timestamp("us")).commit()
    table.alter().partition_by("hour(d)").sort_by("hour(d)").commit()
    IcebergTable(table.location, snapshot_id=first).clone(tmp_path / "clone")
    cloned = IcebergTable(tmp_path / "clone")
    cloned.append(pa.table({"d": [dt.date(2024, 1, 2)]}))
    assert (cloned.scan().count(), cloned.sort_order.fields, list(cloned.metadata.specs)) == (2, (), [0])


@pytest.mark.parametrize("version", ["1", "2"])
def test_no_layout_of_the_source_fits(tmp_path: Path, version: str) -> None:
    """Expiries may have removed the older spec: the clone gets one without values, which version 1 spells as void."""
    table: IcebergTable = create_table(
        tmp_path / "t", {"id": pa.int64()}, format="iceberg", properties={"format-version": version}
    )
    table.alter().add("n", pa.string()).partition_by("n").sort_by("n").commit()
    raw = dict(table.metadata.raw)
    for name, key in (("partition-specs", "spec-id"), ("sort-orders", "order-id")):
        raw[name] = [one for one in raw[name] if one[key] != 0]
    made = metadata_of_json(cloned_metadata(metadata_of_json(raw), 0, [], str(tmp_path / "clone"), None))
    spec, order = made.specs[made.default_spec_id], made.sort_orders[made.default_sort_order_id]
    assert [one.transform for one in spec.fields] == (["void"] if version == "1" else [])
    assert (order.order_id, order.fields, list(metadata_violations(made))) == (0, (), [])


def test_a_clone_owns_its_files(tmp_path: Path) -> None:
    """That the source shares its files with another table is not inherited, so that the clone can be cleaned up."""
    table = _made(tmp_path / "t")
    table.alter().set({"gc.enabled": "false"}).commit()
    table.clone(tmp_path / "clone")
    cloned = IcebergTable(tmp_path / "clone")
    assert "gc.enabled" not in cloned.properties
    cloned.append(pa.table({"id": pa.array([300], pa.int32()), "name": ["new"], "more": [1]}))
    assert len(cloned.expire_snapshots("9999-12-31", retain_last=1).snapshot_ids) == 1
    table.clone(tmp_path / "shared", properties={"gc.enabled": False})
    assert IcebergTable(tmp_path / "shared").properties["gc.enabled"] == "false"


def test_a_clone_in_a_catalog(tmp_path: Path) -> None:
    table = _made(tmp_path / "t")
    rows = _rows(table)
    catalog = load_catalog("c", type="sql", uri=f"sqlite:///{tmp_path}/c.db", warehouse=str(tmp_path / "warehouse"))
    catalog.create_namespace("ns")
    result = table.clone("ns.copy", catalog=catalog)
    cloned = catalog.load_table("ns.copy")
    assert (_rows(cloned), cloned.location) == (rows, result.location)
    with pytest.raises(TableExistsError, match="what is new in an Iceberg table cannot be added to its clone"):
        table.clone("ns.copy", catalog=catalog)
    assert cloned.clone(tmp_path / "again").copied_files == result.copied_files
    assert _rows(IcebergTable(tmp_path / "again")) == rows
    with pytest.raises(InvalidArgumentError, match="is a catalog of Iceberg tables"):
        table.clone("ns.other", catalog="c")


def test_what_is_refused(tmp_path: Path) -> None:
    table = _made(tmp_path / "t")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x.parquet").write_bytes(b"x")
    refused: list[tuple[Any, dict[str, Any], type[Exception], str]] = [
        ("clone", {"shallow": True}, UnsupportedFeatureError, "would own the same files"),
        ("clone", {"version": 1}, UnsupportedFeatureError, "applies only to Delta tables"),
        ("clone", {"user_metadata": "x"}, UnsupportedFeatureError, "applies only to Delta tables"),
        ("clone", {"properties": {"format-version": "2"}}, InvalidArgumentError, "the format version is about files"),
        ("clone", {"properties": {"commit.retry.num-retries": "x"}}, InvalidArgumentError, "must be a whole number"),
        ("full", {}, InvalidArgumentError, "there are files in the directory"),
        ("t/inside", {}, InvalidArgumentError, "one of the two directories would be in the other"),
        ("t", {}, InvalidArgumentError, "one of the two directories would be in the other"),
    ]
    for dry_run in (True, False):
        for target, arguments, error, message in refused:
            with pytest.raises(error, match=message):
                table.clone(tmp_path / target, dry_run=dry_run, **arguments)
    assert not (tmp_path / "clone").exists()
    planned = table.clone(tmp_path / "clone", dry_run=True)
    assert (planned.commit, (tmp_path / "clone").exists()) == (None, False)
    result = table.clone(tmp_path / "clone")
    assert (planned.copied_files, planned.copied_bytes) == (result.copied_files, result.copied_bytes)
    for dry_run in (True, False):
        with pytest.raises(TableExistsError, match="there is a clone of the table already") as raised:
            table.clone(tmp_path / "clone", replace=True, dry_run=dry_run)
        assert (raised.value.context["table"], raised.value.context["source"]) == (result.location, table.location)
    assert "deltaberg copy-plan" in call("clone", table.location, result.location, "--yes").stderr
    create_table(tmp_path / "other", table.schema, format="iceberg")
    with pytest.raises(TableExistsError, match="the clone of an Iceberg table is a new one"):
        table.clone(tmp_path / "other")


def test_lost_and_damaged_files(tmp_path: Path) -> None:
    table: IcebergTable = create_table(tmp_path / "t", rows_of(1).schema, format="iceberg")
    table.append(rows_of(1))
    (path,) = [Path(file) for file in table.inspect("files")["file_path"].to_pylist()]
    data = path.read_bytes()
    path.write_bytes(data + b"x")
    with pytest.raises(CorruptTableError, match="and the table says"):
        table.clone(tmp_path / "a")
    path.unlink()
    for dry_run in (True, False):
        with pytest.raises(DataFileNotFoundError, match=r"do not exist any more|is gone"):
            table.clone(tmp_path / "a", dry_run=dry_run)
    path.write_bytes(data)
    table.clone(tmp_path / "a")
    assert ids_of(IcebergTable(tmp_path / "a")) == [1]


def test_a_clone_says_where_its_source_is_and_takes_no_keys_along(tmp_path: Path) -> None:
    """Old writers recorded the keys of a store in the location. Later snapshots are no clones, whatever they say."""
    table: Any = create_table(tmp_path / "t", rows_of(1).schema, format="iceberg")
    table.append(rows_of(1))
    said = table.append(rows_of(2, 3))
    path = Path(table.metadata_location)
    metadata = json.loads(path.read_bytes())
    metadata["location"] = "s3a://KEY:SECRET@bucket/t"
    metadata["snapshots"][-1]["summary"]["deltaberg.cloned-from"] = "elsewhere"
    path.write_text(json.dumps(metadata))
    found_commit = deltaberg.find_commit(tmp_path / "t", said.token)
    assert found_commit is not None
    assert found_commit.inserted_rows == 2
    commit = IcebergTable(tmp_path / "t").clone(tmp_path / "clone").commit
    snapshot = IcebergTable(tmp_path / "clone").snapshot
    assert snapshot is not None
    assert snapshot.summary["deltaberg.cloned-from"] == str(tmp_path / "t")
    files = [file for file in (tmp_path / "clone").rglob("*") if file.is_file()]
    assert files
    assert not any(b"SECRET" in file.read_bytes() for file in files)
    assert commit is not None
    found_commit = deltaberg.find_commit(tmp_path / "clone", commit.token)
    assert found_commit is not None
    assert found_commit.inserted_rows is None


class _KilledError(BaseException):
    """Stands for the end of the process."""


def test_a_clone_that_is_killed_and_run_again_copies_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = _made(tmp_path / "t")
    rows, put = _rows(table), LocalStorage.put
    copied = note_copies(monkeypatch)

    def killed(self: LocalStorage, path: str, *arguments: Any, **named: Any) -> Any:
        if path.endswith(".metadata.json"):
            raise _KilledError
        return put(self, path, *arguments, **named)

    with monkeypatch.context() as patched:
        patched.setattr(LocalStorage, "put", killed)
        with pytest.raises(_KilledError):
            table.clone(tmp_path / "clone")
    count = len(copied)
    assert count > 3
    result = table.clone(tmp_path / "clone")
    assert (len(copied), result.copied_files, result.found_files) == (count, 0, count)
    assert _rows(IcebergTable(tmp_path / "clone")) == rows


def test_copies_that_a_clean_up_may_take_are_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _made(tmp_path / "t")
    result = table.clone(tmp_path / "first")
    shutil.copytree(tmp_path / "first" / "data", tmp_path / "clone" / "data")
    monkeypatch.setattr(copies, "_RELIED_UPON", -3_600_000)
    assert table.clone(tmp_path / "clone").copied_files == result.copied_files
    assert _rows(IcebergTable(tmp_path / "clone")) == _rows(table)


def test_buckets_and_directories(tmp_path: Path) -> None:
    table = _made(tmp_path / "t")
    rows = _rows(table)
    with moto_s3.apart() as endpoint:
        bucket, options = moto_s3.make_bucket(endpoint), moto_s3.options(endpoint)
        table.clone(f"s3://{bucket}/a", storage_options=options)
        remote = deltaberg.open_table(f"s3://{bucket}/a", storage_options=options)
        assert _rows(remote) == rows
        remote.clone(f"s3://{bucket}/b")
        remote.clone(tmp_path / "back", storage_options={})
        assert _rows(deltaberg.open_table(f"s3://{bucket}/b", storage_options=options)) == rows
    assert _rows(IcebergTable(tmp_path / "back")) == rows
