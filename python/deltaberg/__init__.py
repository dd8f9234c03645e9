"""Delta Lake and Apache Iceberg tables for Python and PySpark, with no JVM connector jar.

>>> import deltaberg
>>> table = deltaberg.open_table(table_path)
>>> table.scan(filter="id > 1", columns=["name"]).to_arrow().to_pylist()
[{'name': 'b'}, {'name': 'c'}]
"""

from __future__ import annotations

from deltaberg._version import __version__
from deltaberg.api import open_table
from deltaberg.delta import DeltaTable
from deltaberg.errors import DeltabergError
from deltaberg.expressions import col
from deltaberg.table import Scan, ScanOptions

__all__ = ["DeltaTable", "DeltabergError", "Scan", "ScanOptions", "__version__", "col", "open_table"]
