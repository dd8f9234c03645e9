"""Spark's own Parquet writer, in a session of its own.

The writer takes its settings from the session and from Hadoop's configuration, so that the rows are written in a clone
of the user's session, in which all settings are chosen that change what files hold. Nothing that changes the rows
themselves is set, and the user's session stays as it is.

This is the one module that reaches into the JVM to write: PySpark neither clones a session nor says how many rows a
write has written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame

from deltaberg.errors import StorageError
from deltaberg.spark.jobs import run_job
from deltaberg.spark.session import SessionFacts

__all__ = ["SparkParquet", "why_not_in_a_clone"]

#: Settings of the session. Options of one write do not override all of them.
_SETTINGS = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.writeLegacyFormat": "false",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.output.committer.class": "org.apache.parquet.hadoop.ParquetOutputCommitter",
    "spark.sql.sources.commitProtocolClass": (
        "org.apache.spark.sql.execution.datasources.SQLHadoopMapReduceCommitProtocol"
    ),
    "spark.sql.sources.useV1SourceList": "parquet",
    "spark.sql.files.maxRecordsPerFile": "0",
}
_FIELD_IDS = "spark.sql.parquet.fieldId.write.enabled"
#: Settings that have no default, and replace the committer.
_UNSET = ("spark.sql.sources.outputCommitterClass",)
#: What goes to Hadoop's configuration, and before that of the user.
_OPTIONS = {
    "mapreduce.fileoutputcommitter.algorithm.version": "1",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    "parquet.summary.metadata.level": "NONE",
    "parquet.writer.version": "v1",
    "parquet.enable.dictionary": "true",
    "parquet.bloom.filter.enabled": "false",
    "parquet.column.statistics.enabled": "true",
    "parquet.statistics.truncate.length": str((1 << 31) - 1),
}
#: What encrypts files, if it is set.
_ENCRYPTION = "parquet.crypto.factory.class"
_ROWS = "numOutputRows"
#: The node of plans whose rows are observed.
_OBSERVED = "CollectMetrics"
_DEEPEST_PLAN = 8


def why_not_in_a_clone(frame: DataFrame) -> str | None:
    """Return why the rows of a DataFrame cannot be written in a clone of its session; None if they can."""
    session: Any = frame.sparkSession
    state = session._jsparkSession.sessionState()  # noqa: SLF001 - PySpark does not show Hadoop's configuration
    if state.newHadoopConf().get(_ENCRYPTION):
        return f"{_ENCRYPTION} is set, which encrypts files"
    # Whoever waits for the metrics waits for them in the user's session.
    if _OBSERVED in frame._jdf.logicalPlan().toString():  # noqa: SLF001 - PySpark does not show the plan as it is
        return "the rows are observed"
    return None


class SparkParquet:
    """Writes the rows of one DataFrame to a directory.

    Parameters
    ----------
    frame
        The rows, with the columns that the files are to have. Its session is a classic one.
    with_ids
        Whether the files have the field ids that the metadata of the columns names.
    """

    def __init__(self, frame: DataFrame, *, with_ids: bool) -> None:
        self._plan: Any = frame._jdf.logicalPlan()  # noqa: SLF001 - a plan is evaluated in the cloned session
        session: Any = frame.sparkSession
        self._facts = SessionFacts.of(session)
        self._jvm: Any = session._jvm  # noqa: SLF001 - Spark's writer is in the JVM
        self._session: Any = session._jsparkSession.cloneSession()  # noqa: SLF001 - PySpark has no such method
        for name, value in {**_SETTINGS, _FIELD_IDS: str(with_ids).lower()}.items():
            self._session.conf().set(name, value)
        for name in _UNSET:
            self._session.conf().unset(name)

    def write(self, directory: str, options: Mapping[str, str]) -> int:
        """Write the rows to a directory that does not exist, and return how many rows the tasks have written.

        Only what tasks wrote whose output was taken is counted.

        Raises
        ------
        StorageError
            Spark does not say how many rows it has written.
        """
        nothing, none = self._object("scala.collection.immutable.Nil"), self._object("scala.None")
        chosen = self._jvm.PythonUtils.toScalaMap({**_OPTIONS, **options, "path": directory})
        # Whatever else a version takes after the options is optional.
        rest = [none] * (2 if self._facts.release > (4, 1) else 1)
        source = self._jvm.org.apache.spark.sql.execution.datasources.DataSource(
            self._session, "parquet", nothing, none, nothing, none, chosen, *rest
        )
        command = source.planForWriting(self._jvm.org.apache.spark.sql.SaveMode.ErrorIfExists, self._plan)
        datasets = self._jvm.org.apache.spark.sql.classic.Dataset
        done = run_job(self._facts, lambda: datasets.ofRows(self._session, command))
        plan = done.queryExecution().commandExecuted().commandPhysicalPlan()
        for _ in range(_DEEPEST_PLAN):
            if plan.metrics().contains(_ROWS):
                return int(plan.metrics().apply(_ROWS).value())
            # With adaptive execution, the plan of the write is inside of others.
            kind = plan.getClass().getSimpleName()
            if kind == "AdaptiveSparkPlanExec":
                plan = plan.executedPlan()
            elif kind.endswith("QueryStageExec"):
                plan = plan.plan()
            else:
                break
        raise StorageError("this version of Spark does not say how many rows it has written", path=directory)

    def _object(self, name: str) -> Any:
        """Return a singleton of Scala."""
        return getattr(getattr(self._jvm, f"{name}$"), "MODULE$")
