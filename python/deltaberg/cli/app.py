"""The commands together, and how errors leave: one line, a hint, and an exit code that a script can tell apart."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from deltaberg._version import __version__
from deltaberg.cli import scans, tables
from deltaberg.cli.text import clean
from deltaberg.errors import (
    ColumnNotFoundError,
    CorruptTableError,
    DataFileNotFoundError,
    DeltabergError,
    ExpressionError,
    InvalidArgumentError,
    ObjectNotFoundError,
    SchemaError,
    SpecViolationError,
    StorageError,
    TableNotFoundError,
    UnsafePathError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)

__all__ = ["EXIT_CODES", "run"]

#: The exit code of each kind of error, the first that fits.
EXIT_CODES: tuple[tuple[type[DeltabergError], int], ...] = (
    (InvalidArgumentError, 2),
    (ExpressionError, 2),
    (ColumnNotFoundError, 2),
    (TableNotFoundError, 3),
    (VersionNotFoundError, 3),
    (DataFileNotFoundError, 3),
    (ObjectNotFoundError, 3),
    (UnsupportedFeatureError, 4),
    (CorruptTableError, 5),
    (SpecViolationError, 5),
    (SchemaError, 5),
    (StorageError, 6),
    (UnsafePathError, 6),
)
_OTHER, _INTERRUPTED, _PIPE_CLOSED = 1, 130, 141


class _Commands(click.Group):
    """The commands; a reader of the output that goes away ends them quietly."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command, and see its output out."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            # The interpreter must not complain when it flushes at the end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(_PIPE_CLOSED)
        return result


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="deltaberg")
def cli() -> None:
    """Look into Delta tables.

    TABLE is a directory or the URL of one. Exit codes: 2 usage, 3 not found, 4 not supported, 5 corrupt table,
    6 storage, 1 anything else.
    """


for _command in (*tables.COMMANDS, *scans.COMMANDS):
    cli.add_command(_command)


def run(arguments: Sequence[str]) -> int:
    """Run the command line and give its exit code."""
    try:
        code = cli.main(args=list(arguments), prog_name="deltaberg", standalone_mode=False)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.Abort:
        return _INTERRUPTED
    except KeyboardInterrupt:
        return _INTERRUPTED
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except DeltabergError as error:
        if os.environ.get("DELTABERG_TRACEBACK"):
            raise
        click.echo(f"deltaberg: {clean(str(error).replace(chr(10), '; '))}", err=True)
        return next((code for kind, code in EXIT_CODES if isinstance(error, kind)), _OTHER)
    return code if isinstance(code, int) else 0
