"""The facts about a version of a table that a scan needs."""

from __future__ import annotations

import typing

from deltaberg.delta.actions.table_actions import Metadata, Protocol
from deltaberg.delta.log.directory import LogDirectory
from deltaberg.delta.snapshot.file_state import Origin
from deltaberg.delta.snapshot.live_files import LiveFiles
from deltaberg.schema import Field, Struct

__all__ = ["ScannedVersion"]


class ScannedVersion(typing.Protocol):
    """The configuration and the live files of a version: a snapshot, or a part of one that an executor reads."""

    log: LogDirectory
    version: int
    protocol: Protocol
    metadata: Metadata

    @property
    def mapping_mode(self) -> str:
        """The way in which columns are found in files: ``none``, ``name`` or ``id``."""
        ...

    @property
    def active_features(self) -> frozenset[str]:
        """The supported features that the metadata makes use of."""
        ...

    @property
    def schema(self) -> Struct:
        """The columns of the table."""
        ...

    @property
    def partition_fields(self) -> tuple[Field, ...]:
        """The partition columns."""
        ...

    @property
    def live(self) -> LiveFiles:
        """The live files."""
        ...

    @property
    def origin(self) -> Origin | None:
        """The checkpoint and the commits replayed on top of it; None if some files also come from elsewhere."""
        ...
