"""The operations of every catalog, and how its tables are opened."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from deltaberg.catalogs.arguments import as_order, as_schema, as_spec
from deltaberg.catalogs.names import Identifier, Levels, identifier_levels, namespace_levels
from deltaberg.catalogs.places import check_at_its_place, full_location, loaded_table, place_of
from deltaberg.catalogs.swap_commit import SwapCommitter
from deltaberg.errors import (
    DeltabergError,
    InvalidArgumentError,
    StorageError,
    TableNotFoundError,
    UnsupportedFeatureError,
    in_context,
)
from deltaberg.hints import shown_value
from deltaberg.iceberg.create.create import checked_metadata
from deltaberg.iceberg.location.committer import Committer
from deltaberg.iceberg.location.loaded import LoadedTable, load_file, load_newest
from deltaberg.iceberg.location.pointer import TablePointer
from deltaberg.iceberg.operations import IcebergOperations
from deltaberg.iceberg.table import IcebergTable, open_iceberg_table
from deltaberg.iceberg.table_transaction import IcebergTransaction
from deltaberg.iceberg.transaction.transaction import Transaction
from deltaberg.iceberg.updates.new_table import given_properties
from deltaberg.signatures import public, takes
from deltaberg.storage.location import Location, LocationMap
from deltaberg.storage.stores import StoreSpec
from deltaberg.table.arguments import checked_properties, checked_text, checked_texts
from deltaberg.table.commit.commit import CommitPolicy
from deltaberg.table.maintain.cleanup import DropRequest
from deltaberg.table.open.opening import OpenOptions
from deltaberg.table.verbs.shared_arguments import SnapshotArguments

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from typing_extensions import Unpack

    from deltaberg.catalogs.rest.rest_transaction import SeveralTables
    from deltaberg.table.maintain.cleanup import CleanupResult

__all__ = [
    "Catalog",
    "LocatedPointer",
    "checked_changes",
    "default_location",
    "table_pointer",
]


@public
class Catalog(ABC):
    """A catalog, which knows tables by name. `load_catalog` returns one."""

    #: The name of the catalog, for messages.
    name: str
    #: Why this kind of catalog cannot do something, and what can be done instead.
    _refusal = "this type of catalog has no such operation"

    @abstractmethod
    def _pointer(self, levels: Levels, location_map: LocationMap | str | None) -> TablePointer:
        """Return a pointer, which finds the newest metadata of a table."""

    @takes(SnapshotArguments)
    def load_table(self, identifier: Identifier, **state: Unpack[SnapshotArguments]) -> IcebergTable:
        """Open a table.

        Parameters
        ----------
        identifier
            The namespace and the name: ``"sales.eu.orders"`` or ``("sales", "eu", "orders")``.
        **state
            ``snapshot_id``, ``ref``, ``timestamp``, ``location_map``, ``validate`` and ``timezone``, as for
            `IcebergTable`.

        Raises
        ------
        TableNotFoundError
            If the catalog has no such table.
        """
        levels = identifier_levels(identifier)
        with in_context(table=".".join(levels), catalog=self.name):
            options = OpenOptions.of(state)
            return open_iceberg_table(self._pointer(levels, options.location_map), options)

    @abstractmethod
    def list_namespaces(self, namespace: Identifier = ()) -> list[Levels]:
        """List the namespaces directly below one, sorted by name; by default, those at the top.

        Raises
        ------
        NamespaceNotFoundError
            If there is no such namespace.
        """

    @abstractmethod
    def list_tables(self, namespace: Identifier) -> list[Levels]:
        """List the tables directly in a namespace, sorted by name, without views.

        Raises
        ------
        NamespaceNotFoundError
            If there is no such namespace.
        """

    @abstractmethod
    def table_exists(self, identifier: Identifier) -> bool:
        """Return whether there is a table of this name."""

    def _default_location(self, identifier: Identifier) -> str:
        """Return what `default_location` does."""
        raise self._refused(f"the table {'.'.join(identifier_levels(identifier))} cannot be created")

    def _place_of_new(self, identifier: Identifier) -> tuple[TablePointer, str]:
        """Return the place of a table that does not exist yet, as clones ask for it (`NamesTables`)."""
        return table_pointer(self, identifier), default_location(self, identifier)

    def create_table(
        self,
        identifier: Identifier,
        schema: Any,
        location: str | None = None,
        partition_spec: Any = None,
        sort_order: Any = None,
        properties: Mapping[str, Any] | None = None,
    ) -> IcebergTable:
        """Create a table without rows, and open it.

        Parameters
        ----------
        identifier
            The namespace, which has to exist, and the name.
        schema
            The columns: an Arrow schema, a schema of pyiceberg, or anything else that `deltaberg.create_table` takes.
            They get new field ids.
        location
            Where its files will be; by default, a directory of its namespace. Where another table has its metadata or
            its log in it, a SQL catalog refuses the location, or adds an id to that directory.
        partition_spec, sort_order
            As objects of pyiceberg. They name their columns by the ids in ``schema``; the columns of an Arrow schema
            count from 1, and all of them come before the fields inside them.
        properties
            Table properties. ``format-version`` is 1, 2 or 3, and by default 2.

        Raises
        ------
        TableExistsError
            If there is a table of this name.
        NamespaceNotFoundError
            If there is no such namespace.
        SchemaError, InvalidArgumentError
            If the table is not valid.
        """
        levels = identifier_levels(identifier)
        staged = self.create_table_transaction(levels, schema, location, partition_spec, sort_order, properties)
        with staged, in_context(table=".".join(levels), catalog=self.name):
            staged.commit()
        return self._opened(levels, "the table was created")

    def _opened(self, levels: Levels, done: str) -> IcebergTable:
        """Open a table after a change of the catalog, of which a failure must not be taken for one of the change."""
        try:
            return self.load_table(levels)
        except DeltabergError as error:
            raise StorageError(
                f"{done}, but cannot be opened: {error.message}",
                hint="open it again later; do not repeat the operation",
                **error.context,
            ) from error

    def create_table_transaction(
        self,
        identifier: Identifier,
        schema: Any,
        location: str | None = None,
        partition_spec: Any = None,
        sort_order: Any = None,
        properties: Mapping[str, Any] | None = None,
    ) -> IcebergTransaction:
        """Stage a table, which is there for others once the transaction commits, with the rows that it has by then.

        The parameters are those of `create_table`, and so are the exceptions besides those of a commit. As a context
        manager the transaction commits at the end; after an exception there is no table.
        """
        levels = identifier_levels(identifier)
        with in_context(table=".".join(levels), catalog=self.name):
            version, kept = given_properties(properties)
            layout = (as_schema(schema, version), as_spec(partition_spec), as_order(sort_order))
            raw = checked_metadata(*layout, self._location(levels, location), version, kept)
            committer = self._pointer(levels, None).committer()
            return IcebergTransaction(IcebergOperations(Transaction(committer.stage(raw), committer, creates=True)))

    def transaction(self, *, policy: CommitPolicy | None = None) -> SeveralTables:
        """Begin a transaction of several tables, whose changes become visible together, or not at all.

        The result is a context manager, which commits at the end. Its method ``table(identifier)`` returns a
        transaction of one table, as `IcebergTable.transaction` does. Only some servers of the type ``rest`` have such
        transactions.

        Parameters
        ----------
        policy
            How long the commit is tried; by default, as the properties of the first table say.

        Raises
        ------
        UnsupportedFeatureError
            If the catalog has no such transactions.
        """
        raise UnsupportedFeatureError(
            "this type of catalog has no transactions of several tables",
            hint="commit to one table after the other",
            catalog=self.name,
        )

    def _location(self, levels: Levels, given: str | None) -> str:
        """Return where a new table goes."""
        if given is None:
            return self._default_location(levels)
        return full_location(checked_text("location", given, hint="pass a path or a URL"))

    def drop_table(
        self,
        identifier: Identifier,
        *,
        purge: bool = False,
        dry_run: bool = False,
        locations: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] | None = None,
        on_spark: SparkSession | None = None,
    ) -> CleanupResult | None:
        """Remove a table from the catalog. Its files stay, unless they are to be purged.

        In a catalog of directories, the directory is the table, which can only be purged.

        A purge deletes the data files, delete files, statistics and metadata that the table names, where they are in
        its own directories. Other files of these directories, and tables below them, stay.

        Parameters
        ----------
        identifier
            The table.
        purge
            Also delete its files. A REST catalog is asked to do that.
        dry_run
            Only find the files that a purge would delete, or raise what it would raise before it changes anything.
        locations
            Directories out of its location that are its alone, such as its ``write.data.path``: files that it names
            there go as well.
        on_spark
            A session whose tasks delete files where at least 10,000 go.

        Returns
        -------
        CleanupResult or None
            The files that were deleted here, or would be. None without a purge, and where the catalog deletes them.

        Raises
        ------
        TableNotFoundError
            If the catalog has no such table.
        InvalidArgumentError
            If its files are to be purged, and may be those of others: the property ``gc.enabled`` is false, or another
            table has the same directory; or a directory of ``locations`` is not one of the table. The table was not
            dropped.
        CommitConflictError
            If another writer changes a table of a catalog of directories meanwhile. It was not dropped.
        UnsupportedFeatureError
            If a catalog of directories is asked to leave the files, or a REST catalog how to delete them.
        """
        levels = identifier_levels(identifier)
        return self._drop(levels, DropRequest(purge, dry_run, locations, on_spark))

    def _drop(self, levels: Levels, asked: DropRequest) -> CleanupResult | None:
        """Do what `drop_table` does."""
        raise self._refused(f"the table {'.'.join(levels)} cannot be dropped")

    def _check_exists(self, levels: Levels) -> None:
        """Refuse a table that the catalog does not have, without asking for its metadata, which may be lost."""
        if not self.table_exists(levels):
            raise self._no_table(levels)

    def _no_table(self, levels: Levels) -> TableNotFoundError:
        return TableNotFoundError("the catalog has no such table", table=".".join(levels), catalog=self.name)

    def rename_table(self, from_identifier: Identifier, to_identifier: Identifier) -> IcebergTable:
        """Rename a table, and return it opened.

        Raises
        ------
        TableNotFoundError
            If the catalog has no such table.
        TableExistsError
            If there is a table of the new name.
        """
        names = [".".join(identifier_levels(name)) for name in (from_identifier, to_identifier)]
        raise self._refused(f"the table {names[0]} cannot be renamed to {names[1]}")

    def register_table(self, identifier: Identifier, metadata_location: str) -> IcebergTable:
        """Enter a table that exists into the catalog, given its newest metadata file, and open it.

        Raises
        ------
        TableExistsError
            If there is a table of this name.
        """
        name = ".".join(identifier_levels(identifier))
        raise self._refused(f"{shown_value(metadata_location)} cannot be registered as the table {name}")

    def create_namespace(self, namespace: Identifier, properties: Mapping[str, str] | None = None) -> None:
        """Create a namespace.

        Raises
        ------
        InvalidArgumentError
            If there is one of this name.
        """
        checked_changes((), properties)
        raise self._refused(f"the namespace {'.'.join(namespace_levels(namespace))} cannot be created")

    def drop_namespace(self, namespace: Identifier) -> None:
        """Remove a namespace that holds nothing.

        Raises
        ------
        NamespaceNotFoundError
            If there is no such namespace.
        ConstraintViolationError
            If it holds tables or other namespaces.
        """
        raise self._refused(f"the namespace {'.'.join(namespace_levels(namespace))} cannot be dropped")

    def load_namespace_properties(self, namespace: Identifier) -> dict[str, str]:
        """Return the properties of a namespace.

        Raises
        ------
        NamespaceNotFoundError
            If there is no such namespace.
        """
        raise self._refused(f"the namespace {'.'.join(namespace_levels(namespace))} has no properties")

    def update_namespace_properties(
        self, namespace: Identifier, removals: Iterable[str] | None = None, updates: Mapping[str, str] | None = None
    ) -> None:
        """Remove properties of a namespace, and set others.

        Raises
        ------
        NamespaceNotFoundError
            If there is no such namespace.
        InvalidArgumentError
            If a property is both to be removed and to be set.
        """
        checked_changes(removals, updates)
        raise self._refused(f"the namespace {'.'.join(namespace_levels(namespace))} has no properties")

    def _refused(self, message: str) -> UnsupportedFeatureError:
        """Return the error of what this kind of catalog cannot do."""
        return UnsupportedFeatureError(message, hint=self._refusal, catalog=self.name)


def table_pointer(catalog: Catalog, identifier: Identifier) -> TablePointer:
    """Return a pointer to a table of a catalog, which need not exist yet."""
    return catalog._pointer(identifier_levels(identifier), None)  # noqa: SLF001 - users of catalogs see no pointers


def default_location(catalog: Catalog, identifier: Identifier) -> str:
    """Return where a new table of a catalog goes whose location nobody chose; empty if the catalog chooses it.

    Raises
    ------
    NamespaceNotFoundError
        If there is no such namespace.
    InvalidArgumentError
        If the catalog has no place for new tables.
    """
    return catalog._default_location(identifier)  # noqa: SLF001 - as above


def place_in_catalog(catalog: Catalog, identifier: Identifier) -> str:
    """Return where a table of a catalog is, or where a new one goes; empty if the catalog chooses it.

    Raises
    ------
    NamespaceNotFoundError
        If there is no such namespace.
    InvalidArgumentError
        If there is no such table, and the catalog has no place for new ones.
    """
    try:
        return default_location(catalog, identifier)
    except InvalidArgumentError as error:
        try:
            return str(table_pointer(catalog, identifier).load().root)
        except TableNotFoundError:
            raise error from None


def checked_changes(
    removals: Iterable[str] | None, updates: Mapping[str, str] | None
) -> tuple[set[str], dict[str, str]]:
    """Return the properties of a namespace to remove and those to set, unless one is in both.

    Raises
    ------
    InvalidArgumentError
        If one is in both, or is not text.
    """
    names = (
        []
        if removals is None
        else checked_texts("removals", removals, "the names of properties", 'pass a list such as ["owner"]')
    )
    gone, new = set(names), checked_properties(updates)
    given: Mapping[Any, Any] = new
    both = sorted(gone & new.keys())
    wrong = [name for name, value in given.items() if not isinstance(name, str) or not isinstance(value, str)]
    if both or wrong:
        name = (both or wrong)[0]
        said = "to be removed and to be set" if both else "not text"
        raise InvalidArgumentError(f"the property {name!r} is {said}")
    return gone, new


@dataclass(frozen=True)
class LocatedPointer:
    """A table of a catalog that only keeps the location of the newest metadata file.

    Parameters
    ----------
    ask
        Returns that location, and raises `TableNotFoundError` where the catalog does not have the table.
    swap
        Replaces the location, or enters the first one, and returns whether that happened.
    check
        Does what `check_unshared` does (`KnowsOthers`).
    store
        What opens the stores of the table.
    location_map
        As for `IcebergTable`.
    """

    ask: Callable[[], str] = field(repr=False)
    swap: Callable[[str | None, str], bool] = field(repr=False)
    check: Callable[[LoadedTable, bool], object] = field(repr=False)
    store: StoreSpec
    location_map: LocationMap | str | None = None

    def load(self, cached: LoadedTable | None = None) -> LoadedTable:
        """Ask the catalog for the metadata file, and read it unless it is the known one."""

        def load(file: Location) -> LoadedTable:
            if cached is not None and cached.file == file:
                return cached
            return loaded_table(load_file(file, self.store), file, self.store, self.location_map)

        return load_newest(lambda: place_of(self.ask(), self.location_map), load)

    def committer(self, *, unsafe_single_writer: bool = False) -> Committer:
        """Return the committer that commits to the table through the catalog.

        Raises
        ------
        InvalidArgumentError
            If the table is read by a location map, which no other reader has.
        """
        check_at_its_place(self.location_map)
        return SwapCommitter(self._find, self.swap, self.store)

    def check_unshared(self, loaded: LoadedTable, *, same_table: bool = False) -> None:
        """Refuse to delete files where the catalog has another table in the same directory (`KnowsOthers`)."""
        self.check(loaded, same_table)

    def _find(self) -> str | None:
        try:
            return self.ask()
        except TableNotFoundError:
            return None
