"""Checks the arguments that tables of both formats take: instants, time zones, limits, flags."""

from __future__ import annotations

import datetime as dt
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa

from deltaberg.errors import InvalidArgumentError
from deltaberg.expressions.time.instants import parse_timestamp
from deltaberg.hints import Hint, at_fault, shown_value
from deltaberg.lists import is_list, listed
from deltaberg.lossless_json import has_lone_surrogate
from deltaberg.storage.location import LocationMap
from deltaberg.storage.options.options import StoreOptions

__all__ = [
    "AUTO",
    "SPEC_HINT",
    "Instant",
    "checked_choice",
    "checked_flag",
    "checked_hours",
    "checked_integer",
    "checked_kind",
    "checked_limit",
    "checked_map",
    "checked_memory",
    "checked_number",
    "checked_numbers",
    "checked_options",
    "checked_progress",
    "checked_properties",
    "checked_seconds",
    "checked_text",
    "checked_texts",
    "checked_type",
    "fields_given",
    "has_attributes",
    "integer_of",
    "parse_instant",
    "refuse_recorded",
    "zone_of",
]

#: How callers name an instant.
Instant = dt.datetime | dt.date | str
#: The location map that a table derives by itself.
AUTO = "auto"
#: What helps where the id of a partition spec is no integer.
SPEC_HINT = "pass the id of a partition spec, or leave it out for all"
#: No class has an attribute of this name.
_NO_ATTRIBUTE = "no_such_attribute_of_deltaberg"
#: More than three years; Python cannot wait for much longer.
_MOST_SECONDS = 100_000_000
#: A thousand years.
_MOST_HOURS = 24 * 366 * 1000
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)


