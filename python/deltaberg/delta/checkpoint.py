"""Reading checkpoints: classic, in parts, named by UUID, with or without sidecars.

They are Parquet or JSON (Delta protocol, "Checkpoints"). Actions about the whole table are read at once; the columns
of files only when they are needed, and statistics only for the columns that a filter names.
"""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg import kernels
from deltaberg.delta.actions import Metadata, Protocol, Transaction, read_metadata, read_protocol
from deltaberg.delta.names import SIDECAR_DIRECTORY
from deltaberg.delta.segment import LogDirectory, LogEntry
from deltaberg.errors import (
    CorruptCheckpointError,
    CorruptDataFileError,
    CorruptLogError,
    ObjectNotFoundError,
    SchemaError,
    StorageError,
)
from deltaberg.files.parquet import ParquetSource
from deltaberg.schema import Field, List, Map, Primitive, Struct, arrow_schema, columns_of
from deltaberg.schema.projection import plan_projection
from deltaberg.storage import PathResolver

__all__ = ["ADD_COLUMNS", "Checkpoint", "CheckpointPart", "TableActions"]

_BATCH_ROWS = 1 << 20
#: Statistics are long: fewer rows at a time.
_STATS_ROWS = 1 << 16
_TO_THE_END = (1 << 63) - 1
_MISSING = "a file of the checkpoint is missing"
_OF_CHECKPOINTS = ("sidecar", "checkpointMetadata")

_LONG, _TEXT, _FLAG, _INT = Primitive("long"), Primitive("string"), Primitive("boolean"), Primitive("integer")
_STRING_MAP = Map(Field("key", _TEXT), Field("value", _TEXT))
_VECTOR = Struct(
    (
        Field("storageType", _TEXT),
        Field("pathOrInlineDv", _TEXT),
        Field("offset", _INT),
        Field("sizeInBytes", _INT),
        Field("cardinality", _LONG),
    )
)
#: The columns of live files that planning needs.
ADD_COLUMNS = (
    Field("path", _TEXT),
    Field("partitionValues", _STRING_MAP),
    Field("size", _LONG),
    Field("modificationTime", _LONG),
    Field("dataChange", _FLAG),
    Field("tags", _STRING_MAP),
    Field("deletionVector", _VECTOR),
    Field("baseRowId", _LONG),
    Field("defaultRowCommitVersion", _LONG),
    Field("clusteringProvider", _TEXT),
)
_REMOVE_COLUMNS = (
    Field("path", _TEXT),
    Field("deletionTimestamp", _LONG),
    Field("dataChange", _FLAG),
    Field("extendedFileMetadata", _FLAG),
    Field("partitionValues", _STRING_MAP),
    Field("size", _LONG),
    Field("tags", _STRING_MAP),
    Field("deletionVector", _VECTOR),
    Field("baseRowId", _LONG),
    Field("defaultRowCommitVersion", _LONG),
)
_NAMES = List(Field("element", _TEXT))
_TABLE_ACTIONS = (
    Field(
        "protocol",
        Struct(
            (
                Field("minReaderVersion", _INT),
                Field("minWriterVersion", _INT),
                Field("readerFeatures", _NAMES),
                Field("writerFeatures", _NAMES),
            )
        ),
    ),
    Field(
        "metaData",
        Struct(
            (
                Field("id", _TEXT),
                Field("name", _TEXT),
                Field("description", _TEXT),
                Field("format", Struct((Field("provider", _TEXT), Field("options", _STRING_MAP)))),
                Field("schemaString", _TEXT),
                Field("partitionColumns", _NAMES),
                Field("createdTime", _LONG),
                Field("configuration", _STRING_MAP),
            )
        ),
    ),
    Field("txn", Struct((Field("appId", _TEXT), Field("version", _LONG), Field("lastUpdated", _LONG)))),
    Field("domainMetadata", Struct((Field("domain", _TEXT), Field("configuration", _TEXT), Field("removed", _FLAG)))),
    Field("checkpointMetadata", Struct((Field("version", _LONG),))),
    Field("sidecar", Struct((Field("path", _TEXT), Field("sizeInBytes", _LONG)))),
)
#: One field of each action, which is enough to see where the action is.
_PRESENCE = tuple(
    Field(name, Struct((field,)))
    for name, field in (
        ("protocol", Field("minReaderVersion", _INT)),
        ("metaData", Field("id", _TEXT)),
        ("txn", Field("appId", _TEXT)),
        ("domainMetadata", Field("domain", _TEXT)),
        ("checkpointMetadata", Field("version", _LONG)),
        ("sidecar", Field("path", _TEXT)),
        ("add", Field("path", _TEXT)),
        ("remove", Field("path", _TEXT)),
    )
)


