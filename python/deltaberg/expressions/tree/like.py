"""Patterns of LIKE: ``%`` stands for any text, ``_`` for one character, and the escape character for itself."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import ExpressionError
from deltaberg.hints import shown_value

__all__ = ["ESCAPE", "like_kernel"]

#: The escape character of patterns that name none.
ESCAPE = "\\"
#: Of longer patterns, the matcher of Arrow takes too much time: as many steps for each character of a text as the
#: pattern has characters.
_MOST_OF_REGEX = 64
#: The bits of a pattern may take this many bytes for each of its characters.
_MOST = 1 << 15

#: Tells which texts match.
_Kernel = Callable[[pa.Array], pa.BooleanArray]


def like_kernel(pattern: str | None, escape: str | None) -> _Kernel:
    """Return the kernel of LIKE with a pattern. It takes time in proportion to the length of texts.

    Raises
    ------
    ExpressionError
        If the escape character is followed by nothing that it could escape, or the pattern is too long.
    """
    if pattern is None or escape is None:
        return lambda values: pa.nulls(len(values), pa.bool_())
    if len(escape) != 1:
        raise ExpressionError(f"{shown_value(escape)} is not one character", hint="ESCAPE takes one character")
    parsed = _Pattern.of(pattern, escape)
    inner = pattern.strip("%")
    if not set(inner) & {"%", "_", escape} and escape not in ("%", "_"):
        return _plain(inner, pattern)
    if len(parsed.characters) > _MOST:
        raise ExpressionError(f"the pattern {shown_value(pattern)} is too long", hint="write a shorter one")
    if len(parsed.characters) > _MOST_OF_REGEX:
        return parsed.kernel()
    regex = parsed.regex()
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


class _Pattern(NamedTuple):
    """A pattern without its marks.

    Parameters
    ----------
    characters
        The characters that a text must have, in their order; None for any one.
    gaps
        The numbers of the characters before which there may be any text; the number after the last one is the end.
    """

    characters: list[str | None]
    gaps: set[int]

    @classmethod
    def of(cls, pattern: str, escape: str) -> _Pattern:
        parsed = cls([], set())
        marks = iter(pattern)
        for mark in marks:
            if mark == escape:
                following = next(marks, "")
                if following not in ("_", "%", escape):
                    raise ExpressionError(
                        f"the pattern {pattern!r} escapes what is neither % nor _", hint="double the escape character"
                    )
                parsed.characters.append(following)
            elif mark == "%":
                parsed.gaps.add(len(parsed.characters))
            else:
                parsed.characters.append(None if mark == "_" else mark)
        return parsed

    def regex(self) -> str:
        """Return the regular expression that matches alike."""
        shown = ["." if one is None else re.escape(one) if one.isascii() else one for one in self.characters]
        parts = [f"{'.*' if at in self.gaps else ''}{text}" for at, text in enumerate([*shown, ""])]
        return f"(?s)\\A{''.join(parts)}\\z"

    def kernel(self) -> _Kernel:
        """Return a kernel that follows all ways to match at once, as the bits of one number.

        The bit of each number of characters that the text up to here can match is set.
        """
        count = len(self.characters)
        places = defaultdict(set)
        for at, character in enumerate(self.characters):
            places[character].add(at)
        anywhere, gaps = _bits(places.pop(None, ())), _bits(self.gaps)
        steps = {character: _bits(some) | anywhere for character, some in places.items()}

        def matches(text: str) -> bool:
            reached = 1
            for character in text:
                reached = (reached & steps.get(character, anywhere)) << 1 | (reached & gaps)
                if not reached:
                    return False
            return bool(reached >> count)

        def kernel(values: pa.Array) -> pa.BooleanArray:
            may_match = pc.greater_equal(pc.utf8_length(values), count)
            some = values.filter(may_match).dictionary_encode()
            found = pa.array(map(matches, some.dictionary.to_pylist()), pa.bool_()).take(some.indices)
            return pc.replace_with_mask(may_match, pc.fill_null(may_match, False), found)

        return kernel


def _bits(numbers: set[int] | tuple[()]) -> int:
    """Return the number in which the bits of these numbers are set."""
    found = bytearray(max(numbers, default=0) // 8 + 1)
    for number in numbers:
        found[number >> 3] |= 1 << (number & 7)
    return int.from_bytes(found, "little")
