"""Commands about scans and metadata tables: files, plan, count, head, changes, tail, metadata."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import click

from deltaberg.choices import MetadataTable
from deltaberg.cli.options import filter_option, scan_options, table_command
from deltaberg.cli.show.output import print_facts, print_json, print_rows, progress
from deltaberg.whole_numbers import whole_number

if TYPE_CHECKING:
    from deltaberg import DeltaTable, FollowedCommit, IcebergTable, Scan
    from deltaberg.schema.types import Field, Struct

__all__ = ["changes", "count", "files", "head", "metadata", "plan", "tail"]


@table_command
@scan_options
@click.option("--stats", is_flag=True, help="Add the recorded bounds and null counts of the columns.")
def files(table: DeltaTable | IcebergTable, as_json: bool, stats: bool, **which: Any) -> None:
    """List the live data files that a scan reads."""
    from deltaberg.cli.show.values import json_rows

    with progress("planning"):
        scan = table.scan(**which)
        found = scan.files(statistics=stats)
    print_rows(found.column_names, json_rows(found, _types_of_files(scan)), as_json)


def _types_of_files(scan: Scan) -> Struct:
    """Return the table types of the columns of `Scan.files` that describe table columns."""
    from deltaberg.schema.columns import join_name
    from deltaberg.schema.types import Field, Struct
    from deltaberg.table.read.scan import bound_scan

    def leaves(within: Struct, above: tuple[str, ...] = ()) -> Iterator[Field]:
        for child in within:
            path = (*above, child.name)
            if isinstance(child.type, Struct):
                yield from leaves(child.type, path)
            else:
                yield Field(join_name(path), child.type)

    bound = bound_scan(scan)
    bounds = Struct(tuple(leaves(bound.output)))
    partition = bound.source.hidden.get("_partition")
    known = () if partition is None else (Field("partition", partition.type),)
    return Struct((*known, Field("lower_bounds", bounds), Field("upper_bounds", bounds)))


@table_command
@scan_options
def plan(table: DeltaTable | IcebergTable, as_json: bool, **which: Any) -> None:
    """Explain what a scan reads, and why."""
    with progress("planning"):
        explained = table.scan(**which).explanation()
    if as_json:
        steps = [{"step": step.name, "files": step.files, "bytes": step.size} for step in explained.steps]
        print_json({**asdict(explained), "steps": steps})
    else:
        print_facts(explained.facts, explained.title)


@table_command
@filter_option
def count(table: DeltaTable | IcebergTable, as_json: bool, filter: str | None) -> None:
    """Count the rows, by metadata where that is exact."""
    with progress("counting") as tell:
        rows = table.scan(filter).count(progress=tell)
    if as_json:
        print_json({"rows": rows})
    else:
        click.echo(rows)


#: How many rows are printed if the caller does not say it.
_FIRST_ROWS = 10


def _limited(default: int | None, note: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return click.option(
        "--limit", "-n", type=click.IntRange(min=0), default=default, help=f"The most rows to print.  [default: {note}]"
    )


@table_command
@scan_options
@_limited(None, f"{_FIRST_ROWS}, with a note if there are more")
@click.option(
    "--from", "start", metavar="START", help="The first version or time (Delta), or the snapshot before (Iceberg)."
)
@click.option("--to", "end", metavar="END", help="The last version, time or snapshot; that which is open by default.")
@click.option("--derived", is_flag=True, help="Derive changes of versions that recorded none from their files (Delta).")
def changes(
    table: DeltaTable | IcebergTable,
    as_json: bool,
    limit: int | None,
    start: str | None,
    end: str | None,
    derived: bool,
    **which: Any,
) -> None:
    """Print the rows that changed between two versions or snapshots."""
    from deltaberg import IcebergTable as Iceberg

    # One row more than is printed tells whether there are more.
    read = _FIRST_ROWS + 1 if limit is None else limit
    if isinstance(table, Iceberg):
        if derived:
            raise click.BadParameter("it applies only to Delta tables", param_hint="--derived")
        scan = table.changes(_snapshot(start, "--from"), _snapshot(end, "--to"), limit=read, **which)
    else:
        first = 0 if start is None else _moment(start)
        last = None if end is None else _moment(end)
        scan = table.changes(first, last, limit=read, derived=derived, **which)
    _print_rows(scan, as_json, _FIRST_ROWS if limit is None else None)


def _snapshot(text: str | None, option: str) -> int | None:
    number = None if text is None else whole_number(text, 0)
    if text is None or number is not None:
        return number
    raise click.BadParameter("it is not the number of a snapshot", param_hint=option)


def _moment(text: str) -> int | str:
    number = whole_number(text, 0)
    return text if number is None else number


@table_command
@scan_options
@_limited(_FIRST_ROWS, str(_FIRST_ROWS))
def head(table: DeltaTable | IcebergTable, as_json: bool, **which: Any) -> None:
    """Print the first rows."""
    _print_rows(table.scan(**which), as_json)


def _print_rows(scan: Scan, as_json: bool, most: int | None = None) -> None:
    """Print the rows of a scan: all of them, or the first ones, and then a note if there are more."""
    from deltaberg.cli.show.values import json_rows
    from deltaberg.table.read.scan import bound_scan

    batches = scan.to_batches()
    with progress("reading"):
        first = next(batches, None)
    columns = bound_scan(scan).output
    rest = (row for batch in batches for row in json_rows(batch, columns))
    rows = (row for some in ([] if first is None else json_rows(first, columns), rest) for row in some)
    print_rows(scan.schema.names, islice(rows, most), as_json)
    if next(rows, None) is not None:
        sys.stdout.flush()
        click.echo(f"These are the first {most} rows, and there are more; --limit N prints N of them.", err=True)


#: What names the rows that the table has, for a command that begins after them by default.
_BEGINNING, _LATEST = "beginning", "latest"


@table_command
@scan_options
@click.option(
    "--start",
    default=_LATEST,
    metavar="START",
    help=f"{_LATEST}, {_BEGINNING} for all rows of the table first, a version (Delta), a snapshot (Iceberg), a time, "
    f"or the token of a commit.  [default: {_LATEST}]",
)
@click.option("--changes", is_flag=True, help="Print all changes in place of added rows.")
@click.option("--skip-changes", is_flag=True, help="Pass over commits that change or delete rows.")
@click.option("--poll", type=float, default=1.0, show_default=True, metavar="SECONDS", help="How long to wait between.")
@click.option("--once", is_flag=True, help="End where nothing is new, in place of waiting.")
def tail(
    table: DeltaTable | IcebergTable,
    as_json: bool,
    start: str,
    changes: bool,
    skip_changes: bool,
    poll: float,
    once: bool,
    **which: Any,
) -> None:
    """Print the rows of new commits as they come, each commit once."""
    from deltaberg.cli.show.values import json_rows
    from deltaberg.table.read.scan import bound_scan

    commits = table.follow(
        None if start == _BEGINNING else _moment(start),
        changes=changes,
        skip_changes=skip_changes,
        poll=None if once else poll,
        **which,
    )

    def rows_of(commit: FollowedCommit) -> Iterator[dict[str, Any]]:
        columns = bound_scan(commit.rows).output
        for batch in commit.rows.to_batches():
            yield from json_rows(batch, columns)
            sys.stdout.flush()
        click.echo(f"after commit {commit.version}: --start {shlex.quote(commit.token)}", err=True)

    first = next(commits, None)
    if first is None:
        return
    names, every = first.rows.schema.names, chain([first], commits)
    if as_json or not sys.stdout.isatty():
        print_rows(names, (row for commit in every for row in rows_of(commit)), as_json)
    else:
        for commit in every:
            print_rows(names, rows_of(commit), as_json)


@table_command
@click.argument("name")
def metadata(table: DeltaTable | IcebergTable, as_json: bool, name: MetadataTable) -> None:
    """Print a metadata table of an Iceberg table, such as snapshots, manifests or partitions."""
    from deltaberg import IcebergTable as Iceberg
    from deltaberg.cli.show.values import json_rows

    if not isinstance(table, Iceberg):
        raise click.UsageError("only Iceberg tables have metadata tables; try inspect, history or files")
    with progress("reading"):
        found = table.inspect(name)
    print_rows(found.column_names, json_rows(found), as_json)
