"""Names that are first guesses: those of no library, and those that are right on tables of the other format."""

from __future__ import annotations

from deltaberg.coming_from.name_table import Names

__all__ = ["GUESSED"]

_OPEN = "`deltaberg.open_table(location)`"
_FILTER = "`scan(filter, columns)`"
_NO_REFERENCES = "Delta tables have no branches and tags: `restore(version)` goes back"
_OF_ITS_OWN = "call it on the table, outside of the transaction: it makes commits of its own, or none"
_NO_CHECKPOINTS = "leave it out: Iceberg tables have no checkpoints"
_SNAPSHOT = "`version`: Delta tables have versions in place of snapshots"

GUESSED: dict[str, Names] = {
    "deltaberg": {
        "Table": "`deltaberg.DeltaTable` or `deltaberg.IcebergTable`",
        "connect": "`deltaberg.open_table(location)`, or `deltaberg.load_catalog(name)`",
        "create": "`deltaberg.create_table(target, schema)`",
        "load": _OPEN,
        "open": _OPEN,
        "open_delta": _OPEN,
        "open_iceberg": _OPEN,
        "read": "`deltaberg.open_table(location).to_arrow()`",
        "read_iceberg": "`deltaberg.open_table(location).to_arrow()`",
        "read_table": "`deltaberg.open_table(location).to_arrow()`",
        "scan": "`deltaberg.open_table(location).scan(filter, columns)`",
        "sql": "`duckdb.sql(…)` over a scan",
        "table": _OPEN,
        "write": "`deltaberg.write_table(target, data)`",
    },
    "Table": {
        "add_column": '`alter().add("name", type).commit()`',
        "as_of": "`deltaberg.open_table(location, version=3)`, or `timestamp=`",
        "collect": "`to_polars()` or `to_arrow()`",
        "columns": "`schema.names`",
        "df": "`to_pandas()` or `to_polars()`",
        "drop_column": '`alter().drop("name").commit()`',
        "dtypes": "`arrow_schema`",
        "filter": _FILTER,
        "insert": "`append(data)`",
        "lazy": "`to_polars().lazy()`",
        "limit": "`scan(limit=10)`, or `head(10)`",
        "num_rows": "`count()`",
        "read": "`to_arrow()`, or `scan(filter, columns).to_arrow()`",
        "rename_column": '`alter().rename("name", "new").commit()`',
        "rows": "`to_arrow().to_pylist()`",
        "select": _FILTER,
        "set_properties": '`alter().set({"key": "value"}).commit()`',
        "shape": "`count()` and `schema.names`",
        "show": "`head()`",
        "sql": "`duckdb.sql(…)` over a scan",
        "to_batches": "`scan().to_batches()`",
        "to_df": "`to_pandas()` or `to_polars()`",
        "to_dicts": "`to_arrow().to_pylist()`",
        "to_duckdb": '`duckdb.sql("SELECT … FROM scan")`, where scan is `scan()`',
        "to_pylist": "`to_arrow().to_pylist()`",
        "to_reader": "`scan().to_reader()`",
        "to_spark": "`scan().to_spark(spark)`",
        "where": _FILTER,
        "write": "`append(data)` or `overwrite(data)`",
    },
    "DeltaTable": {
        "add_files": "`deltaberg.convert_to_delta(target)`, for a directory of Parquet files",
        "cherrypick_snapshot": _NO_REFERENCES,
        "current_snapshot": _SNAPSHOT,
        "expire_snapshots": "`vacuum(retention_hours, dry_run=False)`",
        "files": '`scan().files()["file_path"]`',
        "format_version": "`protocol`",
        "inspect": "`live_files`, `history()` or `scan().files(statistics=True)`",
        "maintenance": "`maintain()`, or `vacuum(retention_hours, dry_run=False)`",
        "manage_snapshots": _NO_REFERENCES,
        "refs": _NO_REFERENCES,
        "remove_orphan_files": "`vacuum(retention_hours, dry_run=False)`",
        "rewrite_data_files": "`compact()`",
        "snapshot": _SNAPSHOT,
        "snapshot_id": _SNAPSHOT,
        "snapshots": "`history()`",
        "sort_order": "`clustering_columns`",
        "spec": "`partition_columns`",
        "specs": "`partition_columns`",
        "update_sort_order": '`alter().cluster_by("a").commit()`',
        "update_spec": '`alter().partition_by("region").commit()`',
    },
    "IcebergTable": {
        "checkpoint": _NO_CHECKPOINTS,
        "cleanup_metadata": "leave it out: the property `write.metadata.delete-after-commit.enabled` does it",
        "create_checkpoint": _NO_CHECKPOINTS,
        "compact_log": "leave it out: Iceberg tables have no log, and `rewrite_manifests()` keeps planning fast",
        "files": '`inspect("files")`',
        "get_add_actions": '`inspect("files")`',
        "generate": "leave it out: engines read Iceberg tables by their metadata",
        "live_files": '`inspect("files")`',
        "load_as_version": "`deltaberg.open_table(location, snapshot_id=…)`, or `timestamp=`",
        "load_cdf": "`changes(start, end)`, which takes snapshots",
        "partition_columns": "`spec`",
        "protocol": "`format_version`",
        "vacuum": "`expire_snapshots()`, and `remove_orphan_files(dry_run=False)`",
        "version": "`snapshot_id`: Iceberg tables have snapshots in place of versions",
    },
    "Scan": {
        "num_rows": "`count()`",
        "rows": "`to_arrow().to_pylist()`",
        "show": "`head()`",
        "to_df": "`to_pandas()` or `to_polars()`",
        "to_dicts": "`to_arrow().to_pylist()`",
        "to_list": "`to_arrow().to_pylist()`",
        "to_pylist": "`to_arrow().to_pylist()`",
    },
    "TableTransaction": dict.fromkeys(("clone", "compact", "maintain", "reorg", "repair", "verify"), _OF_ITS_OWN),
    "DeltaTransaction": dict.fromkeys(
        ("checkpoint", "cleanup_metadata", "compute_statistics", "drop_feature", "vacuum"), _OF_ITS_OWN
    ),
    "IcebergTransaction": dict.fromkeys(
        (
            *("compute_partition_stats", "compute_table_stats", "convert_equality_deletes", "expire_snapshots"),
            *("remove_orphan_files", "rewrite_manifests", "rewrite_position_delete_files", "rewrite_table_path"),
        ),
        _OF_ITS_OWN,
    ),
    "Alteration": {
        "add_column": '`add("name", type)`',
        "add_columns": '`add("name", type)`, once for each column',
        "drop_column": '`drop("name")`',
        "execute": "`commit()`",
        "rename_column": '`rename("name", "new")`',
        "set_properties": '`set({"key": "value"})`',
    },
}
