"""Spark Connect: chosen tests run again in a process whose session is remote."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.doors import needs_connect
from tests.support.spark_session import REMOTE

pytestmark = [pytest.mark.spark, needs_connect]

_HERE = Path(__file__).parent
_MODULES = [
    "test_random_tables.py",
    "test_native_road.py",
    "test_native_files.py",
    "test_tasks.py",
    "test_types.py",
    "test_fused.py",
    "test_data_source.py",
    "test_tables.py",
    "test_write_frames.py",
    "test_distributions.py",
    "test_columns.py",
    "test_delta_table.py",
    "test_stream_sources.py",
    "test_stream_sinks.py",
]
#: Tests of each module, of which the first ones run in `make test`.
_FEW = (
    "test_the_schema_is_text or test_our_message or test_rows_without_columns or test_the_quickstart"
    " or test_a_function_of_a_scan_is_written or test_columns_of_the_session or test_tasks_look"
)
_OTHERS = (
    "test_flat_types or test_nested_types or test_void or test_errors_of_the_function"
    " or test_columns or test_change_feed or test_views_and_joins"
    " or (test_every_road and (name or iceberg)) or test_hashes_that_collide"
    " or test_a_frame_is_used_twice or test_row_ids"
    " or test_names_that_are_patterns or test_a_file_that_the_plan"
    " or test_a_large_table_is_not or test_rows_do_not_depend or test_vectors_mapping"
    " or test_a_table_without_rows or test_one_file_says"
    " or test_row_lineage or test_partitions_have or test_ranges_of_a_sorted_table"
    " or test_merges_with_all"
)
#: Sources and sinks of streams. Over Connect, a test does not see what foreachBatch collects in the server.
_STREAMS = "test_a_function_runs_where_a_stream or test_each_batch_is_in or test_complete_mode"


@pytest.mark.timeout(660)
@pytest.mark.parametrize(
    ("chosen", "least"),
    [
        pytest.param(_FEW, 8, id="few"),
        pytest.param(f"not ({_FEW}) and ({_OTHERS})", 45, id="others", marks=pytest.mark.full),
        pytest.param(_STREAMS, 7, id="streams", marks=pytest.mark.full),
    ],
)
def test_the_doors_over_connect(chosen: str, least: int) -> None:
    command = [sys.executable, "-m", "pytest", "--quiet", "-p", "no:cacheprovider", "--color=no", "-k", chosen]
    finished = subprocess.run(
        [*command, *(str(_HERE / module) for module in _MODULES)],
        cwd=_HERE.parents[1],
        # The workers of the server import the functions that the tests define.
        env={**os.environ, REMOTE: "1", "PYTHONPATH": str(_HERE.parents[1])},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert finished.returncode == 0, finished.stdout[-4000:] + finished.stderr[-4000:]
    passed = re.search(r"(\d+) passed", finished.stdout)
    assert passed is not None
    assert int(passed[1]) >= least
