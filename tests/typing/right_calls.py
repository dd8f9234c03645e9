"""Calls of all public verbs as users write them, with public imports alone. They are checked, and never run.

mypy checks them as part of the lint, and pyright by `test_user_code.py`: neither may find anything.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import Any

import deltalake
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from pyiceberg.expressions import BooleanExpression
from pyspark.sql import DataFrame, SparkSession
from typing_extensions import assert_type

import deltaberg
import deltaberg.spark
from deltaberg import (
    CheckpointLayout,
    CleanupProgress,
    CleanupResult,
    Column,
    CommitPolicy,
    CommitResult,
    CompactedGroup,
    CompactResult,
    Decimal,
    DeltaTable,
    DropFeatureResult,
    Explanation,
    Field,
    Fixed,
    IcebergTable,
    List,
    MaintainedStep,
    MaintenancePolicy,
    MaintenanceProgress,
    MaintenanceResult,
    ManifestRewriteResult,
    Map,
    MergeBuilder,
    ParquetOptions,
    PartitionStatsResult,
    Primitive,
    PruneStep,
    RepairResult,
    RewriteDeletesResult,
    RewriteTablePathResult,
    Scan,
    ScanMetrics,
    ScanOptions,
    ScanProgress,
    Struct,
    TableStatsResult,
    VerifyResult,
    WriteProgress,
    WriteRoad,
    col,
    convert_to_delta,
    convert_to_iceberg,
    create_table,
    drop_table,
    find_commit,
    load_catalog,
    open_table,
    write_table,
)
from deltaberg.catalogs import Catalog, SeveralTables
from deltaberg.choices import Format, IfExists, Mode, Operator, SchemaMode, Strategy
from deltaberg.delta import (
    Alteration,
    CheckpointInfo,
    Commit,
    DeltaTransaction,
    IdentityColumn,
    LogCleanup,
    Metadata,
    Protocol,
    SymlinkManifests,
    Transaction,
)
from deltaberg.errors import CommitConflictError, DeltabergError
from deltaberg.iceberg import Alteration as IcebergAlteration
from deltaberg.iceberg import (
    IcebergTransaction,
    PartitionField,
    PartitionSpec,
    Schema,
    Snapshot,
    SnapshotRef,
    SortField,
    SortOrder,
    TableMetadata,
)

_ROWS = pa.table({"id": [1]})


def opening(path: Path, form: Format) -> None:
    assert_type(open_table(path, "delta", version=1), DeltaTable)
    assert_type(open_table("s3://b/t", "iceberg", ref="audit", storage_options={"region": "x"}), IcebergTable)
    assert_type(open_table(path, form), DeltaTable | IcebergTable)
    DeltaTable(path, timestamp="2026-01-01", location_map={"/old": "/new"}, validate=True)
    IcebergTable(str(path), timestamp=dt.datetime(2026, 1, 1), location_map="auto", timezone="UTC")
    assert_type(open_table(path, "delta").refresh(), DeltaTable)
    assert_type(open_table(path, "iceberg").refresh(), IcebergTable)


def making(path: Path, catalog: Catalog, mode: Mode, exists: IfExists) -> None:
    schema = pa.schema([("id", pa.int64())])
    assert_type(create_table(path, schema, if_exists=exists, cluster_by="id"), DeltaTable)
    assert_type(create_table(path, {"id": pa.int64()}, format="iceberg", sort_by=["id desc"]), IcebergTable)
    assert_type(create_table("db.t", schema, catalog=catalog, partition_by=["id"]), IcebergTable)
    assert_type(write_table(path, _ROWS, mode=mode, schema_mode="merge", compression="zstd"), CommitResult)
    write_table(path, [{"id": 1}], format="iceberg", mode="overwrite", predicate=col("id") > 1)
    write_table("db.t", _ROWS, catalog=catalog, mode="append", txn=("app", 1))
    assert_type(convert_to_delta(path, partition_by={"day": pa.date32()}, mode="ignore"), CommitResult)
    assert_type(convert_to_iceberg(path, "copy", partition_by={"day": pa.date32()}, mode="ignore"), CommitResult)
    assert_type(find_commit(path, "token"), CommitResult | None)


def describing_delta(table: DeltaTable) -> None:
    assert_type(table.location, str)
    assert_type(table.version, int)
    assert_type(table.timestamp, dt.datetime)
    assert_type(table.schema, Struct)
    assert_type(table.partition_columns, list[str])
    assert_type(table.protocol, Protocol)
    assert_type(table.metadata, Metadata)
    assert_type(table.properties, dict[str, str])
    assert_type(table.transactions, dict[str, Transaction])
    assert_type(table.history(limit=3), list[Commit])
    assert_type(table.base_checkpoint, CheckpointInfo | None)
    assert_type(table.identity_columns, dict[str, IdentityColumn])
    assert_type(table.checkpoint(CheckpointLayout(spec=2, naming="uuid", format="json")), CheckpointInfo)
    assert_type(table.compact_log(0, 4), str)
    assert_type(table.generate("symlink_format_manifest"), SymlinkManifests)
    assert_type(table.drop_feature("deletionVectors", truncate_history=True), DropFeatureResult)
    assert_type(table.compute_statistics("id > 5", user_metadata="x", timezone="UTC", progress=_told), CommitResult)
    assert_type(table.cleanup_metadata(at="2026-01-01"), LogCleanup)
    assert_type(table.verify(progress=True), VerifyResult)
    for finding in table.verify(depth="footers").findings:
        assert_type(finding.expected, int | str | None)
        assert_type(table.repair([finding], dry_run=True).rows, int | None)
    repaired = table.repair(table.verify(), user_metadata="lost on Monday")
    assert_type(repaired, RepairResult)
    assert_type([(file.path, file.what, file.rows) for file in repaired.files], list[tuple[str, str, int | None]])
    table.protocol.reader_features, table.metadata.format.provider, table.history()[0].info.get("operation")


def describing_iceberg(table: IcebergTable) -> None:
    assert_type(table.verify(depth="footers"), VerifyResult)
    assert_type(table.repair(table.verify(), branch="audit").refs, tuple[str, ...])
    assert_type(table.format_version, int)
    assert_type(table.snapshot, Snapshot | None)
    assert_type(table.snapshot_id, int | None)
    assert_type(table.refs, dict[str, SnapshotRef])
    assert_type(table.spec, PartitionSpec)
    assert_type(table.sort_order, SortOrder)
    assert_type(table.metadata, TableMetadata)
    assert_type(table.metadata.current_schema, Schema)
    assert_type(table.history(2), list[Snapshot])
    for part in table.spec.fields:
        assert_type(part, PartitionField)
    for term in table.sort_order.fields:
        assert_type(term, SortField)
    table.inspect("snapshots").num_rows  # noqa: B018


def columns_of(schema: Struct) -> str | None:
    for field in schema:
        assert_type(field, Field)
        assert_type(field.name, str)
        assert_type(field.nullable, bool)
        if isinstance(field.type, (List, Map)):
            return None
        if isinstance(field.type, Decimal):
            return f"{field.type.precision}, {field.type.scale}"
        if isinstance(field.type, Fixed):
            return str(field.type.length)
        if isinstance(field.type, Primitive):
            return field.type.name
    return schema.names[0]


def scanning(table: DeltaTable | IcebergTable, spark: SparkSession) -> None:
    named = table.scan("id > 1", ["id", ("address", "city")], 10, planning="driver", threads=2, timezone="UTC")
    assert_type(named, Scan)
    scan = table.scan(filter=col("id").is_in([1, 2]), options=ScanOptions(batch_size=10, planning="executors"))
    table.scan(row_filter="id > 1", selected_fields=("id",), threads=2)
    table.scan([("id", "=", 1)], columns=None, limit=None, memory=1 << 20, split_size=0, batch_size=5)
    assert_type(scan.to_batches(), Generator[pa.RecordBatch, None, None])
    scan.to_arrow().num_rows, scan.to_pandas(), scan.to_polars(), scan.to_reader()
    assert_type(scan.count(), int)
    scan.min("id"), scan.max(("address", "city"))
    assert_type(scan.explain(spark), str)
    assert_type(scan.explanation(), Explanation)
    assert_type(scan.explanation().steps, tuple[PruneStep, ...])
    assert_type(scan.metrics, ScanMetrics | None)
    assert_type(scan.options, ScanOptions)
    assert_type(scan.limit, int | None)
    scan.files(statistics=True).num_rows, scan.schema.names
    assert_type(scan.to_spark(spark, road="arrow"), DataFrame)
    assert_type(scan.map_in_arrow(spark, _same, "id long"), DataFrame)


def _same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def feeding(delta: DeltaTable, iceberg: IcebergTable) -> None:
    assert_type(delta.changes(0, "2026-01-01", filter="id = 1", derived=True), Scan)
    assert_type(iceberg.changes(None, compute_updates=True, identifier_columns=["id"]), Scan)
    assert_type(iceberg.appends(1, 2, columns=["id"]), Scan)


def conditions(expression: BooleanExpression) -> None:
    condition = (col("id") >= 1) & ~col("name").is_null() & col("flag") | (col(("a", "b")) == 3)
    col("d").between(1, 2), col("s").like("a%"), col("s").starts_with("a"), col("x").is_nan(), col("p").is_true()
    assert_type(col("id"), Column)
    open_table("t").scan(condition)
    open_table("t").delete(~expression)
    open_table("t").update({"id": "1"}, [("id", "in", [1, 2])])
    open_table("t").scan([[("id", ">=", 1), (("a", "b"), "=", None)], [("s", "NOT IN", ("x",))]])
    either: list[tuple[str, Operator, int]] = [("id", "!=", 1)]
    open_table("t").scan(either), open_table("t").delete([*either, ("id", "<", 7)])
    open_table("t").merge(_ROWS, "target.id = source.id").when_matched_delete(col("source.id") > 3).execute()


def naming(table: DeltaTable, iceberg: IcebergTable, path: Path) -> None:
    index, array, frame = pd.Index(["id"]), np.array(["id"]), pl.Series(["id"])
    table.scan(columns="id"), table.scan(columns=index), iceberg.scan(columns=array), table.scan(columns=frame)
    table.compact(z_order_by=index), iceberg.compact(sort_by=(name for name in ("id", "day")))
    table.upsert(_ROWS, ("id", "day")), iceberg.upsert(_ROWS, {"id"}), iceberg.delete_by_keys(_ROWS, frame)
    create_table(path, {"id": pa.int64()}, partition_by=array, cluster_by=dict.fromkeys(["id"]).keys())
    iceberg.add_files(path), iceberg.add_files(iter([path])), iceberg.changes(None, identifier_columns="id")
    table.vacuum(keep_versions=3), iceberg.expire_snapshots(snapshot_ids=(1, 2)), ParquetOptions(dictionary="id")
    MaintenancePolicy(steps="compact"), MaintenancePolicy(steps=("compact", "vacuum"))


def coming_from_deltalake(table: DeltaTable, iceberg: IcebergTable) -> None:
    said = deltalake.CommitProperties(custom_metadata={"a": "b"}, max_commit_retries=3)
    hooks = deltalake.PostCommitHookProperties()
    written = deltalake.WriterProperties(compression="ZSTD", max_row_group_size=1000)
    table.append(_ROWS, writer_properties=written, commit_properties=said, post_commithook_properties=hooks)
    table.delete("id = 1", commit_properties={"a": "b"})
    iceberg.append(_ROWS, commit_properties=said)
    with table.transaction(commit_properties=said) as transaction:
        transaction.append(_ROWS, writer_properties=written)


def by_column(table: DeltaTable | IcebergTable) -> None:
    """Values that have a name of their own, whose type is that of a dict with keys of one kind."""
    values = {"id": "id + 1"}
    table.update(values, "id > 1")
    table.update(updates=values)
    merge = table.merge(_ROWS, "target.id = source.id").when_matched_update(values, "source.id > 1")
    merge.when_not_matched_insert(values).when_not_matched_by_source_update(updates=values).execute()
    table.transaction().update(values)


def writing(table: DeltaTable, how: SchemaMode, strategy: Strategy) -> None:
    options = ParquetOptions(compression={"": "zstd", "s": "none"}, page_version="2.0", bloom_filters={"id": 0.01})
    assert_type(table.append(_ROWS, schema_mode=how, writer_properties=options, txn=("app", 1)), CommitResult)
    assert_type(table.explain_append(_ROWS), WriteRoad)
    assert_type(table.overwrite(_ROWS, where="id = 1", compression="snappy", strategy=strategy), CommitResult)
    assert_type(table.overwrite(_ROWS, dynamic=True, user_metadata="why"), CommitResult)
    assert_type(table.delete("id = 1", strategy=strategy), CommitResult)
    assert_type(table.update({"id": "id + 1"}, "id > 1", strategy="merge-on-read"), CommitResult)
    assert_type(table.upsert(_ROWS, ["id"], when_matched="update", when_not_matched="ignore"), CommitResult)
    merge = table.merge(_ROWS, "target.id = source.id", schema_mode="merge")
    assert_type(merge, MergeBuilder[CommitResult])
    done = merge.when_matched_update({"id": "source.id"}, "source.id > 1").when_not_matched_insert_all().execute()
    assert_type(done, CommitResult)
    assert_type(table.compact("id > 1", target_file_size=1 << 20, timezone="UTC", max_concurrent=1), CompactResult)
    assert_type(table.compact(z_order_by=["id", ("s", "x")]), CompactResult)
    assert_type(table.reorg(upgrade_iceberg_compat=2, dry_run=True), CompactResult)
    assert_type(table.compact(spec_id=0, rewrite_all=True), CompactResult)
    assert_type(table.reorg("id > 1", group_size=1 << 30, compression="zstd", user_metadata="purge"), CompactResult)
    policy = MaintenancePolicy(steps=["compact", "vacuum"], min_files=10, retention_hours=200)
    assert_type(table.maintain(policy, dry_run=False), MaintenanceResult)


def writing_iceberg(table: IcebergTable, how: SchemaMode, strategy: Strategy) -> None:
    assert_type(table.append(_ROWS, schema_mode=how, branch="audit", properties={"why": "x"}), CommitResult)
    assert_type(table.explain_append(_ROWS), WriteRoad)
    assert_type(table.overwrite(_ROWS, where=col("id") == 1, check=False, strategy=strategy), CommitResult)
    assert_type(table.delete("id = 1", strategy=strategy, branch="audit"), CommitResult)
    assert_type(table.update({"id": "id + 1"}, where=[("id", ">", 1)]), CommitResult)
    assert_type(table.upsert(_ROWS, when_matched="ignore"), CommitResult)
    merge = table.merge(_ROWS, "target.id = source.id", strategy="copy-on-write")
    merge.when_matched_delete().when_not_matched_by_source_delete("target.id > 3").execute()
    assert_type(table.delete_by_keys(_ROWS, ["id"]), CommitResult)
    assert_type(table.add_files(["a.parquet"], check_duplicate_files=False), CommitResult)
    assert_type(table.compact(min_files=3, max_file_size=1 << 30, dry_run=True), CompactResult)
    assert_type(table.compact(sort_by="day(at) desc", hilbert_by=None), CompactResult)
    assert_type(table.convert_equality_deletes("id > 1", branch="audit"), RewriteDeletesResult)
    assert_type(table.rewrite_position_delete_files(min_files=3, dry_run=True), RewriteDeletesResult)
    assert_type(table.maintain()["compact"], MaintainedStep)
    assert_type(table.rewrite_manifests(spec_id=0, dry_run=True, branch="audit"), ManifestRewriteResult)
    assert_type(table.compute_partition_stats(7), PartitionStatsResult | None)
    assert_type(table.compute_table_stats(["id", ("place", "city")], 7), TableStatsResult | None)
    assert_type(table.rewrite_table_path("s3://a/t", "s3://b/t", "v1.metadata.json"), RewriteTablePathResult)
    assert_type(table.publish("w1"), CommitResult)
    assert_type(table.cherrypick_snapshot(1, policy=CommitPolicy(retries=3)), CommitResult)


def results(done: CommitResult, compacted: CompactResult) -> str:
    assert_type(done.version, int)
    assert_type(done.snapshot_id, int | None)
    assert_type(done.committed, bool)
    assert_type(done.added_rows, int | None)
    assert_type(done.warnings, tuple[str, ...])
    assert_type(done.metrics, Mapping[str, int])
    for group in compacted.groups:
        assert_type(group, CompactedGroup)
        assert_type(group.conflict, CommitConflictError | None)
    return f"{done.added_files} {done.removed_bytes} {done.seconds} {done.road} {compacted.added_bytes} {done}"


def _told(progress: WriteProgress) -> None:
    print(progress.rows, progress.files)


def _told_of_scan(progress: ScanProgress) -> None:
    print(progress.rows, progress.tasks_read, progress.tasks)


def _told_of_maintenance(progress: MaintenanceProgress) -> None:
    assert_type(progress.done, WriteProgress | CleanupProgress | None)
    print(progress.step)


def progress(table: DeltaTable | IcebergTable) -> None:
    assert_type(table.to_arrow(progress=True), pa.Table)
    assert_type(table.scan().count(progress=_told_of_scan), int)
    table.maintain(progress=_told_of_maintenance)


def transactions(table: DeltaTable) -> None:
    policy = CommitPolicy(retries=3, sends=2, pause=0.1, longest_pause=1.0, timeout=60)
    with table.transaction(isolation="WriteSerializable", policy=policy, progress=_told) as transaction:
        assert_type(transaction, DeltaTransaction)
        transaction.append(_ROWS, schema_mode="merge")
        transaction.overwrite(_ROWS, where="id = 2")
        transaction.delete("id = 1", strategy="copy-on-write", memory=1 << 20)
        transaction.update({"id": "1"}, memory=1 << 20)
        transaction.merge(_ROWS, "target.id = source.id").when_matched_update_all().execute()
        transaction.upsert(_ROWS, "id")
        transaction.alter().set({"a": "b"})
    assert_type(transaction.result, CommitResult | None)


def iceberg_transactions(table: IcebergTable) -> None:
    with table.transaction(branch="audit", properties={"why": "x"}, progress=_told) as transaction:
        assert_type(transaction, IcebergTransaction)
        transaction.append(_ROWS)
        transaction.delete_by_keys(_ROWS, ["id"], compression="zstd", memory=1 << 20, timezone="UTC")
        transaction.add_files(["a.parquet"])
        transaction.alter().add("x", pa.int64())
    assert_type(transaction.result, CommitResult | None)


def altering(delta: DeltaTable, iceberg: IcebergTable) -> None:
    change = (
        delta.alter(user_metadata="m")
        .add("x", pa.int64(), comment="why", after="id")
        .rename("x", "y")
        .widen("y", pa.int64())
    )
    assert_type(change, Alteration)
    change = change.move("y", first=True).comment("y", None).drop("y").drop_not_null("id").set_default("id", "1")
    change = (
        change.add_constraint("c", "id > 0")
        .drop_constraint("c")
        .set({"a": "b"})
        .unset("a")
        .cluster_by("id")
        .partition_by("id")
    )
    assert_type(change.describe(name="t").drop_feature("deletionVectors").commit(), CommitResult)
    other = iceberg.alter().add("x", pa.int64(), required=False, default=1).undrop("z").identify_by("id")
    assert_type(other, IcebergAlteration)
    other = other.partition_by("day(ts)").sort_by("id desc").create_branch("b", if_exists="replace")
    other = other.create_tag("v1", 3, if_exists="ignore").set_retention("b", min_snapshots_to_keep=2)
    other = other.fast_forward("main", "b").rename_branch("b", "c").drop_branch("c").drop_tag("v1")
    assert_type(other.set_current_snapshot(ref="main").rollback_to_timestamp("2026-01-01").commit(), CommitResult)


def cataloging() -> None:
    catalog = load_catalog("prod", type="sql", uri="sqlite:///x")
    assert_type(catalog, Catalog)
    catalog.create_namespace("db", {"owner": "me"})
    table = catalog.create_table(("db", "t"), pa.schema([("id", pa.int64())]), properties={"format-version": 3})
    assert_type(table, IcebergTable)
    assert_type(catalog.load_table("db.t", ref="main"), IcebergTable)
    assert_type(catalog.table_exists("db.t"), bool)
    assert_type(catalog.list_tables("db"), list[tuple[str, ...]])
    assert_type(catalog.list_namespaces(), list[tuple[str, ...]])
    several = catalog.transaction(policy=CommitPolicy())
    assert_type(several, SeveralTables)
    with several, catalog.create_table_transaction("db.n", table.schema) as staged:
        several.table("db.t", branch="main").append(_ROWS)
        staged.append(_ROWS)
    catalog.rename_table("db.t", "db.u").scan()
    catalog.register_table("db.v", table.metadata_location)
    catalog.update_namespace_properties("db", removals=["owner"], updates={"a": "b"})
    assert_type(catalog.load_namespace_properties("db"), dict[str, str])
    assert_type(catalog.drop_table("db.u", purge=True), CleanupResult | None)
    drop_table("db.v", catalog=catalog, dry_run=True)
    drop_table(Path("t"), purge=True, locations=[Path("d")], storage_options={})
    catalog.drop_namespace("db")


def on_spark(spark: SparkSession, delta: DeltaTable, iceberg: IcebergTable) -> None:
    deltaberg.spark.register(spark)
    stream = deltaberg.spark.read_stream(iceberg, spark, {"changes": True})
    assert_type(stream.map_in_arrow(_same, "id long"), DataFrame)
    assert_type(delta.on_spark(spark), DeltaTable)
    iceberg.on_spark(spark).delete("id = 1")
    words = deltaberg.spark.DeltaTable.forPath(spark, "/data/t")
    words.alias("t").merge(spark.table("s").alias("s"), "t.id = s.id").whenMatchedUpdateAll().execute()
    words.update("id = 1", {"id": "2"})
    words.delete("id = 2")


def failing(path: Path) -> dict[str, Any]:
    try:
        open_table(path)
    except DeltabergError as error:
        return {**error.context, "message": error.message, "hint": error.hint}
    return {}
