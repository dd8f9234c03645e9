"""The options of the Data Sources that both formats share: columns and a filter to read, and those of the store."""

from __future__ import annotations

import difflib
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa

from deltaberg.api.place import place_to_write
from deltaberg.errors import InvalidArgumentError
from deltaberg.expressions.build.column import all_of
from deltaberg.expressions.build.filters import as_filter
from deltaberg.expressions.tree.tree import Value
from deltaberg.hints import shown_value
from deltaberg.schema.columns import ColumnName
from deltaberg.spark.source.named_table import NamedTable
from deltaberg.storage.location import parse_location
from deltaberg.storage.options.options import is_store_option
from deltaberg.storage.stores import StoreSpec
from deltaberg.table.arguments import zone_of
from deltaberg.table.commit.commit_options import CommitOptions
from deltaberg.table.open.opening import OpenOptions
from deltaberg.table.read.scan import Scan
from deltaberg.table.read.scan_options import ScanOptions
from deltaberg.table.transaction.write_request import WriteRequest
from deltaberg.table.write.staged import StagedFiles

__all__ = [
    "FEWER_TASKS",
    "IN_CATALOG",
    "NOT_IN_CATALOG",
    "OF_WRITES",
    "ReadOptions",
    "SourceOptions",
    "WriteOptions",
    "in_shared_store",
]

_SHARED = ("path", "paths", "timezone")
#: How a commit is made, and the partitioning of a new table.
_WRITING = ("partitionBy", "txnAppId", "txnVersion", "userMetadata", "branch")
_PROPERTY = "snapshot-property."
#: The option of Iceberg tables that has the path be the name of a table in a catalog, and what to do with Delta tables.
IN_CATALOG = "catalog"
NOT_IN_CATALOG = 'leave it out, and pass the location of the table: catalogs have tables of format("iceberg")'
_READING = ("columns", "filter", "batchSize")
#: The parts between commas, but for those inside of parentheses and backticks.
_PARTS = re.compile(r"(?:`(?:[^`]|``)*`|\([^()]*\)|[^,])+")
_BOOLEANS = {"true": True, "false": False}
#: What Spark's catalog knows of every table, and passes as an option when it creates one.
_OF_CATALOG = "owner"


#: What to do in place of the option that has Spark bring rows together before they are written.
FEWER_TASKS = (
    "Spark lets no Python source move rows between tasks: coalesce or repartition the frame, or use append of a table, "
    "for a stream in foreachBatch"
)


#: Options of writes, in lower case, which a read does not take.
OF_WRITES = dict.fromkeys(
    ("mergeschema", "overwriteschema", "withschemaevolution"),
    "leave it out: a read has the columns of the table as it was then, and only writes change them",
)


