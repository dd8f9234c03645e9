"""What others do while a compaction runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from deltaberg.table.maintain import compact

__all__ = ["while_files_are_written"]


def while_files_are_written(patch: pytest.MonkeyPatch, *others: Callable[[], object]) -> None:
    """Let something happen between the writing of each group of files and its commit, as long as there is something."""
    left, write = list(others), compact._write

    def written(*arguments: Any) -> Any:
        found = write(*arguments)
        if left:
            left.pop(0)()
        return found

    patch.setattr(compact, "_write", written)
