"""The public functions and methods, each as a door: how it is called rightly, and what a call of it means."""

from __future__ import annotations

import inspect
import itertools
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import deltaberg
from deltaberg import CheckpointLayout, CommitPolicy, DeltaTable, IcebergTable, ParquetOptions, Scan, ScanOptions, col
from deltaberg.catalogs.filesystem import FilesystemCatalog
from deltaberg.catalogs.sql_catalog import SqlCatalog
from deltaberg.delta.alter.alter import Alteration as DeltaAlteration
from deltaberg.iceberg.alter.alter import Alteration as IcebergAlteration
from deltaberg.table.merge.clauses import MergeBuilder

__all__ = ["DOORS", "NOWHERE", "Door", "Opened", "argument_names"]

ROWS = pa.table({"id": [1, 2, 3], "name": ["a", "b", None], "x": [0.5, None, 2.0]})
_NEW = pa.table({"id": [2, 9], "name": ["z", "y"], "x": [1.0, 2.0]})
_ON = "target.id = source.id"
#: What is no argument of anything.
NOWHERE = "no_such_name"
#: These need a Spark session, or are the last step of others.
_ELSEWHERE = {"on_spark", "to_spark", "map_in_arrow", "close"}


@dataclass
class Opened:
    """A door that was opened: its function, a call of it, and the table that it can change."""

    function: Callable[..., Any]
    call: Callable[..., Any]
    table: Any = None


@dataclass(frozen=True)
class Door:
    """A public function or method.

    Parameters
    ----------
    open
        Makes what the function needs in a folder.
    needed
        The arguments that must be given, or a function that makes them.
    """

    open: Callable[[Path], Opened]
    needed: Mapping[str, Any] | Callable[[Opened], Mapping[str, Any]] = field(default_factory=dict)

    def arguments(self, opened: Opened) -> dict[str, Any]:
        """Return arguments of a call that is right."""
        return dict(self.needed(opened) if callable(self.needed) else self.needed)


def argument_names(function: Callable[..., Any]) -> list[str]:
    """Return the names of the arguments of a function, those of typed options too; ``*`` stands before any number."""
    names = []
    for one in inspect.signature(function).parameters.values():
        if one.kind is one.VAR_KEYWORD:
            names += sorted(getattr(function, "__takes__", ()))
        elif one.name != "self":
            names.append(f"*{one.name}" if one.kind is one.VAR_POSITIONAL else one.name)
    return names


_numbers = itertools.count()


def _place(folder: Path) -> str:
    return str(folder / f"t{next(_numbers)}")


def _table(folder: Path, form: str) -> Any:
    table: Any = getattr(deltaberg, "create_table")(_place(folder), ROWS.schema, format=form)  # noqa: B009
    table.append(ROWS)
    return table


def _read(answer: Any) -> Any:
    """Read what a call returns: scans are lazy."""
    if isinstance(answer, Scan):
        answer.to_arrow()
    elif inspect.isgenerator(answer):
        list(answer)
    return answer


def _methods(kind: type) -> Iterator[str]:
    for name in dir(kind):
        if (
            not name.startswith("_")
            and name not in _ELSEWHERE
            and inspect.isfunction(inspect.getattr_static(kind, name))
        ):
            yield name


_ENDED = threading.Event()
_ENDED.set()
#: Arguments that must be given.
_NEEDED: dict[str, dict[str, Any]] = {
    "append": {"data": _NEW},
    "overwrite": {"data": _NEW},
    "explain_append": {"data": _NEW},
    "delete": {"where": "id = 2"},
    "update": {"set": {"x": "1.0"}},
    "merge": {"source": _NEW, "on": _ON},
    "upsert": {"data": _NEW, "keys": "id"},
    "appends": {"start": None},
    "compact_log": {"first": 0, "last": 1},
    "delete_by_keys": {"keys": pa.table({"id": [1]})},
    "add_files": {"file_paths": []},
    # Without both, a time to wait between looks at the table would have no end.
    "follow": {"stop": _ENDED, "poll": None},
    "publish": {"wap_id": "w"},
    "cherrypick_snapshot": {"snapshot_id": 1},
    "inspect": {"name": "files"},
    "min": {"column": "id"},
    "max": {"column": "id"},
}
#: Arguments of alterations and catalogs that must be given, by their names.
_USUAL: dict[str, Any] = {
    "kind": pa.int64(),
    "new_name": "new",
    "to": "main",
    "properties": {"a": "b"},
    "expression": "id > 0",
    "text": "said",
    "value": 1,
    "snapshot_id": 1,
    "schema": ROWS.schema,
    "namespace": "db",
    "to_identifier": "db.new",
    "set": {"x": "source.x"},
    "values": {"id": "source.id"},
}


def _usual(function: Callable[..., Any], other: str) -> dict[str, Any]:
    parameters = list(inspect.signature(function).parameters.values())
    needed = [one.name for one in parameters if one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD]
    return {name: _USUAL.get(name, other) for name in needed if name != "self"}


def _verb(form: str, name: str, folder: Path) -> Opened:
    table = _table(folder, form)

    def call(*given: Any, **named: Any) -> Any:
        found = getattr(table, name)(*given, **named)
        return _read(found.when_matched_update_all().execute() if name == "merge" else found)

    return Opened(getattr(table, name), call, table)


def _in_transaction(form: str, name: str, folder: Path) -> Opened:
    table = _table(folder, form)

    def call(*given: Any, **named: Any) -> Any:
        with table.transaction() as transaction:
            found = getattr(transaction, name)(*given, **named)
            _read(found.when_matched_update_all().execute() if name == "merge" else found)

    return Opened(getattr(table.transaction(), name), call, table)


