"""Commits to a table in a plain directory (Iceberg spec, "File System Tables").

The metadata file of the next version is put if there is none, so of several writers one wins. The next version is the
one after the newest that a listing shows: a file in a gap that clean-up left would be taken for a commit, and lost.
Every file is spelled as the one before it, since three spellings of one version would not keep writers apart. After
the put the directory is listed again, which finds a writer that went by another spelling.

Java's catalog for directories renames a file to its final name. Where the file system renames over existing files,
as local ones do, it can replace a commit of another writer at the same moment. Nothing here can prevent that.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from deltaberg.errors import (
    CommitUnknownError,
    CorruptMetadataError,
    InvalidArgumentError,
    ObjectNotFoundError,
    StorageError,
    UnsupportedFeatureError,
)
from deltaberg.iceberg.location.committer import (
    Proposal,
    Trace,
    fate_by_snapshots,
    file_digest,
    is_applied,
    is_applied_below,
)
from deltaberg.iceberg.location.find_metadata import METADATA_DIRECTORY, METADATA_FILE, VERSION_HINT, is_metadata_file
from deltaberg.iceberg.location.loaded import LoadedTable, load_file, load_newest
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.metadata.metadata_json import metadata_of_json
from deltaberg.iceberg.metadata.snapshot_refs import MAIN
from deltaberg.iceberg.metadata.write_metadata import (
    encode_metadata,
    is_compressed,
    metadata_codec,
    version_file_name,
    version_of,
    with_previous_file,
)
from deltaberg.iceberg.updates.snapshot_updates import SetSnapshotRef
from deltaberg.iceberg.updates.updates import apply_updates
from deltaberg.storage.base import ObjectMeta, PutResult, Storage
from deltaberg.storage.location import Location, PathResolver
from deltaberg.storage.stores import StoreSpec
from deltaberg.table.commit.commit import Fate
from deltaberg.table.removal import discard_files

__all__ = ["DirectoryCommitter"]

_VERSION = re.compile(r"v([0-9]{1,18})((?:\.gz)?\.metadata\.json(?:\.gz)?)")
_METADATA_PATH = "write.metadata.path"


@dataclass(frozen=True)
class DirectoryCommitter:
    """Commits to the table in a directory.

    Parameters
    ----------
    root
        The directory.
    store
        What opens its store.
    unsafe_single_writer
        Write also where the store overwrites objects that must not be overwritten.
    """

    root: Location
    store: StoreSpec
    unsafe_single_writer: bool = False

    @property
    def applies_to_newer(self) -> bool:
        """No: the next version follows on the one that is known."""
        return False

    @property
    def directory(self) -> Location:
        """The directory of the metadata files."""
        return self.root.join(METADATA_DIRECTORY)

    @property
    def storage(self) -> Storage:
        """The store that holds the table."""
        return self.store.open(self.root)

    def versions(self) -> dict[int, list[ObjectMeta]]:
        """List the metadata files by version. A version with several files has several spellings."""
        versions: dict[int, list[ObjectMeta]] = {}
        for meta in self.storage.list_from(self.directory.path, "v", directories=True):
            match = _VERSION.fullmatch(meta.path.rpartition("/")[2])
            if match is not None:
                versions.setdefault(int(match[1]), []).append(meta)
        return versions

    def load(self, cached: LoadedTable | None = None) -> LoadedTable | None:
        """Return the newest version that a listing shows; None if the directory is no table.

        ``cached`` is returned itself if the listing shows the same file.

        Raises
        ------
        CorruptMetadataError
            If the newest version has two metadata files.
        UnsupportedFeatureError
            If a catalog keeps the table.
        """
        return load_newest(self.versions, lambda versions: self._newest(versions, cached))

    def _newest(self, versions: Mapping[int, list[ObjectMeta]], cached: LoadedTable | None) -> LoadedTable | None:
        if not versions:
            self._check_unmanaged()
            return None
        newest = versions[max(versions)]
        if len(newest) > 1:
            names = " and ".join(meta.path.rpartition("/")[2] for meta in newest)
            raise CorruptMetadataError(
                f"the newest version has two metadata files, {names}: two writers committed without seeing one another",
                hint="find out which of them holds what is needed, and delete the other one",
                table=str(self.root),
            )
        (meta,) = newest
        if cached is not None and cached.meta == meta and cached.file.path == meta.path:
            return cached
        return self.loaded(meta)

    def _check_unmanaged(self) -> None:
        for meta in self.storage.list_from(self.directory.path):
            # A version that has come just now is none of a catalog.
            is_version = _VERSION.fullmatch(meta.path.rpartition("/")[2]) is not None
            if not is_version and is_metadata_file(Location(self.root.scheme, self.root.authority, meta.path)):
                raise UnsupportedFeatureError(
                    "a catalog keeps this table: its metadata files have no versions in their names",
                    hint="write to the table, or drop it, by its catalog",
                    table=str(self.root),
                )

    def loaded(self, meta: ObjectMeta) -> LoadedTable:
        """Read a metadata file of the directory."""
        file = self.directory._replace(path=meta.path)
        return LoadedTable(load_file(file, self.store), file, self.root, self.store, meta)

    def stage(self, raw: Mapping[str, Any]) -> LoadedTable:
        """Return a table whose first metadata file is not written yet."""
        metadata = metadata_of_json(dict(raw))
        name = version_file_name(1, metadata_codec(metadata.properties))
        return LoadedTable(metadata, self.directory.join(name), self.root, self.store)

    def attempt(self, proposal: Proposal) -> DirectoryAttempt:
        """Build the metadata file of the next version.

        Raises
        ------
        UnsupportedFeatureError
            If the store overwrites objects that must not be overwritten.
        InvalidArgumentError
            If the change would move the table, or its metadata, to another directory.
        """
        if not self.unsafe_single_writer and not self.storage.probe_conditional_put(self.directory.path):
            raise UnsupportedFeatureError(
                "the store overwrites objects that must not be overwritten, so that two writers would lose commits",
                hint="pass ⟪unsafe_single_writer=True⟫ if surely nobody else writes to the table",
                table=str(self.root),
            )
        base = proposal.base
        changed = base.metadata
        if proposal.updates:
            changed = apply_updates(changed, proposal.updates, now_ms=proposal.now_ms)
        raw: Mapping[str, Any] = changed.raw
        name = base.file.path.rpartition("/")[2]
        version = 1
        if not proposal.is_new:
            match = _VERSION.fullmatch(name)
            if match is None:
                raise AssertionError("only versions are loaded")
            version = int(match[1]) + 1
            recorded = f"{base.metadata.location.rstrip('/')}/{METADATA_DIRECTORY}/{name}"
            raw = with_previous_file(raw, base.metadata, recorded)
            name = f"v{version}{match[2]}"
        metadata = metadata_of_json(raw, changed)
        self.check(metadata)
        data = encode_metadata(raw, "gzip" if is_compressed(name) else "none")
        return DirectoryAttempt(self, base, version, self.directory.join(name), metadata, data, proposal)

    def check(self, metadata: TableMetadata) -> None:
        """Refuse metadata that would move the table, or its metadata files, out of its directory."""
        place = PathResolver(self.root, encoded=False).absolute(metadata.location)
        if place is not None and place.path.rstrip("/") != self.root.path.rstrip("/"):
            raise InvalidArgumentError(
                f"the location {metadata.location} is not the directory that the table is in",
                hint="tables outside of catalogs are found by their directory, and cannot leave it",
                table=str(self.root),
            )
        if _METADATA_PATH in metadata.properties:
            raise InvalidArgumentError(
                f"the property {_METADATA_PATH} only applies to tables of catalogs",
                hint="remove the property",
                table=str(self.root),
            )


@dataclass
class DirectoryAttempt:
    """One metadata file of a version."""

    committer: DirectoryCommitter
    base: LoadedTable
    version: int
    file: Location
    metadata: TableMetadata
    data: bytes
    proposal: Proposal

    @property
    def trace(self) -> Trace:
        """The name of the metadata file, by which later metadata is recognized."""
        name = self.file.path.rpartition("/")[2]
        return Trace(self.proposal.snapshot_id, name, self.metadata.last_updated_ms, file_digest(self.data))

    def send(self) -> PutResult:
        """Put the metadata file, unless there is one of this name."""
        return self.committer.storage.put(self.file.path, self.data, if_absent=True)

    def confirm(self) -> Fate:
        """Return whether the file that was written is part of the history, by listing the directory again."""
        versions = self.committer.versions()
        others = [meta for meta in versions.get(self.version, []) if meta.path != self.file.path]
        if others:
            raise CommitUnknownError(
                f"version {self.version} has two metadata files: another writer named its file {others[0].path}",
                hint="let all writers use one write.metadata.compression-codec, and delete no file of this operation",
                table=str(self.committer.root),
            )
        newest = max(versions, default=0)
        if newest < self.version:
            # Something that is no store has answered, such as a gateway.
            return Fate.OURS if self._read_back() == self.data else Fate.ABSENT
        if newest == self.version:
            return Fate.OURS if self._is_upon(versions.get(self.version - 1, [])) else Fate.LOST
        return self._fate_by(versions)

    def _is_upon(self, former: list[ObjectMeta]) -> bool:
        """Return whether the files of the version before are those of the table that this one was built upon.

        Else that was dropped in between. It would come back in part, or in the place of a table that was made anew.
        """
        known = self.base.metadata.table_uuid
        if self.proposal.is_new or self.base.meta in former:
            return True
        return any(known in (None, self.committer.loaded(meta).metadata.table_uuid) for meta in former)

    def _read_back(self) -> bytes | None:
        try:
            return self.committer.storage.get(self.file.path)
        except ObjectNotFoundError:
            return None

    def look(self) -> Fate:
        """Return what became of the file, by reading it back."""
        found = self._read_back()
        if found == self.data:
            return self.confirm()
        if found is not None:
            return Fate.LOST
        versions = self.committer.versions()
        newest = max(versions, default=0)
        if newest < self.version:
            return Fate.ABSENT
        return self._fate_by(versions)

    def _fate_by(self, versions: Mapping[int, list[ObjectMeta]]) -> Fate:
        """Return what the newest version tells of this one, or else the version that was built upon it.

        By the time of the newest one, a snapshot can have expired, or a property can have another value.
        """
        newest, following = max(versions), self.version + 1
        there = self.committer.loaded(versions[newest][0]).metadata
        if None not in (there.table_uuid, self.metadata.table_uuid) and there.table_uuid != self.metadata.table_uuid:
            # A drop that is under way has left the name free, or another table has come since.
            return Fate.LOST
        fate = self._fate_in(there)
        if fate is Fate.HIDDEN and following < newest and following in versions:
            with suppress(ObjectNotFoundError):
                fate = self._fate_in(self.committer.loaded(versions[following][0]).metadata)
        return fate

    def _fate_in(self, newest: TableMetadata) -> Fate:
        """Return what the metadata of a later version tells of this one."""
        trace = self.trace
        if trace.is_in(newest):
            return Fate.OURS
        is_named = trace.is_named_in(newest)
        if is_named and self.proposal.snapshot_id is None:
            # Another writer can have had the same name in the same millisecond.
            return Fate.OURS if self._is_shown_in(newest) else Fate.HIDDEN
        known = {version_of(entry.metadata_file.rpartition("/")[2]) for entry in newest.metadata_log}
        # The log names the version, and the file that had it was not ours.
        if self.version in known and not is_named:
            return Fate.LOST
        return fate_by_snapshots(self.proposal, newest)

    def _is_shown_in(self, later: TableMetadata) -> bool:
        """Return whether later metadata shows the changes, also where others went on from them, or moved main back."""
        moved = [one for one in self.proposal.updates if isinstance(one, SetSnapshotRef) and one.ref_name == MAIN]
        now = self.metadata.last_updated_ms
        if any(
            (now, one.ref.snapshot_id) == (log.timestamp_ms, log.snapshot_id)
            for one in moved
            for log in later.snapshot_log
        ):
            return is_applied([one for one in self.proposal.updates if one not in moved], later)
        return is_applied_below(self.proposal.updates, self.proposal.base.metadata, later)

    def discard(self) -> None:
        """Delete the file if it was written into a gap of the history, where readers could take it for a commit."""
        storage = self.committer.storage
        try:
            if storage.get(self.file.path) == self.data:
                discard_files(storage, self.committer.directory.path, [self.file.path], METADATA_FILE)
        except StorageError:
            # It is no part of the table, and will be none.
            return

    def finish(self) -> tuple[LoadedTable, list[str]]:
        """Write the version hint, and delete old metadata files if the table wants that."""
        warnings = []
        committer = self.committer
        try:
            committer.storage.put(committer.directory.join(VERSION_HINT).path, str(self.version).encode())
        except StorageError as error:
            warnings.append(f"the version hint was not written: {error.message}")
        # Tables that are only read load nothing that deletes.
        from deltaberg.iceberg.location.outdated import delete_outdated

        warnings += delete_outdated(self.base, self.metadata)
        return LoadedTable(self.metadata, self.file, committer.root, committer.store), warnings
