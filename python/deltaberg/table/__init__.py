"""What tables of every format share: scans and their execution."""

from __future__ import annotations

from deltaberg.table.arguments import (
    AUTO,
    Instant,
    checked_flag,
    checked_limit,
    checked_map,
    checked_options,
    checked_text,
    parse_instant,
    zone_of,
)
from deltaberg.table.options import ScanOptions, processors, scan_options
from deltaberg.table.scan import Scan, ScanMetrics
from deltaberg.table.source import ROW, FileSelection, PruneStep, ScanSource

__all__ = [
    "AUTO",
    "ROW",
    "FileSelection",
    "Instant",
    "PruneStep",
    "Scan",
    "ScanMetrics",
    "ScanOptions",
    "ScanSource",
    "checked_flag",
    "checked_limit",
    "checked_map",
    "checked_options",
    "checked_text",
    "parse_instant",
    "processors",
    "scan_options",
    "zone_of",
]
