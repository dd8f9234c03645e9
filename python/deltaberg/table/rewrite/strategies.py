"""How deleted and replaced rows leave the files of a table."""

from __future__ import annotations

from deltaberg.table.arguments import checked_choice

__all__ = ["COPY_ON_WRITE", "MERGE_ON_READ", "checked_strategy"]

#: Rows are hidden, and their files stay; or their files are written anew without them.
MERGE_ON_READ, COPY_ON_WRITE = "merge-on-read", "copy-on-write"


def checked_strategy(wanted: str | None) -> None:
    """Refuse what is no strategy; None leaves the choice to the table.

    Raises
    ------
    InvalidArgumentError
        There is no such strategy.
    """
    if wanted is not None:
        checked_choice("strategy", wanted, (MERGE_ON_READ, COPY_ON_WRITE), "leave it out for the table's")
