"""JSON that is written back as it was read: unknown members, nulls and the spelling of numbers survive.

An operation changes some members of an action, of a schema or of table metadata. What it does not change may come from
a newer writer, so it is kept without being understood.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from json.encoder import encode_basestring, encode_basestring_ascii
from typing import Any, NamedTuple

from deltaberg.whole_numbers import whole_number

__all__ = ["Number", "has_lone_surrogate", "integer_of", "read_json", "write_json"]

_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Number:
    """A number as it is spelled: ``1.10`` and ``1e400`` are not what a float would make of them."""

    text: str

    @property
    def integer(self) -> int | None:
        """The number, if it is spelled as an integer."""
        return whole_number(self.text)

    @property
    def real(self) -> float:
        """The nearest float; an infinite one if the number is out of range."""
        return float(self.text)


def _integer(text: str) -> int | Number:
    """Return an integer as Python has it, if Python spells it the same."""
    number = whole_number(text)
    return Number(text) if number is None or text == "-0" else number


def _float(text: str) -> float | Number:
    """Return a float, if Python spells it the same."""
    value = float(text)
    return value if repr(value) == text else Number(text)


def integer_of(value: Any) -> int | None:
    """Return a member that `read_json` gave, if it is an integer."""
    if isinstance(value, Number):
        return value.integer
    return value if type(value) is int else None


def has_lone_surrogate(text: str) -> bool:
    """Return whether a text holds half of a surrogate pair. JSON can spell such a text, but UTF-8 cannot."""
    return not text.isascii() and _LONE_SURROGATE.search(text) is not None


class _Mark(NamedTuple):
    """Punctuation, and the keys of objects."""

    text: str


def read_json(text: str | bytes, *, unique: bool = False, plain: bool = False) -> Any:
    """Read a JSON value; numbers are given as `Number`.

    Parameters
    ----------
    plain
        Give numbers as ``int`` and ``float`` where these are written as they were spelled, and as `Number` only where
        they are not.
    unique
        Refuse objects that repeat a key. Otherwise the last value of a key wins.

    Raises
    ------
    ValueError
        The text is not JSON, or an object repeats a key.
    RecursionError
        The value is nested too deeply.

    Examples
    --------
    >>> read_json('[1, 1.5, 1.50]', plain=True)
    [1, 1.5, Number(text='1.50')]
    """
    return json.loads(
        text,
        object_pairs_hook=_unique_members if unique else None,
        parse_int=_integer if plain else Number,
        parse_float=_float if plain else Number,
        parse_constant=_refuse,
    )


def write_json(value: Any) -> str:
    """Write a JSON value, such as one of `read_json`, without whitespace.

    Raises
    ------
    TypeError, ValueError
        It contains a value JSON cannot represent.

    Examples
    --------
    >>> write_json(read_json('{"a": 1.10, "b": [null, 1e400]}'))
    '{"a":1.10,"b":[null,1e400]}'
    """
    try:
        text = _ENCODER.encode(value)
    except (TypeError, RecursionError):
        text = None
    if text is not None and not has_lone_surrogate(text):
        return text
    return _write_slowly(value)


def _write_slowly(value: Any) -> str:
    """Write a value that the encoder of the standard library cannot: one with spelled numbers, or a deep one."""
    parts: list[str] = []
    # A stack in place of recursion: Python's own ends sooner than the depth that was read.
    waiting: list[Any] = [value]
    while waiting:
        current = waiting.pop()
        if isinstance(current, (Number, _Mark)):
            parts.append(current.text)
        elif isinstance(current, Mapping):
            waiting.append(_Mark("}"))
            for number, (name, member) in reversed(list(enumerate(current.items()))):
                waiting += [member, _Mark(f"{',' if number else ''}{_text(name)}:")]
            waiting.append(_Mark("{"))
        elif isinstance(current, (list, tuple)):
            waiting.append(_Mark("]"))
            for number, item in reversed(list(enumerate(current))):
                waiting += [item, _Mark(",")] if number else [item]
            waiting.append(_Mark("["))
        else:
            parts.append(_text(current) if isinstance(current, str) else json.dumps(current, allow_nan=False))
    return "".join(parts)


def _text(text: str) -> str:
    # Half of a surrogate pair can only be written as an escape.
    return encode_basestring_ascii(text) if has_lone_surrogate(text) else encode_basestring(text)


def _unique_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a key is repeated")
    return members


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON value")
