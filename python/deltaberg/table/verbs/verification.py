"""The verbs that compare a table with its store, and take out of it what the store has lost."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from deltaberg.choices import VerifyDepth
from deltaberg.errors import InvalidArgumentError
from deltaberg.expressions.build.column import is_list
from deltaberg.hints import Hint
from deltaberg.signatures import public, takes
from deltaberg.table.arguments import checked_choice, checked_flag
from deltaberg.table.verbs.cloned_table import ClonedTable
from deltaberg.table.verbs.compaction import CompactedTable
from deltaberg.table.verbs.shared_arguments import RecordedArguments
from deltaberg.table.verbs.table import operations_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from deltaberg.table.maintain.verifying.findings import Finding, VerifyResult
    from deltaberg.table.maintain.verifying.repairs import RepairResult
    from deltaberg.table.verbs.table_transaction import TableTransaction

__all__ = ["VerifiedTable"]

#: The arguments of opening a table that choose one of its states.
_PINS = ("version", "snapshot_id", "timestamp")

_Transaction_co = TypeVar("_Transaction_co", bound="TableTransaction[Any, Any]", covariant=True)
_Alteration = TypeVar("_Alteration")


@public
class VerifiedTable(CompactedTable[_Transaction_co, _Alteration], ClonedTable[_Transaction_co, _Alteration]):
    """A table that can be compared with its store, and repaired."""

    @abstractmethod
    def _verify(self, depth: VerifyDepth, *, is_pinned: bool) -> VerifyResult:
        """Compare a state with the store: the one that is open, if it is pinned, or else the newest one."""

    @abstractmethod
    def _repair(self, findings: list[Finding] | None, begin: Callable[[], Any] | None) -> RepairResult:
        """Take lost files out of the newest state, in a transaction that is begun by this; None changes nothing."""

    def verify(self, *, depth: VerifyDepth = "vectors") -> VerifyResult:
        """Compare what the metadata of the table says with what is in the store. Nothing is changed.

        The newest version or snapshot is verified, or the one that was opened by its number or a timestamp. An error of
        the store about a single file is a finding of its own kind (``unchecked``): nothing is known of such a file.

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
        chosen = checked_choice("depth", depth, get_args(VerifyDepth), "leave it out for vectors")
        is_pinned = any(getattr(self._options, name) is not None for name in _PINS)
        return self._verify(chosen, is_pinned=is_pinned)

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
        if dry_run:
            # The arguments are checked all the same. Nothing is put, so that the store need not be probed.
            checked: Any = {**commit, "unsafe_single_writer": True}
            self.transaction(**checked).abort()
            return self._repair(listed, None)
        self._options.require_newest()
        self.refresh()
        return self._repair(listed, lambda: operations_of(self.transaction(**commit)).transaction)


def _listed(findings: Any) -> list[Finding] | None:
    from deltaberg.table.maintain.verifying.findings import Finding, VerifyResult

    if findings is None:
        return None
    found = findings.findings if isinstance(findings, VerifyResult) else findings
    listed: list[Any] = list(found) if is_list(found) else [found]
    if not all(isinstance(one, Finding) for one in listed):
        raise InvalidArgumentError(
            Hint(f"⟪findings⟫ must be those of ⟪verify()⟫, not a value of type {type(findings).__name__}"),
            hint="pass what ⟪verify()⟫ returns, or some of its findings",
        )
    return listed
