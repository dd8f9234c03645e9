"""The actions that describe a table as a whole: protocol and metadata (Delta protocol, "Actions")."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from deltaberg.delta.actions.log_action import LogAction
from deltaberg.delta.actions.member_types import check_members
from deltaberg.errors import CorruptLogError, UnsupportedFeatureError
from deltaberg.lossless_json import Number, read_json

__all__ = ["Format", "Metadata", "Protocol", "Transaction", "members_of_row", "read_metadata", "read_protocol"]


#: Stands for the action of an object that was not read.
_NONE = LogAction("", {})


@dataclass(frozen=True)
class Protocol:
    """The versions and features that a client needs to read or write the table (``protocol``).

    Parameters
    ----------
    reader_features, writer_features
        The listed features. The lists exist from reader version 3 and writer version 7 on; before that they are None.
    action
        The action as the log records it; by default one that holds the other arguments.
    """

    min_reader_version: int
    min_writer_version: int
    reader_features: tuple[str, ...] | None = None
    writer_features: tuple[str, ...] | None = None
    action: LogAction = field(default=_NONE, kw_only=True, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.action is _NONE:
            members = {
                "minReaderVersion": self.min_reader_version,
                "minWriterVersion": self.min_writer_version,
                "readerFeatures": self.reader_features,
                "writerFeatures": self.writer_features,
            }
            object.__setattr__(self, "action", _new_action("protocol", members))

    def with_members(self, changes: Mapping[str, Any]) -> Protocol:
        """Return the protocol with other values for some members of the action; None removes a member.

        Raises
        ------
        CorruptLogError
            The result lacks a member, or one has another type.

        Examples
        --------
        >>> protocol = read_protocol('{"minReaderVersion":1,"minWriterVersion":2}')
        >>> protocol.with_members({"minWriterVersion": 4}).action.to_json()
        '{"protocol":{"minReaderVersion":1,"minWriterVersion":4}}'
        """
        return _protocol_of(self.action.with_members(changes))


@dataclass(frozen=True)
class Format:
    """The encoding of the data files; options whose value is null are left out."""

    provider: str
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Metadata:
    """The metadata of the table (``metaData``).

    Parameters
    ----------
    schema_string
        The schema as JSON text. It is None only where a damaged log lacks it; such a table has no schema.
    configuration
        The table properties. A property whose value is null is not set: it is left out here, and kept in ``action``.
    created_time
        Milliseconds since 1970 in UTC.
    action
        The action as the log records it; by default one that holds the other arguments.
    """

    id: str
    format: Format
    schema_string: str | None
    partition_columns: tuple[str, ...]
    configuration: Mapping[str, str]
    name: str | None = None
    description: str | None = None
    created_time: int | None = None
    action: LogAction = field(default=_NONE, kw_only=True, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.action is _NONE:
            members = {
                "id": self.id,
                "name": self.name,
                "description": self.description,
                "format": {"provider": self.format.provider, "options": dict(self.format.options)},
                "schemaString": self.schema_string,
                "partitionColumns": self.partition_columns,
                "configuration": dict(self.configuration),
                "createdTime": self.created_time,
            }
            object.__setattr__(self, "action", _new_action("metaData", members))

    def is_enabled(self, name: str) -> bool:
        """Return whether a table property is ``true``."""
        return self.configuration.get(name, "").strip().lower() == "true"

    def with_members(self, changes: Mapping[str, Any]) -> Metadata:
        """Return the metadata with other values for some members of the action; None removes a member.

        Raises
        ------
        CorruptLogError
            The result lacks a member, or one has another type.

        Examples
        --------
        >>> metadata = read_metadata('{"id":"1","format":{"provider":"parquet","options":{}},"origin":2.50}')
        >>> metadata.with_members({"description": "all orders"}).action.to_json()
        '{"metaData":{"id":"1","format":{"provider":"parquet","options":{}},"origin":2.50,"description":"all orders"}}'
        """
        return _metadata_of(self.action.with_members(changes))

    def with_properties(self, changes: Mapping[str, str | None]) -> Metadata:
        """Return the metadata with other table properties; None removes a property.

        Examples
        --------
        >>> metadata = read_metadata('{"id":"1","format":{"provider":"parquet"},"configuration":{"a":"1","b":null}}')
        >>> metadata.with_properties({"a": None, "c": "3"}).action.members["configuration"]
        {'b': None, 'c': '3'}
        """
        kept = dict(self.action.members.get("configuration") or {})
        for name, value in changes.items():
            if value is None:
                kept.pop(name, None)
            else:
                kept[name] = value
        return self.with_members({"configuration": kept})


@dataclass(frozen=True)
class Transaction:
    """The progress of an application; ``last_updated`` is in milliseconds since 1970."""

    app_id: str
    version: int
    last_updated: int | None = None


def _new_action(name: str, members: Mapping[str, Any]) -> LogAction:
    return LogAction(name, {member: value for member, value in members.items() if value is not None})


def read_protocol(source: str | Mapping[str, Any]) -> Protocol:
    """Read a ``protocol`` action from JSON text, or from the row of a checkpoint.

    Raises
    ------
    CorruptLogError
        If a field is missing or of another type.
    """
    return _protocol_of(_action("protocol", source))


def _protocol_of(action: LogAction) -> Protocol:
    members = _checked(action, "minReaderVersion", "minWriterVersion")
    lists = (members.get(name) for name in ("readerFeatures", "writerFeatures"))
    listed = (None if names is None else tuple(names) for names in lists)
    return Protocol(members["minReaderVersion"], members["minWriterVersion"], *listed, action=action)


def read_metadata(source: str | Mapping[str, Any]) -> Metadata:
    """Read a ``metaData`` action from JSON text, or from the row of a checkpoint.

    Raises
    ------
    CorruptLogError
        If a field is missing or of another type.
    UnsupportedFeatureError
        If the data files are not Parquet.
    """
    return _metadata_of(_action("metaData", source))


def _metadata_of(action: LogAction) -> Metadata:
    members = _checked(action, "id", "format")
    file_format = members["format"]
    provider = file_format["provider"]
    if provider.lower() != "parquet":
        raise UnsupportedFeatureError(
            f"unsupported format provider {provider}", hint="only tables of Parquet files can be read", feature=provider
        )
    return Metadata(
        id=members["id"],
        format=Format(provider, _without_nulls(file_format.get("options"))),
        schema_string=members.get("schemaString"),
        partition_columns=tuple(members.get("partitionColumns") or ()),
        configuration=_without_nulls(members.get("configuration")),
        name=members.get("name"),
        description=members.get("description"),
        created_time=members.get("createdTime"),
        action=action,
    )


def _action(name: str, source: str | Mapping[str, Any]) -> LogAction:
    if not isinstance(source, str):
        return LogAction(name, members_of_row(source))
    try:
        members = read_json(source)
    except (ValueError, RecursionError) as error:
        raise CorruptLogError(f"{name} is not a JSON object: {error}") from None
    if not isinstance(members, dict):
        raise CorruptLogError(f"{name} is not a JSON object")
    return LogAction(name, members)


#: The known members that are maps. Arrow gives maps as lists of pairs, and those that are empty as empty lists.
_MAPS = ("configuration", "options", "partitionValues", "tags")


def members_of_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members of an action that a row of a checkpoint holds.

    A column that is null is a member that the action lacks. Values of maps may be null.

    Examples
    --------
    >>> members_of_row({"path": "a.parquet", "tags": [("k", None)], "deletionVector": None})
    {'path': 'a.parquet', 'tags': {'k': None}}
    """
    members: dict[str, Any] = {}
    for name, value in row.items():
        if name in _MAPS and value is not None:
            members[name] = dict(value)
        elif value is not None:
            members[name] = _json_value(value)
    return members


def _json_value(value: Any) -> Any:
    if isinstance(value, Mapping):
        return members_of_row(value)
    if not isinstance(value, list):
        return value
    if value and isinstance(value[0], tuple):
        return {key: _json_value(item) for key, item in value}
    return [_json_value(item) for item in value]


def _checked(action: LogAction, *required: str) -> dict[str, Any]:
    """Return the members of an action, with integers as such, after their types were checked."""
    check_members(action.name, action.members)
    for name in required:
        if action.members.get(name) is None:
            raise CorruptLogError(f"{action.name} has no {name}, which the protocol requires", field=name)
    return {name: value.integer if isinstance(value, Number) else value for name, value in action.members.items()}


def _without_nulls(texts: Mapping[str, str | None] | None) -> dict[str, str]:
    return {name: text for name, text in (texts or {}).items() if text is not None}
