"""Which snapshots, branches and tags expire (Iceberg spec, "Snapshot Retention Policy").

The properties ``history.expire.max-snapshot-age-ms``, ``history.expire.min-snapshots-to-keep`` and
``history.expire.max-ref-age-ms`` are the defaults, and branches and tags may have their own.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from deltaberg.errors import InvalidArgumentError
from deltaberg.hints import Hint
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.metadata.retention import COLLECTED, is_collected, retention_of
from deltaberg.iceberg.metadata.snapshot_refs import MAIN, SnapshotRef
from deltaberg.iceberg.transaction.expiry_guard import named_refs
from deltaberg.table.arguments import check_flags, checked_function, checked_number, checked_numbers, parse_instant
from deltaberg.table.maintain.cleanup import OnProgress

__all__ = ["Expired", "ExpiryRequest", "check_collected", "expired_of"]


@dataclass(frozen=True)
class ExpiryRequest:
    """The request for an expiry; see `IcebergTable.expire_snapshots` for its arguments and their defaults.

    Raises
    ------
    InvalidArgumentError
        An argument is not of its type.
    """

    older_than: Any
    retain_last: int | None
    snapshot_ids: Any
    clean_expired_metadata: bool
    dry_run: bool
    progress: OnProgress | None
    zone: dt.tzinfo

    def __post_init__(self) -> None:
        check_flags(self, "clean_expired_metadata", "dry_run")
        if self.retain_last is not None:
            hint = "pass how many snapshots each branch keeps, such as 10"
            object.__setattr__(self, "retain_last", checked_number("retain_last", self.retain_last, 1, hint))
        if self.progress is not None:
            checked_function("progress", self.progress, "CleanupProgress")
        if self.older_than is not None:
            object.__setattr__(self, "older_than", parse_instant(self.older_than, self.zone))
        if self.snapshot_ids is not None:
            hint = 'pass a list of numbers that ⟪inspect("snapshots")⟫ shows'
            object.__setattr__(self, "snapshot_ids", checked_numbers("snapshot_ids", self.snapshot_ids, hint))

    @property
    def is_by_ids(self) -> bool:
        """Whether only the snapshots that are named expire, and none by its age."""
        return self.snapshot_ids is not None and self.older_than is None and self.retain_last is None


@dataclass(frozen=True)
class Expired:
    """The snapshots, branches and tags that expire.

    Parameters
    ----------
    snapshot_ids
        Snapshots, the oldest first.
    refs
        Branches and tags.
    schema_ids, spec_ids
        Schemas and partition specs that nothing uses any more.
    """

    snapshot_ids: tuple[int, ...] = ()
    refs: tuple[str, ...] = ()
    schema_ids: tuple[int, ...] = ()
    spec_ids: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        return any((self.snapshot_ids, self.refs, self.schema_ids, self.spec_ids))


def check_collected(metadata: TableMetadata) -> None:
    """Refuse to delete files of a table that has them in common with another, as one made by a snapshot procedure.

    Raises
    ------
    InvalidArgumentError
        The property ``gc.enabled`` is false.
    """
    if not is_collected(metadata.properties):
        raise InvalidArgumentError(
            f"the property {COLLECTED} is not true: files of the table may belong to another table",
            hint=Hint("if they do not, set the property by ⟪alter().set({'gc.enabled': 'true'})⟫"),
            setting=COLLECTED,
        )


def expired_of(metadata: TableMetadata, asked: ExpiryRequest, now: int) -> Expired:
    """Return the snapshots, branches and tags that expire.

    Parameters
    ----------
    now
        The time in milliseconds since 1970.

    Raises
    ------
    VersionNotFoundError
        The table does not have a snapshot that is named.
    InvalidArgumentError
        A branch or a tag stays that names a snapshot which is to expire by its number, or a property is no number.
    """
    retention = retention_of(metadata.properties)
    refs = named_refs(metadata)
    limit = now - retention.snapshot_age if asked.older_than is None else asked.older_than
    least = asked.retain_last or retention.fewest
    if asked.is_by_ids:
        kept_refs = dict(refs)
        gone: set[int] = set()
    else:
        kept_refs = _kept_refs(metadata, now, retention.ref_age)
        gone = set(metadata.snapshots) - _kept(metadata, kept_refs, limit, least, now)
    named = set(asked.snapshot_ids or ())
    _check_named(metadata, kept_refs, named)
    gone |= named
    in_order = sorted(gone, key=lambda number: (metadata.snapshots[number].timestamp_ms, number))
    return Expired(tuple(in_order), tuple(sorted(refs.keys() - kept_refs.keys())))


def _kept_refs(metadata: TableMetadata, now: int, longest: int) -> dict[str, SnapshotRef]:
    """Return the branches and tags that stay; of those whose snapshot is gone, none does."""
    kept = {}
    for name, ref in named_refs(metadata).items():
        snapshot = metadata.snapshots.get(ref.snapshot_id)
        age = longest if ref.max_ref_age_ms is None else ref.max_ref_age_ms
        if name == MAIN or (snapshot is not None and now - snapshot.timestamp_ms <= age):
            kept[name] = ref
    return kept


def _kept(metadata: TableMetadata, refs: dict[str, SnapshotRef], limit: int, least: int, now: int) -> set[int]:
    kept: set[int] = set()
    reached: set[int] = set()
    for ref in refs.values():
        newest = metadata.snapshots.get(ref.snapshot_id)
        if newest is None:
            continue
        kept.add(ref.snapshot_id)
        if ref.type == "tag":
            continue
        oldest = limit if ref.max_snapshot_age_ms is None else now - ref.max_snapshot_age_ms
        fewest = least if ref.min_snapshots_to_keep is None else ref.min_snapshots_to_keep
        stays = True
        for number, ancestor in enumerate(metadata.ancestors(newest)):
            reached.add(ancestor.snapshot_id)
            stays = stays and (number < fewest or ancestor.timestamp_ms >= oldest)
            if stays:
                kept.add(ancestor.snapshot_id)
    reached |= kept
    # Staged snapshots, and those of branches that were dropped, are reached by no name.
    kept |= {one.snapshot_id for one in metadata.snapshots.values() if one.timestamp_ms >= limit} - reached
    return kept


def _check_named(metadata: TableMetadata, refs: dict[str, SnapshotRef], named: set[int]) -> None:
    for number in sorted(named):
        metadata.snapshot_by_id(number)
        names: Sequence[str] = sorted(name for name, ref in refs.items() if ref.snapshot_id == number)
        if names:
            raise InvalidArgumentError(
                f"the snapshot {number} cannot expire: {', '.join(names)} {'names' if len(names) == 1 else 'name'} it",
                hint="drop the branch or the tag first, or move it to another snapshot",
            )
