"""The request and the result of `restore`: which files a table has again, and which it has no more."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any

from deltaberg.signatures import public
from deltaberg.table.arguments import check_flags, checked_number, parse_instant
from deltaberg.table.commit.commit import CommitResult
from deltaberg.whole_numbers import counted

__all__ = ["RestoreRequest", "RestoreResult"]


@dataclass(frozen=True)
class RestoreRequest:
    """The request for a restore.

    Parameters
    ----------
    target
        The version or the number of a snapshot; or a time, for the state that was the newest one then.
    zone
        The zone of a time without one.
    ignore_missing_files
        Whether files are left out that are gone from the store.
    unsafe_expired
        Whether files are restored, too, that a vacuum may be deleting.
    dry_run
        Whether nothing is to be changed.

    Raises
    ------
    InvalidArgumentError
        An argument has the wrong type.
    """

    target: Any
    zone: dt.tzinfo
    ignore_missing_files: bool
    unsafe_expired: bool
    dry_run: bool

    def __post_init__(self) -> None:
        check_flags(self, "ignore_missing_files", "unsafe_expired", "dry_run")
        if self.instant is None:
            hint = "pass a version, the number of a snapshot, or a time"
            object.__setattr__(self, "target", checked_number("target", self.target, 0, hint))

    @property
    def instant(self) -> int | None:
        """The time in milliseconds since 1970; None if a number is asked for."""
        return parse_instant(self.target, self.zone) if isinstance(self.target, (str, dt.date)) else None


@public
@dataclass(frozen=True)
class RestoreResult:
    """The result of `restore`, or of its dry run.

    Parameters
    ----------
    state
        The version of the Delta table, or the number of the Iceberg snapshot, that the table was set back to.
    commit
        The commit; None for a dry run.
    dry_run
        Whether nothing was to be changed.
    restored_files, restored_bytes
        How many data files the table has again, and their size in bytes. Those with another deletion vector are among
        them. None for an Iceberg table, of which only the metadata is set back.
    removed_files, removed_bytes
        How many data files of the state before it has no more, and their size in bytes; None likewise.
    missing_files
        The data files that were left out because they, or their deletion vectors, are gone from the store.

    Examples
    --------
    >>> RestoreResult(3, dry_run=True, restored_files=1, restored_bytes=700, removed_files=0, removed_bytes=0)
    RestoreResult(dry run: to 3, 1 file restored, 0 files removed)
    """

    state: int
    commit: CommitResult | None = None
    dry_run: bool = False
    restored_files: int | None = None
    restored_bytes: int | None = None
    removed_files: int | None = None
    removed_bytes: int | None = None
    missing_files: tuple[str, ...] = ()

    def __repr__(self) -> str:
        parts = [f"dry run: to {self.state}" if self.dry_run else f"to {self.state}"]
        if self.restored_files is not None and self.removed_files is not None:
            parts.append(f"{counted(self.restored_files, 'file')} restored")
            parts.append(f"{counted(self.removed_files, 'file')} removed")
        if self.missing_files:
            parts.append(f"{counted(len(self.missing_files), 'file')} missing")
        if self.commit is not None and not self.commit.committed:
            parts.append("there was nothing to do")
        return f"RestoreResult({', '.join(parts)})"
