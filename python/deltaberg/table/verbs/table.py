"""The base of tables of both formats: scans, verbs that each make one commit, and transactions."""

from __future__ import annotations

import copy
import datetime as dt
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import pyarrow as pa

from deltaberg.engines import spark_engine
from deltaberg.errors import InvalidArgumentError
from deltaberg.expressions.build.filters import Filter
from deltaberg.hints import at_fault
from deltaberg.schema.arrow import arrow_schema
from deltaberg.schema.columns import ColumnName
from deltaberg.schema.types import Struct
from deltaberg.signatures import NEEDED, public, takes
from deltaberg.table.arguments import Instant, checked_flag, checked_seconds, integer_of, parse_instant, zone_of
from deltaberg.table.commit.commit import CommitResult
from deltaberg.table.commit.commit_options import CommitOptions
from deltaberg.table.read.bound import BoundScan
from deltaberg.table.read.notebook import as_html
from deltaberg.table.read.scan import Scan
from deltaberg.table.read.scan_options import ScanOptions, scan_options
from deltaberg.table.read.source import ScanSource
from deltaberg.table.verbs.maintained import MaintainedTable
from deltaberg.table.verbs.readable import ReadableTable
from deltaberg.table.verbs.shared_arguments import (
    RecordedArguments,
    RowArguments,
    ScanArguments,
    arguments_of,
)
from deltaberg.table.verbs.verbs import Verbs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from typing_extensions import Unpack

    from deltaberg.table.change.changed_rows import RowTasks
    from deltaberg.table.maintain.file_tasks import FileTasks
    from deltaberg.table.maintain.restored import RestoreRequest, RestoreResult
    from deltaberg.table.streaming.follow import FollowedCommit, FollowRequest
    from deltaberg.table.streaming.table_stream import TableStream
    from deltaberg.table.transaction.operations import Operations
    from deltaberg.table.transaction.transaction import Transaction
    from deltaberg.table.verbs.table_transaction import TableTransaction
    from deltaberg.table.write.sources import WriteRoad

__all__ = ["Table", "operations_of"]

_Own = TypeVar("_Own", bound="Table[Any, Any]")
_Transaction_co = TypeVar("_Transaction_co", bound="TableTransaction[Any, Any]", covariant=True)
_Run = TypeVar("_Run", bound="Operations[Transaction]")
_Alteration = TypeVar("_Alteration")


