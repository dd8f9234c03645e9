"""Patterns of LIKE: ``%`` stands for any text, ``_`` for one character, and the escape character for itself."""

from __future__ import annotations

import re
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import ExpressionError

__all__ = ["ESCAPE", "like_kernel"]

#: The escape character of patterns that name none.
ESCAPE = "\\"

#: Tells which texts match.
_Kernel = Callable[[pa.Array], pa.BooleanArray]


def like_kernel(pattern: str | None, escape: str | None) -> _Kernel:
    """Return the kernel of LIKE with a pattern.

    Raises
    ------
    ExpressionError
        If the escape character is followed by nothing that it could escape.
    """
    if pattern is None or escape is None:
        return lambda values: pa.nulls(len(values), pa.bool_())
    if len(escape) != 1:
        raise ExpressionError(f"{escape!r} is not one character", hint="ESCAPE takes one character")
    regex = _regex(pattern, escape)
    inner = pattern.strip("%")
    if not set(inner) & {"%", "_", escape} and escape not in ("%", "_"):
        return _plain(inner, pattern)
    try:
        pc.match_substring_regex(pa.scalar(""), regex)
    except pa.ArrowException:
        raise ExpressionError(f"the pattern {pattern!r:.200} is too long", hint="write a shorter one") from None
    return lambda values: pc.match_substring_regex(values, regex)


def _plain(text: str, pattern: str) -> _Kernel:
    """Return the kernel of a pattern that has % at its ends alone."""
    if not text and pattern:
        return lambda values: pc.equal(values, values)
    compute = {
        (False, False): pc.equal,
        (False, True): pc.starts_with,
        (True, False): pc.ends_with,
        (True, True): pc.match_substring,
    }[pattern.startswith("%"), pattern.endswith("%")]
    return lambda values: compute(values, text)


def _regex(pattern: str, escape: str) -> str:
    parts = []
    at = 0
    while at < len(pattern):
        mark = pattern[at]
        if mark == escape:
            at += 1
            if at == len(pattern) or pattern[at] not in ("_", "%", escape):
                raise ExpressionError(
                    f"the pattern {pattern!r} escapes what is neither % nor _", hint="double the escape character"
                )
            parts.append(re.escape(pattern[at]))
        else:
            parts.append({"_": ".", "%": ".*"}.get(mark) or _quoted(mark))
        at += 1
    return f"(?s)\\A{''.join(parts)}\\z"


def _quoted(mark: str) -> str:
    return re.escape(mark) if mark.isascii() else mark