@dataclass
class TableActions:
    """The actions that describe a table as a whole; domains that were removed are not in it."""

    protocol: Protocol | None
    metadata: Metadata | None
    transactions: dict[str, Transaction]
    domains: dict[str, str]


class CheckpointPart:
    """A Parquet file of a checkpoint: the whole of it, one of its parts, or a sidecar."""

    def __init__(self, log: LogDirectory, path: str, size: int | None) -> None:
        self._log = log
        self.path = path
        self.size = size

    def table_actions(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Give the actions about the table, and those about the checkpoint, as (name, fields)."""
        for rows in self._read_batches(_TABLE_ACTIONS, _BATCH_ROWS):
            for action, column in zip(_TABLE_ACTIONS, rows, strict=True):
                if column.null_count < len(column):
                    for fields in column.filter(column.is_valid()).to_pylist():
                        yield action.name, fields

    def adds(self) -> pa.Table:
        """Give the live files, with the columns of `ADD_COLUMNS`."""
        return self._actions("add", ADD_COLUMNS)

    def removes(self) -> pa.Table:
        """Give the tombstones."""
        return self._actions("remove", _REMOVE_COLUMNS)

    def add_column(self, column: Field, rows: pa.Int64Array) -> Iterator[pa.Array]:
        """Give one more column of some live files, such as their statistics, a batch at a time.

        ``rows`` are numbers of live files in this part, ascending.
        """
        first = given = 0
        for batch in self._read_batches([Field("add", Struct((column,)))], _STATS_ROWS):
            adds = _present(batch[0])
            inside = pc.and_(pc.greater_equal(rows, first), pc.less(rows, first + len(adds)))
            wanted = rows.filter(inside)
            if len(wanted):
                yield adds.field(0).take(pc.subtract(wanted, first))
            first += len(adds)
            given += len(wanted)
        if given != len(rows):
            raise self._corrupt(f"the column {column.name} has {first} live files, other columns have more")

    def crowded_rows(self) -> int:
        """Count the rows that hold more than one action."""
        crowded = 0
        for rows in self._read_batches(_PRESENCE, _BATCH_ROWS):
            counts = functools.reduce(pc.add, (column.is_valid().cast(pa.int8()) for column in rows))
            crowded += pc.sum(pc.greater(counts, 1)).as_py() or 0
        return crowded

    def has_files(self) -> bool:
        """Say whether there is any live file or tombstone."""
        fields = [field for field in _PRESENCE if field.name in ("add", "remove")]
        return any(
            column.null_count < len(column) for rows in self._read_batches(fields, _BATCH_ROWS) for column in rows
        )

    def has_add_column(self, *path: str) -> bool:
        """Say whether ``add`` has a column."""
        inside: Any = self._schema
        for name in ("add", *path):
            if not isinstance(inside, (pa.Schema, pa.StructType)) or inside.get_field_index(name) < 0:
                return False
            child = inside.field(name)
            inside = child.type
        return True

    def _actions(self, action: str, columns: Sequence[Field]) -> pa.Table:
        fields = [Field(action, Struct(tuple(columns)))]
        batches = [_present(rows[0]) for rows in self._read_batches(fields, _BATCH_ROWS)]
        chunks = [_without_empty_vectors(columns_of(batch)) for batch in batches]
        schema = arrow_schema(Struct(tuple(columns)))
        return pa.Table.from_batches(chunks, schema)

    def _read_batches(self, fields: Sequence[Field], batch_rows: int) -> Iterator[list[pa.Array]]:
        """Read top-level columns; a list of arrays for each batch of rows."""
        with self._decoding():
            source = ParquetSource(self._log.storage.open(self.path, self.size))
            try:
                projection = plan_projection(fields, source.schema, by_id=False)
                groups = source.row_groups(0, _TO_THE_END)
                for batch in source.batches(groups, projection.leaves, batch_rows, threads=True):
                    # Parquet files may hold text that is not UTF-8; what comes after relies on it.
                    batch.batch.validate(full=True)
                    yield projection.apply(batch.batch, batch.rows)
            finally:
                source.close()

    @cached_property
    def _schema(self) -> pa.Schema:
        with self._decoding():
            source = ParquetSource(self._log.storage.open(self.path, self.size))
            try:
                return source.schema
            finally:
                source.close()

    @contextlib.contextmanager
    def _decoding(self) -> Iterator[None]:
        """Say of whatever goes wrong inside that the checkpoint is at fault."""
        try:
            yield
        except ObjectNotFoundError as error:
            raise self._corrupt(_MISSING) from error
        except StorageError:
            raise
        except (pa.ArrowException, OSError, UnicodeDecodeError, SchemaError, CorruptDataFileError) as error:
            first_line = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise self._corrupt(f"the checkpoint cannot be decoded: {first_line}") from error

    def _corrupt(self, message: str) -> CorruptCheckpointError:
        return CorruptCheckpointError(message, table=str(self._log.root), file=self.path)


def _present(actions: pa.StructArray) -> pa.StructArray:
    """Take the rows that hold the action; where they are neighbours, which is the rule, without a copy."""
    if not actions.null_count:
        return actions
    valid = actions.is_valid()
    first = valid.index(True).as_py()
    count = len(actions) - actions.null_count
    if first < 0:
        return actions.slice(0, 0)
    run = actions.slice(first, count)
    return run if not run.null_count else actions.filter(valid)


def _without_empty_vectors(actions: pa.RecordBatch) -> pa.RecordBatch:
    """Make descriptors of nothing null: some writers give a struct of nulls where there is no deletion vector."""
    vectors = actions.column("deletionVector")
    if vectors.null_count == len(vectors):
        return actions
    storage, path = vectors.field("storageType"), vectors.field("pathOrInlineDv")
    empty = pc.and_(vectors.is_valid(), pc.and_(storage.is_null(), path.is_null()))
    if not pc.any(empty).as_py():
        return actions
    index = actions.schema.get_field_index("deletionVector")
    kept = pc.if_else(empty, pa.scalar(None, vectors.type), vectors)
    return actions.set_column(index, actions.schema.field(index), kept)


class Checkpoint:
    """A checkpoint of a version.

    Raises
    ------
    CorruptCheckpointError
        By any of its members, where the checkpoint is damaged, incomplete or not what its kind allows.
    """

    def __init__(self, log: LogDirectory, entries: Sequence[LogEntry]) -> None:
        self._log = log
        self._entries = entries
        self.version = entries[0].file.version
        self._kind = entries[0].file.kind
        self._is_json = entries[0].file.name.endswith(".json")

    @property
    def names(self) -> frozenset[str]:
        """The names of its files."""
        return frozenset(entry.file.name for entry in self._entries)

    @cached_property
    def table_actions(self) -> TableActions:
        """The actions about the table."""
        found = self._own_actions
        for name, required in (("txn", ("appId", "version")), ("domainMetadata", ("domain", "configuration"))):
            if any(action.get(field) is None for action in found.get(name, []) for field in required):
                raise self._corrupt(f"a {name} action lacks one of the fields {', '.join(required)}")
        try:
            protocol = read_protocol(found["protocol"][-1]) if "protocol" in found else None
            metadata = read_metadata(found["metaData"][-1]) if "metaData" in found else None
        except CorruptLogError as error:
            raise self._corrupt(error.message) from error
        domains = found.get("domainMetadata", [])
        return TableActions(
            protocol,
            metadata,
            transactions={
                txn["appId"]: Transaction(txn["appId"], txn["version"], txn.get("lastUpdated"))
                for txn in found.get("txn", [])
            },
            domains={domain["domain"]: domain["configuration"] for domain in domains if not domain.get("removed")},
        )

    @cached_property
    def file_parts(self) -> list[CheckpointPart]:
        """The Parquet files that hold file actions; a sidecar that is named twice holds them once."""
        sidecars = self._own_actions.get("sidecar", [])
        if not sidecars:
            return [] if self._is_json else self._main_parts
        resolver = PathResolver(self._log.root.join(f"_delta_log/{SIDECAR_DIRECTORY}"))
        sizes = {resolver.resolve(sidecar["path"]).path: sidecar.get("sizeInBytes") for sidecar in sidecars}
        return [CheckpointPart(self._log, path, size) for path, size in sizes.items()]

    @cached_property
    def inline_files(self) -> kernels.Replay | None:
        """The file actions that a JSON checkpoint holds itself."""
        return self._json_content[0] if self._is_json else None

    @property
    def recorded_version(self) -> int | None:
        """The version that a checkpoint of the V2 specification says it is of; None where it follows V1."""
        marks = self._own_actions.get("checkpointMetadata")
        return marks[0].get("version") if marks else None

    def crowded_rows(self) -> int:
        """Count the rows, or lines of JSON, that hold more than one action; each must be one."""
        if self._is_json:
            return sum(
                len(json.loads(line)) > 1 for line in self._log.read(self._entries[0]).split(b"\n") if line.strip()
            )
        sidecars = [part for part in self.file_parts if part not in self._main_parts]
        return sum(part.crowded_rows() for part in [*self._main_parts, *sidecars])

    def check(self) -> None:
        """Refuse a checkpoint whose actions are incomplete, or contradict each other."""
        found = self._own_actions
        _ = self.table_actions
        marks = len(found.get("checkpointMetadata", []))
        sidecars = len(found.get("sidecar", []))
        if self._kind == "uuid" and marks != 1:
            raise self._corrupt(f"a checkpoint named by UUID must hold one checkpointMetadata, it holds {marks}")
        if marks > 1:
            raise self._corrupt(f"the checkpoint holds {marks} checkpointMetadata actions")
        if self._kind == "multipart" and (marks or sidecars):
            raise self._corrupt("a checkpoint in parts cannot follow the V2 specification")
        if sidecars and not marks:
            raise self._corrupt("the checkpoint names sidecars without checkpointMetadata")
        if sidecars and self._has_own_files():
            raise self._corrupt("the checkpoint holds file actions both itself and in sidecars")

    def _has_own_files(self) -> bool:
        if self._is_json:
            replay, _ = self._json_content
            return bool(replay.adds.num_rows or replay.removes.num_rows)
        return any(part.has_files() for part in self._main_parts)

    @cached_property
    def _main_parts(self) -> list[CheckpointPart]:
        return [CheckpointPart(self._log, entry.meta.path, entry.meta.size) for entry in self._entries]

    @cached_property
    def _json_content(self) -> tuple[kernels.Replay, list[tuple[str, dict[str, Any]]]]:
        """What a JSON checkpoint holds: the replay of its actions, and the actions that only checkpoints have."""
        try:
            data = self._log.read(self._entries[0])
            replay = kernels.replay([(self.version, data)])
        except ObjectNotFoundError as error:
            raise self._corrupt(_MISSING) from error
        except CorruptLogError as error:
            raise self._corrupt(error.message, line=error.context.get("line")) from error
        # The replay has checked every line.
        lines = (line for line in data.split(b"\n") if b'"sidecar"' in line or b'"checkpointMetadata"' in line)
        members = (member for line in lines for member in json.loads(line).items())
        own = [(name, fields) for name, fields in members if name in _OF_CHECKPOINTS and isinstance(fields, dict)]
        return replay, own

    @cached_property
    def _own_actions(self) -> dict[str, list[dict[str, Any]]]:
        """The actions in the checkpoint's own files that are not about files, by name."""
        found: dict[str, list[dict[str, Any]]] = {}
        pairs = self._json_actions() if self._is_json else self._parquet_actions()
        for name, fields in pairs:
            found.setdefault(name, []).append(fields)
        for action in found.get("sidecar", []):
            if not isinstance(action.get("path"), str):
                raise self._corrupt("a sidecar action has no path")
        return found

    def _parquet_actions(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for part in self._main_parts:
            yield from part.table_actions()

    def _json_actions(self) -> Iterator[tuple[str, dict[str, Any]]]:
        replay, own = self._json_content
        for name, text in (("protocol", replay.protocol), ("metaData", replay.metadata)):
            if text is not None:
                yield name, json.loads(text[1])
        for row in replay.transactions.to_pylist():
            yield "txn", row
        for row in replay.domains.to_pylist():
            yield "domainMetadata", row
        yield from own

    def _corrupt(self, message: str, **context: Any) -> CorruptCheckpointError:
        name = self._entries[0].file.name
        return CorruptCheckpointError(message, table=str(self._log.root), file=name, **context)
