"""Text that is safe for a terminal, and JSON."""

from __future__ import annotations

import codecs
import json
import math
import sys
from typing import Any

from deltaberg.errors import TooLargeError

__all__ = ["JsonText", "clean", "json_number", "json_text", "shown"]


class JsonText(str):
    """Text that is JSON already."""

    __slots__ = ()


def clean(text: str) -> str:
    r"""Spell out what could steer a terminal, or mislead its reader: controls, marks of direction, odd spaces.

    Examples
    --------
    >>> print(clean("a\x1b[2Jb"))
    a\x1b[2Jb
    """
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def json_text(value: Any) -> str:
    r"""Give a value as JSON on one line, with everything escaped that `clean` would spell out.

    Examples
    --------
    >>> print(json_text({"a": [1, None, "\x9b2J"], "b": JsonText("1.10")}))
    {"a": [1, null, "\u009b2J"], "b": 1.10}
    """
    try:
        text = _encoded(value)
    except RecursionError:
        raise TooLargeError("a value is nested too deeply to be printed") from None
    if text.isprintable() and (_writes_unicode() or text.isascii()):
        return text
    plain = _writes_unicode()
    # Only strings hold such letters, so that escapes are right wherever one stands.
    return "".join(
        letter if letter.isprintable() and (plain or letter.isascii()) else json.dumps(letter)[1:-1] for letter in text
    )


def json_number(value: float) -> float | str:
    """Give a number, or the text for one that JSON has no form for: NaN, Infinity and -Infinity."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def shown(value: Any) -> str:
    """Give a value as text for people, on one line."""
    if isinstance(value, str) and not isinstance(value, JsonText):
        return clean(value)
    if value is None:
        return "null"
    return json_text(value)


def _encoded(value: Any) -> str:
    if isinstance(value, JsonText):
        return value
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_encoded(str(name))}: {_encoded(item)}" for name, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_encoded, value)) + "]"
    # Python reads NaN and infinities where a log has them, though they are no JSON.
    plain = json_number(value) if isinstance(value, float) else value
    return json.dumps(plain, ensure_ascii=False, allow_nan=False)


def _writes_unicode() -> bool:
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return codecs.lookup(encoding).name.startswith("utf")
