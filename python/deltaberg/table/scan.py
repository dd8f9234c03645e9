"""A scan: which columns and rows of a table are wanted. It is lazy, and says what it did."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import DeltabergError, InvalidArgumentError, MissingDependencyError
from deltaberg.expressions import Filter, as_expression, bind, bound_paths
from deltaberg.files import DELETED, ReadCounters, ReadSpec, tasks_of
from deltaberg.schema import ColumnName, Struct, arrow_schema, find_column, select_columns, typical_width
from deltaberg.table.arguments import checked_flag, checked_limit
from deltaberg.table.execute import read_in_order
from deltaberg.table.explain import Explanation, explain_plan
from deltaberg.table.extremes import Extremes
from deltaberg.table.listing import list_files
from deltaberg.table.options import ScanOptions
from deltaberg.table.plan import Plan, group_tasks, make_plan, split_files, split_sizes
from deltaberg.table.source import DividedSource, ScanSource

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Scan", "ScanMetrics"]

_LOCAL_SPLIT = 64 << 20
_SPARK_SPLIT = 128 << 20
#: How much more of large files a task of Spark gets at most, where it reads few of their columns.
_MOST_WIDENED = 4
#: Bytes of metadata from which on planning is shared out among executors, and how many shares each task slot gets.
_MUCH_METADATA = 256 << 20
_PLANNING_SHARES = 4
#: More bytes than a file has.
_WHOLE = 1 << 62
_INT32_MAX = (1 << 31) - 1


@dataclass(frozen=True)
class ScanMetrics:
    """What the last execution of a scan did.

    ``rows_read`` counts rows that were decoded, ``rows`` those that were given; ``bytes_read`` those that came
    from stores, and ``requests`` how often one was asked.
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
        """Files that need not be read."""
        return self.files_total - self.files_planned


