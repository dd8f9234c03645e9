"""The actions that describe a table as a whole: protocol and metadata (Delta protocol, "Actions")."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from deltaberg.errors import CorruptLogError, UnsupportedFeatureError

__all__ = ["Format", "Metadata", "Protocol", "Transaction", "read_metadata", "read_protocol"]


@dataclass(frozen=True)
class Protocol:
    """What a client must be able to do to read or write the table; the lists exist with versions 3 and 7."""

    min_reader_version: int
    min_writer_version: int
    reader_features: tuple[str, ...] | None = None
    writer_features: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Format:
    """The encoding of the data files."""

    provider: str
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Metadata:
    """The table's metadata; ``created_time`` is in milliseconds since 1970.

    ``schema_string`` is None only where a damaged log lacks it; asking such a table for its schema raises.
    """

    id: str
    format: Format
    schema_string: str | None
    partition_columns: tuple[str, ...]
    configuration: Mapping[str, str]
    name: str | None = None
    description: str | None = None
    created_time: int | None = None


@dataclass(frozen=True)
class Transaction:
    """The progress of an application; ``last_updated`` is in milliseconds since 1970."""

    app_id: str
    version: int
    last_updated: int | None = None


def read_protocol(source: str | Mapping[str, Any]) -> Protocol:
    """Read a ``protocol`` action from JSON text, or from the row of a checkpoint.

    Raises
    ------
    CorruptLogError
        Where a field is missing or of another type.
    """
    members = _members(source, "protocol")
    return Protocol(
        _required(members, "minReaderVersion", int, "protocol"),
        _required(members, "minWriterVersion", int, "protocol"),
        _names(members, "readerFeatures"),
        _names(members, "writerFeatures"),
    )


def read_metadata(source: str | Mapping[str, Any]) -> Metadata:
    """Read a ``metaData`` action from JSON text, or from the row of a checkpoint.

    Raises
    ------
    CorruptLogError
        Where a field is missing or of another type.
    UnsupportedFeatureError
        Where the data files are not Parquet.
    """
    members = _members(source, "metaData")
    file_format = _members(_required(members, "format", (dict, list), "metaData"), "format")
    provider = _required(file_format, "provider", str, "format")
    if provider.lower() != "parquet":
        raise UnsupportedFeatureError(
            f"unsupported format provider {provider}", hint="only tables of Parquet files can be read", feature=provider
        )
    return Metadata(
        id=_required(members, "id", str, "metaData"),
        format=Format(provider, _string_map(file_format, "options")),
        schema_string=_optional(members, "schemaString", str, "metaData"),
        partition_columns=_names(members, "partitionColumns") or (),
        configuration=_string_map(members, "configuration"),
        name=_optional(members, "name", str, "metaData"),
        description=_optional(members, "description", str, "metaData"),
        created_time=_optional(members, "createdTime", int, "metaData"),
    )


def _members(source: Any, action: str) -> Mapping[str, Any]:
    if isinstance(source, str):
        try:
            source = json.loads(source)
        except (ValueError, RecursionError) as error:
            raise CorruptLogError(f"{action} is no JSON object: {error}") from None
    if not isinstance(source, Mapping):
        raise CorruptLogError(f"{action} is no JSON object")
    return source


def _optional(members: Mapping[str, Any], name: str, kind: Any, action: str) -> Any:
    value = members.get(name)
    if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
        raise CorruptLogError(f"{action}.{name} has an unexpected type", field=name)
    return value


def _required(members: Mapping[str, Any], name: str, kind: Any, action: str) -> Any:
    value = _optional(members, name, kind, action)
    if value is None:
        raise CorruptLogError(f"{action} has no {name}, which the protocol requires", field=name)
    return value


def _names(members: Mapping[str, Any], name: str) -> tuple[str, ...] | None:
    value = members.get(name)
    if value is None:
        return None
    if not isinstance(value, (list, tuple)) or not all(isinstance(item, str) for item in value):
        raise CorruptLogError(f"{name} must be a list of strings", field=name)
    return tuple(value)


def _string_map(members: Mapping[str, Any], name: str) -> dict[str, str]:
    """Read a map of strings; checkpoints give it as a list of pairs."""
    value = members.get(name) or {}
    pairs = value.items() if isinstance(value, Mapping) else value
    found = {}
    for key, text in pairs:
        if not isinstance(key, str) or not isinstance(text, (str, type(None))):
            raise CorruptLogError(f"{name} must be a map of strings", field=name)
        if text is not None:
            found[key] = text
    return found
