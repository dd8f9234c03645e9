"""Whether a change still fits after another commit came first: the rules of the reference implementation.

A change is checked against every commit since the version that it was planned on, oldest first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

from deltaberg.delta.actions.domains import ROW_TRACKING_DOMAIN
from deltaberg.delta.actions.log_action import LogAction, read_actions
from deltaberg.delta.scan.source import SnapshotSource
from deltaberg.delta.snapshot.history import commit_info
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.delta.transaction.entry import Rebase
from deltaberg.delta.transaction.isolation import IsolationLevel
from deltaberg.errors import (
    CommitConflictError,
    ConcurrentAppendError,
    ConcurrentDeleteDeleteError,
    ConcurrentDeleteReadError,
    ConcurrentDomainError,
    ConcurrentTransactionError,
    DeltabergError,
    MetadataChangedError,
    ProtocolChangedError,
)
from deltaberg.expressions.build.filters import Filter, as_filter
from deltaberg.expressions.compute.bound import bound_paths
from deltaberg.expressions.derive.derive import bind
from deltaberg.schema.types import Struct
from deltaberg.table.read.bound import BoundScan
from deltaberg.table.read.scan_options import scan_options

__all__ = ["Claims", "FilterRead", "Winner", "check_conflicts", "files_of_filter", "means_the_same"]

_AGAIN = "refresh the table, and repeat the operation"


class FilterRead(NamedTuple):
    """A filter by which files were read, and the zone of its literals that have none."""

    condition: Filter
    timezone: str


@dataclass
class Claims:
    """The claims of a change: the files, metadata and progress that it relies on.

    Parameters
    ----------
    whole
        Whether it has read the whole table.
    filters
        The filters by which it has read files.
    read_paths
        The files that it has read, by their recorded paths.
    removed_paths
        The files that it removes.
    applications
        The applications whose progress it records or has read.
    domains
        The metadata domains that it changes.
    changes_metadata, changes_protocol
        Whether it changes the metadata and the protocol.
    timezone
        The zone of partition values that have none.
    checks
        What raises an exception if the newest version does not allow the change.
    rebase
        What has the change follow deletes of rows that it moves; None if it moves none, or no delete may come between.
    """

    whole: bool = False
    filters: list[FilterRead] = field(default_factory=list)
    read_paths: set[str] = field(default_factory=set)
    removed_paths: Collection[str] = ()
    applications: Collection[str] = ()
    domains: Collection[str] = ()
    changes_metadata: bool = False
    changes_protocol: bool = False
    timezone: str = "UTC"
    checks: list[Callable[[Snapshot], object]] = field(default_factory=list)
    rebase: Rebase | None = None

    def copy(self) -> Claims:
        """Return the same claims, to be extended on their own."""
        return replace(self, filters=list(self.filters), read_paths=set(self.read_paths), checks=list(self.checks))

    @property
    def reads_nothing(self) -> bool:
        """Whether the change relies on no files."""
        return not (self.whole or self.filters or self.read_paths or self.removed_paths)

    def conflicting(self, winner: Winner) -> AbstractSet[str]:
        """Return the files that the change removes, and that another commit has removed for good, or given rows back.

        One that only deletes more of the rows of a file adds it again, with a deletion vector.
        """
        both = winner.removed_paths.intersection(self.removed_paths)
        if self.rebase is None or not both:
            return both
        live = winner.files.live.table
        hidden = live.filter(live.column("deletionVector").is_valid()).column("path").to_pylist()
        return both - (self.rebase.paths & set(hidden))


class Winner:
    """A commit that came first.

    Parameters
    ----------
    before
        The version before the commit.
    version
        The version that it made.
    data
        The bytes of its log entry.
    """

    def __init__(self, before: Snapshot, version: int, data: bytes) -> None:
        self._before = before
        self.version = version
        self._data = data
        #: The actions about the table as a whole.
        self.actions = list(read_actions(data, "metaData", "protocol", "txn", "domainMetadata"))
        self.info: Mapping[str, Any] = commit_info(data)

    @cached_property
    def files(self) -> Snapshot:
        """The files that the commit adds as live files, and those that it removes as tombstones."""
        return self._before.alone(self.version, self._data)

    @cached_property
    def removed_paths(self) -> frozenset[str]:
        """The files that the commit removes."""
        return frozenset(self.files.tombstones.column("path").to_pylist())

    @property
    def is_blind_append(self) -> bool:
        """Whether the commit says that it only adds files and has read none. One that does not say is not blind."""
        return self.info.get("isBlindAppend") is True

    def named(self, name: str) -> list[LogAction]:
        """Return its actions of a kind."""
        return [action for action in self.actions if action.name == name]

    def conflict(self, kind: type[CommitConflictError], what: str, **context: Any) -> CommitConflictError:
        """Return the error that names the commit and what collided."""
        operation = self.info.get("operation")
        return kind(
            f"version {self.version} was committed meanwhile, and {what}",
            hint=_AGAIN,
            winner=self.version,
            operation=operation if isinstance(operation, str) else None,
            **context,
        )


def check_conflicts(claims: Claims, winner: Winner, isolation: IsolationLevel) -> None:
    """Refuse a change that does not fit on top of another commit.

    Raises
    ------
    CommitConflictError
        Of the kind that says what collided.
    """
    if winner.named("protocol"):
        raise winner.conflict(ProtocolChangedError, "it changed the protocol")
    if winner.named("metaData"):
        raise winner.conflict(MetadataChangedError, "it changed the metadata")
    for action in winner.named("txn"):
        if action.members.get("appId") in claims.applications:
            name = action.members["appId"]
            raise winner.conflict(
                ConcurrentTransactionError, f"it recorded progress of the application {name}", application=name
            )
    for action in winner.named("domainMetadata"):
        name = action.members.get("domain")
        if name in claims.domains and name != ROW_TRACKING_DOMAIN:
            raise winner.conflict(ConcurrentDomainError, f"it changed the domain {name}", domain=name)
    if claims.reads_nothing:
        return
    _check_added(claims, winner, isolation)
    _check_removed(claims, winner)


def _check_added(claims: Claims, winner: Winner, isolation: IsolationLevel) -> None:
    if isolation is IsolationLevel.SNAPSHOT or not (claims.whole or claims.filters):
        return
    tolerates_blind = isolation is IsolationLevel.WRITE_SERIALIZABLE and not claims.changes_metadata
    if tolerates_blind and winner.is_blind_append:
        return
    added = winner.files.live.table
    if claims.whole and len(added):
        raise _append_conflict(winner, added.column("path")[0].as_py(), "the whole table was read")
    for read in claims.filters:
        found = files_of_filter(winner.files, read, claims.timezone)
        if found:
            raise _append_conflict(winner, found[0], f"the filter {read.condition} was read")


def _append_conflict(winner: Winner, path: str, read: str) -> CommitConflictError:
    return winner.conflict(ConcurrentAppendError, f"it added a file that had to be read: {read}", file=path)


def _check_removed(claims: Claims, winner: Winner) -> None:
    both = claims.conflicting(winner)
    if both:
        raise winner.conflict(
            ConcurrentDeleteDeleteError, "it removed a file that this change removes, too", file=min(both)
        )
    read = winner.removed_paths if claims.whole else winner.removed_paths & claims.read_paths
    if read:
        raise winner.conflict(ConcurrentDeleteReadError, "it removed a file that was read", file=min(read))


def files_of_filter(snapshot: Snapshot, read: FilterRead, timezone: str) -> list[str]:
    """Return the recorded paths of the live files in which rows can match a filter.

    Parameters
    ----------
    timezone
        The zone of partition values that have none.
    """
    source = SnapshotSource(snapshot, timezone)
    scan = BoundScan.of(source, filter=read.condition, options=scan_options(None, {}, read.timezone))
    paths: list[str] = scan.plan.files.column("path").to_pylist()
    return paths


def means_the_same(condition: Filter, before: Struct, after: Struct, timezone: str) -> bool:
    """Return whether the columns of a filter are the same ones in two schemas of a table."""
    names = []
    for schema in (before, after):
        try:
            paths = bound_paths(bind(as_filter(condition), schema, timezone))
        except DeltabergError:
            return False
        names.append([[(field.physical_name, str(path[-1].type)) for field in path] for path in paths])
    return names[0] == names[1]
