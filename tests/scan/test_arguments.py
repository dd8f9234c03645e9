"""Arguments of a wrong type or range are refused by name, before anything is read."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from deltaberg import DeltaTable, IcebergTable, load_catalog, open_table
from deltaberg.catalogs.base import Catalog
from deltaberg.delta.table import open_delta_table
from deltaberg.errors import InvalidArgumentError
from deltaberg.iceberg.table import open_iceberg_table
from deltaberg.table.open.opening import OpenOptions
from deltaberg.table.read.scan_options import ScanExecution, ScanOptions
from deltaberg.words import words_of
from tests.support.iceberg_builder import IcebergBuilder

_CALLS: dict[str, Callable[[Any], Any]] = {
    "changes(None)": lambda table: table.changes(None),
    "changes(True)": lambda table: table.changes(True),
    "changes(1.5)": lambda table: table.changes(1.5),
    "changes(0, [])": lambda table: table.changes(0, []),
    "derived=1": lambda table: table.changes(0, derived=1),
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
    "location_map={5: 'x'}": lambda table: DeltaTable(table.location, location_map={5: "x"}),  # type: ignore[dict-item]
    "validate='false'": lambda table: DeltaTable(table.location, validate="false"),  # type: ignore[arg-type]
    "location_map=5": lambda table: DeltaTable(table.location, location_map=5),  # type: ignore[arg-type]
    "columns=[1]": lambda table: table.scan(columns=[1]),
    "columns=[('name', 1)]": lambda table: table.scan(columns=[("name", 1)]),
    "columns=5": lambda table: table.scan(columns=5),
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


_ICEBERG_CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "inspect": lambda table, value: table.inspect(value),
    "start of changes": lambda table, value: table.changes(value),
    "end of changes": lambda table, value: table.changes(None, value),
    "start of appends": lambda table, value: table.appends(value),
    "end of appends": lambda table, value: table.appends(None, value),
    "snapshot_id": lambda table, value: open_table(table.location, snapshot_id=value),
    "ref": lambda table, value: open_table(table.location, ref=value),
    "ref of a catalog": lambda table, value: _catalog(table).load_table("t", ref=value),
    "storage_options": lambda table, value: IcebergTable(table.location, storage_options=value),
    "location_map": lambda table, value: IcebergTable(table.location, location_map=value),
    "validate": lambda table, value: IcebergTable(table.location, validate=value),
    "validate of a catalog": lambda table, value: _catalog(table).load_table("t", validate=value),
    "namespace": lambda table, value: _catalog(table).list_tables(value),
    "name of a catalog": lambda _, value: load_catalog(value),
}
#: What is neither text, nor a number, nor a mapping of text; a reader of it would fail in ways of its own.
_ODD = {"list": [5], "mapping": {1: {}}, "set": {5}, "float": 1.5, "bytes": b"x", "object": object(), "call": len}


def _catalog(table: Any) -> Any:
    return load_catalog("c", type="hadoop", warehouse=str(Path(table.location).parent))


@pytest.mark.parametrize("value", _ODD.values(), ids=_ODD.keys())
@pytest.mark.parametrize("call", _ICEBERG_CALLS.values(), ids=_ICEBERG_CALLS.keys())
def test_what_is_not_taken_of_iceberg_is_refused(call: Callable[[Any, Any], Any], value: Any, tmp_path: Path) -> None:
    builder = IcebergBuilder(tmp_path / "t", {"id": "long"})
    builder.commit(builder.data([{"id": 1}]))
    table = open_table(builder.root)
    with pytest.raises(InvalidArgumentError) as caught:
        call(table, value)
    assert caught.value.hint


@pytest.mark.parametrize(
    "function",
    [open_table, DeltaTable.__init__, IcebergTable.__init__, Catalog.load_table],
    ids=lambda function: function.__qualname__,
)
def test_every_keyword_of_opening_is_an_option(function: Callable[..., Any]) -> None:
    """`OpenOptions.of` picks the options by name, so that a keyword of another name would be lost."""
    defaults = {option.name: option.default for option in fields(OpenOptions)}
    parameters = inspect.signature(function).parameters.values()
    keywords = {found.name: found.default for found in parameters if found.kind is found.KEYWORD_ONLY}
    # Words of other libraries become others before they get there.
    keywords |= {
        name: defaults.get(name) for name in getattr(function, "__takes__", ()) if name not in words_of("DeltaTable")
    }
    assert keywords
    assert keywords == {name: defaults[name] for name in keywords}


def test_a_state_of_the_other_format_is_refused(table: Any, tmp_path: Path) -> None:
    for options in (OpenOptions(snapshot_id=77), OpenOptions(ref="main")):
        with pytest.raises(InvalidArgumentError, match="applies only to Iceberg tables"):
            open_delta_table(table.location, options)
    builder = IcebergBuilder(tmp_path / "t", {"id": "long"})
    builder.commit(builder.data([{"id": 1}]))
    with pytest.raises(InvalidArgumentError, match="version applies only to Delta tables"):
        open_iceberg_table(str(builder.root), OpenOptions(version=0))


def test_type_checkers_know_all_options_of_scans() -> None:
    assert get_type_hints(ScanExecution) == get_type_hints(ScanOptions)
