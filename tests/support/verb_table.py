"""What becomes of each argument of each verb: on tables and in transactions of both formats, and behind other doors.

Verbs and arguments come from the signatures. `.venv/bin/python -m tests.support.verb_table` prints the table.
"""

from __future__ import annotations

import inspect
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq

from deltaberg import CommitPolicy, MaintenancePolicy, ParquetOptions, Scan, ScanOptions, create_table
from deltaberg.delta.checkpoint.layout import CheckpointLayout
from deltaberg.delta.table import DeltaTable
from deltaberg.delta.table_transaction import DeltaTransaction
from deltaberg.errors import ArgumentNameError, DeltabergError
from deltaberg.iceberg.table import IcebergTable
from deltaberg.iceberg.table_transaction import IcebergTransaction
from deltaberg.table.verbs.shared_arguments import RecordedArguments
from deltaberg.words import words_of
from tests.support.option_table import DOORS

__all__ = [
    "OF_COMMITS",
    "OF_DELTA",
    "OF_ICEBERG",
    "PLACES",
    "Place",
    "all_right",
    "arguments_of",
    "as_markdown",
    "outcomes",
    "verbs_of",
]

#: What is said of a commit, which a transaction is told when it begins.
OF_COMMITS = frozenset(RecordedArguments.__annotations__)
#: Arguments that one format alone has.
OF_DELTA = frozenset({"user_metadata", "post_commithook_properties", "upgrade_iceberg_compat"})
OF_ICEBERG = frozenset({"branch", "spec_id"})

_SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string())])
_NEEDED: dict[str, dict[str, Any]] = {
    "append": {"data": pa.table({"id": [5], "p": ["a"]})},
    "explain_append": {"data": pa.table({"id": [5], "p": ["a"]})},
    "overwrite": {"data": pa.table({"id": [5], "p": ["a"]})},
    "delete": {"where": "id = 5"},
    "update": {"set": {"id": "id"}},
    "merge": {"source": pa.table({"id": [5], "p": ["a"]}), "on": "target.id = source.id"},
    "upsert": {"data": pa.table({"id": [5], "p": ["a"]}), "keys": "id"},
    "delete_by_keys": {"keys": pa.table({"id": [7]})},
    "add_files": {"file_paths": []},
    "restore": {"target": 1},
    "clone": {"target": ""},
    "drop_feature": {"name": "appendOnly"},
    "follow": {"start": "latest"},
    "appends": {"start": None},
    "changes": {"start": None},
    "cherrypick_snapshot": {"snapshot_id": 0},
    "publish": {"wap_id": ""},
    "compact_log": {"first": 0, "last": 1},
    "inspect": {"name": "files"},
    "rewrite_table_path": {"source_prefix": "", "target_prefix": "s3://b/t"},
    "set_domain": {"name": "app.own", "configuration": "{}"},
    "set_transaction": {"application": "app", "version": 1},
    "maintain": {"policy": MaintenancePolicy()},
}
#: What is no verb with arguments of its own: the engine of another object, and what pandas is told.
_NO_VERBS = {"on_spark", "to_pandas"}
#: Arguments that are right for every verb that takes them, but for those of `_right`.
_RIGHT: dict[str, Any] = {
    "allow_truncation": True,
    "at": "2020-01-01",
    "carry_over": True,
    "compute_updates": False,
    "depth": "names",
    "derived": True,
    "end": None,
    "end_version": None,
    "identifier_columns": ["id"],
    "location": None,
    "mode": "symlink_format_manifest",
    "n": 1,
    "net_changes": True,
    "prefix_mismatch": "ignore",
    "staging_location": None,
    "start_version": None,
    "safe": False,
    "batch_size": 100,
    "branch": "main",
    "catalog": None,
    "changes": False,
    "check": False,
    "cluster": False,
    "check_duplicate_files": False,
    "columns": ["id"],
    "commit_properties": deltalake.CommitProperties(custom_metadata={"a": "b"}),
    "compression": "zstd",
    "dynamic": True,
    "filter": "id > 0",
    "group_size": 1 << 20,
    "hilbert_by": "id",
    "sort_by": "id",
    "spec_id": 0,
    "rewrite_all": True,
    "min_manifests": 2,
    "z_order_by": "id",
    "isolation": "serializable",
    "layout": CheckpointLayout(),
    "limit": 1,
    "max_concurrent": 1,
    "max_deleted": 0.5,
    "max_file_size": 1 << 30,
    "memory": 64 << 20,
    "min_file_size": 1 << 10,
    "min_files": 2,
    "options": ScanOptions(),
    "partition_by": "p",
    "planning": "auto",
    "poll": 0.5,
    "policy": CommitPolicy(retries=1),
    "post_commithook_properties": deltalake.PostCommitHookProperties(),
    "progress": lambda _: None,
    "properties": {"a": "b"},
    "replace": True,
    "schema_mode": "merge",
    "shallow": False,
    "skip_changes": True,
    "source_alias": "s",
    "split_size": 1 << 20,
    "storage_options": {},
    "stop": threading.Event(),
    "strategy": "copy-on-write",
    "target_alias": "t",
    "target_file_size": 1 << 20,
    "target_size": 1 << 20,
    "dry_run": True,
    "clean_expired_metadata": False,
    "older_than": None,
    "retain_last": 1,
    "snapshot_ids": None,
    "snapshot_id": None,
    "ignore_missing_files": False,
    "truncate_history": False,
    "unsafe_expired": False,
    "findings": None,
    "threads": 1,
    "timestamp": None,
    "timezone": "UTC",
    "txn": ("app", 1),
    "unsafe_single_writer": True,
    "user_metadata": "nightly",
    "version": None,
    "retention_hours": 200,
    "enforce_retention_duration": True,
    "full": True,
    "keep_versions": [0],
    "inventory": None,
    "untracked_hours": 24,
    "logging": True,
    "upgrade_iceberg_compat": 2,
    "when_matched": "ignore",
    "when_not_matched": "ignore",
    "where": "p = 'a'",
    "writer_properties": ParquetOptions(),
}


