"""Writes the tables of `iceberg_spark_tables` by iceberg-spark, with what Spark reads of them; the judge runs it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tests.interop.iceberg_spark_tables import COLUMNS, TABLES, SparkTable
from tests.interop.judged_rows import write_rows

__all__ = ["write"]

_ROWS = re.compile(r"\{(rows|all):(\d+):(\d+)\}")


def write(spark: Any, folder: str, name: str) -> dict[str, Any]:
    """Write a table, and what Spark reads of it; give the files of Arrow by snapshot and by branch or tag."""
    table, path = TABLES[name], f"ice.db.{name}"
    spark.sql(table.create(path))
    for statement in table.statements:
        if statement == "defaults":
            _add_defaults(spark, path)
            continue
        filled = _ROWS.sub(lambda match: _query(table, *match.groups()), statement)
        spark.sql(filled.replace("{t}", path).replace("{name}", f"db.{name}"))

    def read(file: str, of: str = "") -> str:
        return write_rows(spark.sql(f"SELECT {table.select} FROM {path}{of}").toArrow(), Path(folder), file)

    facts: dict[str, Any] = {"current": read(f"{name}.arrow"), "snapshots": {}, "refs": {}}
    if table.history:
        for row in spark.sql(f"SELECT snapshot_id FROM {path}.snapshots").collect():
            number = row.snapshot_id
            facts["snapshots"][str(number)] = read(f"{name}-{number}.arrow", f" VERSION AS OF {number}")
        for row in spark.sql(f"SELECT name, snapshot_id FROM {path}.refs").collect():
            facts["refs"][row.name] = read(f"{name}-{row.name}.arrow", f" VERSION AS OF '{row.name}'")
    return facts


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
