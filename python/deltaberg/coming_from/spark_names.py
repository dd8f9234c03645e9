"""The public names of delta-spark, and the procedures of iceberg-spark."""

from __future__ import annotations

from deltaberg.coming_from.name_table import Names

__all__ = ["DELTA_SPARK", "ICEBERG_SPARK", "ON_SPARK"]

#: What the texts of names begin with that our own class for Spark has, which is one of Delta tables.
ON_SPARK = "import DeltaTable from deltaberg.spark, which has it, or write "

DELTA_SPARK: dict[str, Names] = {
    "deltaberg": {
        "configure_spark_with_delta_pip": "leave it out: PySpark finds the data sources of what is installed by itself",
    },
    "DeltaTable": {
        "addFeatureSupport": ON_SPARK + '`alter().set({"delta.feature.deletionVectors": "supported"}).commit()`',
        "alias": ON_SPARK + '`merge(source, on, target_alias="t")`',
        "clone": "`clone(target, shallow=True)`",
        "cloneAtTimestamp": ON_SPARK + "`clone(target, timestamp=…)`",
        "cloneAtVersion": ON_SPARK + "`clone(target, version=…)`",
        "convertToDelta": ON_SPARK + "`deltaberg.convert_to_delta(target)`",
        "create": ON_SPARK + "`deltaberg.create_table(target, schema)`",
        "createIfNotExists": ON_SPARK + '`deltaberg.create_table(target, schema, if_exists="ignore")`',
        "createOrReplace": ON_SPARK + '`deltaberg.create_table(target, schema, if_exists="replace")`',
        "delete": "`delete(where)`; `where=None` deletes all rows",
        "detail": ON_SPARK + "`location`, `properties`, `protocol` and `metadata`",
        "dropFeatureSupport": ON_SPARK + "`drop_feature(name)`",
        "forName": "`deltaberg.open_table(location)`: there is no metastore",
        "forPath": ON_SPARK + "`deltaberg.open_table(location)`",
        "generate": "`generate()`",
        "history": "`history(limit)`",
        "isDeltaTable": ON_SPARK + "`deltaberg.open_table(location)`, which raises where there is none",
        "merge": "`merge(source, on)`",
        "optimize": ON_SPARK + '`compact()`, or `compact(z_order_by=["a"])`',
        "replace": ON_SPARK + '`deltaberg.create_table(target, schema, if_exists="replace")`',
        "restoreToTimestamp": ON_SPARK + "`restore(timestamp)`",
        "restoreToVersion": ON_SPARK + "`restore(version)`",
        "toDF": ON_SPARK + "`scan().to_spark(spark)`",
        "update": "`update(set, where)`",
        "upgradeTableProtocol": ON_SPARK + '`alter().set({"delta.minWriterVersion": "7"}).commit()`',
        "vacuum": "`vacuum(retention_hours, dry_run=False)`",
    },
}
ICEBERG_SPARK: dict[str, Names] = {
    "IcebergTable": {
        "add_files": "`add_files(file_paths)`",
        "ancestors_of": "`history()`",
        "cherrypick_snapshot": "`cherrypick_snapshot(snapshot_id)`",
        "compute_partition_stats": "`compute_partition_stats()`",
        "compute_table_stats": "`compute_table_stats()`",
        "create_changelog_view": "`changes(start, end)`",
        "expire_snapshots": "`expire_snapshots(older_than=…)`",
        "fast_forward": "`alter().fast_forward(branch, to).commit()`",
        "migrate": "`deltaberg.convert_to_iceberg(source)`",
        "publish_changes": "`publish(wap_id)`",
        "register_table": "call `register_table(identifier, metadata_location)` of a catalog",
        "remove_orphan_files": "`remove_orphan_files(older_than=…, dry_run=False)`",
        "rewrite_data_files": "`compact()`",
        "rewrite_manifests": "`rewrite_manifests()`",
        "rewrite_position_delete_files": "`rewrite_position_delete_files()`",
        "rewrite_table_path": "`rewrite_table_path(source_prefix, target_prefix)`",
        "rollback_to_snapshot": "`alter().rollback_to_snapshot(snapshot_id).commit()`",
        "rollback_to_timestamp": "`alter().rollback_to_timestamp(timestamp).commit()`",
        "set_current_snapshot": "`alter().set_current_snapshot(snapshot_id).commit()`",
        "snapshot": "`deltaberg.convert_to_iceberg(source, target)`",
    },
}
