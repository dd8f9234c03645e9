"""What tables of every format share: scans and their execution."""

from __future__ import annotations

from deltaberg.table.scan import Scan, ScanMetrics, ScanOptions
from deltaberg.table.source import ROW, ScanSource

__all__ = ["ROW", "Scan", "ScanMetrics", "ScanOptions", "ScanSource"]
