"""Text that is safe to print on a terminal, and JSON."""

from __future__ import annotations

import codecs
import json
import math
import sys
from typing import Any

from deltaberg.errors import TooLargeError

__all__ = ["JsonText", "clean", "json_number", "json_text", "listed", "shown"]


class JsonText(str):
    """Text that already is JSON."""

    __slots__ = ()


def clean(text: str) -> str:
    r"""Escape characters that could steer a terminal or mislead its reader: controls, direction marks, odd spaces.

    Examples
    --------
    >>> print(clean("a\x1b[2Jb"))
    a\x1b[2Jb
    """
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def json_text(value: Any) -> str:
    r"""Return a value as JSON on one line, which also escapes what `clean` escapes.

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
    # Such characters only occur in strings, where escapes are valid.
    return "".join(
        letter if letter.isprintable() and (plain or letter.isascii()) else json.dumps(letter)[1:-1] for letter in text
    )


def json_number(value: float) -> float | str:
    """Return a number, or text for one that JSON lacks: NaN, Infinity and -Infinity."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def shown(value: Any) -> str:
    """Return a value as one line of text for people."""
    if isinstance(value, str) and not isinstance(value, JsonText):
        return clean(value)
    if value is None:
        return "null"
    return json_text(value)


def listed(value: Any) -> str:
    """Return a value for people as one line of text, without the brackets and quotes of JSON around lists and objects.

    Examples
    --------
    >>> listed({"mode": "Append", "partitionBy": []}), listed(["a", 1]), listed({})
    ('mode: Append', 'a, 1', 'none')
    """
    if isinstance(value, dict):
        parts = [f"{clean(str(name))}: {listed(one)}" for name, one in value.items() if one not in (None, [], {})]
    elif isinstance(value, (list, tuple)):
        parts = [listed(one) for one in value]
    else:
        return shown(value)
    return ", ".join(parts) or "none"


def _encoded(value: Any) -> str:
    if isinstance(value, JsonText):
        return value
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_encoded(str(name))}: {_encoded(item)}" for name, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_encoded, value)) + "]"
    # Python reads NaN and infinities from a log, although they are not JSON.
    plain = json_number(value) if isinstance(value, float) else value
    return json.dumps(plain, ensure_ascii=False, allow_nan=False)


def _writes_unicode() -> bool:
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return codecs.lookup(encoding).name.startswith("utf")
