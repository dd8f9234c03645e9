"""Writes the tables of `iceberg_spark_tables` by iceberg-spark, with what Spark reads of them.

It runs in a process of its own, since the jar registers a data source ``iceberg``:
``python -m tests.interop.write_iceberg_tables FOLDER``. Below the folder come the warehouse, an Arrow file for each
table and snapshot, and ``expected.json``.
"""

from __future__ import annotations

import json
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.interop.iceberg_spark_tables import COLUMNS, TABLES, SparkTable
from tests.support.spark_session import start_session

__all__ = ["main"]

_PACKAGE = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0"
_SETTINGS = {
    "spark.jars.packages": _PACKAGE,
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.ice.type": "hadoop",
    "spark.sql.session.timeZone": "UTC",
    # The statements are many and the rows few: to compile each of them takes longer than to run it.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}
_WRITERS = 4
_ROWS = re.compile(r"\{(rows|all):(\d+):(\d+)\}")


def main(folder: Path) -> None:
    """Write all tables."""
    spark = start_session(**_SETTINGS, **{"spark.sql.catalog.ice.warehouse": str(folder / "warehouse")})
    # Most of a small statement's time is waiting.
    with ThreadPoolExecutor(_WRITERS) as pool:
        written = pool.map(lambda item: _write(spark, folder, *item), TABLES.items())
        expected = dict(zip(TABLES, written, strict=True))
    (folder / "expected.json").write_text(json.dumps(expected, indent=1), encoding="utf-8")
    spark.stop()


def _write(spark: Any, folder: Path, name: str, table: SparkTable) -> dict[str, Any]:
    path = f"ice.db.{name}"
    spark.sql(table.create(path))
    for statement in table.statements:
        if statement == "defaults":
            _add_defaults(spark, path)
            continue
        filled = _ROWS.sub(lambda match: _query(table, *match.groups()), statement)
        spark.sql(filled.replace("{t}", path).replace("{name}", f"db.{name}"))
    found: dict[str, Any] = {"current": _dump(spark, folder, f"{name}.arrow", f"SELECT {table.select} FROM {path}")}
    found["snapshots"], found["refs"] = {}, {}
    if table.history:
        for row in spark.sql(f"SELECT snapshot_id FROM {path}.snapshots").collect():
            query = f"SELECT {table.select} FROM {path} VERSION AS OF {row.snapshot_id}"
            found["snapshots"][str(row.snapshot_id)] = _dump(spark, folder, f"{name}-{row.snapshot_id}.arrow", query)
        for row in spark.sql(f"SELECT name, snapshot_id FROM {path}.refs").collect():
            query = f"SELECT {table.select} FROM {path} VERSION AS OF '{row.name}'"
            found["refs"][row.name] = _dump(spark, folder, f"{name}-{row.name}.arrow", query)
    return found


def _query(table: SparkTable, kind: str, first: str, last: str) -> str:
    chosen = table if kind == "rows" else SparkTable(2, (), tuple(COLUMNS))
    return chosen.rows(int(first), int(last))


def _add_defaults(spark: Any, path: str) -> None:
    """Add columns with default values, which Spark's SQL does not do for Iceberg's tables."""
    jvm = spark._jvm
    table = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, path)
    types, lit = jvm.org.apache.iceberg.types.Types, jvm.org.apache.iceberg.expressions.Expressions.lit
    of_day = lit("2024-02-29").to(types.DateType.get())
    of_decimal = lit("10.65").to(types.DecimalType.of(9, 2))
    of_instant = lit("2024-02-29T12:00:00.000001+00:00").to(types.TimestampType.withZone())
    update = table.updateSchema()
    update.addColumn("di", types.IntegerType.get(), lit(7))
    update.addColumn("ds", types.StringType.get(), lit("none"))
    update.addColumn("dd", types.DateType.get(), of_day)
    update.addColumn("dn", types.DecimalType.of(9, 2), of_decimal)
    update.addColumn("dt", types.TimestampType.withZone(), of_instant)
    update.addColumn("db", types.BooleanType.get(), lit(True))
    update.commit()
    spark.sql(f"REFRESH TABLE {path}")


def _dump(spark: Any, folder: Path, name: str, query: str) -> str:
    rows: pa.Table = spark.sql(query).toArrow()
    with pa.OSFile(str(folder / name), "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
        writer.write_table(rows)
    return name


if __name__ == "__main__":
    main(Path(sys.argv[1]))
