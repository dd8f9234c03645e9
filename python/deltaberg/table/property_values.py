"""Numbers in properties of tables, and the error of a property whose value means nothing; for both formats."""

from __future__ import annotations

from collections.abc import Mapping

from deltaberg.errors import InvalidArgumentError
from deltaberg.hints import shown_value
from deltaberg.whole_numbers import whole_number

__all__ = ["number_of", "wrong_value"]

#: Sizes are stored in 64 bits with a sign.
_MOST = (1 << 63) - 1


def number_of(properties: Mapping[str, str], name: str, default: int, least: int = 1, most: int = _MOST) -> int:
    """Return the whole number that a property has as its value.

    Parameters
    ----------
    default
        The number where there is no such property.
    least, most
        The bounds of the number.

    Raises
    ------
    InvalidArgumentError
        It is none, or beyond the bounds.

    Examples
    --------
    >>> number_of({"commit.retry.num-retries": " 7 "}, "commit.retry.num-retries", 4)
    7
    """
    text = properties.get(name)
    if text is None:
        return default
    number = whole_number(text.strip(), least)
    if number is None or number > most:
        raise wrong_value(name, text, _bounds(least, most))
    return number


def _bounds(least: int, most: int) -> str:
    if most < _MOST:
        return f"a whole number from {least} to {most}"
    words = {1: "a positive whole number", -1 - _MOST: "a whole number"}
    return words.get(least, f"a whole number of at least {least}")


def wrong_value(name: str, text: str, wanted: str) -> InvalidArgumentError:
    """Return the error for a property with another value than is wanted."""
    return InvalidArgumentError(f"the property {name} must be {wanted}, not {shown_value(text)}", setting=name)
