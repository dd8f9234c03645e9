"""Options that only tables of one format have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from deltaberg.whole_numbers import whole_number

if TYPE_CHECKING:
    from deltaberg import DeltaTable, IcebergTable

__all__ = ["check_options", "commit_options", "is_iceberg"]


def is_iceberg(table: DeltaTable | IcebergTable) -> bool:
    """Return whether a table is an Iceberg table."""
    from deltaberg import IcebergTable

    return isinstance(table, IcebergTable)


def check_options(table: DeltaTable | IcebergTable, delta: dict[str, Any], iceberg: dict[str, Any]) -> None:
    """Refuse options that the format of a table does not have.

    Parameters
    ----------
    delta, iceberg
        The options that only tables of a format have, by their names, with what was passed.
    """
    other, name = (delta, "Delta") if is_iceberg(table) else (iceberg, "Iceberg")
    given = [option for option, value in other.items() if value]
    if given:
        raise click.UsageError(f"{given[0]} applies to {name} tables only")


def commit_options(
    table: DeltaTable | IcebergTable, *, txn: str | None = None, message: str | None = None, branch: str | None = None
) -> dict[str, Any]:
    """Return what the verbs of a table take of the options of a commit, as those of its format call it."""
    check_options(table, {"--txn": txn, "--message": message}, {"--branch": branch})
    if is_iceberg(table):
        return {"branch": branch}
    return {"txn": None if txn is None else _progress_of(txn), "user_metadata": message}


def _progress_of(text: str) -> tuple[str, int]:
    """Return the application and the version of an option ``--txn``."""
    application, _, number = text.rpartition("=")
    version = whole_number(number, 0)
    if not application or version is None:
        raise click.BadParameter("it is not of the form APP=VERSION", param_hint="--txn")
    return application, version
