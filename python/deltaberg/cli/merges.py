"""Commands that join the rows of files with those of a table: upsert and merge."""

from __future__ import annotations

from typing import Any

import click

from deltaberg.cli.format_options import commit_options
from deltaberg.cli.options import pairs
from deltaberg.cli.output import progress
from deltaberg.cli.place import TablePlace
from deltaberg.cli.results import print_result
from deltaberg.cli.row_files import open_row_files
from deltaberg.cli.writes import branch_option, row_command, strategy_option

__all__ = ["merge", "upsert"]


@row_command
@click.option("--key", "-k", "keys", multiple=True, required=True, metavar="NAME", help="A key; may be repeated.")
@click.option("--no-update", is_flag=True, help="Leave the rows of the table as they are, and only insert.")
@click.option("--no-insert", is_flag=True, help="Leave out rows whose keys are not in the table.")
@strategy_option
@branch_option
def upsert(
    *,
    place: TablePlace,
    as_json: bool,
    files: tuple[str, ...],
    format: str | None,
    merge_schema: bool,
    timezone: str | None,
    txn: str | None,
    message: str | None,
    keys: tuple[str, ...],
    no_update: bool,
    no_insert: bool,
    strategy: Any,
    branch: str | None,
) -> None:
    """Update the rows of a table that have the keys of rows of files, and insert the others."""
    if no_update and no_insert:
        raise click.UsageError("--no-update and --no-insert exclude each other")
    opened = place.open()
    options = commit_options(opened, txn=txn, message=message, branch=branch)
    rows = open_row_files(files, format, opened.arrow_schema)
    with progress(f"upserting into {opened.location}"):
        result = opened.upsert(
            rows.reader,
            list(keys),
            when_matched="ignore" if no_update else "update",
            when_not_matched="ignore" if no_insert else "insert",
            schema_mode="merge" if merge_schema else None,
            strategy=strategy,
            timezone=timezone,
            **options,
        )
    print_result(opened.location, result, as_json)


@row_command
@click.option("--on", required=True, metavar="SQL", help="What rows match; target and source name the two sides.")
@click.option("--delete", "deletes", multiple=True, metavar="SQL", help="Delete matched rows for which this is true.")
@click.option(
    "--set",
    "values",
    multiple=True,
    callback=pairs,
    metavar="COLUMN=SQL",
    help="Set a column of the other matched rows.",
)
@click.option("--set-all", is_flag=True, help="Set all columns of the other matched rows to those of the files.")
@click.option("--set-where", metavar="SQL", help="With --set and --set-all: only for which this is true.")
@click.option("--insert", is_flag=True, help="Insert the rows of files that match no row.")
@click.option("--insert-where", metavar="SQL", help="With --insert: only those for which this is true.")
@click.option("--delete-missing", is_flag=True, help="Delete the rows of the table that match no row of the files.")
@click.option("--delete-missing-where", metavar="SQL", help="With --delete-missing: only for which this is true.")
@strategy_option
@branch_option
def merge(
    *,
    place: TablePlace,
    as_json: bool,
    files: tuple[str, ...],
    format: str | None,
    merge_schema: bool,
    timezone: str | None,
    txn: str | None,
    message: str | None,
    on: str,
    deletes: tuple[str, ...],
    values: dict[str, str],
    set_all: bool,
    set_where: str | None,
    insert: bool,
    insert_where: str | None,
    delete_missing: bool,
    delete_missing_where: str | None,
    strategy: Any,
    branch: str | None,
) -> None:
    """Merge the rows of files into a table: delete and update rows that match, and insert those that do not.

    Conditions and values are SQL, in which target and source name the columns of the table and of the files.
    """
    if values and set_all:
        raise click.UsageError("--set and --set-all exclude each other")
    for option, condition, given in (
        ("--set-where", set_where, values or set_all),
        ("--insert-where", insert_where, insert),
        ("--delete-missing-where", delete_missing_where, delete_missing),
    ):
        if condition is not None and not given:
            raise click.UsageError(f"{option} has no meaning without {option.removesuffix('-where')}")
    if not (deletes or values or set_all or insert or delete_missing):
        raise click.UsageError("pass at least one of --delete, --set, --set-all, --insert and --delete-missing")
    opened = place.open()
    options = commit_options(opened, txn=txn, message=message, branch=branch)
    rows = open_row_files(files, format, opened.arrow_schema)
    clauses = opened.merge(
        rows.reader,
        on,
        schema_mode="merge" if merge_schema else None,
        strategy=strategy,
        timezone=timezone,
        **options,
    )
    for condition in deletes:
        clauses = clauses.when_matched_delete(condition)
    if values:
        assigned: dict[Any, str] = dict(values)
        clauses = clauses.when_matched_update(assigned, set_where)
    if set_all:
        clauses = clauses.when_matched_update_all(set_where)
    if insert:
        clauses = clauses.when_not_matched_insert_all(insert_where)
    if delete_missing:
        clauses = clauses.when_not_matched_by_source_delete(delete_missing_where)
    with progress(f"merging into {opened.location}"):
        result = clauses.execute()
    print_result(opened.location, result, as_json)
