"""Names that are first guesses: those of no library, and those that are right on tables of the other format."""

from __future__ import annotations

from deltaberg.coming_from.frame_names import OF_FRAMES, OF_ROWS
from deltaberg.coming_from.name_table import Names

__all__ = ["GUESSED"]

_OPEN = "`deltaberg.open_table(location)`"
_FILTER = "`scan(filter, columns)`"
_NO_REFERENCES = "Delta tables have no branches and tags: `restore(version)` goes back"
_OF_ITS_OWN = "call it on the table, outside of the transaction: it makes commits of its own, or none"
_OF_THE_TABLE = "ask the table for it: a transaction only gathers changes"
_OF_DELTA = "leave it out: only Delta tables have it"
_NO_DELETES = "leave it out: Delta tables have no delete files, and `reorg()` drops deletion vectors"
_FORMAT_VERSION = "`format_version`, which Iceberg tables have in place of features"
_NO_CHECKPOINTS = "leave it out: Iceberg tables have no checkpoints"
_SNAPSHOT = "`version`: Delta tables have versions in place of snapshots"

_OPENED = "`deltaberg.open_table(location).{}`"
_APPEND = "`append(data)`"
_WRITE = "`append(data)` or `overwrite(data)`"
_WRITTEN = '`deltaberg.write_table(target, data, mode="{}")`'
_LOCATION = "`location`"
_REFRESH = "`refresh()`, which moves the table to its newest state"
_AS_OF = "`deltaberg.open_table(location, version=3)`, or `timestamp=`"
_ORDERED = '`compact(z_order_by=["a"])`'
_STATISTICS = "`scan().files(statistics=True)`"
_DROP = "`deltaberg.drop_table(location)` for the table, or `alter().drop(name).commit()` for a column"
_EXISTS = "`deltaberg.open_table(location)`, which raises `TableNotFoundError` where there is none"

