"""Writing data files with statistics, a file at a time."""

from __future__ import annotations

from deltaberg.files.write.footers import FooterFacts
from deltaberg.files.write.forms import FORMS, OrcOptions
from deltaberg.files.write.parquet import CODECS, DataFile, FileForm, ParquetOptions, leaf_columns, main_codec
from deltaberg.files.write.statistics import CutBounds, StatisticsPlan, StatisticsTaker
from deltaberg.files.write.written import WrittenFile, leaf_paths, written_leaves, written_rows, written_schema

__all__ = [
    "CODECS",
    "FORMS",
    "CutBounds",
    "DataFile",
    "FileForm",
    "FooterFacts",
    "OrcOptions",
    "ParquetOptions",
    "StatisticsPlan",
    "StatisticsTaker",
    "WrittenFile",
    "leaf_columns",
    "leaf_paths",
    "main_codec",
    "written_leaves",
    "written_rows",
    "written_schema",
]
