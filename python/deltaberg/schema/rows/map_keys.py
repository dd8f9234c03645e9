"""Keys of maps, which no map may have twice."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from deltaberg.errors import ConstraintViolationError
from deltaberg.schema.columns import join_name
from deltaberg.schema.rows.equal_rows import equal_rows

__all__ = ["SHOWN_KEY", "check_keys", "repeated_key"]

#: Characters of a key that a message shows at most.
SHOWN_KEY = 80


def check_keys(lists: pa.ListArray, path: Sequence[str]) -> None:
    """Refuse the keys of maps of which one has a key twice, as Spark does in its ANSI mode. Both zeros are one key.

    Parameters
    ----------
    lists
        The keys of each map.
    path
        The names that lead to the maps.

    Raises
    ------
    ConstraintViolationError
        The message shows the key, and its context has the column.
    """
    if (pc.max(pc.list_value_length(lists)).as_py() or 0) < 2:
        return
    keys = lists.flatten()
    same = pc.add(keys, pa.scalar(0.0, keys.type)) if pt.is_floating(keys.type) else keys
    numbers = equal_rows(pa.table({"owner": pc.list_parent_indices(lists), "key": same}))
    if pc.count_distinct(numbers).as_py() == len(numbers):
        return
    seen = pc.index(pc.equal(numbers, pc.mode(numbers)[0]["mode"]), pa.scalar(value=True)).as_py()
    raise repeated_key(keys[seen].as_py(), join_name(path))


def repeated_key(key: object, column: str) -> ConstraintViolationError:
    """Return the error of a map that has a key twice.

    Examples
    --------
    >>> print(repeated_key("a", "m").message)
    a map has the key 'a' twice
    """
    return ConstraintViolationError(
        f"a map has the key {key!r:.{SHOWN_KEY}} twice", hint="leave one of its values out", column=column
    )
