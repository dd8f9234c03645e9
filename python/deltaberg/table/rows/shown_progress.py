"""Progress that is shown at a terminal or in a notebook, for callers who pass ``progress=True``."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from deltaberg.errors import MissingDependencyError
from deltaberg.table.arguments import checked_function
from deltaberg.whole_numbers import counted

__all__ = ["ShownProgress", "check_progress", "described", "receiver", "shown_while"]

#: What one of the numbers counts.
_UNITS = {"rows": "row", "files": "file", "tasks": "task"}
#: What follows a number that is a part of the next one.
_PART = "_read"


def receiver(progress: Any, taken: str) -> Callable[[Any], object] | None:
    """Return what is told how far something has come; None if nothing is.

    Parameters
    ----------
    progress
        A function, or True to show it, which is done where standard error is a terminal, or in a notebook.
    taken
        What a function is called with.

    Raises
    ------
    InvalidArgumentError
        It cannot be called.
    MissingDependencyError
        It is to be shown, and rich is not installed.
    """
    check_progress(progress, taken)
    if progress is True:
        return ShownProgress.on_screen()
    tell: Callable[[Any], object] | None = None if progress is False else progress
    return tell


def check_progress(progress: Any, taken: str) -> None:
    """Refuse what `receiver` refuses, where perhaps nothing is told."""
    if progress is not None and progress is not True and progress is not False:
        checked_function("progress", progress, taken)


@contextmanager
def shown_while(progress: Any, taken: str) -> Iterator[Callable[[Any], object] | None]:
    """Yield what `receiver` returns, and remove at the end what it shows."""
    tell = receiver(progress, taken)
    try:
        yield tell
    finally:
        if isinstance(tell, ShownProgress):
            tell.close()


def described(done: Any) -> str:
    """Return numbers with their names. What is not known is left out.

    Examples
    --------
    >>> from deltaberg.table.rows.progress import WriteProgress
    >>> described(WriteProgress(rows=5, files=1))
    '5 rows, 1 file'
    """
    shown, part = [], ""
    for name, value in done._asdict().items():
        if name.endswith(_PART):
            part = f"{value} of "
        elif isinstance(value, tuple):
            shown.append(described(value))
        elif isinstance(value, str):
            shown.append(value)
        elif value is not None:
            unit = _UNITS.get(name)
            shown.append(part + (f"{value} {name}" if unit is None else counted(value, unit)))
            part = ""
    return ", ".join(shown)


class ShownProgress:
    """Shows the numbers that it is called with on one line, until it is closed, or nobody holds it any more.

    Parameters
    ----------
    bar
        The display: a `rich.progress.Progress` that has started.

    Attributes
    ----------
    close
        Takes the line away.
    """

    def __init__(self, bar: Any) -> None:
        self._bar = bar
        self._task = bar.add_task("", total=None)
        # A write that fails closes nothing, and the line would stay; the bar has a thread that holds it.
        self.close = weakref.finalize(self, bar.stop)

    @classmethod
    def on_screen(cls) -> ShownProgress | None:
        """Return one that shows what it is told; None where nobody would see it.

        Raises
        ------
        MissingDependencyError
            Rich is not installed.
        """
        try:
            from rich.console import Console
            from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
        except ImportError as error:
            raise MissingDependencyError(
                "the package rich, which shows how far a write has come, is not installed",
                hint="run pip install rich, or pass a function",
            ) from error
        console = Console(stderr=True)
        if not console.is_jupyter and (not console.is_terminal or console.is_dumb_terminal):
            return None
        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        bar = Progress(*columns, console=console, transient=True)
        bar.start()
        return cls(bar)

    def __call__(self, done: Any) -> None:
        """Show numbers, by their names."""
        self._bar.update(self._task, description=described(done))
