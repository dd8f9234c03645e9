"""Calls with texts and arguments that are wrong, each on a line that both type checkers must refuse. They never run.

A comment switches off the error that a line must have; mypy and pyright report comments that switch off nothing. So
each line fails, with the error that it names, as long as neither finds anything here.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import SparkSession

from deltaberg import (
    CheckpointLayout,
    CommitPolicy,
    DeltaTable,
    IcebergTable,
    MaintenancePolicy,
    ParquetOptions,
    ScanOptions,
    convert_to_delta,
    convert_to_iceberg,
    create_table,
    open_table,
    write_table,
)
from deltaberg.catalogs import Catalog

_ROWS = pa.table({"id": [1]})
_SCHEMA = {"id": pa.int64()}


def opening() -> None:
    open_table("t", format="Iceberg")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    open_table("t", "delta", ref="main")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    open_table("t", "iceberg", version=1)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    DeltaTable("t", version="1")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    IcebergTable("t", branch="main")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def making() -> None:
    write_table("t", _ROWS, mode="apend")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    write_table("t", _ROWS, mode="append", schema_mode="mrge")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    create_table("t", _SCHEMA, if_exists="replce")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    create_table("t", _SCHEMA, format="Delta")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    convert_to_delta("t", mode="overwrite")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    convert_to_delta("t", partition_strategy="hiv")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    convert_to_iceberg("t", mode="overwrite")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def choosing() -> None:
    ParquetOptions(compression="ztsd")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    ParquetOptions(page_version="3.0")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    CheckpointLayout(naming="v2")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    CheckpointLayout(spec=3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    CheckpointLayout(spec=2, naming="uuid", format="avro")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    CommitPolicy(retries="3")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    CommitPolicy(wait=print)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    ScanOptions(planning="drivers")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def scanning(delta: DeltaTable, iceberg: IcebergTable, spark: SparkSession) -> None:
    delta.scan(planning="drivers")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    iceberg.scan(threads="2")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    delta.scan(thread=2)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    delta.scan(columns=[1])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
    iceberg.scan().to_spark(spark, road="fast")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    delta.verify(depth="footer")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    delta.repair(dry_run="no")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    delta.scan().plan  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]  # noqa: B018
    iceberg.inspect("file")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    iceberg.changes(None, derived=True)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def filtering(delta: DeltaTable, iceberg: IcebergTable) -> None:
    delta.scan(filter=3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    iceberg.scan(True)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    iceberg.delete(5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    delta.update({"id": "1"}, where=1.5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    delta.overwrite(_ROWS, where=False)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    iceberg.compact(where=7)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    delta.transaction().delete(5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    delta.merge(_ROWS, on=3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    delta.merge(_ROWS, on=True)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    iceberg.merge(_ROWS, "s.id = t.id").when_matched_delete(False)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    delta.scan([("id", "~", 1)])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
    iceberg.delete([[("id", "is", 1)]])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
    delta.scan([("id", "=")])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
    iceberg.merge(_ROWS, "s.id = t.id").when_matched_delete(1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def altering(iceberg: IcebergTable, catalog: Catalog) -> None:
    iceberg.alter().create_branch("b", if_exists="overwrite")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    iceberg.alter().create_tag("v", if_exists="skip")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    catalog.load_table("db.t", version=1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    catalog.transaction(policy=3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def changing(delta: DeltaTable, iceberg: IcebergTable) -> None:
    write_table("t", _ROWS, format="Iceberg")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    write_table("t", _ROWS, compression="ztsd")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    delta.delete("id = 1", strategy="copyonwrite")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    iceberg.update({"id": "1"}, strategy="copyonwrite")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    delta.append(_ROWS, schema_mode="mrge")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    iceberg.append(_ROWS, compression="ztsd")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    iceberg.overwrite(_ROWS, schema_mode="mrge")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    delta.upsert(_ROWS, ["id"], when_matched="updte")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    iceberg.upsert(_ROWS, ["id"], when_not_matched="insrt")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    delta.merge(_ROWS, "target.id = source.id", strategy="copyonwrite")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    iceberg.compact(compression="ztsd")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    delta.reorg(upgrade_iceberg_compat=3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    delta.reorg(compression="ztsd")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    MaintenancePolicy(steps=["compcat"])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
    delta.compact(z_order_by=3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    delta.explain_append(_ROWS, compresion="zstd")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    delta.append(_ROWS, writer_properties={"compression": "zstd"})  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    iceberg.append(_ROWS, writer_properties="zstd")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    delta.delete("id = 1", commit_properties="nightly")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    delta.append(_ROWS, post_commithook_properties=True)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    delta.delete("id = 1", isolation="SERIALIZABLE")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    delta.upsert(_ROWS, keys=7)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    iceberg.delete_by_keys(_ROWS, columns=[3])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
    delta.transaction(isolation="serialisable")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    delta.transaction().delete("id = 1", strategy="copyonwrite")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    iceberg.transaction().append(_ROWS, schema_mode="mrge")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
