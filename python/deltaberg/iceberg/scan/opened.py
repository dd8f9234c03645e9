"""The rows of the state in which a table was opened."""

from __future__ import annotations

from deltaberg.errors import in_context
from deltaberg.iceberg.location.loaded import LoadedTable
from deltaberg.iceberg.metadata.metadata import state_of
from deltaberg.iceberg.scan.source import IcebergSource
from deltaberg.storage.location import PathResolver
from deltaberg.table.open.opening import OpenOptions

__all__ = ["opened_source"]


def opened_source(
    loaded: LoadedTable, options: OpenOptions, snapshot_id: int | None = None, millis: int | None = None
) -> IcebergSource:
    """Return the rows of a snapshot, of the snapshot at a time, or of the newest one of the branch or tag of a table.

    Parameters
    ----------
    loaded
        The table.
    options
        How it was opened: with which branch or tag, and where its paths lead to.

    Raises
    ------
    VersionNotFoundError
        The table has no such snapshot, branch or tag, or had no snapshot at that time.
    """
    metadata, chosen = loaded.metadata, options.location_map
    with in_context(table=str(loaded.root)):
        snapshot, schema = state_of(metadata, snapshot_id, options.ref, millis)
    is_moved = isinstance(chosen, str)
    mapping = {metadata.location: str(loaded.root)} if isinstance(chosen, str) else chosen
    resolver = PathResolver(loaded.root, mapping, encoded=False, any_store=is_moved)
    return IcebergSource.of(loaded, snapshot, schema, resolver)