def _alteration(form: str, name: str, folder: Path) -> Opened:
    table = _table(folder, form)
    return Opened(
        getattr(table.alter(), name),
        lambda *given, **named: getattr(table.alter(), name)(*given, **named).commit(),
        table,
    )


def _clause(form: str, name: str, folder: Path) -> Opened:
    table = _table(folder, form)

    def call(*given: Any, **named: Any) -> Any:
        found = getattr(table.merge(_NEW, _ON), name)(*given, **named)
        return found if name == "execute" else found.execute()

    return Opened(getattr(table.merge(_NEW, _ON), name), call, table)


def _scan(form: str, name: str, folder: Path) -> Opened:
    table = _table(folder, form)
    return Opened(
        getattr(table.scan(), name), lambda *given, **named: _read(getattr(table.scan(), name)(*given, **named)), table
    )


def _function(form: str, name: str, folder: Path) -> Opened:
    function = getattr(deltaberg, name)
    return Opened(function, function, _table(folder, form))


def _filter(name: str, folder: Path) -> Opened:
    table = _table(folder, "delta")
    function = getattr(col("id"), name) if name else col

    def call(*given: Any, **named: Any) -> Any:
        made = function(*given, **named)
        return _read(table.scan(made if name else made == 1))

    return Opened(function, call, table)


def _converted(function: Callable[..., Any], argument: str, folder: Path) -> Opened:
    def call(**named: Any) -> Any:
        place = Path(_place(folder))
        place.mkdir()
        pq.write_table(ROWS, place / "a.parquet")
        return function(**{argument: place, **named})

    return Opened(function, call)


def _cataloged(kind: str, name: str, folder: Path) -> Opened:
    place = Path(_place(folder))
    place.mkdir()
    uri = {"uri": f"sqlite:///{place}/c.db"} if kind == "sql" else {}
    catalog = deltaberg.load_catalog("c", type=kind, warehouse=str(place), **uri)
    if kind == "sql":
        catalog.create_namespace("db")
    catalog.create_table("db.t", ROWS.schema)
    function = getattr(catalog, name)
    return Opened(function, lambda *given, **named: _read(function(*given, **named)))


def _class(kind: type, _folder: Path) -> Opened:
    return Opened(kind, kind)


def _there(**needed: Any) -> Callable[[Opened], Mapping[str, Any]]:
    """Return arguments with the place of a table that there is."""
    return lambda opened: {**needed, "target": opened.table.location}


def _new(**needed: Any) -> Callable[[Opened], Mapping[str, Any]]:
    """Return arguments with the place of a new table."""
    return lambda opened: {**needed, "target": f"{opened.table.location}-{next(_numbers)}"}


def _doors_of(form: str, kind: type, alteration: type) -> Iterator[tuple[str, Door]]:
    start: dict[str, Any] = {"start": 0, "derived": True} if form == "delta" else {"start": None}
    for name in _methods(kind):
        yield name, Door(partial(_verb, form, name), start if name == "changes" else _NEEDED.get(name, {}))
    for name in ("append", "overwrite", "delete", "update", "merge", "upsert"):
        yield f"transaction {name}", Door(partial(_in_transaction, form, name), _NEEDED[name])
    for name in _methods(alteration):
        if name not in ("commit", "preview"):
            yield f"alter {name}", Door(partial(_alteration, form, name), _usual(getattr(alteration, name), "name"))
    for name in _methods(MergeBuilder):
        yield f"merge {name}", Door(partial(_clause, form, name), _usual(getattr(MergeBuilder, name), "name"))
    for name in _methods(Scan):
        yield f"scan {name}", Door(partial(_scan, form, name), _NEEDED.get(name, {}))
    for name in ("open_table", kind.__name__):
        yield name, Door(partial(_function, form, name), lambda opened: {"location": opened.table.location})
    yield "create_table", Door(partial(_function, form, "create_table"), _new(format=form, schema=ROWS.schema))
    write = partial(_function, form, "write_table")
    yield "write_table", Door(write, _new(format=form, data=_NEW))
    yield "write_table again", Door(write, _there(data=_NEW, mode="append"))
    yield "find_commit", Door(partial(_function, form, "find_commit"), _there(token="1-x"))


def _doors() -> Iterator[tuple[str, Door]]:
    for form, kind, alteration in (
        ("delta", DeltaTable, DeltaAlteration),
        ("iceberg", IcebergTable, IcebergAlteration),
    ):
        for name, door in _doors_of(form, kind, alteration):
            yield f"{form} {name}", door
    for options in (CommitPolicy, ScanOptions, ParquetOptions, CheckpointLayout):
        yield options.__name__, Door(partial(_class, options))
    yield "convert_to_delta", Door(partial(_converted, deltaberg.convert_to_delta, "target"))
    yield "convert_to_iceberg", Door(partial(_converted, deltaberg.convert_to_iceberg, "source"))
    for made, catalog in (("hadoop", FilesystemCatalog), ("sql", SqlCatalog)):
        for name in _methods(catalog):
            usual = _usual(getattr(catalog, name), "db.u" if name.startswith("create") else "db.t")
            yield f"{made} catalog {name}", Door(partial(_cataloged, made, name), usual)
    yield "col", Door(partial(_filter, ""), {"name": "id"})
    for name in _methods(type(col("id"))):
        yield f"col {name}", Door(partial(_filter, name), _usual(getattr(col("id"), name), "1"))


#: All doors by their names.
DOORS: dict[str, Door] = dict(_doors())
