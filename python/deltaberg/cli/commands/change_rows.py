"""Commands that change the rows of a table: append, overwrite, delete, update, upsert, merge."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from deltaberg.cli.commands.verb_commands import verb
from deltaberg.cli.options import pairs
from deltaberg.cli.show.results import state_of

if TYPE_CHECKING:
    from deltaberg import CommitResult, DeltaTable, IcebergTable

__all__ = ["append", "delete", "merge", "overwrite", "update", "upsert"]


def _assignments(**settings: Any) -> Callable[[Any], Any]:
    """Return the option of new values."""
    return click.option("--set", "values", multiple=True, callback=pairs, metavar="COLUMN=SQL", **settings)


def _exclude(*given: tuple[str, Any]) -> None:
    """Refuse more than one of some options."""
    names = [name for name, value in given if value]
    if len(names) > 1:
        raise click.UsageError(f"{' and '.join(names)} exclude each other")


@verb("appending to", "AppendArguments", takes_files=True)
def append(table: DeltaTable | IcebergTable, arguments: dict[str, Any], rows: Any) -> CommitResult:
    """Append the rows of files to a table, as one commit."""
    return table.append(rows, **arguments)


@verb("overwriting", "OverwriteArguments", takes_files=True)
@click.option("--where", "-w", metavar="SQL", help="Replace only the rows that match this condition.")
@click.option("--no-check", is_flag=True, help="With --where: allow new rows that do not match it.")
@click.option("--dynamic", is_flag=True, help="Replace only the partitions that the new rows are in.")
@click.option("--replace-schema", is_flag=True, help="Replace the columns of the table by those of the files.")
@click.option("--partition-by", multiple=True, metavar="NAME", help="With --replace-schema: a new partition column.")
def overwrite(
    table: DeltaTable | IcebergTable,
    arguments: dict[str, Any],
    rows: Any,
    no_check: bool,
    replace_schema: bool,
    partition_by: tuple[str, ...],
    **which: Any,
) -> CommitResult:
    """Replace rows of a table by those of files, as one commit."""
    _exclude(("--merge-schema", arguments.get("schema_mode")), ("--replace-schema", replace_schema))
    _exclude(("--where", which["where"]), ("--dynamic", which["dynamic"]), ("--replace-schema", replace_schema))
    if replace_schema:
        arguments["schema_mode"] = "overwrite"
    return table.overwrite(rows, check=not no_check, partition_by=list(partition_by) or None, **which, **arguments)


def _matching(_: object, table: Any, arguments: dict[str, Any], where: str) -> dict[str, Any]:
    """Return how many rows would be deleted, which can be told without writing a file."""
    from deltaberg.table.verbs.matching import count_matching

    found = count_matching(table, where, arguments)
    state = state_of(table, arguments.get("branch"))
    return {**state, "rows_to_delete": found.rows, "files_to_change": found.files}


@verb("deleting from", "DeleteArguments", previews=_matching)
@click.argument("where", metavar="SQL")
def delete(table: DeltaTable | IcebergTable, arguments: dict[str, Any], where: str) -> CommitResult:
    """Delete the rows of a table for which a condition is true."""
    return table.delete(where, **arguments)


@verb("updating", "UpdateArguments")
@_assignments(required=True, help="A column, and its new value as SQL; may be repeated.")
@click.option("--where", "-w", metavar="SQL", help="Only the rows for which this condition is true.")
def update(
    table: DeltaTable | IcebergTable, arguments: dict[str, Any], values: dict[Any, str], where: str | None
) -> CommitResult:
    """Set columns of rows of a table to new values."""
    return table.update(values, where, **arguments)


@verb("upserting into", "UpsertArguments", takes_files=True)
@click.option("--key", "-k", "keys", multiple=True, required=True, metavar="NAME", help="A key; may be repeated.")
@click.option("--no-update", is_flag=True, help="Leave the rows of the table as they are, and only insert.")
@click.option("--no-insert", is_flag=True, help="Leave out rows whose keys are not in the table.")
def upsert(
    table: DeltaTable | IcebergTable,
    arguments: dict[str, Any],
    rows: Any,
    keys: tuple[str, ...],
    no_update: bool,
    no_insert: bool,
) -> CommitResult:
    """Update the rows of a table that have the keys of rows of files, and insert the others."""
    _exclude(("--no-update", no_update), ("--no-insert", no_insert))
    return table.upsert(
        rows,
        list(keys),
        when_matched="ignore" if no_update else "update",
        when_not_matched="ignore" if no_insert else "insert",
        **arguments,
    )


@verb("merging into", "MergeArguments", takes_files=True)
@click.option("--on", required=True, metavar="SQL", help="What rows match; target and source name the two sides.")
@click.option("--delete", "deletes", multiple=True, metavar="SQL", help="Delete matched rows for which this is true.")
@_assignments(help="Set a column of the other matched rows.")
@click.option("--set-all", is_flag=True, help="Set all columns of the other matched rows to those of the files.")
@click.option("--set-where", metavar="SQL", help="With --set and --set-all: only for which this is true.")
@click.option("--insert", is_flag=True, help="Insert the rows of files that match no row.")
@click.option("--insert-where", metavar="SQL", help="With --insert: only those for which this is true.")
@click.option("--delete-missing", is_flag=True, help="Delete the rows of the table that match no row of the files.")
@click.option("--delete-missing-where", metavar="SQL", help="With --delete-missing: only for which this is true.")
def merge(
    table: DeltaTable | IcebergTable,
    arguments: dict[str, Any],
    rows: Any,
    on: str,
    **options: Any,
) -> CommitResult:
    """Merge the rows of files into a table: delete and update rows that match, and insert those that do not.

    Conditions and values are SQL, in which target and source name the columns of the table and of the files.
    """
    values, set_all = options["values"], options["set_all"]
    _exclude(("--set", values), ("--set-all", set_all))
    actions = {"--set": values or set_all, "--insert": options["insert"], "--delete-missing": options["delete_missing"]}
    where = {option: options[f"{option.strip('-').replace('-', '_')}_where"] for option in actions}
    for option, condition in where.items():
        if condition is not None and not actions[option]:
            raise click.UsageError(f"{option}-where has no meaning without {option}")
    if not (options["deletes"] or any(actions.values())):
        raise click.UsageError("pass at least one of --delete, --set, --set-all, --insert and --delete-missing")
    clauses = table.merge(rows, on, **arguments)
    for condition in options["deletes"]:
        clauses.when_matched_delete(condition)
    if values:
        clauses.when_matched_update(values, where["--set"])
    if set_all:
        clauses.when_matched_update_all(where["--set"])
    if actions["--insert"]:
        clauses.when_not_matched_insert_all(where["--insert"])
    if actions["--delete-missing"]:
        clauses.when_not_matched_by_source_delete(where["--delete-missing"])
    return clauses.execute()
