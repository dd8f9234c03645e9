"""The ``_last_checkpoint`` file: a hint that saves listing, with a checksum over its canonical form.

Delta protocol, "Last Checkpoint File Schema" and "JSON checksum".
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import quote

__all__ = ["LastCheckpoint", "canonical_json", "json_checksum", "read_last_checkpoint"]

_CHECKSUM = "checksum"


class LastCheckpoint(NamedTuple):
    """What the pointer says of a checkpoint.

    ``parts`` is the number of its parts where there are several, ``file`` the name of a V2 checkpoint in the log.
    """

    version: int
    parts: int | None
    file: str | None = None
    tags: dict[str, str] | None = None


class _Number(str):
    """A JSON number as it is spelled."""

    __slots__ = ()


def read_last_checkpoint(data: bytes) -> LastCheckpoint | None:
    """Read the pointer; None where it cannot be trusted: no valid JSON, a repeated key, a wrong checksum."""
    try:
        pointer = _loads(data.decode())
        if not isinstance(pointer, dict) or not _has_its_checksum(pointer):
            return None
    except (ValueError, RecursionError):
        return None
    version, parts = _integer(pointer.get("version")), _integer(pointer.get("parts"))
    if version is None or version < 0:
        return None
    return LastCheckpoint(version, parts, _file(pointer.get("v2Checkpoint")), _tags(pointer.get("tags")))


def _file(checkpoint: Any) -> str | None:
    """Give the name of a V2 checkpoint; some writers record a whole path."""
    path = checkpoint.get("path") if isinstance(checkpoint, dict) else None
    return path.rpartition("/")[2] if type(path) is str else None


def _tags(tags: Any) -> dict[str, str] | None:
    if not isinstance(tags, dict):
        return None
    return {name: str(value) for name, value in tags.items() if isinstance(value, str)}


def canonical_json(text: str) -> str:
    """Give the canonical form of a JSON value.

    Examples
    --------
    >>> canonical_json('{"a": 10, "b": {"y": null, "x": "https://delta.io"}}')
    '"a"=10,"b"+"x"="https%3A%2F%2Fdelta.io","b"+"y"=null'
    """
    pairs = _pairs(_without_checksum(_loads(text)))
    return ",".join(_member(pair) for pair in sorted(pairs, key=lambda pair: pair[0].encode()))


def json_checksum(text: str) -> str:
    """Give the MD5 digest of a JSON object's canonical form, as 32 hexadecimal digits."""
    return _digest(canonical_json(text))


def _has_its_checksum(pointer: dict[str, Any]) -> bool:
    """Say whether the checksum, if there is one, is that of the specified order, or of the one of Spark's writer."""
    stated = pointer.get(_CHECKSUM)
    if stated is None:
        return True
    pairs = list(_pairs(_without_checksum(pointer)))
    by_path = sorted(pairs, key=lambda pair: pair[0].encode())
    by_text = sorted(pairs, key=lambda pair: _member(pair).encode())
    return any(stated == _digest(",".join(map(_member, order))) for order in (by_path, by_text))


def _member(pair: tuple[str, str]) -> str:
    path, value = pair
    return f"{path}={value}" if path else value


def _digest(form: str) -> str:
    return hashlib.md5(form.encode(), usedforsecurity=False).hexdigest()


def _without_checksum(pointer: Any) -> Any:
    if not isinstance(pointer, dict):
        return pointer
    return {name: value for name, value in pointer.items() if name != _CHECKSUM}


def _loads(text: str) -> Any:
    return json.loads(text, object_pairs_hook=_unique, parse_int=_Number, parse_float=_Number, parse_constant=_refuse)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a key is repeated")
    return members


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is no JSON value")


def _pairs(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for name, member in value.items():
            yield from _pairs(member, _joined(path, _quoted(name)))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _pairs(item, _joined(path, str(index)))
    elif isinstance(value, _Number):
        yield path, str(value)
    elif isinstance(value, str):
        yield path, _quoted(value)
    else:
        yield path, {None: "null", True: "true", False: "false"}[value]


def _joined(path: str, segment: str) -> str:
    return f"{path}+{segment}" if path else segment


def _quoted(text: str) -> str:
    return f'"{quote(text, safe="-._~")}"'


def _integer(value: Any) -> int | None:
    if not isinstance(value, _Number) or not value.lstrip("-").isdigit() or len(value) > 19:
        return None
    return int(value)
