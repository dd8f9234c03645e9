"""Whole numbers in text that others wrote: of SQL, properties, files and command lines."""

from __future__ import annotations

import re

__all__ = ["MOST_DIGITS", "whole_number"]

#: More digits than any member, property or column has. Python itself refuses to read some thousands.
MOST_DIGITS = 400
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
