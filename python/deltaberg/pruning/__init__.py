"""Finding the files and row groups that a filter can skip."""

from __future__ import annotations

from deltaberg.pruning.evaluate import keep_rows, may_match, must_match
from deltaberg.pruning.stats import ColumnStats, FileStats, StatsKey, known_values, stats_key

__all__ = ["ColumnStats", "FileStats", "StatsKey", "keep_rows", "known_values", "may_match", "must_match", "stats_key"]
