"""Tables in a SQL database, with the schema of Java's JdbcCatalog and pyiceberg's SqlCatalog."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from deltaberg.errors import (
    CorruptMetadataError,
    InvalidArgumentError,
    MissingDependencyError,
    NamespaceNotFoundError,
    StorageError,
    TableNotFoundError,
)
from deltaberg.iceberg.catalogs.base import (
    Identifier,
    Levels,
    LocatedPointer,
    NamedCatalog,
    identifier_levels,
    namespace_levels,
)
from deltaberg.iceberg.location.pointer import TablePointer
from deltaberg.storage import LocationMap, StoreOptions, StoreSpec

if TYPE_CHECKING:
    import sqlalchemy as sa

__all__ = ["SqlCatalog"]

_TABLES = "iceberg_tables"
_NAMESPACES = "iceberg_namespace_properties"
#: How many seconds a server may take to accept a connection, where the address does not say.
_CONNECT_TIMEOUT = {"psycopg": 30, "psycopg2": 30}
#: What the names of secret parameters contain.
_SECRET = re.compile("pass|pwd|secret|token|key", re.IGNORECASE)
#: For the scheme of an address: which one to write instead, and which package to install.
_DRIVERS = {
    "postgres": ("postgresql+psycopg://", "psycopg[binary]"),
    "postgresql": ("postgresql+psycopg://", "psycopg[binary]"),
    "mysql": ("mysql+pymysql://", "pymysql"),
    "mariadb": ("mariadb+pymysql://", "pymysql"),
}


class SqlCatalog(NamedCatalog):
    """The tables that a database has under the name of a catalog.

    Parameters
    ----------
    name
        The name of the catalog, which is in its rows: one database can hold several catalogs.
    uri
        The address of the database, as SQLAlchemy spells it.
    storage_options
        The options of the stores that hold the tables.

    Raises
    ------
    MissingDependencyError
        Where SQLAlchemy or the driver of the database is not installed.
    """

    def __init__(self, name: str, uri: str, storage_options: StoreOptions | None = None) -> None:
        super().__init__(name)
        self._engine = _engine(uri)
        self._store = StoreSpec(dict(storage_options or {}))

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
            import sqlalchemy as sa

            condition &= tables.c.table_namespace == ".".join(levels)
            names = connection.execute(sa.select(tables.c.table_name).where(condition)).scalars().all()
        if not names:
            self._namespaces_below(levels)
        return sorted((*levels, name) for name in names)

    def table_exists(self, identifier: Identifier) -> bool:
        """Return whether the database has the table."""
        return bool(self._rows(identifier_levels(identifier)))

    def _pointer(self, levels: Levels, location_map: LocationMap | str | None) -> TablePointer:
        return LocatedPointer(lambda: self._metadata_location(levels), self._store, location_map)

    def _metadata_location(self, levels: Levels) -> str:
        found = self._rows(levels)
        if not found:
            raise TableNotFoundError(
                "the catalog has no such table",
                hint="check the name of the catalog too: a database can hold several. list_tables() lists the tables",
                table=".".join(levels),
                catalog=self.name,
            )
        if not isinstance(found[0], str) or not found[0]:
            raise CorruptMetadataError(
                "the catalog has no metadata_location for the table", table=".".join(levels), catalog=self.name
            )
        return found[0]

    def _rows(self, levels: Levels) -> list[str | None]:
        import sqlalchemy as sa

        with self._connection() as connection:
            tables, condition = self._tables(connection)
            condition &= tables.c.table_namespace == ".".join(levels[:-1])
            condition &= tables.c.table_name == levels[-1]
            return list(connection.execute(sa.select(tables.c.metadata_location).where(condition)).scalars())

    def _namespaces_below(self, levels: Levels) -> list[Levels]:
        """Return a namespace and all those below it; without a namespace, all that the database knows."""
        import sqlalchemy as sa

        with self._connection() as connection:
            tables, _ = self._tables(connection)
            chosen = sa.select(tables.c.table_namespace).where(tables.c.catalog_name == self.name)
            names = set(connection.execute(chosen.distinct()).scalars())
            if sa.inspect(connection).has_table(_NAMESPACES):
                owned = sa.table(_NAMESPACES, sa.column("catalog_name"), sa.column("namespace"))
                chosen = sa.select(owned.c.namespace).where(owned.c.catalog_name == self.name)
                names |= set(connection.execute(chosen.distinct()).scalars())
        known = [tuple(name.split(".")) for name in names if name]
        found = [one for one in known if one[: len(levels)] == levels]
        if levels and not found:
            raise NamespaceNotFoundError(
                "there is no such namespace",
                hint="list_namespaces() lists the namespaces at the top",
                namespace=".".join(levels),
                catalog=self.name,
            )
        return found

    def _tables(self, connection: sa.Connection) -> tuple[sa.TableClause, sa.ColumnElement[bool]]:
        """Return the table of tables, and the condition for the rows that are tables of this catalog.

        The newer schema lists views too, and tells them apart by a column that the older one lacks.
        """
        import sqlalchemy as sa

        try:
            columns = {column["name"] for column in sa.inspect(connection).get_columns(_TABLES)}
        except sa.exc.NoSuchTableError:
            raise StorageError(
                f"the database contains no catalog: there is no table {_TABLES}",
                hint="check the property uri; catalogs are not created here",
                catalog=self.name,
            ) from None
        names = ["catalog_name", "table_namespace", "table_name", "metadata_location"]
        typed = ["iceberg_type"] if "iceberg_type" in columns else []
        tables = sa.table(_TABLES, *(sa.column(name) for name in names + typed))
        condition: sa.ColumnElement[bool] = tables.c.catalog_name == self.name
        for name in typed:
            condition &= tables.c[name].is_(None) | (tables.c[name] == "TABLE")
        return tables, condition

    @contextmanager
    def _connection(self) -> Iterator[sa.Connection]:
        """Connect for one query: an open connection would not survive a fork."""
        import sqlalchemy as sa

        database = self._engine.url.database
        if self._engine.dialect.name == "sqlite" and database and _is_missing(database):
            raise StorageError("there is no such database", hint="check the property uri", path=database)
        try:
            with self._engine.connect() as connection:
                yield connection
        except sa.exc.SQLAlchemyError as error:
            # The message of the driver helps; the statement and its parameters do not.
            reason = str(getattr(error, "orig", None) or type(error).__name__).strip().splitlines()
            said = _without_secrets(reason[0] if reason else type(error).__name__, self._engine.url)
            raise StorageError(f"the database failed: {said}", catalog=self.name) from None


def _is_missing(database: str) -> bool:
    """Return whether the file of an SQLite database is missing; connecting would create it."""
    return database != ":memory:" and not database.startswith("file:") and not os.path.exists(database)


def _without_secrets(text: str, url: sa.URL) -> str:
    """Hide passwords and other secrets in the message of a driver."""
    found = [url.password, *(value for name, value in url.query.items() if _SECRET.search(name))]
    values = [str(one) for value in found if value for one in (value if isinstance(value, tuple) else (value,))]
    for value in sorted(filter(None, values), key=len, reverse=True):
        text = text.replace(value, "***")
    return text


def _engine(uri: str) -> sa.Engine:
    try:
        import sqlalchemy as sa
    except ImportError as error:
        raise MissingDependencyError(
            "SQL catalogs need SQLAlchemy", hint="pip install 'deltaberg[sql-catalog]'"
        ) from error
    if uri.startswith("jdbc:"):
        raise InvalidArgumentError(
            "the property uri is a JDBC address",
            hint="spell it as SQLAlchemy does: postgresql+psycopg://user@host/db",
        )
    options: dict[str, Any] = {"poolclass": sa.pool.NullPool}
    try:
        url = sa.engine.make_url(uri)
        seconds = _CONNECT_TIMEOUT.get(url.get_dialect().driver)
        if seconds is not None and "connect_timeout" not in url.query:
            options["connect_args"] = {"connect_timeout": seconds}
        return sa.create_engine(url, **options)
    except sa.exc.NoSuchModuleError as error:
        raise MissingDependencyError(f"SQLAlchemy has no dialect for uri: {error}", hint=_driver_hint(uri)) from None
    except (sa.exc.ArgumentError, ValueError):
        # Their messages can contain the address, and so a password.
        raise InvalidArgumentError(
            "the property uri is not the address of a database",
            hint="write it like sqlite:///catalog.db or postgresql+psycopg://user@host/db",
        ) from None
    except ImportError as error:
        raise MissingDependencyError(
            f"the driver of the database is not installed: {error.name}", hint=_driver_hint(uri)
        ) from None


def _driver_hint(uri: str) -> str:
    known = _DRIVERS.get(uri.partition(":")[0].partition("+")[0].lower())
    return (
        "install the package of the driver"
        if known is None
        else f"pip install '{known[1]}', and begin uri with {known[0]}"
    )
