"""The metadata and the protocol of a clone: which parts of its source they keep, and which they do not."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from deltaberg.delta.actions.table_actions import Metadata, Protocol
from deltaberg.delta.features import FEATURES, MAPPING_MODE, check_written, supported_features
from deltaberg.delta.maintain.restorable import OF_HISTORY, metadata_over
from deltaberg.delta.properties.properties import checked_properties
from deltaberg.delta.properties.protocols import features_of_properties, raised_protocol
from deltaberg.delta.schema.row_tracking import MATERIALIZED_ROW_COLUMNS, hidden_names
from deltaberg.delta.snapshot.history import IN_COMMIT_TIMESTAMPS
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.errors import InvalidArgumentError
from deltaberg.whole_numbers import whole_number

__all__ = ["CLONED_FROM", "Origin", "cloned_metadata", "cloned_protocol", "origin_of"]

#: The property in which a deep clone keeps what it is a clone of. Other writers leave properties as they are, and the
#: history may be cleaned up.
CLONED_FROM = "deltaberg.clonedFrom"
#: Properties by which a catalog knows a table, or its commits.
_OF_CATALOGS = ("delta.coordinatedCommits.", "io.unitycatalog.", "ucTableId", "delta.feature.")
#: What cannot be switched while files stay as they are.
_BOUND_TO_FILES = (MAPPING_MODE, "delta.enableIcebergCompatV1", "delta.enableIcebergCompatV2")


class Origin(NamedTuple):
    """The source of a deep clone.

    Parameters
    ----------
    table
        The id of the source.
    version
        Its version.
    made
        The version of the clone that was made of it.
    clone
        The id of the clone. The property may come to another table, by a clone of the clone or by hand.
    """

    table: str
    version: int
    made: int
    clone: str = ""

    @property
    def text(self) -> str:
        """The text of the property."""
        members = {"id": self.table, "version": self.version, "as": self.made, "of": self.clone}
        return json.dumps(members, separators=(",", ":"))


def origin_of(properties: Mapping[str, str]) -> Origin | None:
    """Return the source of a deep clone; None if the table is none.

    Examples
    --------
    >>> origin_of({CLONED_FROM: Origin("a1", 3, 0, "b2").text})
    Origin(table='a1', version=3, made=0, clone='b2')
    """
    try:
        found = json.loads(properties.get(CLONED_FROM, "null"))
        origin = Origin(found["id"], found["version"], found["as"], found["of"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    numbers = (origin.version, origin.made)
    return origin if all(type(one) is int and whole_number(str(one), 0) is not None for one in numbers) else None


def cloned_metadata(
    source: Snapshot, base: Snapshot | None, origin: Origin | None, properties: Mapping[str, object]
) -> Metadata:
    """Return the metadata of a clone.

    Parameters
    ----------
    source
        The version that is cloned.
    base
        The newest version of the clone; None if it is new.
    origin
        What is recorded of the source; None for a shallow clone.
    properties
        Properties of the clone, in addition to those of the source.
    """
    metadata = source.metadata if base is None else metadata_over(base, source)
    configuration = metadata.configuration
    changes: dict[str, str | None] = {name: None for name in configuration if name.startswith(_OF_CATALOGS)}
    new = {"id": str(uuid.uuid4()), "createdTime": time.time_ns() // 1_000_000}
    own = new if base is None else base.metadata.action.members
    changes[CLONED_FROM] = None if origin is None else origin._replace(clone=str(own.get("id"))).text
    if base is None:
        changes |= {name: None for name in OF_HISTORY if name != IN_COMMIT_TIMESTAMPS}
    _, settings = features_of_properties(checked_properties(properties))
    if settings.get("delta.enableRowTracking", "").strip().lower() == "true" or any(
        name in configuration for name in MATERIALIZED_ROW_COLUMNS
    ):
        # The files have ids of rows of the source, which are none of the clone.
        changes |= hidden_names({} if base is None else base.metadata.configuration)
    members = {name: own.get(name) for name in ("id", "name", "description", "createdTime")}
    kept = {name: value for name, value in changes.items() if value is not None or name in configuration}
    return metadata.with_properties({**kept, **settings}).with_members(members)


def cloned_protocol(source: Snapshot, base: Snapshot | None, properties: Mapping[str, object]) -> Protocol:
    """Return the protocol of a clone: all features of the source, but for those that a catalog is needed for.

    Raises
    ------
    InvalidArgumentError
        A property cannot be given to a clone, because it is about files that are there.
    UnsupportedFeatureError
        A feature is not written by this library.
    """
    checked = checked_properties(properties)
    bound = next((name for name in _BOUND_TO_FILES if name in checked), None)
    if bound is not None:
        raise InvalidArgumentError(
            f"the property {bound} is about files, and a clone has those of its source",
            hint="leave it out, and set it by ⟪alter()⟫ of the clone",
        )
    features, _ = features_of_properties(checked)
    wanted = _kept(supported_features(source.protocol))
    protocol = _without_catalogs(source.protocol) if base is None else raised_protocol(wanted, base.protocol)
    raised = raised_protocol(sorted(features), protocol)
    check_written(raised)
    return raised


def _without_catalogs(protocol: Protocol) -> Protocol:
    lists = {"readerFeatures": protocol.reader_features, "writerFeatures": protocol.writer_features}
    fewer = {name: _kept(names) for name, names in lists.items() if names is not None and _kept(names) != list(names)}
    return protocol.with_members(fewer) if fewer else protocol


def _kept(features: Iterable[str]) -> list[str]:
    return [name for name in features if name not in FEATURES or not FEATURES[name].needs_catalog]
