"""Bounds of long texts, cut to the prefixes that statistics record (Delta protocol, "Per-file Statistics")."""

from __future__ import annotations

from typing import Any

__all__ = ["cut_bounds"]

#: Characters of a bound, as in the reference implementation.
_LONGEST = 32
#: What makes a prefix greater than any text that begins with it: readable where that is enough.
_AFTER_ASCII, _GREATEST = "\x7f", "\U0010ffff"


def cut_bounds(lower: Any, upper: Any) -> tuple[Any, Any]:
    r"""Return bounds of texts that are cut to 32 characters.

    A lower bound may be any prefix. An upper bound gets a last character that makes it greater than what was cut off.
    Bounds of bytes are left out, since Delta does not record them.

    Examples
    --------
    >>> low, high = cut_bounds("a" * 40, "b" * 40)
    >>> low == "a" * 32, high == "b" * 32 + "\x7f"
    (True, True)
    """
    if not isinstance(lower, str) or not isinstance(upper, str):
        return None, None
    return lower[:_LONGEST], _cut_upper(upper)


def _cut_upper(text: str) -> str:
    if len(text) <= _LONGEST:
        return text
    end = _LONGEST
    while end < len(text) and text[end] == _GREATEST:
        end += 1
    if end == len(text):
        return text
    return text[:end] + (_AFTER_ASCII if text[end] < _AFTER_ASCII else _GREATEST)
