"""Changing rows of a table of any format: which rows, and what the files hold without them or with others."""

from __future__ import annotations

from deltaberg.table.rewrite.assignments import Assignments, bind_assignments
from deltaberg.table.rewrite.clauses import MergeBuilder, MergeClause
from deltaberg.table.rewrite.match import (
    MatchedRows,
    RowSearch,
    RowTest,
    count_rows,
    find_rows,
    matching_rows,
    search_here,
)
from deltaberg.table.rewrite.positions import RowPositions, positions_of
from deltaberg.table.rewrite.rows import Change, Replacement, matched_rows, rewritten_rows

__all__ = [
    "Assignments",
    "Change",
    "MatchedRows",
    "MergeBuilder",
    "MergeClause",
    "Replacement",
    "RowPositions",
    "RowSearch",
    "RowTest",
    "bind_assignments",
    "count_rows",
    "find_rows",
    "matched_rows",
    "matching_rows",
    "positions_of",
    "rewritten_rows",
    "search_here",
]
