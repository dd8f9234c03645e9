"""The log entry of one attempt to commit: what depends on the version, and on what others committed before it."""

from __future__ import annotations

import json
import typing
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

import pyarrow.compute as pc

from deltaberg.delta.actions.domains import ROW_TRACKING_DOMAIN, row_id_high_water_mark, row_id_text
from deltaberg.delta.actions.log_action import LogAction
from deltaberg.delta.actions.table_actions import Metadata, Protocol
from deltaberg.delta.features import active_features, supports
from deltaberg.delta.log.directory import LogDirectory
from deltaberg.delta.log.encode import check_action, check_unique, encode_lines
from deltaberg.delta.schema.iceberg_compat import is_compatible
from deltaberg.delta.schema.new_columns import MAX_COLUMN_ID
from deltaberg.delta.schema.row_tracking import MATERIALIZED_ROW_COLUMNS
from deltaberg.delta.snapshot.history import IN_COMMIT_TIMESTAMPS, SINCE_TIMESTAMP, SINCE_VERSION
from deltaberg.delta.snapshot.live_files import files_without_row_ids
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.delta.transaction.combinations import ROW_TRACKING_SUSPENDED, check_combinations
from deltaberg.delta.transaction.commit_info import Attempt, Provenance
from deltaberg.delta.transaction.file_changes import AddedFile, RemovedFile, total_rows
from deltaberg.delta.transaction.writable import check_changeable
from deltaberg.errors import CorruptLogError, InvalidArgumentError
from deltaberg.lossless_json import read_json

__all__ = ["Changes", "Entry", "Rebase", "build_entry", "check_growing", "version_made"]

_PRESERVED = "delta.rowTracking.preserved"


