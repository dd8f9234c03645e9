"""Commands that make tables: create, convert."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from deltaberg.cli.commands.verb_commands import write_command
from deltaberg.cli.dry_run import TRYING, dry_run_option, unsent
from deltaberg.cli.options import pairs
from deltaberg.cli.place import TablePlace
from deltaberg.cli.rows.column_types import columns_of
from deltaberg.cli.rows.file_options import FileReading, file_options
from deltaberg.cli.rows.files import open_row_files
from deltaberg.cli.show.output import progress
from deltaberg.cli.show.results import print_done, print_result

if TYPE_CHECKING:
    from deltaberg import CommitResult, DeltaTable, IcebergTable
    from deltaberg.table.open.source_trees import SourceFiles

__all__ = ["convert", "create"]

#: How the first commit of a table is made, which has no branches yet.
_COMMIT = ("txn", "user_metadata", "isolation", "unsafe_single_writer")


def _described(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options that say what the metadata of a table holds."""
    for option in (
        click.option("--description", metavar="TEXT", help="The description of the table in its metadata."),
        click.option("--name", metavar="TEXT", help="The name of the table in its metadata (Delta)."),
        click.option(
            "--property", "-p", "properties", multiple=True, callback=pairs, metavar="KEY=VALUE", help="A property."
        ),
    ):
        function = option(function)
    return function


@write_command("format", "if_exists", *_COMMIT)
@click.option(
    "--column",
    "-c",
    "columns",
    multiple=True,
    metavar="'NAME TYPE'",
    help="A column, such as 'id bigint'; may be repeated.",
)
@click.option("--like", metavar="FILE", help="Take the columns of this file; its rows are not written.")
@file_options
@click.option("--partition-by", multiple=True, metavar="NAME", help="A partition column; may be repeated.")
@click.option("--cluster-by", multiple=True, metavar="NAME", help="A column to cluster by (Delta); may be repeated.")
@click.option("--sort-by", multiple=True, metavar="NAME", help="A column to sort by (Iceberg); may be repeated.")
@_described
@dry_run_option
def create(
    place: TablePlace,
    as_json: bool,
    arguments: dict[str, Any],
    columns: tuple[str, ...],
    like: str | None,
    reading: FileReading,
    dry_run: bool,
    **options: Any,
) -> None:
    """Create a table without rows."""
    if bool(columns) == (like is not None):
        raise click.UsageError("pass either --column 'NAME TYPE', or --like FILE for the columns of a file")
    schema = (
        columns_of(columns) if like is None else open_row_files([like], reading.format, csv=reading.csv).reader.schema
    )
    options |= {name: list(options[name]) or None for name in ("partition_by", "cluster_by", "sort_by")}
    if arguments.setdefault("format", "delta" if place.catalog is None else "iceberg") == "delta":
        place.check_is_location()
    elif any(b"CURRENT_DEFAULT" in (field.metadata or {}) for field in schema):
        raise click.UsageError("DEFAULT applies to Delta tables only: set it afterwards, by alter TABLE set-default")
    catalog = None if place.catalog is None else place.loaded_catalog()
    where = {"storage_options": place.storage_options} if catalog is None else {"catalog": catalog}
    with progress(f"{TRYING if dry_run else 'creating'} {place.location}"):
        from deltaberg import IcebergTable, create_table

        def make(**policy: Any) -> Any:
            return create_table(place.location, schema, **arguments, **options, **where, **policy)

        if dry_run:
            change = unsent(lambda policy: make(policy=policy))
            kinds = {"tables_to_create": True, "tables_to_replace": False}
            facts = {name: int(change is not None and change.creates is kind) for name, kind in kinds.items()}
            print_result(place.location, {**facts, "columns": len(schema)}, as_json)
            return
        made: DeltaTable | IcebergTable = make()
    number = "format_version" if isinstance(made, IcebergTable) else "version"
    print_done(made.location, {number: getattr(made, number)}, as_json)


@write_command("format", "mode", "timezone", *_COMMIT)
@click.option(
    "--to",
    "target",
    metavar="PLACE",
    help="Leave the directory as it is, and make a table here that names its files (Iceberg).",
)
@click.option(
    "--partition-by",
    multiple=True,
    metavar="'NAME TYPE'",
    help="A column whose values are in the names of directories; may be repeated.",
)
@_described
@click.option("--no-stats", is_flag=True, help="Record no statistics of the files.")
@dry_run_option
def convert(
    place: TablePlace,
    as_json: bool,
    arguments: dict[str, Any],
    partition_by: tuple[str, ...],
    no_stats: bool,
    dry_run: bool,
    target: str | None,
    **options: Any,
) -> None:
    """Make a table of the Parquet files in a directory, in place; or of all data files, an Iceberg table."""
    columns = columns_of(partition_by) if partition_by else None
    if arguments.pop("format", "delta") == "iceberg":
        if no_stats or arguments.get("timezone") is not None:
            raise click.UsageError("--no-stats and --timezone apply to Delta tables only")
        _convert_tree(place, {**arguments, **options, "target": target, "partition_by": columns}, as_json, dry_run)
        return
    if target is not None:
        raise click.UsageError("--to applies to Iceberg tables only: pass --table-format iceberg")
    place.check_is_location()
    with progress(f"{TRYING if dry_run else 'converting'} {place.location}") as tell:
        from deltaberg import convert_to_delta

        def make(**policy: Any) -> CommitResult:
            return convert_to_delta(
                place.location,
                partition_by=columns,
                collect_stats=not no_stats,
                storage_options=place.storage_options,
                progress=tell,
                **arguments,
                **options,
                **policy,
            )

        if not dry_run:
            print_result(place.location, make(), as_json)
            return
        change = unsent(lambda policy: make(policy=policy))
    from deltaberg.delta.transaction.file_changes import total_rows

    files = [] if change is None else change.changes.new_files
    facts = {
        "files_to_add": len(files),
        "rows_to_add": total_rows(files),
        "bytes_to_add": sum(one.size for one in files),
        "ignored_files": None if change is None else _found_files(place).ignored,
    }
    print_result(place.location, facts, as_json)


def _convert_tree(place: TablePlace, arguments: dict[str, Any], as_json: bool, dry_run: bool) -> None:
    """Make an Iceberg table of the files in a directory, and say what was made."""
    if place.catalog is None:
        where: dict[str, Any] = {"storage_options": place.storage_options}
    elif arguments["target"] is None:
        raise click.UsageError("pass the name of the table in the catalog by --to")
    else:
        where = {"catalog": place.loaded_catalog()}
    with progress(f"{TRYING if dry_run else 'converting'} {place.location}") as tell:
        from deltaberg import convert_to_iceberg

        def make(**policy: Any) -> CommitResult:
            return convert_to_iceberg(place.location, progress=tell, **arguments, **where, **policy)

        if not dry_run:
            print_result(arguments["target"] or place.location, make(), as_json)
            return
        is_made = unsent(lambda policy: make(policy=policy)) is not None
    facts = {"tables_to_create": int(is_made)}
    if is_made:
        found = _found_files(place)
        facts |= {"files_to_add": len(found.files), "ignored_files": found.ignored}
    print_result(arguments["target"] or place.location, facts, as_json)


def _found_files(place: TablePlace) -> SourceFiles:
    """Return the files of a directory that can become a table."""
    from deltaberg.storage.location import parse_location
    from deltaberg.table.open.opening import OpenOptions
    from deltaberg.table.open.source_trees import files_below

    store = OpenOptions(storage_options=None if place.catalog else place.storage_options).store
    return files_below(parse_location(place.location), store)
