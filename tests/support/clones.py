"""Tables to clone, and what is copied of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deltaberg import DeltaTable
from deltaberg.table.maintain.cloning import file_copy
from tests.support.rows import ids
from tests.support.vacuums import MANY, VECTORS, new_table

__all__ = ["ROW_IDS", "TRACKED", "note_copies", "with_vectors"]

TRACKED = {"delta.enableRowTracking": "true"}
ROW_IDS = ["id", "_metadata.row_id", "_metadata.row_commit_version"]


def note_copies(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that gets the source of each copy."""
    copies: list[str] = []
    copy = file_copy.copy_object

    def counted(store: Any, source: Any, *others: Any, **named: Any) -> int:
        copies.append(source.path)
        return copy(store, source, *others, **named)

    monkeypatch.setattr(file_copy, "copy_object", counted)
    return copies


def with_vectors(root: Path, **properties: str) -> DeltaTable:
    """Return a table of two files, one of which has its deletion vector in a file."""
    table = new_table(root, **VECTORS, **properties)
    table.append(MANY)
    table.delete("id % 2 = 1", strategy="merge-on-read")
    table.append(ids(-1))
    return table
