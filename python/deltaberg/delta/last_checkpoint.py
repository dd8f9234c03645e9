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
    """What the pointer says: a checkpoint's version, and the number of its parts where there are several."""

    version: int
    parts: int | None


class _Number(str):
    """A JSON number as it is spelled."""

    __slots__ = ()


def read_last_checkpoint(data: bytes) -> LastCheckpoint | None:
    """Read the pointer; None where it cannot be trusted: no valid JSON, a repeated key, a wrong checksum."""
    try:
        pointer = _loads(data.decode())
    except (ValueError, RecursionError):
        return None
    if not isinstance(pointer, dict):
        return None
    stated = pointer.get(_CHECKSUM)
    if stated is not None and stated not in _checksums(pointer):
        return None
    version, parts = _integer(pointer.get("version")), _integer(pointer.get("parts"))
    return None if version is None or version < 0 else LastCheckpoint(version, parts)


def canonical_json(text: str) -> str:
    """Give the canonical form of a JSON object.

    Examples
    --------
    >>> canonical_json('{"a": 10, "b": {"y": null, "x": "https://delta.io"}}')
    '"a"=10,"b"+"x"="https%3A%2F%2Fdelta.io","b"+"y"=null'
    """
    pairs = _pairs(_without_checksum(_loads(text)))
    return ",".join(f"{path}={value}" for path, value in sorted(pairs, key=lambda pair: pair[0].encode()))


def json_checksum(text: str) -> str:
    """Give the MD5 digest of a JSON object's canonical form, as 32 hexadecimal digits."""
    return hashlib.md5(canonical_json(text).encode(), usedforsecurity=False).hexdigest()


def _checksums(pointer: dict[str, Any]) -> set[str]:
    """Give the checksums to accept: of the specified order, and of the one that Spark's writer sorts by."""
    pairs = list(_pairs(_without_checksum(pointer)))
    by_path = sorted(pairs, key=lambda pair: pair[0].encode())
    by_text = sorted(pairs, key=lambda pair: f"{pair[0]}={pair[1]}".encode())
    forms = (",".join(f"{path}={value}" for path, value in order) for order in (by_path, by_text))
    return {hashlib.md5(form.encode(), usedforsecurity=False).hexdigest() for form in forms}


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
