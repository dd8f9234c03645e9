"""The verb `clone`, which makes a table of a version or snapshot of another table."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from deltaberg.signatures import public, takes
from deltaberg.storage.stores import StoreSpec
from deltaberg.table.arguments import Instant, checked_options
from deltaberg.table.commit.commit_options import CommitOptions
from deltaberg.table.verbs.shared_arguments import CloneArguments
from deltaberg.table.verbs.table import Table

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from deltaberg.storage.options.options import StoreOptions
    from deltaberg.table.maintain.cloning.cloned import CloneRequest, CloneResult
    from deltaberg.table.verbs.table_transaction import TableTransaction

__all__ = ["ClonedTable"]

_Transaction_co = TypeVar("_Transaction_co", bound="TableTransaction[Any, Any]", covariant=True)
_Alteration = TypeVar("_Alteration")


@public
class ClonedTable(Table[_Transaction_co, _Alteration]):
    """A table that can be cloned."""

    @abstractmethod
    def _clone(self, asked: CloneRequest) -> CloneResult:
        """Make another table of a state."""

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

        store = self._options.store if storage_options is None else StoreSpec(checked_options(storage_options))
        asked = CloneRequest(
            target,
            shallow,
            version,
            timestamp,
            self._options.zone,
            replace,
            properties,
            catalog,
            store,
            dry_run,
            CommitOptions.of(commit),
        )
        return self._clone(asked)
