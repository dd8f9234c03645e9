"""The texts among which arguments choose, each said once: for type checkers, and by `get_args` for checks of calls."""

from __future__ import annotations

from typing import Literal

__all__ = [
    "CheckpointFormat",
    "CheckpointNaming",
    "Codec",
    "Compression",
    "ConvertMode",
    "Format",
    "IfExists",
    "Isolation",
    "MaintenanceStep",
    "MetadataTable",
    "Mode",
    "Operator",
    "PageVersion",
    "PartitionStrategy",
    "Planning",
    "PrefixMismatch",
    "Road",
    "SchemaMode",
    "Strategy",
    "VerifyDepth",
    "WhenMatched",
    "WhenNotMatched",
]

#: The formats of tables.
Format = Literal["delta", "iceberg"]
#: What `write_table` does about a table that is there already.
Mode = Literal["error", "append", "overwrite", "ignore"]
#: What `convert_to_delta` and `convert_to_iceberg` do about a table that is there already.
ConvertMode = Literal["error", "ignore"]
#: What becomes of a table, a branch or a tag that is there already.
IfExists = Literal["error", "ignore", "replace"]
#: What becomes of columns that the table lacks.
SchemaMode = Literal["merge", "overwrite"]
#: Rows are hidden, and their files stay; or their files are written anew without them.
Strategy = Literal["merge-on-read", "copy-on-write"]
#: What a tuple of a filter compares a column by.
Operator = Literal["=", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "IN", "NOT IN"]
#: What a commit may not overlook of other commits: of a Delta table, and in lower case of an Iceberg table.
Isolation = Literal["Serializable", "WriteSerializable", "SnapshotIsolation", "serializable", "snapshot"]
#: What an upsert does with rows whose keys the table has, and with others.
WhenMatched = Literal["update", "ignore"]
WhenNotMatched = Literal["insert", "ignore"]
#: The codecs of Parquet that every reader of tables knows.
Codec = Literal["snappy", "zstd", "gzip", "lz4", "brotli", "none"]
#: The same as arguments of verbs, which take another word for none.
Compression = Literal[Codec, "uncompressed"]
#: The versions of the pages of Parquet files.
PageVersion = Literal["1.0", "2.0"]
#: Who plans a scan on Spark.
Planning = Literal["auto", "driver", "executors"]
#: How rows of a scan come into a DataFrame of Spark.
Road = Literal["auto", "native", "arrow"]
#: How the names of directories show partition values.
PartitionStrategy = Literal["hive", "directory"]
#: The names and the formats of checkpoints.
CheckpointNaming = Literal["classic", "multipart", "uuid"]
CheckpointFormat = Literal["parquet", "json"]
#: How closely `verify` looks at files: their names and sizes, deletion vectors too, the footers of data files as well.
VerifyDepth = Literal["names", "vectors", "footers"]
#: What `maintain` does, in its order.
MaintenanceStep = Literal[
    "convert_equality_deletes",
    "compact",
    "rewrite_position_delete_files",
    "rewrite_manifests",
    "expire_snapshots",
    "remove_orphan_files",
    "vacuum",
    "checkpoint",
    "cleanup_metadata",
]
#: What `IcebergTable.inspect` returns.
MetadataTable = Literal[
    "snapshots",
    "history",
    "refs",
    "metadata_log_entries",
    "manifests",
    "all_manifests",
    "files",
    "data_files",
    "delete_files",
    "entries",
    "all_files",
    "all_data_files",
    "all_delete_files",
    "all_entries",
    "partitions",
    "position_deletes",
]
#: What becomes of a file that is found, and whose path the table names in another store.
PrefixMismatch = Literal["error", "ignore", "delete"]
#: What `DeltaTable.generate` writes.
GenerateMode = Literal["symlink_format_manifest"]
