"""Delta Lake and Apache Iceberg tables for Python and PySpark, with no JVM connector jar.

>>> import deltaberg
>>> table = deltaberg.open_table(table_path)
>>> table.scan(filter="id > 1", columns=["name"]).to_arrow().to_pylist()
[{'name': 'b'}, {'name': 'c'}]
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from deltaberg._version import __version__
from deltaberg.engines import register_engine
from deltaberg.lazy_names import lazy_names

if TYPE_CHECKING:
    from deltaberg.api.commits import find_commit
    from deltaberg.api.dropping import drop_table
    from deltaberg.api.opening import open_table
    from deltaberg.api.writing import create_table, write_table
    from deltaberg.catalogs.load import load_catalog
    from deltaberg.convert.directory import convert_to_delta
    from deltaberg.convert.tree import convert_to_iceberg
    from deltaberg.delta.checkpoint.layout import CheckpointLayout
    from deltaberg.delta.table import DeltaTable
    from deltaberg.errors import DeltabergError
    from deltaberg.expressions.build.column import Column, col
    from deltaberg.files.write.write_parquet import ParquetOptions
    from deltaberg.iceberg.maintain.cleaning.expire import ExpiryResult
    from deltaberg.iceberg.maintain.copying.rewrite_table_path import RewriteTablePathResult
    from deltaberg.iceberg.maintain.manifest_rewriting.rewrite_manifests import ManifestRewriteResult
    from deltaberg.iceberg.maintain.rewriting.rewritten import RewriteDeletesResult
    from deltaberg.iceberg.maintain.statistics.compute_partition_stats import PartitionStatsResult
    from deltaberg.iceberg.maintain.statistics.compute_table_stats import TableStatsResult
    from deltaberg.iceberg.table import IcebergTable
    from deltaberg.schema.types import Decimal, Field, Fixed, List, Map, Primitive, Struct
    from deltaberg.table.commit.commit import CommitPolicy, CommitResult
    from deltaberg.table.maintain.cleanup import CleanupProgress, CleanupResult
    from deltaberg.table.maintain.cloning.cloned import CloneResult
    from deltaberg.table.maintain.compact_result import CompactedGroup, CompactResult
    from deltaberg.table.maintain.dropped_feature import DropFeatureResult
    from deltaberg.table.maintain.maintenance import (
        MaintainedStep,
        MaintenancePolicy,
        MaintenanceProgress,
        MaintenanceResult,
    )
    from deltaberg.table.maintain.restored import RestoreResult
    from deltaberg.table.maintain.verifying.findings import Finding, VerifyResult
    from deltaberg.table.maintain.verifying.repairs import LostFile, RepairResult
    from deltaberg.table.merge.clauses import MergeBuilder
    from deltaberg.table.read.explain import Explanation
    from deltaberg.table.read.scan import Scan, ScanMetrics, ScanProgress
    from deltaberg.table.read.scan_options import ScanOptions
    from deltaberg.table.read.source import PruneStep
    from deltaberg.table.rows.progress import WriteProgress
    from deltaberg.table.streaming.follow import FollowedCommit
    from deltaberg.table.write.sources import WriteRoad

__all__ = [
    "CheckpointLayout",
    "CleanupProgress",
    "CleanupResult",
    "CloneResult",
    "Column",
    "CommitPolicy",
    "CommitResult",
    "CompactResult",
    "CompactedGroup",
    "Decimal",
    "DeltaTable",
    "DeltabergError",
    "DropFeatureResult",
    "ExpiryResult",
    "Explanation",
    "Field",
    "Finding",
    "Fixed",
    "FollowedCommit",
    "IcebergTable",
    "List",
    "LostFile",
    "MaintainedStep",
    "MaintenancePolicy",
    "MaintenanceProgress",
    "MaintenanceResult",
    "ManifestRewriteResult",
    "Map",
    "MergeBuilder",
    "ParquetOptions",
    "PartitionStatsResult",
    "Primitive",
    "PruneStep",
    "RepairResult",
    "RestoreResult",
    "RewriteDeletesResult",
    "RewriteTablePathResult",
    "Scan",
    "ScanMetrics",
    "ScanOptions",
    "ScanProgress",
    "Struct",
    "TableStatsResult",
    "VerifyResult",
    "WriteProgress",
    "WriteRoad",
    "__version__",
    "col",
    "convert_to_delta",
    "convert_to_iceberg",
    "create_table",
    "drop_table",
    "find_commit",
    "load_catalog",
    "open_table",
    "write_table",
]

# Names are imported when they are first asked for: the command line has to answer before pyarrow is loaded.
_HOMES = {
    "CheckpointLayout": "delta",
    "CleanupProgress": "table.maintain.cleanup",
    "CleanupResult": "table.maintain.cleanup",
    "CloneResult": "table.maintain.cloning.cloned",
    "Column": "expressions.build.column",
    "CommitPolicy": "table.commit.commit",
    "CommitResult": "table.commit.commit",
    "CompactResult": "table.maintain.compact_result",
    "CompactedGroup": "table.maintain.compact_result",
    "Decimal": "schema.types",
    "DeltaTable": "delta",
    "DeltabergError": "errors",
    "DropFeatureResult": "table.maintain.dropped_feature",
    "ExpiryResult": "iceberg.maintain.cleaning.expire",
    "Explanation": "table.read.explain",
    "Field": "schema.types",
    "Finding": "table.maintain.verifying.findings",
    "FollowedCommit": "table.streaming.follow",
    "Fixed": "schema.types",
    "IcebergTable": "iceberg",
    "List": "schema.types",
    "LostFile": "table.maintain.verifying.repairs",
    "MaintainedStep": "table.maintain.maintenance",
    "MaintenancePolicy": "table.maintain.maintenance",
    "MaintenanceProgress": "table.maintain.maintenance",
    "MaintenanceResult": "table.maintain.maintenance",
    "ManifestRewriteResult": "iceberg.maintain.manifest_rewriting.rewrite_manifests",
    "Map": "schema.types",
    "MergeBuilder": "table.merge.clauses",
    "ParquetOptions": "files.write.write_parquet",
    "PartitionStatsResult": "iceberg.maintain.statistics.compute_partition_stats",
    "Primitive": "schema.types",
    "PruneStep": "table.read.source",
    "RepairResult": "table.maintain.verifying.repairs",
    "RestoreResult": "table.maintain.restored",
    "RewriteDeletesResult": "iceberg.maintain.rewriting.rewritten",
    "RewriteTablePathResult": "iceberg.maintain.copying.rewrite_table_path",
    "Scan": "table.read.scan",
    "ScanMetrics": "table.read.scan",
    "ScanProgress": "table.read.scan",
    "ScanOptions": "table.read.scan_options",
    "Struct": "schema.types",
    "TableStatsResult": "iceberg.maintain.statistics.compute_table_stats",
    "VerifyResult": "table.maintain.verifying.findings",
    "WriteProgress": "table.rows.progress",
    "WriteRoad": "table.write.sources",
    "col": "expressions.build.column",
    "convert_to_delta": "convert.directory",
    "convert_to_iceberg": "convert.tree",
    "create_table": "api.writing",
    "drop_table": "api.dropping",
    "find_commit": "api.commits",
    "load_catalog": "catalogs.load",
    "open_table": "api.opening",
    "write_table": "api.writing",
}
_MODULES = frozenset({"errors", "kernels", "spark"})

_load = lazy_names("deltaberg", _HOMES)
register_engine("spark", "deltaberg.spark")


def __getattr__(name: str) -> Any:
    return import_module(f"deltaberg.{name}") if name in _MODULES else _load(name)


def __dir__() -> list[str]:
    own = (name for name in globals() if name.startswith("__"))
    return sorted({*own, *__all__, *_MODULES})
