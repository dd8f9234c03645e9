"""The settings of a Spark session with the jars of delta-spark and iceberg-spark.

The jars register the data sources ``delta`` and ``iceberg``, so such a session runs in its own process, never in that
of the tests.
"""

from __future__ import annotations

__all__ = ["ENGINES", "ICEBERG_PACKAGE"]

ICEBERG_PACKAGE = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0"
_PACKAGES = f"io.delta:delta-spark_4.1_2.13:4.4.0,{ICEBERG_PACKAGE}"
#: What Spark brings itself. Fetched again, other versions would come before Spark's own; and a local Maven repository
#: may know them without having them, which fails the whole resolution.
_EXCLUDED = (
    "com.fasterxml.jackson*",
    "com.github.luben",
    "com.google.code.findbugs",
    "commons-*",
    "io.airlift",
    "javax.annotation",
    "org.apache.hadoop",
    "org.apache.logging.log4j",
    "org.apache.parquet",
    "org.locationtech.jts",
    "org.roaringbitmap",
    "org.slf4j",
    "org.xerial.snappy",
)
_EXTENSIONS = (
    "io.delta.sql.DeltaSparkSessionExtension",
    "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
)
#: The catalog ``ice`` needs a warehouse besides.
ENGINES = {
    "spark.jars.packages": _PACKAGES,
    "spark.jars.excludes": ",".join(f"{group}:*" for group in _EXCLUDED),
    "spark.sql.extensions": ",".join(_EXTENSIONS),
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.ice.type": "hadoop",
}