GUESSED: dict[str, Names] = {
    "deltaberg": {
        **dict.fromkeys(("load", "open", "open_delta", "open_iceberg", "table"), _OPEN),
        **dict.fromkeys(("read", "read_iceberg", "read_table"), _OPENED.format("to_arrow()")),
        **dict.fromkeys(("scan", "scan_table"), _OPENED.format("scan(filter, columns)")),
        **{name: _OPENED.format(f"{name}(…)") for name in ("alter", "compact", "delete", "merge", "update", "upsert")},
        **{name: _OPENED.format(f"{name}()") for name in ("history", "restore", "vacuum", "verify")},
        **dict.fromkeys(("append", "insert", "to_delta", "from_arrow", "from_pandas"), _WRITTEN.format("append")),
        **dict.fromkeys(("from_polars", "save", "write"), _WRITTEN.format("append")),
        **dict.fromkeys(("delete_table", "drop"), "`deltaberg.drop_table(location)`"),
        **dict.fromkeys(("exists", "is_delta_table", "is_deltatable", "is_table", "table_exists"), _EXISTS),
        "Table": "`deltaberg.DeltaTable` or `deltaberg.IcebergTable`",
        "connect": "`deltaberg.open_table(location)`, or `deltaberg.load_catalog(name)`",
        "create": "`deltaberg.create_table(target, schema)`",
        "list_tables": '`deltaberg.load_catalog(name).list_tables("sales")`',
        "optimize": _OPENED.format("compact()"),
        "overwrite": _WRITTEN.format("overwrite"),
        "read_csv": "read it with pyarrow, pandas or polars, and pass that to `deltaberg.write_table(target, data)`",
        "read_parquet": "read it with pyarrow, pandas or polars, or `deltaberg.convert_to_delta(target)` in place",
        "sql": "`duckdb.sql(…)` over a scan",
        "to_iceberg": '`deltaberg.write_table(target, data, format="iceberg")`',
        "version": "`deltaberg.__version__`",
    },
    "Rows": OF_ROWS,
    "Table": {
        **OF_FRAMES["Table"],
        **dict.fromkeys(("add", "add_rows", "extend", "insert", "insert_into", "insert_all"), _APPEND),
        **dict.fromkeys(("as_of", "at_version", "checkout", "time_travel", "version_as_of"), _AS_OF),
        **dict.fromkeys(("base_path", "path", "table_path", "uri", "url"), _LOCATION),
        **dict.fromkeys(("cluster", "order_by", "z_order", "zorder"), _ORDERED),
        **dict.fromkeys(("clear", "delete_all", "truncate"), "`delete(where=None)`"),
        **dict.fromkeys(("compact_files", "rewrite"), "`compact()`"),
        **dict.fromkeys(("filter", "select", "where"), _FILTER),
        **dict.fromkeys(("load", "reload", "reopen", "update_state"), _REFRESH),
        **dict.fromkeys(("rollback", "restore_to_version", "revert"), "`restore(version)`, or of Iceberg a snapshot"),
        **dict.fromkeys(("save", "saveAsTable", "write"), _WRITE),
        **dict.fromkeys(("set_properties", "set_property"), '`alter().set({"key": "value"}).commit()`'),
        **dict.fromkeys(("statistics", "stats"), _STATISTICS),
        "add_column": '`alter().add("name", type).commit()`',
        "add_columns": '`alter().add("name", type).commit()`',
        "close": "leave it out: nothing stays open",
        "columns": "`schema.names`",
        "commit": "leave it out: each verb commits, and `transaction()` makes one commit of several",
        "details": "`location`, `properties` and `metadata`",
        "drop": _DROP,
        "drop_column": '`alter().drop("name").commit()`',
        "drop_table": "`deltaberg.drop_table(location)`",
        "dtypes": "`arrow_schema`",
        "exists": _EXISTS,
        "format": "ask `isinstance(table, deltaberg.DeltaTable)`",
        "limit": "`scan(limit=10)`, or `head(10)`",
        "read": "`to_arrow()`, or `scan(filter, columns).to_arrow()`",
        "rename": '`alter().rename("name", "new").commit()`',
        "rename_column": '`alter().rename("name", "new").commit()`',
        "replace": "`overwrite(data)`",
        "shape": "`count()` and `schema.names`",
        "to_batches": "`scan().to_batches()`",
        "to_duckdb": '`duckdb.sql("SELECT … FROM scan")`, where scan is `scan()`',
        "to_reader": "`scan().to_reader()`",
        "to_spark": "`scan().to_spark(spark)`",
        "versions": "`history()`",
        "with_column": '`alter().add("name", type).commit()`, and `update({"name": "SQL"}, where=None)`',
    },
    "DeltaTable": {
        "add_files": "`deltaberg.convert_to_delta(target)`, for a directory of Parquet files",
        **dict.fromkeys(("cherrypick_snapshot", "publish"), _NO_REFERENCES),
        **dict.fromkeys(("compute_partition_stats", "compute_table_stats"), "`compute_statistics()`"),
        **dict.fromkeys(("convert_equality_deletes", "rewrite_position_delete_files"), _NO_DELETES),
        "appends": "`changes(start, end)`",
        "delete_by_keys": '`merge(keys, "target.id = source.id").when_matched_delete().execute()`',
        "current_snapshot": _SNAPSHOT,
        "current_version": "`version`",
        "expire_snapshots": "`vacuum(retention_hours, dry_run=False)`",
        "files": '`scan().files()["file_path"]`',
        "format_version": "`protocol`",
        "get_latest_version": "`refresh().version`",
        "id": "`metadata.id`",
        "inspect": "`live_files`, `history()` or `scan().files(statistics=True)`",
        "latest_version": "`refresh().version`",
        "maintenance": "`maintain()`, or `vacuum(retention_hours, dry_run=False)`",
        "manage_snapshots": _NO_REFERENCES,
        "metadata_location": _LOCATION,
        "partition_by": "`partition_columns`",
        "partitioned_by": "`partition_columns`",
        "refs": _NO_REFERENCES,
        "remove_orphan_files": "`vacuum(retention_hours, dry_run=False)`",
        "rewrite_data_files": "`compact()`",
        "rewrite_manifests": "`checkpoint()`",
        "rewrite_table_path": "`clone(target)`",
        "snapshot": _SNAPSHOT,
        "snapshot_id": _SNAPSHOT,
        "snapshots": "`history()`",
        "sort_order": "`clustering_columns`",
        "spec": "`partition_columns`",
        "specs": "`partition_columns`",
        "update_sort_order": '`alter().cluster_by("a").commit()`',
        "update_spec": '`alter().partition_by("region").commit()`',
        "uuid": "`metadata.id`",
    },
    "IcebergTable": {
        **dict.fromkeys(("active_features", "features", "protocol"), _FORMAT_VERSION),
        **dict.fromkeys(("domain_metadata", "drop_feature", "expired_tombstones", "tombstones"), _OF_DELTA),
        **dict.fromkeys(("check_constraints", "generated_columns", "identity_columns", "invariants"), _OF_DELTA),
        "base_checkpoint": _NO_CHECKPOINTS,
        "branches": "`refs`",
        "checkpoint": _NO_CHECKPOINTS,
        "clustering_columns": "`sort_order`",
        "column_defaults": "ask the fields of the `schema` for their `default`",
        "compute_statistics": "`compute_table_stats()`",
        "cleanup_metadata": "leave it out: the property `write.metadata.delete-after-commit.enabled` does it",
        "create_checkpoint": _NO_CHECKPOINTS,
        "compact_log": "leave it out: Iceberg tables have no log, and `rewrite_manifests()` keeps planning fast",
        "current_version": "`snapshot_id`",
        "files": '`inspect("files")`',
        "get_latest_version": "`refresh().snapshot_id`",
        "latest_version": "`refresh().snapshot_id`",
        "get_add_actions": '`inspect("files")`',
        "generate": "leave it out: engines read Iceberg tables by their metadata",
        "is_append_only": _OF_DELTA,
        "live_files": '`inspect("files")`',
        "load_as_version": "`deltaberg.open_table(location, snapshot_id=…)`, or `timestamp=`",
        "load_cdf": "`changes(start, end)`, which takes snapshots",
        "partition_by": "`spec`",
        "partition_columns": "`spec`",
        "partitioned_by": "`spec`",
        "row_id_high_water_mark": "`metadata.next_row_id`",
        "tags": "`refs`",
        "timestamp": "`snapshot.timestamp_ms`",
        "transactions": "pass `txn=` to a verb, which does nothing twice",
        "uuid": "`metadata.table_uuid`",
        "vacuum": "`expire_snapshots()`, and `remove_orphan_files(dry_run=False)`",
        "version": "`snapshot_id`: Iceberg tables have snapshots in place of versions",
    },
    "Scan": OF_FRAMES["Scan"],
    "Struct": {
        **dict.fromkeys(("column", "field", "find_field"), '`get("name")`'),
        **dict.fromkeys(("as_arrow", "to_arrow", "to_pyarrow"), "the `arrow_schema` of the table"),
        **dict.fromkeys(("columns", "field_names"), "`names`"),
    },
    "TableTransaction": {
        **dict.fromkeys(("clone", "compact", "maintain", "reorg", "repair", "restore", "verify"), _OF_ITS_OWN),
        **dict.fromkeys(("arrow_schema", "changes", "count", "explain_append", "follow", "head"), _OF_THE_TABLE),
        **dict.fromkeys(("history", "location", "metadata", "properties", "scan", "schema"), _OF_THE_TABLE),
        **dict.fromkeys(("to_arrow", "to_pandas", "to_polars"), _OF_THE_TABLE),
        "on_spark": "call it on the table before the transaction begins",
        "refresh": "begin another `transaction()` of the table",
        "transaction": "leave it out: this is one",
    },
    "DeltaTransaction": {
        **dict.fromkeys(("checkpoint", "cleanup_metadata", "compact_log", "compute_statistics"), _OF_ITS_OWN),
        **dict.fromkeys(("drop_feature", "generate", "vacuum"), _OF_ITS_OWN),
        **dict.fromkeys(("active_features", "base_checkpoint", "check_constraints"), _OF_THE_TABLE),
        **dict.fromkeys(("clustering_columns", "column_defaults", "domain_metadata"), _OF_THE_TABLE),
        **dict.fromkeys(("expired_tombstones", "features", "generated_columns", "identity_columns"), _OF_THE_TABLE),
        **dict.fromkeys(("invariants", "is_append_only", "live_files", "partition_columns"), _OF_THE_TABLE),
        **dict.fromkeys(("protocol", "row_id_high_water_mark", "timestamp", "tombstones"), _OF_THE_TABLE),
        **dict.fromkeys(("transactions", "version"), _OF_THE_TABLE),
    },
    "IcebergTransaction": {
        **dict.fromkeys(("cherrypick_snapshot", "compute_partition_stats", "compute_table_stats"), _OF_ITS_OWN),
        **dict.fromkeys(("convert_equality_deletes", "expire_snapshots", "publish"), _OF_ITS_OWN),
        **dict.fromkeys(("remove_orphan_files", "rewrite_manifests"), _OF_ITS_OWN),
        **dict.fromkeys(("rewrite_position_delete_files", "rewrite_table_path"), _OF_ITS_OWN),
        **dict.fromkeys(("appends", "format_version", "inspect", "metadata_location", "refs"), _OF_THE_TABLE),
        **dict.fromkeys(("snapshot", "snapshot_id", "snapshots", "sort_order", "spec"), _OF_THE_TABLE),
    },
    "Alteration": {
        "add_column": '`add("name", type)`',
        "add_columns": '`add("name", type)`, once for each column',
        "drop_column": '`drop("name")`',
        "execute": "`commit()`",
        "rename_column": '`rename("name", "new")`',
        "set_properties": '`set({"key": "value"})`',
    },
}
