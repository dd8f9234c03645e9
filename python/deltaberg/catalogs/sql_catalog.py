"""Tables in a SQL database, with the schema of Java's JdbcCatalog and pyiceberg's SqlCatalog."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from deltaberg.catalogs.base import Catalog, LocatedPointer, checked_changes
from deltaberg.catalogs.names import Identifier, Levels, identifier_levels, namespace_levels
from deltaberg.catalogs.outcome import NotCarriedOutError, UnsettledError, carried_out, unsettled
from deltaberg.catalogs.places import full_location, place_of
from deltaberg.catalogs.sql.shared_files import SharedFiles
from deltaberg.catalogs.sql.sql_engine import Failure, failure_of, is_missing, open_engine, without_secrets
from deltaberg.catalogs.sql.sql_layout import NAMESPACES, TABLES, make_layout
from deltaberg.errors import (
    CommitConflictError,
    ConstraintViolationError,
    CorruptMetadataError,
    InvalidArgumentError,
    NamespaceNotFoundError,
    StorageError,
    TableExistsError,
    TableNotFoundError,
)
from deltaberg.iceberg.location.loaded import LoadedTable, load_file
from deltaberg.iceberg.location.pointer import TablePointer
from deltaberg.iceberg.table import IcebergTable
from deltaberg.signatures import public
from deltaberg.storage.location import LocationMap
from deltaberg.storage.options.options import StoreOptions
from deltaberg.storage.stores import StoreSpec
from deltaberg.table.arguments import checked_text
from deltaberg.table.open.tables_there import tables_at

if TYPE_CHECKING:
    from deltaberg.table.maintain.cleanup import CleanupResult, DropRequest

__all__ = ["SqlCatalog"]


class _RolledBackError(UnsettledError):
    """The connection broke before the commit, so that nothing was changed. A swap is sent again all the same."""


class _ViolatedError(NotCarriedOutError):
    """A row violates a constraint: mostly, a row of the same key is there. Nothing was changed."""


@public
class SqlCatalog(Catalog):
    """The tables that a database has under the name of a catalog.

    Parameters
    ----------
    name
        The name of the catalog, which is in its rows: one database can hold several catalogs.
    engine
        Connects to the database.
    storage_options
        The options of the stores that hold the tables.
    warehouse
        The directory of new tables.
    """

    def __init__(
        self, name: str, engine: sa.Engine, storage_options: StoreOptions | None = None, warehouse: str | None = None
    ) -> None:
        self.name = name
        self._warehouse = warehouse
        self._engine = engine
        self._store = StoreSpec(dict(storage_options or {}))
        self._shared_files = SharedFiles(self._store)

    def __reduce__(self) -> tuple[Callable[..., SqlCatalog], tuple[Any, ...]]:
        # Tables travel to the processes of Spark with what finds them; connections stay behind.
        url = self._engine.url
        if url.get_backend_name() == "sqlite":
            if url.database in (None, "", ":memory:"):
                raise InvalidArgumentError(
                    "the database of the catalog is in the memory of this process, where no other process finds it",
                    hint="keep the catalog in a file: sqlite:////path/to/catalog.db",
                )
            if not url.database.startswith("file:"):
                url = url.set(database=str(Path(url.database).absolute()))
        address = url.render_as_string(hide_password=False)
        return _reopened, (self.name, address, self._store.options, self._warehouse)

    def __repr__(self) -> str:
        # Parameters after the question mark can be secret too, and each driver has its own names for them.
        shown = self._engine.url.set(query={}).render_as_string(hide_password=True)
        return f"SqlCatalog({self.name!r}, uri={shown!r})"

    def list_namespaces(self, namespace: Identifier = ()) -> list[Levels]:
        """List the namespaces directly below one that have tables or properties."""
        levels = namespace_levels(namespace)
        found = self._namespaces_below(levels)
        return sorted({one[: len(levels) + 1] for one in found if len(one) > len(levels)})

    def list_tables(self, namespace: Identifier) -> list[Levels]:
        """List the tables of a namespace."""
        levels = namespace_levels(namespace)
        with self._connection() as connection:
            tables, condition = self._tables(connection)
            condition &= tables.c.table_namespace == ".".join(levels)
            names = connection.execute(sa.select(tables.c.table_name).where(condition)).scalars().all()
        if not names:
            self._namespaces_below(levels)
        return sorted((*levels, name) for name in names)

    def table_exists(self, identifier: Identifier) -> bool:
        """Return whether the database has the table."""
        return bool(self._rows(identifier_levels(identifier)))

    def _pointer(self, levels: Levels, location_map: LocationMap | str | None) -> TablePointer:
        return LocatedPointer(
            partial(self._metadata_location, levels),
            partial(self._swap, levels),
            partial(self._check_unshared, levels),
            self._store,
            location_map,
        )

    def _default_location(self, identifier: Identifier) -> str:
        """Return the directory of a new table: in that of its namespace, or else in the warehouse.

        It has the name of the table, and an id as well if a table is there: one that was renamed, or dropped without
        its files.
        """
        levels = identifier_levels(identifier)
        above = self.load_namespace_properties(levels[:-1]).get("location")
        if above is None and self._warehouse is None:
            raise InvalidArgumentError(
                "the catalog has no directory for new tables",
                hint="pass the location of the table, or load the catalog with the property warehouse",
                catalog=self.name,
            )
        above = above or "/".join((str(self._warehouse).rstrip("/"), *levels[:-1]))
        location = full_location(f"{above.rstrip('/')}/{levels[-1]}")
        # What is there may be this table, whose own location counts then.
        is_taken = not self.table_exists(identifier) and tables_at(place_of(location, None), self._store)
        return f"{location}-{uuid.uuid4().hex}" if is_taken else location

    def _drop(self, levels: Levels, asked: DropRequest) -> CleanupResult | None:
        purging = loaded = None
        if asked.purge:
            from deltaberg.iceberg.maintain.cleaning.purged_table import TablePurge

            loaded = self._pointer(levels, None).load()
            self._check_unshared(levels, loaded)
            purging = TablePurge(loaded, asked)
            purging.find()
        if asked.dry_run:
            self._check_exists(levels)
            return None if purging is None else purging.planned()
        tables, condition = self._row(levels)
        if not self._settled(lambda: not self._rows(levels), sa.delete(tables).where(condition)):
            raise self._no_table(levels)
        return None if purging is None or loaded is None else purging.run(partial(self._check_unshared, None, loaded))

    def _check_unshared(self, but: Levels | None, loaded: LoadedTable, same_table: bool = False) -> None:
        """Refuse to delete the files of a table that the database knows, but for one name.

        Raises
        ------
        InvalidArgumentError
            Another name, of this catalog or another one in the database, leads to them (`SharedFiles.check`).
        """
        own = None if but is None else (self.name, ".".join(but[:-1]), but[-1])
        with self._connection() as connection:
            tables, _ = self._tables(connection)
            names = (tables.c.catalog_name, tables.c.table_namespace, tables.c.table_name)
            rows = connection.execute(sa.select(*names, tables.c.metadata_location)).all()
        others = (
            (f"{'.'.join(name[1:])} of the catalog {name[0]}", file)
            for *name, file in rows
            if isinstance(file, str) and file and tuple(name) != own
        )
        self._shared_files.check(loaded, others, same_table=same_table)

    def rename_table(self, from_identifier: Identifier, to_identifier: Identifier) -> IcebergTable:
        """Rename a table, and return it opened."""
        old, new = identifier_levels(from_identifier), identifier_levels(to_identifier)
        self._namespaces_below(new[:-1])
        tables, condition = self._row(old)
        names = {"table_namespace": ".".join(new[:-1]), "table_name": new[-1]}
        known = self._rows(old)
        changed = self._settled(
            lambda: bool(known) and self._rows(new) == known and not self._rows(old),
            sa.update(tables).where(condition).values(**names),
        )
        if changed is None:
            raise self._is_taken(new)
        if not changed:
            raise self._no_table(old)
        return self._opened(new, "the table was renamed")

    def register_table(self, identifier: Identifier, metadata_location: str) -> IcebergTable:
        """Enter a table that exists into the catalog, and open it."""
        checked_text("metadata_location", metadata_location, "pass the location of a metadata file")
        levels = identifier_levels(identifier)
        load_file(place_of(metadata_location, None), self._store)
        entered = self._entry(levels, metadata_location)
        if not self._settled(lambda: self._rows(levels) == [metadata_location], entered):
            raise self._is_taken(levels)
        return self._opened(levels, "the table was registered")

    def create_namespace(self, namespace: Identifier, properties: Mapping[str, str] | None = None) -> None:
        """Create a namespace, and the layout of the database where there is none."""
        levels = namespace_levels(namespace)
        _, settings = checked_changes((), properties)
        with self._connection(create=True) as connection:
            make_layout(connection)
        taken = InvalidArgumentError("there is a namespace of this name already", namespace=".".join(levels))
        if not levels or self._has_namespace(levels):
            raise taken
        # A namespace without properties would have no row.
        kept = settings or {"exists": "true"}
        created = self._settled(
            lambda: kept.items() <= self.load_namespace_properties(levels).items(),
            sa.insert(NAMESPACES),
            self._properties_rows(levels, kept),
        )
        if created is None:
            raise taken

    def drop_namespace(self, namespace: Identifier) -> None:
        """Remove a namespace that holds nothing."""
        levels = namespace_levels(namespace)
        if set(self._namespaces_below(levels)) - {levels} or self.list_tables(levels):
            raise ConstraintViolationError("the namespace is not empty", namespace=".".join(levels), catalog=self.name)
        gone = sa.delete(NAMESPACES).where(self._of_namespace(levels))
        self._settled(lambda: not self._has_namespace(levels), gone)

    def load_namespace_properties(self, namespace: Identifier) -> dict[str, str]:
        """Return the properties of a namespace."""
        levels = namespace_levels(namespace)
        self._namespaces_below(levels)
        with self._connection() as connection:
            if not sa.inspect(connection).has_table(NAMESPACES.name):
                return {}
            known = NAMESPACES.c
            chosen = sa.select(known.property_key, known.property_value).where(self._of_namespace(levels))
            return {str(key): str(value) for key, value in connection.execute(chosen)}

    def update_namespace_properties(
        self, namespace: Identifier, removals: Iterable[str] | None = None, updates: Mapping[str, str] | None = None
    ) -> None:
        """Remove properties of a namespace, and set others.

        Raises
        ------
        CommitConflictError
            Others set one of the properties at the same time. Nothing was changed.
        """
        levels = namespace_levels(namespace)
        gone, new = checked_changes(removals, updates)
        self._namespaces_below(levels)
        changed = NAMESPACES.c.property_key.in_(sorted(gone | new.keys()))
        statements: list[Any] = [sa.delete(NAMESPACES).where(self._of_namespace(levels) & changed)]
        rows = self._properties_rows(levels, new)
        statements += [sa.insert(NAMESPACES), rows] if rows else []
        # A namespace without properties, and without tables, would have no row.
        own = self._of_namespace(levels)
        (kept,) = self._properties_rows(levels, {"exists": "true"})
        lasting = sa.select(*(sa.literal(value) for value in kept.values())).where(~sa.exists().where(own))
        statements.append(sa.insert(NAMESPACES).from_select(list(kept), lasting))

        def is_done() -> bool:
            found = self.load_namespace_properties(levels)
            return new.items() <= found.items() and not gone & found.keys()

        if self._settled(is_done, *statements) is None:
            raise CommitConflictError(
                "others set a property of the namespace at the same time",
                hint="repeat the change",
                namespace=".".join(levels),
                catalog=self.name,
            )

    def _has_namespace(self, levels: Levels) -> bool:
        try:
            return bool(self._namespaces_below(levels))
        except NamespaceNotFoundError:
            return False

    def _of_namespace(self, levels: Levels) -> sa.ColumnElement[bool]:
        return (NAMESPACES.c.catalog_name == self.name) & (NAMESPACES.c.namespace == ".".join(levels))

    def _properties_rows(self, levels: Levels, properties: Mapping[str, str]) -> list[dict[str, str]]:
        own = {"catalog_name": self.name, "namespace": ".".join(levels)}
        return [{**own, "property_key": key, "property_value": value} for key, value in properties.items()]

    def _is_taken(self, levels: Levels) -> TableExistsError:
        return TableExistsError(
            "there is a table or a view of this name already", table=".".join(levels), catalog=self.name
        )

    def _row(self, levels: Levels) -> tuple[sa.TableClause, sa.ColumnElement[bool]]:
        """Return the table of tables, and the condition for the row of one of them."""
        with self._connection() as connection:
            tables, condition = self._tables(connection)
        condition &= tables.c.table_namespace == ".".join(levels[:-1])
        return tables, condition & (tables.c.table_name == levels[-1])

    def _swap(self, levels: Levels, old: str | None, new: str) -> bool:
        """Replace the location of a table's metadata, or enter the first one; return whether that happened."""
        if old is None:
            return bool(self._change(self._entry(levels, new)))
        tables, condition = self._row(levels)
        condition &= tables.c.metadata_location == old
        values = {"metadata_location": new, "previous_metadata_location": old}
        try:
            return bool(self._change(sa.update(tables).where(condition).values(**values)))
        except _ViolatedError as error:
            # The key stays as it is, so that no other row is in the way.
            raise StorageError(error.message, **error.context) from None

    def _entry(self, levels: Levels, location: str) -> Any:
        """Return the statement that enters a table."""
        tables, _ = self._row(levels)
        self._namespaces_below(levels[:-1])
        row = {
            "catalog_name": self.name,
            "table_namespace": ".".join(levels[:-1]),
            "table_name": levels[-1],
            "metadata_location": location,
        }
        if "iceberg_type" in tables.c:
            row["iceberg_type"] = "TABLE"
        return sa.insert(tables).values(**row)

    def _settled(self, is_done: Callable[[], bool], *statements: Any) -> int | None:
        """Carry out statements as `_change` does, and look at the rows if it is not known whether that happened.

        None means that a row of the same key is there.
        """
        changed: int | None = 1

        def change() -> None:
            nonlocal changed
            try:
                changed = self._change(*statements)
            except _ViolatedError:
                changed = None
            except _RolledBackError:
                raise
            except UnsettledError as error:
                raise unsettled(error.message, catalog=self.name) from error

        carried_out(change, is_done)
        return changed

    def _change(self, *statements: Any) -> int:
        """Carry out statements in one transaction, and return how many rows the last one changed.

        A list of rows belongs to the statement before it.

        Raises
        ------
        UnsettledError
            If it is not known whether the transaction was carried out, or how many rows it changed.
        NotCarriedOutError
            If others are in the way, and nothing was changed.
        StorageError
            If the database refuses the statements, and nothing was changed.
        """
        changed = 0
        is_commit = False
        with self._connection() as connection:
            try:
                for number, statement in enumerate(statements):
                    if not isinstance(statement, list):
                        rows = statements[number + 1 : number + 2]
                        given = rows if rows and isinstance(rows[0], list) else ()
                        changed = connection.execute(statement, *given).rowcount
                is_commit = True
                connection.commit()
            except sa.exc.SQLAlchemyError as error:
                found = failure_of(error, is_commit=is_commit)
                kind: type[StorageError] = _ViolatedError if isinstance(error, sa.exc.IntegrityError) else StorageError
                if found is not Failure.REFUSED:
                    unknown = UnsettledError if is_commit else _RolledBackError
                    kind = NotCarriedOutError if found is Failure.BUSY else unknown
                raise kind(f"the database failed: {self._said(error)}", catalog=self.name) from None
        if changed < 0 and len(statements) == 1:
            raise UnsettledError("the driver of the database does not say how many rows it changed", catalog=self.name)
        return changed

    def _said(self, error: Exception) -> str:
        """Return the message of the driver, which helps; the statement and its parameters do not."""
        reason = str(getattr(error, "orig", None) or type(error).__name__).strip().splitlines()
        return without_secrets(reason[0] if reason else type(error).__name__, self._engine.url)

    def _metadata_location(self, levels: Levels) -> str:
        locations = self._rows(levels)
        if not locations:
            raise TableNotFoundError(
                "the catalog has no such table",
                hint="check the name of the catalog too: a database can hold several. ⟪list_tables()⟫ lists the tables",
                table=".".join(levels),
                catalog=self.name,
            )
        if not isinstance(locations[0], str) or not locations[0]:
            raise CorruptMetadataError(
                "the catalog has no metadata_location for the table", table=".".join(levels), catalog=self.name
            )
        return locations[0]

    def _rows(self, levels: Levels) -> list[str | None]:
        with self._connection() as connection:
            tables, condition = self._tables(connection)
            condition &= tables.c.table_namespace == ".".join(levels[:-1])
            condition &= tables.c.table_name == levels[-1]
            return list(connection.execute(sa.select(tables.c.metadata_location).where(condition)).scalars())

    def _namespaces_below(self, levels: Levels) -> list[Levels]:
        """Return a namespace and all those below it; without a namespace, all that the database knows."""
        with self._connection() as connection:
            tables, _ = self._tables(connection)
            chosen = sa.select(tables.c.table_namespace).where(tables.c.catalog_name == self.name)
            names = set(connection.execute(chosen.distinct()).scalars())
            if sa.inspect(connection).has_table(NAMESPACES.name):
                chosen = sa.select(NAMESPACES.c.namespace).where(NAMESPACES.c.catalog_name == self.name)
                names |= set(connection.execute(chosen.distinct()).scalars())
        every = [tuple(name.split(".")) for name in names if name]
        namespaces = [one for one in every if one[: len(levels)] == levels]
        if levels and not namespaces:
            raise NamespaceNotFoundError(
                "there is no such namespace",
                hint="⟪list_namespaces()⟫ lists the namespaces at the top",
                namespace=".".join(levels),
                catalog=self.name,
            )
        return namespaces

    def _tables(self, connection: sa.Connection) -> tuple[sa.TableClause, sa.ColumnElement[bool]]:
        """Return the table of tables, and the condition for the rows that are tables of this catalog.

        The newer schema lists views too, and tells them apart by a column that the older one lacks.
        """
        try:
            columns = {column["name"] for column in sa.inspect(connection).get_columns(TABLES.name)}
        except sa.exc.NoSuchTableError:
            raise StorageError(
                f"the database contains no catalog: there is no table {TABLES.name}",
                hint="check the property uri; catalogs are not created here",
                catalog=self.name,
            ) from None
        names = [known.name for known in TABLES.c if known.name in columns or known.name != "iceberg_type"]
        tables = sa.table(TABLES.name, *map(sa.column, names))
        condition: sa.ColumnElement[bool] = tables.c.catalog_name == self.name
        if "iceberg_type" in columns:
            condition &= tables.c.iceberg_type.is_(None) | (tables.c.iceberg_type == "TABLE")
        return tables, condition

    @contextmanager
    def _connection(self, *, create: bool = False) -> Iterator[sa.Connection]:
        """Connect for one piece of work: an open connection would not survive a fork."""
        database = self._engine.url.database
        if not create and self._engine.dialect.name == "sqlite" and database and is_missing(database):
            raise StorageError("there is no such database", hint="check the property uri", path=database)
        try:
            with self._engine.connect() as connection:
                yield connection
        except sa.exc.SQLAlchemyError as error:
            raise StorageError(f"the database failed: {self._said(error)}", catalog=self.name) from None


def _reopened(name: str, address: str, options: StoreOptions, warehouse: str | None) -> SqlCatalog:
    """Return a catalog of another process."""
    return SqlCatalog(name, open_engine(address), options, warehouse)
