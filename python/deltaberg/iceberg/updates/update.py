"""The interface of a change of table metadata, and the other members of a commit in the REST protocol.

The classes are named as the protocol names what they say (Iceberg REST specification, ``TableUpdate`` and
``TableRequirement``), and their fields as it names the members, so that their JSON follows from that.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from deltaberg.iceberg.metadata.snapshots import Snapshot, encode_snapshot
from deltaberg.iceberg.metadata.sort_orders import SortOrder, encode_sort_order
from deltaberg.iceberg.metadata.specs import PartitionSpec, encode_spec
from deltaberg.iceberg.schema.json_members import members_of
from deltaberg.iceberg.schema.schema import Schema, encode_schema
from deltaberg.iceberg.updates.draft import Draft

__all__ = ["Update", "json_members", "protocol_name"]

_ENCODERS: dict[type, Callable[[Any], Any]] = {
    Schema: lambda schema: encode_schema(schema) | {"schema-id": schema.schema_id},
    PartitionSpec: encode_spec,
    SortOrder: encode_sort_order,
    Snapshot: encode_snapshot,
}


def protocol_name(named: object) -> str:
    """Return the name of an object's class in the protocol: that of ``AddSchema`` is ``add-schema``."""
    return re.sub("(?<=[a-z])(?=[A-Z])", "-", type(named).__name__).lower()


def json_members(told: Any) -> dict[str, Any]:
    """Return the fields of a dataclass as members of JSON."""
    return {name: _ENCODERS.get(type(value), lambda same: same)(value) for name, value in members_of(told).items()}


@dataclass(frozen=True)
class Update(ABC):
    """One change of table metadata."""

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object of the change."""
        return {"action": protocol_name(self), **json_members(self)}

    @abstractmethod
    def apply(self, draft: Draft) -> None:
        """Make the change."""
