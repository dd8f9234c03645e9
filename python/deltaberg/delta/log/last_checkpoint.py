"""The ``_last_checkpoint`` file: a hint that saves listing, with a checksum over its canonical form.

Delta protocol, "Last Checkpoint File Schema" and "JSON checksum".
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

from deltaberg.lossless_json import Number, read_json, write_json

__all__ = ["LastCheckpoint", "canonical_json", "encode_last_checkpoint", "json_checksum", "read_last_checkpoint"]

_CHECKSUM = "checksum"
#: The digits of the greatest integer of 64 bits.
_MOST_DIGITS = 19


class LastCheckpoint(NamedTuple):
    """The facts in the file about the newest checkpoint.

    Parameters
    ----------
    version
        The version of the checkpoint.
    parts
        The number of its parts; None if it is a single file.
    file
        The name of a V2 checkpoint in the log; None for other kinds.
    tags
        What its writer noted; None if there is nothing.
    """

    version: int
    parts: int | None
    file: str | None = None
    tags: dict[str, str] | None = None


def read_last_checkpoint(data: bytes) -> LastCheckpoint | None:
    """Read the file; None if it cannot be trusted: it is not JSON, repeats a key, or has a wrong checksum."""
    try:
        pointer = read_json(data.decode(), unique=True)
        if not isinstance(pointer, dict) or not _has_its_checksum(pointer):
            return None
    except (ValueError, RecursionError):
        return None
    version, parts = _integer(pointer.get("version")), _integer(pointer.get("parts"))
    if version is None or version < 0:
        return None
    return LastCheckpoint(version, parts, _file(pointer.get("v2Checkpoint")), _tags(pointer.get("tags")))


def encode_last_checkpoint(members: Mapping[str, Any]) -> bytes:
    """Return the content of the file, with its checksum.

    Parameters
    ----------
    members
        The members by name, without ``checksum``; those that are None are left out.

    Examples
    --------
    >>> encode_last_checkpoint({"version": 10, "size": 4, "parts": None})
    b'{"version":10,"size":4,"checksum":"eb4e6a79cca1989449cab7004b4de31b"}'
    """
    stated = {name: value for name, value in members.items() if value is not None}
    return write_json({**stated, _CHECKSUM: json_checksum(write_json(stated))}).encode()


def _file(checkpoint: Any) -> str | None:
    """Return the name of a V2 checkpoint; some writers record a whole path."""
    path = checkpoint.get("path") if isinstance(checkpoint, dict) else None
    return path.rpartition("/")[2] if type(path) is str else None


def _tags(tags: Any) -> dict[str, str] | None:
    if not isinstance(tags, dict):
        return None
    return {name: str(value) for name, value in tags.items() if isinstance(value, str)}


def canonical_json(text: str) -> str:
    """Return the canonical form of a JSON value.

    Examples
    --------
    >>> canonical_json('{"a": 10, "b": {"y": null, "x": "https://delta.io"}}')
    '"a"=10,"b"+"x"="https%3A%2F%2Fdelta.io","b"+"y"=null'
    """
    pairs = _pairs(_without_checksum(read_json(text, unique=True)))
    return ",".join(_member(pair) for pair in sorted(pairs, key=lambda pair: pair[0].encode()))


def json_checksum(text: str) -> str:
    """Return the MD5 digest of a JSON object's canonical form, as 32 hexadecimal digits."""
    return _digest(canonical_json(text))


def _has_its_checksum(pointer: dict[str, Any]) -> bool:
    """Return whether the checksum, if there is one, fits the specified order of members or that of Spark's writer."""
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


def _pairs(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for name, member in value.items():
            yield from _pairs(member, _joined(path, _quoted(name)))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _pairs(item, _joined(path, str(index)))
    elif isinstance(value, Number):
        yield path, value.text
    elif isinstance(value, str):
        yield path, _quoted(value)
    else:
        yield path, {None: "null", True: "true", False: "false"}[value]


def _joined(path: str, segment: str) -> str:
    return f"{path}+{segment}" if path else segment


def _quoted(text: str) -> str:
    return f'"{quote(text, safe="-._~")}"'


def _integer(value: Any) -> int | None:
    """Return an integer with no more digits than a version can have; None for anything else."""
    return value.integer if isinstance(value, Number) and len(value.text) <= _MOST_DIGITS else None
