"""Builds commands from verbs, with one option for each argument of the library."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import click

from deltaberg.cli.dry_run import TRYING, dry_run_option
from deltaberg.cli.options import place_options
from deltaberg.cli.place import TablePlace
from deltaberg.cli.rows.file_options import FileReading, file_options
from deltaberg.cli.rows.files import open_row_files
from deltaberg.cli.show.output import row_progress
from deltaberg.cli.show.results import numbers_of, print_result, state_of
from deltaberg.errors import TableNotFoundError

__all__ = ["given", "verb", "write_command"]


def given(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a command that were given."""
    return {name: value for name, value in options.items() if value not in (None, ())}


class _WriteCommand(click.Command):
    """A command with options for arguments of the library, which is asked for them only when they are needed."""

    def __init__(self, *args: Any, shared: tuple[str, ...], **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._shared = shared

    @functools.cached_property
    def _options(self) -> list[click.Parameter]:
        from deltaberg.cli.shared_options import options_of

        return options_of(self._shared)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the options of the command, those of the library, and ``--help``."""
        *own, of_help = super().get_params(ctx)
        return [*own, *self._options, of_help]


def write_command(*shared: str) -> Callable[[Callable[..., None]], click.Command]:
    """Turn a function of the place of a table, ``as_json`` and the command's own options into a command.

    Parameters
    ----------
    shared
        Arguments of the library that the command has options for, as `options_of` takes them. The function gets those
        that were given as ``arguments``, unless there are none.
    """

    def made(function: Callable[..., None]) -> click.Command:
        @functools.wraps(function)
        def command(table: str, storage_option: dict[str, str], catalog: str | None, **options: Any) -> None:
            place = TablePlace(table, storage_option, catalog)
            if not shared:
                function(place=place, **options)
                return
            from deltaberg.cli.shared_options import given_arguments

            function(place=place, arguments=given_arguments(shared, options), **options)

        name = function.__name__.replace("_", "-")
        return click.command(name, cls=_WriteCommand, shared=shared)(place_options(command))

    return made


def verb(
    doing: str,
    *shared: str,
    takes_files: bool = False,
    format: str | None = None,
    previews: Callable[..., Mapping[str, Any]] | None = None,
) -> Callable[[Callable[..., Any]], click.Command]:
    """Turn a function of an open table, the library's arguments and the command's own options into a command.

    The command prints what the function returns, the result of a commit. With ``--dry-run`` the function gets a
    transaction in place of the table, and the command prints what that would do.

    Parameters
    ----------
    doing
        What is shown at a terminal meanwhile, in front of the location of the table.
    shared
        As for `write_command`.
    takes_files
        Whether the command takes files, whose rows the function gets as ``rows``.
    format
        The format that the table has to have; None for any.
    previews
        What finds out in place of the function what would be done. It gets the same, and the function before them.
    """

    def made(function: Callable[..., Any]) -> click.Command:
        @functools.wraps(function)
        def run(
            *,
            place: TablePlace,
            as_json: bool,
            dry_run: bool,
            arguments: dict[str, Any],
            files: tuple[str, ...] = (),
            reading: FileReading | None = None,
            **options: Any,
        ) -> None:
            try:
                opened = place.open(format)
            except TableNotFoundError as error:
                if reading is not None and place.catalog is None:
                    like = f"--format {reading.format} " if reading.format else ""
                    error.hint = (
                        f"deltaberg create {place.location} {like}--like {files[0]} creates one with these columns"
                    )
                raise
            total = None
            if reading is not None:
                # Columns that are replaced say nothing about those of the files.
                columns = None if options.get("replace_schema") else opened.arrow_schema
                options["rows"], total = open_row_files(
                    files, reading.format, columns, reading.csv, casts=arguments.get("safe") is False
                )
            with row_progress(f"{TRYING if dry_run else doing} {opened.location}", total) as tell:
                arguments["progress"] = lambda done: tell(done.rows, done.files)
                if dry_run:
                    result = (previews or _previewed)(function, opened, arguments, **options)
                else:
                    result = function(opened, arguments, **options)
            print_result(opened.location, result, as_json)

        command: Callable[..., None] = dry_run_option(run)
        if takes_files:
            command = click.argument("files", nargs=-1, required=True, metavar="FILE...")(file_options(command))
        return write_command(*shared)(command)

    return made


def _previewed(function: Callable[..., Any], table: Any, arguments: dict[str, Any], **options: Any) -> dict[str, Any]:
    """Return what the function of a verb would do to a table."""
    from deltaberg.table.verbs.matching import preview

    found = preview(table, lambda transaction, rest: function(transaction, rest, **options), arguments)
    return {**state_of(table, arguments.get("branch")), **numbers_of(found)}
