"""The changes of a transaction: files, metadata, the protocol, the progress of applications, and domains."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.actions.log_action import LogAction
from deltaberg.delta.actions.table_actions import Metadata, Protocol
from deltaberg.delta.data.change_files import change_file_texts
from deltaberg.delta.data.deletion_vectors import unique_ids
from deltaberg.delta.features import supports
from deltaberg.delta.log.directory import LogDirectory
from deltaberg.delta.schema.iceberg_compat import compatibility_tags, with_nested_ids
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.delta.transaction.entry import Changes
from deltaberg.delta.transaction.file_changes import AddedFile, encode_path, new_adds, recorded_add, removes_of
from deltaberg.delta.transaction.writable import check_protocol_change
from deltaberg.errors import InvalidArgumentError
from deltaberg.schema.arrow import as_array
from deltaberg.table.arguments import checked_note, checked_progress, checked_text
from deltaberg.table.commit.commit_options import CommitOptions
from deltaberg.table.transaction.transaction import Transaction

__all__ = ["PendingChanges"]

_SYSTEM = "delta."


class PendingChanges(Transaction):
    """The changes of a transaction, which it commits together.

    Parameters
    ----------
    base
        The version that they are planned on; None creates the table.
    log, options, timezone
        As for the transaction.
    """

    def __init__(self, base: Snapshot | None, log: LogDirectory, options: CommitOptions, timezone: str) -> None:
        super().__init__(log.root, log.store, options, timezone)
        self._log = log
        self._base = base
        #: The changes, and those before the operation that runs.
        self._changes = self._before = Changes()
        #: The recorded paths of files that the transaction no longer adds.
        self._dropped: set[str] = set()

    @property
    @abstractmethod
    def snapshot(self) -> Snapshot:
        """The table as the changes leave it, as far as they go."""

    @property
    def base(self) -> Snapshot | None:
        """The version that the changes are planned on, without them; None where they create the table."""
        return self._base

    @abstractmethod
    def _changed(self) -> None:
        """Take note of a change, or refuse it."""

    def add_files(self, files: pa.Table, *, data_change: bool = True, members: Mapping[str, Any] | None = None) -> None:
        """Add files that were written for the transaction.

        Parameters
        ----------
        files
            A row for each file: ``path`` (relative to the table, decoded), ``size`` in bytes, ``modified`` in
            milliseconds since 1970, ``record_count``, ``partition`` (a struct of typed values, in the order of the
            partition columns), and statistics: the structs ``lower``, ``upper``, ``null_count`` and ``nan_count``.
        data_change
            Whether the rows are new. It is false for rows that only move to another file.
        members
            What the ``add`` actions have beside what is known of files, such as ``tags``.

        Raises
        ------
        InvalidArgumentError
            The transaction adds a file of this path already.
        InvalidPartitionValueError
            A partition value cannot be recorded.
        """
        table = self.snapshot
        tight = supports(table.protocol, "deletionVectors")
        partitioned_by = table.partition_fields
        given = dict(members or {})
        tags = {**given.get("tags", {}), **compatibility_tags(table.active_features)}
        if tags:
            given["tags"] = tags
        self._add(new_adds(files, table.schema, partitioned_by, data_change=data_change, tight=tight, members=given))

    def add_actions(self, actions: Iterable[LogAction]) -> None:
        """Add files by ``add`` actions that are recorded as they are, such as those of `recorded_adds`.

        Raises
        ------
        InvalidArgumentError
            An action is not an ``add``, lacks a member, has other partition columns than the table, or the transaction
            adds a file of this path already.
        """
        added = list(actions)
        partitions = {field.physical_name for field in self.snapshot.partition_fields}
        for action in added:
            if action.name == "add" and set(action.members.get("partitionValues") or ()) != partitions:
                raise InvalidArgumentError(
                    "a file needs values for exactly the partition columns of the table",
                    path=action.members.get("path"),
                )
        self._add([recorded_add(action) for action in added])

    def _add(self, files: Iterable[AddedFile]) -> None:
        adds, removes = self._changes.adds, self._changes.removes
        for file in files:
            if file.path in adds:
                raise InvalidArgumentError("a transaction adds a file only once", path=file.path)
            removed = removes.get(file.path)
            if removed is not None and removed.vector == file.vector:
                raise InvalidArgumentError("a transaction cannot remove a file and add it as it was", path=file.path)
            adds[file.path] = file
        self._changed()

    def remove_files(self, files: pa.Table, *, data_change: bool = True) -> None:
        """Remove live files.

        Parameters
        ----------
        files
            Rows of the live files of `snapshot` (``snapshot.live.table``).
        data_change
            Whether rows are deleted. It is false for rows that only move to another file.

        Raises
        ------
        InvalidArgumentError
            The transaction removes one of the files already.
        """
        adds, removes = self._changes.adds, self._changes.removes
        removed = removes_of(files, data_change=data_change)
        lived = self._live_before({file.path for file in removed if file.path in adds})
        for file in removed:
            added = adds.get(file.path)
            if added is not None and added.vector == file.vector:
                del adds[file.path]
                if (file.path, file.vector) not in lived:
                    # What the transaction itself added is not recorded at all.
                    self._dropped.add(file.path)
                    continue
            if file.path in removes:
                raise InvalidArgumentError("a transaction removes a file only once", path=file.path)
            removes[file.path] = file
        self._changed()

    def guard_files(self, paths: Iterable[str]) -> None:
        """Have ``remove`` actions name files that hold no rows, so that no vacuum within the retention takes them.

        Parameters
        ----------
        paths
            Paths as they are recorded. No live file has one of them.
        """
        self._changes.guards += paths
        self._changed()

    def _live_before(self, paths: Collection[str]) -> set[tuple[str, str | None]]:
        """Return the paths that are live in the version that the changes are planned on, with their deletion vectors.

        The transaction may add such files again, with other row ids.
        """
        if self._base is None or not paths:
            return set()
        files = self._base.live.table.select(["path", "deletionVector"])
        found = files.filter(pc.is_in(files.column("path"), value_set=pa.array(sorted(paths), pa.string())))
        vectors = unique_ids(as_array(found.column("deletionVector"))).to_pylist()
        return set(zip(found.column("path").to_pylist(), vectors, strict=True))

    def add_change_files(self, files: pa.Table) -> None:
        """Add change data files: readers of changes take these rows, and not the files that are added and removed.

        Parameters
        ----------
        files
            A row for each file, as for `add_files`; its rows have ``_change_type`` as well.

        Raises
        ------
        InvalidPartitionValueError
            A partition value cannot be recorded.
        """
        paths = [encode_path(path) for path in files.column("path").to_pylist()]
        self._changes.change_files += change_file_texts(paths, files, self.snapshot.partition_fields)
        self._changed()

    @property
    def paths_without_row_ids(self) -> frozenset[str]:
        """The added files, by their recorded paths, whose rows get ids only with the commit.

        What `snapshot` shows of these ids is not final.
        """
        return frozenset(path for path, file in self._changes.adds.items() if not file.has_row_ids)

    def lose_row_ids(self) -> None:
        """Record that rows moved to other files without their ids, so that these are not stable."""
        self._changes.loses_row_ids = True
        self._changed()

    def set_metadata(self, metadata: Metadata) -> None:
        """Replace the metadata of the table."""
        protocol = self._changes.protocol or (self._base.protocol if self._base else None)
        self._changes.metadata = metadata if protocol is None else with_nested_ids(protocol, metadata)
        self._changed()

    def set_protocol(self, protocol: Protocol, *, dropped: str | None = None) -> None:
        """Replace the protocol of the table, which only rises.

        Parameters
        ----------
        dropped
            The feature that is dropped, after all that it was needed for is gone. Only then may the protocol fall.

        Raises
        ------
        InvalidArgumentError
            The protocol contradicts itself, or takes back what the table's demands.
        UnsupportedFeatureError
            It demands what is not supported.
        """
        before = self._changes.protocol or (self._base.protocol if self._base else Protocol(1, 1))
        check_protocol_change(before, protocol, dropped)
        self._changes.protocol = protocol
        self._changed()

    def set_transaction(self, application: str, version: int) -> None:
        """Record the progress of an application, whatever was recorded before.

        If another commit records progress of the application meanwhile, the commit raises a
        `ConcurrentTransactionError`.

        Raises
        ------
        InvalidArgumentError
            The application is not a text, or the version not an integer of at least 0.
        """
        name, number = checked_progress(application, version)
        self._changes.transactions[name] = number
        self._changed()

    def set_domain(self, name: str, configuration: str | None, *, system: bool = False) -> None:
        """Set the configuration of a metadata domain, or remove the domain.

        Parameters
        ----------
        configuration
            The configuration; None removes the domain.
        system
            Allow a domain of the protocol itself, whose name begins with ``delta.``.

        Raises
        ------
        InvalidArgumentError
            The domain belongs to the protocol, or its name or configuration is not a text.
        """
        name = checked_text("the domain", name, "name it by a text of your own")
        checked_note(f"the configuration of the domain {name}", configuration, "pass a text, such as JSON")
        if name.startswith(_SYSTEM) and not system:
            raise InvalidArgumentError(
                f"the domain {name} belongs to the protocol", hint="choose a name that does not begin with delta."
            )
        self._changes.domains[name] = configuration
        self._changed()
