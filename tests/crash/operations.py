"""Operations that are killed at every point, each on a copy of a small table.

An operation gets the folder of the table, and calls what it is given as soon as it is acknowledged.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from deltaberg import DeltaTable
from deltaberg.delta.actions.log_action import LogAction
from deltaberg.delta.actions.table_actions import Format, Metadata, Protocol
from deltaberg.delta.log.directory import LogDirectory
from deltaberg.delta.transaction.transaction import Transaction
from deltaberg.storage import StoreSpec, parse_location

__all__ = ["OPERATIONS", "Operation"]

#: The folder of the table, and what is told that the operation is done.
Operation = Callable[[Path, Callable[[], None]], None]
_SCHEMA = '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}'


def _new_file(name: str) -> LogAction:
    members = {
        "path": name,
        "partitionValues": {},
        "size": 10,
        "modificationTime": 1_700_000_000_000,
        "dataChange": True,
        "stats": '{"numRecords":1}',
    }
    return LogAction("add", members)


def _append(root: Path, done: Callable[[], None]) -> None:
    with DeltaTable(root).transaction() as transaction:
        transaction.add_actions([_new_file("new.parquet")])
    done()


def _replace(root: Path, done: Callable[[], None]) -> None:
    with DeltaTable(root).transaction() as transaction:
        transaction.read()
        transaction.remove_files(transaction.snapshot.live.table)
        transaction.add_actions([_new_file("new.parquet")])
        transaction.set_transaction("app", 1)
    done()


def _change(root: Path, done: Callable[[], None]) -> None:
    table = DeltaTable(root)
    with table.transaction() as transaction:
        transaction.set_metadata(table.metadata.with_members({"description": "changed"}))
    done()


def _create(root: Path, done: Callable[[], None]) -> None:
    transaction = Transaction(LogDirectory(parse_location(root / "other"), StoreSpec()), None)
    transaction.set_protocol(Protocol(1, 2))
    transaction.set_metadata(Metadata("b1b8b6b4", Format("parquet"), json.dumps(json.loads(_SCHEMA)), (), {}))
    transaction.commit("CREATE TABLE")
    done()


def _append_rows(root: Path, done: Callable[[], None]) -> None:
    DeltaTable(root).append(pa.table({"id": [7, 8]}))
    done()


def _overwrite_rows(root: Path, done: Callable[[], None]) -> None:
    DeltaTable(root).overwrite(pa.table({"id": [7, 8]}))
    done()


#: Each operation by its name.
OPERATIONS: dict[str, Operation] = {
    "append rows": _append_rows,
    "overwrite rows": _overwrite_rows,
    "append": _append,
    "replace all files": _replace,
    "change metadata": _change,
    "create a table": _create,
}
