"""The request and the result of `clone`."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from deltaberg.errors import InvalidArgumentError
from deltaberg.hints import Hint
from deltaberg.signatures import public
from deltaberg.storage.stores import StoreSpec
from deltaberg.table.arguments import check_flags, checked_integer, checked_options, checked_properties, parse_instant
from deltaberg.table.commit.commit import CommitResult
from deltaberg.table.commit.commit_options import CommitOptions
from deltaberg.whole_numbers import counted

__all__ = ["CloneRequest", "CloneResult"]


@dataclass(frozen=True)
class CloneRequest:
    """The request for a clone.

    Parameters
    ----------
    target
        The location of the clone, or its name in the catalog.
    shallow
        Whether it names the files of its source, in place of copies.
    version, timestamp
        Which state of the source is cloned; the one that is open by default.
    zone
        The zone of a timestamp without one.
    replace
        Whether a table that is there becomes the clone.
    properties
        Properties of the clone, in addition to those of the source.
    catalog
        The catalog that names the clone.
    source_store, storage_options
        How the store of the source is opened, and how that of the clone is, if it is another one.
    dry_run
        Whether nothing is to be written.
    commit
        How the commit is made, and what it records.

    Raises
    ------
    InvalidArgumentError
        An argument has the wrong type.
    """

    target: Any
    shallow: bool
    version: int | None
    timestamp: Any
    zone: dt.tzinfo
    replace: bool
    properties: Mapping[str, Any] | None
    catalog: Any
    source_store: StoreSpec
    storage_options: Any
    dry_run: bool
    commit: CommitOptions = field(default_factory=CommitOptions)

    def __post_init__(self) -> None:
        check_flags(self, "shallow", "replace", "dry_run")
        checked_properties(self.properties)
        version = checked_integer("version", self.version, "pass the number of a version, or None")
        object.__setattr__(self, "version", version)
        if version is not None and self.timestamp is not None:
            raise InvalidArgumentError(
                Hint("⟪version⟫ and ⟪timestamp⟫ cannot be combined"), hint="leave one of them out"
            )
        _ = self.instant, self.store

    @property
    def store(self) -> StoreSpec:
        """How the store of the clone is opened."""
        options = self.storage_options
        return self.source_store if options is None else StoreSpec(checked_options(options))

    @property
    def instant(self) -> int | None:
        """The time in milliseconds since 1970; None if none is asked for."""
        return None if self.timestamp is None else parse_instant(self.timestamp, self.zone)


@public
@dataclass(frozen=True, repr=False)
class CloneResult:
    """The result of `clone`, or of its dry run.

    Parameters
    ----------
    location
        Where the clone is.
    state
        The version of the source, or the number of its Iceberg snapshot, that was cloned; None if the Iceberg table has
        no snapshot.
    commit
        The commit; None for a dry run.
    dry_run
        Whether nothing was to be written.
    source_files, source_bytes
        How many data files the state has, and their size in bytes.
    copied_files, copied_bytes
        How many files were copied, and their size in bytes: data files, and what tells their deleted rows. For a dry
        run those that would be copied; bytes of deletion vectors are not counted then.
    found_files
        How many of those were there already, because a clone before was interrupted.
    removed_files, removed_bytes
        How many data files of the state before the clone has no more, and their size in bytes.

    Examples
    --------
    >>> CloneResult("/lake/copy", 3, dry_run=True, source_files=2, copied_files=1, copied_bytes=700)
    CloneResult(dry run: state 3 to /lake/copy, 2 files, 1 copied (700 bytes))
    """

    location: str
    state: int | None
    commit: CommitResult | None = None
    dry_run: bool = False
    source_files: int = 0
    source_bytes: int = 0
    copied_files: int = 0
    copied_bytes: int = 0
    found_files: int = 0
    removed_files: int = 0
    removed_bytes: int = 0

    def __repr__(self) -> str:
        state = "no snapshot" if self.state is None else f"state {self.state}"
        start = "dry run: " if self.dry_run else ""
        files = counted(self.source_files, "file")
        parts = [f"{start}{state} to {self.location}", files]
        parts.append(f"{self.copied_files} copied ({counted(self.copied_bytes, 'byte')})")
        for count, what in ((self.found_files, "found"), (self.removed_files, "removed")):
            if count:
                parts.append(f"{count} {what}")
        if self.commit is not None and not self.commit.committed:
            parts.append("there was nothing to do")
        return f"CloneResult({', '.join(parts)})"
