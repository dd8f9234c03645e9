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
from deltaberg.lazy_names import lazy_names

if TYPE_CHECKING:
    from deltaberg.api import create_table, find_commit, open_table, write_table
    from deltaberg.convert import convert_to_delta
    from deltaberg.delta import CheckpointLayout, DeltaTable
    from deltaberg.errors import DeltabergError
    from deltaberg.expressions import Column, col
    from deltaberg.files.write import ParquetOptions
    from deltaberg.iceberg import IcebergTable
    from deltaberg.iceberg.catalogs import load_catalog
    from deltaberg.schema import Decimal, Field, Fixed, List, Map, Primitive, Struct
    from deltaberg.table import CommitPolicy, CommitResult, PruneStep, Scan, ScanMetrics, ScanOptions
    from deltaberg.table.compact import CompactedGroup, CompactResult
    from deltaberg.table.read.explain import Explanation
    from deltaberg.table.rewrite.clauses import MergeBuilder
    from deltaberg.table.write import WriteProgress, WriteRoad

__all__ = [
    "CheckpointLayout",
    "Column",
    "CommitPolicy",
    "CommitResult",
    "CompactResult",
    "CompactedGroup",
    "Decimal",
    "DeltaTable",
    "DeltabergError",
    "Explanation",
    "Field",
    "Fixed",
    "IcebergTable",
    "List",
    "Map",
    "MergeBuilder",
    "ParquetOptions",
    "Primitive",
    "PruneStep",
    "Scan",
    "ScanMetrics",
    "ScanOptions",
    "Struct",
    "WriteProgress",
    "WriteRoad",
    "__version__",
    "col",
    "convert_to_delta",
    "create_table",
    "find_commit",
    "load_catalog",
    "open_table",
    "write_table",
]

# Names are imported when they are first asked for: the command line has to answer before pyarrow is loaded.
_HOMES = {
    "CheckpointLayout": "delta",
    "Column": "expressions",
    "CommitPolicy": "table",
    "CommitResult": "table",
    "CompactResult": "table.compact",
    "CompactedGroup": "table.compact",
    "Decimal": "schema",
    "DeltaTable": "delta",
    "DeltabergError": "errors",
    "Explanation": "table.read.explain",
    "Field": "schema",
    "Fixed": "schema",
    "IcebergTable": "iceberg",
    "List": "schema",
    "Map": "schema",
    "MergeBuilder": "table.rewrite.clauses",
    "ParquetOptions": "files.write",
    "Primitive": "schema",
    "PruneStep": "table",
    "Scan": "table",
    "ScanMetrics": "table",
    "ScanOptions": "table",
    "Struct": "schema",
    "WriteProgress": "table.write.progress",
    "WriteRoad": "table.write.rows",
    "col": "expressions",
    "convert_to_delta": "convert",
    "create_table": "api",
    "find_commit": "api",
    "load_catalog": "iceberg.catalogs",
    "open_table": "api",
    "write_table": "api",
}
_MODULES = frozenset({"errors", "kernels", "spark"})

_load = lazy_names("deltaberg", _HOMES)


def __getattr__(name: str) -> Any:
    return import_module(f"deltaberg.{name}") if name in _MODULES else _load(name)


def __dir__() -> list[str]:
    own = (name for name in globals() if name.startswith("__"))
    return sorted({*own, *__all__, *_MODULES})
