"""Ends of the program: an error is one line with a hint, and an exit code that a script can act on."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import click

from deltaberg import errors
from deltaberg.cli.command_table import COMMANDS
from deltaberg.cli.hints import in_command_line
from deltaberg.cli.options import TRACEBACK
from deltaberg.cli.show.text import clean

__all__ = ["ENDINGS", "Ending", "endings", "exit_code"]

_TRACEBACK_VARIABLE = "DELTABERG_TRACEBACK"
#: The modules of the commands that are given columns, or rows of some.
_TAKE_COLUMNS = ("alter", "change_rows", "create")
_OTHER, _USAGE, _INTERRUPTED, _PIPE_CLOSED = 1, 2, 130, 141


class Ending(NamedTuple):
    """An exit code, what it means, and the errors that lead to it."""

    code: int
    meaning: str
    kinds: tuple[type[errors.DeltabergError], ...]


#: The exit codes of errors; `docs/cli.md` and ``--help`` list them.
ENDINGS = (
    Ending(_USAGE, "usage", (errors.InvalidArgumentError, errors.ExpressionError, errors.ColumnNotFoundError)),
    Ending(3, "no table", (errors.TableNotFoundError, errors.NamespaceNotFoundError)),
    Ending(4, "no such version", (errors.VersionNotFoundError,)),
    Ending(5, "unsupported feature", (errors.UnsupportedFeatureError,)),
    Ending(6, "corrupt table", (errors.CorruptTableError, errors.SpecViolationError, errors.SchemaError)),
    Ending(7, "data file missing", (errors.DataFileNotFoundError,)),
    Ending(8, "storage", (errors.StorageError,)),
    Ending(9, "unsafe path", (errors.UnsafePathError,)),
    Ending(10, "too large", (errors.TooLargeError,)),
    Ending(11, "package missing", (errors.MissingDependencyError, errors.KernelUnavailableError)),
    Ending(12, "table exists", (errors.TableExistsError,)),
    Ending(13, "commit conflict", (errors.CommitConflictError,)),
    Ending(14, "commit unknown", (errors.CommitUnknownError,)),
    Ending(15, "constraint violated", (errors.ConstraintViolationError,)),
    Ending(16, "value not computed", (errors.EvaluationError,)),
)


def exit_code(error: BaseException) -> int:
    """Return the exit code of an error."""
    return next((ending.code for ending in ENDINGS if isinstance(error, ending.kinds)), _OTHER)


@contextmanager
def endings(ctx: click.Context | None = None) -> Iterator[None]:
    """Turn whatever ends a command early into a message and an exit code."""
    try:
        yield
        sys.stdout.flush()
    except click.exceptions.Exit:
        raise
    except click.ClickException as error:
        raise _stop(error, _usage(error), error.exit_code, ctx) from None
    except BrokenPipeError:
        _abandon_output()
        raise click.exceptions.Exit(_PIPE_CLOSED) from None
    except (KeyboardInterrupt, click.Abort):
        _abandon_output()
        raise click.exceptions.Exit(_INTERRUPTED) from None
    except errors.DeltabergError as error:
        in_command_line(error, ctx)
        hint = f"; hint: {error.hint}" if error.hint else ""
        # An option that a table or a verb does not have is misused, whatever the library says of its argument.
        code = _USAGE if error.message.startswith("--") or _is_of_caller(error, ctx) else exit_code(error)
        raise _stop(error, f"{error.statement}{hint}", code, ctx) from None
    except OSError as error:
        _abandon_output()
        raise _stop(error, str(error), _OTHER, ctx) from None
    except Exception as error:  # noqa: BLE001 - a bug is also reported on one line
        message = f"{type(error).__name__}: {error}; hint: this is a bug, please report it with --traceback"
        raise _stop(error, message, _OTHER, ctx) from None


def _is_of_caller(error: errors.DeltabergError, ctx: click.Context | None) -> bool:
    """Return whether columns or rows do not fit which the command was given, and not those of the table."""
    command = None if ctx is None else COMMANDS.get(ctx.invoked_subcommand or "")
    return isinstance(error, errors.SchemaError) and "file" not in error.context and command in _TAKE_COLUMNS


def _stop(error: Exception, message: str, code: int, ctx: click.Context | None) -> click.exceptions.Exit:
    if os.environ.get(_TRACEBACK_VARIABLE) or (ctx is not None and ctx.meta.get(TRACEBACK)):
        traceback.print_exception(error)
    name = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "deltaberg"
    click.echo(f"{name}: {clean(message)}", err=True)
    return click.exceptions.Exit(code)


def _usage(error: click.ClickException) -> str:
    message = " ".join(error.format_message().split())
    context = error.ctx if isinstance(error, click.UsageError) else None
    path = "deltaberg" if context is None else context.command_path
    missing = error.param if isinstance(error, click.MissingParameter) else None
    pass_it = ""
    if isinstance(missing, click.Option) and context is not None:
        pass_it = f"pass {missing.opts[0]} {missing.make_metavar(context)}, {missing.help or ''}".rstrip(" ,.") + "; "
    return f"{message.rstrip('.')}; hint: {pass_it}see {path} --help"


def _abandon_output() -> None:
    """Discard buffered output, so that the interpreter does not fail when it flushes it at exit."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        # The output is not a file, so nothing is flushed at exit.
        return
