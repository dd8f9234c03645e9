"""Java's regular expressions, as far as they mean the same to RE2, which Arrow uses.

What differs is either written in another way (the dot, the dollar sign at the end, white space), or refused. The time
that RE2 takes grows with the length of the text, and never explodes as that of other matchers does.
"""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import UnsupportedExpressionError, first_line
from deltaberg.hints import shown_value

__all__ = ["java_groups", "java_regex", "matches_nothing"]

_LINE_ENDS = "\\n\\r\\x{85}\\x{2028}\\x{2029}"
_CLASSES = {"d": "0-9", "w": "a-zA-Z0-9_", "s": " \\t\\n\\x0b\\f\\r"}
_CONTROLS = {"t": "\\t", "n": "\\n", "r": "\\r", "f": "\\f"}
_REPEAT = re.compile(r"\{([0-9]{1,3})(?:(,)([0-9]{0,3}))?\}")
#: Repetitions that are counted as above, or with greater numbers.
_COUNTED = re.compile(r"\{[0-9]+(?:,[0-9]*)?\}")
_RANGE = re.compile(r"([^\\\[\]^&-])-([^\\\[\]^&-])")


def java_regex(pattern: str) -> str:
    """Return the pattern for RE2 that matches what the pattern matches in Java.

    Raises
    ------
    UnsupportedExpressionError
        If there is none, or it is not known: look-around, references to groups, flags, possessive repetition, Unicode
        classes, borders of words.
    """
    found = _Reader(pattern).read()
    matches_nothing(pattern, found)
    return found


def java_groups(pattern: str) -> tuple[str, int]:
    """Return the pattern for RE2, itself a group ``g0`` and with named groups ``g1`` and so on, and their number.

    Raises
    ------
    UnsupportedExpressionError
        If there is none, or groups that are repeated match nothing at all: what such a group is in the end differs.
    """
    reader = _Reader(pattern, names_groups=True)
    translated = f"(?P<g0>{reader.read()})"
    matches_nothing(pattern, translated)
    if any(matches_nothing(pattern, f"^(?:{group})$") for group in reader.repeated):
        raise UnsupportedExpressionError(
            "a repeated group that matches nothing at all, in the regular expression "
            f"{shown_value(pattern)}, cannot be evaluated"
        )
    return translated, reader.groups


def matches_nothing(pattern: str, regex: str) -> bool:
    """Return whether a pattern for RE2 matches the empty text.

    Raises
    ------
    UnsupportedExpressionError
        If RE2 does not take it.
    """
    try:
        return bool(pc.match_substring_regex(pa.scalar(""), regex).as_py())
    except pa.ArrowException as error:
        why = first_line(error).removeprefix("Invalid regular expression: ")
        raise UnsupportedExpressionError(
            f"the regular expression {shown_value(pattern)} cannot be evaluated: {why:.200}"
        ) from None


class _Reader:
    def __init__(self, pattern: str, *, names_groups: bool = False) -> None:
        self._pattern = pattern
        self._at = 0
        self._names_groups = names_groups
        #: How many groups there are.
        self.groups = 0
        #: What stands in parentheses and is repeated.
        self.repeated: list[str] = []

    def read(self) -> str:
        parts: list[str] = []
        depth = 0
        opened: list[int] = []
        closed = 0
        while self._at < len(self._pattern):
            mark = self._pattern[self._at]
            if mark == "\\":
                parts.append(self._escape(in_class=False))
            elif mark == "[":
                parts.append(self._class())
            elif mark in "*+?{":
                if parts and parts[-1] == ")" and mark != "?":
                    self.repeated.append("".join(parts[closed:]))
                parts.append(self._repeat())
            elif mark == "(":
                opened.append(len(parts))
                parts.append(self._open())
                depth += 1
            else:
                depth -= mark == ")"
                closed = opened.pop() if mark == ")" and opened else closed
                parts.append(self._plain(mark, depth))
                self._at += 1
        return "".join(parts)

    def _refuse(self, what: str) -> UnsupportedExpressionError:
        return UnsupportedExpressionError(
            f"{what} in the regular expression {shown_value(self._pattern)} cannot be evaluated"
        )

    def _plain(self, mark: str, depth: int) -> str:
        if mark == ".":
            return f"[^{_LINE_ENDS}]"
        if mark == "$":
            if self._at != len(self._pattern) - 1 or depth or "|" in self._pattern:
                raise self._refuse("$ before the end")
            return f"(?:\\r\\n|[{_LINE_ENDS}])?\\z"
        if mark == "^" and self._at:
            raise self._refuse("^ behind the start")
        return mark if mark in ")|^" else re.escape(mark)

    def _open(self) -> str:
        if self._pattern.startswith("(?:", self._at):
            self._at += 3
            return "(?:"
        if self._pattern.startswith("(?", self._at):
            raise self._refuse("a group with a question mark")
        self._at += 1
        self.groups += 1
        return f"(?P<g{self.groups}>" if self._names_groups else "("

    def _repeat(self) -> str:
        found = _REPEAT.match(self._pattern, self._at)
        text = found[0] if found else self._pattern[self._at]
        if text == "{" and self._at and _COUNTED.match(self._pattern, self._at):
            raise self._refuse("a repetition of more than 999 times")
        if text == "{" or not self._at:
            raise self._refuse("this repetition" if self._at else "repetition of nothing")
        self._at += len(text)
        following = self._pattern[self._at : self._at + 1]
        if following == "+" or (following and following in "*{"):
            raise self._refuse("possessive repetition")
        if following == "?":
            self._at += 1
            text += "?"
            if self._pattern[self._at : self._at + 1] in ("?", "*", "+", "{"):
                raise self._refuse("repeated repetition")
        return text

    def _escape(self, in_class: bool) -> str:
        mark = self._pattern[self._at + 1 : self._at + 2]
        self._at += 2
        if mark in _CLASSES and mark:
            return _CLASSES[mark] if in_class else f"[{_CLASSES[mark]}]"
        if mark and mark.lower() in _CLASSES and not in_class:
            return f"[^{_CLASSES[mark.lower()]}]"
        if mark in _CONTROLS and mark:
            return _CONTROLS[mark]
        if not mark or mark.isalnum() or not mark.isascii():
            raise self._refuse(f"\\{mark}")
        return f"\\{mark}"

    def _class(self) -> str:
        self._at += 1
        parts = ["["]
        if self._pattern.startswith("^", self._at):
            parts.append("^")
            self._at += 1
        while not self._pattern.startswith("]", self._at) or len(parts) == 1:
            mark = self._pattern[self._at : self._at + 1]
            found = _RANGE.match(self._pattern, self._at)
            if found is not None:
                parts.append(f"{_in_class(found[1])}-{_in_class(found[2])}")
                self._at += 3
            elif mark == "\\":
                parts.append(self._escape(in_class=True))
            elif not mark or mark in "[]&^-":
                raise self._refuse("this class of characters")
            else:
                parts.append(_in_class(mark))
                self._at += 1
        self._at += 1
        return "".join(parts) + "]"


def _in_class(mark: str) -> str:
    return "\\" + mark if mark.isascii() and not mark.isalnum() and mark not in " \t\n\r" else mark
