"""Commands that take something away: they show what would go, and ask before they do it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable

import click

from deltaberg.cli.show.output import print_lines

__all__ = ["ask", "asking_options"]

#: The exit code where something was not wanted.
_DECLINED = 1
_DRY_RUN = click.option("--dry-run", is_flag=True, help="Only show what would be done.")
_YES = click.option("--yes", "-y", "is_agreed", is_flag=True, help="Do it without a question.")


def asking_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add ``--dry-run`` and ``--yes``."""
    return _DRY_RUN(_YES(function))


def ask(question: str, shown: Iterable[str], otherwise: str) -> None:
    """Show what would go, and go on only if whoever is at the terminal agrees.

    Parameters
    ----------
    shown
        What would go, a line each.
    otherwise
        What is said where nobody agrees; the exit code is 1 then.

    Raises
    ------
    click.UsageError
        Nobody can be asked.
    """
    print_lines(*shown, to_error=True)
    if not _can_ask():
        raise click.UsageError("there is no terminal at which to ask: pass --yes to do it, or --dry-run to see it")
    if not click.confirm(question, err=True):
        print_lines(otherwise, to_error=True)
        raise click.exceptions.Exit(_DECLINED)


def _can_ask() -> bool:
    return sys.stdin.isatty()
