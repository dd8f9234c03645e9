"""The actions of a log entry, checked like the compiled kernels check them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from deltaberg.errors import CorruptLogError
from deltaberg.kernels.pure.log import strict_json

__all__ = ["Action", "CommitActions", "parse_commit"]

_INT64 = 1 << 63
_INT32 = 1 << 31

#: The members of an action that the protocol knows, checked. Maps are lists of pairs, as Arrow takes them.
Action = dict[str, Any]


@dataclass
class CommitActions:
    """The actions of a log entry, by their names. Of protocol and metaData it holds the text of the last one."""

    found: dict[str, list[Action]] = field(default_factory=lambda: {name: [] for name in _ACTIONS})
    spelled: dict[str, str] = field(default_factory=dict)


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
    _refuse_repeated(members, (*_ACTIONS, *_SPELLED))
    for name, value in members.items():
        if value is None or (name not in _ACTIONS and name not in _SPELLED):
            continue
        if not isinstance(value, dict):
            raise _InvalidFieldError("an action must be an object")
        if name in _SPELLED:
            start, end = _member_at(line.text, strict_json.skip_blanks(line.text, 0), name)
            actions.spelled[name] = line.text[start:end]
            continue
        action = _checked(value, name, *_ACTIONS[name])
        if name == "add" and action["stats"] is not None:
            action["stats"] = _stats_place(line)
        actions.found[name].append(action)


def _checked(value: dict[str, Any], what: str, fields: Mapping[str, _Read], required: Sequence[str]) -> Action:
    _refuse_repeated(value, fields)
    found = {name: read(value, name) for name, read in fields.items()}
    for name in required:
        if found[name] is None:
            raise _InvalidFieldError(f"{what} has no {name}, which the protocol requires")
    return found


def _refuse_repeated(members: dict[str, Any], known: Collection[str]) -> None:
    """Refuse a known key that is repeated, which has no defined meaning in JSON."""
    if isinstance(members, strict_json.RepeatedKeys) and any(name in known for name in members.repeated):
        raise _InvalidFieldError("a key is repeated")


def _stats_place(line: _Line) -> dict[str, int]:
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
    return {"offset": first, "length": past - first}


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
    number = value.get(name)
    if number is None:
        return None
    if isinstance(number, bool) or not isinstance(number, int) or not -limit <= number < limit:
        bits = limit.bit_length()
        raise _InvalidFieldError(f"{name} must be a {bits}-bit integer")
    return number


def _string_map(value: dict[str, Any], name: str) -> list[tuple[str, str | None]] | None:
    mapping = _typed(value, name, dict, "an object")
    if mapping is None:
        return None
    if isinstance(mapping, strict_json.RepeatedKeys):
        raise _InvalidFieldError("a key is repeated")
    for key, text in mapping.items():
        _unicode(key, name)
        if text is not None:
            if not isinstance(text, str):
                raise _InvalidFieldError("a value in partitionValues or tags must be a string")
            _unicode(text, name)
    return list(mapping.items())


def _vector(value: dict[str, Any], name: str) -> Action | None:
    found = _typed(value, name, dict, "an object")
    return (
        None
        if found is None
        else _checked(found, name, _VECTOR_FIELDS, [key for key in _VECTOR_FIELDS if key != "offset"])
    )


#: Reads the member of an object with a name.
_Read = Callable[[dict[str, Any], str], Any]
_VECTOR_FIELDS: dict[str, _Read] = {
    "storageType": _text,
    "pathOrInlineDv": _text,
    "offset": partial(_integer, limit=_INT32),
    "sizeInBytes": partial(_integer, limit=_INT32),
    "cardinality": _integer,
}
_FILE_FIELDS: dict[str, _Read] = {
    "stats": partial(_typed, kind=str, words="a string"),
    "modificationTime": _integer,
    "deletionTimestamp": _integer,
    "path": _text,
    "partitionValues": _string_map,
    "size": _integer,
    "dataChange": _boolean,
    "tags": _string_map,
    "deletionVector": _vector,
    "baseRowId": _integer,
    "defaultRowCommitVersion": _integer,
    "clusteringProvider": _text,
    "extendedFileMetadata": _boolean,
}
#: The members of actions, how each is read, and those that an action must have.
_ACTIONS: dict[str, tuple[dict[str, _Read], Sequence[str]]] = {
    "add": (_FILE_FIELDS, ("path", "dataChange", "partitionValues", "size", "modificationTime")),
    "remove": (_FILE_FIELDS, ("path", "dataChange")),
    "txn": ({"appId": _text, "version": _integer, "lastUpdated": _integer}, ("appId", "version")),
    "domainMetadata": (
        {"domain": _text, "configuration": _text, "removed": _boolean},
        ("domain", "configuration", "removed"),
    ),
}
#: Actions of which the text is kept.
_SPELLED = ("protocol", "metaData")
