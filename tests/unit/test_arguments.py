"""Arguments of a wrong type or range are refused by name, before anything is read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from deltaberg import DeltaTable, open_table
from deltaberg.errors import InvalidArgumentError

_CALLS: dict[str, Callable[[Any], Any]] = {
    "changes(None)": lambda table: table.changes(None),
    "changes(True)": lambda table: table.changes(True),
    "changes(1.5)": lambda table: table.changes(1.5),
    "changes(0, [])": lambda table: table.changes(0, []),
    "timestamp=12345": lambda table: open_table(table.location, timestamp=12345),  # type: ignore[call-overload]
    "timestamp=[]": lambda table: DeltaTable(table.location, timestamp=[]),  # type: ignore[arg-type]
    "expired(5)": lambda table: table.expired_tombstones(5),
    "location None": lambda _: open_table(None),  # type: ignore[call-overload]
    "location 5": lambda _: DeltaTable(5),  # type: ignore[arg-type]
    "location bytes": lambda _: open_table(b"/x"),  # type: ignore[call-overload]
    "format=5": lambda table: open_table(table.location, format=5),  # type: ignore[call-overload]
    "timezone=None": lambda table: open_table(table.location, timezone=None),  # type: ignore[call-overload]
    "timezone=5": lambda table: DeltaTable(table.location, timezone=5),  # type: ignore[arg-type]
    "storage_options=5": lambda table: open_table(table.location, storage_options=5),  # type: ignore[call-overload]
    "location_map=5": lambda table: DeltaTable(table.location, location_map=5),  # type: ignore[arg-type]
    "columns=[1]": lambda table: table.scan(columns=[1]),
    "columns=[('name', 1)]": lambda table: table.scan(columns=[("name", 1)]),
    "columns=5": lambda table: table.scan(columns=5),
    "columns=text": lambda table: table.scan(columns="id"),
    "columns=bytes": lambda table: table.scan(columns=b"id"),
    "columns=[b'id']": lambda table: table.scan(columns=[b"id"]),
    "min(1)": lambda table: table.scan().min(1),
    "timezone=Mars": lambda table: table.scan(timezone="Mars"),
    "timezone=[]": lambda table: table.scan(timezone=[]),
    "limit=10**30": lambda table: table.scan(limit=10**30),
    "limit=-1": lambda table: table.scan(limit=-1),
    "limit=True": lambda table: table.scan(limit=True),
    "batch_size=a": lambda table: table.scan(batch_size="a"),
    "batch_size=0": lambda table: table.scan(batch_size=0),
    "batch_size=2**64": lambda table: table.scan(batch_size=1 << 64),
    "threads=1.5": lambda table: table.scan(threads=1.5),
    "memory=-1": lambda table: table.scan(memory=-1),
    "split_size=None": lambda table: table.scan(split_size=None),
    "options=5": lambda table: table.scan(options=5),
    "unknown": lambda table: table.scan(batchsize=5),
    "history(-1)": lambda table: table.history(-1),
    "history('a')": lambda table: table.history("a"),
    "to_spark(None)": lambda table: table.scan().to_spark(None),
    "map_in_arrow(None)": lambda table: table.scan().map_in_arrow(None, iter, "id long"),
}


@pytest.mark.parametrize("call", _CALLS.values(), ids=_CALLS.keys())
def test_what_is_not_taken_is_refused(table: Any, call: Callable[[Any], Any]) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        call(table)
    assert caught.value.hint


def test_values_of_options_are_in_no_message(table: Any) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        open_table(table.location, storage_options="secret")  # type: ignore[call-overload]
    assert "secret" not in str(caught.value)
