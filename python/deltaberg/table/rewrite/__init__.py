"""Changing rows of a table of any format: which rows, and what the files hold without them or with others."""

from __future__ import annotations

from deltaberg.table.rewrite.assignments import Assignments, bind_assignments
from deltaberg.table.rewrite.changed_rows import (
    ChangedRows,
    NewFiles,
    RowCounts,
    RowIdentity,
    RowTasks,
    WrittenChange,
)
from deltaberg.table.rewrite.clauses import MergeBuilder, MergeClause
from deltaberg.table.rewrite.conditions import Condition, RowCondition, condition_text, row_condition
from deltaberg.table.rewrite.match import (
    MatchedRows,
    RowSearch,
    RowTest,
    count_rows,
    find_rows,
    matching_rows,
    scan_of_rows,
    search_here,
)
from deltaberg.table.rewrite.merge_options import MergeOptions
from deltaberg.table.rewrite.new_rows import NewRows
from deltaberg.table.rewrite.positions import RowPositions, positions_of
from deltaberg.table.rewrite.rows import Change, DividedChange, Replacement, matched_rows
from deltaberg.table.rewrite.searched_table import SearchedTable
from deltaberg.table.rewrite.target import Rows, RowTarget, change_matching, update_change
from deltaberg.table.rewrite.verbs import RowVerbs
from deltaberg.table.rewrite.whole_files import VectorUnion, with_whole_files

__all__ = [
    "Assignments",
    "Change",
    "ChangedRows",
    "Condition",
    "DividedChange",
    "MatchedRows",
    "MergeBuilder",
    "MergeClause",
    "MergeOptions",
    "NewFiles",
    "NewRows",
    "Replacement",
    "RowCondition",
    "RowCounts",
    "RowIdentity",
    "RowPositions",
    "RowSearch",
    "RowTarget",
    "RowTasks",
    "RowTest",
    "RowVerbs",
    "Rows",
    "SearchedTable",
    "VectorUnion",
    "WrittenChange",
    "bind_assignments",
    "change_matching",
    "condition_text",
    "count_rows",
    "find_rows",
    "matched_rows",
    "matching_rows",
    "positions_of",
    "row_condition",
    "scan_of_rows",
    "search_here",
    "update_change",
    "with_whole_files",
]
