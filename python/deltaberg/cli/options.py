"""What all commands take: the table, the version, the store."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable
from typing import Any

import click

from deltaberg import open_table

__all__ = ["as_json", "scan_options", "table_command"]


def _pairs(_context: click.Context, parameter: click.Parameter, values: Iterable[str]) -> dict[str, str]:
    found = {}
    for value in values:
        name, equals, text = value.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"{value!r} is not NAME=VALUE", param=parameter)
        found[name] = text
    return found


def table_command(help: str) -> Callable[[Callable[..., None]], click.Command]:
    """Make a command of a function that takes an open table, and the command's own options."""

    def decorate(function: Callable[..., None]) -> click.Command:
        @functools.wraps(function)
        def command(
            table: str,
            version: int | None,
            timestamp: str | None,
            storage_option: dict[str, str],
            location_map: dict[str, str],
            **options: Any,
        ) -> None:
            with _busy(f"opening {table}"):
                opened = open_table(
                    table,
                    version=version,
                    timestamp=timestamp,
                    storage_options=storage_option,
                    location_map=location_map or None,
                )
            function(opened, **options)

        for option in (
            click.option(
                "--location-map",
                multiple=True,
                callback=_pairs,
                metavar="FROM=TO",
                help="Where files are now that metadata names by FROM; may be repeated.",
            ),
            click.option(
                "--storage-option",
                "-o",
                multiple=True,
                callback=_pairs,
                metavar="NAME=VALUE",
                help="An option of the store, such as AWS_REGION=eu-west-1; may be repeated.",
            ),
            click.option("--timestamp", "-t", metavar="TIME", help="The newest version not later than TIME."),
            click.option("--version", "-v", type=click.IntRange(min=0), help="The version; the newest by default."),
            click.argument("table"),
        ):
            command = option(command)
        return click.command(function.__name__.rstrip("_"), help=help)(command)

    return decorate


def as_json(function: Callable[..., None]) -> Callable[..., None]:
    """Add the option ``--json``."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, exact in every type.")(function)


def scan_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options that describe a scan."""
    filtered = click.option("--filter", "-f", metavar="SQL", help="Only rows for which SQL is true.")(function)
    return click.option("--columns", "-c", metavar="NAMES", help="Columns, separated by commas.")(filtered)


class _busy:  # noqa: N801 - reads as a phrase where it is used
    """Shows on a terminal that something is under way; writes nothing anywhere else."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._status: Any = None

    def __enter__(self) -> None:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.text import Text

            self._status = Console(stderr=True).status(Text(self._what))
            self._status.start()

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()
