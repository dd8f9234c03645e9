"""The memory that a compaction takes does not depend on the size of a group."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import pytest

pytestmark = [pytest.mark.one_backend]

#: One file is generated, of rows that do not compress, and the table names it under many names.
_COMPACTED = """
import json, os, sys
from pathlib import Path
import pyarrow as pa
from deltaberg import DeltaTable, create_table
from deltaberg.table.maintain.compact import _MEMORY
from tests.support.memory import peak_memory

root, size, group, share, order = Path(sys.argv[1]), *map(int, sys.argv[2:5]), sys.argv[5]
schema = pa.schema([("a", pa.int64()), ("b", pa.int64()), ("c", pa.binary(16))])
count = 20_000

def rows():
    for _ in range(size // (32 * count)):
        columns = [pa.py_buffer(os.urandom(count * width)) for width in (8, 8, 16)]
        arrays = [pa.Array.from_buffers(kind, count, [None, data]) for kind, data in zip(schema.types, columns)]
        yield pa.record_batch(arrays, schema)

create_table(root, schema).append(pa.RecordBatchReader.from_batches(schema, rows()), target_file_size=size * 2)
log = root / "_delta_log"
actions = [json.loads(line) for line in (log / f"{1:020}.json").read_text().splitlines()]
(add,) = (action["add"] for action in actions if "add" in action)
adds = []
for number in range(group // add["size"]):
    os.link(root / add["path"], root / f"link-{number}.parquet")
    adds.append(json.dumps({"add": add | {"path": f"link-{number}.parquet"}}))
(log / f"{2:020}.json").write_text("\\n".join(adds))
table = DeltaTable(root)
# What is loaded once does not count.
table.scan("a = 1").count()
before = peak_memory()
options = {"target_file_size": 4 * size, "memory": _MEMORY // share}
done = table.compact(**options, **({"z_order_by": ["a", "b"]} if order == "z-order" else {}))
print(len(done.groups), done.removed_files, done.removed_bytes, peak_memory() - before)
"""


class _Peak(NamedTuple):
    size: int
    memory: int


def _peak(folder: Path, size: int, group: int, share: int, order: str) -> _Peak:
    """Compact one group in a process of its own, in a folder that is then removed, and return its size and the peak."""
    place = Path(tempfile.mkdtemp(dir=folder))
    try:
        command = [sys.executable, "-c", _COMPACTED, str(place / "t"), *map(str, (size, group, share)), order]
        # Runs of rows that are sorted are stored there, too.
        environment = os.environ | {"TMPDIR": str(place)}
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    finally:
        shutil.rmtree(place)
    groups, files, found, memory = map(int, done.stdout.split())
    assert groups == 1
    assert files >= group // (size * 2)
    assert found >= 0.9 * group
    return _Peak(found, memory)


@pytest.mark.slow
@pytest.mark.parametrize("order", ["packed", "z-order"])
@pytest.mark.req("DL-OPT-12", half="writer")
def test_memory_does_not_depend_on_the_group(tmp_path: Path, order: str) -> None:
    """With a sixteenth of the memory, groups of 32 and of 160 MiB show it."""
    peaks = [_peak(tmp_path, 6 << 20, group, 16, order) for group in (32 << 20, 160 << 20)]
    assert abs(peaks[1].memory - peaks[0].memory) < 32 << 20, peaks
    assert max(peak.memory for peak in peaks) < 160 << 20, peaks


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("order", ["packed", "z-order"])
@pytest.mark.req("DL-OPT-12", half="writer")
def test_groups_of_2_and_of_10_gib_take_the_same_memory(order: str) -> None:
    """The group is on a disk, with as many bytes again for new files, and for rows that are sorted."""
    folder = Path("/var/tmp")
    if shutil.disk_usage(folder).free < 30 << 30:
        pytest.skip("needs 30 GiB of disk")
    peaks = [_peak(folder, 128 << 20, group << 30, 1, order) for group in (2, 10)]
    assert max(peak.memory for peak in peaks) < 512 << 20, peaks
    assert abs(peaks[1].memory - peaks[0].memory) < 96 << 20, peaks