class SourceOptions:
    """The options of a read or a write, and the table that they name."""

    #: The name of the format, and the options that it has in addition to the shared ones.
    format: ClassVar[str]
    own: ClassVar[Sequence[str]]
    #: Options that others have, in lower case, and what to do here.
    others: ClassVar[Mapping[str, str]] = {}

    def __init__(self, options: Mapping[str, str]) -> None:
        known = self._known()
        self._options = {name.lower(): value for name, value in options.items() if name.lower() in known}
        self._store = {name: value for name, value in options.items() if name.lower() not in known}

    @classmethod
    def _known(cls) -> dict[str, str]:
        return {name.lower(): name for name in (*_SHARED, *cls.own)}

    def _path(self) -> str:
        """Return the location of the table, once all options are known to exist."""
        if _OF_CATALOG in (name.lower() for name in self._store):
            # Such a table could be created, but every read of it would fail, since the path is passed only here.
            raise InvalidArgumentError(
                f'format("{self.format}") cannot hold a table of Spark\'s catalog',
                hint=f"instead of CREATE TABLE, use {self._path_hint()}; Spark does not pass the LOCATION of a table "
                "to a Python source that reads it",
            )
        path = self._options.get("path")
        if not path:
            raise InvalidArgumentError(
                f'format("{self.format}") needs one path',
                hint=f"use {self._path_hint()}; Spark passes neither the location of a table of its catalog, such as "
                f"saveAsTable and toTable make, nor {self.format}.`/path` to a Python source",
            )
        self._check_names(path)
        return path

    def _named(self) -> NamedTable | None:
        """Return the table of a catalog that the options name; None if they have the location of a table."""
        catalog = self._options.get(IN_CATALOG)
        if catalog is None:
            return None
        name = self._path()
        self._exclude(IN_CATALOG, "location-map")
        for option in self._store:
            raise InvalidArgumentError(
                f"the option {option} cannot be used together with {IN_CATALOG}",
                hint="leave it out; the configuration of the catalog has the options of its store",
            )
        return NamedTable(catalog, name)

    def _path_hint(self) -> str:
        return f"load(path), or CREATE TEMPORARY VIEW ... USING {self.format} OPTIONS (path '...')"

    def _exclude(self, *names: str) -> None:
        given = [name for name in names if name.lower() in self._options]
        if len(given) > 1:
            raise InvalidArgumentError(f"the options {' and '.join(given)} cannot be used together")

    def _check_names(self, path: str) -> None:
        """Refuse unknown options. Stores other than the local disk check their options themselves."""
        if parse_location(path).scheme != "file":
            return
        known = self._known()
        for name in self._store:
            if not is_store_option(name):
                near = difflib.get_close_matches(name.lower(), known, n=1)
                guess = f"did you mean {known[near[0]]}?" if near else f"the options are {', '.join(known.values())}"
                others = {_letters(other): hint for other, hint in self.others.items()}
                hint = others.get(_letters(name), guess)
                raise InvalidArgumentError(f'format("{self.format}") has no option {name}', hint=hint)

    @property
    def _timezone(self) -> str:
        return self._options.get("timezone", "UTC")

    def _integer(self, name: str) -> int:
        text = self._options[name.lower()]
        try:
            return int(text)
        except ValueError:
            raise InvalidArgumentError(f"the option {name} must be an integer, not {shown_value(text)}") from None

    def _flag(self, name: str) -> bool:
        text = self._options.get(name.lower(), "false").strip().lower()
        if text not in _BOOLEANS:
            raise InvalidArgumentError(f"the option {name} must be true or false, not {shown_value(text)}")
        return _BOOLEANS[text]


class WriteOptions(SourceOptions, ABC):
    """The options of a write, and the table that they name."""

    #: The option that has the partitions overwritten that the new rows are in.
    overwrite_mode: ClassVar[str]

    def __init__(self, options: Mapping[str, str]) -> None:
        own = {name: text for name, text in options.items() if not name.lower().startswith(_PROPERTY)}
        super().__init__(own)
        self._said = {name[len(_PROPERTY) :]: text for name, text in options.items() if name not in own}

    @classmethod
    def _known(cls) -> dict[str, str]:
        return super()._known() | {name.lower(): name for name in (*_WRITING, cls.overwrite_mode)}

    def stage(self, columns: pa.Schema, *, overwrite: bool) -> StagedFiles:
        """Plan the write of rows with these columns."""
        # Not every write has times that need it.
        zone_of(self._timezone)
        request = self._request(
            WriteRequest(
                overwrite,
                dynamic=self._chosen(self.overwrite_mode, ("static", "dynamic")) == "dynamic",
                partition_by=self._partition_by(),
                commit=self._commit(),
                timezone=self._timezone,
            )
        )
        self._check_overwrite(overwrite, self.overwrite_mode)
        return self._stage(self._place(), columns, request)

    def store(self) -> StoreSpec:
        """Return what opens the stores of the table."""
        return OpenOptions(storage_options=self._store).store

    def _place(self) -> Any:
        """Return where the table is written; a place that has a table of the other format is refused."""
        return place_to_write(self._path_to_write(), self.format, None, OpenOptions(storage_options=self._store))

    @abstractmethod
    def _request(self, request: WriteRequest) -> WriteRequest:
        """Return a request with what the options of the format ask for in addition."""

    @abstractmethod
    def _stage(self, place: Any, columns: pa.Schema, request: WriteRequest) -> StagedFiles:
        """Plan the write at a place."""

    def _commit(self) -> CommitOptions:
        """Return how the commit is made; what the format does not have is refused by whoever makes it."""
        name = self._options.get("txnappid")
        if (name is None) != ("txnversion" not in self._options):
            raise InvalidArgumentError("the options txnAppId and txnVersion need each other")
        return CommitOptions(
            txn=None if name is None else (name, self._integer("txnVersion")),
            user_metadata=self._options.get("usermetadata"),
            properties=self._said or None,
            branch=self._options.get("branch"),
        )

    def _path_hint(self) -> str:
        return "save(path), or start(path) for a stream"

    def _path_to_write(self) -> str:
        return in_shared_store(self._path())

    def _chosen(self, name: str, choices: Sequence[str], hint: str | None = None) -> str | None:
        """Return the value of an option that is one of some words; None without it."""
        text = self._options.get(name.lower())
        if text is None:
            return None
        if text.strip().lower() not in choices:
            raise InvalidArgumentError(
                f"the option {name} must be {' or '.join(choices)}, not {shown_value(text)}", hint=hint
            )
        return text.strip().lower()

    def _partition_by(self) -> tuple[str, ...] | None:
        text = self._options.get("partitionby")
        if text is None:
            return None
        if not text.lstrip().startswith("["):
            return tuple(name.strip() for name in _PARTS.findall(text) if name.strip())
        try:
            names = json.loads(text)
        except (ValueError, RecursionError):
            names = None
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise InvalidArgumentError(f"the option partitionBy must be a JSON list of names, not {shown_value(text)}")
        return tuple(names)

    def _check_overwrite(self, overwrite: bool, *names: str) -> None:
        """Refuse options that have a meaning for overwrites only."""
        for name in () if overwrite else names:
            if name.lower() in self._options:
                raise InvalidArgumentError(
                    f"the option {name} applies only to overwrites",
                    hint='use mode("overwrite"), or for a stream outputMode("complete")',
                )


