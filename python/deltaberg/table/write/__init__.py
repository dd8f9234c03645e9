"""Writing rows to the data files of a table of any format."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltaberg.lazy_names import lazy_names

if TYPE_CHECKING:
    from deltaberg.table.write.places import can_be_directories
    from deltaberg.table.write.progress import Progress, ProgressSum, WriteProgress
    from deltaberg.table.write.row_options import RowOptions, naming_overwrite
    from deltaberg.table.write.row_rules import ColumnFill, RowCheck, RowRules, empty_to_null
    from deltaberg.table.write.rows import LOCAL_ROAD, Rows, WriteRoad, open_rows, roads_together
    from deltaberg.table.write.spec import PartitionField, WriteSpec, partition_columns
    from deltaberg.table.write.staged import PlannedRows, StagedFiles, WrittenRows
    from deltaberg.table.write.stream import all_rows, can_be_read_again
    from deltaberg.table.write.table_rules import TableRules
    from deltaberg.table.write.write import write_files

__all__ = [
    "LOCAL_ROAD",
    "ColumnFill",
    "PartitionField",
    "PlannedRows",
    "Progress",
    "ProgressSum",
    "RowCheck",
    "RowOptions",
    "RowRules",
    "Rows",
    "StagedFiles",
    "TableRules",
    "WriteProgress",
    "WriteRoad",
    "WriteSpec",
    "WrittenRows",
    "all_rows",
    "can_be_directories",
    "can_be_read_again",
    "empty_to_null",
    "naming_overwrite",
    "open_rows",
    "partition_columns",
    "roads_together",
    "write_files",
]

# A table that is read needs none of the work that writes rows.
_HOMES = {
    "ColumnFill": "row_rules",
    "LOCAL_ROAD": "rows",
    "PartitionField": "spec",
    "PlannedRows": "staged",
    "Progress": "progress",
    "ProgressSum": "progress",
    "RowCheck": "row_rules",
    "RowOptions": "row_options",
    "naming_overwrite": "row_options",
    "RowRules": "row_rules",
    "Rows": "rows",
    "StagedFiles": "staged",
    "TableRules": "table_rules",
    "WriteProgress": "progress",
    "WriteRoad": "rows",
    "WriteSpec": "spec",
    "WrittenRows": "staged",
    "all_rows": "stream",
    "can_be_directories": "places",
    "can_be_read_again": "stream",
    "empty_to_null": "row_rules",
    "open_rows": "rows",
    "partition_columns": "spec",
    "roads_together": "rows",
    "write_files": "write",
}

if not TYPE_CHECKING:
    __getattr__ = lazy_names(__name__, _HOMES)
