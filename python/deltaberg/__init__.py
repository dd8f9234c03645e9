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
    "CheckpointLayout": "deltaberg.delta",
    "CommitPolicy": "deltaberg.table",
    "CommitResult": "deltaberg.table",
    "CompactResult": "deltaberg.table.compact",
    "DeltaTable": "deltaberg.delta",
    "DeltabergError": "deltaberg.errors",
    "IcebergTable": "deltaberg.iceberg",
    "ParquetOptions": "deltaberg.files.write",
    "Scan": "deltaberg.table",
    "ScanOptions": "deltaberg.table",
    "col": "deltaberg.expressions",
    "convert_to_delta": "deltaberg.convert",
    "create_table": "deltaberg.api",
    "find_commit": "deltaberg.api",
    "load_catalog": "deltaberg.iceberg.catalogs",
    "open_table": "deltaberg.api",
    "write_table": "deltaberg.api",
}
_MODULES = frozenset({"errors", "kernels", "spark"})

_load = lazy_names("deltaberg", _HOMES)


def __getattr__(name: str) -> Any:
    return import_module(f"deltaberg.{name}") if name in _MODULES else _load(name)


def __dir__() -> list[str]:
    own = (name for name in globals() if name.startswith("__"))
    return sorted({*own, *__all__, *_MODULES})
