"""Clones: tables of their own that are what their source was (Part 4 of the requirements, DL-OPS)."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pytest

import deltaberg
from deltaberg import DeltaTable
from deltaberg.delta.maintain.cloning import clone
from deltaberg.delta.snapshot.recorded_adds import recorded_adds
from deltaberg.errors import (
    DataFileNotFoundError,
    InvalidArgumentError,
    TableExistsError,
    TableNotFoundError,
)
from deltaberg.table.maintain.verifying import presence
from tests.support import moto_s3
from tests.support.clones import ROW_IDS, TRACKED, with_vectors
from tests.support.delta_builder import DeltaBuilder
from tests.support.rows import ID, ids, ids_of
from tests.support.vacuums import DAY, FEED, files, new_table


@pytest.mark.req("DL-OPS-06")
def test_a_shallow_clone_names_the_files_of_its_source_and_is_a_table_of_its_own(tmp_path: Path) -> None:
    root = tmp_path / "a b%20+ü"
    table, stored = with_vectors(root, owner="ada"), files(root)
    result = table.clone(tmp_path / "clone", shallow=True, properties={"team": "x"})
    assert (result.source_files, result.copied_files, files(tmp_path / "clone")) == (2, 0, set())
    cloned = DeltaTable(tmp_path / "clone")
    assert ids_of(cloned) == ids_of(table)
    assert cloned.metadata.id != table.metadata.id
    assert cloned.properties == {**table.properties, "team": "x"}
    assert cloned.schema == table.schema
    live = cloned.live_files.to_pylist()
    for file in live:
        recorded = urlparse(file["path"])
        assert (recorded.scheme, Path(unquote(recorded.path)).is_file()) == ("file", True)
    (vector,) = [file["deletionVector"] for file in live if file["deletionVector"] is not None]
    assert vector["storageType"] == "p"
    assert Path(unquote(urlparse(vector["pathOrInlineDv"]).path)).is_file()
    (commit,) = cloned.history()
    assert commit.info["operation"] == "CLONE"
    assert commit.info["operationParameters"] == {
        "source": f"delta.`file:{root}`",
        "sourceVersion": "3",
        "isShallow": "true",
    }
    sizes = table.live_files.column("size").to_pylist()
    assert {name: int(value) for name, value in commit.info["operationMetrics"].items()} == {
        "sourceTableSize": sum(sizes),
        "sourceNumOfFiles": 2,
        "numRemovedFiles": 0,
        "removedFilesSize": 0,
        "numCopiedFiles": 0,
        "copiedFilesSize": 0,
    }
    cloned.delete("id = -1")
    cloned.delete("id = 2", strategy="merge-on-read")
    cloned.append(ids(-2))
    assert ids_of(DeltaTable(root)) == ids_of(table)
    assert files(root) == stored
    assert cloned.vacuum(0, dry_run=False, enforce_retention_duration=False, untracked_hours=0).failed == {}
    assert files(root) == stored
    assert ids_of(cloned) == sorted([-2, *range(4, 3000, 2), 0])


@pytest.mark.req("DL-OPS-06")
def test_row_ids_of_a_clone_are_its_own(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", **TRACKED)
    for first in (0, 10, 20):
        table.append(ids(*range(first, first + 10)))
    table.delete("id < 5")
    table.compact()
    before = table.scan(columns=ROW_IDS).to_arrow().to_pylist()
    names = [name for name in table.properties if "materialized" in name]
    for shallow in (True, False):
        root = tmp_path / f"clone-{shallow}"
        table.clone(root, shallow=shallow)
        cloned = DeltaTable(root)
        assert len(names) == 2
        assert all(cloned.properties[name] != table.properties[name] for name in names)
        cloned.append(ids(100))
        rows = cloned.scan(columns=ROW_IDS).to_arrow().to_pylist()
        found = [row["_metadata"]["row_id"] for row in rows]
        assert (len(set(found)), cloned.row_id_high_water_mark) == (26, max(found))
        assert {row["_metadata"]["row_commit_version"] for row in rows if row["id"] < 100} == {0}
    assert table.refresh().scan(columns=ROW_IDS).to_arrow().to_pylist() == before


@pytest.mark.req("DL-OPS-06")
def test_what_belongs_to_a_catalog_or_to_the_history_is_dropped_and_clustering_is_kept(tmp_path: Path) -> None:
    table = deltaberg.create_table(
        str(tmp_path / "t"), pa.schema([("id", pa.int64()), ("v", pa.int64())]), cluster_by=["id"]
    )
    dropped = {
        "delta.coordinatedCommits.commitCoordinator-preview": "c",
        "io.unitycatalog.tableId": "1",
        "deltaberg.keepVersions": "0",
        "delta.inCommitTimestampEnablementVersion": "3",
    }
    builder = DeltaBuilder(tmp_path / "t")
    builder.version = 0
    recorded = json.loads(table.metadata.action.to_json())["metaData"]
    builder.commit({"metaData": {**recorded, "configuration": {**dropped, "owner": "ada"}}})
    table.refresh()
    assert dropped.items() <= table.properties.items()
    table.alter().add_constraint("positive", "v > 0").commit()
    table.append(pa.table({"id": [1], "v": [1]}))
    table.clone(tmp_path / "clone", shallow=True)
    cloned = DeltaTable(tmp_path / "clone")
    assert cloned.properties == {"owner": "ada", "delta.constraints.positive": "v > 0"}
    assert cloned.clustering_columns == [("id",)]
    assert cloned.features == table.features


@pytest.mark.req("DL-OPS-06")
def test_the_place_of_a_clone_is_empty_and_apart(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    table.append(ids(1))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x.parquet").write_bytes(b"x")
    for shallow in (True, False):
        with pytest.raises(InvalidArgumentError, match="there are files in the directory of the clone"):
            table.clone(tmp_path / "full", shallow=shallow)
    (tmp_path / "link").symlink_to(tmp_path / "t")
    for place in (tmp_path, tmp_path / "t", tmp_path / "t" / "inside", tmp_path / "link" / "inside"):
        with pytest.raises(InvalidArgumentError, match="one of the two directories would be in the other"):
            table.clone(place)
    with pytest.raises(InvalidArgumentError, match="readers do not look for in another store"):
        table.clone("memory://clones/elsewhere", shallow=True)
    table.clone(tmp_path / "clone", shallow=True)
    with pytest.raises(TableExistsError, match="there is a table already"):
        table.clone(tmp_path / "clone", shallow=True)
    table.append(ids(2))
    table.clone(tmp_path / "clone", shallow=True, replace=True)
    assert ids_of(DeltaTable(tmp_path / "clone")) == [1, 2]
    assert ids_of(DeltaTable(tmp_path / "clone", version=0)) == [1]
    # The clone of a clone where its source is would own the files.
    with pytest.raises(InvalidArgumentError, match="which would delete it as its own"):
        DeltaTable(tmp_path / "clone").clone(tmp_path / "t", shallow=True, replace=True)


@pytest.mark.req("DL-OPS-02")
@pytest.mark.parametrize("days", [8, 7 - 0.5 / 24])
def test_a_shallow_clone_names_no_file_that_a_vacuum_may_take(builder: DeltaBuilder, days: float) -> None:
    old, new = (builder.add(ids(number), path=f"{number}.parquet") for number in (1, 2))
    builder.create(ID, old, new)
    builder.commit(builder.remove(old, deletionTimestamp=int((time.time() - days * DAY) * 1000)))
    table, place = DeltaTable(builder.root), builder.root.parent / "clone"
    with pytest.raises(InvalidArgumentError, match=r"a vacuum may be deleting them: '1\.parquet'"):
        table.clone(place, shallow=True, version=0)
    assert not place.exists()
    assert table.clone(place, version=0).copied_files == 2
    assert ids_of(DeltaTable(place)) == [1, 2]


@pytest.mark.req("DL-OPS-06")
def test_files_are_looked_for_before_a_shallow_clone_is_put(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = new_table(tmp_path / "t")
    table.append(ids(1))
    (lost,) = files(tmp_path / "t")
    planned = recorded_adds

    def lose(*arguments: Any) -> Any:
        (tmp_path / "t" / lost).unlink()
        return planned(*arguments)

    monkeypatch.setattr(clone, "recorded_adds", lose)
    with pytest.raises(DataFileNotFoundError, match="1 files that the table names do not exist any more"):
        table.clone(tmp_path / "clone", shallow=True)
    assert not (tmp_path / "clone" / "_delta_log").exists()


def test_a_dry_run_says_what_would_be_copied(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    table.append(ids(1))
    table.append(ids(2))
    result = table.clone(tmp_path / "clone", dry_run=True)
    sizes = sum(table.live_files.column("size").to_pylist())
    assert (result.copied_files, result.copied_bytes, result.commit) == (2, sizes, None)
    assert not (tmp_path / "clone").exists()
    assert repr(result) == f"CloneResult(dry run: state 2 to {tmp_path / 'clone'}, 2 files, 2 copied ({sizes} bytes))"


def test_a_dry_run_is_refused_where_the_clone_would_be(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    table.append(ids(1))
    with pytest.raises(InvalidArgumentError, match=r"delta\.columnMapping\.mode is about files"):
        table.clone(tmp_path / "clone", properties={"delta.columnMapping.mode": "name"}, dry_run=True)
    (lost,) = files(tmp_path / "t")
    (tmp_path / "t" / lost).unlink()
    for shallow in (True, False):
        with pytest.raises(DataFileNotFoundError, match="1 files that the table names do not exist any more"):
            table.clone(tmp_path / "clone", shallow=shallow, dry_run=True)
    assert not (tmp_path / "clone").exists()


@pytest.mark.req("DL-OPS-06")
@pytest.mark.parametrize("outer", ["delta", "iceberg"])
@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_no_clone_is_made_inside_of_another_table(tmp_path: Path, format: Any, outer: Any) -> None:
    """The clean-up of the outer table would delete its files, also if a link leads there."""
    around: Any = deltaberg.create_table(tmp_path / "outer", ID, format=outer)
    table: Any = deltaberg.create_table(tmp_path / "t", ID, format=format)
    table.append(ids(1))
    (tmp_path / "link").symlink_to(tmp_path / "outer")
    named = "a Delta table" if outer == "delta" else "an Iceberg table"
    for inside in ("outer/x", "outer/a/b", "link/x"):
        with pytest.raises(InvalidArgumentError, match=f"the directory would be in {named}") as raised:
            table.clone(tmp_path / inside, dry_run=inside == "outer/x")
        assert f"table: {around.location}," in str(raised.value)
        if format == "iceberg":
            with pytest.raises(InvalidArgumentError, match=f"the directory would be in {named}"):
                table.rewrite_table_path(table.location, tmp_path / inside)
    assert not (tmp_path / "outer" / "x").exists()


def test_buckets_of_one_name_are_apart_where_their_servers_are() -> None:
    with moto_s3.apart() as here, moto_s3.apart() as there:
        bucket = moto_s3.make_bucket(there, moto_s3.make_bucket(here))
        root = f"s3://{bucket}/t"
        table: DeltaTable = deltaberg.create_table(root, ID, storage_options=moto_s3.options(here))
        table.append(ids(1))
        with pytest.raises(InvalidArgumentError, match="one of the two directories would be in the other"):
            table.clone(f"{root}/inside", storage_options={**moto_s3.options(here), "AWS_ENDPOINT_URL": f"{here}/"})
        with pytest.raises(InvalidArgumentError, match="readers do not look for in another store"):
            table.clone(f"s3://{bucket}/shallow", shallow=True, storage_options=moto_s3.options(there))
        assert table.clone(f"{root}/inside", storage_options=moto_s3.options(there)).copied_files == 1
        assert ids_of(DeltaTable(f"{root}/inside", storage_options=moto_s3.options(there))) == [1]
        with pytest.raises(TableNotFoundError, match="the store has nothing at this location"):
            DeltaTable(f"{root}/inside", storage_options=moto_s3.options(here))


def test_the_state_that_is_open_is_cloned_or_the_one_that_is_named(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", **{"delta.enableInCommitTimestamps": "true"})
    for number in (1, 2):
        table.append(ids(number))
    then = table.history()[1].timestamp
    states: list[dict[str, Any]] = [{}, {"version": 1}, {"timestamp": then}]
    found = [table.clone(tmp_path / f"{number}", **state).state for number, state in enumerate(states)]
    assert found == [2, 1, 1]
    assert DeltaTable(tmp_path / "t", version=1).clone(tmp_path / "old").state == 1
    assert ids_of(DeltaTable(tmp_path / "old")) == [1]
    with pytest.raises(InvalidArgumentError, match="cannot be combined"):
        table.clone(tmp_path / "none", version=1, timestamp=then)


def test_properties_that_files_would_have_to_follow_are_refused(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    table.append(ids(1))
    with pytest.raises(InvalidArgumentError, match=r"delta\.columnMapping\.mode is about files"):
        table.clone(tmp_path / "clone", properties={"delta.columnMapping.mode": "name"})
    table.clone(tmp_path / "clone", properties={**TRACKED, **FEED})
    cloned = DeltaTable(tmp_path / "clone")
    assert cloned.scan(columns=ROW_IDS).to_arrow().to_pylist() == [
        {"id": 1, "_metadata": {"row_id": 0, "row_commit_version": 0}}
    ]
    mapped = new_table(tmp_path / "mapped", **{"delta.columnMapping.mode": "name"})
    with pytest.raises(InvalidArgumentError, match="the column mapping of the table that is there"):
        mapped.clone(tmp_path / "clone", replace=True)


def test_many_files_are_looked_for_in_a_listing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presence, "_ASKED_AT_MOST", 1)
    table = new_table(tmp_path / "t")
    for number in range(3):
        table.append(ids(number))
    for shallow in (True, False):
        place = tmp_path / f"clone-{shallow}"
        table.clone(place, shallow=shallow)
        assert ids_of(DeltaTable(place)) == [0, 1, 2]
