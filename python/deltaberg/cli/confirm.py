"""Commands that take something away: they show what would go, and ask before they do it."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import click

from deltaberg.cli.dry_run import TRYING, dry_run_option
from deltaberg.cli.place import TablePlace
from deltaberg.cli.show.output import Tell, print_lines, progress
from deltaberg.cli.show.results import in_words, print_done

__all__ = ["Asking", "Question", "ask", "asking", "asking_options"]

_Result = TypeVar("_Result")

#: The exit code where something was not wanted.
_DECLINED = 1
_YES = click.option("--yes", "-y", "is_agreed", is_flag=True, help="Do it without a question.")


def asking_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add ``--dry-run`` and ``--yes``, as ``dry_run`` and ``is_agreed``, to a command that opens no table."""
    return dry_run_option(_YES(function))


def asking(
    format: str | None = None, *, at: Sequence[str] = ()
) -> Callable[[Callable[..., object]], Callable[..., None]]:
    """Add ``--dry-run`` and ``--yes`` to a command, whose function gets the open table and an `Asking`.

    Parameters
    ----------
    format
        The format that the table has to have; None for any.
    at
        The options that say in which state the table is opened.
    """

    def made(function: Callable[..., object]) -> Callable[..., None]:
        @functools.wraps(function)
        def run(place: TablePlace, as_json: bool, dry_run: bool, is_agreed: bool, **options: Any) -> None:
            opened = place.open(format, **{name: options.pop(name) for name in at})
            function(opened, Asking(opened.location, as_json, dry_run, is_agreed), **options)

        return asking_options(run)

    return made


class Question(NamedTuple):
    """The question of a command before it does something: see `ask`."""

    question: str
    shown: Iterable[str]
    otherwise: str = "nothing was changed"


class Asking(NamedTuple):
    """The table of a command that asks, and what the command line said of the asking."""

    location: str
    as_json: bool
    dry_run: bool
    is_agreed: bool

    def carry_out(
        self,
        doing: str,
        run: Callable[[bool, Tell], _Result],
        show: Callable[[_Result], object],
        asks: Callable[[_Result], Question | None],
    ) -> _Result | None:
        """Find out what a command would do, ask, do it, and print what was done, which is returned.

        Where nothing is to be done, or with ``--dry-run``, what was found out is printed, and None is returned.

        Parameters
        ----------
        doing
            What is being done to the table.
        run
            Does it, or finds out what would be done, and tells how far it is.
        show
            Prints what either returns.
        asks
            Returns what is asked; None if nothing is to be done.
        """
        if self.dry_run or not self.is_agreed:
            with progress(f"{TRYING} {self.location}") as tell:
                planned = run(True, tell)
            asked = None if self.dry_run else asks(planned)
            if asked is None:
                show(planned)
                return None
            ask(*asked)
        with progress(f"{doing} {self.location}") as tell:
            result = run(False, tell)
        show(result)
        return result

    def print(self, result: object, facts: Mapping[str, Any], lines: Iterable[str] = ()) -> None:
        """Print facts as JSON, or lines and the result as text."""
        if self.as_json:
            print_done(self.location, facts, self.as_json)
        else:
            print_lines(*lines, f"{self.location}: {in_words(result)}")


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
