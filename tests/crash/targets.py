"""Where an operation of the harness happens: a directory of one of the formats, or a catalog."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

import deltaberg
from deltaberg.delta.features import DROPPED
from deltaberg.errors import StorageError, TableNotFoundError, UnsupportedFeatureError
from tests.support.postgres import keep_rows, put_rows

__all__ = ["CATALOGS", "KINDS", "Target"]

#: Iceberg tables of catalogs. The database of the catalog is beside the table, or a server of PostgreSQL.
CATALOGS = ("sqlite", "rest", "postgres")
#: A directory of each format, and catalogs.
KINDS = ("delta", "iceberg", *CATALOGS)
#: The table in its catalog, and another one that some operations change with it.
_NAMESPACE, _NAME = "db", "t"


@dataclass
class Target:
    """The table of an operation.

    Parameters
    ----------
    location
        The directory of the table. In a catalog, the table is somewhere below it.
    options
        What the store needs, or the REST catalog.
    kind
        One of `KINDS`.
    uri
        Where the REST catalog or PostgreSQL listens.
    name
        The name of the table in its catalog.
    """

    location: str
    options: Mapping[str, str] = field(default_factory=dict)
    kind: str = "delta"
    uri: str = ""
    name: str = _NAME

    @property
    def database(self) -> str:
        """The address of the database of a catalog."""
        return self.uri if self.kind == "postgres" else f"sqlite:///{self.location}/catalog.db"

    @cached_property
    def catalog(self) -> Any:
        """The catalog."""
        if self.kind == "rest":
            return deltaberg.load_catalog("shop", type="rest", uri=self.uri, **self.options)
        return deltaberg.load_catalog("shop", type="sql", uri=self.database, warehouse=self.location)

    @property
    def _place(self) -> tuple[Any, dict[str, Any]]:
        if self.kind in ("delta", "iceberg"):
            return self.location, {"format": self.kind, "storage_options": dict(self.options)}
        return (_NAMESPACE, self.name), {"catalog": self.catalog}

    def prepare(self) -> None:
        """Make the namespace of a table that is to be created."""
        if self.kind in CATALOGS:
            deltaberg.load_catalog("shop", type="sql", uri=self.database).create_namespace(_NAMESPACE)

    def create(self, columns: pa.Schema, **more: Any) -> Any:
        """Create the table without rows."""
        name, place = self._place
        return deltaberg.create_table(name, columns, **place, **more)

    def clone(self, source: Any) -> Any:
        """Make the table a clone of an Iceberg table."""
        if self.kind == "iceberg":
            return source.clone(self.location, storage_options=dict(self.options))
        return source.clone((_NAMESPACE, self.name), catalog=self.catalog)

    def write(self, rows: pa.Table, **more: Any) -> Any:
        """Write rows, and create the table if there is none."""
        name, place = self._place
        return deltaberg.write_table(name, rows, **place, **more)

    def open(self, **moment: Any) -> Any:
        """Open the table anew.

        Raises
        ------
        TableNotFoundError
            If there is none.
        """
        if self.kind in CATALOGS:
            return self.catalog.load_table((_NAMESPACE, self.name), **moment)
        if self.kind == "delta":
            return deltaberg.DeltaTable(self.location, storage_options=dict(self.options), **moment)
        return deltaberg.open_table(self.location, "iceberg", storage_options=dict(self.options), **moment)

    @property
    def other(self) -> Target:
        """The other table of the catalog."""
        return replace(self, name=f"{self.name}_other")

    def transaction(self) -> Any:
        """Begin a transaction of several tables, and return it with those of the table and the other one."""
        several = self.catalog.transaction()
        one, other = (several.table((_NAMESPACE, name)) for name in (self.name, self.other.name))
        return several, one, other

    def drop(self) -> None:
        """Drop the table from its catalog; if its directory is the table, with its files."""
        if self.kind == "iceberg":
            warehouse, _, name = self.location.rpartition("/")
            catalog = deltaberg.load_catalog("shop", type="hadoop", warehouse=warehouse, **self.options)
            done = catalog.drop_table((name,), purge=True)
            if done is None or not done.is_complete:
                raise StorageError(f"files stay: {done and done.warnings}")
            return
        if self.kind == "delta":
            done = deltaberg.drop_table(self.location, purge=True, storage_options=dict(self.options))
            if done is None or not done.is_complete:
                raise StorageError(f"files stay: {done and dict(done.failed)}")
            return
        self.catalog.drop_table((_NAMESPACE, self.name))

    def rename(self) -> None:
        """Rename the table to the name of the other one."""
        self.catalog.rename_table((_NAMESPACE, self.name), (_NAMESPACE, self.other.name))

    def register(self) -> None:
        """Enter the table into its catalog a second time, under the name of the other one."""
        self.catalog.register_table((_NAMESPACE, self.other.name), self.table.metadata_location)

    @property
    def current(self) -> Target:
        """The table under the name that it has now; once it was dropped, by its newest metadata file, which stays."""
        if self.kind not in CATALOGS:
            return self
        found = next((one for one in (self, self.other) if one.newest() is not None), None)
        if found is not None:
            return found
        files = sorted(Path(self.location).rglob("*.metadata.json"), key=lambda file: file.name)
        return replace(self, location=str(files[-1]), kind="iceberg") if files else self

    def newest(self) -> Any | None:
        """Open the table anew, if there is one."""
        try:
            return self.open()
        except TableNotFoundError:
            return None
        except UnsupportedFeatureError as error:
            # Nobody can read or write a table whose drop has begun.
            if error.context.get("feature") != DROPPED:
                raise
            return None

    def find_commit(self, token: str) -> Any:
        """Ask what became of a commit; None if there is no such commit, or no table."""
        name, place = self._place
        try:
            return deltaberg.find_commit(name, token, **{key: place[key] for key in place if key != "format"})
        except TableNotFoundError:
            return None

    def keep(self, copy: Path) -> None:
        """Keep what the catalog says in files beside a copy of its directory, if it is in no file of the directory."""
        if self.kind == "postgres":
            keep_rows(self.uri, copy.with_suffix(".rows"))

    def put_back(self, copy: Path | None) -> None:
        """Let the catalog say what was kept with a copy, or nothing."""
        if self.kind == "postgres":
            put_rows(self.uri, None if copy is None else copy.with_suffix(".rows"))

    @cached_property
    def table(self) -> Any:
        """The table, open."""
        return self.open()
