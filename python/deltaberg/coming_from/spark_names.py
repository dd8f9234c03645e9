"""The public names of delta-spark, and the procedures of iceberg-spark."""

from __future__ import annotations

from deltaberg.coming_from.name_table import Names

__all__ = ["DELTA_SPARK", "ICEBERG_SPARK"]

_SPARK = "import DeltaTable from deltaberg.spark, which has it, or write "

DELTA_SPARK: dict[str, Names] = {
    "deltaberg": {
        "configure_spark_with_delta_pip": "leave it out: PySpark finds the data sources of what is installed by itself",
    },
    "DeltaTable": {
        "addFeatureSupport": _SPARK + '`alter().set({"delta.feature.deletionVectors": "supported"}).commit()`',
        "alias": _SPARK + '`merge(source, on, target_alias="t")`',
        "clone": "`clone(target, shallow=True)`",
        "cloneAtTimestamp": _SPARK + "`clone(target, timestamp=…)`",
        "cloneAtVersion": _SPARK + "`clone(target, version=…)`",
        "convertToDelta": _SPARK + "`deltaberg.convert_to_delta(target)`",
        "create": _SPARK + "`deltaberg.create_table(target, schema)`",
        "createIfNotExists": _SPARK + '`deltaberg.create_table(target, schema, if_exists="ignore")`',
        "createOrReplace": _SPARK + '`deltaberg.create_table(target, schema, if_exists="replace")`',
        "delete": "`delete(where)`; `where=None` deletes all rows",
        "detail": _SPARK + "`location`, `properties`, `protocol` and `metadata`",
        "dropFeatureSupport": _SPARK + "`drop_feature(name)`",
        "forName": "`deltaberg.open_table(location)`: there is no metastore",
        "forPath": _SPARK + "`deltaberg.open_table(location)`",
        "generate": "`generate()`",
        "history": "`history(limit)`",
        "isDeltaTable": _SPARK + "`deltaberg.open_table(location)`, which raises where there is none",
        "merge": "`merge(source, on)`",
        "optimize": _SPARK + '`compact()`, or `compact(z_order_by=["a"])`',
        "replace": _SPARK + '`deltaberg.create_table(target, schema, if_exists="replace")`',
        "restoreToTimestamp": _SPARK + "`restore(timestamp)`",
        "restoreToVersion": _SPARK + "`restore(version)`",
        "toDF": _SPARK + "`scan().to_spark(spark)`",
        "update": "`update(set, where)`",
        "upgradeTableProtocol": _SPARK + '`alter().set({"delta.minWriterVersion": "7"}).commit()`',
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
