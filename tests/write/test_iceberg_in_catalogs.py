"""Iceberg tables of a SQL catalog, written in turns with pyiceberg."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import TruncateTransform
from pyiceberg.types import LongType, NestedField, StringType

from deltaberg import create_table, load_catalog, write_table
from deltaberg.errors import (
    CommitConflictError,
    InvalidArgumentError,
    SchemaError,
    TableExistsError,
    TableNotFoundError,
)
from tests.support.rows import ids, ids_of

pytestmark = pytest.mark.one_backend


def test_tables_of_a_catalog_are_written_by_both(tmp_path: Path) -> None:
    uri, warehouse = f"sqlite:///{tmp_path}/c.db", f"file://{tmp_path}/w"
    catalog = load_catalog("shop", type="sql", uri=uri, warehouse=warehouse)
    theirs = SqlCatalog("shop", uri=uri, warehouse=warehouse)
    theirs.create_namespace("sales")
    made = write_table("sales.orders", ids(1, 2), catalog=catalog)
    assert (made.committed, made.added_rows) == (True, 2)
    with pytest.raises(TableExistsError, match="there is a table already"):
        write_table("sales.orders", ids(3), catalog=catalog)
    write_table(("sales", "orders"), ids(3), catalog=catalog, mode="append")
    table = catalog.load_table("sales.orders")
    table.alter().partition_by("bucket(4, id)").commit()
    table.append(ids(4))
    peer = theirs.load_table("sales.orders")
    assert sorted(peer.scan().to_arrow()["id"].to_pylist()) == [1, 2, 3, 4]
    peer.append(ids(5).cast(peer.schema().as_arrow()))
    table.append(ids(6))
    peer.refresh()
    peer.delete("id = 1")
    assert ids_of(table.refresh()) == [2, 3, 4, 5, 6]
    assert table.overwrite(ids(7)).removed_files >= 5
    assert theirs.load_table("sales.orders").scan().to_arrow()["id"].to_pylist() == [7]
    new = create_table("sales.empty", {"id": pa.int64()}, catalog=catalog, properties={"format-version": "1"})
    assert (new.format_version, theirs.load_table("sales.empty").format_version) == (1, 1)
    assert create_table("sales.empty", {"x": pa.int64()}, catalog=catalog, if_exists="ignore").schema.names == ["id"]
    with pytest.raises(InvalidArgumentError, match="catalog of Iceberg tables"):
        create_table("sales.delta", {"id": pa.int64()}, catalog=catalog, format="delta")  # type: ignore[call-overload]


def test_staged_tables_come_with_their_rows(tmp_path: Path) -> None:
    uri, warehouse = f"sqlite:///{tmp_path}/c.db", f"file://{tmp_path}/w"
    catalog = load_catalog("shop", type="sql", uri=uri, warehouse=warehouse)
    catalog.create_namespace("s")
    schema = Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "name", StringType()))
    spec = PartitionSpec(PartitionField(2, 1000, TruncateTransform(2), "start"))
    rows = pa.table({"id": [1, 2], "name": ["abc", "xyz"]})
    with catalog.create_table_transaction("s.t", schema, partition_spec=spec) as transaction:
        transaction.append(rows)
        transaction.alter().add("n", pa.int64())
        transaction.append(pa.table({"id": [3], "name": ["q"], "n": [4]}))
        assert not catalog.table_exists("s.t")
    peer = SqlCatalog("shop", uri=uri, warehouse=warehouse).load_table("s.t")
    assert len(peer.snapshots()) == 1
    assert sorted(peer.scan().to_arrow()["id"].to_pylist()) == [1, 2, 3]
    assert [field.name for field in peer.spec().fields] == ["start"]
    with (
        pytest.raises(TableExistsError, match="there is a table already"),
        catalog.create_table_transaction("s.t", schema) as transaction,
    ):
        transaction.append(rows)

    def fail() -> None:
        with catalog.create_table_transaction("s.u", schema) as failing:
            failing.append(rows)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert not catalog.table_exists("s.u")
    # Of tables that never came into being, no file stays.
    written = list((tmp_path / "w").rglob("*.parquet"))
    assert len(written) == peer.inspect.files().num_rows
    with catalog.create_table_transaction("s.empty", rows.schema):
        pass
    assert catalog.load_table("s.empty").scan().count() == 0


def test_partitions_of_a_table_of_pyiceberg_are_replaced(tmp_path: Path) -> None:
    uri, warehouse = f"sqlite:///{tmp_path}/c.db", f"file://{tmp_path}/w"
    theirs = SqlCatalog("shop", uri=uri, warehouse=warehouse)
    theirs.create_namespace("s")
    schema = Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "name", StringType()))
    spec = PartitionSpec(PartitionField(2, 1000, TruncateTransform(2), "start"))
    peer = theirs.create_table("s.t", schema, partition_spec=spec)
    columns = pa.schema([pa.field("id", pa.int64(), nullable=False), ("name", pa.string())])
    peer.append(pa.table({"id": [1, 2], "name": ["abc", "xyz"]}, columns))
    table = load_catalog("shop", type="sql", uri=uri, warehouse=warehouse).load_table("s.t")
    table.append(pa.table({"id": [3, 4], "name": ["abd", None]}))
    done = table.overwrite(pa.table({"id": [5], "name": ["xyy"]}), dynamic=True)
    assert (done.added_files, done.removed_files) == (1, 1)
    read = theirs.load_table("s.t")
    assert sorted(read.scan().to_arrow()["id"].to_pylist()) == [1, 3, 4, 5]
    # Bounds and partition values lead pyiceberg to the one file that can match.
    tasks = list(read.scan("name = 'abd'").plan_files())
    assert len(tasks) == 1
    assert tasks[0].file.record_count == 1
    manifests = read.inspect.manifests().to_pylist()
    assert sum(row["existing_data_files_count"] + row["added_data_files_count"] for row in manifests) == 4


def test_arguments_that_are_not_valid(tmp_path: Path) -> None:
    """They raise our exceptions, and a table is as it was."""
    catalog: Any = load_catalog("shop", type="sql", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"{tmp_path}/w")
    catalog.create_namespace("s")
    schema = pa.schema({"id": pa.int64()})
    twice = pa.schema([("a", pa.struct([("b", pa.int32()), ("b", pa.int32())]))])
    with pytest.raises(SchemaError, match="are called 'b'"):
        catalog.create_table("s.t", twice)
    for properties in (["x"], 5):
        with pytest.raises(InvalidArgumentError, match="properties is not a mapping"):
            catalog.create_table("s.t", schema, properties=properties)
    with pytest.raises(InvalidArgumentError, match="location must be text"):
        catalog.create_table("s.t", schema, location=5)
    table = catalog.create_table("s.t", schema, properties={"format-version": 3, "number": 4, "flag": True})
    assert table.properties == {"number": "4", "flag": "true"}
    table.append(ids(1))
    with pytest.raises(InvalidArgumentError, match="properties is not a mapping"):
        table.append(ids(2), properties=["x"])
    with pytest.raises(InvalidArgumentError, match="the property 'load' is 7, which is not text"):
        table.append(ids(2), properties={"load": 7})
    for words in ({"dynamic": "no"}, {"check": "yes"}):
        with pytest.raises(InvalidArgumentError, match=f"{next(iter(words))} must be True or False"):
            table.overwrite(ids(2), **words)
    table.alter().create_tag("v").set({"number": 5}).commit()
    with pytest.raises(InvalidArgumentError, match="'v' is a tag, whose snapshot no commit changes"):
        table.append(ids(2), branch="v")
    with pytest.raises(InvalidArgumentError, match="properties is not a mapping"):
        create_table("s.t", schema, catalog=catalog, properties=["x"], if_exists="replace")  # type: ignore[call-overload]
    assert (ids_of(table.refresh()), table.properties["number"]) == ([1], "5")


def test_summaries_count_the_files_of_each_partition(tmp_path: Path) -> None:
    """As pyiceberg does, if no more partitions have changed than the property says."""
    uri, warehouse = f"sqlite:///{tmp_path}/c.db", f"file://{tmp_path}/w"
    theirs = SqlCatalog("shop", uri=uri, warehouse=warehouse)
    theirs.create_namespace("s")
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "name", StringType()))
    spec = PartitionSpec(PartitionField(2, 1000, TruncateTransform(3), "start"))
    catalog = load_catalog("shop", type="sql", uri=uri, warehouse=warehouse)
    rows = pa.table({"id": [1, 2, 3], "name": ["a/b1", "a/b2", None]})
    summaries = []
    for name in ("ours", "theirs"):
        made = theirs.create_table(f"s.{name}", schema, partition_spec=spec)
        made.transaction().set_properties({"write.summary.partition-limit": "2"}).commit_transaction()
        writer: Any = made if name == "theirs" else catalog.load_table("s.ours")
        writer.append(rows)
        writer.delete("id = 3")
        writer.append(pa.table({"id": [4, 5, 6], "name": ["x", "y", "z"]}))
        found = sorted(theirs.load_table(f"s.{name}").snapshots(), key=lambda one: one.sequence_number or 0)
        summaries.append([_of_partitions(one.summary) for one in found])
    ours, other = summaries
    assert ours == other
    assert ours[0]["partitions.start=a%2Fb"] == ["added-data-files=1", "added-records=2"]
    assert set(ours[1]) == {"partitions.start=null"}
    assert ours[2] == {}
    table = catalog.load_table("s.ours")
    assert [one.summary.get("partition-summaries-included") for one in _in_order(table)] == ["true", "true", None]
    with pytest.raises(
        InvalidArgumentError, match=r"write\.summary\.partition-limit must be a whole number of at least 0, not 'few'"
    ):
        table.alter().set({"write.summary.partition-limit": "few"})
    assert table.scan().count() == 5


def _of_partitions(summary: Any) -> dict[str, list[str]]:
    """Return what a summary says of partitions, without the bytes of files, which writers encode differently."""
    found = {name: text for name, text in summary.additional_properties.items() if name.startswith("partitions.")}
    return {name: sorted(one for one in text.split(",") if "size" not in one) for name, text in found.items()}


def _in_order(table: Any) -> list[Any]:
    return sorted(table.metadata.snapshots.values(), key=lambda one: one.sequence_number)


def test_alterations_that_are_not_valid(tmp_path: Path) -> None:
    """What others could not read is not recorded."""
    table: Any = create_table(tmp_path / "t", {"id": pa.int64(), "s": pa.string()}, format="iceberg")
    changes: list[tuple[Callable[[Any], object], str]] = [
        (lambda alteration: alteration.comment("id", 5), "comment must be text"),
        (lambda alteration: alteration.add("n", "int"), "the type of the column 'n' is 'int'"),
        (lambda alteration: alteration.add("n", pa.int32(), comment=5), "comment must be text"),
        (lambda alteration: alteration.widen("id", 5), "the type of the column 'id' is 5"),
        (lambda alteration: alteration.rename("id", 5), "the name of a column must be text"),
        (lambda alteration: alteration.rename("id", ""), "the name of a column must be text"),
    ]
    for change, message in changes:
        with pytest.raises(InvalidArgumentError, match=message):
            change(table.alter())
    assert table.refresh().schema.names == ["id", "s"]


@pytest.mark.parametrize("name", ["write.data.path", "write.folder-storage.path", "write.object-storage.path"])
def test_relative_paths_of_data_are_refused(tmp_path: Path, name: str) -> None:
    """Paths in manifests are recorded as they are, and relative ones lead every reader elsewhere."""
    properties = {"write.object-storage.enabled": "true"}
    table = create_table(tmp_path / "t", {"id": pa.int64()}, format="iceberg", properties=properties)
    with pytest.raises(InvalidArgumentError, match=f"the property {name} is 'relative/x'"):
        table.alter().set({name: "relative/x"})
    table.alter().set({name: str(tmp_path / "data")}).commit()
    table.append(ids(1))
    (file,) = table.scan().files().to_pylist()
    assert file["file_path"].startswith(str(tmp_path / "data"))


def test_relative_paths_of_metadata_are_refused(tmp_path: Path) -> None:
    catalog: Any = load_catalog("shop", type="sql", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"{tmp_path}/w")
    catalog.create_namespace("s")
    with pytest.raises(InvalidArgumentError, match=r"the property write\.metadata\.path is 'meta'"):
        catalog.create_table("s.t", {"id": pa.int64()}, properties={"write.metadata.path": "meta"})
    assert catalog.list_tables("s") == []


def test_files_to_add_are_named(tmp_path: Path) -> None:
    table: Any = create_table(tmp_path / "t", {"id": pa.int64()}, format="iceberg")
    pq.write_table(ids(1), tmp_path / "a.parquet")
    assert table.add_files(str(tmp_path / "a.parquet")).added_rows == 1
    with pytest.raises(InvalidArgumentError, match=r"there are no files to add: .*none\.parquet"):
        table.add_files([str(tmp_path / "none.parquet")])
    with pytest.raises(InvalidArgumentError, match="a value of type int is not a location"):
        table.add_files(5)


def test_a_table_that_is_another_one_meanwhile_gets_no_rows(tmp_path: Path) -> None:
    catalog = load_catalog("shop", type="sql", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/w")
    catalog.create_namespace("sales")
    schema = pa.schema([("id", pa.int64())])
    catalog.create_table("sales.orders", schema)
    waiting = catalog.load_table("sales.orders").transaction()
    waiting.append(ids(1))
    catalog.drop_table("sales.orders")
    other = catalog.create_table("sales.orders", schema, location=f"file://{tmp_path}/other")
    with pytest.raises(CommitConflictError, match="this is another table"):
        waiting.commit()
    assert other.refresh().scan().count() == 0
    waiting = other.transaction()
    waiting.append(ids(1))
    catalog.rename_table("sales.orders", "sales.renamed")
    with pytest.raises(TableNotFoundError, match="does not exist any more under its name"):
        waiting.commit()
    assert catalog.load_table("sales.renamed").scan().count() == 0
