"""Patterns of dates and timestamps: text that is read by one, as by Java's strict formatter, which Spark uses.

Of the letters of Java's patterns, y, M, d, H, m, s and S are known. Fields that a pattern lacks are those of midnight
on 1970-01-01.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable

from deltaberg.errors import UnsupportedExpressionError
from deltaberg.expressions.time.moments import days_of
from deltaberg.expressions.time.zones import to_micros
from deltaberg.hints import shown_value

__all__ = ["moment_reader", "pattern_parts"]

_PART = re.compile(r"([A-Za-z])\1*|'[^']+'|[^A-Za-z'\[\]{}#]")
#: No pattern of a date has more characters; one of millions would take minutes.
_LONGEST = 1000
_FIELDS = {"y": "year", "M": "month", "d": "day", "H": "hour", "m": "minute", "s": "second"}
#: Years beyond four digits have a sign, and no others but those before the year 0.
_YEAR = r"[0-9]{4}|\+[0-9]{5,19}|-[0-9]{4,19}"


def pattern_parts(pattern: str | None, function: str) -> list[str]:
    """Return the parts of a pattern: runs of a letter, texts in quotes, and marks.

    Raises
    ------
    UnsupportedExpressionError
        If it is None, because it is not a literal, is too long, or has parts that are not known.
    """
    parts = [] if pattern is None or len(pattern) > _LONGEST else [found[0] for found in _PART.finditer(pattern)]
    if "".join(parts) != pattern:
        raise refused(pattern, function)
    return parts


def refused(pattern: str | None, function: str) -> UnsupportedExpressionError:
    """Return the error of a pattern that is not known."""
    return UnsupportedExpressionError(
        f"{function} with the pattern {shown_value(pattern)} cannot be evaluated",
        hint="a pattern is a literal of letters that docs/expressions.md lists, marks, and text in single quotes",
    )


def moment_reader(pattern: str | None, function: str, zone: dt.tzinfo) -> Callable[[str], int]:
    """Return what reads text by a pattern, as the microseconds since 1970 of a timestamp.

    It raises ValueError for text that does not fit.

    Raises
    ------
    UnsupportedExpressionError
        If the pattern cannot be read exactly as Spark reads it.
    """
    parts = pattern_parts(pattern, function)
    whole = re.compile("".join(_expressions(parts, pattern, function)), re.IGNORECASE | re.ASCII)

    def read(text: str) -> int:
        found = whole.fullmatch(text)
        if found is None:
            raise ValueError(text)
        return _micros(found.groupdict(), zone)

    return read


def _expressions(parts: list[str], pattern: str | None, function: str) -> list[str]:
    """Return a regular expression for each part."""
    expressions, seen = [], set()
    for number, part in enumerate(parts):
        letter, length = part[0], len(part)
        is_letter = letter.isascii() and letter.isalpha()
        if not is_letter:
            text = part.strip("'") if length > 1 else part
            if any(char.isdigit() or (char.isalpha() and not char.isascii()) for char in text):
                raise refused(pattern, function)
            expressions.append(re.escape(text))
            continue
        near = [other[0].isalpha() for other in (*parts[max(number - 1, 0) : number], *parts[number + 1 : number + 2])]
        if letter in seen or (length == 1 and letter != "S" and any(near)):
            # Java shares digits among numbers of any length that stand side by side.
            raise refused(pattern, function)
        seen.add(letter)
        if letter == "S" and length <= 9:
            expressions.append(rf"(?P<fraction>[0-9]{{1,{length}}})")
        elif part == "yyyy":
            expressions.append(rf"(?P<year>{_YEAR})")
        elif letter in _FIELDS and letter != "y" and length <= 2:
            digits = "[0-9]{2}" if length == 2 else "[0-9]{1,19}"
            expressions.append(f"(?P<{_FIELDS[letter]}>{digits})")
        else:
            raise refused(pattern, function)
    return expressions


def _micros(fields: dict[str, str], zone: dt.tzinfo) -> int:
    defaults = {"year": 1970, "month": 1, "day": 1}
    numbers = {name: int(fields.get(name) or defaults.get(name, 0)) for name in _FIELDS.values()}
    if numbers["hour"] > 23 or numbers["minute"] > 59 or numbers["second"] > 59:
        raise ValueError("there is no such time of a day")
    if numbers["year"] == 0 and fields.get("year", "").startswith("-"):
        raise ValueError("there is no year -0")
    days = days_of(numbers["year"], numbers["month"], numbers["day"])
    seconds = (days * 24 + numbers["hour"]) * 3600 + numbers["minute"] * 60 + numbers["second"]
    return to_micros(zone, seconds * 1_000_000 + int(fields.get("fraction", "")[:6].ljust(6, "0")))
