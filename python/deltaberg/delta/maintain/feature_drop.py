"""Dropping a table feature, also one that older versions of the table need (Delta protocol, "Table Features").

First its traces are taken out of the table. Then readers without the feature must never come to the versions that need
it. Either the history is cut off in front of them, once these are older than a retention; or checkpoints stand in front
of them, and the feature ``checkpointProtection`` keeps these there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import pyarrow.compute as pc

from deltaberg.delta.after_commit.checkpoints import write_checkpoint
from deltaberg.delta.after_commit.log_cleanup import clean_up_log, require_deleted
from deltaberg.delta.alter.alter import Alteration
from deltaberg.delta.alter.drop_feature import OF_HISTORY, PROTECTION, check_supported
from deltaberg.delta.checkpoint.layout import CheckpointLayout
from deltaberg.delta.data.deletion_vectors import locate_vectors
from deltaberg.delta.features import FEATURES, MAPPING_MODE
from deltaberg.delta.log.checkpoint_files import complete_checkpoints
from deltaberg.delta.maintain.feature_traces import Step, last_trace, steps_of, without_type_changes
from deltaberg.delta.maintain.restorable import check_unmoved
from deltaberg.delta.properties.protocols import lowered_protocol, raised_protocol
from deltaberg.delta.schema.new_columns import check_names_in_files
from deltaberg.delta.snapshot.history import CommitTimes
from deltaberg.delta.snapshot.retention import PROTECTED_BEFORE, truncation_retention
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.delta.transaction.file_changes import encode_path
from deltaberg.delta.transaction.transaction import Transaction
from deltaberg.delta.transaction.writable import check_writable
from deltaberg.errors import CommitConflictError, DeltabergError, InvalidArgumentError, UnsupportedFeatureError
from deltaberg.expressions.time.instants import format_instant
from deltaberg.schema.arrow import as_array
from deltaberg.storage.location import PathResolver, parse_location
from deltaberg.table.arguments import check_flags
from deltaberg.table.commit.commit import CommitResult
from deltaberg.table.maintain.compact import Compaction
from deltaberg.table.maintain.compact_result import CompactResult
from deltaberg.table.maintain.dropped_feature import DropFeatureResult
from deltaberg.table.maintain.packing import Packing
from deltaberg.whole_numbers import whole_number

__all__ = ["FeatureDrop"]

#: How often the steps are begun anew where others change the table.
_ATTEMPTS = 10
#: Clients that cannot read a checkpoint try an earlier one, and another one. Then they give up.
_BARRIERS = 3


@dataclass(frozen=True)
class FeatureDrop:
    """A feature that is dropped.

    Parameters
    ----------
    name
        The name of the feature.
    truncate_history
        Whether the history is cut off in front of the versions that do not need the feature any more.
    dry_run
        Whether nothing is to be changed.
    newest
        What moves to the newest version, and returns it.
    begin, alter
        What begins a transaction, or an alteration, on the newest version.
    compact
        What writes files anew.

    Raises
    ------
    InvalidArgumentError
        An argument is not of its type.
    """

    name: str
    truncate_history: bool
    dry_run: bool
    newest: Callable[[], Snapshot]
    begin: Callable[[], Transaction]
    alter: Callable[[], Alteration]
    compact: Callable[[Compaction], CompactResult]
    _commits: list[CommitResult] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        check_flags(self, "dry_run", "truncate_history")

    def run(self) -> DropFeatureResult:
        """Drop the feature, or say what that takes.

        Raises
        ------
        InvalidArgumentError
            The table does not support the feature, or another one depends on it; or its history is not what the
            feature is about, or must be cut off.
        UnsupportedFeatureError
            Nobody knows how to take the feature away, or the history is too young to be cut off.
        CommitConflictError
            Others change the table again and again.
        """
        table = self.newest()
        check_supported(table, self.name)
        self._check_way(table)
        steps = steps_of(self.name, table)
        says = tuple(step.says for step in steps) + self._last_steps
        if self.dry_run:
            return DropFeatureResult(self.name, (), True, self._rehearsed(table, steps, says))
        if self.name not in OF_HISTORY:
            return DropFeatureResult(self.name, (self._altered().commit(),), False, says)
        for left in reversed(range(_ATTEMPTS)):
            with suppress(*((CommitConflictError,) if left else ())):
                for step in steps_of(self.name, self.newest()):
                    self._do(step)
                (self._cut_off if self.truncate_history else self._stand_in_front)()
                self._commits.append(self._commit())
                with suppress(DeltabergError):
                    # The feature is dropped, and readers do not need the checkpoint.
                    write_checkpoint(self.newest(), CheckpointLayout())
                return DropFeatureResult(self.name, tuple(self._commits), False, says)
        raise AssertionError("the last attempt returns or raises")

    @property
    def _last_steps(self) -> tuple[str, ...]:
        if self.name not in OF_HISTORY:
            return ("take the feature from the protocol",)
        if self.truncate_history:
            return ("delete older entries of the log", "take the feature from the protocol")
        return (f"write {_BARRIERS} checkpoints", f"let {PROTECTION} take the place of the feature in the protocol")

    def _check_way(self, table: Snapshot) -> None:
        if self.truncate_history and self.name not in OF_HISTORY:
            raise InvalidArgumentError(
                f"the feature {self.name} is dropped without cutting off the history, which does not need it",
                hint="leave out ⟪truncate_history⟫",
            )
        if self.name == PROTECTION and not self.truncate_history:
            raise InvalidArgumentError(
                f"the feature {PROTECTION} protects readers from older versions, which must be gone before",
                hint="pass ⟪truncate_history=True⟫",
            )

    def _rehearsed(self, table: Snapshot, steps: Sequence[Step], says: tuple[str, ...]) -> tuple[str, ...]:
        """Return what the drop would do, or refuse what it would refuse. Nothing is written."""
        if self.name not in OF_HISTORY:
            self._altered()
            return says
        check_writable(table)
        lowered_protocol(self.name, table.protocol)
        if any((step.properties or {}).get(MAPPING_MODE) == "none" for step in steps):
            check_names_in_files(table.schema)
        if not self.truncate_history:
            return says
        retention = truncation_retention(table.metadata.configuration)
        if not steps:
            last = self._last_needed(table)
            if last is not None and not self._can_cut(table, retention, last):
                begins = self._begin_behind(table, last)
                at = _now() if begins is None else CommitTimes(table.log, table).time_of(begins)
                raise self._too_young(table, last, at + retention)
        elif retention:
            until = format_instant(_now() + retention)
            return (*says[: len(steps)], f"refuse to cut off the history before {until}: drop the feature again then")
        return says

    def _altered(self) -> Alteration:
        """Return the alteration that drops a feature that no older version needs, and what activates it."""
        change = self.alter()
        for step in steps_of(self.name, self.newest()):
            change.set(step.properties or {})
        return change.drop_feature(self.name)

    def _do(self, step: Step) -> None:
        """Take traces of the feature out of the table.

        Raises
        ------
        CommitConflictError
            Others have changed files meanwhile that are to be written anew.
        """
        if step.properties is not None:
            self._commits.append(self.alter().set(step.properties).commit())
        elif step.purge is not None:
            packing = Packing(1, takes_all=True)
            result = self.compact(Compaction(packing=packing, cluster=False, purge=step.purge))
            self._commits.extend(result.commits)
            if result.conflicts:
                raise result.conflicts[0]
        elif step.cleans_schema:
            with self.begin() as transaction:
                metadata = transaction.snapshot.metadata
                text = without_type_changes(metadata.schema_string or "")
                transaction.set_metadata(metadata.with_members({"schemaString": text}))
                self._commits.append(transaction.commit("UPDATE SCHEMA"))

    def _stand_in_front(self) -> None:
        """Write checkpoints, each of a version of its own, so that no reader of later ones replays what is before."""
        for _ in range(_BARRIERS):
            self._add_checkpoint()

    def _add_checkpoint(self) -> None:
        with self.begin() as transaction:
            self._commits.append(transaction.commit("Empty Commit", even_if_empty=True))
        write_checkpoint(self.newest(), CheckpointLayout())

    def _cut_off(self) -> None:
        """Delete the entries of the log that are older than the retention of dropped features.

        Raises
        ------
        UnsupportedFeatureError
            A version that needs the feature is younger.
        """
        table = self.newest()
        retention = truncation_retention(table.metadata.configuration)
        last = self._last_needed(table)
        if last is None or self._can_cut(table, retention, last):
            # No version of the history goes unless the feature can be dropped then.
            require_deleted(clean_up_log(table, retention=retention, with_leftovers=False))
            last = self._last_needed(table)
        if last is None:
            return
        begins = self._begin_behind(table, last)
        if begins is None:
            self._add_checkpoint()
            table = self.newest()
            begins = table.version
        raise self._too_young(table, last, CommitTimes(table.log, table).time_of(begins) + retention)

    def _can_cut(self, table: Snapshot, retention: int, last: int) -> bool:
        """Return whether the clean-up of the log leaves nothing up to a version, and begins with no trace."""
        cut = clean_up_log(table, retention=retention, dry_run=True, with_leftovers=False).first_version
        return cut is not None and cut > last and self._is_clean(table, cut)

    def _is_clean(self, table: Snapshot, version: int) -> bool:
        """Return whether a version has no trace that a commit before it has left."""
        return not steps_of(self.name, Snapshot.load(table.log, version))

    def _begin_behind(self, table: Snapshot, last: int) -> int | None:
        """Return the first version behind another one that the log can begin with; None if it has no checkpoint."""
        behind = sorted(version for version in complete_checkpoints(table.log.entries()) if version > last)
        return next((version for version in behind if self._is_clean(table, version)), None)

    def _too_young(self, table: Snapshot, last: int, since: int) -> UnsupportedFeatureError:
        return UnsupportedFeatureError(
            f"the table makes no use of the feature {self.name} any more, but its version {last} does, and the history "
            f"cannot be cut off behind it before {format_instant(since)}",
            hint="drop the feature again then; or leave out ⟪truncate_history⟫ to drop it now and keep the history",
            feature=self.name,
        )

    def _last_needed(self, table: Snapshot) -> int | None:
        """Return the last version of the log because of which the feature stays; None if there is none."""
        if self.name != PROTECTION:
            return last_trace(self.name, table)
        text = table.metadata.configuration.get(PROTECTED_BEFORE, "0")
        last = (whole_number(text.strip(), 0) or 0) - 1
        return last if any(entry.version <= last for entry in table.log.entries()) else None

    def _commit(self) -> CommitResult:
        with self.begin() as transaction:
            base = transaction.snapshot
            if steps_of(self.name, base):
                raise CommitConflictError(f"others make use of the feature {self.name} again", hint="drop it again")
            activated_by = FEATURES[self.name].activated_by
            properties: dict[str, str | None] = {} if activated_by is None else {activated_by[0]: None}
            protocol = lowered_protocol(self.name, base.protocol)
            if self.name == PROTECTION:
                properties[PROTECTED_BEFORE] = None
            elif not self.truncate_history:
                protocol = raised_protocol([PROTECTION], protocol)
                properties[PROTECTED_BEFORE] = str(base.version + 1)
            transaction.set_protocol(protocol, dropped=self.name)
            transaction.set_metadata(base.metadata.with_properties(properties))
            if self.name == "deletionVectors":
                transaction.guard_files(_vector_files(base))

            transaction.require(lambda newest: check_unmoved(newest, base))
            parameters = {"featureName": self.name, "truncateHistory": "true" if self.truncate_history else "false"}
            return transaction.commit("DROP FEATURE", parameters)


def _now() -> int:
    return time.time_ns() // 1_000_000


def _vector_files(table: Snapshot) -> list[str]:
    """Return the files of deletion vectors that versions within the retention need, as a ``remove`` names them.

    A vacuum by a client that does not know deletion vectors keeps what a ``remove`` within the retention names.
    """
    vectors = as_array(table.tombstones.column("deletionVector"))
    placed = pc.struct_field(locate_vectors(vectors.drop_null(), PathResolver(table.log.root)), "location")
    inside = table.log.root.join("").path
    paths = sorted({parse_location(text).path for text in placed.drop_null().to_pylist()})
    return [encode_path(path.removeprefix(inside)) for path in paths if path.startswith(inside)]