class ReadOptions(SourceOptions, ABC):
    """The options of a read, and the table that they name.

    Spark asks for the schema, the plan and the rows in three processes, all of which must see the same state of the
    table. The options are pickled with the reader and carry the state that was found first; the open table is not
    pickled.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(options)
        self._table: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_table": None}

    @classmethod
    def _known(cls) -> dict[str, str]:
        return super()._known() | {name.lower(): name for name in _READING}

    @abstractmethod
    def scan(self, pushed: Value | None = None) -> Scan:
        """Return the scan that the options and a pushed filter describe."""

    def _scan_options(self) -> ScanOptions:
        if "batchsize" in self._options:
            return ScanOptions(batch_size=self._integer("batchSize"), timezone=self._timezone)
        return ScanOptions(timezone=self._timezone)

    def _columns(self) -> Sequence[ColumnName] | None:
        text = self._options.get("columns")
        if text is None:
            return None
        names = _json_names(text) if text.lstrip().startswith("[") else [name.strip() for name in text.split(",")]
        if not all(names):
            raise InvalidArgumentError(f"the option columns must be names separated by commas, not {shown_value(text)}")
        return names

    def _condition(self, pushed: Value | None) -> Value | None:
        parts = [] if pushed is None else [pushed]
        if "filter" in self._options:
            parts.append(as_filter(self._options["filter"]))
        return all_of(parts) if parts else None


def _json_names(text: str) -> list[ColumnName]:
    try:
        names = json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidArgumentError(f"the option columns must be a JSON list, not {shown_value(text)}") from None
    if not names:
        raise InvalidArgumentError("the option columns names no column", hint="Spark cannot count rows without columns")
    return [tuple(map(str, name)) if isinstance(name, list) else str(name) for name in names]


def _letters(name: str) -> str:
    """Return what names of options have in common that only hyphens, underscores and capitals tell apart."""
    return name.lower().replace("-", "").replace("_", "")


def in_shared_store(location: str) -> str:
    """Return the location of a table that the processes of Spark share.

    Raises
    ------
    InvalidArgumentError
        The table is in the memory of one process.
    """
    if location and parse_location(location).scheme == "memory":
        raise InvalidArgumentError(
            "a table in memory exists only in one process", hint="write where the executors can write", table=location
        )
    return location