def fields_given(kind: Any, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of some arguments that are fields of a dataclass."""
    return {one.name: arguments[one.name] for one in fields(kind) if one.name in arguments}


def parse_instant(value: Instant, timezone: dt.tzinfo) -> int:
    """Return an instant as milliseconds since 1970; one without a zone is in ``timezone``."""
    if isinstance(value, str):
        text = value
        try:
            value, _ = parse_timestamp(text)
        except ValueError:
            raise InvalidArgumentError(
                f"{text.strip()!r} is not a timestamp", hint="write it as 2024-01-31 12:00:00, perhaps with a zone"
            ) from None
    if not isinstance(value, dt.date):
        raise InvalidArgumentError(f"{shown_value(value)} is not a timestamp", hint="pass text, a datetime or a date")
    if not isinstance(value, dt.datetime):
        value = dt.datetime(value.year, value.month, value.day)
    aware = value if value.tzinfo is not None else value.replace(tzinfo=timezone)
    return (aware - _EPOCH) // dt.timedelta(milliseconds=1)


def zone_of(name: str) -> ZoneInfo:
    """Return the time zone with a name."""
    try:
        # Its cache takes some arrays of other libraries for the name of any zone.
        return ZoneInfo(checked_text("timezone", name, "use a name such as Europe/Paris"))
    except (ZoneInfoNotFoundError, TypeError, ValueError, OSError):
        raise InvalidArgumentError(
            f"{shown_value(name)} is not a time zone", hint="use a name such as Europe/Paris"
        ) from None


def checked_limit(limit: int | None) -> int | None:
    """Refuse a limit that is not a number of rows or commits."""
    return None if limit is None else checked_number("limit", limit, 0, "pass how many at most, or None")


def integer_of(value: Any) -> int | None:
    """Return an integer of any library, such as numpy, as one of Python; None for anything else, flags included."""
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def checked_number(name: str, value: Any, least: int, hint: str) -> int:
    """Refuse what is not a 64-bit integer of at least ``least``, and return it as an integer of Python."""
    number = integer_of(value)
    if number is None or not least <= number < 1 << 63:
        raise InvalidArgumentError(
            at_fault(name, f"must be a 64-bit integer of at least {least}, not {shown_value(value)}"), hint=hint
        )
    return number


def checked_progress(application: Any, version: Any) -> tuple[str, int]:
    """Refuse what is not the name of an application and how far it has come."""
    name = checked_text("the application", application, "name it by a text of your own")
    return name, checked_number("the version of an application", version, 0, "pass how far it has come")


def checked_memory(value: Any) -> int | None:
    """Refuse what is neither a number of bytes of memory nor None, and return it as an integer of Python."""
    return None if value is None else checked_number("memory", value, 1, "pass a number of bytes, or leave it out")


def checked_seconds(name: str, value: Any) -> float:
    """Refuse what is not a finite number of seconds, and return it as a number of Python."""
    number = value if isinstance(value, float) else integer_of(value)
    if number is None or not 0 <= number <= _MOST_SECONDS:
        raise InvalidArgumentError(
            at_fault(name, f"must be a number of seconds from 0 to {_MOST_SECONDS}, not {shown_value(value)}"),
            hint="pass a number such as 0.5",
        )
    return float(number)


def checked_hours(name: str, value: Any) -> float:
    """Refuse what is not a number of hours, and return it as a number of Python."""
    number = value if isinstance(value, float) else integer_of(value)
    if number is None or not 0 <= number <= _MOST_HOURS:
        raise InvalidArgumentError(
            at_fault(name, f"must be a number of hours that is not negative, not {shown_value(value)}"),
            hint="pass 168 for a week",
        )
    return float(number)


def checked_integer(name: str, value: Any, hint: str) -> int | None:
    """Refuse what is neither an integer nor None, and return it as an integer of Python."""
    number = integer_of(value)
    if number is None and value is not None:
        raise InvalidArgumentError(at_fault(name, f"must be an integer, not {shown_value(value)}"), hint=hint)
    return number


def checked_options(options: StoreOptions | None) -> dict[str, Any]:
    """Refuse what is not a mapping of names. Messages never contain its values, which may be secret."""
    if options is not None and not isinstance(options, Mapping):
        raise InvalidArgumentError(
            Hint("⟪storage_options⟫ must be a mapping"), hint="pass names and values, as in a dict"
        )
    if not all(isinstance(name, str) for name in options or ()):
        raise InvalidArgumentError(
            Hint("a name in ⟪storage_options⟫ is not text"), hint="pass names and values, as in a dict"
        )
    return dict(options or {})


def checked_properties(properties: Any) -> dict[str, Any]:
    """Refuse properties of a table or a commit that are not a mapping of names; None stands for none."""
    if properties is not None and not isinstance(properties, Mapping):
        raise InvalidArgumentError(Hint("⟪properties⟫ is not a mapping"), hint="pass names and values, as in a dict")
    for name, value in (properties or {}).items():
        if not isinstance(name, str):
            raise InvalidArgumentError(f"the name of a property must be text, not {shown_value(name)}")
        if has_lone_surrogate(name) or (isinstance(value, str) and has_lone_surrogate(value)):
            raise InvalidArgumentError(
                f"the property {shown_value(name)} is {shown_value(value)}, which is not valid Unicode"
            )
    return dict(properties or {})


def refuse_recorded(names: Iterable[str]) -> None:
    """Refuse names under which the library itself records something of a commit."""
    taken = min(names, default=None)
    if taken is not None:
        raise InvalidArgumentError(f"{taken} is recorded by the library itself", hint="choose another name for it")


def checked_map(location_map: LocationMap | str | None) -> LocationMap | str | None:
    """Refuse what is neither a mapping of prefixes to locations nor `AUTO`. Messages never contain its values."""
    if location_map is None or (isinstance(location_map, str) and location_map == AUTO):
        return location_map
    if not isinstance(location_map, Mapping):
        raise InvalidArgumentError(
            at_fault("location_map", f"must be a mapping, not of type {type(location_map).__name__}"),
            hint=f'pass a mapping of recorded prefixes to locations, or "{AUTO}"',
        )
    if not all(isinstance(old, str) for old in location_map):
        raise InvalidArgumentError(
            Hint("a prefix in ⟪location_map⟫ is not text"), hint="pass a mapping of recorded prefixes to locations"
        )
    return location_map


def checked_type(name: str, value: Any) -> pa.DataType:
    """Refuse what is not an Arrow type of the column with this name."""
    if not isinstance(value, pa.DataType):
        raise InvalidArgumentError(
            f"the type of the column {name!r} is {shown_value(value)}", hint="pass an Arrow type, such as pa.int64()"
        )
    return value


def has_attributes(value: Any, *names: str) -> bool:
    """Return whether a value has these attributes, and not every attribute that there could be, as a Column of Spark.

    So objects of other libraries are known that need not be installed.

    Examples
    --------
    >>> has_attributes(1.5, "real", "imag"), has_attributes(1.5, "real", "day")
    (True, False)
    """
    return all(hasattr(value, name) for name in names) and not hasattr(value, _NO_ATTRIBUTE)


_Kind = TypeVar("_Kind")


def checked_kind(name: str, value: Any, kind: type[_Kind], hint: str) -> _Kind:
    """Refuse what is not an object of a class.

    Examples
    --------
    >>> checked_kind("policy", "fast", str, "pass a text")
    'fast'
    """
    if not isinstance(value, kind):
        raise InvalidArgumentError(
            at_fault(name, f"must be of the type {kind.__name__}, not {type(value).__name__}"), hint=hint
        )
    return value


def checked_text(name: str, value: Any, hint: str) -> str:
    """Refuse what is not text, and empty text."""
    if not isinstance(value, str) or not value:
        raise InvalidArgumentError(
            at_fault(name, f"must be text that is not empty, not {shown_value(value)}"), hint=hint
        )
    if has_lone_surrogate(value):
        raise InvalidArgumentError(at_fault(name, f"is {shown_value(value)}, which is not valid Unicode"), hint=hint)
    return value


def checked_texts(name: str, value: Any, what: str, hint: str) -> list[str]:
    """Refuse what is not text or several, and return a list of them; ``what`` tells what they are."""
    if isinstance(value, Mapping) or not (isinstance(value, str) or is_list(value)):
        raise InvalidArgumentError(at_fault(name, f"must be {what}, not {shown_value(value)}"), hint=hint)
    return [checked_text(f"each of ⟪{name}⟫", one, hint) for one in listed(value)]


def checked_numbers(name: str, value: Any, hint: str) -> tuple[int, ...]:
    """Refuse what is neither a number of at least zero nor several, and return them as integers of Python."""
    if isinstance(value, Mapping) or not (is_list(value) or integer_of(value) is not None):
        raise InvalidArgumentError(at_fault(name, f"must be a list of numbers, not {shown_value(value)}"), hint=hint)
    return tuple(checked_number(f"each of ⟪{name}⟫", one, 0, hint) for one in listed(value))


def checked_note(name: str, value: Any, hint: str) -> str | None:
    """Refuse what is neither text nor None. Text may be empty."""
    return value if value is None or (isinstance(value, str) and not value) else checked_text(name, value, hint)


def checked_choice(name: str, value: Any, choices: Sequence[str], hint: str) -> Any:
    """Refuse what is not one of some texts.

    Examples
    --------
    >>> checked_choice("mode", "append", ("append", "overwrite"), "leave it out to append")
    'append'
    """
    if not isinstance(value, str) or value not in choices:
        *first, last = map(repr, choices)
        wanted = f"{', '.join(first)} or {last}" if first else last
        raise InvalidArgumentError(at_fault(name, f"must be {wanted}, not {shown_value(value)}"), hint=hint)
    return value


def checked_function(name: str, value: Any, taken: str) -> None:
    """Refuse what cannot be called.

    Parameters
    ----------
    taken
        What the function is called with.
    """
    if not callable(value):
        raise InvalidArgumentError(
            at_fault(name, f"must be a function, not {shown_value(value)}"),
            hint=f"pass what takes a {taken}, such as print",
        )


def check_flags(given: object, *names: str) -> None:
    """Refuse attributes that are neither True nor False."""
    for name in names:
        checked_flag(name, getattr(given, name))


def checked_flag(name: str, value: Any) -> bool:
    """Refuse what is neither True nor False, such as the text "false", which Python takes for true."""
    if not isinstance(value, bool):
        raise InvalidArgumentError(
            at_fault(name, f"must be True or False, not {shown_value(value)}"), hint='text such as "false" is not taken'
        )
    return value