class Place(NamedTuple):
    """Where a verb is called: on a table of a format, or in a transaction of it."""

    format: str
    in_transaction: bool

    @property
    def kind(self) -> type:
        """The class that has the verbs."""
        if self.in_transaction:
            return DeltaTransaction if self.format == "delta" else IcebergTransaction
        return DeltaTable if self.format == "delta" else IcebergTable

    def __str__(self) -> str:
        return f"{self.format} {'transaction' if self.in_transaction else 'table'}"


PLACES = [Place(form, part) for form in ("delta", "iceberg") for part in (False, True)]


class Outcome(NamedTuple):
    """What becomes of an argument.

    Parameters
    ----------
    refused
        The error that a value gets that is right for other calls; None if it is taken.
    checked
        The error that a value gets that is none of the argument's; None if it is taken.
    """

    refused: Exception | None
    checked: Exception | None

    @property
    def word(self) -> str:
        """What the table says of it."""
        if self.refused is None:
            return "yes"
        return "" if isinstance(self.refused, ArgumentNameError) else "refused"


def verbs_of(kind: type) -> Iterator[str]:
    """Yield the names of the verbs of a class: its public functions that take arguments."""
    for name, member in inspect.getmembers(kind, inspect.isfunction):
        if not name.startswith("_") and name not in _NO_VERBS and len(inspect.signature(member).parameters) > 1:
            yield name


def arguments_of(kind: type, verb: str) -> set[str]:
    """Return the names of the arguments of a verb, with other libraries' words for them."""
    function = getattr(kind, verb)
    named = {one.name for one in inspect.signature(function).parameters.values() if one.kind is not one.VAR_KEYWORD}
    found: set[str] = named | getattr(function, "__takes__", set()) | set(words_of(verb))
    return found - {"self"}


@cache
def _all_arguments() -> tuple[str, ...]:
    found = (arguments_of(place.kind, verb) for place in PLACES for verb in verbs_of(place.kind))
    return tuple(sorted(set().union(*found)))


def _right(verb: str, name: str) -> Any:
    ours = words_of(verb).get(name, name)
    needed = _NEEDED.get(verb, {})
    return needed[ours] if ours in needed else _RIGHT.get(ours, "x")


def all_right(verb: str, place: Place) -> dict[str, Any]:
    """Return a right value for each argument that a verb takes of a table, as far as they go together."""
    others = OF_ICEBERG if place.format == "delta" else OF_DELTA
    left_out = {*others, *words_of(verb), "dynamic", "commit_properties", "upgrade_iceberg_compat"}
    left_out |= {"source_alias", "target_alias", "when_matched"}
    return {name: _right(verb, name) for name in arguments_of(place.kind, verb) - left_out}


def _new_file(folder: Path) -> str:
    path = folder / f"{len(list(folder.glob('*.parquet')))}.parquet"
    pq.write_table(pa.table({"id": [8], "p": ["a"]}, _SCHEMA), path)
    return str(path)


