"""Deleting the metadata files that the log of a table dropped (``write.metadata.delete-after-commit.enabled``).

The log may name any file: one beside the table, a data file, or the metadata of another table. Only what is shown to be
old metadata of this very table is deleted.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from functools import partial

from deltaberg.errors import DeltabergError, InvalidArgumentError, ObjectNotFoundError, StorageError, UnsafePathError
from deltaberg.iceberg.location.find_metadata import METADATA_DIRECTORY, METADATA_FILE
from deltaberg.iceberg.location.loaded import LoadedTable
from deltaberg.iceberg.location.new_files import metadata_location
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.metadata.metadata_file import belongs_to
from deltaberg.iceberg.metadata.statistics_files import statistics_files
from deltaberg.iceberg.metadata.write_metadata import outdated_files
from deltaberg.storage.base import Storage
from deltaberg.storage.location import Location, PathResolver
from deltaberg.table.removal import delete_files

__all__ = ["delete_outdated"]

_SUFFIX = ".metadata.json"


def delete_outdated(base: LoadedTable, after: TableMetadata) -> list[str]:
    """Delete the metadata files that a commit dropped from the log, and return what stays, a sentence each.

    Parameters
    ----------
    base
        The table before the commit.
    after
        Its metadata after it.
    """
    recorded = outdated_files(base.metadata, after)
    if not recorded:
        return []
    resolver = PathResolver(base.root, encoded=False)
    stays: list[str] = []
    together: dict[Location, list[str]] = {}
    try:
        folders = _folders(base, after, resolver)
        for text in recorded:
            try:
                file = resolver.resolve(text)
            except UnsafePathError as error:
                stays.append(f"{text}: {error.message}")
                continue
            above = file.parent
            if above in folders:
                together.setdefault(above, []).append(file.path)
            else:
                stays.append(f"{text} is not in a folder of metadata files of the table")
        kept = _named(base, after, resolver)
        for folder, paths in together.items():
            store = base.store.open(folder)
            why_kept = partial(_why_kept, store, {file.path for file in kept if file.same_store(folder)}, after)
            reason = "newer metadata does not list it any more"
            removal = delete_files(store, folder.path, paths, METADATA_FILE, reason, why_kept=why_kept)
            stays += [*removal.kept.values(), *(error.message for error in removal.failed.values())]
    except (StorageError, UnsafePathError, InvalidArgumentError) as error:
        stays.append(error.message)
    return [f"an old metadata file was not deleted: {reason}" for reason in stays]


def _folders(base: LoadedTable, after: TableMetadata, resolver: PathResolver) -> set[Location]:
    """Return the folders of the metadata files of a table."""
    named = [metadata_location(found.location, found.properties) for found in (base.metadata, after)]
    return {
        *(resolver.resolve(text) for text in named),
        base.root.join(METADATA_DIRECTORY),
        base.file.parent,
    }


def _named(base: LoadedTable, after: TableMetadata, resolver: PathResolver) -> set[Location]:
    """Return the files that the table needs, as far as its metadata names them itself."""
    kept = {base.file}
    texts = [entry.metadata_file for entry in after.metadata_log]
    texts += [found.manifest_list for found in after.snapshots.values() if found.manifest_list is not None]
    texts += [file.path for files in statistics_files(after).values() for file in files if file.path is not None]
    for text in texts:
        if _SUFFIX not in text:
            # Its name is not that of a metadata file, so that it is no candidate.
            continue
        try:
            kept.add(resolver.resolve(text))
        except UnsafePathError:
            # What is in another store is no candidate.
            continue
    return kept


def _why_kept(store: Storage, kept: AbstractSet[str], table: TableMetadata, path: str) -> str | None:
    """Return why a file is no outdated metadata of a table; None if it is, or does not exist.

    Tables may share a folder of metadata, and a data file may have any name, so that the content tells.
    """
    if path in kept:
        return f"the table needs {path}"
    try:
        is_own = belongs_to(store.get(path), table)
    except ObjectNotFoundError:
        return None
    except DeltabergError as error:
        return f"{path} is not known to be metadata of the table: {error.message}"
    return None if is_own else f"{path} is metadata of another table"
