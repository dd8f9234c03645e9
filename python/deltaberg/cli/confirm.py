"""Commands that take something away: they show what would go, and ask before they do it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

import click

from deltaberg.cli.show.output import print_lines, progress

__all__ = ["Question", "ask", "asking_options", "carry_out"]

_Result = TypeVar("_Result")

#: The exit code where something was not wanted.
_DECLINED = 1
_DRY_RUN = click.option("--dry-run", is_flag=True, help="Only show what would be done.")
_YES = click.option("--yes", "-y", "is_agreed", is_flag=True, help="Do it without a question.")


def asking_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add ``--dry-run`` and ``--yes``."""
    return _DRY_RUN(_YES(function))


class Question(NamedTuple):
    """What a command asks before it does something: see `ask`."""

    question: str
    shown: Iterable[str]
    otherwise: str = "nothing was changed"


def carry_out(
    location: str,
    doing: str,
    plan: Callable[[], _Result],
    do: Callable[[], _Result],
    show: Callable[[_Result], object],
    asks: Callable[[_Result], Question | None],
    *,
    dry_run: bool,
    is_agreed: bool,
) -> _Result | None:
    """Find out what a command would do, ask, do it, and print what was done, which is returned.

    Where nothing is to be done, or with ``--dry-run``, what was found out is printed, and None is returned.

    Parameters
    ----------
    location, doing
        The table, and what is being done to it.
    plan, do
        Finds out what would be done, and does it.
    show
        Prints either.
    asks
        Returns what is asked; None if nothing is to be done.
    """
    if dry_run or not is_agreed:
        with progress(f"looking at {location}"):
            planned = plan()
        asked = None if dry_run else asks(planned)
        if asked is None:
            show(planned)
            return None
        ask(*asked)
    with progress(f"{doing} {location}"):
        result = do()
    show(result)
    return result


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
