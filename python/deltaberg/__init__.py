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
    from deltaberg.expressions import col
    from deltaberg.files.write import ParquetOptions
    from deltaberg.iceberg import IcebergTable
    from deltaberg.iceberg.catalogs import load_catalog
    from deltaberg.table import CommitPolicy, CommitResult, Scan, ScanOptions
    from deltaberg.table.compact import CompactResult

__all__ = [
    "CheckpointLayout",
    "CommitPolicy",
    "CommitResult",
    "CompactResult",
    "DeltaTable",
    "DeltabergError",
    "IcebergTable",
    "ParquetOptions",
    "Scan",
    "ScanOptions",
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
    "CommitPolicy": "table",
    "CommitResult": "table",
    "CompactResult": "table.compact",
    "DeltaTable": "delta",
    "DeltabergError": "errors",
    "IcebergTable": "iceberg",
    "ParquetOptions": "files.write",
    "Scan": "table",
    "ScanOptions": "table",
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
