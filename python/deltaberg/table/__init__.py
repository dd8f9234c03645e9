"""The parts that tables of both formats share: how they are opened, scans and how they are executed, and commits."""

from __future__ import annotations

from deltaberg.table.arguments import (
    AUTO,
    Instant,
    checked_choice,
    checked_flag,
    checked_integer,
    checked_limit,
    checked_note,
    checked_number,
    checked_properties,
    checked_text,
    checked_texts,
    checked_type,
    integer_of,
    parse_instant,
    zone_of,
)
from deltaberg.table.commit import (
    ClockedPolicy,
    CommitPolicy,
    CommitResult,
    Fate,
    checked_policy,
    commit_change,
)
from deltaberg.table.not_found import table_not_found
from deltaberg.table.opening import OpenOptions
from deltaberg.table.read.options import ScanOptions, processors, scan_options
from deltaberg.table.read.scan import Scan, ScanMetrics
from deltaberg.table.read.source import (
    FILE_NUMBER,
    FileSelection,
    PruneStep,
    ScanSource,
    require_free_names,
    total_size,
)

__all__ = [
    "AUTO",
    "FILE_NUMBER",
    "ClockedPolicy",
    "CommitPolicy",
    "CommitResult",
    "Fate",
    "FileSelection",
    "Instant",
    "OpenOptions",
    "PruneStep",
    "Scan",
    "ScanMetrics",
    "ScanOptions",
    "ScanSource",
    "checked_choice",
    "checked_flag",
    "checked_integer",
    "checked_limit",
    "checked_note",
    "checked_number",
    "checked_policy",
    "checked_properties",
    "checked_text",
    "checked_texts",
    "checked_type",
    "commit_change",
    "integer_of",
    "parse_instant",
    "processors",
    "require_free_names",
    "scan_options",
    "table_not_found",
    "total_size",
    "zone_of",
]
