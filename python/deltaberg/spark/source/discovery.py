"""The classes by which PySpark discovers the Data Sources, so that no session has to call `register`.

When a session first meets the name of a format, PySpark 4 imports every top-level module named ``pyspark_*`` in a
process of its own, and registers the class ``DefaultSource`` of each. Sessions that use no table pay for that, too, and
a module that fails would hide the sources of all others. Until one of them is used, nothing but pyspark is therefore
imported here. They take no filters from Spark, as with `register` by default.
"""

from __future__ import annotations

from typing import ClassVar

from pyspark.sql.datasource import DataSource

__all__ = ["DeltaSource", "IcebergSource"]


class _DiscoveredSource(DataSource):
    """Makes the Data Source of a format, of which only the name is known before."""

    format: ClassVar[str]

    # PySpark calls the class, and goes on with whatever Data Source it gets, which need not be one of this class.
    def __new__(cls, options: dict[str, str]) -> DataSource:  # type: ignore[misc]
        """Return the Data Source."""
        from deltaberg.spark.source.datasource import DATA_SOURCES

        (source,) = (source for source in DATA_SOURCES if source.name() == cls.format)
        return source(options)

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return cls.format


class DeltaSource(_DiscoveredSource):
    """Makes the Data Source of Delta tables."""

    format = "delta"


class IcebergSource(_DiscoveredSource):
    """Makes the Data Source of Iceberg tables."""

    format = "iceberg"
