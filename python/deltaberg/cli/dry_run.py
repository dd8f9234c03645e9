"""Dry runs of commands: everything is done but sending the commit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

__all__ = ["TRYING", "dry_run_option", "unsent"]

#: What a dry run does to a table.
TRYING = "looking at"


def dry_run_option(function: Callable[..., None]) -> Callable[..., None]:
    """Add ``--dry-run``, which every command has that changes something."""
    return click.option("--dry-run", is_flag=True, help="Only show what would be done, in numbers.")(function)


class _ReadyToSend(Exception):  # noqa: N818 - it is no error
    """A change has been prepared."""


def unsent(commit: Callable[[Any], object]) -> Any:
    """Return the change that a verb would send, which takes back what it has written; None if it would send none.

    Parameters
    ----------
    commit
        Calls the verb with the policy that it gets.
    """
    from deltaberg.table.commit.commit import ClockedPolicy

    def stop(change: object) -> None:
        raise _ReadyToSend(change)

    try:
        commit(ClockedPolicy(ready=stop))
    except _ReadyToSend as ready:
        return ready.args[0]
    return None
