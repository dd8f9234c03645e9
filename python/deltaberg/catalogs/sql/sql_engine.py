"""Engines of SQLAlchemy, opened by the address of a database, without ever showing what is secret in it."""

from __future__ import annotations

import os
import re
import sqlite3
from enum import Enum
from typing import TYPE_CHECKING, Any

from deltaberg.errors import InvalidArgumentError, MissingDependencyError

if TYPE_CHECKING:
    import sqlalchemy as sa

__all__ = ["Failure", "failure_of", "is_missing", "open_engine", "without_secrets"]

#: By driver, its name for the seconds that a connection waits, and how many where the address does not say: for a
#: server to accept it, or for a process that holds the lock of the file, which may be held up itself.
_PATIENCE = {"psycopg": ("connect_timeout", 30), "psycopg2": ("connect_timeout", 30), "pysqlite": ("timeout", 60)}
#: What the names of secret parameters contain.
_SECRET = re.compile("pass|pwd|secret|token|key", re.IGNORECASE)
#: For the scheme of an address: which one to write instead, and which package to install.
_DRIVERS = {
    "postgres": ("postgresql+psycopg://", "psycopg[binary]"),
    "postgresql": ("postgresql+psycopg://", "psycopg[binary]"),
    "mysql": ("mysql+pymysql://", "pymysql"),
    "mariadb": ("mariadb+pymysql://", "pymysql"),
}


#: SQLSTATEs of a connection that broke, of a server that stops, and of a statement whose end nobody knows; those of
#: what goes well once others are done; and the numbers of MySQL and MariaDB that mean the same.
_LOST_STATES, _BUSY_STATES = ("08", "57P", "40003"), ("40", "55P03")
_LOST_NUMBERS, _BUSY_NUMBERS = frozenset({1053, 1158, 1159, 1160, 1161, 1317}), frozenset({1205, 1213})
#: The numbers of errors of these servers; those of 2000 to 2999 are of the client, which has lost the server.
_OF_SERVERS = (range(1000, 2000), range(3000, 6000))


class Failure(Enum):
    """The state of a transaction after the failure of a statement or of its commit."""

    #: The database has refused it, and will refuse it again. Nothing was changed.
    REFUSED = "refused"
    #: Others were in its way. Nothing was changed.
    BUSY = "busy"
    #: Nothing: the connection is gone.
    LOST = "lost"


def failure_of(error: sa.exc.SQLAlchemyError, *, is_commit: bool) -> Failure:
    """Return the state of the transaction after an error.

    Parameters
    ----------
    is_commit
        Whether the commit failed, and not a statement before it.
    """
    import sqlalchemy as sa

    if getattr(error, "connection_invalidated", False):
        return Failure.LOST
    refusals = (sa.exc.IntegrityError, sa.exc.ProgrammingError, sa.exc.DataError, sa.exc.NotSupportedError)
    cause: Any = getattr(error, "orig", None)
    state: Any = getattr(cause, "sqlstate", None) or getattr(cause, "pgcode", None)
    number = cause.args[0] if isinstance(cause, BaseException) and cause.args else None
    if isinstance(cause, sqlite3.Error) and not isinstance(error, refusals):
        # The library runs in this process, and has changed nothing until it is asked to commit.
        if "locked" in str(cause):
            return Failure.BUSY
        return Failure.LOST if is_commit else Failure.REFUSED
    if isinstance(state, str):
        if state.startswith(_LOST_STATES):
            return Failure.LOST
        return Failure.BUSY if state.startswith(_BUSY_STATES) else Failure.REFUSED
    if isinstance(number, int) and any(number in known for known in _OF_SERVERS):
        if number in _LOST_NUMBERS:
            return Failure.LOST
        return Failure.BUSY if number in _BUSY_NUMBERS else Failure.REFUSED
    return Failure.REFUSED if isinstance(error, refusals) else Failure.LOST


def is_missing(database: str) -> bool:
    """Return whether the file of an SQLite database is missing; connecting would create it."""
    return database != ":memory:" and not database.startswith("file:") and not os.path.exists(database)


def without_secrets(text: str, url: sa.URL) -> str:
    """Hide passwords and other secrets in the message of a driver."""
    found = [url.password, *(value for name, value in url.query.items() if _SECRET.search(name))]
    values = [str(one) for value in found if value for one in (value if isinstance(value, tuple) else (value,))]
    for value in sorted(filter(None, values), key=len, reverse=True):
        text = text.replace(value, "***")
    return text


def open_engine(uri: str) -> sa.Engine:
    """Return the engine of a database. It connects for each piece of work.

    Raises
    ------
    InvalidArgumentError
        If the address is not one of a database.
    MissingDependencyError
        If SQLAlchemy or the driver is not installed.
    """
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
        name, seconds = _PATIENCE.get(url.get_dialect().driver, ("", 0))
        if name and name not in url.query:
            options["connect_args"] = {name: seconds}
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