@public
class Table(Verbs[CommitResult], ReadableTable, MaintainedTable, Generic[_Transaction_co, _Alteration]):
    """One state of a table. The verbs move the object to the new state; scans that were made before stay."""

    #: What scans of the state read.
    _source: ScanSource
    #: What reads and writes files of the table to change rows; None for this machine.
    _row_tasks: RowTasks | None = None
    #: What lists directories, and deletes and copies files of the table; None for this machine.
    _file_tasks: FileTasks | None = None

    @property
    @abstractmethod
    def schema(self) -> Struct:
        """The columns as table types, with their metadata and ids."""

    @abstractmethod
    def refresh(self: _Own) -> _Own:
        """Move to the newest state, and return the table. Scans that were made before keep their state."""

    @abstractmethod
    def _begin(self, options: CommitOptions) -> _Transaction_co:
        """Begin a transaction on this state."""

    @abstractmethod
    def _follow(self, asked: FollowRequest) -> tuple[TableStream[Any], Any]:
        """Return the stream by which the table is followed, and where it begins; None for its own beginning."""

    @abstractmethod
    def _restore(self, begin: Callable[[], Any], asked: RestoreRequest) -> RestoreResult:
        """Set the table back, in a transaction on the newest state that this begins."""

    @property
    def arrow_schema(self) -> pa.Schema:
        """The columns as Arrow types."""
        return arrow_schema(self.schema)

    def _repr_html_(self) -> str:
        """Return the state and the columns, for notebooks. Nothing is read."""
        kind = type(self).__name__.removesuffix("Table")
        facts = (f"{kind} table {self.location}", self._source.description)
        return as_html(facts, ((field.name, str(field.type)) for field in self.schema))

    @takes(ScanArguments)
    def scan(
        self,
        filter: Filter | None = None,
        columns: Sequence[ColumnName] | None = None,
        limit: int | None = None,
        *,
        options: ScanOptions | None = None,
        **execution: Unpack[ScanArguments],
    ) -> Scan:
        """Return a scan of rows and columns of the state that is open. Nothing is read yet.

        Parameters
        ----------
        filter
            The condition that rows have to meet: SQL text, an expression of `col`, or tuples as pyarrow takes them.
        columns
            The names of columns; dots lead into structs, and ``["*"]`` are all. Columns that tell where rows come from
            are read only if they are named: ``_metadata`` of a Delta table, and of an Iceberg table ``_file``,
            ``_pos``, ``_spec_id``, ``_partition``, ``_deleted``, and from version 3 on ``_row_id`` and
            ``_last_updated_sequence_number``. With ``_deleted``, the scan also returns deleted rows.
        limit
            The most rows to return.
        options
            How the scan is executed. Single options can be passed by name instead, as ``batch_size=1000``.
        """
        return self._scan(self._source, filter, columns, limit, options, execution)

    def _scan(
        self,
        source: ScanSource,
        filter: Filter | None,
        columns: Sequence[ColumnName] | None,
        limit: int | None,
        options: ScanOptions | None,
        execution: Mapping[str, Any],
    ) -> Scan:
        chosen = scan_options(options, execution, self._options.timezone)
        return Scan(BoundScan.of(source, filter=filter, columns=columns, limit=limit, options=chosen))

    @takes(ScanArguments)
    def follow(
        self,
        start: int | Instant | None = None,
        *,
        changes: bool = False,
        skip_changes: bool = False,
        poll: float | None = None,
        stop: threading.Event | None = None,
        filter: Filter | None = None,
        columns: Sequence[ColumnName] | None = None,
        options: ScanOptions | None = None,
        **execution: Unpack[ScanArguments],
    ) -> Iterator[FollowedCommit]:
        """Follow the table: its rows first, then those of each commit, each commit once.

        Every commit has a token, by which another call goes on after it, also in another process. The tokens are the
        offsets of delta-spark and iceberg-spark. Compactions, and other commits that change no rows, are left out.

        Parameters
        ----------
        start
            Where to begin: by default with the rows that the table has. ``latest`` begins after them; a version of a
            Delta table, or a snapshot of an Iceberg table, with that commit; an instant with the first commit that is
            not older; and the token of a commit after it.
        changes
            Give all changes in place of added rows, with the columns that `changes` adds. Delta tables need the change
            data feed for it.
        skip_changes
            Pass over commits that change or delete rows, which are refused by default.
        poll
            How many seconds to wait before the table is looked at again where nothing is new. By default the iterator
            ends there.
        stop
            An event that ends the iterator when it is set.
        filter, columns, options
            As for `scan`.

        Returns
        -------
        Iterator
            The commits: see `FollowedCommit`. Only what is open of them is held in memory.

        Raises
        ------
        VersionNotFoundError
            Commits that come next were cleaned up or expired, or the table was made anew.
        UnsupportedFeatureError
            A commit changes or deletes rows.
        SchemaError
            A commit changes columns: open the table again, and go on from the last token.
        InvalidArgumentError
            An argument is not valid.

        Examples
        --------
        >>> import pyarrow as pa
        >>> (first,) = table.follow()
        >>> first.rows.count(), first.is_initial
        (3, True)
        >>> _ = table.append(pa.table({"id": [4], "name": ["d"]}))
        >>> [commit.rows.to_arrow()["id"].to_pylist() for commit in table.follow(first.token)]
        [[4]]
        """
        from deltaberg.table.streaming.follow import LATEST, FollowRequest, follow, read_token

        waits = None if poll is None else checked_seconds("poll", poll)
        if stop is not None and not isinstance(stop, threading.Event):
            raise InvalidArgumentError(
                at_fault("stop", f"must be a threading.Event, not {type(stop).__name__}"), hint="or leave it out"
            )
        version, named = integer_of(start), start if isinstance(start, str) else ""
        is_token = named.lstrip().startswith("{")
        is_instant = start is not None and version is None and named != LATEST and not is_token
        millis = parse_instant(cast("Instant", start), zone_of(self._options.timezone)) if is_instant else None
        flags = checked_flag("changes", changes), checked_flag("skip_changes", skip_changes)
        stream, begin = self._follow(FollowRequest(version, millis, *flags))
        if named == LATEST:
            begin = stream.newest()
        elif is_token:
            begin = stream.read_position(read_token(named))

        def scan_of(source: ScanSource) -> Scan:
            return self._scan(source, filter, columns, None, options, execution)

        scan_of(stream.source)
        return follow(stream, begin, scan_of, waits, stop)

    @takes(RecordedArguments)
    def transaction(self, **commit: Unpack[RecordedArguments]) -> _Transaction_co:
        """Begin a transaction on this state: several operations that become one commit, or none.

        The result is a context manager, which commits at the end. Its operations have the names of those of the table,
        and each sees what the ones before it did. After the commit the table object moves to the new state, and
        ``result`` of the transaction says what was done. Outside of a ``with`` block nothing is committed until its
        ``commit()`` is called. A transaction that has ended cannot be used again.

        Parameters
        ----------
        **commit
            How the commit is made, from ``txn`` on: see `Verbs`.

        Raises
        ------
        InvalidArgumentError
            The table was opened at a version, a snapshot, a timestamp or a tag, or with a ``location_map``. Or there is
            no such branch.
        UnsupportedFeatureError
            The table needs what is not written, or the store has no conditional put.

        Examples
        --------
        >>> import pyarrow as pa
        >>> with table.transaction(user_metadata="nightly load") as transaction:
        ...     transaction.overwrite(pa.table({"id": [7], "name": ["g"]}))
        ...     transaction.append(pa.table({"id": [8], "name": ["h"]}))
        >>> transaction.result.inserted_rows, table.scan().to_arrow()["id"].to_pylist()
        (2, [7, 8])
        """
        options = CommitOptions.of(commit)
        self._options.require_newest()
        made = self._begin(options)
        operations_of(made).transaction.row_tasks = self._row_tasks
        return made

    def _run(self, verb: Callable[[Operations[Transaction]], object], arguments: Mapping[str, Any]) -> CommitResult:
        commit: Any = arguments_of(RecordedArguments, arguments)
        with self.transaction(**commit) as transaction:
            verb(operations_of(transaction))
            return transaction.commit()

    @takes(RecordedArguments)
    def alter(self, **commit: Unpack[RecordedArguments]) -> _Alteration:
        """Begin changes of columns, properties and whatever else the format has, which ``commit()`` makes one commit.

        Rows are rewritten only where a Delta table is partitioned otherwise, or loses its column mapping. See the
        ``Alteration`` of the format for the changes.

        Parameters
        ----------
        **commit
            As for `transaction`.

        Examples
        --------
        >>> table.alter().set({"owner": "ada"}).commit().committed
        True
        >>> table.properties
        {'owner': 'ada'}
        """
        made: _Alteration = operations_of(self.transaction(**commit)).alter(is_part=False)
        return made

    @takes(RecordedArguments)
    def restore(
        self,
        target: int | str | dt.date,
        *,
        ignore_missing_files: bool = False,
        unsafe_expired: bool = False,
        dry_run: bool = False,
        **commit: Unpack[RecordedArguments],
    ) -> RestoreResult:
        """Set the table back to an older state, by a new commit: the history stays.

        A Delta table gets the rows, the schema, the properties, the constraints and the domains of the version. Its
        protocol stays at least as high as it is, and so do the marks up to which ids were given. Files that were
        removed so long ago that a vacuum may be deleting them are not restored. If another commit changes rows, or the
        table, meanwhile, nothing is committed.

        An Iceberg table is rolled back to a snapshot that led to its newest one, as by
        ``alter().rollback_to_snapshot()``. Schema and properties stay as they are.

        Parameters
        ----------
        target
            The version of a Delta table, or the number of an Iceberg snapshot; or a time, for the state that was the
            newest one then. A time without a zone is in the zone that the table was opened with.
        ignore_missing_files
            Leave out files that are gone from the store, with their rows (Delta).
        unsafe_expired
            Restore files, too, that a vacuum may be deleting (Delta). Only pass it if none is running.
        dry_run
            Only return what would be done.
        **commit
            How the commit is made, and what it records: see `Verbs`.

        Returns
        -------
        RestoreResult
            The state, how many files the table has again and has no more, and the commit.

        Raises
        ------
        VersionNotFoundError
            The table has no such state, or has it no more.
        InvalidArgumentError
            A vacuum may be deleting files that are needed.
        DataFileNotFoundError
            Files that are needed are gone.
        CommitConflictError
            Another commit changed the table meanwhile.

        Examples
        --------
        >>> before = len(table.scan().to_arrow())
        >>> deleted = table.delete("id = 1")
        >>> result = table.restore(table.history()[1].version)
        >>> result.restored_files, len(table.scan().to_arrow()) == before
        (1, True)
        """
        from deltaberg.table.maintain.restored import RestoreRequest

        asked = RestoreRequest(target, self._options.zone, ignore_missing_files, unsafe_expired, dry_run)
        self._options.require_newest()
        # Nothing is put by a dry run, so that the store need not be probed, which would write an object.
        arguments: Any = {**commit, "unsafe_single_writer": True} if dry_run else commit

        def begin() -> Any:
            return operations_of(self.refresh().transaction(**arguments)).transaction

        return self._restore(begin, asked)

    @takes(RowArguments)
    def explain_append(
        self,
        data: Any = NEEDED,
        *,
        partition_by: ColumnName | Sequence[ColumnName] | None = None,
        **arguments: Unpack[RowArguments],
    ) -> WriteRoad:
        """Return the road that the rows of an append would take to data files, without writing anything.

        It is the one that ``road`` and ``why_not_native`` of the result of `append` name. On Spark the table, its
        columns and the arguments decide it, so that no job is started. An overwrite of all rows that keeps the columns
        takes the same road.

        Parameters
        ----------
        data
            The rows, as for `append`. Only their columns are looked at, but an iterator loses its first batch.
        partition_by, **arguments
            As for `append`, but for those of the commit.

        Returns
        -------
        WriteRoad
            ``name`` is ``local``, or for a Spark DataFrame ``native``, ``arrow`` or ``fused``. ``why_not_native`` says
            why Spark's own writer would not write the rows of a DataFrame.

        Raises
        ------
        SchemaError
            The rows do not fit the columns. The other errors are those of `append`, but for those of its commit.

        Examples
        --------
        >>> import pyarrow as pa
        >>> table.explain_append(pa.table({"id": [4], "name": ["d"]})).name
        'local'

        With rows of Spark::

            table.explain_append(spark.table("orders")).why_not_native
        """
        from deltaberg.table.write.asked_rows import AskedRows

        rows = AskedRows(data)
        # Nothing is put, so that the store need not be probed, which would write an object.
        transaction = self.transaction(unsafe_single_writer=True)
        try:
            transaction.append(rows, partition_by=partition_by, **arguments)
        finally:
            transaction.abort()
        return rows.found

    def on_spark(self: _Own, spark: SparkSession) -> _Own:  # noqa: PYI019 - typing.Self is younger than Python 3.10
        """Return the table as one that has Spark's tasks do the work of large operations.

        They look for rows where more than 2 GiB of the needed columns must be looked at, and write the files that take
        the place of others where more than 2 GiB must be read for that; less is done here. Compaction is among that:
        a task writes a bin, or a part of the rows of a large partition that are put into an order. Rows that a merge
        inserts are written here in any case. Tasks list the directories of a table of which the store holds at least
        50,000 files, and delete files where at least 10,000 go. They copy the files of a clone where there are
        at least 1,000. The object that this is called on stays as it is.

        Parameters
        ----------
        spark
            A session, either classic or of Spark Connect.

        Raises
        ------
        InvalidArgumentError
            The object is not a Spark session.

        Examples
        --------
        ::

            events = deltaberg.open_table("s3://bucket/events", "iceberg").on_spark(spark)
            events.delete("day < DATE '2020-01-01'")
            events.merge(updates, "target.id = source.id").when_matched_update_all().execute()
        """
        found = copy.copy(self)
        engine = spark_engine()
        # Another object of this class.
        found._row_tasks, found._file_tasks = engine.row_tasks(spark), engine.file_tasks(spark)  # noqa: SLF001
        return found


def operations_of(transaction: TableTransaction[_Run, Any]) -> _Run:
    """Return the operations that the verbs of a transaction are carried out by."""
    return transaction._operations  # noqa: SLF001 - callers must not see them
