"""What every change of table metadata has (Iceberg REST specification, ``TableUpdate``)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from deltaberg.iceberg.metadata.draft import Draft

__all__ = ["Update"]


class Update(ABC):
    """One change of table metadata."""

    #: The name of the change in the protocol.
    action: ClassVar[str]

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object of the change."""
        return {"action": self.action, **self._members()}

    @abstractmethod
    def _members(self) -> dict[str, Any]:
        """Return the members beside the name."""

    @abstractmethod
    def apply(self, draft: Draft) -> None:
        """Make the change."""
