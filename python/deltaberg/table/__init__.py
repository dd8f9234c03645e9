"""What tables of every format share: scans and their execution."""

from __future__ import annotations

from deltaberg.table.scan import Scan, ScanMetrics, ScanOptions
from deltaberg.table.source import ROW, FileSelection, PruneStep, ScanSource

__all__ = ["ROW", "FileSelection", "PruneStep", "Scan", "ScanMetrics", "ScanOptions", "ScanSource"]
