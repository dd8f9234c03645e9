"""Memory is bounded by batches, not by the table: measured in processes of their own."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from tests.support.delta_builder import DeltaBuilder

pytestmark = pytest.mark.one_backend

_MIB = 1 << 20

_SCAN = """
import sys
import pyarrow as pa
import deltaberg
from tests.support.memory import peak_memory
table = deltaberg.open_table(sys.argv[1])
cap = int(sys.argv[2])
for batch in table.scan(limit=1, memory=cap).to_batches():
    pass
before = peak_memory()
rows = size = 0
for batch in table.scan(memory=cap).to_batches():
    rows += batch.num_rows
    size += batch.nbytes
print(rows, size, peak_memory() - before)
"""


def _scan(table: DeltaBuilder, cap: int) -> tuple[int, int, int]:
    """Scan with a memory cap, and give rows, bytes of all batches, and the growth of the peak."""
    command = [sys.executable, "-c", _SCAN, str(table.root), str(cap)]
    finished = subprocess.run(command, capture_output=True, text=True, check=True)
    rows, size, growth = map(int, finished.stdout.split())
    return rows, size, growth


def _numbers(count: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table({name: rng.integers(0, 1 << 62, count) for name in "abcd"})


def test_a_table_ten_times_its_cap(builder: DeltaBuilder, seed: int) -> None:
    cap = 64 * _MIB
    rows = _numbers(1_000_000, seed)
    assert rows.nbytes * 22 >= 10 * cap
    adds = [builder.add(rows, writer={"row_group_size": 250_000, "use_dictionary": False}) for _ in range(22)]
    builder.create(rows.schema, *adds)
    count, size, growth = _scan(builder, cap)
    assert count == 22_000_000
    assert size >= 10 * cap
    assert growth < cap


def test_one_huge_row_group(builder: DeltaBuilder, seed: int) -> None:
    cap = 64 * _MIB
    rows = _numbers(10_000_000, seed)
    builder.create(rows.schema, builder.add(rows, writer={"row_group_size": len(rows), "use_dictionary": False}))
    count, size, growth = _scan(builder, cap)
    assert count == len(rows)
    assert size > 4 * cap
    assert growth < cap


def test_long_texts(builder: DeltaBuilder) -> None:
    cap = 64 * _MIB
    rows = pa.table({"text": [f"{number:06d}" * 20_000 for number in range(1_000)]})
    # A page is decoded as a whole: these are of a megabyte, as most are.
    writer = {"row_group_size": 500, "use_dictionary": False, "write_batch_size": 8}
    adds = [builder.add(rows, writer=writer) for _ in range(8)]
    builder.create(rows.schema, *adds)
    count, size, growth = _scan(builder, cap)
    assert count == 8_000
    assert size > 10 * cap
    assert growth < 2 * cap


def test_a_slow_consumer_does_not_pile_batches_up(builder: DeltaBuilder, seed: int) -> None:
    rows = _numbers(500_000, seed)
    builder.create(rows.schema, *(builder.add(rows, writer={"use_dictionary": False}) for _ in range(30)))
    script = _SCAN.replace("    size += batch.nbytes\n", "    size += batch.nbytes\n    sum(range(200_000))\n")
    command = [sys.executable, "-c", script, str(builder.root), str(32 * _MIB)]
    finished = subprocess.run(command, capture_output=True, text=True, check=True)
    count, size, growth = map(int, finished.stdout.split())
    assert count == 15_000_000
    assert size > 10 * 32 * _MIB
    assert growth < 64 * _MIB
