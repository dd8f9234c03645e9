"""Changing rows of a table of any format: which rows, and what the files hold without them or with others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltaberg.lazy_names import lazy_names

if TYPE_CHECKING:
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
    from deltaberg.table.rewrite.conditions import row_condition
    from deltaberg.table.rewrite.match import (
        DividedTest,
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
    from deltaberg.table.rewrite.target import Rows, RowTarget, change_matching, update_change
    from deltaberg.table.rewrite.whole_files import VectorUnion, with_whole_files

__all__ = [
    "Assignments",
    "Change",
    "ChangedRows",
    "DividedChange",
    "DividedTest",
    "MatchedRows",
    "MergeBuilder",
    "MergeClause",
    "MergeOptions",
    "NewFiles",
    "NewRows",
    "Replacement",
    "RowCounts",
    "RowIdentity",
    "RowPositions",
    "RowSearch",
    "RowTarget",
    "RowTasks",
    "RowTest",
    "Rows",
    "VectorUnion",
    "WrittenChange",
    "bind_assignments",
    "change_matching",
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

# A table that is read needs none of the work that changes rows.
_HOMES = {
    "Assignments": "assignments",
    "Change": "rows",
    "ChangedRows": "changed_rows",
    "DividedChange": "rows",
    "DividedTest": "match",
    "MatchedRows": "match",
    "MergeBuilder": "clauses",
    "MergeClause": "clauses",
    "MergeOptions": "merge_options",
    "NewFiles": "changed_rows",
    "NewRows": "new_rows",
    "Replacement": "rows",
    "RowCounts": "changed_rows",
    "RowIdentity": "changed_rows",
    "RowPositions": "positions",
    "RowSearch": "match",
    "RowTarget": "target",
    "RowTasks": "changed_rows",
    "RowTest": "match",
    "Rows": "target",
    "VectorUnion": "whole_files",
    "WrittenChange": "changed_rows",
    "bind_assignments": "assignments",
    "change_matching": "target",
    "count_rows": "match",
    "find_rows": "match",
    "matched_rows": "rows",
    "matching_rows": "match",
    "positions_of": "positions",
    "row_condition": "conditions",
    "scan_of_rows": "match",
    "search_here": "match",
    "update_change": "target",
    "with_whole_files": "whole_files",
}

if not TYPE_CHECKING:
    __getattr__ = lazy_names(__name__, _HOMES)
