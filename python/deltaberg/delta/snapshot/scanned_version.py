"""The facts about a version of a table that a scan needs."""

from __future__ import annotations

from abc import ABC, abstractmethod

from deltaberg.delta.snapshot.file_state import Origin
from deltaberg.delta.snapshot.live_files import LiveFiles
from deltaberg.delta.snapshot.table_configuration import TableConfiguration

__all__ = ["ScannedVersion"]


class ScannedVersion(TableConfiguration, ABC):
    """The configuration and the live files of a version: a snapshot, or a part of one that an executor reads."""

    @property
    @abstractmethod
    def live(self) -> LiveFiles:
        """The live files."""

    @property
    @abstractmethod
    def origin(self) -> Origin | None:
        """The checkpoint and the commits replayed on top of it; None if some files also come from elsewhere."""
