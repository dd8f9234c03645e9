"""A scan: the columns and rows of a table that are wanted. It is lazy, and tells what it read and why."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.choices import Road
from deltaberg.engines import spark_engine
from deltaberg.errors import ArgumentNameError, MissingDependencyError, TooLargeError, in_context
from deltaberg.expressions.tree.tree import TRUE
from deltaberg.files.read.reader import ReadCounters
from deltaberg.schema.arrow import arrow_schema
from deltaberg.schema.columns import ColumnName, find_column
from deltaberg.signatures import public
from deltaberg.table.arguments import checked_flag, checked_number
from deltaberg.table.read.bound import SPLIT, BoundScan
from deltaberg.table.read.explain import Explanation, explain_plan
from deltaberg.table.read.listing import list_files
from deltaberg.table.read.min_max import MinMax
from deltaberg.table.read.notebook import as_html
from deltaberg.table.read.plan import Plan
from deltaberg.table.read.scan_options import ScanOptions
from deltaberg.table.read.unread_rows import UnreadRows
from deltaberg.table.rows.shown_progress import check_progress, shown_while
from deltaberg.telemetry import Span, span

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["OnScanProgress", "Scan", "ScanMetrics", "ScanProgress", "bound_scan"]

_logger = logging.getLogger("deltaberg.scan")
_INT32_MAX = (1 << 31) - 1


class ScanProgress(NamedTuple):
    """How far a scan has come.

    Parameters
    ----------
    rows
        The rows that were read so far and passed the filter.
    tasks_read
        The tasks of which all rows were read. A task is a data file, or a part of a large one.
    tasks
        All tasks of the scan.
    """

    rows: int
    tasks_read: int
    tasks: int


#: What is told how far a scan has come, after every batch of rows. An exception ends it.
OnScanProgress = Callable[[ScanProgress], object]


@dataclass(frozen=True)
class ScanMetrics:
    """Counts of the last execution of a scan.

    ``rows_read`` counts the rows that were decoded, and ``rows`` those that were returned. ``bytes_read`` counts the
    bytes that came from stores, and ``requests`` how often a store was asked.
    """

    files_total: int
    files_planned: int
    row_groups: int
    row_groups_skipped: int
    requests: int
    bytes_read: int
    rows_read: int
    rows: int

    @property
    def files_skipped(self) -> int:
        """How many files need not be read."""
        return self.files_total - self.files_planned


@public
class Scan(UnreadRows):
    """The rows of a table for which a filter is true, in the wanted columns.

    Nothing is read until a result is asked for. A scan keeps the snapshot for which it was created.

    Examples
    --------
    >>> scan = table.scan(filter="id >= 2", columns=["name"])
    >>> scan.to_arrow().to_pylist()
    [{'name': 'b'}, {'name': 'c'}]
    """

    def __init__(self, bound: BoundScan) -> None:
        self._bound = bound
        self._metrics: ScanMetrics | None = None

    def __repr__(self) -> str:
        bound = self._bound
        shown = ", ".join(bound.output.names)
        source = bound.source
        return f"Scan({source.table!r}, {source.description}, columns=[{shown}], filter={bound.condition})"

    def _repr_html_(self) -> str:
        """Return the columns and the filter, for notebooks. Nothing is read."""
        facts = [f"scan of {self._bound.source.table}", self._bound.source.description]
        if self._bound.condition != TRUE:
            facts.append(f"where {self._bound.condition}")
        if self.limit is not None:
            facts.append(f"limit {self.limit}")
        return as_html(facts, ((one.name, str(one.type)) for one in self.schema))

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Return the rows in batches. See `to_batches`."""
        return self.to_batches()

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the result."""
        return arrow_schema(self._bound.output)

    @property
    def options(self) -> ScanOptions:
        """How the scan is executed."""
        return self._bound.options

    @property
    def limit(self) -> int | None:
        """The most rows that are wanted; None for all."""
        return self._bound.limit

    @property
    def metrics(self) -> ScanMetrics | None:
        """The counts of the last execution on this machine; None before the first."""
        return self._metrics

    def files(self, *, statistics: bool = False) -> pa.Table:
        """Return the files that the scan must read, one row for each.

        Columns: ``file_path`` (string, where the file is), ``file_format`` (string), ``file_size_in_bytes``
        (int64), ``modification_time`` (timestamp in milliseconds, UTC), ``record_count`` (int64, with deleted
        rows; null if it is not recorded), ``deleted_record_count`` (int64; null if delete files apply, which are
        not read here), ``deletion_vector`` (a struct of ``file_path``, which is null if the log itself holds the
        vector, ``offset``, ``size_in_bytes`` and ``cardinality``; null if it has none), ``partition`` (a struct
        with a typed field for each partition column) and ``residual`` (bool, whether the filter must still be applied
        to the rows of the file).

        Parameters
        ----------
        statistics
            Add the recorded statistics of the scan's columns: ``lower_bounds`` and ``upper_bounds`` (structs with a
            typed field for each column whose values have an order; all values but nulls and NaN are within them) and
            ``null_value_counts`` (a struct of int64). Dots in the names of their fields lead into structs. Null means
            that a value is not known.

        Examples
        --------
        >>> table.scan(columns=["id"]).files(statistics=True)["upper_bounds"].to_pylist()
        [{'id': 3}]
        """
        return list_files(self._bound.plan, self._bound.output if checked_flag("statistics", statistics) else None)

    def explanation(self, spark: SparkSession | None = None) -> Explanation:
        """Return what the scan reads and why, as an object; `explain` returns the same as text.

        Examples
        --------
        >>> table.scan("id > 3").explanation().steps[-1]
        PruneStep(name='statistics', files=0, size=0)
        """
        bound = self._bound
        split_size = bound.options.split_size or SPLIT
        found = explain_plan(bound.plan, bound.output, bound.constants, bound.limit, split_size)
        if spark is None:
            return found
        return replace(found, road=spark_engine().explain_roads(self, spark))

    def explain(self, spark: SparkSession | None = None) -> str:
        """Return what the scan reads and why: the files that each step keeps, the columns, the remaining filter.

        With a Spark session, it also tells which road `to_spark` takes for each file, and why.
        """
        return str(self.explanation(spark))

    def to_batches(self) -> Generator[pa.RecordBatch, None, None]:
        """Return the rows in non-empty batches, in the order of `files`; closing the generator stops reading."""
        return self._batches(self._bound)

    def _batches(
        self, bound: BoundScan, progress: OnScanProgress | bool | None = None
    ) -> Generator[pa.RecordBatch, None, None]:
        """Read a bound scan, and keep its metrics."""
        # The caller may go on with the next batch in another thread.
        read = span("read", is_current=False, table=bound.source.table)
        with read as told, shown_while(progress, "ScanProgress") as tell:
            yield from self._told_batches(bound, tell, told)

    def _told_batches(
        self, bound: BoundScan, tell: OnScanProgress | None, told: Span
    ) -> Generator[pa.RecordBatch, None, None]:
        left, taken = bound.limit, 0
        counters, begun = ReadCounters(), time.perf_counter()
        try:
            for batch in bound.batches(counters):
                taken += batch.num_rows
                if tell is not None:
                    tell(ScanProgress(taken, counters.tasks_read, counters.tasks))
                if left is None:
                    yield batch
                    continue
                if left > 0:
                    yield batch.slice(0, left)
                left -= min(left, batch.num_rows)
                if left == 0:
                    return
        finally:
            self._metrics = metrics = _metrics(bound.plan, counters)
            told.set(**vars(metrics))
            _logger.info(
                "%s: read %d rows, gave %d of them; skipped %d of %d row groups; %d requests, %d bytes, %.3f seconds",
                *(bound.source.table, metrics.rows_read, metrics.rows, metrics.row_groups_skipped, metrics.row_groups),
                *(metrics.requests, metrics.bytes_read, time.perf_counter() - begun),
            )

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the rows as a stream of batches."""
        return pa.RecordBatchReader.from_batches(self.schema, self.to_batches())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the rows through the Arrow PyCapsule interface: DuckDB, Polars and others take a scan as it is.

        They push neither columns nor filters into a stream: what is passed to ``scan`` decides what is read.
        """
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def to_arrow(self, *, progress: OnScanProgress | bool | None = None) -> pa.Table:
        """Return the rows as one Arrow table, in which columns of more than 2 GiB have large types.

        Parameters
        ----------
        progress
            Is called with a `ScanProgress` after every batch; True shows it at a terminal or in a notebook.

        Examples
        --------
        >>> told = []
        >>> table.scan().to_arrow(progress=told.append).num_rows, told[-1].rows
        (3, 3)
        """
        return _promoted(pa.Table.from_batches(self._batches(self._bound, progress), self.schema))

    def to_pandas(self, *, progress: OnScanProgress | bool | None = None, **options: Any) -> pd.DataFrame:
        """Return the rows as a pandas DataFrame; the options are those of `pyarrow.Table.to_pandas`.

        Parameters
        ----------
        progress
            As for `to_arrow`.

        Raises
        ------
        TooLargeError
            Python has no such value, as of dates beyond the year 9999: pass ``date_as_object=False``.
        """
        rows = self.to_arrow(progress=progress)
        try:
            return rows.to_pandas(**options)
        except ImportError as error:
            raise MissingDependencyError("to_pandas() needs pandas", hint="pip install pandas") from error
        except TypeError as error:
            if not options:
                raise
            raise ArgumentNameError(
                f"to_pandas() has options that pyarrow does not take: {error}",
                hint="its options are those of pyarrow.Table.to_pandas; columns and filters are those of a scan, as in "
                'table.scan("id > 5", columns=["id"]).to_pandas()',
            ) from error
        except (OverflowError, ValueError) as error:
            if isinstance(error, pa.ArrowException):
                raise
            raise TooLargeError(
                f"Python has no such date or time as the rows hold: {error}",
                hint="pass date_as_object=False, and leave out timestamp_as_object",
                table=self._bound.source.table,
            ) from error

    def to_polars(self, *, progress: OnScanProgress | bool | None = None) -> pl.DataFrame:
        """Return the rows as a Polars DataFrame. ``progress`` is that of `to_arrow`."""
        try:
            import polars as pl
        except ImportError as error:
            raise MissingDependencyError("to_polars() needs polars", hint="pip install polars") from error
        return pl.DataFrame(self.to_arrow(progress=progress))

    def head(self, n: int = 5) -> pa.Table:
        """Return some rows as an Arrow table, those that are read first.

        Parameters
        ----------
        n
            How many rows at most; a limit of the scan may allow fewer.

        Raises
        ------
        InvalidArgumentError
            The number is negative, or no integer.

        Examples
        --------
        >>> table.scan("id > 1").head(1).to_pylist()
        [{'id': 2, 'name': 'b'}]
        """
        most = checked_number("n", n, 0, "pass how many rows at most")
        limit = most if self.limit is None else min(most, self.limit)
        return Scan(replace(self._bound, limit=limit)).to_arrow()

    def count(self, *, progress: OnScanProgress | bool | None = None) -> int:
        """Count the rows, by metadata where that is exact. ``progress`` is that of `to_arrow`."""
        check_progress(progress, "ScanProgress")
        plan = self._bound.plan
        counts = plan.row_counts(self._bound.gives_deleted)
        known = pc.and_(pc.invert(plan.filtered), pc.is_valid(counts))
        total: int = pc.sum(counts.filter(known)).as_py() or 0
        left = None if self.limit is None else max(self.limit - total, 0)
        if left != 0 and not pc.all(known, min_count=0).as_py():
            rest = replace(self._bound.with_columns([]).of_files(pc.invert(known)), limit=left)
            total += sum(batch.num_rows for batch in self._batches(rest, progress))
        return total if self.limit is None else min(total, self.limit)

    def min(self, column: ColumnName, *, progress: OnScanProgress | bool | None = None) -> Any:
        """Return the smallest value of a column, by metadata where that is exact; None if there is no value.

        NaN is greater than any other number, as in Spark SQL. ``progress`` is that of `to_arrow`.

        Examples
        --------
        >>> table.scan().min("id")
        1
        """
        return self._extreme(column, progress, largest=False)

    def max(self, column: ColumnName, *, progress: OnScanProgress | bool | None = None) -> Any:
        """Return the greatest value of a column, by metadata where that is exact; None if there is no value.

        ``progress`` is that of `to_arrow`.

        Examples
        --------
        >>> table.scan("id < 3").max("name")
        'b'
        """
        return self._extreme(column, progress, largest=True)

    def to_spark(self, spark: SparkSession, road: Road = "auto") -> DataFrame:
        """Return the rows as a Spark DataFrame; the executors read the files (`deltaberg.spark`).

        Parameters
        ----------
        road
            ``native``: Spark's own Parquet reader decodes the files. ``arrow``: this library decodes them in Python,
            and the rows are passed to the JVM. ``auto``: native for each file that Spark reads exactly, where that is
            worth it; else arrow.

        Raises
        ------
        InvalidArgumentError
            If the native road is asked for but is not exact for every file; the message says why.
        """
        return spark_engine().scan_to_spark(self, spark, road)

    def map_in_arrow(
        self, spark: SparkSession, fn: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], schema: Any
    ) -> DataFrame:
        """Run a function over the rows in the Spark tasks that read them, and return what it yields as a DataFrame.

        Rows are not passed to the JVM before the function has seen them.

        Parameters
        ----------
        fn
            Takes an iterator of record batches with the schema of the scan, and yields record batches of ``schema``. It
            is called once in each task that has something to read.
        schema
            What ``fn`` yields: DDL text, a Spark StructType or a pyarrow schema.
        """
        return spark_engine().scan_map_in_arrow(self, spark, fn, schema)

    def _extreme(self, column: ColumnName, progress: OnScanProgress | bool | None, *, largest: bool) -> Any:
        check_progress(progress, "ScanProgress")
        bound = self._bound
        with in_context(table=bound.source.table):
            extreme = MinMax(find_column(bound.source.schema, column), largest, bound.gives_deleted)
        rest = bound.with_columns([column])
        if self.limit is None:
            rest = rest.of_files(pc.invert(extreme.take_known(bound.plan)))
        for batch in self._batches(rest, progress):
            extreme.take_rows(batch)
        return extreme.value


def bound_scan(scan: Scan) -> BoundScan:
    """Return what a public scan keeps to itself: its source, its plan, and its columns as table types."""
    return scan._bound  # noqa: SLF001 - the one place that looks behind a Scan


def _metrics(plan: Plan, counters: ReadCounters) -> ScanMetrics:
    return ScanMetrics(
        files_total=plan.steps[0].files,
        files_planned=len(plan.files),
        row_groups=counters.row_groups,
        row_groups_skipped=counters.row_groups_skipped,
        requests=counters.requests,
        bytes_read=counters.bytes_read,
        rows_read=counters.rows_read,
        rows=counters.rows,
    )


def _promoted(table: pa.Table) -> pa.Table:
    """Return a table in which columns that are too large for one array have large types."""
    for index, child in enumerate(table.schema):
        large = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}.get(child.type)
        if large is not None and table.column(index).nbytes > _INT32_MAX:
            table = table.set_column(index, child.with_type(large), table.column(index).cast(large))
    return table
