"""The traces that features leave in a table and in its history, and the steps that remove them from the table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from deltaberg.delta.actions.log_action import read_actions
from deltaberg.delta.checkpoint.read import Checkpoint
from deltaberg.delta.features import FEATURES
from deltaberg.delta.log.checkpoint_files import complete_checkpoints
from deltaberg.delta.log.directory import LogDirectory, LogEntry
from deltaberg.delta.schema.schema_json import SchemaDocument, all_fields
from deltaberg.delta.schema.type_changes import CHANGES
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.table.maintain.purge import Purge

__all__ = ["Step", "last_trace", "steps_of", "without_type_changes"]

_POLICY = "delta.checkpointPolicy"


class Step(NamedTuple):
    """A commit that takes traces of a feature out of a table, or several commits.

    Parameters
    ----------
    says
        What it does.
    properties
        The properties that it sets.
    purge
        Which files it writes anew.
    cleans_schema
        Whether it takes the changes of types out of the schema.
    """

    says: str
    properties: dict[str, str] | None = None
    purge: Purge | None = None
    cleans_schema: bool = False


def steps_of(name: str, table: Snapshot) -> list[Step]:
    """Return the steps after which a table holds no trace of a feature; none if it holds none."""
    properties, steps = table.metadata.configuration, []
    activated_by = FEATURES[name].activated_by
    if activated_by is not None and _is_on(name, properties):
        # What is off is not made again meanwhile.
        value = "none" if name == "columnMapping" else "false"
        steps.append(Step(f"set {activated_by[0]} to {value}", {activated_by[0]: value}))
    if name == "deletionVectors":
        vectors = table.live.table.column("deletionVector")
        hidden = len(vectors) - vectors.null_count
        if hidden:
            steps.append(Step(f"write {hidden} files anew without their deleted rows", purge="deletes"))
    elif name.startswith("typeWidening"):
        if CHANGES in (table.metadata.schema_string or ""):
            steps.append(Step("write files anew whose columns have older types", purge="types"))
            steps.append(Step("take the changes of types out of the schema", cleans_schema=True))
    elif name == "v2Checkpoint" and properties.get(_POLICY, "").strip().lower() == "v2":
        steps.append(Step(f"set {_POLICY} to classic", {_POLICY: "classic"}))
    return steps


def last_trace(name: str, table: Snapshot) -> int | None:
    """Return the last version in the log of a table that holds a trace of a feature; None if there is none.

    Each commit is looked at, and the state that the log begins with.
    """
    log = table.log
    listed = [entry for entry in log.entries() if entry.version <= table.version]
    checkpoints = complete_checkpoints(listed, frozenset())
    commits = {entry.version: entry for entry in listed if entry.file.kind == "commit"}
    first = 0 if 0 in commits else min(checkpoints)
    traces = list(_of_checkpoints(name, log, checkpoints))
    if steps_of(name, Snapshot.load(log, first)):
        traces.append(first)
    used = _USES.get(name)
    if used is not None:
        traces += [version for version in commits if version > first and used(log.read(commits[version]))]
    return max(traces, default=None)


def without_type_changes(text: str) -> str:
    """Return the text of a schema without the changes of types that it records."""
    document = SchemaDocument(text)
    for field in all_fields(document.fields()):
        if CHANGES in (field.get("metadata") or {}):
            field["metadata"] = {name: value for name, value in field["metadata"].items() if name != CHANGES}
    return document.to_json()


def _is_on(name: str, properties: Mapping[str, str]) -> bool:
    activated_by = FEATURES[name].activated_by
    return activated_by is not None and properties.get(activated_by[0], "").strip().lower() in activated_by[1]


def _hides_rows(data: bytes) -> bool:
    return any(
        action.members.get("deletionVector") is not None
        if action.name == "add"
        else _is_on("deletionVectors", action.members.get("configuration") or {})
        for action in read_actions(data, "add", "metaData")
    )


def _widens(data: bytes) -> bool:
    return any(
        CHANGES in str(action.members.get("schemaString"))
        or _is_on("typeWidening", action.members.get("configuration") or {})
        for action in read_actions(data, "metaData")
    )


def _maps(data: bytes) -> bool:
    return any(
        _is_on("columnMapping", action.members.get("configuration") or {}) for action in read_actions(data, "metaData")
    )


def _asks_for_v2(data: bytes) -> bool:
    return any(
        str((action.members.get("configuration") or {}).get(_POLICY)).strip().lower() == "v2"
        for action in read_actions(data, "metaData")
    )


#: Whether the actions of a commit are a trace of a feature.
_USES: dict[str, Callable[[bytes], bool]] = {
    "columnMapping": _maps,
    "deletionVectors": _hides_rows,
    "typeWidening": _widens,
    "typeWidening-preview": _widens,
    "v2Checkpoint": _asks_for_v2,
}


def _of_checkpoints(name: str, log: LogDirectory, checkpoints: Mapping[int, Sequence[LogEntry]]) -> Iterator[int]:
    """Return the versions of the checkpoints that only readers with the feature can read."""
    if name != "v2Checkpoint":
        return
    for version, entries in checkpoints.items():
        if Checkpoint(log, entries).is_v2:
            yield version
