"""Builds Delta tables by hand, for the demo, the tests and the benchmarks.

The caller chooses every action, name and byte, and none of the code under test is used.

The builder remembers what it wrote. By the simplest possible replay (oldest first), it knows which files are live and
which rows they hold.
"""

from __future__ import annotations

import json
import math
import os
import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.delta_checkpoints import Action, write_actions
from tests.support.delta_schemas import field, struct_type
from tests.support.vectors import bitmap_bytes, dv_file, relative_descriptor, z85

__all__ = ["DeltaBuilder", "commit_name"]

_EPOCH_MILLIS = 1_700_000_000_000


def commit_name(version: int) -> str:
    """Return the name of a version's log entry."""
    return f"{version:020d}.json"


class DeltaBuilder:
    """A Delta table under construction at ``root``."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(root)
        self.log = self.root / "_delta_log"
        self.log.mkdir(parents=True, exist_ok=True)
        self.version = -1
        self.commits: dict[int, list[Action]] = {}
        #: The rows of each data file by its path in the log, as the builder wrote them.
        self.rows: dict[str, pa.Table] = {}

    # Actions

    @staticmethod
    def protocol(
        reader: int = 1,
        writer: int = 2,
        reader_features: Sequence[str] | None = None,
        writer_features: Sequence[str] | None = None,
    ) -> Action:
        """Return a protocol action."""
        fields: dict[str, Any] = {"minReaderVersion": reader, "minWriterVersion": writer}
        if reader_features is not None:
            fields["readerFeatures"] = list(reader_features)
        if writer_features is not None:
            fields["writerFeatures"] = list(writer_features)
        return {"protocol": fields}

    @classmethod
    def features(cls, *names: str, writer_only: Sequence[str] = ()) -> Action:
        """Return a protocol (3, 7) with these reader-writer features and these writer-only features."""
        return cls.protocol(3, 7, names, [*names, *writer_only])

    @staticmethod
    def metadata(
        schema: pa.Schema | Sequence[dict[str, Any]],
        partition_by: Sequence[str] = (),
        configuration: Mapping[str, str] | None = None,
        **fields: Any,
    ) -> Action:
        """Return a metaData action; other fields replace the defaults, and those that are None are left out."""
        columns = [
            field(child.name, child.type, child.nullable) if isinstance(child, pa.Field) else child for child in schema
        ]
        body: dict[str, Any] = {
            "id": "5fba94ed-9794-4965-ba6e-6ee3c0d22af9",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps(struct_type(*columns)),
            "partitionColumns": list(partition_by),
            "configuration": dict(configuration or {}),
            "createdTime": _EPOCH_MILLIS,
            **fields,
        }
        return {"metaData": {name: value for name, value in body.items() if value is not None}}

    def add(
        self,
        rows: pa.Table | None = None,
        *,
        path: str | None = None,
        partition: Mapping[str, str | None] | None = None,
        stats: Any = "none",
        vector: Mapping[str, Any] | None = None,
        log_path: str | None = None,
        writer: Mapping[str, Any] | None = None,
        **fields: Any,
    ) -> Action:
        """Write a data file, if rows are given, and return its add action.

        Parameters
        ----------
        path
            The name on disk, relative to the table, or absolute.
        log_path
            The path in the log; by default ``path`` percent-encoded.
        stats
            ``"none"``, ``"count"`` (numRecords), ``"full"`` (numRecords, bounds and null counts of flat columns),
            or the statistics themselves as a dict or text.
        writer
            Options of `pyarrow.parquet.write_table`.
        """
        path = path or f"part-{uuid.uuid4()}.c000.snappy.parquet"
        recorded = log_path if log_path is not None else quote(path, safe="/=-_.~:!$&'()*+,;@")
        target = Path(path) if os.path.isabs(path) else self.root / path
        size = 0
        if rows is not None:
            target.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(rows, target, **{"store_schema": False, **(writer or {})})
            self.rows[recorded] = rows
            size = target.stat().st_size
        body: dict[str, Any] = {
            "path": recorded,
            "partitionValues": dict(partition or {}),
            "size": size,
            "modificationTime": _EPOCH_MILLIS,
            "dataChange": True,
        }
        text = _stats_text(stats, rows)
        if text is not None:
            body["stats"] = text
        if vector is not None:
            body["deletionVector"] = dict(vector)
        return {"add": {**body, **fields}}

    @staticmethod
    def remove(add: Action, *, extended: bool = True, **fields: Any) -> Action:
        """Return the remove action that cancels an add."""
        source = add["add"]
        body: dict[str, Any] = {"path": source["path"], "deletionTimestamp": _EPOCH_MILLIS + 1000, "dataChange": True}
        if extended:
            body |= {
                "extendedFileMetadata": True,
                "partitionValues": source["partitionValues"],
                "size": source["size"],
            }
        for name in ("deletionVector", "baseRowId", "defaultRowCommitVersion"):
            if name in source:
                body[name] = source[name]
        return {"remove": {**body, **fields}}

    def vector(
        self, positions: Iterable[int], storage: str = "u", prefix: str = "", directory: Path | None = None
    ) -> dict[str, Any]:
        """Write a deletion vector and return its descriptor; ``storage`` is u, p or i."""
        (descriptor,) = self.vectors([positions], storage, prefix, directory)
        return descriptor

    def vectors(
        self, several: Sequence[Iterable[int]], storage: str = "u", prefix: str = "", directory: Path | None = None
    ) -> list[dict[str, Any]]:
        """Write deletion vectors into one file and return their descriptors."""
        positions = [sorted(set(one)) for one in several]
        bodies = [bitmap_bytes(one) for one in positions]
        if storage == "i":
            return [
                {
                    "storageType": "i",
                    "pathOrInlineDv": z85(body),
                    "sizeInBytes": len(body),
                    "cardinality": len(one),
                }
                for body, one in zip(bodies, positions, strict=True)
            ]
        identity = uuid.uuid4()
        target = (directory or self.root) / prefix / f"deletion_vector_{identity}.bin"
        target.parent.mkdir(parents=True, exist_ok=True)
        data, offsets = dv_file(bodies)
        target.write_bytes(data)
        path = relative_descriptor(identity, prefix) if storage == "u" else "file://" + quote(str(target))
        return [
            {
                "storageType": storage,
                "pathOrInlineDv": path,
                "offset": offset,
                "sizeInBytes": len(body),
                "cardinality": len(one),
            }
            for offset, body, one in zip(offsets, bodies, positions, strict=True)
        ]

    # Commits

    def commit(
        self,
        *actions: Action | None,
        version: int | None = None,
        millis: int | None = None,
        info: Mapping[str, Any] | None = None,
    ) -> int:
        """Write the next version, or the given one; ``millis`` sets the modification time of the log file.

        A commit without actions has an empty ``commitInfo``.
        """
        version = self.version + 1 if version is None else version
        present = [action for action in actions if action is not None]
        if info is not None or not present:
            present.insert(0, {"commitInfo": dict(info or {})})
        text = "".join(json.dumps(action, separators=(",", ":"), ensure_ascii=False) + "\n" for action in present)
        self.commit_text(text, version, millis)
        self.commits[version] = present
        return version

    def commit_text(self, text: str | bytes, version: int | None = None, millis: int | None = None) -> int:
        """Write a log entry of exactly this text."""
        version = self.version + 1 if version is None else version
        path = self.log / commit_name(version)
        # A log entry appears whole: the protocol wants writers to make it in one step.
        part = path.with_name(f".{path.name}.tmp")
        part.write_bytes(text if isinstance(text, bytes) else text.encode())
        if millis is not None:
            os.utime(part, (millis / 1000, millis / 1000))
        part.replace(path)
        self.version = max(self.version, version)
        return version

    def create(
        self,
        schema: pa.Schema | Sequence[dict[str, Any]],
        *actions: Action,
        partition_by: Sequence[str] = (),
        configuration: Mapping[str, str] | None = None,
        protocol: Action | None = None,
        millis: int | None = None,
    ) -> int:
        """Write version 0: protocol, metadata and further actions."""
        first = [protocol or self.protocol(), self.metadata(schema, partition_by, configuration)]
        return self.commit(*first, *actions, millis=millis)

    # What a reader must find

    def live(self, version: int | None = None) -> dict[tuple[str, str | None], Action]:
        """Return the live adds of a version by (path, unique id of the deletion vector): replayed oldest first."""
        version = self.version if version is None else version
        adds: dict[tuple[str, str | None], Action] = {}
        for number in sorted(self.commits):
            if number > version:
                break
            actions = self.commits[number]
            for action in actions:
                if "remove" in action:
                    adds.pop(_key(action["remove"]), None)
            for action in actions:
                if "add" in action:
                    body = action["add"]
                    for key in [key for key in adds if key[0] == body["path"]]:
                        del adds[key]
                    adds[_key(body)] = action
        return adds

    # Checkpoints

    def checkpoint(
        self,
        version: int | None = None,
        *,
        kind: str = "classic",
        parts: int = 1,
        actions: Sequence[Action] | None = None,
        sidecars: int | None = None,
        pointer: bool = False,
        stats: str = "json",
        name: str | None = None,
    ) -> list[Path]:
        """Write a checkpoint of a version, from what `live` knows or from given actions; return its files.

        Parameters
        ----------
        kind
            ``classic``, ``multipart``, ``uuid-parquet`` or ``uuid-json``.
        sidecars
            Put file actions into so many sidecars; the checkpoint then follows the V2 specification.
        pointer
            Write ``_last_checkpoint`` too.
        stats
            ``json``, ``struct`` (``stats_parsed``, of the statistics that adds hold), ``both`` or ``none``.
        """
        version = self.version if version is None else version
        chosen = list(actions) if actions is not None else self.table_actions(version)
        second = kind.startswith("uuid") or sidecars is not None
        if second and not any("checkpointMetadata" in action for action in chosen):
            chosen.insert(0, {"checkpointMetadata": {"version": version}})
        if sidecars is not None:
            chosen = self._move_to_sidecars(chosen, sidecars, stats)
        files = self._write_checkpoint(version, kind, parts, chosen, stats, name)
        if pointer:
            body: dict[str, Any] = {"version": version, "size": len(chosen)}
            if kind == "multipart":
                body["parts"] = parts
            (self.log / "_last_checkpoint").write_text(json.dumps(body))
        return files

    def table_actions(self, version: int) -> list[Action]:
        """Return what a checkpoint of a version holds."""
        latest: dict[Any, Action] = {}
        removes: dict[tuple[str, str | None], Action] = {}
        for number in sorted(number for number in self.commits if number <= version):
            for action in self.commits[number]:
                name, body = next(iter(action.items()))
                if name in ("protocol", "metaData"):
                    latest[name] = action
                elif name == "txn":
                    latest[name, body["appId"]] = action
                elif name == "domainMetadata":
                    latest[name, body["domain"]] = action
                elif name == "remove":
                    removes[_key(body)] = action
                elif name == "add":
                    removes.pop(_key(body), None)
        kept = [action for action in latest.values() if not action.get("domainMetadata", {}).get("removed")]
        return [*kept, *self.live(version).values(), *removes.values()]

    def _move_to_sidecars(self, actions: list[Action], count: int, stats: str) -> list[Action]:
        files = [action for action in actions if "add" in action or "remove" in action]
        rest = [action for action in actions if "add" not in action and "remove" not in action]
        directory = self.log / "_sidecars"
        directory.mkdir(exist_ok=True)
        for number in range(count):
            name = f"{uuid.uuid4()}.parquet"
            write_actions(directory / name, files[number::count], stats)
            size = (directory / name).stat().st_size
            rest.append({"sidecar": {"path": name, "sizeInBytes": size, "modificationTime": _EPOCH_MILLIS}})
        return rest

    def _write_checkpoint(
        self, version: int, kind: str, parts: int, actions: list[Action], stats: str, name: str | None
    ) -> list[Path]:
        stem = f"{version:020d}.checkpoint"
        if kind == "multipart":
            paths = [self.log / f"{stem}.{part:010d}.{parts:010d}.parquet" for part in range(1, parts + 1)]
            for number, path in enumerate(paths):
                write_actions(path, actions[number::parts], stats)
            return paths
        if kind == "uuid-json":
            path = self.log / (name or f"{stem}.{uuid.uuid4()}.json")
            path.write_text("".join(json.dumps(action) + "\n" for action in actions))
            return [path]
        plain = f"{stem}.parquet" if kind == "classic" else f"{stem}.{uuid.uuid4()}.parquet"
        path = self.log / (name or plain)
        write_actions(path, actions, stats)
        return [path]


def _key(body: Mapping[str, Any]) -> tuple[str, str | None]:
    vector = body.get("deletionVector")
    if vector is None:
        return body["path"], None
    at = f"@{vector['offset']}" if vector.get("offset") is not None else ""
    return body["path"], f"{vector['storageType']}{vector['pathOrInlineDv']}{at}"


def _stats_text(stats: Any, rows: pa.Table | None) -> str | None:
    if isinstance(stats, dict):
        return json.dumps(stats, separators=(",", ":"))
    if stats == "none" or rows is None:
        return None
    if stats == "count":
        return json.dumps({"numRecords": len(rows)})
    if stats != "full":
        return str(stats)
    body: dict[str, Any] = {"numRecords": len(rows), "minValues": {}, "maxValues": {}, "nullCount": {}}
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        body["nullCount"][name] = column.null_count
        values = [value for value in column.drop_null().to_pylist() if not _is_nan(value)]
        if values and not pa.types.is_nested(column.type) and not pa.types.is_boolean(column.type):
            body["minValues"][name] = _stat(min(values))
            body["maxValues"][name] = _stat(max(values))
    return json.dumps(body, separators=(",", ":"))


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _stat(value: Any) -> Any:
    if isinstance(value, (int, float, str)):
        return value
    if hasattr(value, "isoformat"):
        text = value.isoformat()
        return text.replace("+00:00", "Z") if "T" in text else text
    return float(value) if hasattr(value, "as_tuple") else None
