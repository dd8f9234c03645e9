"""Commands about what a scan reads: files, plan, head."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from deltaberg.cli.options import scan_options, table_command
from deltaberg.cli.output import print_facts, print_json, print_table, progress

if TYPE_CHECKING:
    from deltaberg import DeltaTable, IcebergTable, Scan

__all__ = ["files", "head", "plan"]

# Commas separate names, but not inside of backticks.
_NAME = re.compile("(?:`[^`]*`|[^,`])+")


def _scan(table: DeltaTable | IcebergTable, filter: str | None, columns: str | None, limit: int | None = None) -> Scan:
    names = None if columns is None else [name.strip() for name in _NAME.findall(columns) if name.strip()]
    if names == []:
        raise click.BadParameter("no column is named", param_hint="--columns")
    return table.scan(filter, names, limit)


@table_command
@scan_options
@click.option("--stats", is_flag=True, help="Also what is recorded of the columns: bounds and counts of nulls.")
def files(
    table: DeltaTable | IcebergTable, as_json: bool, filter: str | None, columns: str | None, stats: bool
) -> None:
    """List the live data files that a scan reads."""
    from deltaberg.cli.values import json_rows

    with progress("planning"):
        found = _scan(table, filter, columns).files(statistics=stats)
    if not as_json:
        print_table(found.column_names, json_rows(found))
        return
    for row in json_rows(found):
        print_json(row)


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
@click.option("--limit", "-n", type=click.IntRange(min=0), default=10, show_default=True, help="How many at most.")
def head(table: DeltaTable | IcebergTable, as_json: bool, filter: str | None, columns: str | None, limit: int) -> None:
    """Print the first rows."""
    from deltaberg.cli.values import json_rows

    scan = _scan(table, filter, columns, limit)
    batches = scan.to_batches()
    with progress("reading"):
        first = next(batches, None)
    rest = (row for batch in batches for row in json_rows(batch))
    rows = (row for some in ([] if first is None else json_rows(first), rest) for row in some)
    if not as_json:
        print_table(scan.schema.names, rows)
        return
    for row in rows:
        print_json(row)
