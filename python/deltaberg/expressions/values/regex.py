"""Java's regular expressions, as far as they mean the same to RE2, which Arrow uses, and to Python.

What differs is either written in another way (the dot, the dollar sign at the end, white space), or refused.
"""

from __future__ import annotations

import re

from deltaberg.errors import UnsupportedExpressionError

__all__ = ["java_regex"]

_LINE_ENDS = "\\n\\r\\x{85}\\x{2028}\\x{2029}"
_CLASSES = {"d": "0-9", "w": "a-zA-Z0-9_", "s": " \\t\\n\\x0b\\f\\r"}
_CONTROLS = {"t": "\\t", "n": "\\n", "r": "\\r", "f": "\\f"}
_REPEAT = re.compile(r"\{([0-9]{1,3})(?:(,)([0-9]{0,3}))?\}")
_RANGE = re.compile(r"([^\\\[\]^&-])-([^\\\[\]^&-])")


def java_regex(pattern: str, *, for_python: bool = False) -> str:
    """Return the pattern for RE2, or for Python, that matches what the pattern matches in Java.

    Raises
    ------
    UnsupportedExpressionError
        If there is none, or it is not known: look-around, references to groups, flags, possessive repetition, Unicode
        classes, borders of words.
    """
    found = _Reader(pattern).read()
    if for_python:
        found = re.sub(r"\\x\{([0-9a-f]+)\}", lambda code: re.escape(chr(int(code[1], 16))), found).replace(
            "\\z", "\\Z"
        )
    try:
        re.compile(found.replace("\\z", "\\Z").replace("\\x{", "\\{"))
    except re.error as error:
        raise UnsupportedExpressionError(f"the regular expression {pattern!r} cannot be evaluated: {error}") from None
    return found


class _Reader:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0

    def read(self) -> str:
        parts: list[str] = []
        depth = 0
        while self._at < len(self._pattern):
            mark = self._pattern[self._at]
            if mark == "\\":
                parts.append(self._escape(in_class=False))
            elif mark == "[":
                parts.append(self._class())
            elif mark in "*+?{":
                parts.append(self._repeat())
            elif mark == "(":
                parts.append(self._open())
                depth += 1
            else:
                depth -= mark == ")"
                parts.append(self._plain(mark, depth))
                self._at += 1
        return "".join(parts)

    def _refuse(self, what: str) -> UnsupportedExpressionError:
        return UnsupportedExpressionError(f"{what} in the regular expression {self._pattern!r} cannot be evaluated")

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
        return "("

    def _repeat(self) -> str:
        found = _REPEAT.match(self._pattern, self._at)
        text = found[0] if found else self._pattern[self._at]
        if text == "{" or not self._at:
            raise self._refuse("repetition of nothing")
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
