"""The base of tables of both formats: scans, verbs that each make one commit, and transactions."""

from __future__ import annotations

import copy
import datetime as dt
import os
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, get_args

import pyarrow as pa

from deltaberg.choices import MaintenanceStep, VerifyDepth
from deltaberg.engines import spark_engine
from deltaberg.errors import InvalidArgumentError, UnsupportedFeatureError
from deltaberg.expressions.build.filters import Filter
from deltaberg.hints import Hint
from deltaberg.lists import listed
from deltaberg.schema.arrow import arrow_schema
from deltaberg.schema.columns import ColumnNames, column_names
from deltaberg.schema.types import Struct
from deltaberg.signatures import NEEDED, public, takes
from deltaberg.table.arguments import (
    Instant,
    checked_choice,
    checked_flag,
    checked_kind,
)
from deltaberg.table.commit.commit import CommitResult
from deltaberg.table.commit.commit_options import CommitOptions
from deltaberg.table.formats import ICEBERG
from deltaberg.table.open.opening import OpenOptions
from deltaberg.table.read.bound import BoundScan
from deltaberg.table.read.notebook import as_html
from deltaberg.table.read.scan import OnScanProgress, Scan
from deltaberg.table.read.scan_options import ScanOptions, scan_options
from deltaberg.table.read.source import ScanSource
from deltaberg.table.read.unread_rows import UnreadRows
from deltaberg.table.verbs.shared_arguments import (
    CloneArguments,
    CompactArguments,
    DescribedArguments,
    ProgressArguments,
    RecordedArguments,
    RowArguments,
    ScanArguments,
    arguments_of,
)
from deltaberg.table.verbs.verbs import Verbs

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    from pyspark.sql import SparkSession
    from typing_extensions import Unpack

    from deltaberg.choices import MaintenanceStep
    from deltaberg.storage.options.options import StoreOptions
    from deltaberg.table.change.changed_rows import RowTasks
    from deltaberg.table.maintain.cloning.cloned import CloneRequest, CloneResult
    from deltaberg.table.maintain.compact import Compaction
    from deltaberg.table.maintain.compact_result import CompactResult
    from deltaberg.table.maintain.file_tasks import FileTasks
    from deltaberg.table.maintain.maintenance import (
        MaintenancePolicy,
        MaintenanceResult,
        OnMaintenanceProgress,
        OnStep,
        Step,
    )
    from deltaberg.table.maintain.purge import Purge
    from deltaberg.table.maintain.restored import RestoreRequest, RestoreResult
    from deltaberg.table.maintain.verifying.findings import Finding, VerifyResult
    from deltaberg.table.maintain.verifying.repairs import RepairResult
    from deltaberg.table.rows.progress import Told
    from deltaberg.table.streaming.follow import FollowedCommit, FollowRequest
    from deltaberg.table.streaming.table_stream import TableStream
    from deltaberg.table.transaction.operations import Operations
    from deltaberg.table.transaction.transaction import Transaction
    from deltaberg.table.verbs.table_transaction import TableTransaction
    from deltaberg.table.write.sources import WriteRoad

__all__ = ["Table", "operations_of", "without_probe"]

_Own = TypeVar("_Own", bound="Table[Any, Any]")
_Transaction_co = TypeVar("_Transaction_co", bound="TableTransaction[Any, Any]", covariant=True)
_Run = TypeVar("_Run", bound="Operations[Transaction]")
_Alteration = TypeVar("_Alteration")


#: The arguments of opening a table that choose one of its states.
_PINS = ("version", "snapshot_id", "timestamp")


