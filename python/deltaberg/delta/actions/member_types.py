"""The members of actions and their types, as JSON of log entries and as columns (Delta protocol, "Actions").

The kernels check what they replay. All else that reads a log entry reads it by `check_members`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from deltaberg.errors import CorruptLogError
from deltaberg.lossless_json import Number
from deltaberg.schema.types import DataType, Field, List, Map, Primitive, Struct

__all__ = ["action_column", "check_members"]


class _Kind(NamedTuple):
    """A type of members: its name in words, the check of a value, and the type of its column, if it has one."""

    words: str
    fits: Callable[[Any], bool]
    column: DataType | None = None


def _is_integer(value: Any) -> bool:
    number = value.integer if isinstance(value, Number) else value
    return type(number) is int and -(1 << 63) <= number < 1 << 63


def _is_map(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(text, (str, type(None))) for text in value.values())


def _are_texts(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(text, str) for text in value)


_STRING = Primitive("string")
_TEXT = _Kind("a string", lambda value: isinstance(value, str), _STRING)
_INTEGER = _Kind("a 64-bit integer", _is_integer, Primitive("long"))
_VERSION = _INTEGER._replace(column=Primitive("integer"))
_BOOLEAN = _Kind("a boolean", lambda value: isinstance(value, bool), Primitive("boolean"))
_MAP = _Kind("an object whose values are strings", _is_map, Map(Field("key", _STRING), Field("value", _STRING)))
_OBJECT = _Kind("an object", lambda value: isinstance(value, dict))
_TEXTS = _Kind("a list of strings", _are_texts, List(Field("element", _STRING)))

_VECTOR = {
    "storageType": _TEXT,
    "pathOrInlineDv": _TEXT,
    "offset": _INTEGER,
    "sizeInBytes": _INTEGER,
    "cardinality": _INTEGER,
}
_FILE = {
    "path": _TEXT,
    "partitionValues": _MAP,
    "size": _INTEGER,
    "modificationTime": _INTEGER,
    "deletionTimestamp": _INTEGER,
    "dataChange": _BOOLEAN,
    "extendedFileMetadata": _BOOLEAN,
    "stats": _TEXT,
    "tags": _MAP,
    "deletionVector": _OBJECT,
    "baseRowId": _INTEGER,
    "defaultRowCommitVersion": _INTEGER,
    "clusteringProvider": _TEXT,
}
_MEMBERS: Mapping[str, Mapping[str, _Kind]] = {
    "add": _FILE,
    "remove": _FILE,
    "cdc": _FILE,
    "deletionVector": _VECTOR,
    "txn": {"appId": _TEXT, "version": _INTEGER, "lastUpdated": _INTEGER},
    "domainMetadata": {"domain": _TEXT, "configuration": _TEXT, "removed": _BOOLEAN},
    "protocol": {
        "minReaderVersion": _VERSION,
        "minWriterVersion": _VERSION,
        "readerFeatures": _TEXTS,
        "writerFeatures": _TEXTS,
    },
    "metaData": {
        "id": _TEXT,
        "name": _TEXT,
        "description": _TEXT,
        "format": _OBJECT,
        "schemaString": _TEXT,
        "partitionColumns": _TEXTS,
        "createdTime": _INTEGER,
        "configuration": _MAP,
    },
    "format": {"provider": _TEXT, "options": _MAP},
    "sidecar": {"path": _TEXT, "sizeInBytes": _INTEGER, "modificationTime": _INTEGER, "tags": _MAP},
    "checkpointMetadata": {"version": _INTEGER, "tags": _MAP},
}
#: The members without which an action cannot be told from others, or used at all.
_REQUIRED = {
    "add": ("path", "size"),
    "remove": ("path",),
    "cdc": ("path",),
    "deletionVector": ("storageType", "pathOrInlineDv"),
    "format": ("provider",),
    "txn": ("appId",),
    "domainMetadata": ("domain",),
    "sidecar": ("path",),
}


def action_column(name: str) -> Field:
    """Return the column in which checkpoints have an action, or an object inside one."""
    members = ((member, kind.column) for member, kind in _MEMBERS[name].items())
    return Field(name, Struct(tuple(action_column(one) if kind is None else Field(one, kind) for one, kind in members)))


def check_members(name: str, members: Any, line: int | None = None) -> None:
    """Refuse an action whose members have other JSON types than the protocol says. Unknown ones may have any.

    Raises
    ------
    CorruptLogError
        If it is no object, a member has another type, or one is missing that it cannot do without.
    """
    kinds = _MEMBERS.get(name)
    if kinds is None:
        return
    if not isinstance(members, dict):
        raise CorruptLogError(f"{name} is not a JSON object", line=line)
    for member, kind in kinds.items():
        value = members.get(member)
        if value is None:
            if member in _REQUIRED.get(name, ()):
                raise CorruptLogError(f"{name} has no {member}, which the protocol requires", line=line)
        elif not kind.fits(value):
            raise CorruptLogError(f"{name}.{member} must be {kind.words}", line=line)
        elif kind is _OBJECT:
            check_members(member, value, line)
