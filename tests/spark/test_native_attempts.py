"""Tasks of the native road that are tried again: what failed attempts have written is not part of the table."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from deltaberg import open_table
from tests.spark.doors import needs_native_writes
from tests.support.spark_session import REMOTE

pytestmark = [pytest.mark.spark, pytest.mark.one_backend, pytest.mark.slow, needs_native_writes]

#: Each of two tasks fails in the middle of its rows, when it is tried for the first time.
_WRITE = """
import json, sys
from pathlib import Path
import pyarrow as pa
from pyspark import TaskContext
from deltaberg import create_table
from tests.support.spark_session import start_session

given = list(sys.argv)

def failing(batches):
    for batch in batches:
        yield batch
        context = TaskContext.get()
        Path(given[2], f"{context.partitionId()}-{context.attemptNumber()}").touch()
        if context.attemptNumber() == 0:
            raise RuntimeError("the first attempt")

spark = start_session(spark__master="local[2, 3]", spark__sql__execution__arrow__maxRecordsPerBatch="100")
table = create_table(sys.argv[1], pa.schema([("id", pa.int64())]))
result = table.append(spark.range(0, 1000, 1, 2).mapInArrow(failing, "id bigint"))
print(json.dumps([result.road, result.added_files, result.added_rows]))
spark.stop()
"""


def test_tasks_that_are_tried_again_leave_no_duplicates(tmp_path: Path) -> None:
    path, attempts = tmp_path / "t", tmp_path / "attempts"
    attempts.mkdir()
    classic = {name: value for name, value in os.environ.items() if name != REMOTE}
    command = [sys.executable, "-c", _WRITE, str(path), str(attempts)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=classic)
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout.splitlines()[-1]) == ["native", 2, 1000]
    assert sorted(attempt.name for attempt in attempts.iterdir()) == ["0-0", "0-1", "1-0", "1-1"]
    assert sorted(open_table(path).scan().to_arrow()["id"].to_pylist()) == list(range(1000))
    files = [file for file in path.rglob("*") if file.is_file() and "_delta_log" not in file.parts]
    assert len(files) == 2