@public
class Table(Verbs[CommitResult], UnreadRows, Generic[_Transaction_co, _Alteration]):
    """One state of a table. The verbs move the object to the new state; scans that were made before stay."""

    #: How the table was opened.
    _options: OpenOptions
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
    def _compact(self, begin: Callable[[], Transaction], compaction: Compaction) -> CompactResult:
        """Write files anew."""

    def _upgrade(
        self, to: int, asked: Compaction, next_commit: Callable[[], Any], rewrite: Callable[[Purge], CompactResult]
    ) -> CompactResult:
        """Make a Delta table compatible with Iceberg; others refuse it."""
        name = "upgrade_iceberg_compat"
        raise UnsupportedFeatureError(
            ICEBERG.why_not(name), hint="leave it out", table=self.location, feature=Hint(f"⟪{name}⟫")
        )

    @property
    @abstractmethod
    def location(self) -> str:
        """Where the table is."""

    @abstractmethod
    def _verify(self, depth: VerifyDepth, told: Told, *, is_pinned: bool) -> VerifyResult:
        """Compare a state with the store: the one that is open, if it is pinned, or else the newest one."""

    @abstractmethod
    def _repair(self, findings: list[Finding] | None, begin: Callable[[], Any], *, dry_run: bool) -> RepairResult:
        """Take lost files out of the state that is open, in a transaction that is begun by this, or only find them."""

    @abstractmethod
    def _clone(self, asked: CloneRequest) -> CloneResult:
        """Make another table of a state."""

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
        columns: ColumnNames | None = None,
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
            The name of a column, or several in a list, an array or an index; dots lead into structs, and ``*`` is all.
            Columns that tell where rows come from are read only if they are named: ``_metadata`` of a Delta table, and
            of an Iceberg table ``_file``, ``_pos``, ``_spec_id``, ``_partition``, ``_deleted``, and from version 3 on
            ``_row_id`` and ``_last_updated_sequence_number``. With ``_deleted``, the scan also returns deleted rows.
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
        columns: ColumnNames | None,
        limit: int | None,
        options: ScanOptions | None,
        execution: Mapping[str, Any],
    ) -> Scan:
        chosen = scan_options(options, execution, self._options.timezone)
        return Scan(BoundScan.of(source, filter=filter, columns=columns, limit=limit, options=chosen))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the rows through the Arrow PyCapsule interface: DuckDB, Polars and others take a table as it is."""
        return self.scan().__arrow_c_stream__(requested_schema)

    def to_arrow(self, *, progress: OnScanProgress | bool | None = None) -> pa.Table:
        """Return all rows as one Arrow table, as `Scan.to_arrow` does.

        Examples
        --------
        >>> table.to_arrow()["id"].to_pylist()
        [1, 2, 3]
        """
        return self.scan().to_arrow(progress=progress)

    def to_pandas(self, *, progress: OnScanProgress | bool | None = None, **options: Any) -> pd.DataFrame:
        """Return all rows as a pandas DataFrame; options and errors are those of `Scan.to_pandas`."""
        return self.scan().to_pandas(progress=progress, **options)

    def to_polars(self, *, progress: OnScanProgress | bool | None = None) -> pl.DataFrame:
        """Return all rows as a Polars DataFrame, as `Scan.to_polars` does."""
        return self.scan().to_polars(progress=progress)

    def count(self, *, progress: OnScanProgress | bool | None = None) -> int:
        """Count the rows, by metadata where that is exact, as `Scan.count` does.

        Examples
        --------
        >>> table.count()
        3
        """
        return self.scan().count(progress=progress)

    def head(self, n: int = 5) -> pa.Table:
        """Return at most ``n`` rows as an Arrow table, as `Scan.head` does.

        Examples
        --------
        >>> table.head(2)["id"].to_pylist()
        [1, 2]
        """
        return self.scan().head(n)

    @takes(CompactArguments)
    def compact(
        self,
        where: Filter | None = None,
        *,
        min_files: int = 2,
        max_deleted: float = 0.05,
        group_size: int = 16 << 30,
        min_file_size: int | None = None,
        max_file_size: int | None = None,
        sort_by: ColumnNames | None = None,
        z_order_by: ColumnNames | None = None,
        hilbert_by: ColumnNames | None = None,
        cluster: bool | Literal["full"] | None = None,
        rewrite_all: bool = False,
        spec_id: int | None = None,
        max_concurrent: int | None = None,
        dry_run: bool = False,
        **arguments: Unpack[CompactArguments],
    ) -> CompactResult:
        """Put small files together, and drop deleted rows from files, without any change of the rows.

        Small files of a partition are put together in the order in which they were written, and their rows stay in
        order. Rows of Iceberg files of an older partitioning go to the partitions that new rows go to. Rows keep their
        ids, where they have such. The work is divided into groups, each of which is one commit. Appends meanwhile do
        not matter, and rows that are deleted meanwhile, without writing their files anew, are deleted from the new
        files. A group is left as it is if anything else became of one of its files. The old files stay in the store, so
        that older states can still be read.

        Parameters
        ----------
        where
            Only files in which rows can match this filter are rewritten; a filter on partition columns chooses whole
            partitions.
        min_files
            How many files are put into a new one at least. Fewer are if together they have more than half of the target
            size, and none of them alone. Where rows are put into an order, or the table is clustered, this and bounds
            of sizes do not count.
        max_deleted
            Files with a larger share of deleted rows are rewritten whatever their size. So are files to which equality
            deletes apply, or position delete files about several data files, and files with a deletion vector whose
            rows nobody has counted.
        group_size
            Bytes of the files that one commit replaces.
        min_file_size
            Files of at least so many bytes are large enough to stay; by default three quarters of the target size.
        max_file_size
            Files with more bytes are divided into files of the target size; by default those of Iceberg tables with
            more than 1.8 times the target size, and of Delta tables none.
        sort_by
            Sort the rows of each partition by these columns, with ``desc`` and ``nulls last`` where it is not the
            default, as in ``"day desc"``; of Iceberg tables also by transforms. Then all files in which rows can match
            are rewritten, whatever their size.
        z_order_by, hilbert_by
            The same along the Z-order curve or along Hilbert's curve through these columns, of Iceberg tables also
            through transforms such as ``days(at)``, so that a filter on any of them skips most files. Hilbert's curve
            skips a little more. The columns need statistics, and no direction is named.
        cluster
            A Delta table with clustering columns is clustered by default, as delta-spark does it: new files are put
            along Hilbert's curve, together with what was clustered before, until that has 100 GiB. Pass ``full``
            for files that were clustered by other columns, too, and False to put small files together as in any table.
        rewrite_all
            Rewrite files whatever their size, such as those of an older partitioning.
        spec_id
            Only files of this partition spec of an Iceberg table are rewritten. With ``rewrite_all``, all of its rows
            go to the partitions that new rows go to.
        max_concurrent
            How many new files are written at a time; by default the number of processors. Memory does not depend on it.
        dry_run
            Say how many files would be put together, and into how many, and write nothing.
        **arguments
            How files are written, and how the commits are made, from ``user_metadata`` on: see `Verbs`. New files have
            ``target_file_size`` at most, by default as the table says (``delta.targetFileSize``, else 128 MiB;
            ``write.target-file-size-bytes``). ``memory`` is 384 MiB by default; each of Spark's tasks has 512 MiB.

        Returns
        -------
        CompactResult
            What became of each group: its commit, or the conflict because of which its files stay.

        Raises
        ------
        InvalidArgumentError
            An argument is not valid.
        UnsupportedFeatureError
            The table needs what is not written, or has ids of rows that cannot be kept.
        CommitUnknownError
            It is not known whether the commit of a group took effect. Groups before it are committed, as the fact
            ``committed`` of this and of every other error says.

        Examples
        --------
        >>> import pyarrow as pa
        >>> for number in (4, 5):
        ...     _ = table.append(pa.table({"id": [number], "name": ["x"]}))
        >>> done = table.compact()
        >>> done.removed_files > done.added_files == 1, done.conflicts
        (True, [])
        """
        from deltaberg.table.maintain.compact import Compaction
        from deltaberg.table.maintain.packing import Packing
        from deltaberg.table.maintain.row_order import RowOrder
        from deltaberg.table.rows.row_options import RowOptions

        rows, order = RowOptions.of(arguments), RowOrder.of(sort_by, z_order_by, hilbert_by)
        sizes = (rows.target_file_size or 1, min_files, max_deleted, group_size, min_file_size, max_file_size)
        packing = Packing(*sizes, takes_all=checked_flag("rewrite_all", rewrite_all))
        compaction = Compaction(where, packing, rows, max_concurrent, order, dry_run, cluster, spec_id=spec_id)
        return self._rewrite(compaction, arguments)

    @takes(CompactArguments)
    def reorg(
        self,
        where: Filter | None = None,
        *,
        group_size: int = 16 << 30,
        max_concurrent: int | None = None,
        upgrade_iceberg_compat: Literal[1, 2] | None = None,
        dry_run: bool = False,
        **arguments: Unpack[CompactArguments],
    ) -> CompactResult:
        """Write those files anew that hold deleted rows or dropped columns, and no other ones: a purge.

        Afterwards no file has a deletion vector, and none holds a column, or a field of one, that the table lacks. Of
        an Iceberg table, no delete file applies to a file any more. Whether a file holds a dropped column only its
        footer tells, so that the footer of each file is read that has no deleted rows. Rows keep their ids, and change
        feeds show nothing. Like `compact`, this makes a commit for each group of files.

        The old files stay in the store until they are vacuumed, and older states show what they hold.

        Parameters
        ----------
        where
            Only files in which rows can match this filter are looked at.
        group_size, max_concurrent
            As for `compact`: files of a partition that are written anew are put together up to the target size.
        upgrade_iceberg_compat
            Make a Delta table compatible with Iceberg in place of the purge, by version 1 or 2 of the feature (Delta
            protocol, "IcebergCompatV1" and "IcebergCompatV2"), as delta-spark's ``UPGRADE UNIFORM`` does: deletion
            vectors are turned off and purged, the feature and column mapping are enabled, and for version 2 all files
            are written anew that were not written under it. ``delta.universalFormat.enabledFormats`` stays as it is.
            Version 1 needs a table without the feature ``deletionVectors``, which `drop_feature` takes away.
        dry_run
            Say how many files would be written anew, and write nothing.
        **arguments
            As for `compact`.

        Returns
        -------
        CompactResult
            What became of each group: its commit, or the conflict because of which its files stay. Of an upgrade,
            properties that are set are groups without files.

        Raises
        ------
        InvalidArgumentError
            An argument is not valid, or the table cannot be compatible with Iceberg.
        UnsupportedFeatureError
            The table needs what is not written, or has ids of rows that cannot be kept.
        DataFileNotFoundError, CorruptDataFileError
            The footer of a file cannot be read.
        CommitUnknownError
            It is not known whether the commit of a group took effect. Groups before it are committed, as the fact
            ``committed`` of this and of every other error says.

        Examples
        --------
        >>> table.reorg().removed_files
        0
        """
        from deltaberg.table.maintain.compact import Compaction
        from deltaberg.table.maintain.packing import Packing
        from deltaberg.table.maintain.purge import checked_upgrade
        from deltaberg.table.rows.progress import shared_progress
        from deltaberg.table.rows.row_options import RowOptions

        rows = RowOptions.of(arguments)
        packing = Packing(rows.target_file_size or 1, group_size=group_size, takes_all=True)
        asked = Compaction(where, packing, rows, max_concurrent, None, dry_run, False, purge="all")
        to = checked_upgrade(upgrade_iceberg_compat, where)
        if to is None:
            return self._rewrite(asked, arguments)
        with shared_progress(arguments_of(DescribedArguments, arguments)) as next_commit:
            return self._upgrade(
                to, asked, next_commit, lambda purge: self._rewrite(replace(asked, purge=purge), next_commit())
            )

    def maintain(
        self,
        policy: MaintenancePolicy | None = None,
        *,
        dry_run: bool = True,
        progress: OnMaintenanceProgress | bool | None = None,
    ) -> MaintenanceResult:
        """Do what the table needs to stay in order, or find out what that is: step by step, in the safe order.

        ``compact`` puts small files together and drops deleted rows, as `compact` does. A clustered table is clustered;
        there, what was clustered before is written anew only if new files add at least half of its bytes to it.
        An Iceberg table has five more steps: ``convert_equality_deletes`` before that,
        ``rewrite_position_delete_files`` after it, ``rewrite_manifests`` that are small or cover the same partitions,
        ``expire_snapshots`` as its properties say, and ``remove_orphan_files`` that are more than three days old. A
        Delta table has three more: ``vacuum`` deletes files that no version within the retention needs, ``checkpoint``
        writes one after enough commits, and ``cleanup_metadata`` deletes entries of the log that are older than their
        retention, unless ``delta.enableExpiredLogCleanup`` is false.

        What is in order already is left alone, so that a second run makes no commit. A run that was interrupted can be
        repeated.

        Parameters
        ----------
        policy
            Which steps are taken, and from when on they are due.
        dry_run
            Only find out. Pass False to do it.
        progress
            Is called with a `MaintenanceProgress` when a step begins, and whenever its verb tells how far it is; True
            shows it at a terminal or in a notebook.

        Returns
        -------
        MaintenanceResult
            What became of each step, in numbers.

        Raises
        ------
        InvalidArgumentError
            The table was opened at a version, a snapshot, a timestamp or a tag.
        UnsupportedFeatureError
            Tables of the format have no such step, or the table needs what is not written.
        DeltabergError
            A step failed as its verb does. Those before it are done, as the fact ``maintained`` says.

        Examples
        --------
        >>> import deltaberg
        >>> import pyarrow as pa
        >>> for number in range(4, 10):
        ...     _ = table.append(pa.table({"id": [number], "name": ["x"]}))
        >>> table.maintain()["compact"].numbers["added_files"]
        1
        >>> done = table.maintain(deltaberg.MaintenancePolicy(max_deleted=0.2), dry_run=False)
        >>> done.is_due, table.maintain().is_due
        (True, False)
        """
        from deltaberg.table.maintain.maintenance import MaintenancePolicy, maintain_table

        chosen = MaintenancePolicy() if policy is None else policy
        checked_kind("policy", chosen, MaintenancePolicy, "pass a MaintenancePolicy")
        checked_flag("dry_run", dry_run)
        self._options.require_newest()
        return maintain_table(self._maintenance(chosen), chosen, dry_run=dry_run, progress=progress)

    @takes(ProgressArguments)
    def verify(self, *, depth: VerifyDepth = "vectors", **shown: Unpack[ProgressArguments]) -> VerifyResult:
        """Compare what the metadata of the table says with what is in the store. Nothing is changed.

        The newest version or snapshot is verified, or the one that was opened by its number or a timestamp. Of an
        Iceberg table the snapshots of all branches and tags are verified as well, unless it was opened with one of
        these; older snapshots are not. An error of the store about a single file is a finding of its own kind
        (``unchecked``): nothing is known of such a file.

        Parameters
        ----------
        depth
            How closely files are looked at. ``names`` looks for every file that metadata names and compares its size.
            Of a Delta table, these are data files, deletion vectors, change data files that vacuum must still keep,
            checkpoints, their parts and sidecars, and log entries between others; it also compares the version checksum
            with the log. Of an Iceberg table, these are data files and delete files, manifests and their lists,
            statistics and older metadata; it also compares manifests with their entries, and looks for numbers and
            names that cannot be. ``vectors`` decodes every deletion vector, too. ``footers`` also reads the footer of
            every Parquet file, and compares its rows with what metadata says, which takes a request or two for each.
        **shown
            ``progress``, as for `Verbs`: it counts the files that were looked for, and those that were looked into.

        Returns
        -------
        VerifyResult
            The findings, and how much was looked at.

        Raises
        ------
        StorageError
            If the table cannot be listed.
        CorruptTableError
            If the log of a Delta table does not say what belongs to the version.

        Examples
        --------
        >>> table.verify().is_clean
        True
        """
        from deltaberg.table.rows.progress import summed

        chosen = checked_choice("depth", depth, get_args(VerifyDepth), "leave it out for vectors")
        is_pinned = any(getattr(self._options, name) is not None for name in _PINS)
        with summed(shown.get("progress")) as total:
            return self._verify(chosen, total.add, is_pinned=is_pinned)

    @takes(RecordedArguments)
    def repair(
        self,
        findings: VerifyResult | Iterable[Finding] | None = None,
        *,
        dry_run: bool = False,
        **commit: Unpack[RecordedArguments],
    ) -> RepairResult:
        """Take files that the store has lost out of the newest version or snapshot, by a commit of their own.

        A data file goes if it is lost, or if its deletion vector is, without which deleted rows would come back. Out of
        an Iceberg table go also branches and tags whose snapshot is not there, and lost statistics.
        The store has to say of each file that it is not there, in a listing and by its name, and again immediately
        before the commit. An error of the store is no such answer, so that the file stays. Rows that are gone are gone:
        put files back from a copy first, if there is one. Other findings, such as wrong sizes, are left as they are.

        Parameters
        ----------
        findings
            What `verify` found, or some of it, to look only for the files that were missing then; by default all files
            are looked for.
        dry_run
            Only return what would be done.
        **commit
            How the commit is made, and what it records: see `Verbs`.

        Returns
        -------
        RepairResult
            The files and the number of rows that are gone, and the commit, if there was something to repair.

        Raises
        ------
        InvalidArgumentError
            The table was opened at a version or a timestamp, or with a ``location_map``.
        ConstraintViolationError
            The table is append-only, and a file is lost.
        CommitConflictError
            A file is there again, or another commit changed it meanwhile. Nothing was committed.
        StorageError
            The store fails, so that it is not known whether the files are lost. Nothing was committed.

        Examples
        --------
        >>> table.repair(dry_run=True).files
        ()
        """
        checked_flag("dry_run", dry_run)
        listed = _listed(findings)
        self._options.require_newest()
        # A dry run leaves the table where it was opened.
        chosen = copy.copy(self) if dry_run else self
        chosen.refresh()
        arguments = without_probe(commit) if dry_run else commit
        return chosen._repair(  # noqa: SLF001 - it is of the same class
            listed, lambda: operations_of(chosen.transaction(**arguments)).transaction, dry_run=dry_run
        )

    @takes(CloneArguments)
    def clone(
        self,
        target: str | os.PathLike[str] | Sequence[str],
        *,
        shallow: bool = False,
        version: int | None = None,
        timestamp: Instant | None = None,
        replace: bool = False,
        properties: Mapping[str, Any] | None = None,
        catalog: Any = None,
        storage_options: StoreOptions | None = None,
        dry_run: bool = False,
        **commit: Unpack[CloneArguments],
    ) -> CloneResult:
        """Make another table of a state of this one: by default with copies of the files.

        A clone is a table of its own, with a new id and no history of the source. It has the rows of the state, and its
        columns, partitioning, properties, constraints and clustering.

        A deep clone of a Delta table can be repeated: then it becomes equal to the state by one commit, and only files
        that it lacks are copied. A table that others have changed since is not touched, unless ``replace`` is given. If
        a clone is interrupted, the next one goes on with the files that are there.

        **A shallow clone names the files of its source, which does not know its clones**: a vacuum of the source takes
        from a clone what the source has removed. An Iceberg table cannot be cloned in this way, since both tables would
        own the files.

        A clone of an Iceberg table is a new one each time. It has the snapshot as its only one, and ids of columns,
        partition specs and rows stay, as do the sequence numbers of files.

        Parameters
        ----------
        target
            The location of the clone, or its name if there is a ``catalog``.
        shallow
            Name the files where they are, in place of copies (Delta).
        version, timestamp
            The state, by the version of a Delta table, or by a time; by default the one that is open.
        replace
            Make a table that is there the clone, whatever it was. Its history stays (Delta).
        properties
            Properties of the clone, in addition to those of the source. They have to be given again where a deep clone
            is repeated.
        catalog
            The catalog that gets the clone (Iceberg).
        storage_options
            How the store of the clone is opened; by default as that of this table.
        dry_run
            Only say how many files and bytes would be copied, or raise what the clone would raise.
        **commit
            How the commit is made, and what it records: see `Verbs`.

        Returns
        -------
        CloneResult
            The state, how many files it has and how many of them were copied, and the commit.

        Raises
        ------
        VersionNotFoundError
            The table has no such state, or has it no more.
        TableExistsError
            There is a table that is no clone of this one.
        InvalidArgumentError
            The place does not suit a clone, or a vacuum may be deleting files that a shallow clone would name.
        CommitConflictError
            Others have changed the clone. Nothing was committed.
        DataFileNotFoundError
            Files that are needed are gone.

        Examples
        --------
        >>> result = table.clone(new_path)
        >>> result.copied_files == result.source_files, result.commit.operation
        (True, 'CLONE')
        """
        from deltaberg.table.maintain.cloning.cloned import CloneRequest

        own, said = self._options, CommitOptions.of(commit)
        state, clone = (version, timestamp, own.zone), (properties, catalog, own.store, storage_options)
        return self._clone(CloneRequest(target, shallow, *state, replace, *clone, dry_run, said))

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
        columns: ColumnNames | None = None,
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
        from deltaberg.table.streaming.follow import FollowRequest, follow

        flags = {"changes": changes, "skip_changes": skip_changes}
        asked = FollowRequest.of(start, self._options.zone, poll=poll, stop=stop, **flags)
        stream, begin = self._follow(asked)
        # Each commit is scanned with them.
        names = None if columns is None else column_names(columns)

        def scan_of(source: ScanSource) -> Scan:
            return self._scan(source, filter, names, None, options, execution)

        scan_of(stream.source)
        return follow(stream, asked.position(stream, begin), scan_of, asked)

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
        return self._transaction(CommitOptions.of(commit))

    def _transaction(self, options: CommitOptions) -> _Transaction_co:
        self._options.require_newest()
        made = self._begin(options)
        operations_of(made).transaction.row_tasks = self._row_tasks
        return made

    def _maintenance(self, policy: MaintenancePolicy) -> Mapping[MaintenanceStep, Step]:
        """Return the steps that tables of the format have, in the safe order; compaction is one of both formats."""
        from deltaberg.table.maintain.maintenance import compaction_step

        def rewrite(compaction: Compaction, tell: OnStep) -> CompactResult:
            return self._rewrite(compaction, {"progress": tell})

        return {"compact": compaction_step(policy, rewrite)}

    def _rewrite(self, compaction: Compaction, arguments: Mapping[str, Any]) -> CompactResult:
        from deltaberg.table.rows.progress import ProgressSum

        commit: Any = arguments_of(DescribedArguments, arguments)
        # The rows of all groups are told together, and not those of each commit.
        told = commit.pop("progress", None)
        if told is not None:
            compaction = replace(compaction, progress=ProgressSum(told))
        return self._compact(lambda: operations_of(self.transaction(**commit)).transaction, compaction)

    def _run(self, verb: Callable[[Operations[Transaction]], object], arguments: Mapping[str, Any]) -> CommitResult:
        commit: Any = arguments_of(RecordedArguments, arguments)
        with self.transaction(**commit) as transaction:
            verb(operations_of(transaction))
            return transaction.commit()

    @property
    def _table_at(self) -> str:
        return self.location

    @property
    def _columns(self) -> Struct:
        return self.schema

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
            The table has no such state, or has it no more; or the time is after its last commit.
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
        arguments: Any = without_probe(commit) if dry_run else commit

        def begin() -> Any:
            return operations_of(self.refresh().transaction(**arguments)).transaction

        return self._restore(begin, asked)

    @takes(RowArguments)
    def explain_append(
        self,
        data: Any = NEEDED,
        *,
        partition_by: ColumnNames | None = None,
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
        transaction = self.transaction(**without_probe({}))
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
        50,000 files, and delete files where at least 10,000 go. They read the manifests of an expiry of snapshots or a
        removal of orphans where there are at least 64, and copy the files of a clone where there are at least 1,000.
        The object that this is called on stays as it is.

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


def _listed(findings: Any) -> list[Finding] | None:
    from deltaberg.table.maintain.verifying.findings import Finding, VerifyResult

    if findings is None:
        return None
    found = findings.findings if isinstance(findings, VerifyResult) else findings
    members = listed(found)
    if not all(isinstance(one, Finding) for one in members):
        raise InvalidArgumentError(
            Hint(f"⟪findings⟫ must be those of ⟪verify()⟫, not a value of type {type(findings).__name__}"),
            hint="pass what ⟪verify()⟫ returns, or some of its findings",
        )
    return members


def without_probe(commit: Mapping[str, Any]) -> Any:
    """Return the arguments of a commit that is never made: nothing is put, so that the store need not be probed.

    A probe would write an object.
    """
    return {**commit, "unsafe_single_writer": True}


def operations_of(transaction: TableTransaction[_Run, Any]) -> _Run:
    """Return the operations that the verbs of a transaction are carried out by."""
    return transaction._operations  # noqa: SLF001 - callers must not see them
