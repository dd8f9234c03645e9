"""Texts of others in messages, as both kernels show them."""

from __future__ import annotations

import json
import re

__all__ = ["quoted"]

#: Control characters that JSON leaves as they are.
_LATER_CONTROLS = re.compile("[\x7f-\x9f]")


def quoted(text: str) -> str:
    r"""Return a text in quotes, with control characters as JSON escapes them, so that no terminal obeys them.

    Examples
    --------
    >>> print(quoted('a"b\x1b'))
    "a\"b\u001b"
    """
    return _LATER_CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(text, ensure_ascii=False))
