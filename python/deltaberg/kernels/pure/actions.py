"""The actions of a log entry, checked like the compiled kernels check them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from deltaberg.errors import CorruptLogError
from deltaberg.kernels.pure import strict_json
from deltaberg.kernels.results import DELETION_VECTOR

__all__ = ["CommitActions", "FileAction", "Vector", "parse_commit"]

_INT64 = 1 << 63
_INT32 = 1 << 31


class Vector(NamedTuple):
    """A deletion vector descriptor."""

    storage_type: str
    path_or_inline: str
    offset: int | None
    size_in_bytes: int
    cardinality: int

    @property
    def unique_id(self) -> str:
        """The unique id (Delta protocol, "Derived Fields")."""
        at = "" if self.offset is None else f"@{self.offset}"
        return f"{self.storage_type}{self.path_or_inline}{at}"


class FileAction(NamedTuple):
    """An ``add`` or a ``remove``.

    ``time`` is the modificationTime of an add or the deletionTimestamp of a remove. ``stats`` is the place (offset,
    length) of the statistics' text in the log entry.
    """

    path: str
    partition_values: dict[str, str | None] | None
    size: int | None
    time: int | None
    data_change: bool
    stats: tuple[int, int] | None
    tags: dict[str, str | None] | None
    vector: Vector | None
    base_row_id: int | None
    default_row_commit_version: int | None
    clustering_provider: str | None
    extended_file_metadata: bool | None

    @property
    def vector_id(self) -> str:
        """The unique id of the deletion vector; empty without one."""
        return "" if self.vector is None else self.vector.unique_id


@dataclass
class CommitActions:
    """The actions of a log entry. Of protocol and metaData it holds the text of the last one."""

    adds: list[FileAction] = field(default_factory=list)
    removes: list[FileAction] = field(default_factory=list)
    transactions: list[tuple[str, int, int | None]] = field(default_factory=list)
    domains: list[tuple[str, str, bool]] = field(default_factory=list)
    protocol: str | None = None
    metadata: str | None = None


class _InvalidFieldError(ValueError):
    """A field has a value that the protocol does not allow."""


def parse_commit(version: int, data: bytes) -> CommitActions:
    """Read all lines of a log entry."""
    actions = CommitActions()
    start = 0
    for number, raw in enumerate(data.split(b"\n"), start=1):
        try:
            text = raw.decode()
            if text.strip(" \t\r"):
                _read_line(_Line(text, start), actions)
        except UnicodeDecodeError:
            raise CorruptLogError("the line is not UTF-8", version=str(version), line=str(number)) from None
        except ValueError as error:
            raise CorruptLogError(str(error), version=str(version), line=str(number)) from None
        start += len(raw) + 1
    return actions


class _Line(NamedTuple):
    """A line of a log entry, and the byte of the entry at which it begins."""

    text: str
    start: int

    def byte_at(self, index: int) -> int:
        """Return the byte of the entry at which character ``index`` of the line begins."""
        before = index if self.text.isascii() else len(self.text[:index].encode())
        return self.start + before


def _read_line(line: _Line, actions: CommitActions) -> None:
    members = strict_json.loads(line.text)
    if not isinstance(members, dict):
        raise _InvalidFieldError("an action line must be an object")
    _refuse_repeated(members, _READERS)
    for name, value in members.items():
        reader = _READERS.get(name)
        if reader is None or value is None:
            continue
        if not isinstance(value, dict):
            raise _InvalidFieldError("an action must be an object")
        reader(actions, value, line)


def _refuse_repeated(members: dict[str, Any], known: Any) -> None:
    """Refuse a known key that is repeated, which has no defined meaning in JSON."""
    if isinstance(members, strict_json.RepeatedKeys) and any(name in known for name in members.repeated):
        raise _InvalidFieldError("a key is repeated")


def _add(actions: CommitActions, value: dict[str, Any], line: _Line) -> None:
    action = _file_action(value, "add")
    stats = None if value.get("stats") is None else _stats_place(line)
    actions.adds.append(action._replace(stats=stats))


def _remove(actions: CommitActions, value: dict[str, Any], _line: _Line) -> None:
    actions.removes.append(_file_action(value, "remove"))


def _stats_place(line: _Line) -> tuple[int, int]:
    """Return the place of the text of ``add.stats`` in the log entry."""
    text = line.text
    key = text.find('"stats"')
    if key < 0 or text.find('"stats"', key + 1) >= 0 or "\\u00" in text:
        # The string "stats" occurs more than once, or the key may be escaped: walk to the right member.
        add = _member_at(text, strict_json.skip_blanks(text, 0), "add")
        value = _member_at(text, add[0], "stats")[0]
    else:
        value = strict_json.skip_blanks(text, text.index(":", key) + 1)
    _, end = strict_json.value_at(text, value)
    first, past = line.byte_at(value + 1), line.byte_at(end - 1)
    return first, past - first


def _member_at(text: str, at: int, name: str) -> tuple[int, int]:
    """Return where the value of a member begins and ends, in the object that begins at ``at``."""
    at += 1
    while True:
        key, at = strict_json.value_at(text, at)
        start = strict_json.skip_blanks(text, text.index(":", at) + 1)
        _, at = strict_json.value_at(text, start)
        if key == name:
            return start, at
        at = text.index(",", at) + 1


_FILE_FIELDS = frozenset(
    {
        "path",
        "partitionValues",
        "size",
        "modificationTime",
        "deletionTimestamp",
        "dataChange",
        "stats",
        "tags",
        "deletionVector",
        "baseRowId",
        "defaultRowCommitVersion",
        "clusteringProvider",
        "extendedFileMetadata",
    }
)


def _file_action(value: dict[str, Any], name: str) -> FileAction:
    _refuse_repeated(value, _FILE_FIELDS)
    _typed(value, "stats", str, "a string")
    times = {"modificationTime": _integer(value, "modificationTime")}
    times["deletionTimestamp"] = _integer(value, "deletionTimestamp")
    is_add = name == "add"
    action = FileAction(
        path=_text(value, "path") or "",
        partition_values=_string_map(value, "partitionValues"),
        size=_integer(value, "size"),
        time=times["modificationTime" if is_add else "deletionTimestamp"],
        data_change=bool(_boolean(value, "dataChange")),
        stats=None,
        tags=_string_map(value, "tags"),
        vector=_vector(value.get("deletionVector")),
        base_row_id=_integer(value, "baseRowId"),
        default_row_commit_version=_integer(value, "defaultRowCommitVersion"),
        clustering_provider=_text(value, "clusteringProvider"),
        extended_file_metadata=_boolean(value, "extendedFileMetadata"),
    )
    required = ("path", "dataChange", *(("partitionValues", "size", "modificationTime") if is_add else ()))
    _require(value, name, required)
    return action


_VECTOR_FIELDS = tuple(child.name for child in DELETION_VECTOR)
_REQUIRED_OF_VECTOR = tuple(name for name in _VECTOR_FIELDS if name != "offset")


def _vector(value: Any) -> Vector | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise _InvalidFieldError("deletionVector must be an object")
    _refuse_repeated(value, _VECTOR_FIELDS)
    vector = Vector(
        storage_type=_text(value, "storageType") or "",
        path_or_inline=_text(value, "pathOrInlineDv") or "",
        offset=_integer(value, "offset", _INT32),
        size_in_bytes=_integer(value, "sizeInBytes", _INT32) or 0,
        cardinality=_integer(value, "cardinality") or 0,
    )
    _require(value, "deletionVector", _REQUIRED_OF_VECTOR)
    return vector


def _transaction(actions: CommitActions, value: dict[str, Any], _line: _Line) -> None:
    _refuse_repeated(value, ("appId", "version", "lastUpdated"))
    entry = (_text(value, "appId") or "", _integer(value, "version") or 0, _integer(value, "lastUpdated"))
    _require(value, "txn", ("appId", "version"))
    actions.transactions.append(entry)


def _domain(actions: CommitActions, value: dict[str, Any], _line: _Line) -> None:
    fields = ("domain", "configuration", "removed")
    _refuse_repeated(value, fields)
    entry = (_text(value, "domain") or "", _text(value, "configuration") or "", bool(_boolean(value, "removed")))
    _require(value, "domainMetadata", fields)
    actions.domains.append(entry)


def _protocol(actions: CommitActions, _value: dict[str, Any], line: _Line) -> None:
    actions.protocol = _spelling(line.text, "protocol")


def _metadata(actions: CommitActions, _value: dict[str, Any], line: _Line) -> None:
    actions.metadata = _spelling(line.text, "metaData")


def _spelling(text: str, name: str) -> str:
    """Return the text of a member's value in the object of a line."""
    start, end = _member_at(text, strict_json.skip_blanks(text, 0), name)
    return text[start:end]


