"""Work for each verb: a table on which it has something to do, and a call that does it.

What a verb takes must have an effect on such a call: an argument that is taken and ignored is found here.
"""

from __future__ import annotations

import inspect
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from deltaberg import MaintenancePolicy, create_table, open_table
from deltaberg.words import words_of
from tests.support.verb_table import Place

__all__ = ["SCHEMA", "arguments_of_work", "at_work", "rows", "worked_table", "works_of"]

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string()), ("at", pa.timestamp("us", "UTC"))])
_VECTORS = {"delta.enableDeletionVectors": "true"}
#: The rows of a file of the table.
_ROWS = 3000
_COPY, _HIDE = {"strategy": "copy-on-write"}, {"strategy": "merge-on-read"}


def rows(first: int, count: int = _ROWS) -> pa.Table:
    """Return rows with consecutive ids, of one partition, an hour apart from each other."""
    ids = range(first, first + count)
    return pa.table({"id": list(ids), "p": ["a"] * count, "at": [number * 3_600_000_000 for number in ids]}, SCHEMA)


def without_zone(data: pa.Table) -> pa.Table:
    """Return rows whose timestamps have no zone."""
    at = data.column("at").cast(pa.timestamp("us"))
    return data.set_column(data.schema.get_field_index("at"), "at", at)


def _merged(to: Any, data: Any = None, **arguments: Any) -> Any:
    merge = to.merge(rows(0) if data is None else data, "target.id = source.id", **{**_COPY, **arguments})
    return merge.when_matched_update_all().when_not_matched_insert_all().execute()


def _with_file_of_others(to: Any, **arguments: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        pq.write_table(rows(9000), f"{folder}/of_others.parquet")
        return to.add_files([f"{folder}/of_others.parquet"], **arguments)


def with_leftover(to: Any) -> Any:
    """Leave a file beside those of the table that nothing names, and that is old enough to go."""
    leftover = Path(to.location) / "part-leftover.parquet"
    pq.write_table(rows(9000), leftover)
    os.utime(leftover, (0, 0))
    return to


def _restored(to: Any, **arguments: Any) -> Any:
    to.delete("id >= 0", **_COPY)
    return to.restore(1 if hasattr(to, "version") else to.history()[-1].snapshot_id, **arguments)


def with_lost_file(to: Any) -> Any:
    """Delete one of the files of a table."""
    path = to.scan().files()["file_path"].to_pylist()[0]
    Path(str(path).removeprefix("file://")).unlink()
    return to


def _dropped(to: Any, **arguments: Any) -> Any:
    to.delete("id = 1", **_HIDE)
    return to.drop_feature("deletionVectors", **arguments)


def _purged(to: Any, **arguments: Any) -> Any:
    to.delete("id IN (1, 3001)", **_HIDE)
    return to.reorg(**arguments)


def _converted(to: Any, **arguments: Any) -> Any:
    to.delete_by_keys(pa.table({"id": list(range(0, 2 * _ROWS, 2))}))
    return to.convert_equality_deletes(**arguments)


def _joined(to: Any, **arguments: Any) -> Any:
    for number in range(2):
        to.delete(f"id % 3 = {number}", **_HIDE)
    return to.rewrite_position_delete_files(**{"rewrite_all": True, **arguments})


def _cleaned(to: Any, **arguments: Any) -> Any:
    to.alter().set({"delta.logRetentionDuration": "interval 0 hours"}).commit()
    to.checkpoint()
    return to.cleanup_metadata(**{"at": "2100-01-01", **arguments})


#: What each verb does. Those of transactions are the same.
_WORKS: dict[str, Callable[..., Any]] = {
    "add_files": _with_file_of_others,
    "append": lambda to, data=None, **more: to.append(rows(6000) if data is None else data, **more),
    "cleanup_metadata": _cleaned,
    "clone": lambda to, **more: to.clone(f"{to.location}_clone", **more),
    "compact": lambda to, **more: to.compact(**{"rewrite_all": True, **more}),
    "convert_equality_deletes": _converted,
    "delete": lambda to, where="id % 2 = 0", **more: to.delete(where, **{**_COPY, **more}),
    "delete_by_keys": lambda to, data=None, **more: to.delete_by_keys(rows(0) if data is None else data, **more),
    "drop_feature": _dropped,
    "merge": _merged,
    "overwrite": lambda to, data=None, **more: to.overwrite(rows(0) if data is None else data, **more),
    "reorg": _purged,
    "repair": lambda to, **more: with_lost_file(to).repair(**more),
    "restore": _restored,
    "rewrite_position_delete_files": _joined,
    "update": lambda to, where="id % 2 = 0", **more: to.update({"p": "'b'"}, where, **{**_COPY, **more}),
    "upsert": lambda to, data=None, **more: to.upsert(rows(5000) if data is None else data, "id", **{**_COPY, **more}),
    "expire_snapshots": lambda to, **more: to.expire_snapshots(
        **{"older_than": "2100-01-01", "dry_run": False, **more}
    ),
    "maintain": lambda to, **more: to.maintain(MaintenancePolicy(min_files=2), **{"dry_run": False, **more}),
    "remove_orphan_files": lambda to, **more: with_leftover(to).remove_orphan_files(**more),
    "vacuum": lambda to, **more: with_leftover(to).vacuum(**more),
    "alter": lambda to, **more: to.alter(**more).partition_by("p").commit(),
}


def works_of(place: Place, argument: str) -> Iterator[str]:
    """Yield the public methods of a class that take an argument."""
    for name, _ in inspect.getmembers(place.kind, inspect.isfunction):
        if not name.startswith("_") and argument in arguments_of_work(place.kind, name):
            yield name


def arguments_of_work(kind: type, verb: str) -> set[str]:
    """Return the names of the arguments of a method, in our words."""
    function = getattr(kind, verb)
    taken = {*inspect.signature(function).parameters, *getattr(function, "__takes__", ())}
    return taken - words_of(verb).keys()


def worked_table(folder: Path, format: str) -> Any:
    """Return a table of two files of the same partition."""
    create: Any = create_table
    table = create(folder / "t", SCHEMA, format=format, properties=_VECTORS if format == "delta" else None)
    for first in (0, _ROWS):
        table.append(rows(first))
    return open_table(folder / "t")


def at_work(to: Any, verb: str, **arguments: Any) -> Any:
    """Have a verb do its work, with arguments beside those that it needs for it."""
    work = _WORKS.get(verb)
    return getattr(to, verb)(**arguments) if work is None else work(to, **arguments)
