"""Commands that take something away: they show what would go, and ask before they do it."""

from __future__ import annotations

import sys
from collections.abc import Callable

import click

__all__ = ["asking_options", "confirmed"]

_DRY_RUN = click.option("--dry-run", is_flag=True, help="Only show what would be done.")
_YES = click.option("--yes", "-y", "is_agreed", is_flag=True, help="Do it without a question.")


def asking_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add ``--dry-run`` and ``--yes``."""
    return _DRY_RUN(_YES(function))


def confirmed(question: str, *, is_agreed: bool) -> bool:
    """Return whether something is to be done: it is agreed to, or whoever is at the terminal says so.

    Raises
    ------
    click.UsageError
        Nobody can be asked.
    """
    if is_agreed:
        return True
    if not _can_ask():
        raise click.UsageError("there is no terminal at which to ask: pass --yes to do it, or --dry-run to see it")
    return click.confirm(question, err=True)


def _can_ask() -> bool:
    return sys.stdin.isatty()
