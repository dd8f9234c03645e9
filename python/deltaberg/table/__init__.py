"""What tables of every format share: scans and their execution."""

from __future__ import annotations

from deltaberg.table.arguments import AUTO, Instant, checked_map, parse_instant, scan_options, zone_of
from deltaberg.table.scan import Scan, ScanMetrics, ScanOptions
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
    "checked_map",
    "parse_instant",
    "scan_options",
    "zone_of",
]
