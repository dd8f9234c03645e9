"""The options of all commands: the table, its version, and its store."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable
from typing import Any

import click

from deltaberg.cli.place import TablePlace

__all__ = [
    "TRACEBACK",
    "column_names",
    "columns_option",
    "filter_option",
    "pairs",
    "place_options",
    "scan_options",
    "table_command",
]

#: The key under which click's context stores whether tracebacks are wanted.
TRACEBACK = "deltaberg.traceback"
# Commas separate names, except inside backticks.
_NAME = re.compile("(?:`[^`]*`|[^,`])+")


def pairs(_context: click.Context, parameter: click.Parameter | None, values: Iterable[str]) -> dict[str, str]:
    """Return values of the form NAME=VALUE as a mapping. What is wrong with them shows none: it may be a secret."""
    pairs: dict[str, str] = {}
    for value in values:
        name, equals, text = value.partition("=")
        if not equals or not name:
            form = "KEY=VALUE" if parameter is None else parameter.metavar
            raise click.BadParameter(f"a value is not of the form {form}", param=parameter)
        if pairs.setdefault(name, text) != text:
            raise click.BadParameter(f"{name} is given two values", param=parameter)
    return pairs


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
_CATALOG = click.option(
    "--catalog",
    metavar="NAME",
    help="TABLE is a name in this Iceberg catalog of the configuration; --storage-option sets its properties.",
)
_TRACEBACK = click.option(
    "--traceback",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_want_traceback,
    help="Show where an error came from; so does DELTABERG_TRACEBACK=1.",
)
_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON, which is exact for every type.")
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
    _CATALOG,
    click.option(
        "--location-map",
        multiple=True,
        callback=_moved,
        metavar="FROM=TO",
        help="Read files that the metadata records under FROM from TO, or auto; may be repeated.",
    ),
    _JSON,
    _TRACEBACK,
)


def place_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options that say where a table is, and how the outcome is printed."""
    for option in (_TRACEBACK, _JSON, _CATALOG, _STORE, click.argument("table")):
        function = option(function)
    return function


def table_command(function: Callable[..., None]) -> click.Command:
    """Turn a function of an open table, ``as_json`` and the command's own options into a command."""

    @functools.wraps(function)
    def command(
        table: str,
        storage_option: dict[str, str],
        catalog: str | None,
        **options: Any,
    ) -> None:
        names = ("version", "snapshot_id", "ref", "timestamp", "location_map")
        chosen = {name: options.pop(name) for name in names}
        function(TablePlace(table, storage_option, catalog).open(**chosen), **options)

    for option in reversed(_OPTIONS):
        command = option(command)
    return click.command(function.__name__)(command)


def column_names(_context: click.Context, parameter: click.Parameter, text: str | None) -> list[str] | None:
    """Return names that are separated by commas."""
    names = None if text is None else [name.strip() for name in _NAME.findall(text) if name.strip()]
    if names == []:
        raise click.BadParameter("no columns are named", param=parameter)
    return names


def filter_option(function: Callable[..., None]) -> Callable[..., None]:
    """Add the option that filters rows."""
    return click.option("--filter", "-f", metavar="SQL", help="Only rows for which this condition is true.")(function)


def columns_option(function: Callable[..., None]) -> Callable[..., None]:
    """Add the option that names columns."""
    text = "Only these columns, separated by commas."
    return click.option("--columns", "-c", callback=column_names, metavar="NAMES", help=text)(function)


def scan_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options that describe a scan, as the arguments of `scan`."""
    return columns_option(filter_option(function))
