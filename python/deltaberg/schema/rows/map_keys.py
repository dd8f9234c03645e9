"""Keys of maps, which no map may have twice."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from deltaberg.errors import ConstraintViolationError
from deltaberg.schema.columns import join_name
from deltaberg.schema.rows.equal_rows import equal_rows
from deltaberg.schema.rows.shown_scalar import shown_scalar

__all__ = ["check_keys", "repeated_key"]


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
    raise repeated_key(shown_scalar(keys[seen]), join_name(path))


def repeated_key(key: str, column: str) -> ConstraintViolationError:
    """Return the error of a map that has a key twice, which is shown as a message shows it.

    Examples
    --------
    >>> print(repeated_key("'a'", "m").message)
    a map has the key 'a' twice
    """
    return ConstraintViolationError(f"a map has the key {key} twice", hint="leave one of its values out", column=column)
