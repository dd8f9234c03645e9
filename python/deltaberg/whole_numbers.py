"""Whole numbers of others: in the text of SQL, properties, files and command lines, and those that callers pass."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

__all__ = ["MOST_DIGITS", "bits_of_endless", "counted", "known_sum", "whole_number"]

#: More digits than any member, property or column has. Python itself refuses to read some thousands.
MOST_DIGITS = 400
_MOST_BITS = (10**MOST_DIGITS).bit_length()
_NUMBER = re.compile(rf"(-?)0*([0-9]{{1,{MOST_DIGITS}}})")


def whole_number(text: str, least: int | None = None) -> int | None:
    """Return the whole number that a text is, in ASCII digits; None for any other text, and for one that is too long.

    Parameters
    ----------
    least
        Lesser numbers are none, either.

    Examples
    --------
    >>> whole_number("-12"), whole_number("0" * 9000 + "7"), whole_number("9" * 9000), whole_number("²")
    (-12, 7, None, None)
    """
    found = _NUMBER.fullmatch(text)
    number = None if found is None else int(found[1] + found[2])
    return number if number is None or least is None or number >= least else None


def counted(count: int, one: str, many: str | None = None) -> str:
    """Return a number of things as text.

    Parameters
    ----------
    one, many
        What one of them and several are called; by default several end with an s.

    Examples
    --------
    >>> counted(1, "row"), counted(0, "row"), counted(2, "entry", "entries")
    ('1 row', '0 rows', '2 entries')
    """
    return f"{count} {one if count == 1 else many or f'{one}s'}"


def known_sum(counts: Iterable[int | None]) -> int | None:
    """Return the sum of some counts; None where one of them is None, since nobody has counted.

    Examples
    --------
    >>> known_sum([2, 3]), known_sum([2, None])
    (5, None)
    """
    known = list(counts)
    return None if None in known else sum(count for count in known if count is not None)


def bits_of_endless(values: Iterable[Any]) -> int | None:
    """Return how many bits a whole number has that is too long to be written; None if there is none among the values.

    It is looked for in lists, tuples and mappings, too. No error could show it, since Python refuses to write it.

    Examples
    --------
    >>> bits_of_endless([7, "7", ["nightly load", 10**5000]]), bits_of_endless([7, 2**70])
    (16610, None)
    """
    waiting: list[Iterable[Any]] = [values]
    seen = set()
    while waiting:
        for value in waiting.pop():
            if isinstance(value, int):
                if value.bit_length() > _MOST_BITS:
                    return value.bit_length()
            elif isinstance(value, (list, tuple, dict)) and id(value) not in seen:
                seen.add(id(value))
                waiting.append((*value, *value.values()) if isinstance(value, dict) else value)
    return None
