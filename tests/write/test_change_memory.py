"""The memory that changes of rows take does not grow with the rows of a table, nor with those of a source."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.full, pytest.mark.one_backend]

_CHANGED = """
import sys
import pyarrow as pa
from deltaberg import ParquetOptions, create_table
from deltaberg.table.read import execute
from deltaberg.table.write.spec import WriteSpec
from tests.support.memory import peak_memory

# Less than the table is enough to reach the bytes of rows that wait after they were read, and to be encoded.
execute._DEFAULT_WAITING = 16 << 20
known = WriteSpec.__init__.__defaults__
WriteSpec.__init__.__defaults__ = tuple(48 << 20 if one == 512 << 20 else one for one in known)
assert WriteSpec.__init__.__defaults__ != known
verb, count, root, vectors = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
schema = pa.schema([("n", pa.int64()), ("text", pa.string())])
# Row groups are read and written as a whole.
small = {"writer_properties": ParquetOptions(row_group_size=1 << 20), "target_file_size": 4 << 20}

def rows(first):
    for number in range(first, first + count):
        numbers = range(number * 50_000, (number + 1) * 50_000)
        yield pa.record_batch([numbers, [f"{one * 7919 % 99_991:060}" for one in numbers]], schema)

def stream(first):
    return pa.RecordBatchReader.from_batches(schema, rows(first))

table = create_table(root, schema, properties={"delta.enableDeletionVectors": vectors})
table.append(stream(0), **small)
before = peak_memory()
if verb == "delete":
    done = table.delete("n % 2 = 0", **small)
elif verb == "update":
    done = table.update({"text": "text || 'x'"}, "n % 2 = 0", **small)
elif verb == "upsert":
    done = table.upsert(stream(count // 2), "n", memory=16 << 20, **small)
else:
    merge = table.merge(stream(count // 2), "target.n = source.n", memory=16 << 20, **small)
    merge = merge.when_matched_update({"text": "source.text"}).when_not_matched_insert_all()
    done = merge.when_not_matched_by_source_delete("target.n % 2 = 0").execute()
print(table.scan().count(), int(done.committed), peak_memory() - before)
"""


@pytest.mark.parametrize("vectors", ["false", "true"])
@pytest.mark.parametrize(("verb", "share"), [("delete", 0.5), ("update", 1), ("upsert", 1.5), ("merge", 1.25)])
def test_memory_does_not_grow_with_the_rows(tmp_path: Path, verb: str, share: float, vectors: str) -> None:
    peaks = []
    for count in (60, 150):
        command = [sys.executable, "-c", _CHANGED, verb, str(count), str(tmp_path / str(count)), vectors]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        left, committed, peak = map(int, done.stdout.split())
        assert (left, committed) == (int(count * 50_000 * share), 1)
        peaks.append(peak)
    # The table has 216 and 540 MB of rows, and the source half as many. What buffers may take is full before.
    assert peaks[1] - peaks[0] < 80 << 20, peaks
