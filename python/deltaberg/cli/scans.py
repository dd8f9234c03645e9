"""Commands about scans: files, plan, head."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from deltaberg.cli.options import scan_options, table_command
from deltaberg.cli.output import print_facts, print_json, print_table, progress

if TYPE_CHECKING:
    from deltaberg import DeltaTable, IcebergTable, Scan
    from deltaberg.schema import Field, Struct

__all__ = ["files", "head", "plan"]

# Commas separate names, except inside backticks.
_NAME = re.compile("(?:`[^`]*`|[^,`])+")


def _scan(table: DeltaTable | IcebergTable, filter: str | None, columns: str | None, limit: int | None = None) -> Scan:
    names = None if columns is None else [name.strip() for name in _NAME.findall(columns) if name.strip()]
    if names == []:
        raise click.BadParameter("no columns are named", param_hint="--columns")
    return table.scan(filter, names, limit)


@table_command
@scan_options
@click.option("--stats", is_flag=True, help="Add the recorded bounds and null counts of the columns.")
def files(
    table: DeltaTable | IcebergTable, as_json: bool, filter: str | None, columns: str | None, stats: bool
) -> None:
    """List the live data files that a scan reads."""
    from deltaberg.cli.values import json_rows

    with progress("planning"):
        scan = _scan(table, filter, columns)
        found = scan.files(statistics=stats)
    rows = json_rows(found, _types_of_files(scan))
    if not as_json:
        print_table(found.column_names, rows)
        return
    for row in rows:
        print_json(row)


def _types_of_files(scan: Scan) -> Struct:
    """Return the table types of the columns of `Scan.files` that describe table columns."""
    from deltaberg.schema import Field, Struct, join_name

    def leaves(within: Struct, above: tuple[str, ...] = ()) -> Iterator[Field]:
        for child in within:
            path = (*above, child.name)
            if isinstance(child.type, Struct):
                yield from leaves(child.type, path)
            else:
                yield Field(join_name(path), child.type)

    bounds = Struct(tuple(leaves(scan.output)))
    partition = scan.source.hidden.get("_partition")
    known = () if partition is None else (Field("partition", partition.type),)
    return Struct((*known, Field("lower_bounds", bounds), Field("upper_bounds", bounds)))


@table_command
@scan_options
def plan(table: DeltaTable | IcebergTable, as_json: bool, filter: str | None, columns: str | None) -> None:
    """Explain what a scan reads, and why."""
    with progress("planning"):
        explained = _scan(table, filter, columns).explanation()
    if as_json:
        steps = [{"step": step.name, "files": step.files, "bytes": step.size} for step in explained.steps]
        print_json({**asdict(explained), "steps": steps})
    else:
        print_facts(explained.facts, explained.title)


@table_command
@scan_options
@click.option(
    "--limit", "-n", type=click.IntRange(min=0), default=10, show_default=True, help="The most rows to print."
)
def head(table: DeltaTable | IcebergTable, as_json: bool, filter: str | None, columns: str | None, limit: int) -> None:
    """Print the first rows."""
    from deltaberg.cli.values import json_rows

    scan = _scan(table, filter, columns, limit)
    batches = scan.to_batches()
    with progress("reading"):
        first = next(batches, None)
    rest = (row for batch in batches for row in json_rows(batch, scan.output))
    rows = (row for some in ([] if first is None else json_rows(first, scan.output), rest) for row in some)
    if not as_json:
        print_table(scan.schema.names, rows)
        return
    for row in rows:
        print_json(row)
