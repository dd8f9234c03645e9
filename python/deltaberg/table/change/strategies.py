"""How deleted and replaced rows leave the files of a table."""

from __future__ import annotations

from typing import get_args

from deltaberg.choices import Strategy
from deltaberg.table.arguments import checked_choice

__all__ = ["COPY_ON_WRITE", "MERGE_ON_READ", "checked_strategy"]

#: Rows are hidden, and their files stay; or their files are written anew without them.
MERGE_ON_READ: Strategy
COPY_ON_WRITE: Strategy
MERGE_ON_READ, COPY_ON_WRITE = get_args(Strategy)


def checked_strategy(strategy: str | None) -> None:
    """Refuse what is no strategy; None leaves the choice to the table.

    Raises
    ------
    InvalidArgumentError
        There is no such strategy.
    """
    if strategy is not None:
        checked_choice("strategy", strategy, get_args(Strategy), "leave it out for the table's")
