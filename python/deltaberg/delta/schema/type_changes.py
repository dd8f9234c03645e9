"""Type widening: the changes of a column's type that readers must handle (table feature ``typeWidening``)."""

from __future__ import annotations

import re
from typing import Any

from deltaberg.errors import CorruptLogError, UnsupportedFeatureError
from deltaberg.schema.types import Field

__all__ = [
    "CHANGES",
    "DECIMAL",
    "check_type_changes",
    "fits_iceberg",
    "is_widening",
    "loses_nothing",
    "record_type_change",
    "recorded_changes",
]

#: The member of the metadata of a field that records the changes of its type.
CHANGES = "delta.typeChanges"

_INTEGERS = ("byte", "short", "integer", "long")
#: How many digits the values of integer types have.
_DIGITS = {"byte": 3, "short": 5, "integer": 10, "long": 19}
DECIMAL = re.compile(r"decimal\(\s*([0-9]{1,9})\s*,\s*([0-9]{1,9})\s*\)")


def check_type_changes(changes: Any, column: str) -> None:
    """Refuse a recorded change that may lose values, because files written before it cannot be read.

    Changes that lose nothing are read although the protocol does not list them, as from byte to decimal(4,1): tables
    of the preview of the feature have some.

    Parameters
    ----------
    changes
        The ``delta.typeChanges`` of a column; None if there are none.
    column
        The name of the column, for messages.

    Raises
    ------
    UnsupportedFeatureError
        If a change may lose what files hold.
    CorruptLogError
        If the record is not a list of changes.
    """
    if changes is None:
        return
    if not isinstance(changes, list) or not all(isinstance(change, dict) for change in changes):
        raise CorruptLogError("delta.typeChanges is not a list of changes", column=column)
    for change in changes:
        old, new = change.get("fromType"), change.get("toType")
        if not isinstance(old, str) or not isinstance(new, str):
            raise CorruptLogError("a type change has no fromType or toType", column=column)
        if not loses_nothing(old, new):
            raise UnsupportedFeatureError(
                f"a type change from {old} to {new} is not supported", feature="typeWidening", column=column
            )


def recorded_changes(field: Field) -> list[tuple[str, str]]:
    """Return the old and the new type of each change that a field of a struct records, also of what is inside it."""
    changes = field.metadata.get(CHANGES)
    return [(str(change.get("fromType")), str(change.get("toType"))) for change in changes or ()]


def fits_iceberg(old: str, new: str) -> bool:
    """Return whether Iceberg has the same change of type (Iceberg spec, "Schema Evolution").

    Examples
    --------
    >>> fits_iceberg("byte", "long"), fits_iceberg("integer", "double"), fits_iceberg("decimal(4,2)", "decimal(6,3)")
    (True, False, False)
    """
    narrow, wider = DECIMAL.fullmatch(old), DECIMAL.fullmatch(new)
    if narrow is not None and wider is not None:
        return narrow[2] == wider[2]
    return (old, new) == ("float", "double") or (old in _INTEGERS and new in _INTEGERS)


def record_type_change(field: dict[str, Any], old: str, new: str, inside: tuple[str, ...]) -> None:
    """Add a change to what the metadata of a field records.

    Parameters
    ----------
    field
        The field of a struct, as the JSON object that a schema lists.
    old, new
        The types before and after.
    inside
        What leads from the field into lists and maps: ``element``, ``key`` and ``value``.

    Examples
    --------
    >>> field = {"name": "a", "type": "long", "nullable": True, "metadata": {}}
    >>> record_type_change(field, "integer", "long", ())
    >>> field["metadata"]
    {'delta.typeChanges': [{'toType': 'long', 'fromType': 'integer'}]}
    """
    metadata = dict(field.get("metadata") or {})
    change = {"toType": new, "fromType": old, **({"fieldPath": ".".join(inside)} if inside else {})}
    field["metadata"] = {**metadata, CHANGES: [*(metadata.get(CHANGES) or ()), change]}


def is_widening(old: str, new: str) -> bool:
    """Return whether the protocol lists a change of type, so that it may be made (Delta protocol, "Type Widening").

    Examples
    --------
    >>> is_widening("integer", "long"), is_widening("long", "double")
    (True, False)
    """
    if old == new:
        return True
    wider = DECIMAL.fullmatch(new)
    if wider is not None:
        return _is_wider_decimal(old, int(wider[1]), int(wider[2]))
    if old in _INTEGERS and new in _INTEGERS:
        return _INTEGERS.index(old) < _INTEGERS.index(new)
    return (old, new) in {
        ("float", "double"),
        ("byte", "double"),
        ("short", "double"),
        ("integer", "double"),
        ("date", "timestamp_ntz"),
    }


def loses_nothing(old: str, new: str) -> bool:
    """Return whether files that hold one type can be read as another one.

    Examples
    --------
    >>> loses_nothing("byte", "decimal(4,1)"), is_widening("byte", "decimal(4,1)")
    (True, False)
    """
    wider = DECIMAL.fullmatch(new)
    if wider is not None and old in _DIGITS:
        return int(wider[1]) - int(wider[2]) >= _DIGITS[old]
    return is_widening(old, new) or (old, new) in {("byte", "float"), ("short", "float")}


def _is_wider_decimal(old: str, precision: int, scale: int) -> bool:
    """Return whether a decimal type is one to which an older type may be changed."""
    narrow = DECIMAL.fullmatch(old)
    if narrow is not None:
        digits, old_scale = int(narrow[1]) - int(narrow[2]), int(narrow[2])
        return scale >= old_scale and precision - scale >= digits
    digits = {"byte": 10, "short": 10, "integer": 10, "long": 20}.get(old, precision + 1)
    return precision - scale >= digits
