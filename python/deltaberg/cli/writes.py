"""Commands that make tables and write rows: create, convert, append, overwrite, delete, update."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, get_args

import click

from deltaberg.choices import Format, IfExists, Strategy
from deltaberg.cli.column_types import columns_of
from deltaberg.cli.format_options import commit_options, is_iceberg
from deltaberg.cli.options import pairs, write_command
from deltaberg.cli.output import print_facts, print_json, progress, row_progress
from deltaberg.cli.place import TablePlace
from deltaberg.cli.results import print_plan, print_result
from deltaberg.cli.row_files import FORMATS, open_row_files

if TYPE_CHECKING:
    from deltaberg import DeltaTable, IcebergTable

__all__ = [
    "append",
    "branch_option",
    "convert",
    "create",
    "delete",
    "overwrite",
    "row_command",
    "strategy_option",
    "update",
]

_MESSAGE = click.option("--message", "-m", metavar="TEXT", help="Text that the history keeps with the commit (Delta).")
_FORMAT = click.option(
    "--format", type=click.Choice(FORMATS), help="The format of the files; by default their names tell it."
)


def branch_option(function: Callable[..., None]) -> Callable[..., None]:
    """Add the option that names a branch."""
    return click.option("--branch", metavar="NAME", help="Write to this branch (Iceberg).")(function)


def strategy_option(function: Callable[..., None]) -> Callable[..., None]:
    """Add the option that says whether files are written anew."""
    return click.option(
        "--strategy",
        type=click.Choice(get_args(Strategy)),
        help="By hiding rows, or by writing files anew; by default as the table says.",
    )(function)


@write_command
@click.option("--column", "-c", "columns", multiple=True, metavar="'NAME TYPE'", help="A column; may be repeated.")
@click.option("--like", metavar="FILE", help="Take the columns of this file; its rows are not written.")
@_FORMAT
@click.option("--partition-by", multiple=True, metavar="NAME", help="A partition column; may be repeated.")
@click.option("--cluster-by", multiple=True, metavar="NAME", help="A column to cluster by (Delta); may be repeated.")
@click.option(
    "--property", "-p", "properties", multiple=True, callback=pairs, metavar="KEY=VALUE", help="A table property."
)
@click.option("--name", metavar="TEXT", help="The name of the table in its metadata (Delta).")
@click.option("--description", metavar="TEXT", help="The description of the table in its metadata.")
@click.option(
    "--table-format", type=click.Choice(get_args(Format)), default="delta", show_default=True, help="The format."
)
@click.option("--sort-by", multiple=True, metavar="NAME", help="A column to sort by (Iceberg); may be repeated.")
@click.option(
    "--if-exists",
    type=click.Choice(get_args(IfExists)),
    default="error",
    show_default=True,
    help="What becomes of a table that is there already.",
)
def create(
    place: TablePlace,
    as_json: bool,
    columns: tuple[str, ...],
    like: str | None,
    format: str | None,
    if_exists: Any,
    table_format: Any,
    **options: Any,
) -> None:
    """Create a table without rows."""
    if bool(columns) == (like is not None):
        raise click.UsageError("pass either --column or --like")
    schema = columns_of(columns) if like is None else open_row_files([like], format).reader.schema
    options |= {name: list(options[name]) or None for name in ("partition_by", "cluster_by", "sort_by")}
    with progress(f"creating {place.location}"):
        from deltaberg.api import create_table

        options |= {"format": table_format, "if_exists": if_exists}
        if place.catalog is None:
            options["storage_options"] = place.storage_options
        else:
            options |= {"format": "iceberg", "catalog": place.loaded_catalog()}
        made: DeltaTable | IcebergTable = create_table(place.location, schema, **options)
    number = "format_version" if is_iceberg(made) else "version"
    facts = {"location": made.location, number: getattr(made, number)}
    if as_json:
        print_json(facts)
    else:
        print_facts([("table", made.location), (number.replace("_", " "), facts[number])])


def row_command(function: Callable[..., None]) -> click.Command:
    """Turn a function of files and their rows into a command."""
    for option in reversed(
        (
            click.argument("files", nargs=-1, required=True, metavar="FILE..."),
            _FORMAT,
            click.option("--merge-schema", is_flag=True, help="Add columns that the table lacks."),
            click.option("--timezone", metavar="ZONE", help="The zone of timestamps without one."),
            click.option(
                "--txn",
                metavar="APP=VERSION",
                help="The progress of an application (Delta); nothing is written twice for it.",
            ),
            _MESSAGE,
        )
    ):
        function = option(function)
    return write_command(function)


@contextmanager
def _transaction(
    table: DeltaTable | IcebergTable,
    doing: str,
    total: int | None,
    txn: str | None,
    message: str | None,
    branch: str | None,
) -> Iterator[Any]:
    options = commit_options(table, txn=txn, message=message, branch=branch)
    with (
        row_progress(f"{doing} {table.location}", total) as tell,
        table.transaction(**options, progress=lambda done: tell(done.rows, done.files)) as transaction,
    ):
        yield transaction


@row_command
@branch_option
def append(
    *,
    place: TablePlace,
    as_json: bool,
    files: tuple[str, ...],
    format: str | None,
    merge_schema: bool,
    timezone: str | None,
    txn: str | None,
    message: str | None,
    branch: str | None,
) -> None:
    """Append the rows of files to a table, as one commit."""
    opened = place.open()
    rows = open_row_files(files, format, opened.arrow_schema)
    with _transaction(opened, "appending to", rows.rows, txn, message, branch) as transaction:
        transaction.append(rows.reader, schema_mode="merge" if merge_schema else None, timezone=timezone)
        result = transaction.commit()
    print_result(opened.location, result, as_json)


@row_command
@branch_option
@click.option("--where", "-w", metavar="SQL", help="Replace only the rows that match this condition.")
@click.option("--dynamic", is_flag=True, help="Replace only the partitions that the new rows are in.")
@click.option("--replace-schema", is_flag=True, help="Replace the columns of the table by those of the files.")
@click.option("--partition-by", multiple=True, metavar="NAME", help="With --replace-schema: a new partition column.")
def overwrite(
    *,
    place: TablePlace,
    as_json: bool,
    files: tuple[str, ...],
    format: str | None,
    merge_schema: bool,
    timezone: str | None,
    txn: str | None,
    message: str | None,
    branch: str | None,
    where: str | None,
    dynamic: bool,
    replace_schema: bool,
    partition_by: tuple[str, ...],
) -> None:
    """Replace rows of a table by those of files, as one commit."""
    if merge_schema and replace_schema:
        raise click.UsageError("--merge-schema and --replace-schema exclude each other")
    opened = place.open()
    rows = open_row_files(files, format, None if replace_schema else opened.arrow_schema)
    with _transaction(opened, "overwriting", rows.rows, txn, message, branch) as transaction:
        mode = "merge" if merge_schema else "overwrite" if replace_schema else None
        transaction.overwrite(
            rows.reader,
            where=where,
            dynamic=dynamic,
            schema_mode=mode,
            partition_by=list(partition_by) or None,
            timezone=timezone,
        )
        result = transaction.commit()
    print_result(opened.location, result, as_json)


def _matching(table: DeltaTable | IcebergTable, where: str, branch: str | None) -> dict[str, Any]:
    """Return how many rows match a condition, and in how many files they are.

    Parameters
    ----------
    branch
        The branch of an Iceberg table; None for the main one.
    """
    import pyarrow.compute as pc

    from deltaberg import DeltaTable
    from deltaberg.delta.operations.row_changes import scan_to_change
    from deltaberg.delta.table_transaction import pending_of as of_delta
    from deltaberg.iceberg.table_transaction import pending_of as of_iceberg
    from deltaberg.table.rewrite import row_condition, scan_of_rows

    condition = row_condition(table.schema, where, "UTC")
    if isinstance(table, DeltaTable):
        found: dict[str, Any] = {"version": table.version}
        scan = scan_to_change(of_delta(table.transaction()), condition.filter, "UTC")
    else:
        source = of_iceberg(table.transaction(branch=branch)).source
        found = {"snapshot_id": None if source.snapshot is None else source.snapshot.snapshot_id}
        scan = scan_of_rows(source, condition.filter, "UTC")
    matched = condition.find(scan)
    whole = pc.sum(matched.of(matched.whole).plan.row_counts(), skip_nulls=False, min_count=0).as_py()
    return {
        **found,
        "rows_to_delete": None if whole is None else whole + matched.rows.total,
        "files_to_change": len(matched.whole) + len(matched.rows.numbers),
    }


@write_command
@click.argument("where", metavar="SQL")
@strategy_option
@click.option("--dry-run", is_flag=True, help="Count the rows that match, and change nothing.")
@_MESSAGE
@branch_option
def delete(
    place: TablePlace,
    as_json: bool,
    where: str,
    strategy: Any,
    dry_run: bool,
    message: str | None,
    branch: str | None,
) -> None:
    """Delete the rows of a table for which a condition is true."""
    opened = place.open()
    options = commit_options(opened, message=message, branch=branch)
    with progress(f"deleting from {opened.location}"):
        if dry_run:
            print_plan(opened.location, _matching(opened, where, branch), as_json)
            return
        result = opened.delete(where, strategy=strategy, **options)
    print_result(opened.location, result, as_json)


@write_command
@click.option(
    "--set",
    "values",
    multiple=True,
    required=True,
    callback=pairs,
    metavar="COLUMN=SQL",
    help="A column, and its new value as SQL; may be repeated.",
)
@click.option("--where", "-w", metavar="SQL", help="Only the rows for which this condition is true.")
@strategy_option
@_MESSAGE
@branch_option
def update(
    place: TablePlace,
    as_json: bool,
    values: dict[str, str],
    where: str | None,
    strategy: Any,
    message: str | None,
    branch: str | None,
) -> None:
    """Set columns of rows of a table to new values."""
    opened = place.open()
    options = commit_options(opened, message=message, branch=branch)
    assigned: dict[Any, str] = dict(values)
    with progress(f"updating {opened.location}"):
        result = opened.update(assigned, where, strategy=strategy, **options)
    print_result(opened.location, result, as_json)


@write_command
@click.option(
    "--partition-by",
    multiple=True,
    metavar="'NAME TYPE'",
    help="A column whose values are in the names of directories; may be repeated.",
)
@click.option(
    "--property", "-p", "properties", multiple=True, callback=pairs, metavar="KEY=VALUE", help="A table property."
)
@click.option("--name", metavar="TEXT", help="The name of the table in its metadata.")
@click.option("--description", metavar="TEXT", help="The description of the table in its metadata.")
@click.option("--no-stats", is_flag=True, help="Record no statistics of the files.")
@_MESSAGE
def convert(
    place: TablePlace,
    as_json: bool,
    partition_by: tuple[str, ...],
    no_stats: bool,
    message: str | None,
    **options: Any,
) -> None:
    """Make a Delta table of the Parquet files in a directory, in place."""
    place.check_is_location()
    columns = columns_of(partition_by) if partition_by else None
    with progress(f"converting {place.location}"):
        from deltaberg import convert_to_delta

        result = convert_to_delta(
            place.location,
            partition_by=columns,
            collect_stats=not no_stats,
            storage_options=place.storage_options,
            user_metadata=message,
            **options,
        )
    print_result(place.location, result, as_json)
