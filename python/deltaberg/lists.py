"""Arguments that stand for several values, as users have them.

These are lists and tuples, arrays, series and indexes of any library, and generators. Text and bytes are one value.
"""

from __future__ import annotations

from collections.abc import Iterable, MappingView, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

__all__ = ["has_no_order", "is_list", "listed"]


def is_list(value: object) -> bool:
    """Return whether a value stands for several: text, bytes and scalars are one."""
    if isinstance(value, (str, bytes, bytearray, memoryview)) or not isinstance(value, Iterable):
        return False
    try:
        iter(value)
    except TypeError:
        # As numpy's arrays of no dimensions do, and Columns of Spark.
        return False
    return True


def has_no_order(value: object) -> bool:
    """Return whether a value is a set, which each process may give in another order.

    Examples
    --------
    >>> has_no_order({"a", "b"}), has_no_order({"a": 1}.keys()), has_no_order(["a"])
    (True, False, False)
    """
    return isinstance(value, AbstractSet) and not isinstance(value, (MappingView, Sequence))


def listed(value: Any) -> list[Any]:
    """Return the values that one stands for, as objects of Python. Those of a set are sorted by their texts.

    Examples
    --------
    >>> import pyarrow as pa
    >>> listed("ab"), listed(("a", "b")), listed(pa.array(["a"])), listed({"b", "a"})
    (['ab'], ['a', 'b'], ['a'], ['a', 'b'])
    """
    if not is_list(value):
        return [value]
    values = [one.as_py() if hasattr(type(one), "as_py") else one for one in value]
    return sorted(values, key=str) if has_no_order(value) else values