_READERS: dict[str, Callable[[CommitActions, dict[str, Any], _Line], None]] = {
    "add": _add,
    "remove": _remove,
    "txn": _transaction,
    "domainMetadata": _domain,
    "protocol": _protocol,
    "metaData": _metadata,
}


def _require(value: dict[str, Any], action: str, names: Iterator[str] | tuple[str, ...]) -> None:
    for name in names:
        if value.get(name) is None:
            raise _InvalidFieldError(f"{action} has no {name}, which the protocol requires")


def _typed(value: dict[str, Any], name: str, kind: type, words: str) -> Any:
    found = value.get(name)
    if found is not None and not isinstance(found, kind):
        raise _InvalidFieldError(f"{name} must be {words}")
    return found


def _text(value: dict[str, Any], name: str) -> str | None:
    found: str | None = _typed(value, name, str, "a string")
    return None if found is None else _unicode(found, name)


def _unicode(text: str, name: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _InvalidFieldError(f"{name} is not valid Unicode") from None
    return text


def _boolean(value: dict[str, Any], name: str) -> bool | None:
    found: bool | None = _typed(value, name, bool, "a boolean")
    return found


def _integer(value: dict[str, Any], name: str, limit: int = _INT64) -> int | None:
    found = value.get(name)
    if found is None:
        return None
    if isinstance(found, bool) or not isinstance(found, int) or not -limit <= found < limit:
        bits = limit.bit_length()
        raise _InvalidFieldError(f"{name} must be a {bits}-bit integer")
    return found


def _string_map(value: dict[str, Any], name: str) -> dict[str, str | None] | None:
    found = _typed(value, name, dict, "an object")
    if found is None:
        return None
    if isinstance(found, strict_json.RepeatedKeys):
        raise _InvalidFieldError("a key is repeated")
    for key, text in found.items():
        _unicode(key, name)
        if text is not None:
            if not isinstance(text, str):
                raise _InvalidFieldError("a value in partitionValues or tags must be a string")
            _unicode(text, name)
    members: dict[str, str | None] = found
    return members
