"""JSON as the compiled kernels read it: a strict `json.loads`.

It refuses ``NaN``, ``Infinity`` and more than 128 levels of nesting, takes no time over numbers that are too long for
any field, and marks objects that repeat a key.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

__all__ = ["RepeatedKeys", "decoder", "loads", "skip_blanks", "value_at"]

_MAX_DEPTH = 128
_LONGEST_INTEGER = 400
#: A string, or the rest of one without a closing quote, so that a match never fails and never backtracks.
_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)


class RepeatedKeys(dict[str, Any]):
    """An object that repeats keys. It holds the last value of each key."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        counts = Counter(name for name, _ in pairs)
        self.repeated = {name for name, count in counts.items() if count > 1}


def decoder(
    parse_int: Callable[[str], Any] | None = None, parse_float: Callable[[str], Any] | None = None
) -> json.JSONDecoder:
    """Return a strict decoder that builds numbers with the given functions."""
    return json.JSONDecoder(
        object_pairs_hook=_object,
        parse_int=parse_int or _integer,
        parse_float=parse_float,
        parse_constant=_constant,
    )


def loads(text: str, decoder: json.JSONDecoder | None = None) -> Any:
    """Read a JSON value.

    Raises
    ------
    ValueError
        If the text is not strict JSON.
    """
    if text.count("{") + text.count("[") > _MAX_DEPTH and _depth(text) > _MAX_DEPTH:
        raise ValueError(f"nested deeper than {_MAX_DEPTH} levels")
    return (decoder or _DECODER).decode(text)


def value_at(text: str, at: int) -> tuple[Any, int]:
    """Read the value that begins at or after ``at`` in valid JSON; return it and where it ends."""
    value, end = _DECODER.raw_decode(text, skip_blanks(text, at))
    return value, end


def skip_blanks(text: str, at: int) -> int:
    """Return the index of the first character from ``at`` on that is not blank."""
    while text[at] in " \t\r\n":
        at += 1
    return at


def _depth(text: str) -> int:
    depth = deepest = 0
    for character in _STRING.sub("", text):
        if character in "{[":
            depth += 1
            deepest = max(deepest, depth)
        elif character in "}]":
            depth -= 1
    return deepest


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    return members if len(members) == len(pairs) else RepeatedKeys(pairs)


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) <= _LONGEST_INTEGER else float("inf")


def _constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON value")


_DECODER = decoder()