def _stage(table: Any, arguments: dict[str, Any]) -> None:
    """Stage the rows that are to be picked, as long as nothing else is to be."""
    wap_id = uuid.uuid4().hex
    snapshot_id = table.append(_NEEDED["append"]["data"], properties={"wap.id": wap_id}).snapshot_id
    for name, none, value in (("wap_id", "", wap_id), ("snapshot_id", 0, snapshot_id)):
        if arguments.get(name) == none:
            arguments[name] = value


def _prepare(folder: Path, to: Any, verb: str, name: str, arguments: dict[str, Any]) -> None:
    """Make what a call needs beside the table, and name it."""
    if verb == "changes" and isinstance(to, DeltaTable):
        arguments.update({"start": arguments["start"] or 0, "derived": arguments.get("derived", True)})
    if verb in ("publish", "cherrypick_snapshot") and name in arguments_of(type(to), verb):
        _stage(to, arguments)
    if arguments.get("source_prefix") == "":
        arguments["source_prefix"] = to.metadata.location
    if verb == "clone" and arguments["target"] == "":
        arguments["target"] = folder / uuid.uuid4().hex
    if verb == "drop_feature" and "appendOnly" not in to.features:
        to.alter().set({"delta.feature.appendOnly": "supported"}).commit()
    if verb == "add_files" and arguments["file_paths"] == []:
        arguments["file_paths"] = [_new_file(folder)]


def _call(folder: Path, to: Any, verb: str, name: str, value: Any) -> None:
    ours = words_of(verb).get(name, name)
    arguments: dict[str, Any] = {word: one for word, one in _NEEDED.get(verb, {}).items() if word != ours}
    arguments[name] = value
    _prepare(folder, to, verb, name, arguments)
    alias = {"source_alias": "target.id = s.id", "target_alias": "t.id = source.id"}.get(name)
    if verb == "merge" and alias is not None and isinstance(value, str):
        arguments["on"] = alias
    if verb == "overwrite" and name == "check":
        arguments["where"] = "p = 'a'"
    if verb == "restore" and arguments["target"] == 1 and isinstance(to, IcebergTable):
        arguments["target"] = to.snapshot_id
    answer = getattr(to, verb)(**arguments)
    if verb == "merge":
        answer.when_matched_update_all().when_not_matched_insert_all().execute()
    elif isinstance(answer, Scan):
        answer.to_arrow()
    elif verb == "transaction":
        answer.abort()


def _outcome(folder: Path, begin: Callable[[], Any], verb: str, name: str) -> Outcome:
    errors: list[Exception | None] = []
    for value in (_right(verb, name), object()):
        to = begin()
        try:
            _call(folder, to, verb, name, value)
        except DeltabergError as error:
            errors.append(error)
        else:
            errors.append(None)
        finally:
            if hasattr(to, "abort"):
                to.abort()
        if errors[0] is not None:
            return Outcome(errors[0], errors[0])
    return Outcome(*errors)


def outcomes(folder: Path, place: Place, verb: str) -> dict[str, Outcome]:
    """Call a verb with each argument that any verb has, and return what became of it.

    Parameters
    ----------
    folder
        An empty one, for the table.
    """
    create: Any = create_table
    table = create(folder / "t", _SCHEMA, format=place.format, partition_by="p")
    table.append(pa.table({"id": [1, 2, 3], "p": ["a", "b", None]}, _SCHEMA))
    begin = table.transaction if place.in_transaction else lambda: table
    return {name: _outcome(folder, begin, verb, name) for name in _all_arguments()}


def as_markdown(table: Mapping[tuple[str, Place], Mapping[str, Outcome]]) -> str:
    """Return what was found as a table: a row for each argument of each verb, a column for each place and each door."""
    columns = [*map(str, PLACES), *DOORS]
    lines = ["| verb | argument | " + " | ".join(columns) + " |", "|---" * (2 + len(columns)) + "|"]
    for verb in sorted({verb for verb, _ in table}):
        for name in _all_arguments():
            words = [table[verb, place][name].word if (verb, place) in table else "" for place in PLACES]
            words += [", ".join(door.names(verb).get(name, [])) for door in DOORS.values()]
            if any(words):
                lines.append(f"| `{verb}` | `{name}` | " + " | ".join(words) + " |")
    return "\n".join(lines)


def _main() -> None:
    table = {}
    with tempfile.TemporaryDirectory() as folder:
        for place in PLACES:
            for verb in verbs_of(place.kind):
                own = Path(folder, f"{place} {verb}")
                own.mkdir()
                table[verb, place] = outcomes(own, place, verb)
    print(as_markdown(table))


if __name__ == "__main__":
    _main()
