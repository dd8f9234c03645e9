"""Writes that Ctrl-C interrupts at any moment end, and the table is as if each had happened wholly or not at all."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import deltaberg

pytestmark = [pytest.mark.one_backend, pytest.mark.slow]

_ROWS = 120_000

_INTERRUPTED_OFTEN = """
import faulthandler, random, signal, sys
import pyarrow as pa
import deltaberg
root, format, seed, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
rows = pa.table({"part": [number % 6 for number in range(count)], "id": range(count), "x": [0.5] * count})
deltaberg.write_table(root, rows, format=format, partition_by=["part"])
generator = random.Random(seed)
signal.signal(signal.SIGALRM, signal.default_int_handler)
appended = interrupted = 0
# An append may well end before it is interrupted, and the table grows with each.
for _ in range(200):
    if interrupted == 60:
        break
    faulthandler.dump_traceback_later(60, exit=True)
    try:
        signal.setitimer(signal.ITIMER_REAL, generator.uniform(0.001, 0.12))
        deltaberg.open_table(root).append(rows)
        appended += 1
        signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        interrupted += 1
print(appended, interrupted)
"""


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_interrupted_appends(tmp_path: Path, format: str, seed: int) -> None:
    print(f"seed {seed}")
    root = tmp_path / "table"
    command = [sys.executable, "-c", _INTERRUPTED_OFTEN, str(root), format, str(seed), str(_ROWS)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=250, check=False)
    assert ended.returncode == 0, ended.stderr[-3000:]
    appended, interrupted = map(int, ended.stdout.split())
    assert interrupted > 10
    table = deltaberg.open_table(root)
    count = table.scan().count()
    # The table may also have the rows of appends that were interrupted after their commit.
    assert count % _ROWS == 0
    assert 1 + appended <= count // _ROWS <= 1 + appended + interrupted
    assert table.scan(columns=["id"]).to_arrow().num_rows == count
    named = set(table.scan().files().column("file_path").to_pylist())
    # An interruption may come just when a temporary file has been made.
    assert len(list(root.rglob("*.tmp"))) <= 2
    there = {str(path) for path in root.rglob("*.parquet") if "_delta_log" not in path.parts}
    left = there - {path.removeprefix("file://") for path in named}
    print(f"{len(left)} files are left of {interrupted} interrupted appends")
    # An append that cannot know whether its commit arrived leaves its files, one for each partition.
    assert len(left) <= 6 * max(interrupted // 5, 3)
