"""Writes the tables of `test_delta_spark` by delta-spark, with what Spark reads of them; the judge runs it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.interop.delta_spark_tables import DeltaSparkTable
from tests.interop.delta_tables_of_logs import TABLES as OF_LOGS
from tests.interop.delta_tables_of_rows import TABLES as OF_ROWS
from tests.interop.judged_rows import write_rows

__all__ = ["read", "write"]

_TABLES = {**OF_ROWS, **OF_LOGS}


def write(spark: Any, folder: str, name: str, every: bool) -> dict[str, Any]:
    """Write a table, and what Spark reads of it: of every version, or of the newest alone.

    Returns
    -------
    dict
        The files of Arrow of each version and of the change feed, when each version was committed, and what Spark
        says of the newest version.
    """
    table, session = _TABLES[name], spark.newSession()
    place = Path(folder) / (table.folder or name)
    for key, value in table.settings:
        session.conf.set(key, value)
    path = f"delta.`{place}`"
    if table.columns and table.statements[0] != "!parquet":
        session.sql(table.filled(table.create(), path, folder))
    for statement in table.statements:
        if statement.startswith("!"):
            _step(session, table, place, *statement[1:].split())
        else:
            session.sql(table.filled(statement, path, folder))
    history = session.sql(f"DESCRIBE HISTORY {path}").select("version", "timestamp").toArrow().to_pylist()
    versions = sorted(row["version"] for row in history if row["version"] >= table.first)[0 if every else -1 :]
    facts: dict[str, Any] = {"place": str(place), "versions": {}, "changes": None}
    facts["times"] = {str(row["version"]): row["timestamp"].timestamp() for row in history}
    for version in versions:
        rows = session.sql(f"SELECT {table.select} FROM {path} VERSION AS OF {version}").toArrow()
        facts["versions"][str(version)] = write_rows(rows, Path(folder), f"{name}-{version}.arrow")
    if table.changes is not None:
        reader = session.read.format("delta").option("readChangeFeed", "true")
        rows = reader.option("startingVersion", table.changes).load(str(place)).toArrow()
        facts["changes"] = write_rows(rows, Path(folder), f"{name}-changes.arrow")
    columns = ("minReaderVersion", "minWriterVersion", "numFiles", "tableFeatures", "partitionColumns", "properties")
    (detail,) = session.sql(f"DESCRIBE DETAIL {path}").select(*columns).collect()
    facts["detail"] = detail.asDict()
    return facts


def read(spark: Any, place: str, zone: str = "UTC") -> Any:
    """Return the rows of the newest version of a table, as a session in a time zone reads them."""
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", zone)
    return session.sql(f"SELECT * FROM delta.`{place}`")


def _step(session: Any, table: DeltaSparkTable, place: Path, step: str, *arguments: str) -> None:
    jvm = session._jvm
    if step == "checkpoint":
        # Checkpoints take their settings from the thread's session.
        jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(session._jsparkSession)
        jvm.org.apache.spark.sql.delta.DeltaLog.forTable(session._jsparkSession, str(place)).checkpoint()
    elif step == "compaction":
        # delta-spark reads compactions of its log, and does not write any; its kernel does.
        engine = jvm.io.delta.kernel.defaults.engine.DefaultEngine.create(session._jsc.hadoopConfiguration())
        root, log = (jvm.io.delta.kernel.internal.fs.Path(one.as_uri()) for one in (place, place / "_delta_log"))
        first, last = map(int, arguments)
        jvm.io.delta.kernel.internal.hook.LogCompactionHook(root, log, first, last, 0).threadSafeInvoke(engine)
    elif step == "overwrite":
        frame = session.sql("SELECT concat('a b', id) AS x, CAST(id AS int) AS id FROM range(0, 5, 1, 2)")
        frame.write.format("delta").mode("overwrite").option("overwriteSchema", True).partitionBy("x").save(str(place))
    elif step == "parquet":
        frame = session.sql(table.filled("{rows:0:20}", "", ""))
        partitions = [name for name in table.definitions() if name.startswith("p_")]
        frame.write.partitionBy(*partitions).parquet(str(place))
    else:
        raise ValueError(step)
