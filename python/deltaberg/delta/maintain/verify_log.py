"""The files that the log of a Delta table names, and their presence: commits, checkpoints, their parts and sidecars."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from deltaberg.delta.checkpoint.read import Checkpoint
from deltaberg.delta.features import supports
from deltaberg.delta.log.checkpoint_files import complete_checkpoints
from deltaberg.delta.log.directory import LogEntry
from deltaberg.delta.log.names import LAST_CHECKPOINT, checkpoint_name, commit_name
from deltaberg.delta.log.version_checksum import checksum_name
from deltaberg.delta.scan.changed_files import recorded_changes
from deltaberg.delta.snapshot.checksums import wrong_facts
from deltaberg.delta.snapshot.history import CommitTimes
from deltaberg.delta.snapshot.retention import deleted_file_retention
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.errors import (
    CorruptCheckpointError,
    CorruptLogError,
    DeltabergError,
    VersionNotFoundError,
    in_context,
)
from deltaberg.storage.location import PathResolver
from deltaberg.table.maintain.verifying.findings import CHECKSUM, DAMAGED, MISSING, UNCHECKED, Finding

__all__ = ["LogNames", "NamedFile", "change_files", "checksum_findings"]

#: What vacuum may take before a commit has expired: a change data file is older than the commit that names it.
_WRITING = 3_600_000


class NamedFile(NamedTuple):
    """A file that a commit or a checkpoint names: its location, its size if that is stated, and what names it."""

    location: str
    size: int | None
    named_by: str


class LogNames:
    """The files that the log names up to a version, as one listing shows them.

    Parameters
    ----------
    findings
        What the log lacks, and which checkpoints are damaged.
    sidecars
        The sidecars that checkpoints name.
    versions
        The versions of the commits that are there, in order.
    checkpoints
        How many complete checkpoints there are.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._log = snapshot.log
        listed = [entry for entry in self._log.entries() if entry.version <= snapshot.version]
        self.versions = sorted(entry.file.version for entry in listed if entry.file.kind == "commit")
        complete = complete_checkpoints(listed)
        self.checkpoints = len(complete)
        self.sidecars: dict[str, NamedFile] = {}
        self.findings = [*self._gaps(), *self._lacking(listed, complete), *self._damaged(complete)]

    def _gaps(self) -> Iterator[Finding]:
        """Report versions that are missing between others."""
        for before, after in zip(self.versions, self.versions[1:], strict=False):
            if after > before + 1:
                missing = f"version {before + 1}" + (f" to {after - 1}" if after > before + 2 else "")
                path = f"{self._folder}/{commit_name(before + 1)}"
                yield Finding(MISSING, "log entry", path, f"version {after}, which follows,", missing)

    def _lacking(self, listed: list[LogEntry], complete: dict[int, tuple[LogEntry, ...]]) -> Iterator[Finding]:
        """Report checkpoints of which parts are missing, and the newest one, if it is gone.

        A checkpoint without some of its parts may also be one that is being written, which nothing points to yet.
        """
        pointer = self._log.last_checkpoint()
        sets: dict[tuple[int, int], set[int]] = {}
        for entry in listed:
            if entry.file.kind == "multipart" and (pointer is None or entry.file.version <= pointer.version):
                sets.setdefault((entry.file.version, entry.file.parts), set()).add(entry.file.part)
        torn = {key: present for key, present in sets.items() if len(present) < key[1]}
        for (version, parts), present in torn.items():
            part = next(number for number in range(1, parts + 1) if number not in present)
            name = f"{checkpoint_name(version).removesuffix('.parquet')}.{part:010d}.{parts:010d}.parquet"
            others = "the other parts of the checkpoint"
            yield Finding(
                MISSING, "checkpoint part", f"{self._folder}/{name}", others, f"{parts} parts", f"{len(present)} parts"
            )
        if pointer is None or pointer.version > self._snapshot.version or pointer.version in complete:
            return
        if not any(version == pointer.version for version, _ in torn):
            path = f"{self._folder}/{pointer.file or checkpoint_name(pointer.version)}"
            yield Finding(MISSING, "checkpoint", path, LAST_CHECKPOINT)

    def _damaged(self, complete: dict[int, tuple[LogEntry, ...]]) -> Iterator[Finding]:
        """Look into the newest checkpoint, and into those that may have sidecars; report those that are damaged."""
        newest = max(complete, default=None)
        for version, entries in complete.items():
            kind = entries[0].file.kind
            may_have_sidecars = kind == "uuid" or (
                kind == "classic" and supports(self._snapshot.protocol, "v2Checkpoint")
            )
            if version != newest and not may_have_sidecars:
                continue
            checkpoint, path = Checkpoint(self._log, entries), f"{self._folder}/{entries[0].file.name}"
            name = f"the checkpoint of version {version}"
            try:
                checkpoint.check()
                for place, size in checkpoint.sidecars.items():
                    self.sidecars.setdefault(str(place), NamedFile(str(place), size, name))
            except CorruptCheckpointError as error:
                yield Finding(DAMAGED, "checkpoint", path, "the log", None, error.message)
            except DeltabergError as error:
                yield Finding(UNCHECKED, "checkpoint", path, "the log", None, error.message)

    @property
    def _folder(self) -> str:
        return str(self._log.root._replace(path=self._log.path))

    def confirmed(self) -> list[Finding]:
        """Return the findings that a second look finds as well: a log is cleaned up and written to meanwhile."""
        if not self.findings:
            return []
        again = set(LogNames(self._snapshot).findings)
        return [finding for finding in self.findings if finding in again]

    def still_named(self, locations: set[str]) -> set[str]:
        """Return the sidecars that a checkpoint still names at a second look."""
        return locations & LogNames(self._snapshot).sidecars.keys() if locations else locations


def change_files(snapshot: Snapshot, versions: Sequence[int], resolver: PathResolver) -> Iterator[NamedFile]:
    """Return the change data files of those commits whose files vacuum must still keep.

    Parameters
    ----------
    versions
        The versions whose commits are there, in order.

    Raises
    ------
    CorruptLogError
        The time of a commit is not recorded, or a ``cdc`` action is incomplete.
    """
    if not supports(snapshot.protocol, "changeDataFeed"):
        return
    times = CommitTimes(snapshot.log, snapshot)
    kept_since = time.time_ns() // 1_000_000 - deleted_file_retention(snapshot.metadata.configuration) + _WRITING
    for version in reversed(versions):
        try:
            if times.time_of(version) < kept_since:
                return
            data = times.read(version)
        except VersionNotFoundError:
            return  # It was cleaned up meanwhile, and so were those before it.
        with in_context(table=str(snapshot.log.root), version=version):
            for row in recorded_changes(data):
                yield NamedFile(str(resolver.resolve(row["path"])), row["size"], f"version {version}")


def checksum_findings(snapshot: Snapshot) -> list[Finding]:
    """Return the findings where the version checksum disagrees with the log."""
    log, version = snapshot.log, snapshot.version
    path, named_by = f"{log.root._replace(path=log.path)}/{checksum_name(version)}", f"version {version}"
    what = "version checksum"
    try:
        wrong = wrong_facts(snapshot)
    except CorruptLogError as error:
        return [Finding(DAMAGED, what, path, named_by, None, error.message)]
    except DeltabergError as error:
        return [Finding(UNCHECKED, what, path, named_by, None, error.message)]
    return [Finding(CHECKSUM, what, path, named_by, f"{name} {one}", f"{name} {two}") for name, two, one in wrong]