@dataclass
class Changes:
    """The changes of a transaction.

    Parameters
    ----------
    adds, removes
        Files by their recorded paths: at most one of each kind.
    guards
        The paths of files that are none of rows, and that ``remove`` actions name so that no vacuum takes them.
    change_files
        The members of ``cdc`` actions as JSON, without the braces.
    loses_row_ids
        Whether rows moved to other files without their ids.
    transactions
        The progress of applications: the version, by application.
    domains
        The configuration of metadata domains by name; None removes a domain.
    """

    protocol: Protocol | None = None
    metadata: Metadata | None = None
    adds: dict[str, AddedFile] = field(default_factory=dict)
    removes: dict[str, RemovedFile] = field(default_factory=dict)
    guards: list[str] = field(default_factory=list)
    change_files: list[str] = field(default_factory=list)
    loses_row_ids: bool = False
    transactions: dict[str, int] = field(default_factory=dict)
    domains: dict[str, str | None] = field(default_factory=dict)

    def copy(self) -> Changes:
        """Return the same changes, to be changed further on their own."""
        return replace(
            self,
            adds=dict(self.adds),
            removes=dict(self.removes),
            guards=list(self.guards),
            change_files=list(self.change_files),
            transactions=dict(self.transactions),
            domains=dict(self.domains),
        )

    @property
    def new_files(self) -> list[AddedFile]:
        """The files that are added, but for those that only get another deletion vector, or other row ids."""
        return [
            file for path, file in self.adds.items() if path not in self.removes and (file.is_new or file.data_change)
        ]

    @property
    def gone_files(self) -> list[RemovedFile]:
        """The files that are removed, but for those that only get another deletion vector."""
        return [file for path, file in self.removes.items() if path not in self.adds]

    @property
    def counted(self) -> dict[str, int]:
        """The metrics of the commit, as far as its files tell them."""
        added, removed = self.new_files, self.gone_files
        if not added and not removed:
            return {}
        metrics = {"numFiles": len(added), "numOutputBytes": sum(file.size for file in added)}
        rows = total_rows(added)
        if rows is not None:
            metrics["numOutputRows"] = rows
        if removed:
            metrics["numRemovedFiles"] = len(removed)
            metrics["numRemovedBytes"] = sum(file.size for file in removed)
        return metrics

    def has_other_files(self, after: Changes) -> bool:
        """Return whether later changes add or remove other files."""
        return self.adds != after.adds or self.removes != after.removes

    def leave_as_it_is(self, table: Snapshot) -> bool:
        """Return whether a table is the same with the changes as without."""
        if self.adds or self.removes or self.transactions:
            return False
        protocol, metadata = self.protocol or table.protocol, self.metadata or table.metadata
        domains = {name: table.domains.get(name) for name in self.domains}
        return protocol == table.protocol and domains == self.domains and _say_the_same(metadata, table.metadata)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is changed."""
        return not (self.protocol or self.metadata or self.adds or self.removes or self.transactions or self.domains)

    @property
    def changes_data(self) -> bool:
        """Whether rows are changed, or anything beside files: not so where rows only move to other files."""
        beside = self.protocol or self.metadata or self.transactions or self.domains
        files: list[AddedFile | RemovedFile] = [*self.adds.values(), *self.removes.values()]
        return bool(beside) or not files or any(file.data_change for file in files)


class Rebase(typing.Protocol):
    """Computes changes anew for each attempt, since other commits may have deleted some of the rows that move.

    Commits that only give one of these files a larger deletion vector are no conflict then.
    """

    @property
    def paths(self) -> AbstractSet[str]:
        """The recorded paths of the files that are removed."""

    @property
    def unused(self) -> AbstractSet[str]:
        """The paths of files that were written for the transaction, and that the last attempt has no use for."""

    def __call__(self, changes: Changes, state: Snapshot) -> tuple[Changes, Mapping[str, int]]:
        """Return the changes on top of the newest version, and what the commit says otherwise than was planned.

        Raises
        ------
        CommitConflictError
            Something else became of one of the files.
        """


@dataclass(frozen=True)
class Entry:
    """The log entry of one attempt."""

    version: int
    data: bytes
    metadata: Metadata | None


def build_entry(changes: Changes, state: Snapshot | None, provenance: Provenance, attempt: Attempt) -> Entry:
    """Return the log entry that makes the next version.

    Parameters
    ----------
    state
        The newest version; None where the table is created.

    Raises
    ------
    InvalidArgumentError
        The changes do not fit the table: there is no metadata, a domain without its feature, a file without its row
        count where rows have ids, row tracking enabled for files without ids, properties that exclude each other.
    ConstraintViolationError
        Rows are removed from a table that only grows.
    """
    now, parent_time = attempt.now, attempt.parent_time
    version = 0 if state is None else state.version + 1
    protocol = changes.protocol or (state.protocol if state else None)
    metadata = changes.metadata or (state.metadata if state else None)
    if protocol is None or metadata is None:
        raise InvalidArgumentError("the first version of a table needs a protocol and metadata")
    if changes.protocol is not None or changes.metadata is not None:
        check_combinations(protocol, metadata, state)
    keeps_time = supports(protocol, "inCommitTimestamp") and metadata.is_enabled(IN_COMMIT_TIMESTAMPS)
    time = (now if parent_time is None else max(now, parent_time + 1)) if keeps_time else None
    new_metadata = changes.metadata
    if time is not None and state is not None and not state.metadata.is_enabled(IN_COMMIT_TIMESTAMPS):
        new_metadata = metadata.with_properties({SINCE_VERSION: str(version), SINCE_TIMESTAMP: str(time)})
    if is_compatible(active_features(protocol, metadata.configuration)):
        _check_counted(changes)
        if state is not None and not is_compatible(state.active_features):
            _check_vectors(changes, state)
    domains = dict(changes.domains)
    tracks_rows = supports(protocol, "rowTracking")
    gives_row_ids = tracks_rows and not metadata.is_enabled(ROW_TRACKING_SUSPENDED)
    if state is not None and (changes.metadata or changes.protocol):
        _check_row_ids(changes, state, protocol, metadata)
    row_ids = _assign_row_ids(changes, state, domains) if gives_row_ids else {}
    info = provenance.action(attempt, time, {_PRESERVED: json.dumps(not changes.loses_row_ids)} if tracks_rows else {})
    # The in-commit timestamp is looked for in the first line.
    actions = [info]
    actions += [] if changes.protocol is None else [changes.protocol.action]
    actions += [] if new_metadata is None else [new_metadata.action]
    actions += [
        LogAction("txn", {"appId": name, "version": number, "lastUpdated": now})
        for name, number in changes.transactions.items()
    ]
    actions += _domain_actions(domains, state, protocol)
    for action in actions:
        check_action(action)
    check_unique(actions)
    lines = [action.to_json() for action in actions]
    lines += _remove_lines(changes, now)
    lines += _add_lines(changes, row_ids, version)
    lines += [f'{{"cdc":{{{text}}}}}' for text in changes.change_files]
    return Entry(version, encode_lines(lines), new_metadata)


def version_made(log: LogDirectory, state: Snapshot | None, entry: Entry) -> Snapshot:
    """Return the version that a log entry makes of the one before it, so that no entry is put that cannot be read.

    Raises
    ------
    InvalidArgumentError
        A member of one of the actions has the wrong type.
    """
    try:
        return Snapshot.first(log, entry.data) if state is None else state.after(entry.version, entry.data)
    except CorruptLogError as error:
        raise InvalidArgumentError(
            f"the changes cannot be recorded, because readers would refuse them: {error.message}",
            hint="check the actions, domains and metadata that were passed",
        ) from error


def _check_counted(changes: Changes) -> None:
    """Refuse a file without the number of its rows."""
    for file in changes.adds.values():
        if file.rows is None:
            raise InvalidArgumentError(
                "the table is compatible with Iceberg, so that a file needs statistics with the number of its rows",
                path=file.path,
            )


def _check_vectors(changes: Changes, state: Snapshot) -> None:
    """Refuse to make a table compatible with Iceberg whose files have deletion vectors."""
    live = state.live.table
    for path in live.filter(pc.is_valid(live.column("deletionVector"))).column("path").to_pylist():
        if path not in changes.removes:
            raise InvalidArgumentError(
                "a file has a deletion vector, which a table that is compatible with Iceberg has none of",
                hint="set delta.enableDeletionVectors to false, and call ⟪reorg()⟫, which writes such files anew",
                path=path,
            )


def _check_row_ids(changes: Changes, state: Snapshot, protocol: Protocol, metadata: Metadata) -> None:
    """Refuse to enable row tracking while a file has no row ids, or while no columns are named that keep them.

    Raises
    ------
    InvalidArgumentError
        Row tracking would be enabled too early.
    """
    tracked = "rowTracking"
    if tracked not in active_features(protocol, metadata.configuration) or tracked in state.active_features:
        return
    hint = '⟪alter().set({"delta.enableRowTracking": "true"})⟫ does all that it takes'
    unnamed = sorted(name for name in MATERIALIZED_ROW_COLUMNS if not metadata.configuration.get(name))
    if unnamed:
        raise InvalidArgumentError(f"row tracking cannot be enabled without the property {unnamed[0]}", hint=hint)
    paths = files_without_row_ids(state.live.table).column("path").to_pylist()
    bare = next((path for path in paths if path not in changes.adds and path not in changes.removes), None)
    if bare is not None:
        raise InvalidArgumentError(
            "row tracking cannot be enabled while a file has no row ids",
            hint=f"{hint}; repeat it if another commit has added files meanwhile",
            file=bare,
        )


def _assign_row_ids(changes: Changes, state: Snapshot | None, domains: dict[str, str | None]) -> dict[str, int]:
    """Return the first row id of each new file by its path, and set the domain that keeps the highest row id."""
    known = {name: text for name, text in domains.items() if text is not None}
    mark = row_id_high_water_mark({**({} if state is None else state.domains), **known})
    following = 0 if mark is None else mark + 1
    first_ids = {}
    for file in changes.adds.values():
        if file.has_row_ids:
            continue
        if file.rows is None:
            raise InvalidArgumentError(
                "the table gives ids to rows, so that a file needs statistics with the number of its rows",
                path=file.path,
            )
        first_ids[file.path] = following
        following += file.rows
    if first_ids:
        domains[ROW_TRACKING_DOMAIN] = row_id_text(following - 1)
    return first_ids


def _domain_actions(domains: Mapping[str, str | None], state: Snapshot | None, protocol: Protocol) -> list[LogAction]:
    if domains and not supports(protocol, "domainMetadata"):
        raise InvalidArgumentError(
            f"the domain {min(domains)} needs the table feature domainMetadata", hint="add the feature to the protocol"
        )
    actions = []
    for name, configuration in domains.items():
        removed = configuration is None
        kept = (state.domains.get(name, "") if state else "") if configuration is None else configuration
        actions.append(LogAction("domainMetadata", {"domain": name, "configuration": kept, "removed": removed}))
    return actions


def _remove_lines(changes: Changes, now: int) -> list[str]:
    guards = (f'"path":{json.dumps(path)},"dataChange":false' for path in changes.guards)
    texts = [*(file.text for file in changes.removes.values()), *guards]
    return [f'{{"remove":{{{text},"deletionTimestamp":{now}}}}}' for text in texts]


def _add_lines(changes: Changes, row_ids: Mapping[str, int], version: int) -> list[str]:
    lines = []
    for file in changes.adds.values():
        first = row_ids.get(file.path)
        ids = "" if first is None else f',"baseRowId":{first},"defaultRowCommitVersion":{version}'
        lines.append(f'{{"add":{{{file.text}{ids}}}}}')
    return lines


def check_growing(changes: Changes, state: Snapshot | None) -> None:
    """Refuse to remove rows from a table whose rows stay.

    Raises
    ------
    ConstraintViolationError
        The table is append-only, and the changes remove rows.
    """
    removed = next((file.path for file in changes.removes.values() if file.data_change), None)
    if state is not None and removed is not None:
        check_changeable(state, removed)


def _say_the_same(one: Metadata, other: Metadata) -> bool:
    """Return whether two metadata say the same, however their schemas are written down.

    A highest id of columns may be higher: no file has a column that came and went in one commit.
    """
    if one is other:
        return True
    columns = [each.schema_string and read_json(each.schema_string) for each in (one, other)]
    properties = [
        {**each.configuration, MAX_COLUMN_ID: str(MAX_COLUMN_ID in each.configuration)} for each in (one, other)
    ]
    rest = replace(one, schema_string=other.schema_string, configuration=other.configuration)
    return columns[0] == columns[1] and properties[0] == properties[1] and rest == other