class Scan:
    """The rows of a table that a filter keeps, in the columns that are wanted.

    Nothing is read before a result is asked for. A scan keeps the snapshot that it was made of.

    Examples
    --------
    >>> scan = table.scan(filter="id >= 2", columns=["name"])
    >>> scan.to_arrow().to_pylist()
    [{'name': 'b'}, {'name': 'c'}]
    """

    def __init__(
        self,
        source: ScanSource,
        *,
        filter: Filter | None = None,
        columns: Sequence[ColumnName] | None = None,
        limit: int | None = None,
        options: ScanOptions | None = None,
    ) -> None:
        if columns is not None and (isinstance(columns, (str, bytes)) or not isinstance(columns, Iterable)):
            raise InvalidArgumentError(f"columns is {columns!r}", hint="pass a list of names")
        self.options = options or ScanOptions()
        self.limit = checked_limit(limit)
        self._source = source
        known = Struct((*source.schema, *source.hidden))
        try:
            self._condition = bind(as_expression(filter), known, self.options.timezone)
            self._output = source.schema if columns is None else select_columns(known, columns)
        except DeltabergError as error:
            raise error.with_context(table=source.table) from None
        self._plan: Plan | None = None
        self._metrics: ScanMetrics | None = None

    def __repr__(self) -> str:
        shown = ", ".join(self._output.names)
        return f"Scan({self._source.table!r}, {self._source.description}, columns=[{shown}], filter={self._condition})"

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the result."""
        return arrow_schema(self._output)

    @property
    def output(self) -> Struct:
        """The wanted columns as table types."""
        return self._output

    @property
    def source(self) -> ScanSource:
        """What is scanned."""
        return self._source

    @property
    def metrics(self) -> ScanMetrics | None:
        """What the last execution on this machine did; None before the first."""
        return self._metrics

    @property
    def plan(self) -> Plan:
        """The files that must be read."""
        if self._plan is None:
            self._plan = make_plan(self._source, self._condition)
        return self._plan

    def files(self, *, statistics: bool = False) -> pa.Table:
        """Give the files that the scan must read, a row a file.

        Columns: ``file_path`` (string, where the file is), ``file_format`` (string), ``file_size_in_bytes``
        (int64), ``modification_time`` (timestamp in milliseconds, UTC), ``record_count`` (int64, with deleted
        rows; null where it is not recorded), ``deleted_record_count`` (int64; null where delete files apply, which are
        not read for it), ``deletion_vector`` (a struct of ``file_path``, which is null where the log itself holds the
        vector, ``offset``, ``size_in_bytes`` and ``cardinality``; null where it has none), ``partition`` (a struct
        with a typed field for each partition column) and ``residual`` (bool, whether the filter must still be applied
        to the rows of the file).

        Parameters
        ----------
        statistics
            Add what is recorded of the scan's columns: ``lower_bounds`` and ``upper_bounds`` (structs with a typed
            field for each column whose values have an order; no value that is not null and not NaN lies outside)
            and ``null_value_counts`` (a struct of int64). Dots in the names of their fields lead into structs. Null
            is unknown.

        Examples
        --------
        >>> table.scan(columns=["id"]).files(statistics=True)["upper_bounds"].to_pylist()
        [{'id': 3}]
        """
        return list_files(self.plan, self._output if checked_flag("statistics", statistics) else None)

    def explanation(self, spark: SparkSession | None = None) -> Explanation:
        """Say what the scan reads and why, in parts for programs; `explain` gives the same as text.

        Examples
        --------
        >>> table.scan("id > 3").explanation().steps[-1]
        PruneStep(name='statistics', files=0, size=0)
        """
        split_size = self.options.split_size or _LOCAL_SPLIT
        found = explain_plan(self.plan, self._output, self._read_constants(), self.limit, split_size)
        if spark is None:
            return found
        from deltaberg.spark import explain_roads

        return replace(found, road=explain_roads(self, spark))

    def explain(self, spark: SparkSession | None = None) -> str:
        """Say what the scan reads and why: the files that each step keeps, the columns, the filter that remains.

        With a Spark session, also by which road `to_spark` reads each file there, and why.
        """
        return str(self.explanation(spark))

    def to_batches(self) -> Generator[pa.RecordBatch, None, None]:
        """Give the rows in batches, none of them empty, files in the order of `files`; closing it ends the reading."""
        tasks = list(tasks_of(self._tasks(self.options.split_size or _LOCAL_SPLIT)))
        counters = ReadCounters()
        left = self.limit
        try:
            for batch in read_in_order(self.read_spec, tasks, self._threads, self.options.memory // 2, counters):
                if left is None:
                    yield batch
                    continue
                if left > 0:
                    yield batch.slice(0, left)
                left -= min(left, batch.num_rows)
                if left == 0:
                    return
        finally:
            self._note(counters)

    def to_reader(self) -> pa.RecordBatchReader:
        """Give the rows as a stream of batches."""
        return pa.RecordBatchReader.from_batches(self.schema, self.to_batches())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Give the rows by the Arrow PyCapsule interface: DuckDB, Polars and others take a scan as it is."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def to_arrow(self) -> pa.Table:
        """Give the rows as one Arrow table; columns of more than 2 GiB get large types."""
        return _promoted(pa.Table.from_batches(self.to_batches(), self.schema))

    def to_pandas(self, **options: Any) -> pd.DataFrame:
        """Give the rows as a pandas frame; options are those of `pyarrow.Table.to_pandas`."""
        try:
            return self.to_arrow().to_pandas(**options)
        except ImportError as error:
            raise MissingDependencyError("a pandas frame needs pandas", hint="pip install pandas") from error

    def to_polars(self) -> pl.DataFrame:
        """Give the rows as a Polars frame."""
        try:
            import polars as pl
        except ImportError as error:
            raise MissingDependencyError("a Polars frame needs polars", hint="pip install polars") from error
        return pl.DataFrame(self.to_arrow())

    def count(self) -> int:
        """Count the rows, from metadata where that is exact."""
        plan = self.plan
        counts = plan.row_counts(self._gives_deleted)
        known = pc.and_(pc.invert(plan.filtered), pc.is_valid(counts))
        total: int = pc.sum(counts.filter(known)).as_py() or 0
        left = None if self.limit is None else max(self.limit - total, 0)
        if left != 0 and not pc.all(known, min_count=0).as_py():
            rest = self._part([], _chosen(plan, pc.invert(known)), left)
            total += sum(batch.num_rows for batch in rest.to_batches())
            self._metrics = rest.metrics
        return total if self.limit is None else min(total, self.limit)

    def min(self, column: ColumnName) -> Any:
        """Give the smallest value of a column, from metadata where that is exact; None where there is none.

        NaN is greater than any other number, as in Spark SQL.

        Examples
        --------
        >>> table.scan().min("id")
        1
        """
        return self._extreme(column, largest=False)

    def max(self, column: ColumnName) -> Any:
        """Give the greatest value of a column, from metadata where that is exact; None where there is none.

        Examples
        --------
        >>> table.scan("id < 3").max("name")
        'b'
        """
        return self._extreme(column, largest=True)

    def to_spark(self, spark: SparkSession, road: str = "auto") -> DataFrame:
        """Give the rows as a Spark DataFrame; the executors read the files (`deltaberg.spark`).

        Parameters
        ----------
        road
            ``native``: Spark's own Parquet reader decodes the files. ``arrow``: we do, and the rows cross into the JVM.
            ``auto``: native for each file of which Spark gives the very rows, where that is worth it; else arrow.

        Raises
        ------
        InvalidArgumentError
            Where the native road is asked for, and is not exact for every file; the message says why.
        """
        from deltaberg.spark import scan_to_spark

        return scan_to_spark(self, spark, road)

    def map_in_arrow(
        self, spark: SparkSession, fn: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], schema: Any
    ) -> DataFrame:
        """Run a function over the rows in the Spark tasks that read them, and give what it yields as a DataFrame.

        No row crosses into the JVM before the function has seen it.

        Parameters
        ----------
        fn
            Takes an iterator of record batches of exactly `schema`, and yields record batches of ``schema``. It is
            called once in each task that has anything to read.
        schema
            What ``fn`` yields: DDL text, a Spark StructType or a pyarrow schema.
        """
        from deltaberg.spark import scan_map_in_arrow

        return scan_map_in_arrow(self, spark, fn, schema)

    @cached_property
    def read_spec(self) -> ReadSpec:
        """What all tasks of the scan have in common."""
        source = self._source
        return ReadSpec(
            table=source.table,
            store=source.store,
            output=self._output,
            constants=self._read_constants(),
            layout=source.layout,
            residual=self._condition,
            batch_size=self.options.batch_size,
            memory=self.options.memory // (2 * self._threads + 2),
        )

    def spark_tasks(self, parallelism: int) -> list[pa.RecordBatch]:
        """Give groups of splits for Spark: large files split, small ones packed, to as many bytes of wanted columns.

        A limit is kept across tasks: where the number of rows in each file is known it is shared out, else one
        task reads everything.
        """
        limits = self._limits()
        tasks = split_files(self.plan, self.options.split_size or _SPARK_SPLIT, self._read_constants(), limits)
        if self.limit is not None and limits is None:
            return [tasks] if tasks.num_rows else []
        if limits is not None:
            tasks = tasks.filter(pc.greater(tasks.column("limit"), 0))
        return group_tasks(tasks, _SPARK_SPLIT, parallelism, 1 if _has_rows(tasks) else self._share)

    def bytes_read(self, groups: Iterable[pa.RecordBatch]) -> int:
        """Guess the bytes of groups of tasks that are in the columns to be read."""
        share = self._share
        return int(
            sum((pc.sum(split_sizes(tasks)).as_py() or 0) * (1 if _has_rows(tasks) else share) for tasks in groups)
        )

    def file_tasks(self) -> pa.RecordBatch:
        """Give one task for each file, without the limit."""
        return split_files(self.plan, _WHOLE, self._read_constants())

    def of_files(self, mask: pa.BooleanArray) -> Scan:
        """Give the scan of some of the planned files, without the limit."""
        return self._of(self._source, self._output, None, _chosen(self.plan, mask))

    def planning_parts(self, parallelism: int) -> list[pa.Table] | None:
        """Give pieces of metadata, each to be planned elsewhere by `of_pieces`; None where planning belongs here.

        Raises
        ------
        InvalidArgumentError
            Where the scan shall be planned elsewhere, and cannot be.
        """
        source, mode = self._source, self.options.planning
        if mode == "driver" or (mode == "auto" and self.limit is not None):
            return None
        pieces = None
        if self.limit is None and isinstance(source, DividedSource):
            pieces = source.divide(self._condition)
        if pieces is None:
            if mode == "auto":
                return None
            why = "it has a limit" if self.limit is not None else "its metadata is read as a whole"
            raise InvalidArgumentError(
                f"the scan cannot be planned on executors: {why}", hint="pass planning='driver'", table=source.table
            )
        if mode == "auto" and (pc.sum(pieces.column("length")).as_py() or 0) < _MUCH_METADATA:
            return None
        size = max(1, math.ceil(len(pieces) / (_PLANNING_SHARES * parallelism)))
        return [pieces.slice(start, size) for start in range(0, len(pieces), size)]

    def of_pieces(self, pieces: pa.Table) -> Scan:
        """Give the scan of the files that pieces of metadata list."""
        if not isinstance(self._source, DividedSource):
            raise InvalidArgumentError("the metadata of the table is read as a whole", table=self._source.table)
        return self._of(self._source.part(pieces), self._output)

    def _limits(self) -> pa.Array | None:
        """Share the limit out among files whose rows are counted; None where they are not."""
        if self.limit is None:
            return None
        counts = self.plan.row_counts(self._gives_deleted)
        if counts.null_count or pc.any(self.plan.filtered, min_count=0).as_py():
            return None
        before = pc.subtract(pc.cumulative_sum(counts), counts)
        left = pc.max_element_wise(pc.subtract(self.limit, before), 0)
        return pc.min_element_wise(left, counts)

    def _tasks(self, split_size: int) -> pa.RecordBatch:
        return split_files(self.plan, split_size, self._read_constants())

    @property
    def _share(self) -> float:
        """Guess how much of the bytes of files that hold columns is in those that the output or the filter needs."""
        whole = sum(typical_width(child.type) for child in self._source.schema)
        # Of the columns of the output, those that are nested may be there in part.
        filtered = {path[0].name: path[-1] for path in bound_paths(self._condition)}
        read = {**filtered, **{child.name: child for child in self._output}}
        wanted = sum(typical_width(child.type) for child in read.values())
        return min(max(wanted / max(whole, 1), 1 / _MOST_WIDENED), 1)

    def _read_constants(self) -> Struct:
        """Give the constant columns that the output or the filter needs."""
        needed = self._needed
        return Struct(tuple(child for child in self._source.constants if child.name in needed))

    @property
    def _gives_deleted(self) -> bool:
        """Whether the output or the filter asks which rows are deleted: then those are given too."""
        return DELETED in self._source.layout.computed & self._needed

    @property
    def _needed(self) -> set[str]:
        """The names of the columns that the output or the filter needs."""
        return {child.name for child in self._output} | {path[0].name for path in bound_paths(self._condition)}

    @property
    def _threads(self) -> int:
        return self.options.readers

    def _extreme(self, column: ColumnName, *, largest: bool) -> Any:
        try:
            found = Extremes(find_column(self._source.schema, column), largest, self._gives_deleted)
        except DeltabergError as error:
            raise error.with_context(table=self._source.table) from None
        if self.limit is None:
            rest = self._part([column], _chosen(self.plan, pc.invert(found.take_known(self.plan))), None)
        else:
            rest = self._part([column], self.plan, self.limit)
        for batch in rest.to_batches():
            found.take_rows(batch)
        self._metrics = rest.metrics
        return found.value

    def _part(self, columns: Sequence[ColumnName], plan: Plan, limit: int | None) -> Scan:
        """Give a scan of other columns of the rows in some of the files."""
        known = Struct((*self._source.schema, *self._source.hidden))
        wanted = [*columns, DELETED] if self._gives_deleted else columns
        return self._of(self._source, select_columns(known, wanted), limit, plan)

    def _of(self, source: ScanSource, output: Struct, limit: int | None = None, plan: Plan | None = None) -> Scan:
        """Give a scan of a source of the same columns, with the same filter."""
        scan = Scan(source, columns=[], limit=limit, options=self.options)
        scan._condition, scan._output, scan._plan = self._condition, output, plan
        return scan

    def __getstate__(self) -> dict[str, Any]:
        # Plans are made where they are needed; what they hold is large.
        return {**self.__dict__, "_plan": None, "_metrics": None}

    def _note(self, counters: ReadCounters) -> None:
        self._metrics = ScanMetrics(
            files_total=self.plan.steps[0].files,
            files_planned=len(self.plan.files),
            row_groups=counters.row_groups,
            row_groups_skipped=counters.row_groups_skipped,
            requests=counters.requests,
            bytes_read=counters.bytes_read,
            rows_read=counters.rows_read,
            rows=counters.rows,
        )


def _chosen(plan: Plan, mask: pa.BooleanArray) -> Plan:
    """Give a plan of some of the files."""
    return replace(
        plan, files=plan.files.filter(mask), filtered=plan.filtered.filter(mask), _record_counts=None, _located=None
    )


def _promoted(table: pa.Table) -> pa.Table:
    """Give large types to columns that one array of theirs could not hold."""
    for index, child in enumerate(table.schema):
        large = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}.get(child.type)
        if large is not None and table.column(index).nbytes > _INT32_MAX:
            table = table.set_column(index, child.with_type(large), table.column(index).cast(large))
    return table


def _has_rows(tasks: pa.RecordBatch) -> bool:
    """Say whether any task is of a file of rows, of which no column is read alone."""
    return bool(pc.any(pc.equal(tasks.column("format"), "avro"), min_count=0).as_py())
