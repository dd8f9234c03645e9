"""Commits through a catalog that keeps the location of the newest metadata file (Iceberg spec, "Metastore Tables").

A metadata file of a new name is written first. Then the catalog swaps its location for the old one, if that is still
the one that the commit is made for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from deltaberg.catalogs.outcome import NotCarriedOutError, UnsettledError
from deltaberg.catalogs.places import loaded_table, place_of
from deltaberg.errors import InvalidArgumentError, StorageError
from deltaberg.iceberg.location.committer import Proposal, Trace, fate_by_snapshots
from deltaberg.iceberg.location.find_metadata import METADATA_FILE
from deltaberg.iceberg.location.loaded import LoadedTable, load_file, load_newest
from deltaberg.iceberg.location.new_files import metadata_location
from deltaberg.iceberg.location.outdated import delete_outdated
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.metadata.metadata_json import metadata_of_json
from deltaberg.iceberg.metadata.write_metadata import (
    catalog_file_name,
    encode_metadata,
    metadata_codec,
    version_of,
    with_previous_file,
)
from deltaberg.iceberg.updates.updates import apply_updates
from deltaberg.storage.base import PutOutcome, PutResult
from deltaberg.storage.stores import StoreSpec
from deltaberg.table.commit.commit import Fate
from deltaberg.table.open.tables_there import tables_at
from deltaberg.table.removal import discard_locations

__all__ = ["SwapCommitter", "metadata_file"]


def metadata_file(metadata: TableMetadata, version: int) -> str:
    """Return a new location for a metadata file of a table."""
    directory = metadata_location(metadata.location, metadata.properties)
    return f"{directory}/{catalog_file_name(version, metadata_codec(metadata.properties))}"


@dataclass
class SwapCommitter:
    """Commits to one table of a catalog.

    Parameters
    ----------
    find
        Returns the location of the newest metadata file; None if there is no table.
    swap
        Replaces a location, or enters the first one where the old one is None, and returns whether that happened. It
        raises `UnsettledError` if that is not known, `NotCarriedOutError` if others were in the way, and another
        `StorageError` if the catalog refuses the change. In the last two cases nothing was changed.
    store
        What opens the stores of the table.
    """

    find: Callable[[], str | None] = field(repr=False)
    swap: Callable[[str | None, str], bool] = field(repr=False)
    store: StoreSpec
    _recorded: tuple[LoadedTable, str] | None = field(default=None, init=False, repr=False)

    @property
    def applies_to_newer(self) -> bool:
        """No: the location is replaced that is known."""
        return False

    def load(self, cached: LoadedTable | None = None) -> LoadedTable | None:
        """Ask the catalog, and read the metadata file that it names, unless it is the known one."""
        return load_newest(self.find, lambda recorded: self._loaded(recorded, cached))

    def _loaded(self, recorded: str | None, cached: LoadedTable | None) -> LoadedTable | None:
        if recorded is None:
            return None
        if self._recorded is None or self._recorded[1] != recorded:
            file = place_of(recorded, None)
            if cached is None or cached.file != file:
                cached = loaded_table(load_file(file, self.store), file, self.store, None)
            self._recorded = cached, recorded
        return self._recorded[0]

    def stage(self, raw: Mapping[str, Any]) -> LoadedTable:
        """Return a table that the catalog does not know yet.

        Raises
        ------
        InvalidArgumentError
            Its location is the directory of another table: the clean-up of each would take files of the other.
        """
        metadata = metadata_of_json(dict(raw))
        root = place_of(metadata.location, None)
        # A table of this name is refused as such, by the swap.
        there = tables_at(root, self.store) if self.find() is None else []
        if there:
            raise InvalidArgumentError(
                f"there is a table of the format {there[0].title()} in the directory {root} already, and a "
                "clean-up of one could take files of the other",
                hint="choose another location, or delete what is there if nobody needs it any more",
            )
        return LoadedTable(metadata, place_of(metadata_file(metadata, 0), None), root, self.store)

    def check(self, metadata: TableMetadata) -> None:
        """Refuse a table by whose properties no metadata file could be written."""
        metadata_file(metadata, 0)

    def attempt(self, proposal: Proposal) -> SwapAttempt:
        """Build the next metadata file."""
        base = proposal.base
        changed = base.metadata
        if proposal.updates:
            changed = apply_updates(changed, proposal.updates, now_ms=proposal.now_ms)
        raw: Mapping[str, Any] = changed.raw
        old: str | None = None
        version = 0
        if not proposal.is_new:
            if self._recorded is None or self._recorded[0] is not base:
                raise AssertionError("a commit is made for what was loaded last")
            old = self._recorded[1]
            raw = with_previous_file(raw, base.metadata, old)
            number = version_of(base.file.path.rpartition("/")[2])
            version = 0 if number is None else number + 1
        metadata = metadata_of_json(raw, changed)
        new = metadata_file(metadata, version)
        data = encode_metadata(raw, metadata_codec(metadata.properties))
        return SwapAttempt(self, proposal, old, new, metadata, data)


@dataclass
class SwapAttempt:
    """One metadata file, and the swap that makes it the newest one."""

    committer: SwapCommitter
    proposal: Proposal
    old: str | None
    new: str
    metadata: TableMetadata
    data: bytes
    _is_written: bool = field(default=False, init=False)
    _may_arrive: bool = field(default=False, init=False)

    @property
    def trace(self) -> Trace:
        """The name of the metadata file, by which later metadata is recognized: nobody else uses it."""
        name = self.new.rpartition("/")[2]
        return Trace(self.proposal.snapshot_id, name, self.metadata.last_updated_ms, is_own_name=True)

    def send(self) -> PutResult:
        """Write the file, and swap it in."""
        if not self._is_written:
            file = place_of(self.new, None)
            self.committer.store.open(file).put(file.path, self.data)
            self._is_written = True
        try:
            return PutResult(PutOutcome.WRITTEN if self._swap() else PutOutcome.EXISTS)
        except UnsettledError as error:
            self._may_arrive = True
            return PutResult(PutOutcome.UNKNOWN, error)
        except NotCarriedOutError as error:
            return PutResult(PutOutcome.EXISTS, error)
        except StorageError:
            if not self._may_arrive:
                self.discard()
                self._is_written = False
            raise

    def _swap(self) -> bool:
        return self.committer.swap(self.old, self.new)

    def confirm(self) -> Fate:
        """Return that the change is part of the table: a swap that the catalog confirms is final."""
        return Fate.OURS

    def look(self) -> Fate:
        """Return the outcome of the swap, by asking which file is the newest one."""
        location = self.committer.find()
        if location == self.new:
            return Fate.OURS
        if location == self.old:
            # That the row was not changed is final, unless a request before may still arrive.
            return Fate.ABSENT if self._may_arrive else Fate.LOST
        newest = self.committer.load()
        if location is None or newest is None:
            # The table was dropped or renamed, maybe after the swap.
            return Fate.HIDDEN
        metadata = newest.metadata
        if self.trace.is_in(metadata):
            return Fate.OURS
        if self.old is None:
            return Fate.LOST
        # What follows our base in the log is not ours.
        if any(entry.metadata_file == self.old for entry in metadata.metadata_log):
            return Fate.LOST
        return fate_by_snapshots(self.proposal, metadata)

    def discard(self) -> None:
        """Delete the file, which nothing names."""
        file, folder = place_of(self.new, None), place_of(self.new.rpartition("/")[0], None)
        discard_locations(self.committer.store, [(folder, file)], METADATA_FILE)

    def finish(self) -> tuple[LoadedTable, list[str]]:
        """Delete old metadata files, if the table wants that."""
        warnings = [] if self.proposal.is_new else delete_outdated(self.proposal.base, self.metadata)
        file = place_of(self.new, None)
        return loaded_table(self.metadata, file, self.committer.store, None), warnings
