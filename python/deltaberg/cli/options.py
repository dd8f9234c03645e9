"""The options of all commands: the table, its version, and its store."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import click

from deltaberg.cli.endings import TRACEBACK
from deltaberg.cli.output import progress

__all__ = ["pairs", "scan_options", "table_command", "write_command"]


def pairs(_context: click.Context, parameter: click.Parameter, values: Iterable[str]) -> dict[str, str]:
    """Return values of the form NAME=VALUE as a mapping."""
    found = {}
    for value in values:
        name, equals, text = value.partition("=")
        if not equals or not name:
            # The value is not shown: it may be a secret.
            raise click.BadParameter(f"a value is not of the form {parameter.metavar}", param=parameter)
        found[name] = text
    return found


def _moved(context: click.Context, parameter: click.Parameter, values: Iterable[str]) -> dict[str, str] | str | None:
    """Return a location map, or ``auto``."""
    given = list(values)
    return "auto" if given == ["auto"] else pairs(context, parameter, given) or None


def _want_traceback(ctx: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    ctx.meta[TRACEBACK] = wanted


_STORE = click.option(
    "--storage-option",
    "-o",
    multiple=True,
    callback=pairs,
    metavar="KEY=VALUE",
    help="An option of the store, such as AWS_REGION=eu-west-1; may be repeated.",
)
_TRACEBACK = click.option(
    "--traceback",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_want_traceback,
    help="Show where an error came from; so does DELTABERG_TRACEBACK=1.",
)
# In the order of the help text.
_OPTIONS = (
    click.argument("table"),
    click.option(
        "--version", "-v", type=click.IntRange(min=0), help="Open this version (Delta); the newest by default."
    ),
    click.option("--snapshot-id", "-s", type=click.IntRange(min=0), help="Open this snapshot (Iceberg)."),
    click.option("--ref", "-r", metavar="NAME", help="Open this branch or tag (Iceberg)."),
    click.option(
        "--timestamp", "-t", metavar="TEXT", help="Open the newest version or snapshot not later than this time."
    ),
    _STORE,
    click.option(
        "--location-map",
        multiple=True,
        callback=_moved,
        metavar="FROM=TO",
        help="Read files that the metadata records under FROM from TO, or auto; may be repeated.",
    ),
    click.option("--json", "as_json", is_flag=True, help="Print JSON, which is exact for every type."),
    _TRACEBACK,
)

_WRITE_OPTIONS = (
    click.argument("table"),
    _STORE,
    click.option("--json", "as_json", is_flag=True, help="Print what was done as JSON."),
    _TRACEBACK,
)


def write_command(function: Callable[..., None]) -> click.Command:
    """Turn a function of the place of a table, ``storage_option``, ``as_json`` and its own options into a command."""
    command = function
    for option in reversed(_WRITE_OPTIONS):
        command = option(command)
    return click.command(function.__name__.replace("_", "-"))(command)


def table_command(function: Callable[..., None]) -> click.Command:
    """Turn a function of an open table, ``as_json`` and the command's own options into a command."""

    @functools.wraps(function)
    def command(
        table: str,
        storage_option: dict[str, str],
        location_map: dict[str, str] | str | None,
        **options: Any,
    ) -> None:
        chosen = {name: options.pop(name) for name in ("version", "snapshot_id", "ref", "timestamp")}
        with progress(f"opening {table}"):
            from deltaberg.api import open_table

            opened = open_table(table, storage_options=storage_option, location_map=location_map, **chosen)
        function(opened, **options)

    for option in reversed(_OPTIONS):
        command = option(command)
    return click.command(function.__name__)(command)


def scan_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options that describe a scan."""
    filtered = click.option("--filter", "-f", metavar="SQL", help="Only rows for which this condition is true.")(
        function
    )
    return click.option("--columns", "-c", metavar="NAMES", help="Only these columns, separated by commas.")(filtered)
