"""Commands about what a scan reads: files, plan, head."""

from __future__ import annotations

import re

import click

from deltaberg import DeltaTable, Scan
from deltaberg.cli.options import as_json, scan_options, table_command
from deltaberg.cli.text import json_rows, print_json, print_lines, print_table

__all__ = ["COMMANDS"]

# Commas separate names, but not inside of backticks.
_NAME = re.compile("(?:`[^`]*`|[^,`])+")


def _scan(table: DeltaTable, filter: str | None, columns: str | None, limit: int | None = None) -> Scan:
    names = None if columns is None else [name.strip() for name in _NAME.findall(columns) if name.strip()]
    return table.scan(filter, names, limit)


@table_command("List the data files that a scan reads.")
@scan_options
@as_json
def files(table: DeltaTable, filter: str | None, columns: str | None, as_json: bool) -> None:
    """List the files."""
    found = _scan(table, filter, columns).files()
    if as_json:
        for row in json_rows(found):
            print_json(row)
    else:
        print_table(found.column_names, (list(row.values()) for row in json_rows(found)))


@table_command("Explain what a scan reads, and why.")
@scan_options
@as_json
def plan(table: DeltaTable, filter: str | None, columns: str | None, as_json: bool) -> None:
    """Explain a scan."""
    scan = _scan(table, filter, columns)
    if not as_json:
        print_lines(scan.explain())
        return
    steps = [{"step": step.name, "files": step.files, "bytes": step.size} for step in scan.plan.steps]
    print_json({"location": table.location, "version": table.version, "columns": scan.schema.names, "steps": steps})


@table_command("Print the first rows.")
@scan_options
@click.option("--limit", "-n", type=click.IntRange(min=0), default=10, show_default=True, help="How many at most.")
@as_json
def head(table: DeltaTable, filter: str | None, columns: str | None, limit: int, as_json: bool) -> None:
    """Print rows."""
    scan = _scan(table, filter, columns, limit)
    rows = (row for batch in scan.to_batches() for row in json_rows(batch))
    if as_json:
        for row in rows:
            print_json(row)
    else:
        print_table(scan.schema.names, (list(row.values()) for row in rows))


COMMANDS = (files, plan, head)
